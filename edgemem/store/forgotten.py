"""When something was last forgotten: copies of the truth that are older still hold it, and must go."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgemem.store.database import Database
    from edgemem.store.transaction import Transaction

_KEY = "forgotten"


def note_forgotten(tx: Transaction) -> None:
    """Remember that this transaction erases what somebody wanted forgotten."""
    tx.execute("insert or replace into meta values (?, ?)", (_KEY, tx.tick()))


def last_forgotten(db: Database) -> int:
    """Return the tick of the newest forgetting; 0 if nothing ever was."""
    rows = db.query("select value from meta where key = ?", (_KEY,))
    return int(rows[0][0]) if rows else 0


def forgotten_until(tx: Transaction) -> int:
    """Return the same, as a transaction sees it."""
    rows = tx.execute("select value from meta where key = ?", (_KEY,))
    return int(rows[0][0]) if rows else 0
