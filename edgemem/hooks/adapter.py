"""The adapter: a loop that keeps its own list of messages, and fires the points of a turn, enters the door here.

Its newest user message is the utterance, once a turn; messages behind that belong to the turn. Those before it are only
compared with the conversation: nothing of a list is ever taken for said a second time, or by somebody else.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, Protocol

import msgspec

from edgemem.context.messages import INSTRUCTIONS, is_spoken, tool_calls
from edgemem.errors import InvalidInputError, TurnEndedError
from edgemem.hooks.edgevox import OuterRun, inward, outer_run, outward, results_in_words
from edgemem.hooks.loop_list import Key, key_of, split_head, without_blocks
from edgemem.hooks.loops import (
    LOOP,
    Loop,
    LoopState,
    close_unreadable,
    ended_of,
    enter_tool,
    has_words,
    instructions_of,
    leave_others,
    leave_tool,
    newest_reply,
    newest_spoken,
    own_words,
    quotes,
    says,
    without_mark,
)
from edgemem.records import Message, Session, as_ours, text_of
from edgemem.session.conversation import Conversation, Speaker
from edgemem.session.log import Moment, SessionLog
from edgemem.session.points import (
    AFTER_LLM,
    AFTER_TOOL,
    BEFORE_LLM,
    BEFORE_TOOL,
    CLASSIC_POINTS,
    ON_ABORT,
    ON_IDLE,
    ON_INTERRUPT,
    ON_PARTIAL,
    ON_RUN_END,
    ON_RUN_START,
    ON_SPEECH_START,
    STATE_KEY,
    HookFailure,
    HookRegistry,
    HookResult,
    TurnContext,
)
from edgemem.session.steps import Parts, Step, Steps
from edgemem.session.tools import call_key
from edgemem.session.turn import TOOL_TURN, OpenTurn
from edgemem.store.messages import without_thoughts
from edgemem.store.rights import readable
from edgemem.store.turn_steps import BeginEpoch

_ENDED = (
    "The turn was ended before its loop had its reply, which is kept nowhere; one session has one open turn."
)


class Part(Protocol):
    """A hook that brings `field` of the session's `Parts`."""

    field: str
    part: Any


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
        conversation: Conversation | None = None,
    ) -> None:
        """Make the adapter; `speaker` speaks where the loop does not say who, None is an unknown voice.

        It tells `conversation` its turns, or one of its own. Episodes carry the name `agent`, else that of the loop's context. `now` tells the time that a new epoch freezes, seconds
        since the epoch UTC. If `is_shared`, all sessions of a loop go on with one conversation, else each has its own.
        """
        self.log, self.is_shared = log, is_shared
        self.offered: Sequence[Part] = ()  # all hooks that may join
        self.joined: list[Part] = []  # in their order; the first has the others' steps taken
        own = HookRegistry(note_failure=note_failure)
        self.registry = own if conversation is None else conversation.hooks
        """Counts failures of the steps; hooks of the user's own are in the loop's registry."""
        self.conversation = conversation or Conversation(
            log, Steps(Parts(), self.registry), speaker=speaker, agent=agent
        )
        self.speaker: Speaker = msgspec.UNSET
        """Who says the next utterance, where a loop tells that with its list."""
        self._name, self._now = agent, now
        self.state = log.loops if isinstance(log.loops, LoopState) else LoopState()
        log.loops = self.state
        self._acts: dict[str, Callable[[Any, Any], HookResult | None]] = {
            BEFORE_LLM: self._prompt, AFTER_LLM: self._answer,
            BEFORE_TOOL: self._call, AFTER_TOOL: self._result, ON_RUN_END: self._end, ON_ABORT: self._abort,
            ON_INTERRUPT: self._interrupt, ON_SPEECH_START: self._speech, ON_PARTIAL: self._partial, ON_IDLE: self._idle,
        }  # fmt: skip

    @property
    def turn(self) -> OpenTurn | None:
        """Return the turn that the loops of this session have open."""
        return self.state.loop.open_turn

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
        """Act at a point of a turn; where a prompt cannot be made, the model reads the speaker's own words alone."""
        with self.log.lock:
            try:
                return self._act(point, ctx, payload)
            except Exception as error:
                if point != BEFORE_LLM:
                    raise
                self.registry.note("edgemem", point, error, ctx)
                messages = own_words(payload.get("messages"), self.state.loop.text)
                return HookResult.replace({**payload, "messages": messages})

    def _act(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        state, loop = self.state, self._loop_of(point, ctx, payload)
        if point == ON_RUN_START and isinstance(payload, dict):
            leave_others(payload.get("speaker"))
        if loop is not state.loop:
            outer = TOOL_TURN.get()
            if outer is not None and outer.is_open and outer.log is self.log:
                return None  # an agent within a tool of the turn, with the same hooks
        run = outer_run() if point == ON_RUN_START else None
        if run is not None and state.outer is not None and state.outer.holds(run):
            state.outer.agents.add(str(ctx.agent_name))
            ctx.session.state[LOOP] = state.loop
            return None  # one agent after the other answers
        if loop is not state.loop:
            is_first = state.loop.log is None  # hooks by themselves may be told of tools alone
            is_end = point == ON_RUN_END and (loop.task is not None or loop.turn is None)
            if is_first or is_end or point in (ON_RUN_START, BEFORE_LLM):
                self._keep_unasked()
                self._close(state.loop.messages)
                if state.outer is not None:
                    state.outer.stop()
                state.loop, state.outer = loop, None
            elif point in CLASSIC_POINTS or point == ON_ABORT:
                self._late(loop, point, payload)
                return None
        if point not in (BEFORE_TOOL, AFTER_TOOL):
            leave_tool(loop.turn)
        agent, known = self.conversation.agent, as_ours(ctx, TurnContext)
        if agent.ctx.session.state is not ctx.session.state and loop is state.loop:
            agent.ctx.session = Session(self.log.record.messages, ctx.session.state)
            ctx.session.state[STATE_KEY] = self.log
        agent.ctx.llm, agent.ctx.agent_name = known.llm, self._name or known.agent_name
        if point == ON_RUN_START:
            self._start(ctx, payload, run)
            return None
        return self._acts[point](ctx, payload)

    def _loop_of(self, point: str, ctx: Any, payload: Any) -> Loop:
        """Return the loop of a context; one that comes with a new context at each point goes on with its turn."""
        loop, current = ctx.session.state.get(LOOP), self.state.loop
        if isinstance(loop, Loop) and loop.log is self.log:
            is_own = loop.ctx.session.state is ctx.session.state
            if is_own:
                loop.ctx = ctx
            if is_own or point != ON_RUN_START:
                return loop
        if current.log is not None and point != ON_RUN_START:
            asks = point == BEFORE_LLM and not payload.get("hop")
            messages = payload["messages"] if asks else ctx.session.messages if point == ON_RUN_END else ()
            spoken = newest_spoken(messages)
            if spoken is None or has_words(messages[spoken], current.text):
                return current
        loop = ctx.session.state[LOOP] = Loop(self.log, ctx)
        return loop

    def _late(self, loop: Loop, point: str, payload: Any) -> None:
        """Take what a loop tells of a turn that another one has ended."""
        if point == BEFORE_TOOL:
            enter_tool(loop.turn, call_key(payload), self.log.prompt_log.next_n)
        elif point == AFTER_TOOL:
            leave_tool(loop.turn, call_key(payload))
        elif point == ON_ABORT:
            loop.task = loop.start = None
        elif point == ON_RUN_END and loop.start is not None:
            loop.start = None
            if loop.lacks(ended_of(payload).reply):
                raise TurnEndedError(_ENDED)

    # -- a turn --------------------------------------------------------------------------------------

    def _start(self, ctx: Any, payload: Any, run: OuterRun | None) -> None:
        state = self.state
        self._keep_unasked()
        if run is not None or state.outer is not None:
            self._close()
        if (upkeep := self.conversation.agent.steps.parts.upkeep) is not None:
            upkeep.begin(self._moment(payload))
        state.utterances += 1
        task = state.loop.task = dict(payload) if isinstance(payload, dict) else {}
        state.outer = run
        if run is not None:
            run.agents.add(str(ctx.agent_name))
            run.listen(lambda reply: self._close(reply=reply))
        if wrong := close_unreadable(task):
            raise InvalidInputError(" ".join(wrong))

    def _keep_unasked(self) -> None:
        """Keep an utterance whose loop failed before it asked its model, if its list has it."""
        loop = self.state.loop
        listed = loop.messages if (loop.task or {}).get("task") else []
        for n, message in enumerate(listed):
            if is_spoken(message) and self._has_words(message):
                self._close(listed[:n])
                try:
                    self._begin(listed[:n], message)
                except InvalidInputError as error:  # what comes next goes on
                    self.registry.note("edgemem", ON_RUN_START, error, loop.ctx)
                return

    def _prompt(self, ctx: Any, payload: Any) -> HookResult:
        if wrong := [item for item in payload["messages"] if not isinstance(item, dict)]:
            raise InvalidInputError(f"A message must be a dict with `role`; got {type(wrong[0]).__name__}.")
        head, listed = split_head(inward(payload["messages"]))
        turn, loop = self._opened(listed, payload.get("hop", 0)), self.state.loop
        agent = loop.agent or self.conversation.agent
        agent.system, agent.schemas = head, list(payload.get("tools") or ())
        if turn is None:
            view = [*head, *(message for message in listed[-1:] if not loop.list.holds(message))]
        else:
            view = turn.messages
            if turn.hook_reply is not None:
                return HookResult.end(turn.hook_reply)
            loop.list.hold(listed, view)
            hidden = self._hidden(listed)
            shown = [item for item in listed if key_of(item) not in hidden]
            view = outward(without_mark(item) for item in loop.list.placed(view, shown))
            payload = {**payload, "now": turn.now}
        return HookResult.replace({**payload, "messages": view})

    def _hidden(self, listed: Sequence[Message]) -> set[Key]:
        """Return the keys of instructions that are part of turns whose answers nobody here may read."""
        told: set[Key] = set()
        hidden: set[Key] = set()
        if any(message.get("role") in INSTRUCTIONS for message in listed):
            state, log = self.state, self.log
            if state.older is None:
                older = map(instructions_of, log.older_turns(log.prompt_log.turns))
                state.older = [part for part in older if part[0]]
            for keys, level, owner in (*state.older, *map(instructions_of, log.prompt_log.turns)):
                (told if readable(log.prompt_log.reader, level, owner) else hidden).update(keys)
        return hidden - told

    def _opened(self, listed: Sequence[Message], hop: int) -> OpenTurn | None:
        """Return the turn that a list belongs to, with all of its messages that are new."""
        state, loop = self.state, self.state.loop
        turn, newest = loop.open_turn, self._newest(listed)
        place = None if turn is None else loop.list.utterance(listed, is_asked=True)
        quoting = newest not in (None, place) and self._has_words(listed[newest or 0])
        if quoting and place is not None and loop.list.was_said(listed[place]):
            place = None  # the same words of before
        if turn is not None and newest is not None and hop == 0 and state.outer is None:
            if loop.task is not None or (loop.start is None and newest != place):
                self._close(listed[:newest])  # the next utterance
            elif place is not None and any(map(self._is_reply, listed[place + 1 : newest])):
                self._close(listed[:newest])  # the next, of which no start has told
                start = loop.start or {}
                loop.task = {key: start[key] for key in ("private", "audience") if key in start}
            elif loop.list.is_new and (
                place is None or any(map(loop.list.was_said, listed[place + 1 : newest]))
            ):
                turn.abort()  # other words in the same turn: they are asked again
                loop.task = loop.start if quoting or not loop.start else {**loop.start, "task": None}
        elif turn is not None and loop.task is not None:
            self._close(listed)
        elif turn is None and not loop.task and newest is not None:
            told = loop.start or loop.failed  # another loop, the quiet or a failure has ended the turn
            place = loop.list.place_in(listed)
            if place == newest or (place is None and has_words(listed[newest], (told or {}).get("task"))):
                loop.task = told
        if (turn := loop.open_turn) is None:
            if newest is None and (loop.task or {}).get("task") is None:
                return None
            turn = self._begin(listed[:newest], None if newest is None else listed[newest])
            place = newest
        elif place is None and newest is not None and quoting:
            self._show(turn, listed[newest])
            place = newest
        if place is not None:
            self._follow(turn, listed[place + 1 :])
        elif state.outer is not None:
            self._follow(turn, listed)  # an agent with a list of its own
        return turn

    def _has_words(self, message: Message) -> bool:
        """Tell whether a new message has the words that a start has told."""
        return has_words(message, self.state.loop.text) and not self.state.loop.list.holds(message)

    def _newest(self, listed: Sequence[Message]) -> int | None:
        """Return the place of the newest utterance; None where a start has told others than any that is new."""
        loop = self.state.loop
        newest = newest_spoken(listed, loop.text)
        if newest is None or loop.task is None or loop.text is None or says(listed[newest], loop.text):
            return newest
        return None if loop.list.holds(listed[newest]) else newest

    def _is_reply(self, message: Message) -> bool:
        """Tell whether a message is a reply that no turn has yet."""
        is_said = message.get("role") == "assistant" and not tool_calls(message)
        return is_said and not self.state.loop.list.holds(message)

    def _begin(self, before: Sequence[Message] | None, spoken: Message | None = None) -> OpenTurn:
        """Begin a turn, and learn from the list before its utterance whether its loop has changed earlier turns."""
        log, state, loop = self.log, self.state, self.state.loop
        task, known = loop.task or {}, as_ours(loop.ctx, TurnContext)
        if not isinstance(self.speaker, msgspec.UnsetType):
            task = {**task, "speaker": self.speaker}
        state.is_cut = False
        state.utterances += loop.task is None
        loop.tokens, loop.outcomes = [], []
        steps = self.conversation.agent.steps
        resume = Step(steps.parts.session.name, steps.parts.session.begin)
        steps.run((resume,), ON_RUN_START, self._moment(task))
        content: Any = None if loop.task is None else loop.text
        if spoken is not None and (not isinstance(content, str) or says(spoken, content)):
            content = without_blocks(spoken.get("content"))
        utterance: Message = {"role": "user", "content": content}
        edited = loop.list.begin(log.prompt_log.turns, utterance, before)
        if not task.keys() & {"task", "speaker"}:
            task = {**task, **self._asked_again(before or (), known.speaker)}
        between = list(takewhile(lambda item: not loop.list.holds(item), reversed(before or ())))[::-1]
        for message in between:
            self._take_late(message)
        between = [item for item in between if log.prompt_log.turns and item.get("role") in INSTRUCTIONS]
        if not log.prompt_log.turns:
            brought = before or () if state.utterances <= 1 and log.is_resumed else ()
            log.record.messages[:] = [item for item in brought if item.get("role") not in INSTRUCTIONS]
        elif edited is not None:
            self._begin_epoch(edited + 1)
        named = msgspec.UNSET if known.speaker is None else known.speaker
        loop.agent = self.conversation.agent
        turn = self.conversation.turn(
            content,
            speaker=task.get("speaker", named),
            audience=task.get("audience") or known.audience or (),
            private=bool(task.get("private") or known.private),
            heard=task.get("heard") or known.heard,
        )
        loop.turn, loop.start, loop.task, loop.failed = turn, loop.task, None, None
        if running := log.prompt_log.running:
            loop.list.alias(running.messages[running.utterance or 0], utterance)
        turn.precede(between)
        if spoken is not None:
            self._show(turn, spoken)
        return turn

    def _show(self, turn: OpenTurn, message: Message) -> None:
        """Have the model read what a loop puts around the words that its start has told, unless that is closed to a listener."""
        text, prompt_log = self.state.loop.text, self.log.prompt_log
        if not isinstance(text, str) or says(message, text):
            return
        self.state.loop.list.alias(message, {"role": "user", "content": text})
        closed = [old for old in prompt_log.turns if not readable(prompt_log.reader, old.level, old.owner)]
        if has_words(message, text) and not any(quotes(message, text, old) for old in closed):
            turn.show({**message, "content": without_blocks(message.get("content"))})

    def _asked_again(self, before: Sequence[Message], speaker: str | None) -> dict[str, Any]:
        """Return whose the utterance is where it is that of the newest turn, which failed, or was ended by a restart."""
        turn = self.state.loop.list.newest_again(before)
        if turn is None or speaker not in (None, turn.owner):
            return {}
        is_said = turn.heard is not None or self.log.journal is None  # and no agent's
        owner, private = turn.owner if is_said else None, turn.level == "private"
        return {"speaker": owner, "heard": turn.heard, "private": private, "audience": ("",)}

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
        """Add the messages behind an utterance that are new; those in a person's place are an agent's."""
        loop = self.state.loop
        new = loop.list.added(behind)
        asked = next((message for message in new if is_spoken(message)), None)
        if asked is not None and loop.outcomes:
            # Its model is told in a person's place what its tools answered.
            words = results_in_words(loop.outcomes, turn.hops)
            new = inward(words if message is asked else message for message in new)
            for message in (asked, words):
                loop.list.alias(message, words.results[-1])
        for message in new:
            role = message.get("role")
            if role == "tool" and self._take_late(message):
                loop.list.add(message)
            elif role == "user":
                if not (loop.list.is_utterance(message) or loop.list.was_said(message)):
                    loop.list.add(message, turn.add(message))
            else:
                if role == "assistant" and not tool_calls(message):
                    if loop.list.was_said(message):
                        continue
                    turn.reply_text = text_of(without_thoughts(message))
                tokens = loop.tokens.pop(0) if role == "assistant" and loop.tokens else ()
                loop.list.add(message, turn.note(message, tokens))
        loop.outcomes = [] if new else loop.outcomes

    def _take_late(self, message: Message) -> bool:
        """Take the result of a tool that was called in an earlier turn; tell whether a message is one, or was taken before."""
        call_id, is_new = message.get("tool_call_id"), message not in self.state.late
        try:
            found = self.log.find_call(call_id) if isinstance(call_id, str) else None
            if found is None or found[0] is self.log.prompt_log.running:
                # One of the open turn that has its result is a result that its loop has shortened.
                return found is not None and not found[0].awaits(str(call_id))
            if is_new:
                self.conversation.result(str(call_id), text_of(message))
        except InvalidInputError as error:  # nobody can tell whose it is
            if is_new:
                self.registry.note("edgemem", AFTER_TOOL, error)
        if is_new:
            self.state.late.append(message)
        return True

    def _answer(self, ctx: Any, payload: Any) -> HookResult | None:
        if self.turn is None:
            return None
        self.state.loop.tokens.append(tuple(payload.get("tokens") or ()))
        self.state.loop.outcomes = []
        if not payload.get("tool_calls"):
            self.log.answered = payload.get("content") or None
            self.log.accept()
        return self._take(AFTER_LLM, payload)

    def _call(self, ctx: Any, payload: Any) -> HookResult | None:
        self.log.called_tools = True
        enter_tool(self.state.loop.turn, call_key(payload), self.log.prompt_log.next_n)
        return self._take(BEFORE_TOOL, payload)

    def _result(self, ctx: Any, payload: Any) -> HookResult | None:
        leave_tool(self.state.loop.turn, call_key(payload))
        fired = self._take(AFTER_TOOL, payload)
        self.state.loop.outcomes.append(fired.payload if fired is not None and fired.is_modify else payload)
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
        ended, loop = ended_of(payload), self.state.loop
        listed = split_head(inward(ctx.session.messages))[1]
        newest = newest_spoken(listed, loop.text)
        if loop.task is not None:
            self._close()
        if (turn := self.turn) is None and (loop.task or {}).get("task"):
            turn = self._begin(None)  # a hook has ended it before the model was asked
        elif turn is None and newest is not None and not loop.list.holds(listed[newest]):
            # A hook has ended it before this one knew who spoke.
            loop.task = {"private": as_ours(ctx, TurnContext).speaker is None}
            turn = self._begin(listed[:newest], listed[newest])
        start, loop.start = loop.start, None
        loop.failed = (start or loop.failed) if ended.error else None
        if turn is None:
            if (upkeep := self.conversation.agent.steps.parts.upkeep) is not None:
                upkeep.end(self._moment(payload))
            if (
                start is not None
                and loop.lacks(ended.reply)
                and loop.list.added([{"role": "assistant", "content": ended.reply}])
            ):
                raise TurnEndedError(_ENDED)
            return
        if (place := loop.list.utterance(listed)) is not None:
            self._follow(turn, listed[place + 1 :])
        interrupted = bool(ended.interrupted or ended.preempted)
        self._reply(turn, (self.log.answered or "") if interrupted and not ended.interrupted else ended.reply)
        run = outer_run()
        if run is None or run.depth == 0 or (run.is_silent and ended.reply.strip()):
            self._commit(turn, error=ended.error, interrupted=interrupted)

    def _reply(self, turn: OpenTurn, reply: str) -> None:
        message: Message = {"role": "assistant", "content": reply}
        loop = self.state.loop
        if reply and loop.list.added([message]):
            turn.note(message, loop.tokens.pop() if loop.tokens else ())
            loop.list.add(message)
        turn.reply_text = reply or turn.reply_text

    def _close(self, listed: Sequence[Message] = (), reply: str = "") -> None:
        """End the turn that is open: complete with a reply, else unfinished; `listed`, its loop's list, may have more of it."""
        with self.log.lock:
            turn, loop = self.turn, self.state.loop
            if turn is not None:
                place = loop.list.utterance(listed)
                behind = () if place is None else listed[place + 1 :]
                if not loop.outcomes:  # words told of no more, such as an aborted turn's, are none of it
                    behind = list(takewhile(lambda m: not is_spoken(m) or loop.list.holds(m), behind))
                self._follow(turn, behind)
                reply = reply or newest_reply(behind)
                self._reply(turn, self.log.answered or ("" if turn.reply_text else reply))
                error = None if turn.reply_text else "The loop ended no turn."
                self._commit(turn, error=error, interrupted=False)

    def _commit(self, turn: OpenTurn, *, error: str | None, interrupted: bool) -> None:
        if self.state.outer is not None:
            self.state.outer.stop()
        self.state.outer = None
        turn.commit(error=error, interrupted=interrupted)

    def _abort(self, ctx: Any, payload: Any) -> None:
        self.abort()

    def abort(self) -> None:
        """Throw the open turn away."""
        loop, session = self.state.loop, self.conversation.agent.steps.parts.session
        task, loop.task, loop.start = loop.task, None, None
        if self.turn is None and task is not None:
            loop.list.open({"role": "user", "content": task.get("task")})  # its list may still have it
        elif self.turn is not None and task is None:
            self.turn.abort()
        elif task is None:
            return
        moment = self._moment({})
        session.begin(moment)
        session.mark_begun(moment)

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
