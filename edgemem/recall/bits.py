"""Bits: the sign bits of one space's vectors, in a vec0 table of sqlite-vec beside them.

`meta` tells up to which tick the vectors have their bits; what was written later is compared in full until its bits are
made. So a process without sqlite-vec may write vectors too, and a long table is made again in slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.recall.state import get_meta, set_meta

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.store.database import Database, Transaction

MOST = 4096
"""Neighbours that vec0 gives at most."""
_SLICES = ("vector_chunks00", 4), ("rowids", 1000)  # rows that go in one transaction: some milliseconds
_ANEW = -1  # what a process without sqlite-vec leaves: all of them must be made again


def sign_bits(vector: NDArray[np.floating]) -> bytes:
    """Return the sign bits of a vector."""
    import numpy as np

    return np.packbits(vector > 0, bitorder="little").tobytes()


def fill_bits(tx: Transaction, space: int, dimensions: int, limit: int) -> int:
    """Make the bits of at most `limit` vectors that have none; return how many."""
    import numpy as np

    table, upto = _table(space), get_meta(tx, _upto(space))
    if upto == _ANEW:
        tx.execute(f"drop table if exists {table}")
        upto = 0
    rows = tx.execute(
        "select seq, vector from vectors where space = ? and seq > ? order by seq limit ?",
        (space, upto, limit),
    )
    if not rows:
        return 0
    tx.execute(f"create virtual table if not exists {table} using vec0 (embedding bit[{dimensions:d}])")
    tx.executemany(
        f"insert into {table} (rowid, embedding) values (?, vec_bit(?))",  # noqa: S608 - a number of ours
        [
            (seq, sign_bits(np.frombuffer(vector, np.float16)))
            for seq, vector in rows
            if len(vector) == 2 * dimensions
        ],
    )
    set_meta(tx, _upto(space), rows[-1][0])
    return len(rows)


def near_bits(database: Database, space: int, query: NDArray[np.float32], k: int) -> list[tuple[int, bytes]]:
    """Return docs and vectors of the k vectors whose bits are nearest, and of all that have no bits yet."""
    upto = _reached(database, space)
    near: list[tuple[int, bytes]] = []
    if upto > 0:
        table = _table(space)
        near = database.query(
            f"""
            select v.doc, v.vector
            from (select rowid as seq from {table} where embedding match vec_bit(?) and k = ?) b
            join vectors v on v.seq = b.seq
            """,  # noqa: S608 - a number of ours
            (sign_bits(query), min(k, MOST)),
        )
    return near + database.query(
        "select doc, vector from vectors where space = ? and seq > ?", (space, max(0, upto))
    )


def lacks_bits(database: Database, space: int) -> bool:
    """Tell whether a space has vectors without bits."""
    upto = _reached(database, space)
    sql = "select 1 from vectors where space = ? and seq > ? limit 1"
    return bool(database.query(sql, (space, upto)))


def drop_bits(tx: Transaction, space: int, seqs: Iterable[int]) -> None:
    """Take out the bits of some vectors; without sqlite-vec those of all, since none may stay behind."""
    if not _exists(tx, space):
        return
    if _has_vec0(tx):
        # Unknown numbers are fine: those of vectors that have no bits yet.
        tx.executemany(f"delete from {_table(space)} where rowid = ?", [(seq,) for seq in seqs])  # noqa: S608 - ours
        return
    tx.execute(f"delete from {_table(space)}_vector_chunks00")  # noqa: S608 - a number of ours
    set_meta(tx, _upto(space), _ANEW)


def drop_all_bits(tx: Transaction, space: int) -> int:
    """Take out a slice of a space's bits; return how many rows, 0 once nothing is left.

    Their table goes at the end, where sqlite-vec is here to drop it; the tables in which vec0 keeps them are ordinary ones.
    """
    if _exists(tx, space):
        for part, limit in _SLICES:
            table = f"{_table(space)}_{part}"
            tx.execute(f"delete from {table} where rowid in (select rowid from {table} limit {limit:d})")  # noqa: S608 - ours
            if tx.changes:
                return tx.changes
        if _has_vec0(tx):
            tx.execute(f"drop table {_table(space)}")
    tx.execute("delete from meta where key = ?", (_upto(space),))
    return 0


def _reached(database: Database, space: int) -> int:
    found = database.query("select value from meta where key = ?", (_upto(space),))
    return int(found[0][0]) if found else 0


def _table(space: int) -> str:
    return f"bits_{space:d}"


def _upto(space: int) -> str:
    return f"bits_{space:d}"


def _exists(tx: Transaction, space: int) -> bool:
    return bool(tx.execute("select 1 from sqlite_master where name = ?", (_table(space),)))


def _has_vec0(tx: Transaction) -> bool:
    return bool(tx.execute("select 1 from pragma_module_list where name = 'vec0'"))
