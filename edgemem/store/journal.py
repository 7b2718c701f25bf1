"""The journal of turns: one transaction a turn, on the writer thread, in the order in which they ended.

*Accepted* turns survive a crash of the process: they are in the spool beside the database. *Committed* ones also survive a pulled
plug. What else belongs to a turn (episodes, a new epoch) is written in the same transaction.

A step is written at once, and exactly once. Where that is impossible (another program holds the database, the disk is full or
broken) it waits, and all later ones behind it: in the spool from its oldest on, without a gap; what that cannot take waits in
memory alone, and is counted. Each try begins with the oldest.

The database sees no open turn. Where something must come after one (another loop takes its session up, something is forgotten, or
the memory is closed) it is written as unfinished, and its end replaces that. A turn's row has the tick at which it was accepted,
which tells if it is written.

Several loops, also of several processes, may talk in one session. A turn's number is what its loop expects; where another loop
was quicker, it gets the next free one, inside of the transaction, and the future says which.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import BusyError, CorruptError, InvalidInputError, LostError, StoreError
from edgemem.records import Epoch, Reader, Turn
from edgemem.store import turns
from edgemem.store.db.connection import MARK
from edgemem.store.db.database import Database
from edgemem.store.db.files import to_store_error
from edgemem.store.spool import DISK_ERRORS, RETRYABLE, Record, Spool, Spools, read_foreign_spool
from edgemem.store.turn_steps import Accept, AddResult, Amend, Commit, Companion, Discard, Line, Step, line_of

if TYPE_CHECKING:
    from edgemem.store.db.transaction import Transaction

_RETRYABLE = (*RETRYABLE, CorruptError)
"""A damaged or replaced file is no reason to give up a turn, as it is for a write whose caller is told."""

_LOOK_S = 0.02  # how soon somebody who begins to speak is served

_MARK = f"{MARK}spool:"
"""With a file's name, the key under which the truth says up to which record of it all is done."""

_log = logging.getLogger(__name__)

_journals = count()


class Backlog(msgspec.Struct, frozen=True):
    """Turns that wait to be written."""

    turns: int
    unkept: int  # so many wait in memory alone, and are lost with their process
    fault: str = ""  # why they wait

    def __str__(self) -> str:
        unkept = f", {self.unkept} of them only in memory" if self.unkept else ""
        waiting = "1 turn waits" if self.turns == 1 else f"{self.turns} turns wait"
        return f"{waiting} to be written{unkept}: {self.fault}"


@dataclass(eq=False)
class OpenTurn:
    """An accepted turn, and its places."""

    turn: Turn
    tick: int
    record: Record | None = None
    kept: Turn | None = None  # the part of it that the record has
    stored: Turn | None = None  # as it is written, or about to be, although it is open
    ended: bool = False

    def erase(self) -> None:
        """Take its record out of the spool."""
        if self.record is not None:
            self.record.spool.erase(self.record)
            self.record = None

    @property
    def is_stored(self) -> bool:
        """Tell whether all of its words are written, or about to be."""
        return self.stored is not None and self.stored.messages == self.turn.messages


class Result(Future[Any]):
    """What a step will give, and the tick of its turn."""

    def __init__(self, tick: int | None) -> None:
        super().__init__()
        self.tick = tick
        self.set_running_or_notify_cancel()


class Entry:
    """A step on its way, with further writes `also` for its transaction; it writes or erases the turn `open`."""

    def __init__(
        self,
        step: Step,
        also: Sequence[Companion] = (),
        open: OpenTurn | None = None,  # noqa: A002
        *,
        id: int = 0,  # noqa: A002
        record: Record | None = None,
    ) -> None:
        self.step, self.also, self.open = step, tuple(also), open
        self.id, self.record = id, record  # without a record, the step ends with this process
        self.future = Result(step.tick)


class TurnJournal:
    """Writes and reads the turns of sessions in one database; safe to use from several threads."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.most = 500  # turns that may wait; a further one is refused, and lost
        self.spools = Spools(database)
        self.fault: StoreError | None = None
        """Why what waits could not be written; None: nothing waits, or it was not tried yet."""
        self._queue: deque[Entry] = deque()
        self._try: Future[None] | None = None
        self._open: dict[Future[int], OpenTurn] = {}
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._digits = self._process + next(_journals)
        # What processes that are gone have left is older than all that comes now.
        database.enqueue(self._take_over).result()

    def reserve(self) -> None:
        """Have room for turns that must wait, before anybody speaks and the disk is full; nothing is waited for."""

        def reserve() -> None:
            try:
                self.spools.reserve()
            except DISK_ERRORS as error:
                _log.warning("No room could be reserved for turns that have to wait: %s", error)

        self.database.enqueue(reserve)

    def accept(self, turn: Turn, *, replaces: Future[int] | None = None) -> Future[int]:
        """Keep an open turn, off the hot path; the result is the tick at which it was accepted first.

        `replaces` is an earlier call's result for the same turn, which was prepared again, or has more to say now.
        """
        with self._lock:
            entry = None if replaces is None else self._open.pop(replaces, None)
            if entry is None:
                entry = OpenTurn(turn, self._tick())
            entry.turn = turn
            future = self.database.enqueue(partial(self._keep_open, entry))
            self._open[future] = entry
        return future

    def commit(
        self,
        turn: Turn,
        also: Sequence[Companion] = (),
        *,
        accepted: Future[int] | None = None,
        forgotten: tuple[int, int] | None = None,
    ) -> Result:
        """Write a whole turn; the result is the number that it got, once it is written, or None if it was forgotten.

        Args:
            also: further writes for the same transaction.
            accepted: what `accept` returned for this turn, if it was accepted; the open turn is replaced.
            forgotten: as that of `Commit`.
        """
        entry = self._end(accepted)
        tick = self._tick() if entry is None else entry.tick
        return self._submit(Entry(Commit(turn, tick, forgotten), also, entry))

    def amend(self, session: str, n: int, heard: Sequence[str], *, tick: int | None = None) -> Future[bool]:
        """Keep of each message that turn `n` spoke the part heard before a barge-in; the rest stays apart.

        `tick` is that of what `commit` returned for a turn that was written here: another loop may have taken the number.
        """
        return self._submit(Entry(Amend(session, n, tuple(heard), tick)))

    def add_result(self, step: AddResult) -> Future[bool]:
        """Keep the result of a tool that answered after its turn."""
        return self._submit(Entry(step))

    def discard(self, session: str, accepted: Future[int]) -> Future[bool]:
        """Erase an accepted turn that was thrown away; the result is whether there was one."""
        entry = self._end(accepted)

        def erase() -> bool:
            if entry is not None and entry.record is not None:
                entry.erase()
                # A discarded turn must not come back after a pulled plug either.
                self.spools.sync()
            return entry is not None

        erased = self.database.enqueue(erase)
        if entry is None or entry.stored is None:
            return erased
        return self._submit(Entry(Discard(session, entry.tick)))

    def settle(self, *, wait_s: float | None = None) -> None:
        """Write all that waits, also of processes that are gone, and open turns, before something is forgotten in them.

        It takes `wait_s` at most (None: as the database waits for others), and raises StoreError where it is impossible now.
        """
        name = self.database.path.name
        self._store_open(alone=True)
        tried = self.database.enqueue(self._take_over)
        wait([tried], wait_s)
        if not tried.done():
            raise BusyError(f"{name} is busy, so nothing was done; try again in a moment.")
        tried.result()
        if self.fault is not None:
            raise self.fault
        if self.backlog_of_others().turns:
            raise BusyError(
                f"Another program has turns that wait to be written into {name}; try again when it has written them, or"
                " stop it."
            )
        self.spools.sync()

    def mark_unfinished(self, session: str) -> int:
        """Write turns that another loop left open as unfinished; return how many there were."""
        count = self._store_open(session)
        if count:
            self._begin().result()
        return count

    def close(self) -> None:
        """Write waiting and open turns, or leave them for the next opening; StoreError: neither was possible, turns are lost."""
        try:
            # What a forked process has is its parent's.
            if not self.database.closed and os.getpid() == self._process:
                self._store_open()
                self._begin().result()
                self._leave()
        finally:
            self.spools.close()

    def retry(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Try again what could not be written, until `stop` says that somebody speaks; tell if it worked, or raise StoreError."""
        if self.fault is None:
            return False
        tried = self._begin()
        while not tried.done() and not stop():
            wait([tried], _LOOK_S)
        if tried.done() and self.fault is not None:
            raise self.fault
        return tried.done()

    def backlog(self) -> Backlog:
        """Return what waits because it could not be written."""
        with self._lock:
            entries = [] if self.fault is None else list(self._queue)
        # A turn and its barge-in are one.
        unkept = {entry.step.tick for entry in entries if entry.record is None}
        return Backlog(len({entry.step.tick for entry in entries}), len(unkept), str(self.fault or ""))

    def backlog_of_others(self) -> Backlog:
        """Return what waits in other programs, as far as their files tell."""
        turns = unkept = 0
        for path in self.spools.others():
            texts, more = read_foreign_spool(path)
            steps = [line.step for line in map(line_of, texts) if line is not None]
            waiting = {step.tick for step in steps if not isinstance(step, Accept)}
            turns, unkept = turns + len(waiting) + more, unkept + more
        return Backlog(turns, unkept, "another program could not write them yet")

    def open_turns(self) -> list[Turn]:
        """Return the turns that are open, here or in another program."""
        foreign = (
            line for path in self.spools.others() for line in map(line_of, read_foreign_spool(path)[0])
        )
        steps = [line.step for line in foreign if line is not None]
        with self._lock:
            open_turns = [entry.turn for entry in self._open.values()]
        return open_turns + [step.turn for step in steps if isinstance(step, Accept)]

    def latest_epoch(self, session: str) -> Epoch | None:
        """Return the epoch that a session is in."""
        return turns.latest_epoch(self.database, session)

    def read_turns(
        self, session: str, *, from_n: int = 0, reader: Reader | None = None, talk: bool = True
    ) -> list[Turn]:
        """Return a session's written turns, oldest first; without `talk` those alone that have calls or instructions."""
        return turns.read_turns(self.database, session, from_n=from_n, reader=reader, talk=talk)

    def _store_open(self, session: str | None = None, *, alone: bool = False) -> int:
        """Have the open turns of a session (None: of all) written, their speakers' `alone` where these go on; return their number."""
        with self._lock:
            entries = [
                entry
                for entry in self._open.values()
                if session in (None, entry.turn.session) and not (alone and entry.is_stored)
            ]
            return sum(self._store(entry, alone=alone) for entry in entries)

    def _end(self, accepted: Future[int] | None) -> OpenTurn | None:
        """Let nobody else end this turn; None: it was not accepted."""
        with self._lock:
            entry = None if accepted is None else self._open.pop(accepted, None)
            if entry is not None:
                entry.ended = True
            return entry

    def _tick(self) -> int:
        """Return when a turn is accepted, with last digits of this journal alone: stopped wall clocks may count from one tick."""
        with self._lock:
            tick = self.database.clock.tick()
            tick += (self._digits - tick) % 1000
            self.database.clock.witness(tick)
            return tick

    def _submit(self, entry: Entry) -> Result:
        with self._lock:
            self._queue.append(entry)
        try:
            self._begin()
        except BaseException:
            with self._lock:
                self._queue.remove(entry)
            raise
        return entry.future

    def _store(self, entry: OpenTurn, *, alone: bool = False) -> bool:
        turn = msgspec.structs.replace(entry.turn, state="unfinished")
        if alone:
            turn = msgspec.structs.replace(turn, level="private", answer="private")
        if entry.stored == turn:
            return False
        entry.stored = turn
        self._submit(Entry(Commit(turn, entry.tick), open=entry))
        return True

    def _begin(self) -> Future[None]:
        with self._lock:
            # One try that has not begun yet serves for all that came meanwhile.
            if self._try is None or self._try.running() or self._try.done():
                self._try = self.database.enqueue(self._drain)
            return self._try

    def _take_over(self) -> None:
        """Take in what processes that are gone have left, and write all that waits; on the writer thread."""
        left = self.spools.take_over()
        # What had ended comes first, as turns are in the order in which they end.
        entries = sorted(
            (entry for spool in left for entry in _entries_in(spool)),
            key=lambda kept: (True, kept.step.tick) if isinstance(kept.step, Accept) else (False, kept.id),
        )
        if left:
            self.spools.reuse(left)
        with self._lock:
            self._queue.extend(entries)
        self._drain()

    def _keep_open(self, turn: OpenTurn) -> int:
        """Put an open turn into the spool, in place of its older record; return its tick; on the writer thread.

        It raises StoreError where there is no room, or something that came before it has none.
        """
        with self._lock:
            words = turn.turn
            if turn.ended or turn.kept is words or turn.is_stored:
                return turn.tick
            if self.fault is not None and any(entry.record is None for entry in self._queue):
                raise self.fault  # an earlier turn would not come back
        try:
            record = self._put(Accept(words, turn.tick))[1]
        except OSError as error:
            raise to_store_error(error, self.database.path) from error
        turn.erase()
        turn.record, turn.kept = record, words
        return turn.tick

    def _leave(self) -> None:
        """Leave what waits to the next opening; raise StoreError where the spool does not have all of it."""
        backlog = self.backlog()
        with self._lock:
            self._queue.clear()
        self.fault = None
        if self.spools.own is not None and self.spools.own.empty:
            self.database.enqueue(partial(self.spools.release, self.spools.own)).result()
        if backlog.unkept:
            raise StoreError(
                f"{backlog.unkept} turns could not be written, nor kept in a file, and are lost: {backlog.fault}"
            )
        if backlog.turns:
            _log.error(
                "%d turns could not be written: %s They stand in %s and are taken in when this memory is opened again.",
                backlog.turns,
                backlog.fault,
                ", ".join(str(spool.path) for spool in self.spools.held),
            )

    def _drain(self) -> None:
        while self._queue:
            entry = self._queue[0]
            try:
                result = self.database.write(partial(self._write, entry))
            except _RETRYABLE as error:
                self._keep_all(error)
                return
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
                self._remove(entry, error)
                entry.future.set_exception(error)
            else:
                self._remove(entry, None)
                entry.future.set_result(result)
        if self.fault is not None:
            _log.warning("All turns that had to wait are written.")
            self.fault = None
        self._note()
        self.spools.tidy()

    def _write(self, entry: Entry, tx: Transaction) -> Any:
        """Do a step, unless the truth says that its record is done."""
        if entry.record is not None and not isinstance(entry.step, Accept):
            mark = _MARK + entry.record.spool.path.name
            if tx.execute("select 1 from meta where key = ? and value >= ?", (mark, entry.id)):
                return None
            tx.execute("insert or replace into meta values (?, ?)", (mark, entry.id))
        result = entry.step.run(tx)
        for write in entry.also if result is not None else ():  # else the turn was forgotten
            write(tx)
        return result

    def _remove(self, entry: Entry, error: BaseException | None) -> None:
        """Take a step that is over out of the queue and the spool, and its open turn with it."""
        with self._lock:
            self._queue.remove(entry)
        if entry.record is not None:
            entry.record.spool.erase(entry.record)
        turn = entry.open
        if turn is None:
            return
        if error is None or isinstance(error, LostError) or (turn.ended and turn.stored is not None):
            turn.erase()
        elif turn.ended:
            self._store(turn)  # the whole turn is refused; its accepted part is kept

    def _keep_all(self, error: StoreError) -> None:
        """Have what waits in the spool too, from its oldest on, so that it survives this process."""
        if self.fault is None:
            _log.warning("Turns wait to be written, and are tried again: %s", error)
        self.fault = error
        with self._lock:
            # Beyond the bound the newest are given up: the kept ones have no gap.
            commits = [entry for entry in self._queue if isinstance(entry.step, Commit)]
            for entry in commits[self.most :]:
                if entry.record is None:
                    lost = LostError(f"This turn is lost: {self.most:,} turns wait already. {error}")
                    self._remove(entry, lost)
                    entry.future.set_exception(lost)
            entries = [entry for entry in self._queue if entry.record is None]
        try:
            try:
                for entry in entries:
                    self._keep(entry)
            finally:
                if self.spools.own is not None:
                    self.spools.own.sync()
        except DISK_ERRORS as fault:
            _log.warning("Turns that wait are kept in memory only: %s", fault)
        for entry in entries:
            if entry.record is not None and entry.open is not None:
                entry.open.erase()
        self._note()

    def _keep(self, entry: Entry) -> None:
        try:
            entry.id, entry.record = self._put(entry.step, entry.also)
        except InvalidInputError as error:
            _log.warning("%s It waits in memory only.", error)

    def _put(self, step: Step, also: tuple[Companion, ...] = ()) -> tuple[int, Record]:
        number = self.database.clock.tick()
        return number, self.spools.reserve().put(Line(number, step, also).encoded())

    def _note(self) -> None:
        if self.spools.own is not None:
            self.spools.own.note(self.backlog().unkept)


def _entries_in(spool: Spool) -> list[Entry]:
    """Return the steps that a process which is gone has left; of an open turn with two records, the newer one."""
    lines: list[tuple[Line, Record]] = []
    for record in spool.read():
        if (line := line_of(record.text)) is None:
            spool.damaged = True
        else:
            lines.append((line, record))
    steps: list[Entry] = []
    opened: dict[int, Entry] = {}
    for line, record in sorted(lines, key=lambda pair: pair[0].id):
        entry = Entry(line.step, line.also, id=line.id, record=record)
        if not isinstance(line.step, Accept):
            steps.append(entry)
            continue
        if (older := opened.get(line.step.tick)) is not None and older.record is not None:
            spool.erase(older.record)
        opened[line.step.tick] = entry
    return [*steps, *opened.values()]
