"""Removals: which docs were taken out of the index or replaced in it, for those who hold a part of it in memory.

Who reads the log up to its newest tick and what was added since knows all that has happened, in whichever process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.recall.state import set_meta

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgemem.store.database import Database, Transaction

KEPT = 5000
"""Removals that are kept; who has missed more reads everything again."""


def note_removals(tx: Transaction, docs: Iterable[int], *, space: int | None = None) -> None:
    """Log docs that are taken out or replaced, or whose vectors of one space are."""
    tx.executemany(
        "insert into removals (seq, doc, space) values (?, ?, ?)", [(tx.tick(), doc, space) for doc in docs]
    )


def trim_removals(tx: Transaction) -> None:
    """Drop old removals; once in a while."""
    old = tx.execute("select seq from removals order by seq desc limit 1 offset ?", (KEPT,))
    if old:
        tx.execute("delete from removals where seq <= ?", old[0])
        set_meta(tx, "removals_from", old[0][0])


def newest_removal(database: Database) -> int:
    """Return the tick of the newest removal; 0 if there was none."""
    return int(database.query("select coalesce(max(seq), 0) from removals")[0][0])


def read_removals(
    database: Database, after: int, limit: int, *, space: int | None = None
) -> list[tuple[int, int]] | None:
    """Return ticks and docs removed after a tick, the oldest first; None if that is not known or more than `limit`.

    Args:
        space: also those that lost their vectors of this space only.
    """
    rows = database.query(
        "select seq, doc from removals where seq > ? and (space is null or space = ?) order by seq limit ?",
        (after, space, limit + 1),
    )
    since = database.query("select value from meta where key = 'removals_from'")
    return None if len(rows) > limit or (since and since[0][0] > after) else rows
