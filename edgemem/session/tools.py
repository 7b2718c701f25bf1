"""Tools: actions of the robot that a model may call, the turn of a call, and what the session keeps of its result.

Of a long result the beginning and the end stay, with how much is left out; the whole text is kept with the turn where the
session is kept in SQLite, for the operator and the export. An episode tells the outcome of each call.
"""

from __future__ import annotations

import copy
import importlib
import threading
import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.context.messages import call_arguments, call_name
from edgemem.context.prompt import PromptLog, PromptTurn
from edgemem.errors import InvalidInputError
from edgemem.fence import sign_start
from edgemem.records import MEMORY_TOOLS, WRITING_TOOLS, BlockLine, Heard, Reader, Session, as_ours
from edgemem.scopes import Level, most_private
from edgemem.session.log import Moment, SessionLog
from edgemem.session.points import STATE_KEY, ToolCallResult, as_text, short_text
from edgemem.store.episodes import TOOL_CALL
from edgemem.store.erase.copies import Erased
from edgemem.store.memory_store import TableMemoryStore
from edgemem.store.protocols import MemoryStore, abilities_of
from edgemem.store.spool import DeferredWrites
from edgemem.store.turn_steps import AddEpisode, KeepOutput, RetellTurn
from edgemem.store.turns import pointer_to
from edgemem.store.validation import whole_number

if TYPE_CHECKING:
    from edgemem.context.budget import Budget
    from edgemem.llama.protocols import Tokenizer
    from edgemem.store.thoughts import NeverAloud

KEPT_BYTES = 8_000_000
"""Bytes of shortened results that are kept whole, of all sessions together; the oldest are dropped."""

MIN_CHARS = 200  # a smaller bound would hold little but the note about the rest

SHARE_OF_WINDOW = 0.5
"""Share of a prompt's room that all results of one turn may take; each gets half of what the ones before it have left."""

SHARE_OF_END = 0.25  # share of a shortened text that its end takes

RESULT_CHARS = 500  # a longer result or argument is cut in the episode; the session keeps the whole of it

MOST_ARGUMENTS = 16
"""Arguments that an episode keeps; with their longest names and values they stay below what a payload may have."""

NAME_CHARS = 64

UNKEPT = "Nothing was kept: this is off the record."

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
    stop: Callable[[], bool] = never
    """Whether the robot was cut off: a long tool asks now and then, and a tool that runs another agent hands it on."""
    turn: Any = None
    """The turn of the door; None outside of one."""

    @property
    def log(self) -> SessionLog | None:
        """The log of this session; None where no memory keeps one."""
        log = self.session.state.get(STATE_KEY)
        return log if isinstance(log, SessionLog) else None

    @property
    def prompt_log(self) -> PromptLog | None:
        """The prompt log that this turn runs in, if the memory's hooks lay it out; None once the turn has ended."""
        prompt_log = self.log.prompt_log if self.log is not None else None
        running = None if prompt_log is None else prompt_log.running
        is_own = self.turn is None or self.turn.prompt_turn is running
        return prompt_log if running is not None and is_own else None

    @property
    def prompt_turn(self) -> PromptTurn | None:
        """The turn as prompts have it, also once it has ended."""
        own: PromptTurn | None = None if self.turn is None else self.turn.prompt_turn
        return own if self.turn is not None or self.prompt_log is None else self.prompt_log.running

    @property
    def is_inner(self) -> bool:
        """Tell whether an agent within a tool has called: what it says is nobody's."""
        return self.turn is not None and self.turn.outer is not None

    @property
    def is_private(self) -> bool:
        """Tell whether only the speaker may read the utterance: so it began, or a tool has kept it for them alone."""
        turn = self.prompt_turn
        return self.private or (turn is not None and turn.level == "private")

    @property
    def is_off_the_record(self) -> bool:
        """Tell whether nothing of the turn is kept."""
        return self.prompt_turn is not None and self.prompt_turn.unkept

    def close(self, level: Level, *, utterance: bool = False) -> None:
        """Make the answer, and with `utterance` that too, at least as private as a level."""
        if self.prompt_log is not None:
            self.prompt_log.close(level, utterance=utterance)
        elif self.prompt_turn is not None:
            self.prompt_turn.close(level)

    def level_of_write(self, level: Level, *texts: str) -> Level:
        """Return the level at which a tool may write texts, the value last: the one that it asks for, or a closer one."""
        if self.prompt_log is not None:
            return self.prompt_log.level_of_write(level, *texts)
        return level if self.prompt_turn is None else most_private(level, self.prompt_turn.answer)

    def forget(self, erased: Erased) -> None:
        """Keep an erased fact out of the records that the log is still to write."""
        if self.log is not None:
            self.log.forget(erased)

    def note_shown(self, items: Iterable[BlockLine]) -> None:
        """Note the items that a tool tells the model: the turn becomes as private as they are, and no block tells them again."""
        for item in items:
            if self.prompt_log is not None:
                # Without a line, the prompt stays as the model has seen it.
                self.prompt_log.put(f"tool {item.id}", [msgspec.structs.replace(item, line="")])
            else:
                self.close(item.level)


def asked_in(turn: ToolTurn | None, speaker: str | None) -> ToolTurn:
    """Return the turn of a call; outside of any turn, one with the number -1 for this speaker (None: an unknown voice)."""
    return turn or ToolTurn("", Reader(speaker), n=-1)


class Tool(msgspec.Struct, frozen=True):
    """Something the robot can do."""

    name: str
    description: str
    parameters: dict[str, Any]
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


def redacted_tool(tool: Tool, never_aloud: Callable[[], NeverAloud], speaker: str | None) -> Tool:
    """Return a tool that keeps nothing off the record, and whose answers hold no value that is never aloud; a screen may.

    `speaker` counts where the loop names none.
    """

    def run(turn: ToolTurn | None = None, /, **arguments: Any) -> str:
        asked, before = asked_in(turn, speaker), never_aloud()
        if asked.is_off_the_record and tool.name in WRITING_TOOLS and arguments.get("action") != "read":
            return UNKEPT
        text = tool.run(turn, **arguments)
        display = [] if asked.prompt_turn is None else asked.prompt_turn.display
        for known in (before, never_aloud()):  # one that the tool erases, and one that it keeps
            text = known.redact(text, asked.reader, display)
        return str(text)

    return msgspec.structs.replace(tool, run=run)


class ToolResults:
    """Shortens results of tools to a number of characters, and to what the window has room for.

    Args:
        max_chars: the most characters of a result, its note about the rest included; at least 200.
        budget: says what a whole prompt may have; None: only `max_chars` bounds a result.
        keep_bytes: bytes of shortened results that are kept whole, of all sessions together, oldest dropped first;
            0: nothing. Only a session that is kept in SQLite keeps anything.

    Raises:
        InvalidInputError: `max_chars` is less than that.
    """

    name = "results"

    def __init__(self, max_chars: int = 2000, *, budget: Budget | None = None, keep_bytes: int = 0) -> None:
        if whole_number(max_chars, "max_chars") < MIN_CHARS:
            raise InvalidInputError(f"max_chars must be at least {MIN_CHARS}; it is {max_chars}.")
        self.max_chars = max_chars
        self.keep_bytes = keep_bytes
        self._budget = budget

    def shorten(self, moment: Moment) -> None:
        """Replace the payload by a copy with a shorter result, where that is too long."""
        payload = moment.payload
        text = answer_text(payload)
        if text is None:
            return
        # The memory's own tools know their bounds, and can be asked again; only the window bounds them.
        room = len(text) if payload.name in MEMORY_TOOLS else self.max_chars
        if self._budget is not None:
            most = int(SHARE_OF_WINDOW * self._budget.plan.room - moment.log.result_tokens) // 2
            room = max(MIN_CHARS, fitting_chars(text[:room], most, self._budget.tokenizer))
            moment.log.result_tokens += max(0, min(most, byte_count(text[:room])))
        if len(text) <= room:
            return
        shown = shorten(text, room, self._keep(moment.log, text))
        # A copy: the payload of another framework is no record of ours, and others may hold it.
        shortened = copy.copy(payload)
        if payload.result is None:
            shortened.error = shown
        else:
            shortened.result = shown
        moment.payload = shortened

    def _keep(self, log: SessionLog, text: str) -> str:
        """Have the whole text written with its turn; return its name, or nothing if it cannot be kept."""
        if log.journal is None or byte_count(text) > self.keep_bytes:
            return ""
        pointer = pointer_to(log.prompt_log.session, text)
        step = KeepOutput(log.prompt_log.session, pointer, text, self.keep_bytes)
        if step not in log.turn_writes:
            log.turn_writes.append(step)
        return pointer


def answer_text(payload: Any) -> str | None:
    """Return the text of a call for the model: its result, or, where it failed, why."""
    if payload.result is None:
        return payload.error if isinstance(payload.error, str) else None
    return payload.result if isinstance(payload.result, str) else as_text(payload.result)


def result_text(result: ToolCallResult) -> str:
    """Return the text of a result for the model."""
    value = result.result
    if result.error is not None:
        # A hook may have put advice where a failed tool has no result.
        value = {"error": result.error, **(value if isinstance(value, dict) else {})}
    return value if isinstance(value, str) else as_text(value)


def byte_count(text: str) -> int:
    """Return the bytes of a text: no vocabulary takes more tokens for it than these."""
    return len(text.encode(errors="replace"))


def fitting_chars(text: str, most_tokens: int, tokenizer: Tokenizer) -> int:
    """Return how many characters of the beginning of a text take at most so many tokens."""
    room = len(text)
    while room > MIN_CHARS and byte_count(text[:room]) > most_tokens:
        tokens = len(tokenizer.encode(text[:room]))
        if tokens <= most_tokens:
            break
        room = max(MIN_CHARS, min(room * max(most_tokens, 0) // tokens, room - 1))
    return room


def shorten(text: str, max_chars: int, name: str = "") -> str:
    """Return `max_chars` of a text's beginning and end, with a note between on the rest, and on the `name` of the whole."""
    if len(text) <= max_chars:
        return text
    room = max_chars - len(_note(len(text), len(text), name))
    tail = int(room * SHARE_OF_END)
    begin, end = sign_start(text, room - tail), sign_start(text, len(text) - tail, forward=True)
    return f"{text[:begin].rstrip()}{_note(end - begin, len(text), name)}{text[end:].lstrip()}"


def _note(missing: int, total: int, name: str) -> str:
    kept = f", kept as {name}" if name else ""
    return f"\n… ({missing:,} of {total:,} characters left out{kept}) …\n"


class ToolEpisodes:
    """Logs the outcome of every tool call.

    Where the session is kept in the same SQLite file, episodes are written in the turn's own transaction, and a turn with several
    calls has one more that tells of all of them. Any other store that cannot be written now keeps no turn waiting.
    """

    name = "episodes"

    def __init__(self, store: MemoryStore, agent_name: str = "") -> None:
        self.store = store
        self.agent_name = agent_name
        self._database = abilities_of(store).database
        self._later = DeferredWrites(store)
        self._begun: dict[str, float] = {}
        """When the running calls began; some frameworks run several at once, each in a thread."""
        self._lock = threading.Lock()

    def begin(self, moment: Moment) -> None:
        """Take the time at which a tool begins."""
        self._begun[call_key(moment.payload)] = time.perf_counter()

    def end(self, moment: Moment) -> None:
        """Have all written that the store has not written yet."""
        journal = moment.log.journal
        if journal is not None and journal.database is self._database:
            self._begun.clear()  # not at the end of an agent within a tool, whose conversation nobody keeps
            return
        ended, moment.log.ended = moment.log.ended, []
        self._later.retry()
        for step in ended:
            self._keep(step)
        self._later.settle(moment.log.commit_wait_s)

    def _keep(self, step: AddEpisode) -> None:
        level, owner = step.level, step.owner
        if level == "private" and not owner:
            return  # an unknown voice in private: no store keeps what nobody could ever be told
        store, of = self.store, (step.kind, step.payload, step.outcome)
        if isinstance(store, TableMemoryStore):
            whose: dict[str, Any] = {"heard": step.heard, "level": level, "owner": owner}
            # Nobody waits for a disk here; the wait at the end of the turn has a bound.
            self._later.write(
                lambda: store.add_episode(*of, agent=step.agent, latency_ms=step.latency_ms, **whose)
            )
        elif level != "private":
            # Such a store shows an episode to the whole household.
            store.add_episode(*of, agent=step.agent)

    def note(self, moment: Moment) -> None:
        """Keep the outcome of one call."""
        log, payload = moment.log, moment.payload
        now, begun = time.perf_counter(), self._begun.pop(call_key(payload), None)
        latency_ms = None if begun is None else round((now - begun) * 1e3, 1)
        if payload.name in MEMORY_TOOLS:  # what they did is a fact already, and need not be an episode too
            return
        agent = self.agent_name or moment.ctx.agent_name
        outcome = "ok" if payload.error is None else "failed"
        record = {"name": payload.name[:NAME_CHARS], "args": _short_arguments(payload.arguments)}
        if payload.error is None:
            record["result"] = short_text(payload.result, RESULT_CHARS)
        else:
            record["error"] = short_text(payload.error, RESULT_CHARS)
        turn = log.prompt_log.running
        heard = turn.heard if turn is not None else None
        most = abilities_of(self.store).max_episodes
        step = AddEpisode(
            TOOL_CALL,
            record,
            outcome,
            agent=agent,
            heard=heard,
            keep=500 if most is None else most,
            session=log.prompt_log.session,
            latency_ms=latency_ms,
        )
        if turn is None:
            self._keep(msgspec.structs.replace(step, level="household"))
            return
        with self._lock:
            if log.is_kept_in(self._database):
                log.turn_writes.append(step)
                _retell(log, step)
            else:
                log.done.append(step)

    def keep_result(self, moment: Moment) -> None:
        """Keep the outcome of a call that answered after its turn."""
        late = moment.payload
        name, turn = call_name(late.call), late.turn
        if name in MEMORY_TOOLS or not isinstance(self.store, TableMemoryStore):
            return
        record: dict[str, Any] = {"name": name[:NAME_CHARS], "result": short_text(late.text, RESULT_CHARS)}
        record["args"] = _short_arguments(call_arguments(late.call))
        agent, whose = self.agent_name or moment.ctx.agent_name, (turn.heard, turn.answer, turn.owner)
        self._keep(AddEpisode(TOOL_CALL, record, "ok", agent, *whose))
        self._later.settle(moment.log.commit_wait_s)


class _Call(msgspec.Struct, frozen=True):
    id: str = ""


def call_key(payload: Any) -> str:
    """Return a key of a running call; frameworks without ids run both points in its thread."""
    return as_ours(payload, _Call).id or str(threading.get_ident())


def _retell(log: SessionLog, of: AddEpisode) -> None:
    """Have the turn retold by one episode, once it has a second call."""
    calls = [step for step in log.turn_writes if isinstance(step, AddEpisode) and step.kind == TOOL_CALL]
    if len(calls) > 1:
        log.turn_writes[:] = [step for step in log.turn_writes if not isinstance(step, RetellTurn)]
        runs = [(step.payload["name"], step.outcome == "ok") for step in calls]
        log.turn_writes.append(RetellTurn(of.session, runs, of.agent, of.keep))


def _short_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with long values cut: a payload that is refused would take its turn with it."""
    kept: dict[str, Any] = {}
    for name, value in list(arguments.items())[:MOST_ARGUMENTS]:
        text = short_text(value, RESULT_CHARS)
        kept[str(name)[:NAME_CHARS]] = value if len(text) <= RESULT_CHARS else text
    return kept
