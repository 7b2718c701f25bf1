"""The journal of turns: one transaction a turn, on the writer thread.

*Accepted* turns survive a crash of the process (committed without waiting for the disk), *committed* ones also a
pulled plug. What else belongs to a turn (episodes, a new epoch) is written in the same transaction.

Several loops may talk in one session, also from several processes. The number of a turn is then what its loop
expects; where another loop was quicker, the turn gets the next free one, inside of the transaction, and the
future says which. So two loops never overwrite each other's turns, and none is lost.

A turn that cannot be written now waits in the outbox, and its future with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

from edgemem.records import Epoch, Reader, Turn
from edgemem.store import epochs, turns
from edgemem.store.database import Database
from edgemem.store.outbox import Outbox
from edgemem.store.turn_steps import Accept, Amend, Commit, Discard
from edgemem.store.waiting import Also


class TurnJournal:
    """Writes and reads the turns of sessions in one database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.outbox = Outbox(database)

    def accept(self, turn: Turn) -> Future[int]:
        """Keep an open turn, before its first tool runs; the result is the number that it got."""
        return self.outbox.submit(Accept(turn), durable=False)

    def commit(
        self, turn: Turn, also: Sequence[Also] = (), *, accepted: Future[int] | None = None
    ) -> Future[int]:
        """Write a whole turn; the result is the number that it got, once it is written.

        Args:
            also: further writes for the same transaction; only records of `turn_steps` can wait in a file.
            accepted: what `accept` returned for this turn, if it was accepted; the open turn is replaced.
        """
        return self.outbox.submit(Commit(turn), also=also, of=accepted)

    def amend(
        self, session: str, n: int, heard_text: str, *, committed: Future[int] | None = None
    ) -> Future[bool]:
        """Keep of a turn's reply what was heard before a barge-in; the rest stays apart.

        Args:
            n: the turn's number.
            committed: what `commit` returned for this turn, which may still be queued; then this has the number.
        """
        step = Amend(session, n if committed is None else None, heard_text)
        return self.outbox.submit(step, of=committed)

    def discard(self, session: str, accepted: Future[int]) -> Future[bool]:
        """Erase an accepted turn that was thrown away."""
        return self.outbox.submit(Discard(session), of=accepted)

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

    def close(self) -> None:
        """Write what waits, or leave it for the next opening; may be called twice.

        Raises:
            StoreError: neither was possible.
        """
        self.outbox.close()
