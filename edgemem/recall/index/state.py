"""State: how far the index has come, and the removals, for readers that hold a part of it in memory.

A reader that has read the removals up to the newest tick, and the rows added since, knows all changes of every process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from edgemem.errors import CorruptError
from edgemem.store.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction

FIRST_OTHER = 1 << 40
"""The number of the first doc that is not a message."""
PRIVATE = 2
"""The level of what only its owner reads."""
KEPT = 5000
"""Removals that are kept; who has missed more reads everything again."""

T = TypeVar("T")


class DamagedIndexError(CorruptError):
    """The index file holds a value that we never wrote; upkeep makes the file again."""


def checked_value(value: Any, type_: type[T], what: str) -> T:
    """Return a value of the file that has this type; raise DamagedIndexError where it has not."""
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        raise DamagedIndexError(
            f"The index is damaged: {what} cannot be such ({error}); it is made again by itself."
        ) from error


class State(msgspec.Struct, frozen=True):
    """How far the index has come."""

    tables: dict[str, int] = {}
    """The highest id taken from the table of each source."""
    queue: int = 0
    erased: int = 0
    """The newest forgetting of which no byte is left in the file and its log."""
    last_message: int = 0
    """The highest number of a message's doc, and below of any other doc."""
    last_other: int = FIRST_OTHER - 1
    notes: str = ""
    bank: str = ""
    rules: int = 0
    """The number of the rules of the process that opened the file last, see `docs`."""
    older: int = 0
    """Whether other rules may have made some docs: 0 or 1."""
    renewed: int = 0
    """The number of the last doc whose words were made anew."""

    def reached(self, table: str) -> int:
        """Return the highest id taken from the table of a source."""
        return self.tables.get(table, 0)

    @classmethod
    def read(cls, meta: dict[str, Any]) -> State:
        """Return the state by the numbers and texts that the index remembers; raise ValidationError for another type."""
        tables = {kind.table: meta[kind.table] for kind in KINDS if kind.table in meta}
        return msgspec.convert({**meta, "tables": tables}, cls)

    def stamp(self, texts: str) -> str:
        """Return how texts that are no rows were when they were taken in."""
        return str(msgspec.structs.asdict(self)[texts])


def get_meta(tx: Transaction, key: str, default: int = 0) -> int:
    """Return a number that the index remembers."""
    rows = tx.execute("select value from meta where key = ?", (key,))
    return checked_value(rows[0][0], int, f"meta.{key}") if rows else default


def set_meta(tx: Transaction, key: str, value: int | str) -> None:
    """Have the index remember something."""
    tx.execute("insert or replace into meta (key, value) values (?, ?)", (key, value))


def note_removals(tx: Transaction, docs: Iterable[int]) -> None:
    """Log docs that are taken out or replaced, or whose vectors are."""
    tx.executemany("insert into removals (seq, doc) values (?, ?)", [(tx.tick(), doc) for doc in docs])


def trim_removals(tx: Transaction) -> None:
    """Drop old removals."""
    old = tx.execute("select seq from removals order by seq desc limit 1 offset ?", (KEPT,))
    if old:
        tx.execute("delete from removals where seq <= ?", old[0])
        set_meta(tx, "removals_from", old[0][0])


def remove_all(tx: Transaction) -> None:
    """Have everybody who holds a part of the index in memory read all of it again."""
    tx.execute("delete from removals")
    note_removals(tx, [0])  # the number of no doc
    set_meta(tx, "removals_from", tx.execute("select max(seq) from removals")[0][0])


class Removals:
    """Follows the removals of an index file for one reader that holds a part of it in memory."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.tick = self._newest()
        """The tick of the last removal that this reader has applied."""

    def skip(self) -> None:
        """Skip all removals until now: memory begins anew."""
        self.tick = self._newest()

    def read_newest(self, limit: int = KEPT) -> list[tuple[int, int]] | None:
        """Return ticks and docs of the removals since the last call, the oldest first; None if they are not known, or more than `limit`."""
        newest = self._newest()
        if newest == self.tick:
            return []
        rows = self._database.query(
            "select seq, doc from removals where seq > ? order by seq limit ?", (self.tick, limit + 1)
        )
        since = self._database.query("select value from meta where key = 'removals_from'")
        if len(rows) > limit or (since and since[0][0] > self.tick):
            return None
        self.tick = max([newest, *(seq for seq, _ in rows)])
        return rows

    def _newest(self) -> int:
        return int(self._database.query("select coalesce(max(seq), 0) from removals")[0][0])
