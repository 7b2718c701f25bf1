"""Spaces: one for each model whose vectors the index holds; vectors of two are never compared.

A space belongs to a fingerprint: of the model's file, its prefixes, its pooling and the length of its vectors. Opening the
index with another model begins another space. The one that it replaces stays until the new one is whole, and for as long
as another process may use it; what changes meanwhile waits in its own queue. The numbers of spaces are never used twice:
whoever works with one that was dropped meanwhile finds nothing, and begins anew.

Facts that do not hold any more have their vectors apart, so that they never crowd out what holds: vectors and queue stand
under the number after that of the space, which is odd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.recall.index.state import DamagedIndexError, get_meta, set_meta, sound
from edgemem.recall.index.vectors import past_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from edgemem.llama.protocols import Embedder
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction

IN_USE_S = 3600.0
"""A space that was used within this time stays: another process may work with that model at this moment."""
_MOST_SPACES = 1 << 40
_NOTED_S = 600.0  # how often a process says that it uses a space


class Space(NamedTuple):
    """The vectors of one model."""

    number: int
    fingerprint: str
    used: int
    """The tick at which somebody was known to use it."""


def find_space(
    query: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]], embedder: Embedder
) -> Space | None:
    """Return the space of a model; None if it has none yet.

    Args:
        query: of a database, or `execute` of a transaction.
    """
    rows = query(
        "select id, fingerprint, used from spaces where fingerprint = ? and dimensions = ?",
        (embedder.fingerprint, embedder.dimensions),
    )
    return _space(rows[0]) if rows else None


def other_spaces(database: Database, own: Space | None) -> list[Space]:
    """Return the spaces of other models, the one that was used last first."""
    rows = database.query(
        "select id, fingerprint, used from spaces where fingerprint is not null order by used desc, id desc"
    )
    spaces = [_space(row) for row in rows]
    return [space for space in spaces if own is None or space.number != own.number]


def _space(row: Sequence[Any]) -> Space:
    space = sound(row, Space, "a space")
    if not 0 < space.number < _MOST_SPACES:
        raise DamagedIndexError(
            f"The index is damaged: there is no space {space.number}; it is made again by itself."
        )
    return space


def begin_space(tx: Transaction, embedder: Embedder, urgent: Iterable[int]) -> Space:
    """Return the space of a model, making it if there is none; all docs wait then.

    Args:
        urgent: numbers of docs whose vectors are to be made first.
    """
    space = find_space(tx.execute, embedder)
    if space is not None:
        return space
    number = get_meta(tx, "spaces") + 1
    set_meta(tx, "spaces", past_of(number))
    tx.execute(
        "insert into spaces (id, fingerprint, dimensions, used) values (?, ?, ?, ?)",
        (number, embedder.fingerprint, embedder.dimensions, tx.recorded),
    )
    tx.execute(
        "insert into unembedded (space, urgent, doc) select ? + (past <> 0), 0, id from docs", (number,)
    )
    tx.executemany(
        "update unembedded set urgent = 1 where space = ? and urgent = 0 and doc = ?",
        [(number, doc) for doc in set(urgent)],
    )
    return Space(number, embedder.fingerprint, tx.recorded)


def note_use(database: Database, space: Space) -> None:
    """Have it known that a space is in use, now and then."""
    now = int(database.clock.now() * 1e6)
    if now - space.used > _NOTED_S * 1e6:
        database.write(
            lambda tx: tx.execute("update spaces set used = ? where id = ?", (tx.recorded, space.number))
        )


def enqueue(tx: Transaction, docs: Iterable[int], *, space: int | None = None, past: bool = False) -> None:
    """Have docs that do not wait for a vector wait for one, before those that a model has not come to yet.

    Args:
        space: None: in all.
        past: they do not hold any more, and wait behind all others.
    """
    tx.executemany(
        "insert or ignore into unembedded (space, urgent, doc) select id + ?, 1, ? from spaces"
        " where fingerprint is not null and (? is null or id = ?)",
        [(int(past), doc, space, space) for doc in docs],
    )


def dequeue(tx: Transaction, docs: Iterable[int], *, space: int | None = None) -> None:
    """Have docs wait no more, in one space or in all."""
    tx.executemany(
        "delete from unembedded where doc = :doc and urgent in (0, 1) and space in ("
        " select id from spaces where :space is null or id = :space"
        " union all select id + 1 from spaces where :space is null or id = :space)",
        [{"doc": doc, "space": space} for doc in docs],
    )


def spaces_without(tx: Transaction, known: Iterable[int]) -> list[int]:
    """Return the numbers of the spaces in use, but for those that are known."""
    rows = tx.execute("select id from spaces where fingerprint is not null order by id")
    return [number for (number,) in rows if number not in set(known)]


def drop_others(database: Database, own: Space, limit: int) -> int:
    """Take out a slice of the spaces of other models that nobody uses; return how many rows that was.

    Args:
        own: the space in use.
        limit: rows in one transaction.
    """
    since = (database.clock.now() - IN_USE_S) * 1e6
    unused = [(space.number,) for space in other_spaces(database, own) if space.used < since]
    if not unused and not database.query("select 1 from spaces where fingerprint is null"):
        return 0

    def drop(tx: Transaction) -> int:
        # From here on nobody finds it by its model; what is left of it after a crash is taken out later.
        tx.executemany("update spaces set fingerprint = null where id = ?", unused)
        ((number,), *_) = tx.execute("select id from spaces where fingerprint is null order by id")
        for sql in _SLICES:
            tx.execute(sql, {"space": number, "past": past_of(number), "limit": limit})
            if tx.changes:
                return tx.changes
        tx.execute("delete from spaces where id = ?", (number,))
        return 1

    return database.write(drop)


_SLICES = (
    "delete from vectors where seq in (select seq from vectors where space in (:space, :past) limit :limit)",
    """
    delete from unembedded where (space, urgent, doc) in (
      select space, urgent, doc from unembedded where space in (:space, :past) limit :limit)
    """,
)
