"""Tools: actions of the robot that a model may call, and the turn in which one is called."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

import msgspec

from edgemem.context.prompt.log import PromptLog
from edgemem.records import BlockLine, Heard, Reader, Session
from edgemem.scopes import Level
from edgemem.session.log import STATE_KEY, SessionLog
from edgemem.store.erase.copies import Erased

CALLED: ContextVar[ToolTurn | None] = ContextVar("edgemem_called", default=None)
"""The turn in which a tool is called that a loop runs itself, in its thread."""


def never() -> bool:
    """Return False: nobody has cut the robot off."""
    return False


class ToolTurn(msgspec.Struct, frozen=True):
    """The turn in which a tool is called: who said what, as the hooks left it at the turn's start."""

    utterance: str
    reader: Reader
    """Who spoke, and who else hears the answer."""
    heard: Heard | None = None
    private: bool = False
    """Whether only the speaker may ever be reminded of this turn."""
    session: Session = msgspec.field(default_factory=Session)
    n: int = 0
    """Counts the turns of the loop."""
    stop: Callable[[], bool] = never
    """Whether the robot was cut off: a long tool asks now and then, and a tool that runs another agent hands it on."""

    @property
    def log(self) -> SessionLog | None:
        """The log of this session; None where no memory keeps one."""
        log = self.session.state.get(STATE_KEY)
        return log if isinstance(log, SessionLog) else None

    @property
    def prompt_log(self) -> PromptLog | None:
        """The prompt log of the prompt that this turn runs in, if the memory's hooks lay it out."""
        prompt_log = self.log.prompt_log if self.log is not None else None
        return prompt_log if prompt_log is not None and prompt_log.running is not None else None

    @property
    def is_private(self) -> bool:
        """Tell whether only the speaker may read what was said: so it began, or a tool has kept it for them alone."""
        log = self.prompt_log
        running = None if log is None else log.running
        return self.private or (running is not None and running.level == "private")

    def close(self, level: Level, *, utterance: bool = False) -> None:
        """Let no more people read the answer than a level says.

        Args:
            utterance: what was said, too.
        """
        if self.prompt_log is not None:
            self.prompt_log.close(level, utterance=utterance)

    def level_of_write(self, level: Level, *texts: str) -> Level:
        """Return the level at which a tool may write texts, the value last: the one that it was asked to, or a closer one."""
        return level if self.prompt_log is None else self.prompt_log.level_of_write(level, *texts)

    def forget(self, erased: Erased) -> None:
        """Keep a fact that is erased out of the records that the log is still to write."""
        if self.log is not None:
            self.log.forget(erased)

    def note_shown(self, items: Iterable[BlockLine]) -> None:
        """Note what a tool tells the model: the turn becomes as private as that, and no block tells it again."""
        if self.prompt_log is not None:
            for item in items:
                # Without a line, the prompt stays as the model has seen it.
                self.prompt_log.put(f"tool {item.id}", [msgspec.structs.replace(item, line="")])


def asked_in(turn: ToolTurn | None, speaker: str | None) -> ToolTurn:
    """Return the turn of a call, with who asks; outside of any turn, one with the number -1.

    Args:
        speaker: who speaks where the loop does not say it; None: an unknown voice.
    """
    turn = turn or ToolTurn("", Reader(), n=-1)
    return msgspec.structs.replace(turn, reader=Reader(turn.reader.speaker or speaker, turn.reader.audience))


class Tool(msgspec.Struct, frozen=True):
    """Something the robot can do."""

    name: str
    description: str
    parameters: dict[str, Any]
    """A JSON schema."""
    run: Callable[..., Any]
    wants_turn: bool = False
    """Whether `run` takes the ToolTurn before the arguments."""

    @property
    def __edgevox_tool__(self) -> Any:
        """Return it as EdgeVox's agents take it."""

        def call(**arguments: Any) -> Any:
            return self.run(*((CALLED.get(),) if self.wants_turn else ()), **arguments)

        tools = importlib.import_module("edgevox.llm.tools")
        return tools.Tool(self.name, self.description, self.parameters, call)

    def schema(self) -> dict[str, Any]:
        """Return the schema that a chat template prints."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}
