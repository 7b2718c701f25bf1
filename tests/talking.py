"""What tests of talks share: a home that finds by words, a model that says what a test wrote, and a loop of one's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import edgemem
from edgemem import Memory
from edgemem.hooks import BEFORE_LLM, ON_RUN_END, ON_RUN_START, AgentResult, HookRegistry, TurnContext
from edgemem.records import Message, Reply, Session

WORDS_ONLY = '[llama]\nembedder = ""\n[store]\ncommit_wait_s = 60\n[tools]\nwrite_wait_s = 60\n'
"""No embedder, and as long for the disk as it takes: a test's disk may be busy."""


def opened(home: Path, more: str = "", **options: Any) -> Memory:
    """Open a home that finds by words, without a thread of its own; `more` stands in its profile too."""
    home.mkdir(exist_ok=True)
    (home / "edgemem.toml").write_text(WORDS_ONLY + more)
    return edgemem.open(home, **{"worker": False, "watch": False, **options})


class Model:
    """Gives or raises its answers one after the other, then says `otherwise`; keeps what it was handed."""

    def __init__(self, *answers: str | Reply | BaseException, otherwise: str = "ok") -> None:
        self.answers = list(answers)
        self.otherwise = otherwise
        self.handed: list[list[Message]] = []
        self.meanwhile: Callable[[], None] = lambda: None
        """Called while it answers."""
        self.stopped: list[bool] = []
        """Whether it was stopped then, for each answer."""
        self.cuts: list[str] = []

    def complete(
        self, messages: Sequence[Message], *, stop: Callable[[], bool] = lambda: False, **_: Any
    ) -> Reply:
        self.handed.append(list(messages))
        self.meanwhile()
        self.stopped.append(stop())
        answer = self.answers.pop(0) if self.answers else self.otherwise
        if isinstance(answer, BaseException):
            raise answer
        return Reply(answer) if isinstance(answer, str) else answer

    def cut(self, heard_text: str) -> None:
        self.cuts.append(heard_text)


class OwnLoop:
    """The loop of the README: it fires the points, and keeps a list of what was said."""

    def __init__(self, hooks: Any, session: Session | None = None) -> None:
        self.hooks = HookRegistry(hooks)
        self.ctx = TurnContext(session or Session())

    @property
    def said(self) -> list[Message]:
        """Return the loop's list."""
        return self.ctx.session.messages

    def begin(self, text: str, speaker: str | None, *, private: bool = False) -> None:
        """Tell the hooks who said what."""
        self.hooks.fire(ON_RUN_START, self.ctx, {"task": text, "speaker": speaker, "private": private})

    def ask(self, hop: int = 0) -> list[Message]:
        """Return what the model is handed."""
        asked = {"messages": self.said, "hop": hop, "tools": []}
        handed: list[Message] = self.hooks.fire(BEFORE_LLM, self.ctx, asked).payload["messages"]
        return [dict(message) for message in handed]

    def fail(self, text: str, speaker: str | None, *, private: bool = False) -> list[Message]:
        """Live a turn whose model raises, of which the hooks are told nothing; return what the model was handed."""
        self.begin(text, speaker, private=private)
        self.said.append({"role": "user", "content": text})
        return self.ask()

    def end(self, reply: str = "Fine.") -> None:
        """Keep the reply, and tell the hooks that the turn is over."""
        self.said.append({"role": "assistant", "content": reply})
        self.hooks.fire(ON_RUN_END, self.ctx, AgentResult(reply))

    def run(self, text: str, speaker: str | None, *, private: bool = False) -> list[Message]:
        """Live a whole turn; return what the model was handed."""
        handed = self.fail(text, speaker, private=private)
        self.end()
        return handed
