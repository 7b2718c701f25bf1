"""The conversation: what the built-in hooks of one session share during a turn.

They find it in the session's own state (under a key that is never stored), so hooks that were made apart, as in
EdgeVox, still put their lines into one block and their records into one transaction.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.config import Settings
from edgemem.context.bargein import heard_part, heard_speeches, tells_of_earlier
from edgemem.context.level import Closing
from edgemem.context.messages import speeches_of, tool_calls
from edgemem.context.prompt.log import PromptLog
from edgemem.context.prompt.turn import PromptTurn
from edgemem.records import (
    Epoch,
    Heard,
    Message,
    Reader,
    Session,
    StoredMessage,
    Turn,
    TurnState,
    as_ours,
    text_of,
)
from edgemem.session.points import (
    BEFORE_LLM,
    ON_ABORT,
    ON_RUN_END,
    ON_RUN_START,
    HookResult,
    TurnContext,
    attachable,
)
from edgemem.store.erase.copies import (
    Erased,
    summary_without,
    without_copies,
    without_memory,
    without_outcomes,
)
from edgemem.store.erase.erasings import last_forgotten
from edgemem.store.journal import TurnJournal
from edgemem.store.messages import stored_message
from edgemem.store.turn_steps import DropErased
from edgemem.store.turns import keep_heard

if TYPE_CHECKING:
    from edgemem.records import BlockLine

STATE_KEY = "__edgemem"
"""Where a session's state keeps the conversation; names that begin with two underscores are never stored."""

Also = list[Callable[[Any], Any]]
"""Writes that belong into a transaction of the journal."""


class Conversation:
    """The prompt log of one session, and what the running turn has collected for its commit."""

    def __init__(self, prompt_log: PromptLog | None = None, *, settings: Settings | None = None) -> None:
        self.prompt_log = prompt_log or PromptLog()
        self.journal: TurnJournal | None = None
        """Writes the turns; None where the session is not kept in SQLite."""
        self._settings = settings or Settings()
        self.opening: Also = []
        """Writes that belong into the transaction of the next turn that is kept, such as a new epoch."""
        self.erased: list[Erased] = []
        """What was forgotten since this conversation was opened."""
        self.opened_as_of: int | None = None
        """The newest forgetting that was known when the session was taken up; what was said since stands here as it was."""
        self.kept: Callable[[BlockLine], bool] | None = None
        """Tells whether a value that was shown was not erased; None: the file of the session knows by itself."""
        self.caller: Session | None = None
        """The loop's session while one of its tools runs."""
        self._accepting = threading.Lock()
        """Held while a turn is accepted: some frameworks run several tools at once, each in a thread."""
        self._committed: tuple[PromptTurn, Future[int]] | None = None
        """The newest turn, and what tells its number."""
        self._writes: list[Future[Any]] = []
        """What the journal was given and has not told the outcome of."""
        self._session: Session | None = None
        """The loop's session in which the running turn began."""
        self._openers: list[object] = []
        """The hooks that know of the running turn."""
        self._noted: dict[str, Any] = {}
        """What tools had noted in that session before it."""
        self.reset()

    def reset(self) -> None:
        """Forget what the running turn has collected."""
        self.also: Also = []
        """Writes that belong into the turn's transaction."""
        self.generated: list[tuple[int, ...]] = []
        """The ids that the model generated, one entry for each of its messages."""
        self.answered: str | None = None
        """What the model answered last, unless it called tools."""
        self.called_tools = False
        self.caller = None
        self.accepted: Future[int] | None = None
        """Tells that the running turn is kept already; None: it is not."""
        self._accepted_as: Turn | None = None
        self._report: dict[str, Any] | None = None
        """What a voice told of the turn when it was cut off; the rest of its reply may still come."""
        self._erased_now: list[Erased] = []
        self._forgotten: int | None = None
        """The newest forgetting that was known when memory was put before the model."""

    @property
    def commit_wait_s(self) -> float:
        """Return the seconds that the end of a turn waits for its commit."""
        return self._settings.now.store.commit_wait_s

    def is_kept_in(self, database: Any) -> bool:
        """Tell whether the session stands in this file, in which a memory store keeps what it remembers."""
        return self.journal is not None and self.journal.database is database

    # -- how a turn begins ---------------------------------------------------------------------------

    def begin(
        self, ctx: Any, payload: Any, *, speaker: str | None = None, by: object = None, private: bool = False
    ) -> bool:
        """Open a turn, once for all hooks of it; one that is still open is closed as its own speaker's.

        Returns whether the loop's list holds words that nobody knows the speaker of.

        Args:
            by: the hook that is called at the begin of a turn; called a second time, it begins another turn.
            private: nobody but the speaker may read it.
        """
        if self.prompt_log.running is not None:
            if by is None or not any(by is hook for hook in self._openers):
                self._openers.append(by)
                return False
            self.close_left(ctx, payload)
        self.reset()
        self._renumber()
        fields: dict[str, Any] = payload if isinstance(payload, dict) else {}
        known = as_ours(ctx, TurnContext)
        reader = reader_of(known, fields, speaker=speaker)
        heard = fields.get("heard") or known.heard
        if not isinstance(heard, Heard):
            heard = Heard(speaker=reader.speaker) if reader.speaker else None
        private = private or bool(fields.get("private") or known.private)
        self._session, self._openers = ctx.session, [by]
        self._noted, task = _noted(ctx.session), task_of(payload)
        self.prompt_log.begin(reader, heard, level="private" if private else None)
        if by is None:
            return False
        is_first = not self.prompt_log.turns
        unknown = self.prompt_log.arrive(ctx.session.messages, task)
        for turn in unknown:
            self._write(self.record(turn, "unfinished"), turn, wait_s=0.0)
        return not is_first and any(turn.owner is None for turn in unknown)

    def take(self, ctx: Any, messages: Sequence[Message], *, speaker: str | None) -> None:
        """Learn from a loop's list what has been said, in a turn that it may never have begun."""
        if self.prompt_log.running is None:
            self.begin(ctx, {}, speaker=speaker)
        self.prompt_log.take(messages)

    # -- how it ends ---------------------------------------------------------------------------------

    def close_left(self, ctx: Any, payload: Any) -> bool:
        """Close the turn that a loop left open as its speaker's, if there is one; return whether there was.

        Raises:
            StoreError: it could not be written.
        """
        if self.prompt_log.running is None:
            return False
        session = self._session or ctx.session
        self.prompt_log.take_left(session.messages, task_of(payload) if session is ctx.session else None)
        if self.answered:
            self.prompt_log.running.take_reply(self.answered)
        return self.finish("interrupted" if self.hear_out() else "unfinished", wait_s=0.0)

    def end(self, point: str, ctx: Any) -> None:
        """Make the turn history, or drop it if it was aborted, where no session hook has done so already."""
        if self.prompt_log.running is None:
            return
        if point == ON_ABORT:
            self.abort()
        else:
            self.prompt_log.take(ctx.session.messages)
            self.finish("complete")

    def finish(self, state: TurnState, *, wait_s: float | None = None) -> bool:
        """Make the running turn history, and commit it; return whether anything was said in it.

        Args:
            wait_s: how long to wait for the disk; None: `commit_wait_s` seconds.

        Raises:
            StoreError: this write failed, or an earlier one that was still running when its turn ended.
        """
        running = self.prompt_log.running
        if running is None or not running.messages:
            self.prompt_log.discard()
            self.reset()
            return False
        closing = self.prompt_log.level_of(running)
        try:
            record = self.record(running, state, closing)
        finally:
            # Also where it cannot be kept it is over, and was said by whom it was said.
            self.prompt_log.commit(closing, unfinished=state == "unfinished")
        try:
            self._write(record, running, wait_s=self.commit_wait_s if wait_s is None else wait_s)
        finally:
            self.reset()
        return True

    def abort(self) -> None:
        """Throw the running turn away, what was accepted of it, and the questions that its tools have open since."""
        if self.journal is not None and self.accepted is not None:
            self._writes.append(self.journal.discard(self.prompt_log.session, self.accepted))
        if self._session is not None and self.prompt_log.running is not None:
            for key in _noted(self._session):
                del self._session.state[key]
            self._session.state.update(self._noted)
        self.prompt_log.abort()
        self.reset()

    # -- what is kept of it --------------------------------------------------------------------------

    def lay_out(self, kept: Callable[[BlockLine], bool] | None) -> None:
        """Note what was forgotten until now: what is put before the model from here on may be forgotten meanwhile.

        Args:
            kept: tells whether a value was not erased, where memory is not in the file that keeps the session.
        """
        self._forgotten = self.newest_forgetting()
        self.kept = kept

    def record(self, turn: PromptTurn, state: TurnState, closing: Closing | None = None) -> Turn:
        """Return the record of a prompt turn.

        Args:
            closing: who may read it; None: what is said in it tells.
        """
        replies = iter(self.generated)
        messages: list[StoredMessage] = [
            stored_message(message, next(replies, ()) if message.get("role") == "assistant" else ())
            for message in turn.messages
        ]
        for n in turn.uncut:
            messages[n] = msgspec.structs.replace(messages[n], unheard=turn.unheard(n) or None)
        # Only of the turn in which it was forgotten: what is said of it later is said on purpose.
        if self._erased_now:
            messages = without_copies(messages, self._erased_now)
        level, owner = closing or self.prompt_log.level_of(turn)
        # What tells of something that was erased is stored nowhere; without its block, a turn that is taken up again
        # is only told anew what still holds. An open one is recorded at each step, and taken up after a crash alone.
        keep = state != "open" and bool(turn.block or turn.shown)
        keep = keep and not any(item.passing for item in turn.shown)
        if self.kept is not None:
            keep = keep and all(self.kept(item) for item in turn.shown if item.value)
        shown = tuple(msgspec.structs.replace(item, line="").entry for item in turn.shown) if keep else ()
        keep = keep and (self._forgotten is None or self._forgotten == self.newest_forgetting())
        return Turn(
            self.prompt_log.session,
            turn.n,
            tuple(messages),
            state,
            turn.block if keep else "",
            shown if keep else (),
            level=level,
            owner=owner,
            heard=turn.heard,
        )

    def accept(self) -> None:
        """Keep the open turn before the model answers, before a tool runs, or before its reply is spoken, off the hot path.

        A robot that crashes while it speaks has said what it said; the turn comes back unfinished. What was kept of it before
        is replaced.
        """
        running, reply = self.prompt_log.running, self.answered
        if running is None or not running.messages or self.journal is None:
            return
        messages = [*running.messages, {"role": "assistant", "content": reply}] if reply else running.messages
        closing: Closing | None = None
        if self.called_tools or any(message.get("tool_calls") for message in messages):
            # How private it is depends on what its tools tell; if nobody lives to know, it stays the speaker's.
            closing = "private", self.prompt_log.level_shown(running)[1]
        turn = self.record(msgspec.structs.replace(running, messages=messages), "open", closing)
        with self._accepting:
            before = self.accepted
            if turn == self._accepted_as:
                return
            self.accepted = self.journal.accept(turn, replaces=before)
            self._accepted_as = turn
            if before is not None:  # why that could not be kept, this one will say again
                self._writes.remove(before)
            self._writes.append(self.accepted)

    def _write(self, turn: Turn, prompt_turn: PromptTurn, *, wait_s: float) -> None:
        """Commit the turn; a slow disk goes on in the background."""
        if self.journal is None:
            return
        also, self.also, self.opening = [*self.opening, *self.also], [], []
        if self._forgotten is not None:
            also.append(DropErased(turn.session, self._forgotten))
        accepted = self.accepted
        # A turn that ends before the writer came to keep it as open need not be kept so.
        if accepted is not None and accepted.cancel():
            self._writes.remove(accepted)
        newest = self.journal.commit(turn, also, accepted=accepted)
        self._committed = (prompt_turn, newest)
        self._writes.append(newest)
        wait([newest], wait_s)
        self._renumber()
        ended = [future for future in self._writes if future.done()]
        self._writes = [future for future in self._writes if future not in ended]
        for future in ended:
            future.result()

    def _renumber(self) -> None:
        """Give the newest turn the number that it got, as soon as that is known: another loop may have been quicker."""
        if self._committed is not None:
            prompt_turn, written = self._committed
            if written.done() and written.exception() is None:
                prompt_turn.n = written.result()

    # -- what was heard of it ------------------------------------------------------------------------

    def interrupt(
        self, report: dict[str, Any], *, prepared: bool | None = None
    ) -> tuple[list[str], PromptTurn | None]:
        """Keep of a turn's speech what was heard; return that, message by message, and the turn if it was committed.

        Args:
            report: what the voice tells, as `heard_speeches` takes it.
            prepared: whether the turn that is still open was being spoken, and not the one before; None: its words tell.

        Raises:
            InvalidInputError: what is told is no text, no number, or no word with its times.
        """
        heard_part("", **report)  # what makes no sense is refused before anything is changed
        turn = self._spoken(report, prepared)
        if turn is None:
            return [], None
        if turn is self.prompt_log.running:
            self._report = report
        return self._hear(turn, report)

    def hear_out(self) -> bool:
        """Cut the turn that ends, if it was cut off before all of it was there; return whether it was."""
        if self._report is None or self.prompt_log.running is None:
            return False
        self._hear(self.prompt_log.running, self._report)
        return True

    def _spoken(self, report: dict[str, Any], prepared: bool | None) -> PromptTurn | None:
        """Return the turn that a voice was cut off in: the reply before may still play while the next is prepared."""
        running = self.prompt_log.running
        committed = self.prompt_log.turns[-1] if self.prompt_log.turns else None
        if running is None or prepared is False:
            return committed
        if prepared or committed is None or committed.heard_until is not None:  # who was cut off is silent
            return running
        return committed if tells_of_earlier(_speeches(committed), _speeches(running), **report) else running

    def _hear(self, turn: PromptTurn, report: dict[str, Any]) -> tuple[list[str], PromptTurn | None]:
        spoken = speeches_of(turn.messages)
        heard = heard_speeches(_speeches(turn), **report)
        # A committed turn without a reply is one in which the model failed: it stays as it is.
        if turn is not self.prompt_log.running and all(tool_calls(turn.messages[n]) for n in spoken):
            return heard, None
        return heard, self.prompt_log.hear(turn, dict(zip(spoken, heard, strict=True)))

    def amend(self, turn: PromptTurn) -> None:
        """Keep of a committed turn what was heard, in a transaction of its own."""
        if self.journal is None:
            return
        committed = self._committed[1] if self._committed and self._committed[0] is turn else None
        session, spoken = self.prompt_log.session, speeches_of(turn.messages)
        heard = [text_of(turn.messages[n]) for n in spoken]
        also: Also = []
        if len(spoken) > 1:

            def before_reply(tx: Any) -> None:
                if committed is None or committed.exception() is None:
                    keep_heard(tx, session, turn.n if committed is None else committed.result(), heard)

            also.append(before_reply)
        self._writes.append(self.journal.amend(session, turn.n, heard[-1], also, committed=committed))

    # -- what is forgotten ---------------------------------------------------------------------------

    def forget(self, erased: Erased) -> None:
        """Keep out of all records that are still to be written what was just forgotten.

        What the model has seen stays in its prompt until the epoch ends (law 2): to cut it out would cost the cache.
        """
        self.erased.append(erased)
        if self.prompt_log.running is not None:
            self._erased_now.append(erased)

    def scrubbed(self, epoch: Epoch, as_of: int | None) -> Epoch:
        """Return an epoch whose head repeats nothing that was forgotten, by this process or another.

        Args:
            as_of: the newest forgetting that was known when its values were read. A summary is made of what was said since
                the session was taken up, and may quote what the memory's tools told at any time since.
        """
        newest = self.newest_forgetting()
        if newest != self.opened_as_of:
            epoch = msgspec.structs.replace(epoch, summary=without_outcomes(epoch.summary))
        if newest != as_of:
            epoch = without_memory(epoch)
        return msgspec.structs.replace(epoch, summary=summary_without(epoch.summary, self.erased))

    def newest_forgetting(self) -> int | None:
        """Return the tick of the newest forgetting in the file that keeps the session; None if none does."""
        return None if self.journal is None else last_forgotten(self.journal.database)


TURN = frozenset({ON_RUN_START, ON_RUN_END, ON_ABORT})
"""The points at which a hook that shares the conversation opens and ends its turns."""


class SharedHook:
    """A hook that shares the conversation of its session with the others; each may be the only one.

    Args:
        conversation: which it is; None: the one in the session's state.
        speaker: who speaks where the loop does not say it.
    """

    __repr__ = attachable

    def __init__(self, conversation: Conversation | None = None, speaker: str | None = None) -> None:
        self.speaker = speaker
        self._conversation = conversation

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Open the turn, act on what has been said in it, or make the turn history, as the point demands."""
        conversation = conversation_of(ctx, self._conversation)
        if point == ON_RUN_START:
            conversation.begin(ctx, payload, speaker=self.speaker, by=self)
        elif point in (ON_RUN_END, ON_ABORT):
            conversation.end(point, ctx)
            self.ended(conversation)
        else:
            if point == BEFORE_LLM:
                conversation.take(ctx, payload["messages"], speaker=self.speaker)
            return self.act(conversation, ctx, payload)
        return None

    def act(self, conversation: Conversation, ctx: Any, payload: Any) -> HookResult | None:
        """Do what the hook is for, within a turn."""
        raise NotImplementedError

    def ended(self, conversation: Conversation) -> None:
        """Do what is left to do when the turn is over."""


def conversation_of(ctx: Any, given: Conversation | None = None) -> Conversation:
    """Return the conversation that the hooks of this context share.

    An agent that runs within a tool of another, with the same hooks, has one of its own, which nobody keeps: the other's
    turn is still open, and is told the tool's result.
    """
    state = ctx.session.state
    if given is not None and (given.caller is None or given.caller.state is state):
        state[STATE_KEY] = given
        return given
    kept = state.get(STATE_KEY)
    if isinstance(kept, Conversation):
        return kept
    conversation = state[STATE_KEY] = Conversation()
    return conversation


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


def _noted(session: Session) -> dict[str, Any]:
    """Return what tools keep in a session for a turn or two, such as the question whether to forget something."""
    state = session.state
    return {key: state[key] for key in state if str(key).startswith(STATE_KEY) and key != STATE_KEY}


def _speeches(turn: PromptTurn) -> list[str]:
    """Return what was said in a turn, message by message, also what nobody heard of it."""
    return [turn.text(n) for n in speeches_of(turn.messages)]
