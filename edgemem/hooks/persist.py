"""PersistSessionHook and PromptLogHook: a session is kept, and its log laid out, for a loop that keeps its own list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.errors import InvalidInputError
from edgemem.fence import check_session_id
from edgemem.hooks.shared import (
    SharedHook,
    begin,
    close_left,
    log_of,
    reader_of,
    take,
    task_of,
)
from edgemem.records import Session, as_ours
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
    ON_RUN_END,
    ON_RUN_START,
    AgentResult,
    HookResult,
    SecondPlace,
    needs,
)
from edgemem.session.prompt import PromptHead
from edgemem.session.stored import StoredSession

if TYPE_CHECKING:
    from edgemem.config import Settings
    from edgemem.store.protocols import SessionStore

LEFT_OPEN = (
    "The turn before got no on_run_end, and is kept as its own speaker's, unfinished. Fire on_run_end also where the model"
    " fails, or on_abort to throw a turn away."
)

UNKNOWN = (
    "The loop's list holds words that were said in no turn of these hooks; they are kept for the operator alone, and stand"
    " in no prompt. Fire on_run_start before what is said is put into the list."
)

MOST_WITHIN = 8
"""Turns that other agents may have within one tool; with one more, the tool is taken for given up."""


class PersistSessionHook(SharedHook):
    """Keep the session: resume at the first turn, one durable transaction at the end of each.

    Loops that share these hooks share the conversation: each takes it up where the other left it. What an agent says
    within a tool of another stays its own; the other's session keeps the tool's result.
    """

    points = CLASSIC_POINTS | {ON_INTERRUPT, ON_ABORT, ON_IDLE}
    # Before every other hook at the start (the history must be there), and before them at the end.
    priority = 90

    def __init__(
        self,
        session_store: SessionStore | None = None,
        *,
        session_id: str = "",
        resume: bool = True,
        speaker: str | None = None,
        settings: Settings | None = None,
        log: SessionLog | None = None,
        part: StoredSession | None = None,
    ) -> None:
        """Make the hook.

        Args:
            settings: tell how fast the robot speaks, where a loop tells only for how long it was heard.
            resume: load what the store has when the loop's session is empty.
            speaker: who speaks where the loop does not say it.
            part: the part of a memory's session, in place of all but `speaker` and `log`.
        """
        super().__init__(log, speaker)
        if part is None:
            needs(self, session_store, "save", "load", what="a session store")
            check_session_id(session_id)
            part = StoredSession(session_store, session_id, resume=resume, settings=settings)
        self.part = part
        self._is_resumed = False
        self._session: Session | None = None
        """The loop's session that had the newest turn."""
        self._tools = 0
        """How many tools run in it now."""
        self._within = 0
        """How many turns other agents had while the newest of them ran."""

    @property
    def second_place(self) -> SecondPlace:
        """Return the hook's second place, where it accepts the turn: behind all others, so that its thread does not compete with recall."""
        return SecondPlace(frozenset({BEFORE_LLM}), -999, self._accept)

    def _accept(self, point: str, ctx: Any, payload: Any) -> None:
        log_of(ctx, self.log).accept()

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Resume, collect, accept, commit or amend, as the point demands."""
        if point == ON_IDLE:
            self.part.idle(Moment(log_of(ctx, self.log), ctx, payload))
            return None
        if self._tools and not self._is_own(ctx.session) and self._is_within(point):
            return None  # an agent that runs within a tool: its few messages are not this conversation
        # One log for one session id, whatever session object a loop comes with.
        log = self.log = log_of(ctx, self.log)
        if point == ON_RUN_START:
            self._begin(log, ctx, payload)
        elif point == BEFORE_LLM:
            take(log, ctx, payload["messages"], speaker=self.speaker)
            log.answered = None
        elif point == AFTER_LLM:
            log.generated.append(tuple(payload.get("tokens") or ()))
            if not payload.get("tool_calls"):
                log.answered = payload.get("content") or None
                log.accept()
        elif point == BEFORE_TOOL:
            self._tools += 1
            self._within = 0
            log.caller = ctx.session
            log.called_tools = True
            if log.prompt_log.running is not None:
                log.prompt_log.take(ctx.session.messages)
            log.accept()
        elif point == AFTER_TOOL:
            self._tools = max(0, self._tools - 1)
            log.caller = ctx.session if self._tools else None
        elif point == ON_RUN_END:
            self._tools = 0
            self._commit(log, ctx, payload)
        elif point == ON_INTERRUPT:
            if log.prompt_log.running is not None:
                log.prompt_log.take(ctx.session.messages)
            heard, _ = self.part.interrupt(Moment(log, ctx, payload))
            if heard:  # else the reply is still to come, and is cut when the turn ends
                return HookResult.replace({**payload, "heard_text": heard[-1], "speeches": heard})
        else:
            self._tools = 0
            log.abort()
        return None

    def _begin(self, log: SessionLog, ctx: Any, payload: Any) -> None:
        """Close what a loop left open, take the session up, and open the turn."""
        self._tools = 0
        left = False
        try:
            left = close_left(log, ctx, payload)
        finally:
            if not (self._is_resumed or log.is_resumed):
                self._resume(log, ctx.session, task_of(payload))
            elif ctx.session is not self._session:
                log.prompt_log.bring_up(ctx.session.messages, task_of(payload))
            self._session = ctx.session
            unknown = begin(log, ctx, payload, speaker=self.speaker, by=self)
        if left or unknown:
            raise InvalidInputError(LEFT_OPEN if left else UNKNOWN)

    def _resume(self, log: SessionLog, session: Session, task: str | None) -> None:
        self._is_resumed = True
        brought = log.prompt_log.brought(session.messages, task)
        if self.part.take_up(log, session, brought):
            log.prompt_log.bring_up(session.messages, task)
            # Last: where nothing can be written now, the talk goes on with its history all the same.
            self.part.mark_unfinished(log)

    def _is_own(self, session: Session) -> bool:
        """Tell whether this is the session that had the newest turn; some attachments wrap it, with its own state."""
        return self._session is not None and session.state is self._session.state

    def _is_within(self, point: str) -> bool:
        """Tell whether a tool still runs: some frameworks end a turn there, and never say so."""
        if point == ON_RUN_START:
            self._within += 1
            if self._within > MOST_WITHIN:
                self._tools = 0
                if self.log is not None:
                    self.log.caller = None
        return self._tools > 0

    def _commit(self, log: SessionLog, ctx: Any, payload: Any) -> None:
        prompt_log = log.prompt_log
        begun = self._session is not None or bool(prompt_log.turns)
        if prompt_log.running is None and begun and not self._is_new(log, ctx):
            return  # ended twice, or nothing was said
        prompt_log.take(ctx.session.messages)
        reply = as_ours(payload, AgentResult).reply or log.answered
        if reply and prompt_log.running is not None:
            prompt_log.running.take_reply(str(reply))
        self.part.commit(Moment(log, ctx, payload))

    def _is_new(self, log: SessionLog, ctx: Any) -> bool:
        """Open a turn that ends without having begun, where another hook ended it before this one knew who spoke."""
        if not log.prompt_log.brings_utterance(ctx.session.messages):
            return False
        begin(log, ctx, {}, speaker=None, private=reader_of(ctx, {}).speaker is None)
        return True


class PromptLogHook(SharedHook):
    """Put the prompt log's view in place of the loop's message list: what the present listener may read, where it was shown.

    A hook of its own, because a failing hook is skipped: when recall fails, the turn goes on with what this one left,
    and not with the loop's raw list, in which other people's private turns stand. It guards that, so it fails closed.
    """

    points = frozenset({ON_RUN_START, BEFORE_LLM})
    # Before everything that adds to the prompt.
    priority = 85
    fail_closed = True

    def __init__(
        self,
        *,
        speaker: str | None = None,
        log: SessionLog | None = None,
        part: PromptHead | None = None,
    ) -> None:
        super().__init__(log, speaker)
        self.part = part or PromptHead()

    def act(self, moment: Moment) -> None:
        """Lay the prompt out."""
        if moment.log is (self.log or moment.log):
            self.part.compare(moment)
        moment.put_view()
