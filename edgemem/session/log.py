"""The log of a session: its prompt log, and what the running turn has collected for its commit.

The steps of a turn share it. It belongs to the thread of the turn; a change holds `lock`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.config import Settings
from edgemem.context.bargein import heard_part, heard_speeches, may_tell_of, tells_of_earlier
from edgemem.context.messages import speeches_of, tool_calls
from edgemem.context.prompt import PromptLog, PromptTurn, turn_of
from edgemem.errors import InvalidInputError
from edgemem.records import (
    AGENT,
    BY_AGENT,
    WRITING_TOOLS,
    Epoch,
    Heard,
    Message,
    Reader,
    Session,
    StoredMessage,
    Turn,
    TurnState,
    Unkept,
    text_of,
)
from edgemem.scopes import RANK, Level, name_key
from edgemem.session.late_results import LateResult
from edgemem.session.points import STATE_KEY, TurnContext
from edgemem.store.erase.copies import (
    Erased,
    summary_without,
    without_copies,
    without_memory,
    without_outcomes,
)
from edgemem.store.journal import TurnJournal
from edgemem.store.messages import stored_message, without_objects
from edgemem.store.pending_erasures import last_forgotten
from edgemem.store.turn_steps import AddEpisode, AddResult, Companion
from edgemem.store.turns import turn_numbers

if TYPE_CHECKING:
    from edgemem.records import BlockLine


class SessionLog:
    """The prompt log of one session, and what the running turn has collected for its commit."""

    def __init__(self, prompt_log: PromptLog | None = None, *, settings: Settings | None = None) -> None:
        self.prompt_log = prompt_log or PromptLog()
        self.record = Session()
        """The messages that were said, and the loop's own state, for hooks that look at these."""
        self.lock = threading.RLock()
        """Held while a turn is changed; tools and the model run without it."""
        self.open_turn: Any = None
        self.late_results: list[LateResult] = []
        """Results that no model has read yet."""
        self.loops: object = None
        """Reports on the newest turn by loops that keep their own list."""
        self.kept_from = 0
        """Of turns before this one some messages were erased; the file knows which."""
        self.leaves_out = False
        """Whether the next turn begins an epoch without those turns, and without the summary that told of them."""
        self.is_resumed = False
        self.is_closed = False
        self.off_the_record: Unkept = "off"
        """Which turns to come are kept nowhere: the next ("this"), all ("on"), or none."""
        self.is_detached = False
        """Whether it is of an agent within a tool, which nobody keeps."""
        self.call_numbers = count()
        """Numbers of calls without an id: an aborted turn has the number of the next, and a restart the count of this process."""
        self.state = "{}"
        """The session's state as it was stored last, as JSON."""
        self.journal: TurnJournal | None = None
        """Writes the turns; None where the session is not kept in SQLite."""
        self._settings = settings or Settings()
        self.epoch_writes: list[Companion] = []
        """Writes for the transaction of the next turn that is kept, such as a new epoch."""
        self.erased: list[Erased] = []
        """All that was forgotten since this log was opened."""
        self.last_forgetting: int | None = None
        """The newest forgetting that was known when the session was taken up; later messages are here as they were."""
        self.looked_at: int | None = None
        """The newest forgetting behind which erased turns were looked for."""
        self.newest: int | None = None
        """The newest forgetting at the last look."""
        self.value_exists: Callable[[BlockLine], bool] | None = None
        """Tells whether a shown value was not erased; None: the file of the session knows by itself."""
        self.ended: list[AddEpisode] = []
        """Episodes of turns that have ended, for a store that does not keep the session."""
        self._accepting = threading.Lock()
        """Held while a turn is accepted: some frameworks run several tools at once, each in a thread."""
        self._committed: list[tuple[PromptTurn, Future[int]]] = []
        """Turns, and their numbers to come."""
        self._writes: list[Future[Any]] = []
        """Writes of the journal that are not known to be done."""
        self.turn_session: Session | None = None
        """The loop's session in which the running turn began."""
        self._noted: dict[str, Any] = {}
        """Notes of tools in that session before the turn."""
        self.reset()

    def reset(self) -> None:
        """Forget what the running turn has collected."""
        self.turn_writes: list[Companion] = []
        self.done: list[AddEpisode] = []
        """Episodes of the running turn, as private as that will be at its end."""
        self.generated: list[tuple[int, ...]] = []
        """The ids that the model generated, one entry for each of its messages."""
        self.wish: Unkept | None = None
        """What the utterance says of the record, if it says nothing else."""
        self.answered: str | None = None
        """The model's newest answer, unless it called tools."""
        self.called_tools = False
        self.result_tokens = 0
        self.accepted: Future[int] | None = None
        self._accepted_as: Turn | None = None
        self._report: dict[str, Any] | None = None
        """The voice's report when the turn was cut off; the rest of its reply may still come."""
        self._erased_now: list[Erased] = []
        self._forgotten: tuple[int, int] | None = None
        """The newest forgetting that was known when the turn began, and the newest that its record is without."""

    @property
    def commit_wait_s(self) -> float:
        """Return the seconds that the end of a turn waits for its commit."""
        return self._settings.now.store.commit_wait_s

    @property
    def is_quiet(self) -> bool:
        """Tell whether no word that is said now may be written, not even in the message of a failure."""
        newest = self.prompt_log.running or next(reversed(self.prompt_log.turns), None)
        return self.off_the_record != "off" or (newest is not None and newest.unkept)

    def journal_of(self, turn: PromptTurn) -> TurnJournal | None:
        """Return the journal that keeps a turn; None: it is kept nowhere, as one off the record."""
        return None if turn.unkept else self.journal

    def is_kept_in(self, database: Any) -> bool:
        """Tell whether the session is kept in this file of a memory store."""
        return self.journal is not None and self.journal.database is database

    def open(
        self,
        reader: Reader,
        heard: Heard | None,
        *,
        session: Session,
        level: Level | None = None,
        outer: SessionLog | None = None,
        around: PromptTurn | None = None,
    ) -> PromptTurn:
        """Open a turn, where none is open.

        Args:
            session: the record whose state its tools may change.
            level: of its utterance; None: the default.
            outer, around: log and turn of the agent whose tool begins this one.
        """
        self.reset()
        self._renumber()
        self._forgotten = None if self.newest is None else (self.newest, self.newest)
        self.turn_session, self._noted = session, _noted(session)
        log = None if outer is None else outer.prompt_log
        return self.prompt_log.begin(reader, heard, level=level, outer=log, around=around)

    def append(self, message: Message, tokens: Sequence[int] = ()) -> None:
        """Add a message to the open turn, with the token ids that the model generated for it."""
        turn = self.prompt_log.running
        if turn is None:
            raise InvalidInputError("No turn is open; begin one first.")
        turn.append(message)
        if message.get("role") == "assistant":
            self.generated.append(tuple(tokens))

    def refresh_record(self) -> None:
        """Update the session's record where a message changed before its end."""
        running = self.prompt_log.running
        self.record.messages[:] = [*self.prompt_log.messages, *([] if running is None else running.messages)]

    def adopt(self) -> None:
        """Take the history up that a loop brings from elsewhere: nobody's words, as open as the utterance."""
        turn = self.prompt_log.adopt(self.record.messages)
        if turn is not None:
            self._write(self.record_of(turn, "unfinished"), turn, wait_s=0.0)

    def older_turns(self, turns: Iterable[PromptTurn]) -> list[PromptTurn]:
        """Return the stored turns with calls or instructions beside some: those that left the prompt, and were not erased."""
        numbers = {turn.n for turn in turns}
        journal, session = self.journal, self.prompt_log.session
        stored = () if journal is None else journal.read_turns(session, talk=False)
        return [turn_of(turn) for turn in stored if turn.n not in numbers]

    def find_call(self, call_id: str) -> tuple[PromptTurn, dict[str, Any]] | None:
        """Return the turn of the call that a result is told for, and the call; None: this conversation has none of the id.

        Ids may repeat. The open turn goes first if it awaits a result; else, of all turns that ended without one, the most
        private: whichever call it is of, no one is told who may not read that.

        Raises:
            InvalidInputError: each call of the id has its result, or two people's calls wait for it.
        """
        self.leave_out_erased()
        running = self.prompt_log.running
        own = None if running is None else running.call(call_id)
        if running is not None and own is not None and running.awaits(call_id):
            return running, own
        turns = [turn for turn in self.prompt_log.turns if turn.n >= self.kept_from and not turn.erased]
        turns = [*self.older_turns(turns), *turns]
        found = [(turn, call) for turn in turns if (call := turn.call(call_id)) is not None]
        waited = [(turn, call) for turn, call in found if turn.awaits(call_id, at_its_end=True)]
        if not any(turn.awaits(call_id) for turn, _ in waited):
            if running is not None and own is not None:
                return running, own
            if found:
                raise InvalidInputError(
                    f"The call {call_id!r:.40} has its result; give each call an id of its own."
                )
        if len({name_key(turn.owner or "") for turn, _ in waited if turn.answer == "private"}) > 1:
            raise InvalidInputError(
                f"Calls of several people wait for the result of {call_id!r:.40}; give each call an id of its own."
            )
        return max(waited, key=lambda of: (RANK[of[0].answer], of[0].awaits(call_id), of[0].n), default=None)

    def finish(self, state: TurnState) -> None:
        """Make the running turn history, and commit it; raise StoreError if this write or an earlier one failed."""
        running = self.prompt_log.running
        if running is None or not running.messages:
            self.prompt_log.discard()
            self.reset()
            return
        self.prompt_log.close(self.prompt_log.answer)
        reader = self.prompt_log.reader
        known = reader is None or bool(reader.key)  # no tool of ours tells an unknown voice anything private
        if state == "unfinished" and known and self._has_call(running.messages):
            running.close("private", utterance=True)
        try:
            record = self.record_of(running, state)
        finally:
            # Also where it cannot be kept it is over.
            self.prompt_log.commit(unfinished=state == "unfinished")
            whose = {"level": running.answer, "owner": running.owner}
            done = () if running.unkept else self.done
            self.ended += [msgspec.structs.replace(step, **whose) for step in done]
        try:
            self._write(record, running, wait_s=self.commit_wait_s)
        finally:
            self.reset()

    def abort(self) -> None:
        """Throw the running turn away, its accepted record, and the questions that its tools have open since."""
        if self.journal is not None and self.accepted is not None:
            self._writes.append(self.journal.discard(self.prompt_log.session, self.accepted))
        if self.turn_session is not None and self.prompt_log.running is not None:
            for key in _noted(self.turn_session):
                del self.turn_session.state[key]
            self.turn_session.state.update(self._noted)
        self.prompt_log.abort()
        self.reset()

    def _has_call(self, messages: Sequence[Message]) -> bool:
        return self.called_tools or any(map(tool_calls, messages))

    def record_of(self, turn: PromptTurn, state: TurnState, *, reply: str | None = None) -> Turn:
        """Return the record of a prompt turn, with a reply behind its messages."""
        replies = iter(self.generated)
        messages: list[StoredMessage] = [
            stored_message(
                without_objects(message), next(replies, ()) if message.get("role") == "assistant" else ()
            )
            for message in turn.messages
        ]
        for n, message in enumerate(turn.messages):
            if message.get("metadata") == BY_AGENT:
                extra = {name: value for name, value in messages[n].extra.items() if name != "metadata"}
                messages[n] = msgspec.structs.replace(messages[n], role=AGENT, extra=extra)
        for n in turn.full_messages:
            messages[n] = msgspec.structs.replace(messages[n], unheard=turn.unheard(n) or None)
        if reply:
            messages.append(stored_message({"role": "assistant", "content": reply}, next(replies, ())))
        # Only of the turn in which it was forgotten: somebody who speaks of it later does so on purpose.
        if self._erased_now:
            messages = without_copies(messages, self._erased_now)
        # A block that tells of something erased is stored nowhere; without it, a turn that is taken up again is only told anew
        # what still holds. An open one is recorded at each step, and taken up after a crash alone.
        keep = state != "open" and bool(turn.block or turn.shown)
        keep = keep and not any(item.is_transient for item in turn.shown)
        if keep and self.value_exists is not None:
            keep = all(self.value_exists(item) for item in turn.shown if item.value)
        return Turn(
            self.prompt_log.session,
            turn.n,
            tuple(messages),
            state,
            turn.block if keep else "",
            tuple(msgspec.structs.replace(item, line="").entry for item in turn.shown) if keep else (),
            level=turn.level,
            owner=turn.owner,
            heard=turn.heard,
            answer=turn.answer,
            utterance=turn.utterance,
        )

    def accept(self) -> None:
        """Keep the open turn before the model answers, a tool runs, or its reply is spoken, off the hot path.

        After a crash the turn comes back unfinished: a robot that crashes while it speaks has spoken.
        """
        running = self.prompt_log.running
        if running is None or not running.messages or (journal := self.journal_of(running)) is None:
            return
        turn = self.record_of(running, "open", reply=self.answered)
        # If nobody lives to know what its tools told, it stays the speaker's.
        if self._has_call(running.messages):
            turn = msgspec.structs.replace(turn, level="private", answer="private")
        with self._accepting:
            before = self.accepted
            if turn == self._accepted_as:
                return
            self.accepted = journal.accept(turn, replaces=before)
            self._accepted_as = turn
            if before is not None:  # why that could not be kept, this one will say again
                self._writes = [write for write in self._writes if write is not before]
            self._writes.append(self.accepted)

    def _write(self, turn: Turn, prompt_turn: PromptTurn, *, wait_s: float) -> None:
        """Commit the turn; a slow disk goes on in the background."""
        if (journal := self.journal_of(prompt_turn)) is None:
            return
        also, self.turn_writes, self.epoch_writes = [*self.epoch_writes, *self.turn_writes], [], []
        accepted = self.accepted
        # A turn that ends before the writer came to keep it as open need not be kept so.
        if accepted is not None and accepted.cancel():
            self._writes = [write for write in self._writes if write is not accepted]
        newest = journal.commit(turn, also, accepted=accepted, forgotten=self._forgotten)
        prompt_turn.tick = newest.tick
        self._committed.append((prompt_turn, newest))
        self._await(newest, wait_s)

    def _await(self, newest: Future[Any], wait_s: float) -> None:
        """Wait for a write of the journal; raise why this or an earlier one failed."""
        self._writes.append(newest)
        wait([newest], wait_s)
        self._renumber()
        ended = [future for future in self._writes if future.done()]
        self._writes = [future for future in self._writes if future not in ended]
        for future in ended:
            future.result()

    def _renumber(self) -> None:
        """Give each turn its number, as soon as that is known: another loop may have been quicker."""
        for prompt_turn, written in self._committed:
            if written.done() and written.exception() is None and (n := written.result()) is not None:
                prompt_turn.n = n
            elif written.done() and written.exception() is None:  # its person or session was forgotten
                prompt_turn.erased = True
                self.leave_out(self.kept_from)
                self.refresh_record()
        self._committed = [(turn, written) for turn, written in self._committed if not written.done()]

    def interrupt(
        self, report: dict[str, Any], *, prepared: bool | None = None
    ) -> tuple[list[str], PromptTurn | None]:
        """Keep the heard part of a turn's speech; return that, message by message, and the turn if it was committed.

        Args:
            report: as `heard_speeches` takes it.
            prepared: whether the open turn was being spoken, and not the one before; None: its words tell.

        Raises:
            InvalidInputError: the report is no text, no number, or no word with its times.
        """
        heard_part("", **report)  # what makes no sense is refused before anything is changed
        turn = self._spoken(report, prepared)
        if turn is None:
            return [], None
        if turn is self.prompt_log.running:
            self._report = report
        return self._hear(turn, report)

    def hear_out(self) -> bool:
        """Cut the ending turn, if it was cut off before all of it was there; return whether it was."""
        if self._report is None or self.prompt_log.running is None:
            return False
        self._hear(self.prompt_log.running, self._report)
        return True

    def _spoken(self, report: dict[str, Any], prepared: bool | None) -> PromptTurn | None:
        """Return the turn that a voice was cut off in: the reply before may still play while the next is prepared."""
        running = self.prompt_log.running
        committed = self.prompt_log.turns[-1] if self.prompt_log.turns else None
        if running is None or prepared is False:
            return (
                committed if committed is not None and may_tell_of(_speeches(committed), **report) else None
            )
        if prepared or committed is None or committed.heard_until is not None:  # who was cut off is silent
            return running
        return committed if tells_of_earlier(_speeches(committed), _speeches(running), **report) else running

    def _hear(self, turn: PromptTurn, report: dict[str, Any]) -> tuple[list[str], PromptTurn | None]:
        spoken = speeches_of(turn.messages)
        heard = heard_speeches(_speeches(turn), **report)
        # A committed turn without a reply is one in which the model failed: it stays as it is.
        if turn is not self.prompt_log.running and all(tool_calls(turn.messages[n]) for n in spoken):
            return heard, None
        return heard, self.prompt_log.cut_replies(turn, dict(zip(spoken, heard, strict=True)))

    def amend(self, turn: PromptTurn) -> None:
        """Keep the heard part of a committed turn, in a transaction of its own."""
        if (journal := self.journal_of(turn)) is None:
            return
        heard = [text_of(turn.messages[n]) for n in speeches_of(turn.messages)]
        self._writes.append(journal.amend(self.prompt_log.session, turn.n, heard, tick=turn.tick))

    def keep_result(self, late: LateResult) -> None:
        """Keep a late result with the turn of its call."""
        if (journal := self.journal_of(late.turn)) is not None:
            turn, result = late.turn, stored_message(late.messages[-1])
            step = AddResult(self.prompt_log.session, turn.n, result, turn.answer, late.outputs, turn.tick)
            self._await(journal.add_result(step), self.commit_wait_s)

    def erase(self, turn: PromptTurn, erase: Callable[[str, int], object]) -> None:
        """Have all that is kept of a turn erased by its number, also what tools of the memory have written in it."""
        if turn is self.prompt_log.running:
            accepted, self.accepted, self._accepted_as = self.accepted, None, None
            if self.journal is None or accepted is None:
                return
            if not any(name in WRITING_TOOLS for name, _, _ in turn.calls()):
                self._await(self.journal.discard(self.prompt_log.session, accepted), self.commit_wait_s)
                return
            written = self.journal.commit(self.record_of(turn, "unfinished"), accepted=accepted)
            self._committed.append((turn, written))
        wait([number for _, number in self._committed], self.commit_wait_s)
        self._renumber()
        erase(self.prompt_log.session, turn.n)
        self.leave_out_erased()

    def leave_out(self, first_turn: int) -> None:
        """Have the next turn begin an epoch without what was erased, and without the turns before this one."""
        self.kept_from, self.leaves_out = max(self.kept_from, first_turn), True

    def forget_blocks(self, first_turn: int) -> None:
        """Drop the blocks that turns have no longer in the file, since they showed what was erased."""
        if self.journal is not None:
            stored = {
                turn.n: turn for turn in self.journal.read_turns(self.prompt_log.session, from_n=first_turn)
            }
            for turn in self.prompt_log.turns:
                if turn.n in stored and not stored[turn.n].block:
                    turn.block, turn.shown = "", ()

    def leave_out_erased(self) -> None:
        """Leave out the turns, and the results that nobody read, which were erased since the last look, by any process."""
        if (stored := self._stored_since()) is None or self.journal is None:
            return
        epoch, erased = self.prompt_log.epoch, False
        for turn in self.prompt_log.turns:
            is_gone = turn.n not in stored and not turn.unkept
            erased = erased or (is_gone and not turn.erased)
            turn.erased = turn.erased or is_gone
        told = epoch.summary and not self.epoch_writes  # its own row goes with any turn of the session
        if erased or (told and self.journal.latest_epoch(self.prompt_log.session) is None):
            self.leave_out(self.kept_from)
            self.refresh_record()
        gone = self.erased_of(self.late_results)
        self.late_results = [late for late in self.late_results if late not in gone]
        if self.prompt_log.running is None:  # else its end still looks for what it has taken
            self.looked_at = self.newest_forgetting()

    def erased_of(self, results: Sequence[LateResult]) -> list[LateResult]:
        """Return those of late results whose turns were erased since the last look."""
        stored = self._stored_since() if results else None
        running = self.prompt_log.running
        return [
            late
            for late in results
            if stored is not None and late.turn is not running and late.turn.n not in stored
        ]

    def take_back(self, results: Sequence[LateResult]) -> None:
        """Take those of late results out of the running turn that were erased while it was open."""
        ids, running = {late.call.get("id") for late in self.erased_of(results)}, self.prompt_log.running
        if not ids or running is None:
            return
        spoken, generated = iter(self.generated), []
        kept: dict[int, Message] = {}
        for n, message in enumerate(running.messages):
            of = {message.get("tool_call_id"), *(call.get("id") for call in tool_calls(message))}
            tokens = next(spoken, ()) if message.get("role") == "assistant" else None
            if not ids & of:
                kept[n] = message
                generated += [] if tokens is None else [tokens]
        full = running.full_messages
        running.full_messages = {new: full[n] for new, n in enumerate(kept) if n in full}
        running.messages, self.generated = list(kept.values()), generated
        self.refresh_record()

    def _stored_since(self) -> frozenset[int] | None:
        """Return the numbers of the stored turns; None: nothing was forgotten since the last look, or a turn is still to be written."""
        self.newest = self.newest_forgetting()
        if self.journal is None or self.newest == self.looked_at:
            return None
        if (
            wait([written for _, written in self._committed], self.commit_wait_s).not_done
            or self.journal.backlog().turns
        ):
            return None
        self._renumber()
        return turn_numbers(self.journal.database, self.prompt_log.session)

    def forget(self, erased: Erased) -> None:
        """Keep a forgotten fact out of records to be written; the prompt keeps it until the epoch ends (law 2), for the cache."""
        self.erased.append(erased)
        self.late_results = [late.without(erased) for late in self.late_results]
        if self.prompt_log.running is not None:
            self._erased_now.append(erased)
            if self._forgotten is not None and self.journal is not None:
                self._forgotten = self._forgotten[0], last_forgotten(self.journal.database)

    def scrubbed(self, epoch: Epoch, as_of: int | None) -> Epoch:
        """Return an epoch whose head repeats nothing that was forgotten, by this process or another.

        `as_of` is the newest forgetting that was known when its values were read. A summary may quote what the memory's tools
        told at any time since the session was taken up.
        """
        newest = self.newest_forgetting()
        if newest != self.last_forgetting:
            epoch = msgspec.structs.replace(epoch, summary=without_outcomes(epoch.summary))
        if newest != as_of:
            epoch = without_memory(epoch)
        return msgspec.structs.replace(epoch, summary=summary_without(epoch.summary, self.erased))

    def newest_forgetting(self) -> int | None:
        """Return the tick of the newest forgetting in the file that keeps the session, if any."""
        return None if self.journal is None else last_forgotten(self.journal.database)


class Prompt(msgspec.Struct):
    """The input of one call of the model, as the steps make it."""

    messages: list[Message] = []
    tools: list[dict[str, Any]] | None = None
    hop: int = 0
    """Earlier calls of the model in this turn."""
    now: float | None = None
    """The date that a template may print, seconds since the epoch UTC."""
    tokens: int | None = None
    """An upper bound of the messages' tokens; None: they were not counted."""


class Moment(msgspec.Struct, eq=False):
    """One moment of a turn, as each step of it is handed it."""

    log: SessionLog
    ctx: TurnContext
    payload: Any = None
    """The payload of the point, for hooks of the user's own; of a tool and of the end, for the steps as well."""
    prompt: Prompt = msgspec.field(default_factory=Prompt)
    reply: str | None = None
    """The reply with which a hook of the user's own ended the turn."""
    text: str = ""
    reader: Reader | None = None
    """The speaker and audience of a half-heard sentence."""
    seconds: float = 0.0
    """How long idle work may take."""
    at: float = msgspec.field(default_factory=perf_counter)
    """When it began, by the monotonic clock."""


def log_of(ctx: Any) -> SessionLog:
    """Return the log of a context's session."""
    log: SessionLog = ctx.session.state[STATE_KEY]
    return log


def _noted(session: Session) -> dict[str, Any]:
    """Return the notes of tools in a session for a turn or two, such as the question whether to forget something."""
    state = session.state
    return {key: state[key] for key in state if str(key).startswith(STATE_KEY) and key != STATE_KEY}


def _speeches(turn: PromptTurn) -> list[str]:
    return [turn.text(n) for n in speeches_of(turn.messages)]
