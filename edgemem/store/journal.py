"""The journal of turns: one transaction a turn, on the writer thread.

*Accepted* turns survive a crash of the process (committed without waiting for the disk), *committed* ones also a
pulled plug. What else belongs to a turn (episodes, a new epoch) is written in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from edgemem.records import Epoch, Reader, Turn
from edgemem.store import epochs, turns
from edgemem.store.database import Database, Transaction

Also = Callable[[Transaction], Any]
"""A further write for the same transaction."""


class TurnJournal:
    """Writes and reads the turns of sessions in one database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def accept(self, turn: Turn) -> Future[None]:
        """Keep an open turn, before its first tool runs."""
        return self.database.submit(
            lambda tx: turns.begin_turn(tx, turn.session, turn.n, turn), durable=False
        )

    def commit(self, turn: Turn, also: Sequence[Also] = ()) -> Future[None]:
        """Write a whole turn in place of the open one, if there is one."""

        def work(tx: Transaction) -> None:
            turns.commit_turn(tx, turn)
            for write in also:
                write(tx)

        return self.database.submit(work)

    def amend(self, session: str, n: int, heard_text: str) -> Future[bool]:
        """Keep of a turn's reply what was heard before a barge-in; the rest stays apart."""
        return self.database.submit(lambda tx: turns.amend_turn(tx, session, n, heard_text=heard_text))

    def discard(self, session: str, n: int) -> Future[bool]:
        """Erase an accepted turn that was thrown away."""
        return self.database.submit(lambda tx: turns.discard_turn(tx, session, n))

    def append_epoch(self, epoch: Epoch) -> Future[Epoch]:
        """Record that a session's prompt begins anew."""
        return self.database.submit(lambda tx: epochs.append_epoch(tx, epoch))

    def mark_unfinished(self, session: str) -> int:
        """Mark turns that a crash left open; return how many there were."""
        if not turns.has_open(self.database, session):
            return 0
        return self.database.write(lambda tx: turns.mark_unfinished(tx, session))

    def latest_epoch(self, session: str) -> Epoch | None:
        """Return the epoch that a session is in."""
        return epochs.latest_epoch(self.database, session)

    def read_turns(self, session: str, *, from_n: int = 0, reader: Reader | None = None) -> list[Turn]:
        """Return a session's turns, oldest first."""
        return turns.read_turns(self.database, session, from_n=from_n, reader=reader)
