"""The journal of turns: one transaction a turn, on the writer thread, in the order in which they ended.

*Accepted* turns survive a crash of the process: they stand in the spool beside the database. *Committed* ones also survive a
pulled plug. What else belongs to a turn (episodes, a new epoch) is written in the same transaction.

The database sees an open turn only where something must come after it: another loop takes its session up, something is
forgotten, or the memory is closed. The tick at which a turn was accepted stands in its row, so a record that is found after a
crash is known to be written, or not.

Several loops may talk in one session, also from several processes. The number of a turn is then what its loop expects; where
another loop was quicker, the turn gets the next free one, inside of the transaction, and the future says which. So two loops
never overwrite each other's turns, and none is lost.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, wait
from functools import partial
from itertools import count

import msgspec

from edgemem.errors import BusyError
from edgemem.records import Epoch, Reader, Turn
from edgemem.store import epochs, turns
from edgemem.store.db.database import Database
from edgemem.store.outbox import Also, Entry, OpenTurn, Outbox, Result
from edgemem.store.turn_steps import Amend, Commit, Discard

_journals = count()


class TurnJournal:
    """Writes and reads the turns of sessions in one database; safe to use from several threads."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.outbox = Outbox(database)
        self._open: dict[Future[int], OpenTurn] = {}
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._digits = self._process + next(_journals)
        # What processes that are gone have left is older than all that comes now, so it is waited for.
        database.enqueue(self.outbox.take_over).result()

    # Writing

    def reserve(self) -> None:
        """Have room for turns that must wait, before anybody speaks and the disk is full; nothing is waited for."""
        self.database.enqueue(self.outbox.reserve)

    def accept(self, turn: Turn, *, replaces: Future[int] | None = None) -> Future[int]:
        """Keep an open turn, off the hot path; the result is the tick at which it was accepted first.

        Args:
            replaces: what an earlier call returned for the same turn, which was prepared again, or has more to say now.
        """
        with self._lock:
            entry = None if replaces is None else self._open.pop(replaces, None)
            if entry is None:
                entry, replaces = OpenTurn(turn, self._tick()), None
            entry.turn = turn
            if replaces is not None and not (replaces.running() or replaces.done()):
                future = replaces  # it has not begun, and keeps what it finds then
            else:
                future = self.database.enqueue(partial(self.outbox.keep, entry))
            self._open[future] = entry
            if entry.stored is not None:
                self.outbox.store(entry)
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
        tick = self._tick() if entry is None else entry.tick
        return self.outbox.submit(Entry(Commit(turn, tick), tuple(also), entry))

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
        tick = committed.tick if isinstance(committed, Result) else None
        step = Amend(session, n if committed is None else None, heard_text, tick)
        return self.outbox.submit(Entry(step, tuple(also)))

    def discard(self, session: str, accepted: Future[int]) -> Future[bool]:
        """Erase an accepted turn that was thrown away; the result is whether there was one."""
        entry = self._end(accepted)
        erased = self.database.enqueue(partial(self._erase, entry))
        if entry is None or entry.stored is None:
            return erased
        return self.outbox.submit(Entry(Discard(session, entry.tick)))

    def settle(self, *, wait_s: float | None = None) -> None:
        """Write all that is not written yet, open turns too, before something is forgotten: it is erased there then.

        What processes that are gone have left is written as well.

        Args:
            wait_s: how long to wait for it; None: as long as the database waits for others.

        Raises:
            StoreError: it is impossible now.
        """
        name = self.database.path.name
        self._store_open()
        tried = self.database.enqueue(self.outbox.take_over)
        wait([tried], wait_s)
        if not tried.done():
            raise BusyError(f"{name} is busy, so nothing was done; try again in a moment.")
        tried.result()
        if self.outbox.fault is not None:
            raise self.outbox.fault
        if self.outbox.backlog_of_others().turns:
            raise BusyError(
                f"Another program has turns that wait to be written into {name}; try again when it has written them, or"
                " stop it."
            )
        self.outbox.sync()

    def mark_unfinished(self, session: str) -> int:
        """Mark turns that a crash or another loop left open; return how many there were."""
        if self._store_open(session):
            self.outbox.begin().result()
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
            if not self.database.closed and os.getpid() == self._process:
                self._store_open()
                self.outbox.begin().result()
                self.outbox.give_up()
        finally:
            self.outbox.close()

    # Reading

    def latest_epoch(self, session: str) -> Epoch | None:
        """Return the epoch that a session is in."""
        return epochs.latest_epoch(self.database, session)

    def read_turns(self, session: str, *, from_n: int = 0, reader: Reader | None = None) -> list[Turn]:
        """Return a session's turns, oldest first; the operator's view has those that this process has open."""
        opened = [] if reader is not None else self._open_turns(session)
        stored = turns.read_turns(self.database, session, from_n=from_n, reader=reader)
        written = {turn.recorded_at for turn in stored}
        for turn in opened:
            if turn.recorded_at not in written:
                n = max(turn.n, stored[-1].n + 1 if stored else from_n)
                stored.append(msgspec.structs.replace(turn, n=n))
        return stored

    # Open turns

    def _open_turns(self, session: str) -> list[Turn]:
        with self._lock:
            return [
                msgspec.structs.replace(entry.turn, state="open", recorded_at=entry.tick / 1e6)
                for entry in self._open.values()
                if entry.turn.session == session and (entry.stored is None or not entry.stored.done())
            ]

    def _store_open(self, session: str | None = None) -> bool:
        """Have the open turns of a session (None: of all) written as open ones; return whether there were any."""
        with self._lock:
            entries = [
                entry
                for entry in self._open.values()
                if entry.stored is None and session in (None, entry.turn.session)
            ]
            for entry in entries:
                self.outbox.store(entry)
        return bool(entries)

    def _end(self, accepted: Future[int] | None) -> OpenTurn | None:
        """Let nobody else end this turn; None: it was not accepted."""
        with self._lock:
            entry = None if accepted is None else self._open.pop(accepted, None)
            if entry is not None:
                entry.ended = True
            return entry

    def _erase(self, entry: OpenTurn | None) -> bool:
        if entry is not None and entry.record is not None:
            entry.erase()
            # What was thrown away must not come back after a pulled plug either.
            self.outbox.sync()
        return entry is not None

    def _tick(self) -> int:
        """Return when a turn is accepted: the last digits keep it apart from the turns of all other journals.

        Two processes whose wall clocks stand still count on from the same tick.
        """
        with self._lock:
            tick = self.database.clock.tick()
            tick += (self._digits - tick) % 1000
            self.database.clock.witness(tick)
            return tick
