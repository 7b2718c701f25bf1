"""Pending erasures: which forgetting was committed last, and of which some file still holds bytes.

A transaction that forgets writes a row of `erasings`, and from its commit on nobody recalls the record. The row stays until no
file holds a byte of it, so the process that opens the home next finishes a forgetting that is cut off. Copies of the truth that
are older than the newest forgetting still hold it, and must go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Tables, Transaction

MOVE = "people:move"
"""The key in `meta` of what undoes the newest move of a person (`store.people`)."""

_KEY = "forgotten"


class FolderErasing(msgspec.Struct, frozen=True):
    """The folder of a forgotten person in a bank of files, which is still to be removed."""

    name: str  # the person's
    root: str  # the bank's folder


def note_forgotten(tx: Transaction) -> None:
    """Write down that this transaction erases something that somebody wanted forgotten."""
    tx.execute("insert or replace into meta values (?, ?)", (_KEY, tx.tick()))
    note_erasing(tx)


def note_erasing(tx: Transaction) -> None:
    """Write down that bytes of this transaction are to leave every file, though nobody wanted anything forgotten: other turns stay as they are."""
    tx.execute("insert or ignore into erasings (id) values (?)", (tx.recorded,))


def note_whose(tx: Transaction, kind: str, name: str) -> None:
    """Note that all of a "person" or "session" is erased now, or that a session which had "begun" lost its epochs; without the name."""
    tx.execute("insert or replace into meta values (?, ?)", (_key_of(kind, name), tx.tick()))


def forget_move(tx: Transaction, people: Collection[str]) -> None:
    """Erase what undoes a move of any of these people."""
    for (record,) in tx.query("select value from meta where key = ?", (MOVE,)):
        moved = msgspec.json.decode(record)
        if moved["old"] in people or moved["new"] in people:
            tx.execute("delete from meta where key = ?", (MOVE,))


def noted(db: Tables, kind: str, *names: str) -> int:
    """Return the newest tick of `note_whose` for any of some names; 0 if there is none."""
    keys = [_key_of(kind, name) for name in names]
    marks = ", ".join("?" * len(keys))
    return int(db.query(f"select coalesce(max(value), 0) from meta where key in ({marks})", keys)[0][0])  # noqa: S608 - our own marks


def _key_of(kind: str, name: str) -> str:
    return f"{_KEY}:{kind}:{blake2b(name.encode(), digest_size=16).hexdigest()}"


def note_folder(tx: Transaction, name: str, root: Path) -> None:
    """Note that a person's folder in a bank is to be removed as well; the name is erased with it."""
    folder = msgspec.json.encode(FolderErasing(name, str(root))).decode()
    tx.execute(
        "insert into erasings (id, folder) values (?, ?)"
        " on conflict (id) do update set folder = excluded.folder",
        (tx.recorded, folder),
    )


def last_forgotten(db: Tables) -> int:
    """Return the tick of the newest forgetting; 0 if nothing ever was."""
    rows = db.query("select value from meta where key = ?", (_KEY,))
    return int(rows[0][0]) if rows else 0


def newest_erasing(db: Tables) -> int:
    """Return the tick of the newest erasing that is under way; 0 if none is."""
    return int(db.query("select coalesce(max(id), 0) from erasings")[0][0])


def pending_folders(db: Tables) -> list[tuple[int, FolderErasing]]:
    """Return the folders that are still to be removed, with the tick of the erasing."""
    rows = db.query("select id, folder from erasings where folder is not null order by id")
    return [(number, msgspec.json.decode(text, type=FolderErasing)) for number, text in rows]


def end_folder(tx: Transaction, number: int) -> None:
    """Note that an erasing has no folder left, and erase whose it was."""
    tx.execute("update erasings set folder = null where id = ?", (number,))


def end_erasings(db: Database, upto: int) -> None:
    """Note that no file holds a byte any more of any record forgotten until a tick; an erasing with a folder left stays."""
    db.write(lambda tx: tx.execute("delete from erasings where id <= ? and folder is null", (upto,)))


def erase_in_truth(
    db: Database, *, alone: bool, wait_s: float | None = None, stop: Callable[[], bool] = lambda: False
) -> bool:
    """Take the bytes of forgotten records out of a truth and its log; return whether they are gone.

    `alone`: no home has this truth, so nothing else is left to do. It waits `wait_s` for readers; None: as the database does for
    others. Once `stop`, asked every few milliseconds, is true, the rest is left for later.
    """
    upto = newest_erasing(db)
    if upto == 0:
        return True
    if not db.wipe(wait_s=wait_s, stop=stop):
        return False
    if alone:
        end_erasings(db, upto)
    return True
