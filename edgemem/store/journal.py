"""The journal of turns: one transaction a turn, on the writer thread.

*Accepted* turns survive a crash of the process (committed without waiting for the disk), *committed* ones also a
pulled plug. What else belongs to a turn (episodes, a new epoch) is written in the same transaction.

Several loops may talk in one session, also from several processes. The number of a turn is then what its loop
expects; where another loop was quicker, the turn gets the next free one, inside of the transaction, and the
future says which. So two loops never overwrite each other's turns, and none is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec

from edgemem.records import Epoch, Reader, Turn
from edgemem.store import epochs, turns
from edgemem.store.database import Database, Transaction

Also = Callable[[Transaction], Any]
"""A further write for the same transaction."""

_OPEN, _UNFINISHED = turns.STATES.index("open"), turns.STATES.index("unfinished")


class TurnJournal:
    """Writes and reads the turns of sessions in one database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def accept(self, turn: Turn) -> Future[int]:
        """Keep an open turn, before its first tool runs; the result is the number that it got."""

        def work(tx: Transaction) -> int:
            placed = _placed(tx, turn)
            turns.begin_turn(tx, placed.session, placed.n, placed)
            return placed.n

        return self.database.submit(work, durable=False)

    def commit(
        self, turn: Turn, also: Sequence[Also] = (), *, accepted: Future[int] | None = None
    ) -> Future[int]:
        """Write a whole turn; the result is the number that it got.

        Args:
            also: further writes for the same transaction.
            accepted: what `accept` returned for this turn, if it was accepted; the open turn is replaced.
        """

        def work(tx: Transaction) -> int:
            placed = _placed(tx, turn, _number(accepted))
            turns.commit_turn(tx, placed)
            for write in also:
                write(tx)
            return placed.n

        return self.database.submit(work)

    def amend(
        self, session: str, n: int, heard_text: str, *, committed: Future[int] | None = None
    ) -> Future[bool]:
        """Keep of a turn's reply what was heard before a barge-in; the rest stays apart.

        Args:
            n: the turn's number.
            committed: what `commit` returned for this turn, which may still be queued; then this has the number.
        """

        def work(tx: Transaction) -> bool:
            number = n if committed is None else _number(committed)
            return number is not None and turns.amend_turn(tx, session, number, heard_text=heard_text)

        return self.database.submit(work)

    def discard(self, session: str, accepted: Future[int]) -> Future[bool]:
        """Erase an accepted turn that was thrown away."""

        def work(tx: Transaction) -> bool:
            number = _number(accepted)
            return number is not None and _erase(tx, session, number)

        return self.database.submit(work)

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


def _number(written: Future[int] | None) -> int | None:
    """Return the number that an earlier job of this thread gave a turn; None if that job failed."""
    return written.result() if written is not None and written.exception() is None else None


def _placed(tx: Transaction, turn: Turn, accepted: int | None = None) -> Turn:
    """Return the turn with a number that is free, or its own if it was accepted and nothing came after it."""
    newest = tx.execute(
        "select n from turns where session_id = (select id from sessions where name = ?)"
        " order by n desc limit 1",
        (turn.session,),
    )
    last = newest[0][0] if newest else -1
    if accepted is not None:
        if accepted == last and _reopen(tx, turn.session, accepted):
            return msgspec.structs.replace(turn, n=accepted)
        # Another loop has spoken since: turns stand in the order in which they ended.
        _erase(tx, turn.session, accepted)
    return msgspec.structs.replace(turn, n=max(turn.n, last + 1))


def _erase(tx: Transaction, session: str, n: int) -> bool:
    return _reopen(tx, session, n) and turns.discard_turn(tx, session, n)


def _reopen(tx: Transaction, session: str, n: int) -> bool:
    """Open an accepted turn again that another loop took for cut off; return whether it is open."""
    tx.execute(
        "update turns set state = ? where session_id = (select id from sessions where name = ?)"
        " and n = ? and state in (?, ?)",
        (_OPEN, session, n, _OPEN, _UNFINISHED),
    )
    return tx.changes > 0
