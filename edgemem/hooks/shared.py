"""What hooks of one session share while a loop keeps its own list of messages: the log, which they find in the session's state."""

from __future__ import annotations

from typing import Any

from edgemem.records import Heard, Message, Reader, as_ours
from edgemem.session.log import STATE_KEY, Moment, SessionLog
from edgemem.session.points import (
    BEFORE_LLM,
    ON_ABORT,
    ON_RUN_END,
    ON_RUN_START,
    HookResult,
    TurnContext,
    attachable,
)

TURN = frozenset({ON_RUN_START, ON_RUN_END, ON_ABORT})
"""The points at which a hook opens and ends the turns of the log."""


class SharedHook:
    """A hook that shares the log of its session with the others; each may be the only one.

    Args:
        log: that of a memory's session; None: the one in the state of the loop's session.
        speaker: who speaks where the loop does not say it.
    """

    is_builtin = True
    __repr__ = attachable

    def __init__(self, log: SessionLog | None = None, speaker: str | None = None) -> None:
        self.speaker = speaker
        self.log = log

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Open the turn, act on it, or make it history, as the point demands."""
        log = log_of(ctx, self.log)
        moment = Moment(log, ctx, payload)
        if point == ON_RUN_START:
            begin(log, ctx, payload, speaker=self.speaker, by=self)
        elif point in (ON_RUN_END, ON_ABORT):
            end(log, point, ctx)
            self.end(moment)
        else:
            if point == BEFORE_LLM:
                take(log, ctx, payload["messages"], speaker=self.speaker)
            self.act(moment)
            if moment.payload is not payload:
                return HookResult.replace(moment.payload)
        return None

    def act(self, moment: Moment) -> None:
        """Do what the hook is for, within a turn."""
        raise NotImplementedError

    def end(self, moment: Moment) -> None:
        """Do the rest when the turn is over."""


def log_of(ctx: Any, given: SessionLog | None = None) -> SessionLog:
    """Return the log that the hooks of this context share.

    An agent that runs within a tool of another, with the same hooks, has one of its own, which nobody keeps: the other's
    turn is still open, and is told the tool's result.
    """
    state = ctx.session.state
    if given is not None and (given.caller is None or given.caller.state is state):
        state[STATE_KEY] = given
        return given
    kept = state.get(STATE_KEY)
    if isinstance(kept, SessionLog):
        return kept
    log = state[STATE_KEY] = SessionLog()
    log.outer, log.is_detached = given, given is not None
    return log


def begin(
    log: SessionLog, ctx: Any, payload: Any, *, speaker: str | None, by: object = None, private: bool = False
) -> bool:
    """Open a turn, once for all hooks of it; one that is still open is closed as its own speaker's.

    Returns whether the loop's list holds words that nobody knows the speaker of.

    Args:
        by: the hook that is called at the begin of a turn; called a second time, it begins another turn.
        private: nobody but the speaker may read it.
    """
    prompt_log = log.prompt_log
    if prompt_log.running is not None:
        if by is None or not any(by is hook for hook in log.started_by):
            log.started_by.append(by)
            return False
        close_left(log, ctx, payload)
    fields: dict[str, Any] = payload if isinstance(payload, dict) else {}
    known = as_ours(ctx, TurnContext)
    reader = reader_of(known, fields, speaker=speaker)
    heard = fields.get("heard") or known.heard
    if not isinstance(heard, Heard):
        heard = Heard(speaker=reader.speaker) if reader.speaker else None
    private = private or bool(fields.get("private") or known.private)
    log.open(reader, heard, session=ctx.session, level="private" if private else None)
    log.started_by, task = [by], task_of(payload)
    if by is None:
        return False
    is_first = not prompt_log.turns
    unknown = prompt_log.arrive(ctx.session.messages, task)
    log.keep_unknown(unknown)
    return not is_first and any(turn.owner is None for turn in unknown)


def take(log: SessionLog, ctx: Any, messages: list[Message], *, speaker: str | None) -> None:
    """Learn from a loop's list what has been said, in a turn that it may never have begun."""
    if log.prompt_log.running is None:
        begin(log, ctx, {}, speaker=speaker)
    log.prompt_log.take(messages)


def close_left(log: SessionLog, ctx: Any, payload: Any) -> bool:
    """Close the turn that a loop left open as its speaker's, if there is one; return whether there was.

    Raises:
        StoreError: it could not be written.
    """
    prompt_log = log.prompt_log
    if prompt_log.running is None:
        return False
    session = log.turn_session or ctx.session
    prompt_log.take_left(session.messages, task_of(payload) if session is ctx.session else None)
    if log.answered:
        prompt_log.running.take_reply(log.answered)
    return log.finish("interrupted" if log.hear_out() else "unfinished", wait_s=0.0)


def end(log: SessionLog, point: str, ctx: Any) -> None:
    """Make the turn history, or drop it if it was aborted, where no session hook has done so already."""
    if log.prompt_log.running is None:
        return
    if point == ON_ABORT:
        log.abort()
    else:
        log.prompt_log.take(ctx.session.messages)
        log.finish("complete")


def reader_of(ctx: Any, payload: Any, *, speaker: str | None = None) -> Reader:
    """Return who will hear the answer: the payload says it, else the context, else the hook's own setting."""
    fields: dict[str, Any] = payload if isinstance(payload, dict) else {}
    known = as_ours(ctx, TurnContext)
    names = (fields.get("speaker"), known.speaker, speaker)
    # A voice may be called 0.
    name = next((candidate for candidate in names if candidate is not None and candidate != ""), None)
    return Reader(name, frozenset(fields.get("audience") or known.audience or ()))


def task_of(payload: Any) -> str | None:
    """Return the utterance that a turn begins with, if its loop tells."""
    task = payload.get("task") if isinstance(payload, dict) else None
    return task if isinstance(task, str) else None
