"""The stored session: it is taken up at the first turn, and each turn is kept in one transaction.

For a store that knows messages only, the session's state keeps who may read which turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.config import Settings
from edgemem.context.messages import split_turns
from edgemem.errors import InvalidInputError, StoreError
from edgemem.records import Message, Reader, Session, Turn, TurnState, Unkept
from edgemem.scopes import Level, most_private, name_key
from edgemem.session.late_results import LateResult, results_behind, unread_results
from edgemem.session.log import Moment, SessionLog
from edgemem.store.erase.eraser import Eraser
from edgemem.store.messages import stored_message, without_objects
from edgemem.store.pending_erasures import noted
from edgemem.store.sessions import SQLiteSessionStore, read_state, state_text
from edgemem.store.turn_steps import BeginEpoch, KeepState
from edgemem.store.turns import oldest_result

if TYPE_CHECKING:
    from edgemem.context.prompt import PromptTurn
    from edgemem.store.journal import TurnJournal
    from edgemem.store.protocols import SessionStore

TURNS_WAIT = "A turn cannot be written now, and is tried again"
"""How the message of a failure begins that ends when the turns are written."""


class StoredSession:
    """Keeps the session: resumes at the first turn, one durable transaction at the end of each.

    Args:
        store: None: the session lives as long as the process.
        resume: take up the stored session, where the loop brings none.
        settings: tell how fast the robot speaks, where a voice reports only for how long it was heard.
        erase: erases a turn of a session, by its number, in every file; None: in that of the store.
    """

    name = "session"

    def __init__(
        self,
        store: SessionStore | None = None,
        session_id: str = "",
        *,
        resume: bool = True,
        settings: Settings | None = None,
        erase: Callable[[str, int], object] | None = None,
    ) -> None:
        self.store = store
        self.session_id = session_id
        self._settings = settings or Settings()
        self._resume = resume
        self._erase = erase
        self._warned: set[str] = set()

    def take_up(self, log: SessionLog, session: Session, brought: Sequence[Message] = ()) -> bool:
        """Take the stored session up, before a turn; return whether its turns are in the log now.

        Args:
            session: gets the stored state.
            brought: the history that a loop has from elsewhere.

        Raises:
            StoreError: it cannot be read now; it is tried again with the next turn.
        """
        is_placed = self._read(log, session, () if log.prompt_log.turns else brought)
        log.is_resumed = True
        return is_placed

    def _read(self, log: SessionLog, session: Session, brought: Sequence[Message]) -> bool:
        prompt_log, store = log.prompt_log, self.store
        prompt_log.session = self.session_id or prompt_log.session
        if store is None:
            return False
        if not isinstance(store, SQLiteSessionStore):
            stored = store.load(self.session_id) if self._resume or brought else None
            if stored is None:
                return False
            state = dict(stored.state)
            late = state.pop(LATE_KEY, [])
            turns = turns_of(self.session_id, stored.messages, state, prompt_log.default_level)
            if brought:
                prompt_log.recognise(turns, brought)
                return False
            prompt_log.has_begun = True
            own = prompt_log.turns  # which ended while it could not be read
            prompt_log.resume(turns, None)
            for turn in own:
                turn.n = prompt_log.next_n
                prompt_log.turns.append(turn)
            session.state.update(state)
            log.late_results = late_of(late, prompt_log.turns)
            return True
        journal = log.journal = store.journal
        if prompt_log.turns:
            _check_written(journal)
        # Before anything is read: a forgetting in between may concern that.
        log.last_forgetting = log.looked_at = log.newest = log.newest_forgetting()
        if not brought and not self._resume:
            return False
        journal.mark_unfinished(self.session_id)
        if brought:
            # A loop with a history of its own goes on with that; who said what of it is known here.
            prompt_log.recognise(journal.read_turns(self.session_id), brought)
            return False
        epoch = journal.latest_epoch(self.session_id)
        if epoch is None and prompt_log.epoch.started_at:
            # The first epoch is written with the first turn: it freezes the date that templates print.
            begun = msgspec.structs.replace(prompt_log.epoch, session=self.session_id)
            log.epoch_writes = [BeginEpoch(begun)]
        prompt_log.has_begun |= epoch is not None or noted(journal.database, "begun", self.session_id) > 0
        first = epoch.first_turn if epoch else 0
        oldest = oldest_result(journal.database, self.session_id, epoch) if epoch else 0
        turns = journal.read_turns(self.session_id, from_n=oldest)
        prompt_log.resume((turn for turn in turns if turn.n >= first), epoch)
        log.late_results = unread_results(turns, prompt_log.turns)
        stored_state = read_state(journal.database, self.session_id)
        log.state = state_text(stored_state, self._warned)
        for key, value in stored_state.items():
            session.state.setdefault(key, value)
        return True

    def begin(self, moment: Moment) -> None:
        """Take the stored session up, before the first turn of its log."""
        log, session = moment.log, moment.ctx.session
        if log.is_resumed:
            log.leave_out_erased()
            return
        if self.take_up(log, session, session.messages):
            session.messages[:] = log.prompt_log.messages

    def adopt(self, moment: Moment) -> None:
        """Take the history up that a loop brings from elsewhere: nobody's words, as open as the utterance."""
        moment.log.adopt()

    def abort(self, moment: Moment) -> None:
        """Throw the open turn away."""
        moment.log.abort()

    def mark_begun(self, moment: Moment) -> None:
        """Keep that the session has begun, where nothing was said that stays: its loop may come back with a list of more."""
        log = moment.log
        log.prompt_log.has_begun = True
        if log.prompt_log.turns:
            return
        if log.journal is None:
            self._save(log, moment.ctx.session)
            return
        epoch = msgspec.structs.replace(log.prompt_log.epoch, session=self.session_id)
        writes, log.epoch_writes = log.epoch_writes or [BeginEpoch(epoch)], []
        for write in writes:
            log.journal.database.submit(write)

    def accept(self, moment: Moment) -> None:
        """Keep the open turn as accepted, off the hot path."""
        moment.log.accept()

    def commit(self, moment: Moment) -> None:
        """Make the open turn history, in one transaction; raise StoreError if that fails."""
        log, ended = moment.log, moment.payload
        interrupted = log.hear_out() or ended.interrupted
        if (running := log.prompt_log.running) is not None:
            log.late_results += results_behind(running.messages, running)
        ends: TurnState = (
            "interrupted" if interrupted else "unfinished" if ended.error is not None else "complete"
        )
        if log.journal is None:
            log.finish(ends)
            self._save(log, moment.ctx.session)
            return
        own = moment.ctx.session.state  # of the running process, there is the log in it
        state = state_text(own, self._warned) if len(own) > 1 or log.state != "{}" else "{}"
        if log.is_resumed and state != log.state and not log.is_quiet:
            log.state = state
            log.turn_writes.append(KeepState(self.session_id, state))
        log.finish(ends)
        _check_written(log.journal)

    def heed(self, moment: Moment) -> None:
        """Do what an utterance has said of the record, if nothing else, once its turn is no longer open."""
        log, wish = moment.log, moment.log.wish
        if log.off_the_record == "this":
            log.off_the_record = "off"
        if wish is not None:
            with suppress(InvalidInputError):  # another's turn stays
                self.withhold(log, moment.ctx.session, wish, by=log.prompt_log.reader)

    def withhold(self, log: SessionLog, session: Session, which: Unkept, *, by: Reader | None = None) -> None:
        """Keep turns off the record, as `Conversation.off_the_record` tells.

        Raises:
            InvalidInputError: the turn before is not by this speaker.
            StoreError: it cannot be erased now.
        """
        if which == "last":
            before = next((turn for turn in reversed(log.prompt_log.turns) if not turn.erased), None)
            if before is not None and by is not None and name_key(before.owner or "") != by.key:
                raise InvalidInputError("Nothing was erased: somebody else said that.")
            if before is not None:
                self.erase(log, session, before)
        elif which != "this" or (log.open_turn is None and log.off_the_record == "off"):
            log.off_the_record = which
        if which in ("this", "on") and log.open_turn is not None:
            log.open_turn.leave_record()

    def erase(self, log: SessionLog, session: Session, turn: PromptTurn) -> None:
        """Erase all that is kept of a turn, as it is forgotten."""
        if (journal := log.journal_of(turn)) is not None:
            more: dict[str, Any] = {"wake": lambda: None, "wait_s": log.commit_wait_s}
            own = self._erase or Eraser(journal.database, journal, (), on_forgotten=log.forget, **more).turn
            log.erase(turn, own)
        elif turn is not log.prompt_log.running:
            turn.erased = True
            log.leave_out(log.kept_from)
            log.refresh_record()
            if log.journal is None:
                self._save(log, session)

    def interrupt(self, moment: Moment) -> tuple[list[str], bool]:
        """Keep the heard part of a turn's speech by the payload; return its messages, and whether the turn is history."""
        log, payload = moment.log, moment.payload
        report = {name: payload.get(name) for name in ("heard_text", "heard_ms", "words")}
        heard, changed = log.interrupt(
            {**report, "chars_per_s": self._settings.now.context.speech_chars_s},
            prepared=payload.get("prepared"),
        )
        if changed is not None and log.journal is None:
            self._save(log, moment.ctx.session)
        elif changed is not None:
            log.amend(changed)
        return heard, changed is not None

    def keep_result(self, moment: Moment) -> None:
        """Keep a late result with the turn of its call."""
        log, late = moment.log, moment.payload
        if log.journal is None:
            self._save(log, moment.ctx.session)
            return
        log.keep_result(late)
        _check_written(log.journal)

    def _save(self, log: SessionLog, session: Session) -> None:
        """Give a store that knows messages only all of them."""
        if self.store is not None and not log.is_detached:
            if not log.is_resumed:
                raise StoreError("The session cannot be read, so nothing replaces it; it is tried again.")
            said = (item for turn in _kept(log) for item in turn.messages)
            messages = [stored_message(without_objects(item)).as_message() for item in said]
            self.store.save(self.session_id, Session(messages, with_levels(session.state, log)))


def _check_written(journal: TurnJournal) -> None:
    if (backlog := journal.backlog()).turns:
        raise StoreError(f"{TURNS_WAIT}; {backlog}")


TURNS_KEY, LATE_KEY = "edgemem_turns", "edgemem_late"

_Turns = list[tuple[int, Level, Level, str | None, int | None]]
"""Of each turn: how many messages it has, the levels of utterance and answer, its owner, and which message is the utterance."""


def with_levels(state: dict[str, Any], log: SessionLog) -> dict[str, Any]:
    """Return the state without the process's own names (`__…`), and with unread results and the readers of turns, unless all are usual."""
    default, own = log.prompt_log.default_level, _kept(log)
    kept = {name: value for name, value in state.items() if not str(name).startswith("__")}
    turns: _Turns = [
        (len(turn.messages), turn.level, turn.answer, turn.owner, turn.utterance) for turn in own
    ]
    places = {id(turn): n for n, turn in enumerate(own)}
    late = [(n, of.call, of.text) for of in log.late_results if (n := places.get(id(of.turn))) is not None]
    if late:
        kept[LATE_KEY] = late
    elif all(level == answer == default for _, level, answer, _, _ in turns):
        return kept
    return {**kept, TURNS_KEY: turns}


def _kept(log: SessionLog) -> list[PromptTurn]:
    return [turn for turn in log.prompt_log.turns if not (turn.erased or turn.unkept)]


def late_of(kept: Any, turns: Sequence[PromptTurn]) -> list[LateResult]:
    """Return the unread results that a state keeps."""
    try:
        late = msgspec.convert(kept, list[tuple[int, dict[str, Any], str]])
    except msgspec.ValidationError:
        return []
    late = [each for each in late if 0 <= each[0] < len(turns)]  # else somebody has changed the messages
    for n, call, _ in late:
        turns[n].late = (*turns[n].late, str(call.get("id")))
    return [LateResult(call, text, turns[n]) for n, call, text in late]


def turns_of(session: str, messages: Sequence[Message], state: dict[str, Any], default: Level) -> list[Turn]:
    """Return stored messages as turns, with the levels that are taken out of `state`; `default` where there are none."""
    try:
        kept = msgspec.convert(state.pop(TURNS_KEY, []), _Turns, strict=False)
    except msgspec.ValidationError:
        kept = []
    cut: list[Sequence[Message]] = []
    if kept and sum(turn[0] for turn in kept) == len(messages):
        at = 0
        for size, *_ in kept:
            cut.append(messages[at : at + size])
            at += size
    else:
        # Somebody has changed the messages: all of them are as private as the most private of them was.
        cut = list(split_turns(messages)[1])
        level = most_private(default, *(answer for _, _, answer, _, _ in kept))
        owners = {name_key(owner or ""): owner for _, _, answer, owner, _ in kept if answer == "private"}
        owner = next(iter(owners.values())) if len(owners) == 1 else None
        kept = [(0, level, level, owner, None)] * len(cut)
    return [
        Turn(
            session,
            n,
            tuple(stored_message(message) for message in part),
            level=level,
            owner=owner,
            answer=answer,
            utterance=utterance,
        )
        for n, (part, (_, level, answer, owner, utterance)) in enumerate(zip(cut, kept, strict=True))
        if part
    ]
