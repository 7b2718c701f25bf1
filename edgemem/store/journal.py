"""The journal of turns: one transaction a turn, on the writer thread, in the order in which they ended.

*Accepted* turns survive a crash of the process: they stand in the spool beside the database. *Committed* ones also survive a
pulled plug. What else belongs to a turn (episodes, a new epoch) is written in the same transaction.

A turn that cannot be written now (another program holds the database, the disk is full or broken) waits, and all that comes
later waits behind it: in the spool, on the disk; what the spool cannot take either waits in memory alone, and `backlog` says
so. The spool holds what waits from its oldest on, without a gap. Whatever is tried next tries the oldest first.

The database sees an open turn only where something must come after it: another loop takes its session up, something is
forgotten, or the memory is closed. The tick at which a turn was accepted stands in its row, so a record that is found after a
crash is known to be written, or not.

Several loops may talk in one session, also from several processes. The number of a turn is then what its loop expects; where
another loop was quicker, the turn gets the next free one, inside of the transaction, and the future says which. So two loops
never overwrite each other's turns, and none is lost.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from edgemem.errors import (
    BusyError,
    CorruptError,
    DiskError,
    DiskFullError,
    EdgememError,
    InvalidInputError,
    LostError,
    ReadOnlyError,
    StoreError,
)
from edgemem.records import Epoch, Reader, Turn
from edgemem.store import epochs, turns
from edgemem.store.files import sync
from edgemem.store.messages import to_json
from edgemem.store.spool import ROOM, Record, Spool, look_into, spool_paths
from edgemem.store.sqlite_errors import meaning_of
from edgemem.store.turn_steps import Accept, Amend, Commit, Companion, Discard, Step

if TYPE_CHECKING:
    from edgemem.store.database import Database
    from edgemem.store.transaction import Transaction

Also = Callable[[Any], Any]
"""A further write for the transaction of a step."""

LATER = (BusyError, DiskFullError, ReadOnlyError, DiskError, CorruptError)
"""What may be possible later. Any other failure of a step would come back each time, and hold up all behind it."""

_MARK, _OLD_MARK = "spool:", "pending:"
"""With these names the truth says up to which record of a file all is done; earlier versions named each."""
_WAITED = "waited"

_LOOK_S = 0.02  # how soon somebody who begins to speak is served

_log = logging.getLogger(__name__)


class Waited(msgspec.Struct, frozen=True):
    """Turns that once had to wait, and have been written since."""

    turns: int
    at: float
    """When the last of them was written, in seconds since the epoch."""


class Backlog(msgspec.Struct, frozen=True):
    """Turns that wait to be written."""

    turns: int
    unkept: int
    """How many of them wait in memory alone, and are lost with their process."""
    fault: str = ""
    """Why they wait."""

    def __str__(self) -> str:
        unkept = f", {self.unkept} of them only in memory" if self.unkept else ""
        return f"{self.turns} turns wait to be written{unkept}: {self.fault}"


class _Line(msgspec.Struct, frozen=True, omit_defaults=True, tag="step"):
    """A step as it stands in the spool."""

    seq: int
    """Larger than that of every step before."""
    step: Step
    also: tuple[Companion, ...] = ()


class _OldLine(msgspec.Struct, frozen=True, rename={"seq": "id"}):
    """A step as an earlier version kept it while it waited."""

    seq: int
    step: Step
    also: tuple[Companion, ...] = ()
    of: int | None = None
    """The step that has its turn's number."""


class _Written(Future[Any]):
    """What a step will give, and the tick of its turn."""

    tick: int | None = None


class _Open:
    """An open turn, and where it stands."""

    def __init__(self, turn: Turn, tick: int) -> None:
        self.turn = turn
        self.tick = tick
        self.record: Record | None = None
        self.kept: Turn | None = None
        """What of it stands there."""
        self.fault: EdgememError | None = None
        """Why what was said last does not stand there."""
        self.stored: Future[Any] | None = None
        """Its number in the database, if it has to stand there."""
        self.ended = False


class _Entry:
    """A step on its way.

    Args:
        also: further writes for the same transaction.
        of: the future of the step whose result this one needs.
        open: the turn that it ends, or stores as an open one.
        durable: as for `Database.submit`.
    """

    def __init__(
        self,
        step: Step,
        *,
        also: Sequence[Also] = (),
        of: Future[Any] | None = None,
        open: _Open | None = None,  # noqa: A002 - the word for it
        durable: bool = True,
    ) -> None:
        self.step = step
        self.also = tuple(also)
        self.of = of
        self.open = open
        self.durable = durable
        self.seq = 0
        self.record: Record | None = None
        self.taken = False
        """Whether a process that is gone has left it."""
        self.late = False
        """Whether it was impossible once."""
        self.future = _Written()
        self.future.tick = step.tick
        self.future.set_running_or_notify_cancel()

    @property
    def kept(self) -> bool:
        """Tell whether it survives its process."""
        return self.record is not None or (
            isinstance(self.step, Accept)
            and self.open is not None
            and (self.open.ended or self.open.record is not None)
        )


class TurnJournal:
    """Writes and reads the turns of sessions in one database; safe to use from several threads.

    Args:
        most: how many turns may wait; a further one is refused, and lost.
        room: how many bytes are reserved for what waits.
    """

    def __init__(self, database: Database, *, most: int = 500, room: int = ROOM) -> None:
        self.database = database
        self.most = most
        self.room = room
        self.fault: StoreError | None = None
        """Why what waits could not be written; None: nothing waits, or it was not tried yet."""
        self._lock = threading.RLock()
        self._queue: deque[_Entry] = deque()
        self._open: dict[Future[int], _Open] = {}
        self._try: Future[None] | None = None
        self._draining = False
        self._pid = os.getpid()
        self._own: Spool | None = None
        self._spools: list[Spool] = []
        """Those that this process holds: its own, and what others have left; written on the writer thread only."""
        # What processes that are gone have left is older than all that comes now, so it is waited for.
        database.enqueue(self._take_over).result()

    # Writing

    def reserve(self) -> None:
        """Have room for turns that must wait, before anybody speaks and the disk is full; nothing is waited for."""
        self.database.enqueue(self._reserve)

    def accept(self, turn: Turn, *, replaces: Future[int] | None = None) -> Future[int]:
        """Keep an open turn, off the hot path; the result is the tick at which it was accepted first.

        Args:
            replaces: what an earlier call returned for the same turn, which was prepared again, or has more to say now.
        """
        with self._lock:
            entry = None if replaces is None else self._open.pop(replaces, None)
            if entry is None:
                entry = _Open(turn, self.database.clock.tick())
            entry.turn = turn
            future = self.database.enqueue(partial(self._put, entry))
            self._open[future] = entry
            if entry.stored is not None:
                self._store(entry)
        return future

    def commit(
        self, turn: Turn, also: Sequence[Also] = (), *, accepted: Future[int] | None = None
    ) -> Future[int]:
        """Write a whole turn; the result is the number that it got, once it is written.

        Args:
            also: further writes for the same transaction; only records of `turn_steps` can wait in a file.
            accepted: what `accept` returned for this turn, if it was accepted; the open turn is replaced.
        """
        entry = self._end(accepted)
        tick = self.database.clock.tick() if entry is None else entry.tick
        of = None if entry is None else entry.stored
        return self._submit(_Entry(Commit(turn, tick), also=also, of=of, open=entry))

    def amend(
        self,
        session: str,
        n: int,
        heard_text: str,
        also: Sequence[Also] = (),
        *,
        committed: Future[int] | None = None,
    ) -> Future[bool]:
        """Keep of a turn's reply what was heard before a barge-in; the rest stays apart.

        Args:
            n: the turn's number.
            also: as for `commit`.
            committed: what `commit` returned for this turn, which may still be queued; then this has the number.
        """
        tick = committed.tick if isinstance(committed, _Written) else None
        step = Amend(session, n if committed is None else None, heard_text, tick)
        return self._submit(_Entry(step, also=also, of=committed))

    def discard(self, session: str, accepted: Future[int]) -> Future[bool]:
        """Erase an accepted turn that was thrown away; the result is whether there was one."""
        entry = self._end(accepted)
        unkept = self.database.enqueue(partial(self._unkeep, entry))
        if entry is None or entry.stored is None:
            return unkept
        return self._submit(_Entry(Discard(session, entry.tick), of=entry.stored))

    def retry(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Try again what could not be written, until `stop` says that somebody speaks; return whether it worked.

        Raises:
            StoreError: it is still impossible.
        """
        if self.fault is None or not self._queue:
            return False
        tried = self._begin()
        while not tried.done() and not stop():
            wait([tried], _LOOK_S)
        if tried.done() and self.fault is not None:
            raise self.fault
        return tried.done()

    def settle(self, *, wait_s: float | None = None) -> None:
        """Write all that is not written yet, open turns too, before something is forgotten: it is erased there then.

        What processes that are gone have left is written as well.

        Args:
            wait_s: how long to wait for it; None: as long as the database waits for others.

        Raises:
            StoreError: it is impossible now.
        """
        path = self.database.path
        self._store_open()
        tried = self.database.enqueue(self._take_over)
        wait([tried], wait_s)
        if not tried.done():
            raise BusyError(f"{path.name} is busy, so nothing was done; try again in a moment.")
        tried.result()
        if self.fault is not None:
            raise self.fault
        if waiting := [other.name for other in self._others() if _waiting_in(other)[0]]:
            raise BusyError(
                f"Another program has turns that wait to be written ({waiting[0]}); try again when it has"
                " written them, or stop it."
            )
        self.database.enqueue(self._sync).result()

    def mark_unfinished(self, session: str) -> int:
        """Mark turns that a crash or another loop left open; return how many there were."""
        if self._store_open(session):
            self._begin().result()
        if not turns.has_open(self.database, session):
            return 0
        return self.database.write(lambda tx: turns.mark_unfinished(tx, session))

    def close(self) -> None:
        """Write what waits and what is open, or leave it for the next opening; may be called twice.

        Raises:
            StoreError: neither was possible, so turns are lost.
        """
        try:
            # What a forked process has is its parent's.
            if not self.database.closed and os.getpid() == self._pid:
                self._store_open()
                self._begin().result()
                self._give_up()
        finally:
            for spool in self._spools:
                spool.close()
            self._spools = []

    # Reading

    def backlog(self) -> Backlog:
        """Return what waits because it could not be written or, of open turns, not be kept."""
        fault = self.fault
        with self._lock:
            queue = [] if fault is None else list(self._queue)
            refused = [entry for entry in self._open.values() if entry.fault is not None]
        # A turn and its barge-in are one.
        waiting = {entry.step.tick for entry in queue} | {entry.tick for entry in refused}
        unkept = {entry.step.tick for entry in queue if not entry.kept} | {entry.tick for entry in refused}
        told = fault or next((entry.fault for entry in refused), None)
        return Backlog(len(waiting), len(unkept), str(told or ""))

    def backlog_of_others(self) -> Backlog:
        """Return what waits in other programs, as far as their files tell."""
        found = [_waiting_in(path) for path in self._others()]
        return Backlog(
            sum(waiting for waiting, _ in found),
            sum(unkept for _, unkept in found),
            "another program could not write them yet",
        )

    def waited(self) -> Waited | None:
        """Return what had to wait and was written since, in this process or another; None: nothing ever."""
        rows = self.database.query("select value from meta where key = ?", (_WAITED,))
        return msgspec.json.decode(rows[0][0], type=Waited) if rows else None

    def latest_epoch(self, session: str) -> Epoch | None:
        """Return the epoch that a session is in."""
        return epochs.latest_epoch(self.database, session)

    def read_turns(self, session: str, *, from_n: int = 0, reader: Reader | None = None) -> list[Turn]:
        """Return a session's turns, oldest first; the operator's view has those that this process has open."""
        still_open = [] if reader is not None else self._open_turns(session)
        found = turns.read_turns(self.database, session, from_n=from_n, reader=reader)
        written = {turn.recorded_at for turn in found}
        for turn in still_open:
            if turn.recorded_at not in written:
                n = max(turn.n, found[-1].n + 1 if found else from_n)
                found.append(msgspec.structs.replace(turn, n=n))
        return found

    def _open_turns(self, session: str) -> list[Turn]:
        with self._lock:
            return [
                msgspec.structs.replace(entry.turn, state="open", recorded_at=entry.tick / 1e6)
                for entry in self._open.values()
                if entry.turn.session == session and (entry.stored is None or not entry.stored.done())
            ]

    # The queue

    def _submit(self, entry: _Entry) -> Future[Any]:
        with self._lock:
            self._queue.append(entry)
        try:
            self._begin()
        except BaseException:
            with self._lock:
                self._queue.remove(entry)
            raise
        return entry.future

    def _begin(self) -> Future[None]:
        with self._lock:
            # One try that has not begun yet serves for all that came meanwhile.
            if self._try is None or self._try.running() or self._try.done():
                self._try = self.database.enqueue(self._drain)
            return self._try

    def _drain(self) -> None:
        """Write what waits, oldest first, until nothing does or it is impossible."""
        if self._draining:  # called when a step's result was known
            return
        self._draining = True
        try:
            while self._queue:
                entry = self._queue[0]
                try:
                    result = self.database.submit(partial(self._write, entry), durable=entry.durable).result()
                except LATER as error:
                    self._keep(error)
                    return
                except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
                    self._take_out(entry, error)
                    entry.future.set_exception(error)
                else:
                    self._take_out(entry, None)
                    entry.future.set_result(result)
            self._tidy()
        finally:
            self._draining = False

    def _write(self, entry: _Entry, tx: Transaction) -> Any:
        """Do a step, unless the truth says that its record is done."""
        if entry.record is not None:
            mark = _MARK + entry.record.spool.path.name
            if tx.execute("select 1 from meta where key = ? and value >= ?", (mark, entry.seq)):
                return None
            tx.execute("insert or replace into meta values (?, ?)", (mark, entry.seq))
        known = entry.step.find(tx) if entry.taken and entry.of is None else _number(entry.of)
        result = entry.step.run(tx, known)
        for write in entry.also:
            write(tx)
        if entry.late and isinstance(entry.step, Commit):
            rows = tx.execute("select value from meta where key = ?", (_WAITED,))
            before = msgspec.json.decode(rows[0][0], type=Waited).turns if rows else 0
            waited = msgspec.json.encode(Waited(before + 1, tx.recorded / 1e6)).decode()
            tx.execute("insert or replace into meta values (?, ?)", (_WAITED, waited))
        return result

    def _take_out(self, entry: _Entry, error: BaseException | None) -> None:
        """Take a step that is over out of the queue and the spool, and its open turn with it."""
        with self._lock:
            self._queue.remove(entry)
        if entry.record is not None:
            entry.record.spool.erase(entry.record)
        turn = entry.open
        if turn is None:
            return
        if isinstance(entry.step, Accept):
            if error is None or turn.ended:
                self._erase(turn)
        elif error is None or turn.stored is not None or isinstance(error, LostError):
            self._erase(turn)
        else:
            # The database refuses the whole turn for what it is; what was accepted of it is kept.
            self._store(turn)

    def _keep(self, error: StoreError) -> None:
        """Have what waits stand in the spool too, from its oldest on, so that it survives this process."""
        if self.fault is None:
            _log.warning("Turns wait to be written, and are tried again: %s", error)
        self.fault = error
        with self._lock:
            for entry in self._queue:
                entry.late = True
            self._refuse()
            entries = [entry for entry in self._queue if not entry.kept]
        try:
            try:
                for entry in entries:
                    self._put_step(entry)
            finally:
                if self._own is not None and entries:
                    self._own.sync()
        except (OSError, StoreError) as fault:
            _log.warning("Turns that wait are kept in memory only: %s", fault)
        for entry in entries:
            if entry.record is not None and entry.open is not None:
                self._erase(entry.open)
        self._note()

    def _refuse(self) -> None:
        """Give up what is beyond the bound: the newest, so that what is kept stays without a gap."""
        commits = [entry for entry in self._queue if isinstance(entry.step, Commit)]
        for entry in commits[self.most :]:
            if entry.record is None:
                error = LostError(
                    f"This turn is lost: {self.most:,} turns wait already ([store] waiting_turns). {self.fault}"
                )
                self._take_out(entry, error)
                entry.future.set_exception(error)

    def _tidy(self) -> None:
        """Let go of the files that others have left: all that stood in them is written."""
        if self.fault is not None:
            _log.warning("All turns that had to wait are written.")
            self.fault = None
        self._note()
        gone = [spool for spool in self._spools if spool is not self._own]
        self._spools = [] if self._own is None else [self._own]
        for spool in gone:
            self._let_go(spool)

    def _let_go(self, spool: Spool) -> None:
        """Close a file in which nothing stands any more, and remove it unless its room is kept for the next process."""
        try:
            if not spool.stays:
                aside = f"{self.database.path.name}.damaged-{self.database.clock.tick():020d}"
                spool.remove(spool.path.with_name(aside))
                sql = "delete from meta where key = ? or (key >= 'pending:' and key < 'pending;')"
                mark = _MARK + spool.path.name
                self.database.submit(lambda tx: tx.execute(sql, (mark,))).result()
        except (OSError, StoreError) as error:
            _log.warning("A file whose turns are all written could not be removed: %s", error)
        spool.close()

    def _give_up(self) -> None:
        """Leave what waits to the next opening; raise StoreError where the spool does not have all of it."""
        backlog, own = self.backlog(), self._own
        with self._lock:
            self._queue.clear()
            self._open.clear()
        self.fault, self._own = None, None
        if own is not None and own.empty:
            self._spools.remove(own)
            self.database.enqueue(partial(self._let_go, own)).result()
        if backlog.unkept:
            raise StoreError(
                f"{backlog.unkept} turns could not be written, nor kept in a file, and are lost: {backlog.fault}"
            )
        if backlog.turns:
            _log.error(
                "%d turns could not be written: %s They stand in %s and are taken in when this memory is opened again.",
                backlog.turns,
                backlog.fault,
                ", ".join(str(spool.path) for spool in self._spools),
            )

    # Open turns

    def _end(self, accepted: Future[int] | None) -> _Open | None:
        """Let nobody else end this turn; None: it was not accepted."""
        with self._lock:
            turn = None if accepted is None else self._open.pop(accepted, None)
            if turn is not None:
                turn.ended = True
            return turn

    def _store_open(self, session: str | None = None) -> bool:
        """Have the open turns of a session (None: of all) written as open ones; return whether there were any."""
        with self._lock:
            entries = [
                turn
                for turn in self._open.values()
                if turn.stored is None and session in (None, turn.turn.session)
            ]
            for turn in entries:
                self._store(turn)
        return bool(entries)

    def _store(self, turn: _Open) -> None:
        step = Accept(turn.turn, turn.tick)
        turn.stored = self._submit(_Entry(step, of=turn.stored, open=turn, durable=False))

    def _put(self, entry: _Open) -> int:
        """Have an open turn stand in the spool, in place of what stands of it there."""
        with self._lock:
            turn, stored = entry.turn, entry.stored
            if entry.ended or entry.kept is turn or (stored is not None and stored.done()):
                return entry.tick
            behind = self.fault if any(not waiting.kept for waiting in self._queue) else None
        try:
            if behind is not None:
                raise behind  # what was said before it would not come back
            record = self._spool().put(self._line(Accept(turn, entry.tick))[1])
        except (OSError, StoreError) as error:
            entry.fault = meaning_of(error, self.database.path) if isinstance(error, OSError) else error
            self._note()
            raise entry.fault from error
        self._erase(entry)
        entry.record, entry.kept, entry.fault = record, turn, None
        return entry.tick

    def _unkeep(self, turn: _Open | None) -> bool:
        if turn is None:
            return False
        if turn.record is not None:
            self._erase(turn)
            # What was thrown away must not come back after a pulled plug either.
            self._sync()
        return True

    def _erase(self, turn: _Open) -> None:
        if turn.record is not None:
            turn.record.spool.erase(turn.record)
            turn.record = None

    # The spool

    def _spool(self) -> Spool:
        """Return this process's spool; raise OSError, or StoreError, where there can be none."""
        if self._own is None:
            self._witness()
            self._own = Spool.create(self.database.path, self.room)
            self._spools.append(self._own)
        self._own.reserve(self.room)
        return self._own

    def _reserve(self) -> None:
        try:
            self._spool()
        except (OSError, StoreError) as error:
            _log.warning("No room could be reserved for turns that have to wait: %s", error)

    def _line(self, step: Step, also: tuple[Companion, ...] = ()) -> tuple[int, bytes]:
        seq = self.database.clock.tick()
        return seq, to_json(_Line(seq, step, also), what="A turn").encode()

    def _put_step(self, entry: _Entry) -> None:
        also = tuple(write for write in entry.also if isinstance(write, get_args(Companion)))
        if len(also) < len(entry.also):
            _log.warning(
                "A hook's own write waits in memory only; use the records of edgemem.store.turn_steps."
            )
        try:
            entry.seq, text = self._line(entry.step, also)
        except InvalidInputError as error:
            _log.warning("%s It waits in memory only.", error)
            return
        entry.record = self._spool().put(text)

    def _note(self) -> None:
        if self._own is not None:
            try:
                self._own.note(self.backlog().unkept)
            except OSError as error:
                _log.warning("How many turns wait in memory only could not be noted: %s", error)

    def _sync(self) -> None:
        """Have the disk forget what was taken out of the spools, also of other processes; raise StoreError."""
        try:
            for path in spool_paths(self.database.path):
                with suppress(FileNotFoundError):  # its process has ended
                    sync(path)
        except OSError as error:
            raise meaning_of(error, self.database.path) from error

    def _others(self) -> list[Path]:
        mine = {spool.path for spool in self._spools}
        return [path for path in spool_paths(self.database.path) if path not in mine]

    # Taking over

    def _take_over(self) -> None:
        """Take in what processes that are gone have left, and write all that waits."""
        try:
            left = Spool.left(self.database.path)
        except OSError as error:
            left = []
            _log.warning("What an earlier run may have left cannot be read: %s", error)
        entries: list[_Entry] = []
        for spool in left:
            self._spools.append(spool)
            entries += _entries_in(spool)
            if self._own is None and spool.reusable:
                self._own = spool
        if left:
            self._witness()
            # What an earlier version had done of a file that it could not remove any more.
            sql = "select key from meta where key >= 'pending:' and key < 'pending;'"
            done = {key for (key,) in self.database.query(sql)}
            entries = [
                entry
                for entry in entries
                if entry.record is None
                or f"{_OLD_MARK}{entry.record.spool.path.name}:{entry.seq}" not in done
            ]
        # What had ended comes first, as turns stand in the order in which they end.
        entries.sort(key=lambda entry: (entry.open is not None, entry.step.tick if entry.open else entry.seq))
        with self._lock:
            self._queue.extend(entries)
        self._drain()

    def _witness(self) -> None:
        """Have the clock know all that was ever put into a spool, so that what is put from now on is newer."""
        sql = "select coalesce(max(value), 0) from meta where key >= 'spool:' and key < 'spool;'"
        self.database.clock.witness(int(self.database.query(sql)[0][0]))


def _entries_in(spool: Spool) -> list[_Entry]:
    """Return the steps that a process which is gone has left; of an open turn that stands there twice, the newer one."""
    steps: list[_Entry] = []
    opened: dict[int, _Entry] = {}
    for record in spool.read():
        line = _line_of(record.text)
        if line is None:
            spool.damaged = True
            continue
        entry = _Entry(line.step, also=line.also)
        entry.seq, entry.taken = line.seq, True
        if isinstance(line, _OldLine):
            entry.of = next((step.future for step in steps if step.seq == line.of), None)
        if not isinstance(line.step, Accept) or line.step.tick is None:
            entry.record, entry.late = record, True
            steps.append(entry)
            continue
        entry.open = _Open(line.step.turn, line.step.tick)
        entry.open.record, entry.open.ended = record, True
        older, newer = sorted((opened.pop(entry.open.tick, entry), entry), key=lambda twin: twin.seq)
        opened[entry.open.tick] = newer
        if older is not newer and older.open is not None and older.open.record is not None:
            spool.erase(older.open.record)
    return [*steps, *opened.values()]


def _line_of(text: bytes) -> _Line | _OldLine | None:
    """Return what a record says, also in the words of an earlier version; None: it is damaged."""
    for kind in (_Line | Accept, _OldLine):
        try:
            line = msgspec.json.decode(text, type=kind)
        except msgspec.DecodeError:
            continue
        return _Line(line.tick or 0, line) if isinstance(line, Accept) else line
    return None


def _waiting_in(path: Path) -> tuple[int, int]:
    """Return how many turns wait in the spool of another process, and how many in its memory alone."""
    texts, unkept = look_into(path)
    steps = [line.step for line in map(_line_of, texts) if line is not None]
    return len({step.tick for step in steps if not isinstance(step, Accept)}) + unkept, unkept


def _number(written: Future[Any] | None) -> int | None:
    """Return the number that an earlier step gave a turn; None if that step failed, or never was."""
    if written is None or not written.done() or written.cancelled() or written.exception() is not None:
        return None
    number: int | None = written.result()
    return None if number is None else int(number)
