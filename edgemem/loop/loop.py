"""The reference agent loop: an utterance in, a reply out, with every hook point at its place.

It shows where your own would call hooks; the demo, `replay`, `chat` and the benches run through it. `run` is `prepare` and
`commit` in one; a loop that answers early calls the two apart, and `abort` when the speaker goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

import msgspec

from edgemem.context.bargein import Timed, tells_of_earlier
from edgemem.context.messages import NO_RESULT, speeches_of, tool_calls
from edgemem.errors import InvalidInputError
from edgemem.hooks.builtin import door_of
from edgemem.records import Heard, Message, Reply, Session, text_of
from edgemem.session.arguments import calling, checked_report
from edgemem.session.conversation import Conversation, Speaker
from edgemem.session.points import Hook, HookRegistry, ToolCallResult, TurnContext
from edgemem.session.steps import Steps
from edgemem.session.tools import Tool, never
from edgemem.session.turn import OpenTurn

if TYPE_CHECKING:
    from typing_extensions import Unpack

NO_ANSWER = "Sorry, I got stuck on that."
"""Said when the model says nothing, or still asks for tools at the last hop."""


class LoopModel(Protocol):
    """A model as the loop needs it."""

    def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]],
        stop: Callable[[], bool],
        on_text: Callable[[str], None],
        now: float | None = None,
    ) -> Reply:
        """Answer, calling `on_text` with each piece; end within one token once `stop()` is true.

        A template may print the date `now`, frozen for the epoch; seconds since the epoch, UTC.
        """
        ...

    def cut(self, heard_text: str) -> None:
        """Forget the generated text behind the heard part."""
        ...


class Asked(TypedDict, total=False):
    """An utterance's further arguments, those of `Conversation.turn` first."""

    speaker: Speaker
    heard: Heard | None
    private: bool
    audience: Iterable[str]
    on_text: Callable[[str], None]
    """Receives each piece of the reply as it is made."""
    stop: Callable[[], bool]
    """Once it is true, the turn ends as by `interrupt`."""


class TurnResult(msgspec.Struct):
    """The outcome of one turn."""

    reply: str
    hops: int = 0
    handed: list[list[Message]] = msgspec.field(default_factory=list)
    """To the model, hop by hop."""
    tools: list[ToolCallResult] = msgspec.field(default_factory=list)
    interrupted: bool = False
    hooks_ms: float = 0.0
    """From the end of the utterance to the first call of the model."""
    model_ms: float = 0.0
    commit_ms: float = 0.0


class AgentLoop:
    """One agent in one session; `run` belongs to one thread, `interrupt` may come from any.

    Several agents may share one memory, each in its own session (see `Memory.hooks`), or hand one conversation over. An agent
    within another's tool takes `stop` of that tool's turn, so that an interruption reaches both:

        def ask_the_cook(turn: ToolTurn, question: str) -> str:
            return cook.run(question, speaker=turn.reader.speaker, stop=turn.stop).reply

        Tool("ask_the_cook", "…", schema, ask_the_cook, wants_turn=True)
    """

    def __init__(
        self,
        model: LoopModel,
        *,
        hooks: Iterable[Hook] | HookRegistry = (),
        instructions: str = "",
        tools: Iterable[Tool] = (),
        session: Session | None = None,
        speaker: str | None = None,
        agent_name: str = "",
    ) -> None:
        self.model = model
        self.hooks = hooks if isinstance(hooks, HookRegistry) else HookRegistry(hooks)
        self.max_hops = 3
        """Calls of the model within a turn."""
        self.no_answer = NO_ANSWER
        """Said when the model says nothing; empty: the turn stays without a reply."""
        door = door_of(self.hooks, session)
        self.conversation = Conversation(
            door.log,
            Steps(door.parts, self.hooks),
            instructions=instructions,
            tools=tools,
            model=model,
            speaker=door.speaker if speaker is None else speaker,
            agent=agent_name,
        )
        self.tools = self.conversation.tools
        self._stop = threading.Event()
        self._stopped_by: Callable[[], bool] = never
        # Held while a turn is kept: an interruption at this moment amends it behind that.
        self._lock = threading.RLock()
        # Of the prepared turn: the report of a voice that was cut off, its outcome, and why it failed.
        self._turn: OpenTurn | None = None
        self._heard: dict[str, Any] = {}
        self._result = TurnResult("")
        self._error: str | None = None
        self._at_once = False
        """Whether the turn is spoken while it is made: the reply before it is over."""
        self._preparing = False
        self._silent = False
        """Whether the newest kept reply has been cut off."""
        self._late: dict[str, Any] | None = None
        """The report of a voice that still spoke the last reply while the next was being prepared."""

    @property
    def instructions(self) -> str:
        """The system message; another one begins a new epoch with the next turn."""
        return self.conversation.instructions

    @instructions.setter
    def instructions(self, text: str) -> None:
        self.conversation.instructions = text

    @property
    def ctx(self) -> TurnContext:
        """The context that hooks are handed."""
        return self.conversation.ctx

    @property
    def session(self) -> Session:
        """The session: all messages, without anything injected."""
        return self.ctx.session

    def run(self, text: str, **asked: Unpack[Asked]) -> TurnResult:
        """Answer an utterance and keep the turn, as `Conversation.turn` takes it."""
        self._at_once = True
        try:
            self.prepare(text, **asked)
        except BaseException:
            if self._turn is not None:
                self.commit()
            raise
        else:
            return self.commit()
        finally:
            self._at_once = False

    def prepare(
        self,
        text: str,
        *,
        speaker: Speaker = msgspec.UNSET,
        heard: Heard | None = None,
        private: bool = False,
        audience: Iterable[str] = (),
        on_text: Callable[[str], None] = lambda _: None,
        stop: Callable[[], bool] = never,
    ) -> TurnResult:
        """Answer an utterance without keeping the turn yet."""
        if self._turn is not None:
            self.abort()
        with self._lock:
            self._stop.clear()
            self._stopped_by, self._preparing = stop, True
            self._heard, self._late, self._error = {}, None, None
            self._result = TurnResult("")
        try:
            started = perf_counter()
            self._turn = self.conversation.turn(
                text, speaker=speaker, audience=audience, private=private, heard=heard
            )
            with self._lock:
                self._hear_late()
            self._result.reply = self._answer(self._turn, on_text, started)
        except BaseException as error:
            self._error = f"{type(error).__name__}: {error}"
            raise
        finally:
            with self._lock:
                self._preparing = False
                self._hear_late()
        return self._result

    def _answer(self, turn: OpenTurn, on_text: Callable[[str], None], started: float) -> str:
        result = self._result
        for hop in range(self.max_hops):
            if turn.hook_reply is not None:
                return turn.reply(turn.hook_reply)
            if self._stopped():
                # Cut off while hooks or a tool ran: the robot says no more.
                result.interrupted = True
                return turn.reply("")
            messages = turn.messages
            if turn.hook_reply is not None:
                return turn.reply(turn.hook_reply)
            called = perf_counter()
            if hop == 0:
                result.hooks_ms = (called - started) * 1e3
            result.handed.append(messages)
            reply = self._complete(turn, messages, on_text)
            result.model_ms += (perf_counter() - called) * 1e3
            result.hops = hop + 1
            result.interrupted = reply.interrupted or self._stopped()
            if result.interrupted or not reply.tool_calls or hop == self.max_hops - 1:
                text = reply.content or ("" if result.interrupted else self.no_answer)
                if not (text or result.interrupted):
                    return ""
                return turn.reply(text, tokens=reply.tokens)
            calls = {"content": reply.content or None, "tool_calls": list(map(calling, reply.tool_calls))}
            message = turn.add({"role": "assistant", **calls}, tokens=reply.tokens)
            if turn.hook_reply is None and not tool_calls(message):
                return text_of(message)
            for call in tool_calls(message) if turn.hook_reply is None else ():
                done = turn.call(call, stop=self._stopped)
                if done.error != NO_RESULT:
                    result.tools.append(done)
        return turn.reply(NO_ANSWER if turn.hook_reply is None else turn.hook_reply)

    def commit(self) -> TurnResult:
        """Keep the prepared turn: fires `on_run_end`, whatever happened before."""
        with self._lock:
            turn, self._turn = self._turn, None
            if turn is None:
                raise InvalidInputError("There is no prepared turn to commit.")
            result = self._result
            result.interrupted = result.interrupted or self._stop.is_set()
            self._stopped_by = never
            self._silent = False
            if result.interrupted:
                self._amend({**self._heard, "prepared": True})
            started = perf_counter()
            if turn.is_open:
                result.reply = turn.commit(error=self._error, interrupted=result.interrupted).reply
            result.commit_ms = (perf_counter() - started) * 1e3
            return result

    def abort(self) -> None:
        """Throw the prepared turn away without a trace."""
        with self._lock:
            turn, self._turn = self._turn, None
            if turn is not None and turn.is_open:
                turn.abort()

    def interrupt(
        self,
        heard_text: str | None = None,
        *,
        heard_ms: float | None = None,
        words: Iterable[Timed] | None = None,
        prepared: bool | None = None,
    ) -> None:
        """Cut the robot off; arguments and InvalidInputError are those of `Conversation.interrupt`.

        While the model answers, this stops it within one token; after the turn, it amends the turn. While `prepare` makes the
        next turn, or has made it, words of the last reply amend that, and the prepared turn goes on.
        """
        report = checked_report(heard_text, heard_ms, words)
        with self._lock:
            if self._turn is None and not self._preparing:
                if report:
                    self._amend(report)
            elif self._is_of_earlier(report, prepared):
                self._late = report
                if not self._preparing:
                    self._hear_late()
            else:
                self._heard = report
                self._stop.set()

    def speech_start(self, *, speaker: Speaker = msgspec.UNSET) -> None:
        """Tell the memory that somebody begins to speak; may come from any thread."""
        self.conversation.speech_start(speaker=speaker)

    def partial(self, text: str, *, speaker: Speaker = msgspec.UNSET, audience: Iterable[str] = ()) -> None:
        """Tell the memory what has been heard of the sentence so far, as `Conversation.partial` takes it."""
        self.conversation.partial(text, speaker=speaker, audience=audience)

    def idle(self, seconds: float) -> None:
        """Tell the memory that nobody speaks."""
        self.conversation.idle(seconds)

    def _complete(self, turn: OpenTurn, messages: list[Message], on_text: Callable[[str], None]) -> Reply:
        """Let the model answer; if it fails in the middle, the pieces until then are history."""
        pieces: list[str] = []

        def speak(piece: str) -> None:
            on_text(piece)
            pieces.append(piece)

        try:
            return self.model.complete(
                messages, tools=turn.tools, stop=self._stopped, on_text=speak, now=turn.now
            )
        except BaseException:
            if pieces:
                self._result.reply = turn.reply("".join(pieces))
            raise

    def _stopped(self) -> bool:
        if self._stopped_by():
            self._stop.set()
        return self._stop.is_set()

    def _is_of_earlier(self, report: dict[str, Any], prepared: bool | None) -> bool:
        """Tell whether a voice reports the reply before the prepared turn."""
        if prepared is not None or self._at_once or self._silent:
            return prepared is False
        messages = self.session.messages
        start = len(messages) if self._turn is None else self._turn.start
        return tells_of_earlier(_spoken_in(messages[:start]), _spoken_in(messages[start:]), **report)

    def _hear_late(self) -> None:
        """Cut the reply before a prepared turn, in the thread that prepares while that runs."""
        report, self._late = self._late, None
        if report:
            self._amend({**report, "prepared": False})

    def _amend(self, report: dict[str, Any]) -> None:
        messages = self.session.messages
        before = text_of(messages[-1]) if messages else ""
        heard = self.conversation.interrupt(**report)
        self._silent = self._silent or heard is not None or report.get("prepared", False)
        if heard is not None and text_of(messages[-1]) != before:
            self.model.cut(heard)


def _spoken_in(messages: Sequence[Message]) -> list[str]:
    return [text_of(messages[n]) for n in speeches_of(messages)]
