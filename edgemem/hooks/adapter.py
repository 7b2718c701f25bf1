"""The adapter: a loop that keeps its own list of messages, and fires the points of a turn, enters the door here.

Its newest user message is the utterance, once a turn; messages behind that belong to the turn. What stands before it is only
compared with the conversation: nothing of a list is ever taken for said a second time, or by somebody else.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from itertools import takewhile
from typing import Any, Protocol

import msgspec

from edgemem.context.messages import INSTRUCTIONS
from edgemem.errors import InvalidInputError
from edgemem.hooks.edgevox import OuterRun, inward, outer_run, outward, results_in_words
from edgemem.hooks.loop_list import Key, LoopList, key_of, split_head
from edgemem.records import Heard, Message, Session, as_ours, text_of
from edgemem.session.conversation import Conversation
from edgemem.session.log import STATE_KEY, Moment, SessionLog
from edgemem.session.points import (
    AFTER_LLM,
    AFTER_TOOL,
    BEFORE_LLM,
    BEFORE_TOOL,
    ON_ABORT,
    ON_IDLE,
    ON_INTERRUPT,
    ON_PARTIAL,
    ON_RUN_END,
    ON_RUN_START,
    ON_SPEECH_START,
    AgentResult,
    HookFailure,
    HookRegistry,
    HookResult,
    TurnContext,
)
from edgemem.session.steps import Parts, Step, Steps
from edgemem.session.tools import CALLED
from edgemem.session.turn import TOOL_TURN, Agent, OpenTurn
from edgemem.store.messages import without_thoughts
from edgemem.store.turn_steps import BeginEpoch

TASK_KEYS = ("task", "speaker", "heard", "private", "audience")
"""The payload of `on_run_start`."""


MAX_NESTED_TURNS = 8
"""Turns that agents may have within one tool."""


class Part(Protocol):
    """A hook that brings a part of the session."""

    field: str
    """The name of the part."""
    part: Any


class LoopState:
    """The newest turn of a session, as its loops have told of it: agents of one session share it."""

    def __init__(self) -> None:
        self.turn: OpenTurn | None = None
        self.agent: Agent | None = None
        """The agent that began it."""
        self.list = LoopList()
        self.task: dict[str, Any] | None = None
        """The payload of an `on_run_start` whose turn has not begun."""
        self.session = Session()
        """The session of the loop that told it."""
        self.start: dict[str, Any] | None = None
        """The payload of that of the open turn; None: it had none."""
        self.outer: OuterRun | None = None
        """The run of a framework that the turn is."""
        self.tasks: set[Key] = set()
        """Messages in a person's place that an agent wrote: they are handed on, and kept nowhere."""
        self.tokens: list[tuple[int, ...]] = []
        self.outcomes: list[Any] = []
        """The results of tools since the model was called."""
        self.running = 0
        """How many tools run."""
        self.within = 0
        """How many turns of agents there were within the newest of them."""
        self.is_new = True
        """Whether the session has had no utterance, so that a loop's list is history from elsewhere."""
        self.is_cut = False
        """Whether a voice has reported that the newest reply was cut off."""


class LoopAdapter:
    """One session of a loop that owns its list."""

    def __init__(
        self,
        log: SessionLog,
        *,
        speaker: str | None = None,
        agent: str = "",
        note_failure: Callable[[HookFailure], None] | None = None,
        now: Callable[[], float] = time.time,
        is_shared: bool = False,
    ) -> None:
        """Make the adapter.

        Args:
            speaker: who speaks where the loop does not say it; None: an unknown voice.
            agent: the name that episodes carry; without it, that of the loop's context.
            note_failure: keeps the failures of the steps.
            now: the wall time that a new epoch freezes, seconds since the epoch UTC.
            is_shared: the conversation goes on in whatever session of a loop; else each has its own.
        """
        self.log, self.is_shared = log, is_shared
        self.offered: Sequence[Part] = ()
        """All hooks that may join."""
        self.joined: list[Part] = []
        """The hooks that bring parts, in their order; the first has the others' steps taken."""
        self.registry = HookRegistry(note_failure=note_failure)
        """Counts failures of the steps; hooks of the user's own stand in the loop's registry."""
        self.conversation = Conversation(log, Steps(Parts(), self.registry), speaker=speaker, agent=agent)
        self._name, self._now = agent, now
        self.state = log.loops if isinstance(log.loops, LoopState) else LoopState()
        log.loops = self.state
        self._acts: dict[str, Callable[[Any, Any], HookResult | None]] = {
            ON_RUN_START: self._start, BEFORE_LLM: self._prompt, AFTER_LLM: self._answer,
            BEFORE_TOOL: self._call, AFTER_TOOL: self._result, ON_RUN_END: self._end, ON_ABORT: self._abort,
            ON_INTERRUPT: self._interrupt, ON_SPEECH_START: self._speech, ON_PARTIAL: self._partial, ON_IDLE: self._idle,
        }  # fmt: skip

    @property
    def turn(self) -> OpenTurn | None:
        """Return the turn that the loops of this session have open."""
        return self.state.turn if self.state.turn is not None and self.state.turn.is_open else None

    def join(self, *hooks: Part) -> None:
        """Take the parts that hooks bring."""
        new = [hook for hook in hooks if not any(hook is known for known in self.joined)]
        kept = [hook.part.session_id for hook in (*self.joined, *new) if hook.field == "session"]
        if len(kept) > 1:
            raise InvalidInputError(
                f"This agent keeps the session {kept[0]!r} already; two hooks would store each word twice."
            )
        if new:
            self.joined += new
            parts = dataclasses.replace(Parts(), **{hook.field: hook.part for hook in self.joined})
            self.conversation.agent.steps = Steps(parts, self.registry)

    def act(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Act at a point of a turn."""
        with self.log.lock:
            agent, known = self.conversation.agent, as_ours(ctx, TurnContext)
            if agent.ctx.session.state is not ctx.session.state:
                if self._in_nested_agent(point):
                    return None
                agent.ctx.session = Session(self.log.record.messages, ctx.session.state)
                ctx.session.state[STATE_KEY] = self.log
            agent.ctx.llm, agent.ctx.agent_name = known.llm, self._name or known.agent_name
            return self._acts[point](ctx, payload)

    def _in_nested_agent(self, point: str) -> bool:
        """Tell whether a point is of an agent that runs within a tool of the loop, with the same hooks."""
        self.state.within += point == ON_RUN_START
        if self.state.within > MAX_NESTED_TURNS:  # the tool was given up, and its loop never said so
            self.state.running = 0
        return self.state.running > 0

    # -- a turn --------------------------------------------------------------------------------------

    def _start(self, ctx: Any, payload: Any) -> None:
        run = outer_run()
        if run is not None and self.state.outer is not None and self.state.outer.holds(run):
            self.state.outer.agents.add(str(ctx.agent_name))
            return  # one agent after the other answers
        listed = split_head(inward(self.state.session.messages))[1]
        self._keep_unasked(ctx, listed)
        if ctx.session is not self.state.session:  # another loop's list has nothing of that turn
            self._close(listed)
        self.state.session = ctx.session
        if run is not None or self.state.outer is not None:
            self._close()
        if (upkeep := self.conversation.agent.steps.parts.upkeep) is not None:
            upkeep.begin(self._moment(payload))
        self.state.is_new = self.state.is_new and self.state.task is None
        self.state.task = dict(payload) if isinstance(payload, dict) else {}
        self.state.outer = run
        if run is not None:
            run.agents.add(str(ctx.agent_name))
            run.listen(lambda reply: self._close(reply=reply))
        for name in self.state.task.keys() - set(TASK_KEYS):
            if near := get_close_matches(str(name), TASK_KEYS, n=1):
                raise InvalidInputError(
                    f"on_run_start was told {name!r}, which nobody reads; it is {near[0]!r}."
                )

    def _keep_unasked(self, ctx: Any, listed: Sequence[Message]) -> None:
        """Keep an utterance whose loop failed before it asked its model, if its list has it."""
        task = (self.state.task or {}).get("task")
        for n, message in enumerate(listed if task else ()):
            is_task = message.get("role") == "user" and text_of(message) == task
            if is_task and not self.state.list.holds(message):
                self._close(listed[:n])
                self._begin(ctx, listed[:n], message.get("content"))
                return

    def _prompt(self, ctx: Any, payload: Any) -> HookResult:
        head, listed = split_head(inward(payload["messages"]))
        turn = self._opened(ctx, listed, payload.get("hop", 0))
        agent = self.state.agent or self.conversation.agent
        agent.system, agent.schemas = head, list(payload.get("tools") or ())
        view = [*head, *listed[-1:]]
        if turn is not None:
            view = turn.messages
            if turn.hook_reply is not None:
                return HookResult.end(turn.hook_reply)
            self.state.list.hold(listed, view)
            placed = [message for message in listed if self._is_placed(message)]
            view = outward(self.state.list.placed(view, placed, listed) if placed else view)
            payload = {**payload, "now": turn.now}
        return HookResult.replace({**payload, "messages": view})

    def _opened(self, ctx: Any, listed: Sequence[Message], hop: int) -> OpenTurn | None:
        """Return the turn that a list belongs to, with all of its messages that are new."""
        state, turn = self.state, self.turn
        place = None if turn is None else state.list.utterance(listed, is_asked=True)
        newest = _newest_user(listed)
        if turn is not None and newest is not None and hop == 0 and state.outer is None:
            if state.task is not None or (state.start is None and newest != place):
                self._close(listed[:newest])  # the next utterance
            elif newest != place and state.list.is_new:
                turn.abort()  # other words in the same turn: they are asked again
                state.task = state.start
        elif turn is not None and state.task is not None:
            self._close(listed)
        if (turn := self.turn) is None:
            content = (state.task or {}).get("task") if newest is None else listed[newest].get("content")
            if content is None:
                return None
            turn, place = self._begin(ctx, listed[:newest], content), newest
        if place is not None:
            self._follow(turn, listed[place + 1 :])
        elif state.outer is not None:
            self._follow(turn, listed)  # an agent with a list of its own
        return turn

    def _begin(self, ctx: Any, before: Sequence[Message] | None, content: Any) -> OpenTurn:
        """Begin a turn, and learn from the list before its utterance whether its loop has changed what was said."""
        log, task, known = self.log, self.state.task or {}, as_ours(ctx, TurnContext)
        self.state.is_cut = False
        self.state.start, self.state.task = self.state.task, None
        self.state.tokens, self.state.outcomes = [], []
        steps = self.conversation.agent.steps
        resume = Step(steps.parts.session.name, steps.parts.session.begin)
        steps.run((resume,), ON_RUN_START, self._moment(task))
        utterance: Message = {"role": "user", "content": content}
        between = list(takewhile(lambda each: not self.state.list.holds(each), reversed(before or ())))[::-1]
        for message in between:
            self._take_late(message)
        between = [each for each in between if log.prompt_log.turns and each.get("role") in INSTRUCTIONS]
        edited = self.state.list.begin(log.prompt_log.turns, utterance, before)
        if not log.prompt_log.turns:
            history = before if self.state.is_new and log.is_resumed and before is not None else ()
            log.record.messages[:] = [each for each in history if each.get("role") not in INSTRUCTIONS]
        elif edited is not None:
            self._begin_epoch(edited + 1)
        told = msgspec.UNSET if known.speaker is None else known.speaker
        heard = task.get("heard") or known.heard
        self.state.agent = self.conversation.agent
        turn = self.state.turn = self.conversation.turn(
            content,
            speaker=task.get("speaker", told),
            audience=task.get("audience") or known.audience or (),
            private=bool(task.get("private") or known.private),
            heard=heard if isinstance(heard, Heard) else None,
        )
        if running := log.prompt_log.running:
            self.state.list.alias(running.messages[running.utterance or 0], utterance)
        turn.precede(between)
        return turn

    def _begin_epoch(self, first_turn: int) -> None:
        """Begin an epoch behind the newest turn that its loop has changed."""
        prompt_log = self.log.prompt_log
        if first_turn <= prompt_log.epoch.first_turn:
            return
        as_of = self.log.newest_forgetting()
        epoch = self.log.scrubbed(prompt_log.epoch, as_of)
        begun = {"first_turn": first_turn, "reason": "edited", "started_at": self._now()}
        epoch = msgspec.structs.replace(epoch, carried=(), id=0, session=prompt_log.session, **begun)
        prompt_log.switch(epoch)
        self.log.epoch_writes.append(BeginEpoch(prompt_log.epoch, as_of))

    def _follow(self, turn: OpenTurn, behind: Sequence[Message]) -> None:
        """Add the messages behind an utterance that are new."""
        new = self.state.list.added(behind)
        asked = next((message for message in new if message.get("role") == "user"), None)
        if asked is not None and self.state.outcomes:
            # Its model is told in a person's place what its tools answered.
            words = results_in_words(self.state.outcomes, turn.hops)
            new = inward(words if message is asked else message for message in new)
            for message in (asked, words):
                self.state.list.alias(message, words.results[-1])
        for message in new:
            role = message.get("role")
            if role == "tool" and self._take_late(message):
                self.state.list.add(message)
                continue
            if role == "assistant" and not message.get("tool_calls"):
                if self.state.list.was_said(message):
                    continue
                turn.reply_text = text_of(without_thoughts(message))
            if role in ("assistant", "tool", *INSTRUCTIONS):
                tokens = self.state.tokens.pop(0) if role == "assistant" and self.state.tokens else ()
                self.state.list.add(message, turn.note(message, tokens))
            elif role == "user" and not self.state.list.was_said(message):
                self.state.tasks.add(key_of(message))
        self.state.outcomes = [] if new else self.state.outcomes

    def _take_late(self, message: Message) -> bool:
        """Take the result of a tool that was called in an earlier turn and had none; tell whether a message is one."""
        call_id = message.get("tool_call_id")
        turn, _ = self.log.find_call(call_id) or (None, None) if isinstance(call_id, str) else (None, None)
        if turn is None or turn is self.log.prompt_log.running:
            return False
        if any(answer.get("tool_call_id") == call_id for answer in turn.messages):
            return False
        self.conversation.result(str(call_id), text_of(message))
        return True

    def _is_placed(self, message: Message) -> bool:
        if message.get("role") in INSTRUCTIONS:
            return True
        return bool(self.state.tasks) and key_of(message) in self.state.tasks

    def _answer(self, ctx: Any, payload: Any) -> HookResult | None:
        if self.turn is None:
            return None
        self.state.tokens.append(tuple(payload.get("tokens") or ()))
        self.state.outcomes = []
        if not payload.get("tool_calls"):
            self.log.answered = payload.get("content") or None
            self.log.accept()
        return self._take(AFTER_LLM, payload)

    def _call(self, ctx: Any, payload: Any) -> HookResult | None:
        self.state.running += 1
        self.state.within = 0
        self.log.called_tools = True
        TOOL_TURN.set(self.turn)  # an agent that it runs is none of the people here
        CALLED.set(None if self.turn is None else self.turn.tool_turn(self.log.prompt_log.next_n))
        return self._take(BEFORE_TOOL, payload)

    def _result(self, ctx: Any, payload: Any) -> HookResult | None:
        self.state.running = max(0, self.state.running - 1)
        TOOL_TURN.set(None)
        CALLED.set(None)
        fired = self._take(AFTER_TOOL, payload)
        self.state.outcomes.append(fired.payload if fired is not None and fired.is_modify else payload)
        return fired

    def _moment(self, payload: Any) -> Moment:
        return Moment(self.log, self.conversation.agent.ctx, payload)

    def _take(self, point: str, payload: Any) -> HookResult | None:
        """Take the steps of a point; return what they have put in place of its payload, or the reply of a hook."""
        steps, moment = self.conversation.agent.steps, self._moment(payload)
        taken = {AFTER_LLM: steps.answer, BEFORE_TOOL: steps.call, AFTER_TOOL: steps.result}[point]
        steps.run(taken, point, moment)
        if moment.reply is not None:
            return HookResult.end(moment.reply)
        return None if moment.payload is payload else HookResult.replace(moment.payload)

    # -- how it ends ---------------------------------------------------------------------------------

    def _end(self, ctx: Any, payload: Any) -> None:
        self.state.running = 0
        if isinstance(payload, (str, dict)):
            reply = payload if isinstance(payload, str) else payload.get("reply")
            payload = AgentResult(str(reply or ""))
        ended = as_ours(payload, Ended)
        listed = split_head(inward(ctx.session.messages))[1]
        newest = _newest_user(listed)
        if self.state.task is not None:
            self._close()
        if (turn := self.turn) is None and (task := (self.state.task or {}).get("task")):
            turn = self._begin(ctx, None, task)  # a hook has ended it before the model was asked
        elif turn is None and newest is not None and not self.state.list.holds(listed[newest]):
            # A hook has ended it before this one knew who spoke.
            self.state.task = {"private": as_ours(ctx, TurnContext).speaker is None}
            turn = self._begin(ctx, listed[:newest], listed[newest].get("content"))
        if turn is None:
            if (upkeep := self.conversation.agent.steps.parts.upkeep) is not None:
                upkeep.end(self._moment(payload))
            return
        if (place := self.state.list.utterance(listed)) is not None:
            self._follow(turn, listed[place + 1 :])
        interrupted = bool(ended.interrupted or ended.preempted)
        self._reply(turn, (self.log.answered or "") if interrupted and not ended.interrupted else ended.reply)
        run = outer_run()
        if run is None or run.depth == 0 or (run.is_silent and ended.reply.strip()):
            self._commit(turn, error=ended.error, interrupted=interrupted)

    def _reply(self, turn: OpenTurn, reply: str) -> None:
        message: Message = {"role": "assistant", "content": reply}
        if reply and self.state.list.added([message]):
            turn.note(message, self.state.tokens.pop() if self.state.tokens else ())
            self.state.list.add(message)
        turn.reply_text = reply or turn.reply_text

    def _close(self, listed: Sequence[Message] = (), reply: str = "") -> None:
        """End the turn that is open: complete with a reply, else unfinished.

        Args:
            listed: the list of its loop, which may have more of it.
        """
        with self.log.lock:
            turn = self.turn
            if turn is not None:
                place = self.state.list.utterance(listed)
                behind = () if place is None else listed[place + 1 :]
                if _newest_user(behind) is None or self.state.outcomes:
                    self._follow(turn, behind)
                    reply = reply or _newest_reply(behind)
                self._reply(turn, self.log.answered or ("" if turn.reply_text else reply))
                self._commit(
                    turn, error=None if turn.reply_text else "The loop ended no turn.", interrupted=False
                )

    def _commit(self, turn: OpenTurn, *, error: str | None, interrupted: bool) -> None:
        if self.state.outer is not None:
            self.state.outer.stop()
        self.state.outer = None
        turn.commit(error=error, interrupted=interrupted)

    def _abort(self, ctx: Any, payload: Any) -> None:
        self.abort()

    def abort(self) -> None:
        """Throw the open turn away."""
        task, self.state.task, self.state.running = self.state.task, None, 0
        if self.turn is not None and task is None:
            self.turn.abort()

    # -- speech --------------------------------------------------------------------------------------

    def _interrupt(self, ctx: Any, payload: Any) -> HookResult | None:
        self.state.is_cut = True
        report = {name: payload.get(name) for name in ("heard_text", "heard_ms", "words", "prepared")}
        heard = self.conversation.interrupt(report.pop("heard_text"), **report)
        return None if heard is None else HookResult.replace({**payload, "heard_text": heard})

    def _speech(self, ctx: Any, payload: Any) -> None:
        self.conversation.speech_start(speaker=payload.get("speaker", msgspec.UNSET))

    def _partial(self, ctx: Any, payload: Any) -> None:
        speaker, audience = payload.get("speaker", msgspec.UNSET), payload.get("audience") or ()
        self.conversation.partial(payload.get("text"), speaker=speaker, audience=audience)

    def _idle(self, ctx: Any, payload: Any) -> None:
        self._close()
        self.conversation.idle(payload.get("seconds", 0.0))


def _newest_user(messages: Sequence[Message]) -> int | None:
    return next((n for n in range(len(messages) - 1, -1, -1) if messages[n].get("role") == "user"), None)


def _newest_reply(messages: Sequence[Message]) -> str:
    newest = messages[-1] if messages else {}
    return text_of(without_thoughts(newest)) if newest.get("role") == "assistant" else ""


class Ended(msgspec.Struct):
    """How a run ended, as a loop tells it."""

    reply: str = ""
    interrupted: bool = False
    error: str | None = None
    preempted: bool = False
    """Whether EdgeVox stopped it; the reply is then EdgeVox's own."""
