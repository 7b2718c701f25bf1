"""A conversation: the door through which a loop tells its turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from inspect import iscoroutinefunction, unwrap
from typing import Any

import msgspec
from msgspec import structs

from edgemem.context.bargein import Timed
from edgemem.context.messages import call_arguments, call_name
from edgemem.errors import ClosedError, InvalidInputError
from edgemem.records import WISHES, Epoch, Heard, Reader, Session, Unkept, text_of
from edgemem.session.arguments import (
    checked_audience,
    checked_flag,
    checked_hearing,
    checked_report,
    checked_speaker,
    checked_utterance,
)
from edgemem.session.late_results import LateResult
from edgemem.session.log import Moment, SessionLog
from edgemem.session.points import (
    AFTER_TOOL,
    ON_IDLE,
    ON_INTERRUPT,
    ON_PARTIAL,
    ON_SPEECH_START,
    STATE_KEY,
    HookFailure,
    HookRegistry,
    ToolCallResult,
    TurnContext,
)
from edgemem.session.speech import Upkeep
from edgemem.session.steps import Steps
from edgemem.session.tools import Tool, ToolTurn, result_text
from edgemem.session.turn import Agent, OpenTurn, calling_turn
from edgemem.store.db.files import Closable
from edgemem.store.turn_steps import KeepOutput
from edgemem.store.validation import checked_amount, checked_text

Speaker = str | msgspec.UnsetType | None
"""A name; None is a voice that nobody recognised; left out, the conversation's."""


class Conversation(Closable):
    """One agent's side of a session; agents of one session id share its log.

    Turns may begin in any thread: one that begins ends the open one. `interrupt`, `partial` and `speech_start` may be called from
    any thread as well.

    Args:
        instructions: the system message.
        model: the chat model, for hooks.
        speaker: who speaks where a turn does not say it; None: an unknown voice.

    Raises:
        InvalidInputError: an argument is of another kind.
    """

    def __init__(
        self,
        log: SessionLog,
        steps: Steps,
        *,
        instructions: str = "",
        tools: Iterable[Tool] = (),
        model: Any = None,
        speaker: str | None = None,
        agent: str = "",
    ) -> None:
        self.log = log
        self._registry = steps.registry
        offered = {tool.name: tool for tool in checked_tools(tools)}
        log.record.state[STATE_KEY] = log
        ctx = TurnContext(log.record, agent_name=checked_text(agent, "agent"), llm=model)
        self.speaker = speaker
        ctx.speaker = self.speaker
        self.agent = Agent(steps, ctx, [], offered, [tool.schema() for tool in offered.values()])
        self.instructions = instructions
        self._inner: tuple[OpenTurn, SessionLog] | None = None
        """The log of this agent within a tool of its own conversation, and the turn of that tool."""

    @property
    def instructions(self) -> str:
        """The system message; another one begins a new epoch with the next turn."""
        return "".join(map(text_of, self.agent.system))

    @instructions.setter
    def instructions(self, text: str) -> None:
        content = checked_text(text, "instructions")
        self.agent.system = [{"role": "system", "content": content}] if content else []

    @property
    def speaker(self) -> str | None:
        """Who speaks where a turn does not say it; None: an unknown voice."""
        return self._speaker

    @speaker.setter
    def speaker(self, name: str | None) -> None:
        self._speaker = checked_speaker(name)

    @property
    def tools(self) -> dict[str, Tool]:
        """Return the tools that the model may call, by name."""
        return self.agent.tools

    @property
    def ctx(self) -> TurnContext:
        """Return the context that hooks are handed."""
        return self.agent.ctx

    @property
    def hooks(self) -> HookRegistry:
        """Return the registry for hooks of the user's own."""
        return self._registry

    @property
    def upkeep(self) -> Upkeep | None:
        """Return the idle work of the memory, if any."""
        part = self.agent.steps.parts.upkeep
        return None if part is None else part.upkeep

    def failures(self) -> list[HookFailure]:
        """Return the failures of steps and hooks, most frequent first."""
        return self._registry.failures()

    def turn(
        self,
        utterance: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]],
        *,
        speaker: Speaker = msgspec.UNSET,
        audience: Iterable[str] = (),
        private: bool = False,
        heard: Heard | None = None,
        within: OpenTurn | ToolTurn | None = None,
    ) -> OpenTurn:
        """Begin a turn, and end the one that is open: complete with a reply, else unfinished.

        Args:
            utterance: text, or parts as chat models take them.
            speaker: None is a voice that nobody recognised; left out, whom `heard` names, or else the conversation's speaker.
            audience: who else hears the answer.
            private: only the speaker may ever be reminded of this turn.
            heard: how it was heard; the speaker of the turn is its speaker.
            within: the turn in whose tool this agent runs, also where that has ended; None: the one whose tool runs in this
                context, if any does. A thread that a tool starts has a context of its own.

        Raises:
            InvalidInputError: an argument is of another kind, or nothing was said.
            ClosedError: the memory was closed.
        """
        content = checked_utterance(utterance)
        text = text_of({"content": content})
        is_given, usual = not isinstance(speaker, msgspec.UnsetType), self.speaker
        named = None if checked_hearing(heard) is None or heard is None else heard.speaker
        name = checked_speaker(speaker) if is_given else named or usual
        listeners = checked_audience(audience)
        checked_flag(private, "private")
        outer = within.turn if isinstance(within, ToolTurn) else within
        if outer is not None and not isinstance(outer, OpenTurn):
            raise InvalidInputError(f"`within` must be a turn; got {type(within).__name__}.")
        if within is None:
            outer = calling_turn()
        log, agent = self.log, self.agent
        if outer is not None and outer.is_open and outer.log is log:
            log, agent = self._within(outer)
        task = {"task": text, "speaker": name, "heard": heard, "private": private, "audience": listeners}
        with log.lock:
            self._check_open()
            if log.open_turn is not None:
                log.open_turn.end()
            turn = OpenTurn(agent, log, outer=outer)
            turn.begin(content, task, is_reader_given=is_given)
            log.open_turn = turn
        return turn

    def _check_open(self) -> None:
        if self.log.is_closed:
            raise ClosedError(
                "The memory of this conversation is closed; open the home again with edgemem.open()."
            )

    def _within(self, outer: OpenTurn) -> tuple[SessionLog, Agent]:
        """Return the log and agent of a turn within a tool of this very conversation: its words are kept nowhere."""
        # The next turn may have other listeners, or this one be aborted.
        if self._inner is None or self._inner[0] is not outer:
            self._inner = outer, _detached_log(outer)
        log = self._inner[1]
        ctx = msgspec.structs.replace(self.agent.ctx, session=log.record, hook_state={})
        return log, msgspec.structs.replace(self.agent, ctx=ctx)

    @property
    def open_turn(self) -> OpenTurn | None:
        """Return the open turn, of any agent of the session."""
        turn = self.log.open_turn
        return turn if isinstance(turn, OpenTurn) else None

    def end_turn(self, reply: str = "", *, error: str | None = None) -> None:
        """End the open turn, if there is one: with a reply, else unfinished, because of an error or because none came."""
        with self.log.lock:
            if (turn := self.open_turn) is None:
                return
            if reply:
                turn.reply(reply)
            if error is None:
                turn.end()
            else:
                turn.commit(error=error)

    def interrupt(
        self,
        heard_text: str | None = None,
        *,
        heard_ms: float | None = None,
        words: Iterable[Timed] | None = None,
        prepared: bool | None = None,
    ) -> str | None:
        """Note that the robot was cut off; return the heard beginning of the reply, which is kept.

        May be called while the reply is made, while it plays, and after its turn. Without arguments, all of it was heard.
        None is returned where no reply is there yet; it is cut when it comes.

        Args:
            heard_text: the text that was played, as written or as the voice spelled it; other words are stored nowhere.
            heard_ms: milliseconds that the voice had spoken for, in all of the turn; without `words` they give an estimate.
            words: when each word was played: (word, start_ms, end_ms).
            prepared: whether the open turn was being spoken, and not the reply before it; None: the words show
                which, and a time alone is of the open one.

        Raises:
            InvalidInputError: an argument is no text, no number of 0 or more, or no word with its times.
            ClosedError: the memory was closed.
        """
        if prepared is not None:
            checked_flag(prepared, "prepared")
        payload = checked_report(heard_text, heard_ms, words)
        if prepared is not None:
            payload["prepared"] = prepared
        log, agent = self.log, self.agent
        with log.lock:
            self._check_open()
            running = log.prompt_log.running
            moment = Moment(log, agent.ctx, payload)
            speeches: list[str] = []
            try:
                if running is None and not log.is_resumed:
                    agent.steps.parts.session.begin(moment)
                speeches, is_committed = agent.steps.parts.session.interrupt(moment)
            except Exception as error:  # noqa: BLE001 - a failing store is counted, as each step's failure is
                agent.steps.registry.note(agent.steps.parts.session.name, ON_INTERRUPT, error, agent.ctx)
                is_committed = running is None
            if not is_committed and self.open_turn is not None:
                self.open_turn.note_interrupted()
                agent.steps.run(agent.steps.accept, ON_INTERRUPT, moment)
            log.refresh_record()
        if speeches:
            payload = {**payload, "heard_text": speeches[-1], "speeches": speeches}
        agent.steps.registry.fire_own(ON_INTERRUPT, agent.ctx, payload)
        return speeches[-1] if speeches else None

    def off_the_record(self, which: Unkept) -> None:
        """Keep turns nowhere but in this process's memory, until the prompt begins anew.

        Args:
            which: `"this"`: the open turn, or, where none is, the next; `"on"`: all from now on, the open one included, until
                `"off"` or a restart; `"last"`: the turn before, which is erased as if it was forgotten.

        Raises:
            InvalidInputError: it is none of these.
            StoreError: a turn cannot be erased now.
            ClosedError: the memory was closed.
        """
        if which not in WISHES:
            raise InvalidInputError(f"`which` must be one of {', '.join(WISHES)}; got {which!r:.40}.")
        log, agent = self.log, self.agent
        with log.lock:
            self._check_open()
            if not log.is_resumed:
                agent.steps.parts.session.begin(Moment(log, agent.ctx))
            agent.steps.parts.session.withhold(log, agent.ctx.session, which)

    def result(self, call_id: str, text: str) -> None:
        """Take the result of a tool that answers later: it is stored with its call, and read once.

        The model reads it behind the utterance of the first turn whose listeners may all read the turn of the call.

        Raises:
            InvalidInputError: an argument is no text, or no call of this conversation awaits a result of the id.
            ClosedError: the memory was closed.
        """
        call_id, text = checked_text(call_id, "call_id"), checked_text(text, "text")
        log, agent = self.log, self.agent
        with log.lock:
            self._check_open()
            if not log.is_resumed:
                agent.steps.parts.session.begin(Moment(log, agent.ctx))
            origin, running = log.find_call(call_id), log.prompt_log.running
            if origin is None:
                raise InvalidInputError(f"No call of this conversation has the id {call_id!r:.40}.")
            turn, call = origin
            late = LateResult(call, text, turn)
            if turn is running and turn.awaits(call_id) and self.open_turn is not None:
                self.open_turn.add(late.messages[-1])
                return
            late = self._as_told(late)
            if turn is not running:
                turn.late = (*turn.late, call_id)
            log.late_results.append(late)
            if self.open_turn is not None:
                self.open_turn.take_results()
        if turn is not running and not turn.unkept:
            agent.steps.run(agent.steps.late, AFTER_TOOL, Moment(log, agent.ctx, late))

    def _as_told(self, late: LateResult) -> LateResult:
        """Return a late result as hooks and the bounds of results leave it."""
        log, agent = self.log, self.agent
        payload = ToolCallResult(
            call_name(late.call), call_arguments(late.call), late.text, id=str(late.call.get("id"))
        )
        moment = Moment(log, agent.ctx, payload)
        writes, log.turn_writes = log.turn_writes, []  # what the shortening keeps is not of the open turn
        agent.steps.run(agent.steps.told, AFTER_TOOL, moment)
        outputs, log.turn_writes = log.turn_writes, writes
        text = result_text(moment.payload) if moment.reply is None else moment.reply
        return LateResult(
            late.call, text, late.turn, tuple(step for step in outputs if isinstance(step, KeepOutput))
        )

    def partial(self, text: str, *, speaker: Speaker = msgspec.UNSET, audience: Iterable[str] = ()) -> None:
        """Take all that has been heard of the sentence so far, so that memory is ready at its end.

        Call it from any thread, whenever the recogniser has something new: it takes a fraction of a millisecond. `speaker` is
        None while the voice is not recognised; `audience` is who else will hear the answer.
        """
        words, listeners = checked_text(text, "text"), checked_audience(audience)
        name = self.speaker if isinstance(speaker, msgspec.UnsetType) else checked_speaker(speaker)
        heard: dict[str, Any] = {"text": words, "speaker": name}
        if listeners:
            heard["audience"] = listeners
        reader = Reader(name, frozenset(listeners))
        self._check_open()
        moment = Moment(self.log, self.agent.ctx, heard, text=words, reader=reader)
        self.agent.steps.run(self.agent.steps.partial, ON_PARTIAL, moment)

    def speech_start(self, *, speaker: Speaker = msgspec.UNSET) -> None:
        """Note that somebody begins to speak, from any thread; `speaker` is None while the voice is not recognised."""
        name = self.speaker if isinstance(speaker, msgspec.UnsetType) else checked_speaker(speaker)
        self._check_open()
        self.agent.steps.run(
            self.agent.steps.speech, ON_SPEECH_START, Moment(self.log, self.agent.ctx, {"speaker": name})
        )

    def idle(self, seconds: float) -> None:
        """Note that nobody speaks: an open turn ends, and upkeep has so many seconds."""
        duration = checked_amount(seconds, "seconds")
        with self.log.lock:
            self._check_open()
            if self.log.open_turn is not None:
                self.log.open_turn.end()
        moment = Moment(self.log, self.agent.ctx, {"seconds": duration}, seconds=duration)
        self.agent.steps.run(self.agent.steps.idle, ON_IDLE, moment)

    def close(self) -> None:
        """End the turn that is open; a second call does nothing."""
        with self.log.lock:
            if self.log.open_turn is not None:
                self.log.open_turn.end()


def checked_tools(tools: Any) -> list[Tool]:
    """Return tools as the turn's thread runs them; raise InvalidInputError if one is none, or a coroutine of the caller's own."""
    if isinstance(tools, (str, bytes)) or not isinstance(tools, Iterable):
        raise InvalidInputError(f"`tools` must be a list of edgemem.Tool; got {type(tools).__name__}.")
    offered: list[Tool] = []
    for tool in tools:
        if not isinstance(tool, Tool):
            raise InvalidInputError(f"`tools` must be a list of edgemem.Tool; one is {type(tool).__name__}.")
        if any(tool.name == other.name for other in offered):
            raise InvalidInputError(f"Two `tools` are called {tool.name!r:.40}; a model calls them by name.")
        run = unwrap(tool.run)  # those of an async memory are plain functions inside
        if iscoroutinefunction(run):
            raise InvalidInputError(
                f"The tool {tool.name} is a coroutine; await it yourself, and tell the turn its result with add()."
            )
        offered.append(
            tool if run is tool.run or not iscoroutinefunction(tool.run) else structs.replace(tool, run=run)
        )
    return offered


def _detached_log(outer: OpenTurn) -> SessionLog:
    """Return a log that nobody keeps, for an agent that runs within a tool of the same conversation."""
    log = SessionLog()
    log.is_detached = log.is_resumed = True
    log.call_numbers = outer.log.call_numbers
    log.record = Session(state={STATE_KEY: log})
    around = outer.log.prompt_log
    log.prompt_log.session, log.prompt_log.epoch = around.session, Epoch(around.session, around.next_n)
    return log
