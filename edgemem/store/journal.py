"""The journal of turns: one transaction a turn, on the writer thread.

*Accepted* turns survive a crash of the process (in the open file beside the database), *committed* ones also a
pulled plug. What else belongs to a turn (episodes, a new epoch) is written in the same transaction.

Several loops may talk in one session, also from several processes. The number of a turn is then what its loop
expects; where another loop was quicker, the turn gets the next free one, inside of the transaction, and the
future says which. So two loops never overwrite each other's turns, and none is lost.

A turn that cannot be written now waits in the outbox, and its future with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

import msgspec

from edgemem.records import Epoch, Reader, Turn
from edgemem.store import epochs, turns
from edgemem.store.database import Database
from edgemem.store.open_turns import OpenTurns, sync_open_files
from edgemem.store.outbox import Outbox
from edgemem.store.turn_steps import Amend
from edgemem.store.waiting import Also


class TurnJournal:
    """Writes and reads the turns of sessions in one database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.outbox = Outbox(database)
        self._open = OpenTurns(database, self.outbox)

    def accept(self, turn: Turn, *, replaces: Future[int] | None = None) -> Future[int]:
        """Keep an open turn, when it is handed to the model; the result is the tick at which it was accepted.

        Args:
            replaces: what this returned for the same turn before.
        """
        return self._open.accept(turn, replaces)

    def commit(
        self, turn: Turn, also: Sequence[Also] = (), *, accepted: Future[int] | None = None
    ) -> Future[int]:
        """Write a whole turn; the result is the number that it got, once it is written.

        Args:
            also: further writes for the same transaction; only records of `turn_steps` can wait in a file.
            accepted: what `accept` returned for this turn, if it was accepted; the open turn is replaced.
        """
        return self._open.commit(turn, also, accepted)

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
        step = Amend(session, n if committed is None else None, heard_text)
        return self.outbox.submit(step, also=also, of=committed)

    def discard(self, session: str, accepted: Future[int]) -> Future[bool]:
        """Erase an accepted turn that was thrown away."""
        return self._open.discard(session, accepted)

    def settle(self, *, wait_s: float | None = None) -> None:
        """Write all that is not written yet, open turns too, before something is forgotten: it is erased there then.

        Args:
            wait_s: as for `Outbox.settle`.

        Raises:
            StoreError: it is impossible now.
        """
        self._open.store()
        self.outbox.settle(wait_s=wait_s)
        sync_open_files(self.database.path)

    def mark_unfinished(self, session: str) -> int:
        """Mark turns that a crash or another loop left open; return how many there were."""
        if self._open.store(session) and (tried := self.outbox.retry()) is not None:
            tried.result()
        if not turns.has_open(self.database, session):
            return 0
        return self.database.write(lambda tx: turns.mark_unfinished(tx, session))

    def latest_epoch(self, session: str) -> Epoch | None:
        """Return the epoch that a session is in."""
        return epochs.latest_epoch(self.database, session)

    def read_turns(self, session: str, *, from_n: int = 0, reader: Reader | None = None) -> list[Turn]:
        """Return a session's turns, oldest first; the operator's view has those that this process has open."""
        still_open = [] if reader is not None else self._open.turns(session)
        found = turns.read_turns(self.database, session, from_n=from_n, reader=reader)
        written = {turn.recorded_at for turn in found}
        for turn in still_open:
            if turn.recorded_at not in written:
                n = max(turn.n, found[-1].n + 1 if found else from_n)
                found.append(msgspec.structs.replace(turn, n=n))
        return found

    def close(self) -> None:
        """Write what waits and what is open, or leave it for the next opening; may be called twice.

        Raises:
            StoreError: neither was possible.
        """
        try:
            if not self.database.closed:
                self._open.store()
            self.outbox.close()
        finally:
            self._open.close()
