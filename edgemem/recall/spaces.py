"""Spaces: one for each model whose vectors the index holds; vectors of two are never compared.

A space belongs to a fingerprint: of the model's file, its prefixes, its pooling and the length of its vectors. Opening
the index with another model opens another space; the one before stays for a while, with what changed since in its own
queue, so that going back to its model costs only that. The numbers of spaces are never used twice: whoever works with
one that was dropped meanwhile finds nothing, and begins anew.

Facts that do not hold any more have their vectors apart, so that they never crowd out what holds: vectors and queue stand
under the number after that of the space, which is odd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.recall.bits import drop_all_bits
from edgemem.recall.state import DamagedIndexError, get_meta, set_meta, sound

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from edgemem.llama.protocols import Embedder
    from edgemem.store.database import Database, Transaction

IN_USE_S = 3600.0
"""A space that was used within this time stays: another process may work with that model at this moment."""
_MOST_SPACES = 1 << 40
_NOTED_S = 600.0  # how often a process says that it uses a space
_EVERYTHING = (1 << 63) - 1  # above the number of every doc


def past_of(space: int) -> int:
    """Return the number under which a space keeps the vectors of what does not hold any more."""
    return space + 1


class Space(NamedTuple):
    """How far the vectors of one model have come."""

    number: int
    fingerprint: str
    used: int
    """The tick at which somebody was known to use it."""
    docs_left: int
    """The docs up to this number were there before the space, and have not been looked at."""


_COLUMNS = "id, fingerprint, used, docs_left"


def find_space(database: Database | Transaction, embedder: Embedder) -> Space | None:
    """Return the space of a model; None if it has none yet."""
    ask = database.execute if hasattr(database, "execute") else database.query
    rows = ask(
        f"select {_COLUMNS} from spaces where fingerprint = ? and dimensions = ?",  # noqa: S608 - our own columns
        (embedder.fingerprint, embedder.dimensions),
    )
    return _space(rows[0]) if rows else None


def read_spaces(database: Database) -> list[Space]:
    """Return the spaces, the one that was used last first."""
    rows = database.query(
        f"select {_COLUMNS} from spaces where fingerprint is not null order by used desc, id desc"  # noqa: S608 - ours
    )
    return [_space(row) for row in rows]


def _space(row: Sequence[Any]) -> Space:
    space = sound(row, Space, "a space")
    if not 0 < space.number < _MOST_SPACES:
        raise DamagedIndexError(
            f"The index is damaged: there is no space {space.number}; it is made again by itself."
        )
    return space


def begin_space(tx: Transaction, embedder: Embedder, first: Iterable[int]) -> Space:
    """Return the space of a model, making it if there is none; its docs wait, and some of them before all others.

    Args:
        first: numbers of docs whose vectors are to be made first.
    """
    found = find_space(tx, embedder)
    if found is not None:
        return found
    number = get_meta(tx, "spaces") + 1
    set_meta(tx, "spaces", past_of(number))
    tx.execute(
        "insert into spaces (id, fingerprint, dimensions, used, docs_left) values (?, ?, ?, ?, ?)",
        (number, embedder.fingerprint, embedder.dimensions, tx.recorded, _EVERYTHING),
    )
    tx.executemany(
        "insert into unembedded (space, doc) select ?, id from docs where id = ? and past = 0",
        [(number, doc) for doc in set(first)],
    )
    tx.execute(
        "insert into unembedded (space, doc) select ?, id from docs where past = 1", (past_of(number),)
    )
    return Space(number, embedder.fingerprint, tx.recorded, _EVERYTHING)


def note_use(database: Database, space: Space) -> None:
    """Have it known that a space is in use, now and then."""
    now = int(database.clock.now() * 1e6)
    if now - space.used > _NOTED_S * 1e6:
        database.write(
            lambda tx: tx.execute("update spaces set used = ? where id = ?", (tx.recorded, space.number))
        )


def enqueue(tx: Transaction, docs: Iterable[int], *, space: int | None = None, past: bool = False) -> None:
    """Have docs wait for a vector, in one space or in all.

    Args:
        past: they do not hold any more, and wait behind all others.
    """
    tx.executemany(
        "insert or ignore into unembedded (space, doc) select id + ?, ? from spaces"
        " where fingerprint is not null and (? is null or id = ?)",
        [(int(past), doc, space, space) for doc in docs],
    )


def dequeue(tx: Transaction, docs: Iterable[int], *, space: int | None = None) -> None:
    """Have docs wait no more, in one space or in all."""
    tx.executemany(
        "delete from unembedded where doc = :doc and space in ("
        " select id from spaces where :space is null or id = :space"
        " union all select id + 1 from spaces where :space is null or id = :space)",
        [{"doc": doc, "space": space} for doc in docs],
    )


def spaces_without(tx: Transaction, known: Iterable[int]) -> list[int]:
    """Return the numbers of the spaces in use, but for those that are known."""
    rows = tx.execute("select id from spaces where fingerprint is not null order by id")
    return [number for (number,) in rows if number not in set(known)]


def drop_surplus(database: Database, own: Space, kept: int, limit: int) -> int:
    """Take out a slice of spaces that are kept no more; return how many rows that was.

    Args:
        own: the space in use.
        kept: how many others stay, those that were used last.
        limit: rows in one transaction.
    """
    since = (database.clock.now() - IN_USE_S) * 1e6
    others = [space for space in read_spaces(database) if space.number != own.number]
    surplus = [(space.number,) for space in others[kept:] if space.used < since]
    if not surplus and not database.query("select 1 from spaces where fingerprint is null"):
        return 0

    def work(tx: Transaction) -> int:
        # From here on nobody finds it by its model; what is left of it after a crash is taken out later.
        tx.executemany("update spaces set fingerprint = null where id = ?", surplus)
        ((number,), *_) = tx.execute("select id from spaces where fingerprint is null order by id")
        for sql in _SLICES:
            tx.execute(sql, {"space": number, "past": past_of(number), "limit": limit})
            if tx.changes:
                return tx.changes
        gone = drop_all_bits(tx, number) or drop_all_bits(tx, past_of(number))
        if not gone:
            tx.execute("delete from spaces where id = ?", (number,))
        return gone or 1

    return database.write(work)


_SLICES = (
    "delete from vectors where seq in (select seq from vectors where space in (:space, :past) limit :limit)",
    """
    delete from unembedded where (space, doc) in (
      select space, doc from unembedded where space in (:space, :past) limit :limit)
    """,
)
