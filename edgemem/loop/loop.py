"""The reference agent loop: an utterance in, a reply out, with every hook point at its place.

It is small on purpose: it shows where a loop of your own would call hooks, and the demo, `replay`, `chat` and the
benches run through it. `run` is `prepare` and `commit` in one; a loop that answers before the speaker has finished
calls the two apart, and `abort` when the sentence went on after all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import Any, Protocol

import msgspec

from edgemem.context.bargein import Timed, heard_part, heard_speeches, keep_heard, tells_of_earlier
from edgemem.context.messages import speeches_of
from edgemem.errors import InvalidInputError
from edgemem.hooks.shared import reader_of
from edgemem.loop.toolbox import Toolbox
from edgemem.records import Heard, Message, Reply, Session, text_of
from edgemem.session.points import (
    AFTER_LLM,
    BEFORE_LLM,
    ON_ABORT,
    ON_IDLE,
    ON_INTERRUPT,
    ON_PARTIAL,
    ON_RUN_END,
    ON_RUN_START,
    ON_SPEECH_START,
    AgentResult,
    Hook,
    ToolCallResult,
    TurnContext,
)
from edgemem.session.registry import HookRegistry
from edgemem.session.tools import Tool, ToolTurn, never

NO_ANSWER = "Sorry, I got stuck on that."
"""Said when the model has nothing to say, or still asks for tools at the last hop."""


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

        Args:
            now: the date that a template may print, frozen for the epoch; seconds since the epoch, UTC.
        """
        ...

    def cut(self, heard_text: str) -> None:
        """Forget what was generated beyond what was heard."""
        ...


class TurnResult(msgspec.Struct):
    """What came of one turn."""

    reply: str
    hops: int = 0
    handed: list[list[Message]] = msgspec.field(default_factory=list)
    """The messages handed to the model, hop by hop."""
    tools: list[ToolCallResult] = msgspec.field(default_factory=list)
    interrupted: bool = False
    hooks_ms: float = 0.0
    """Between the end of the utterance and the first call of the model."""
    model_ms: float = 0.0
    commit_ms: float = 0.0


class AgentLoop:
    """One agent in one session; `run` belongs to one thread, `interrupt` may come from any.

    Several agents may share one memory, each in a session of its own (`Memory.hooks` tells how), or hand one
    conversation over. An agent within a tool of another takes `stop` of that tool's turn, so that whoever cuts the robot
    off is heard by both:

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
        max_hops: int = 3,
    ) -> None:
        self.model = model
        self.hooks = hooks if isinstance(hooks, HookRegistry) else HookRegistry(hooks)
        self.instructions = instructions
        self.max_hops = max_hops
        self._speaker = _named(speaker)
        self.ctx = TurnContext(session or Session(), agent_name=agent_name, speaker=self._speaker, llm=model)
        self._toolbox = Toolbox(tools, self.hooks, self.ctx)
        self.tools = self._toolbox.tools
        self._stop = threading.Event()
        self._stopped_by: Callable[[], bool] = never
        # Held while a turn is kept, so that who interrupts at this moment amends it behind that.
        self._lock = threading.RLock()
        self._heard: dict[str, Any] = {}
        """What a voice reported of the reply that was cut off."""
        self._before = 0
        """How many messages the session held before the turn."""
        self._result: TurnResult | None = None
        self._at_once = False
        """Whether the turn is spoken while it is made, so that the reply before it is over."""
        self._preparing = False
        self._silent = False
        """Whether the newest reply that was kept has been cut off."""
        self._late: dict[str, Any] | None = None
        """What a voice reported of the reply before, while the next was being prepared."""
        self._error: str | None = None
        self._turns = 0

    @property
    def session(self) -> Session:
        """Return the session: what was said, without anything injected."""
        return self.ctx.session

    def run(
        self,
        text: str,
        *,
        speaker: str | None = None,
        heard: Heard | None = None,
        private: bool = False,
        audience: Iterable[str] = (),
        on_text: Callable[[str], None] = lambda _: None,
        stop: Callable[[], bool] = never,
    ) -> TurnResult:
        """Answer an utterance and keep the turn.

        Args:
            speaker: who spoke, if the voice was recognised; None takes the loop's own setting.
            heard: how it was heard.
            private: only the speaker may ever be reminded of this turn.
            audience: who else hears the answer.
            on_text: receives each piece of the reply as it is made.
            stop: ends the turn as `interrupt` does, once it is true.
        """
        self._at_once = True
        try:
            self.prepare(
                text,
                speaker=speaker,
                heard=heard,
                private=private,
                audience=audience,
                on_text=on_text,
                stop=stop,
            )
        except BaseException:
            if self._result is not None:
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
        speaker: str | None = None,
        heard: Heard | None = None,
        private: bool = False,
        audience: Iterable[str] = (),
        on_text: Callable[[str], None] = lambda _: None,
        stop: Callable[[], bool] = never,
    ) -> TurnResult:
        """Answer an utterance without keeping the turn yet."""
        if not text.strip():
            raise InvalidInputError("Nothing was said: the utterance is empty.")
        if self._result is not None:
            self.abort()
        with self._lock:
            self._stop.clear()
            self._stopped_by = stop
            self._heard = {}
            self._error = None
            self._late = None
            self._preparing = True
            self._before = len(self.session.messages)
            result = self._result = TurnResult("")
        task = {
            "task": text,
            "speaker": _named(speaker) or self._speaker,
            "heard": heard,
            "private": private,
            "audience": tuple(audience),
        }
        self._note_speaker(task)
        try:
            self._say(self._answer(text, task, result, on_text))
        except BaseException as error:
            self._error = f"{type(error).__name__}: {error}"
            raise
        finally:
            with self._lock:
                self._preparing = False
                self._hear_late()
        return result

    def _answer(
        self, text: str, task: dict[str, Any], result: TurnResult, on_text: Callable[[str], None]
    ) -> str:
        """Return the reply, with what the tools answered before it in the session."""
        started = perf_counter()
        fired = self.hooks.fire(ON_RUN_START, self.ctx, task)
        self._before = len(self.ctx.session.messages)
        task = fired.payload if isinstance(fired.payload, dict) else task
        self._turns += 1
        self.ctx.session.messages.append({"role": "user", "content": task.get("task", text)})
        if fired.is_end:
            return str(fired.payload)
        with self._lock:
            self._hear_late()
        for hop in range(self.max_hops):
            if self._stopped():
                # Cut off while hooks or a tool ran: the robot says nothing any more.
                result.interrupted = True
                return ""
            head = [{"role": "system", "content": self.instructions}] if self.instructions else []
            # The tools stand in the prompt's head, so they are the same at every hop (law 2).
            prompt = {"messages": [*head, *self.ctx.session.messages], "tools": self._toolbox.schemas}
            fired = self.hooks.fire(BEFORE_LLM, self.ctx, {**prompt, "hop": hop})
            if fired.is_end:
                return str(fired.payload)
            called = perf_counter()
            if hop == 0:
                result.hooks_ms = (called - started) * 1e3
            result.handed.append(fired.payload["messages"])
            reply = self._complete(fired.payload, on_text)
            result.model_ms += (perf_counter() - called) * 1e3
            result.hops = hop + 1
            answer = {"content": reply.content, "tool_calls": reply.tool_calls, "tokens": reply.tokens}
            fired = self.hooks.fire(AFTER_LLM, self.ctx, {**answer, "hop": hop})
            if fired.is_end:
                return str(fired.payload)
            content, calls = fired.payload["content"], fired.payload["tool_calls"]
            result.interrupted = reply.interrupted or self._stopped()
            if result.interrupted or not calls or hop == self.max_hops - 1:
                return content or ("" if result.interrupted else NO_ANSWER)
            turn = ToolTurn(
                text,
                reader_of(self.ctx, task),
                task.get("heard"),
                bool(task.get("private")),
                self.ctx.session,
                self._turns,
                self._stopped,
            )
            self._toolbox.call(content, calls, hop=hop, turn=turn, done=result.tools)
        return NO_ANSWER

    def commit(self) -> TurnResult:
        """Keep the prepared turn: fires `on_run_end`, whatever happened before."""
        with self._lock:
            result, self._result = self._result, None
            if result is None:
                raise InvalidInputError("There is no prepared turn to commit.")
            result.interrupted = result.interrupted or self._stop.is_set()
            self._stopped_by = never
            self._silent = False
            if result.interrupted:
                self._amend(self._heard, prepared=True)
            started = perf_counter()
            ended = AgentResult(result.reply, result.hops, result.interrupted, self._error)
            result.reply = self.hooks.fire(ON_RUN_END, self.ctx, ended).payload.reply
            self._note_speaker({"speaker": self._speaker})
            result.commit_ms = (perf_counter() - started) * 1e3
            return result

    def abort(self) -> None:
        """Throw the prepared turn away without a trace."""
        with self._lock:
            if self._result is None:
                return
            self._result = None
            self._turns -= 1
            del self.session.messages[self._before :]
            self.hooks.fire(ON_ABORT, self.ctx, {})
            self._note_speaker({"speaker": self._speaker})

    def interrupt(
        self,
        heard_text: str | None = None,
        *,
        heard_ms: float | None = None,
        words: Iterable[Timed] | None = None,
        prepared: bool | None = None,
    ) -> None:
        """Cut the robot off; only what was heard in this turn becomes history (without arguments, all of it was heard).

        While the model answers, this stops it within one token; after the turn, it amends the turn. What the robot said
        before a tool ran counts as well: a voice may report all that it played, or the newest speech only.

        While `prepare` makes the next turn, or has made it, the reply before may still play. Words of that reply amend
        it, and the prepared turn goes on: what the model has read for it stays, and the prompt after it has what was
        heard.

        Args:
            heard_text: what was played, as written or as the voice spelled it.
            heard_ms: milliseconds that the voice had spoken for, in all of the turn; without `words`, what was heard is
                estimated from it.
            words: when each word was played: (word, start_ms, end_ms).
            prepared: whether the prepared turn was being spoken, and not the reply before it; None: the words show
                which, and a time alone is of the prepared one.

        Raises:
            InvalidInputError: an argument is no text, no number, or no word with its times.
        """
        report: dict[str, Any] = {
            "heard_text": heard_text,
            "heard_ms": heard_ms,
            "words": None if words is None else tuple(words),
        }
        heard_part("", **report)  # what makes no sense is refused before anything is changed
        with self._lock:
            report = {name: value for name, value in report.items() if value is not None}
            if self._result is None:
                if report:
                    self._amend(report)
            elif self._is_of_earlier(report, prepared):
                self._late = report
                if not self._preparing:
                    self._hear_late()
            else:
                self._heard = report
                self._stop.set()

    def speech_start(self, *, speaker: str | None = None) -> None:
        """Tell the hooks that somebody begins to speak; may come from any thread."""
        self.hooks.fire(ON_SPEECH_START, self.ctx, {"speaker": _named(speaker) or self._speaker})

    def partial(self, text: str, *, speaker: str | None = None, audience: Iterable[str] = ()) -> None:
        """Tell the hooks what has been heard of the sentence so far, so that memory is ready at its end.

        Call it from any thread, as often as the recogniser has something new: it takes a fraction of a millisecond.

        Args:
            text: all of the sentence until now.
            speaker: who speaks; None while the voice is not recognised.
            audience: who else will hear the answer.
        """
        heard: dict[str, Any] = {"text": text, "speaker": _named(speaker) or self._speaker}
        if listeners := tuple(audience):
            heard["audience"] = listeners
        self.hooks.fire(ON_PARTIAL, self.ctx, heard)

    def idle(self, seconds: float) -> None:
        """Tell the hooks that nobody speaks."""
        self.hooks.fire(ON_IDLE, self.ctx, {"seconds": seconds})

    def _note_speaker(self, task: dict[str, Any]) -> None:
        """Note in the context who speaks, for hooks that are not called when the turn begins: another may end it there."""
        ctx = self.ctx
        ctx.speaker, ctx.heard = task["speaker"], task.get("heard")
        ctx.audience, ctx.private = task.get("audience", ()), task.get("private", False)

    def _complete(self, prompt: dict[str, Any], on_text: Callable[[str], None]) -> Reply:
        """Let the model answer; if it fails in the middle, the pieces until then are history all the same."""
        pieces: list[str] = []

        def speak(piece: str) -> None:
            on_text(piece)
            pieces.append(piece)

        try:
            return self.model.complete(
                prompt["messages"],
                tools=prompt["tools"],
                stop=self._stopped,
                on_text=speak,
                now=prompt.get("now"),
            )
        except BaseException:
            if pieces:
                self._say("".join(pieces))
            raise

    def _stopped(self) -> bool:
        """Tell whether somebody has cut this agent off, or the one within whose tool it runs."""
        if self._stopped_by():
            self._stop.set()
        return self._stop.is_set()

    def _say(self, content: str) -> None:
        self.session.messages.append({"role": "assistant", "content": content})
        if self._result is not None:
            self._result.reply = content

    def _is_of_earlier(self, report: dict[str, Any], prepared: bool | None) -> bool:
        """Tell whether a voice reports the reply before the turn that is prepared."""
        if prepared is not None or self._at_once or self._silent:
            return prepared is False
        messages = self.session.messages
        before, after = messages[: self._before], messages[self._before :]
        return tells_of_earlier(_spoken_in(before), _spoken_in(after), **report)

    def _hear_late(self) -> None:
        """Cut the reply before a prepared turn, in the thread that prepares while that runs."""
        report, self._late = self._late, None
        if report:
            self._amend(report, prepared=False)

    def _amend(self, report: dict[str, Any], *, prepared: bool | None = None) -> None:
        """Keep of the newest reply what was heard, by what a voice reports of it."""
        messages = self.session.messages[: self._before if self._result is not None else None]
        # If the model failed, it has said nothing in this turn, and the turn before stays as it is.
        speeches = _spoken_in(messages)
        payload = report or {"heard_text": " ".join(speeches)}
        if prepared is not None:
            payload = {**payload, "prepared": prepared}
        fired = self.hooks.fire(ON_INTERRUPT, self.ctx, payload)
        answer = fired.payload if fired.is_modify and isinstance(fired.payload, dict) else {}
        # A hook that keeps the session knows how fast the robot speaks, and has worked out what was heard.
        heard = answer.get("speeches")
        if heard is None:
            if "heard_text" in answer:
                report = {"heard_text": answer["heard_text"]}
            heard = heard_speeches(speeches, **report)
        cut = keep_heard(messages, heard)
        self.session.messages[: len(messages)] = messages
        self._silent = True
        if cut == len(self.session.messages) - 1:
            self.model.cut(heard[-1])


def _spoken_in(messages: Sequence[Message]) -> list[str]:
    return [text_of(messages[n]) for n in speeches_of(messages)]


def _named(speaker: object) -> str | None:
    """Return who spoke as text; recognisers also number the voices that they tell apart."""
    return None if speaker is None else str(speaker)
