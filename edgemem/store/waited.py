"""What had to wait and is written: how many turns, for whoever asks later; and the end of the marks of their files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from edgemem.store.pending_file import pending_paths
from edgemem.store.waiting import MARK

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.store.database import Database
    from edgemem.store.transaction import Transaction

_KEY = "waited"
_BEHIND_MARKS = MARK[:-1] + chr(ord(MARK[-1]) + 1)


class Waited(msgspec.Struct, frozen=True):
    """Turns that once had to wait, and have been written since."""

    turns: int
    at: float
    """When the last of them was written, in seconds since the epoch."""


def read_waited(db: Database) -> Waited | None:
    """Return what had to wait and was written since; None: nothing ever."""
    rows = db.query("select value from meta where key = ?", (_KEY,))
    return msgspec.json.decode(rows[0][0], type=Waited) if rows else None


def note_written(tx: Transaction, *, path: Path, late: int) -> None:
    """Erase the marks of files that are gone, and remember how many turns came late.

    Args:
        path: of the database.
    """
    marks = tx.execute("select key from meta where key >= ? and key < ?", (MARK, _BEHIND_MARKS))
    there = {each.name for each in pending_paths(path)}
    gone = [(key,) for (key,) in marks if key[len(MARK) :].rpartition(":")[0] not in there]
    tx.executemany("delete from meta where key = ?", gone)
    if late:
        before = tx.execute("select value from meta where key = ?", (_KEY,))
        told = msgspec.json.decode(before[0][0], type=Waited).turns if before else 0
        waited = msgspec.json.encode(Waited(told + late, tx.recorded / 1e6)).decode()
        tx.execute("insert or replace into meta values (?, ?)", (_KEY, waited))
