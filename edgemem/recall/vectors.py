"""Vectors: the stored texts nearest in meaning to a question.

Every vector stands as float16 in an ordinary table. `BitVectors` finds candidates by their sign bits in a vec0
table and rescores them; `ExactVectors` reads the whole table, and is what the other is tested against.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from edgemem.recall.removals import EVERYTHING, note_removals
from edgemem.recall.sources import bound, in_batches, marks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.store.database import Database, Transaction

    Vector = NDArray[np.float32]


class VectorIndex(Protocol):
    """Finds vectors by their cosine; the ids are those of docs."""

    def add(self, tx: Transaction, rows: Sequence[tuple[int, Vector]]) -> None:
        """Store unit vectors, in place of what the ids had before."""
        ...

    def remove(self, tx: Transaction, ids: Sequence[int]) -> None:
        """Take vectors out; ids that have none are fine."""
        ...

    def clear(self, tx: Transaction) -> None:
        """Take all vectors out."""
        ...

    def nearest(self, query: Vector, k: int) -> list[tuple[int, float]]:
        """Return at most k ids with their cosines, the best first."""
        ...

    def cosines(self, query: Vector, ids: Iterable[int]) -> dict[int, float]:
        """Return the cosines of those ids that have a vector."""
        ...


class ExactVectors:
    """Compares a question with every vector: exact, and slow beyond a few ten thousand."""

    def __init__(self, database: Database, dimensions: int) -> None:
        self._database = database
        self._dimensions = dimensions

    def add(self, tx: Transaction, rows: Sequence[tuple[int, Vector]]) -> None:
        """Store unit vectors, in place of what the ids had before."""
        tx.executemany(
            "insert or replace into vectors (doc, vector, seq) values (?, ?, ?)",
            [(id_, vector.astype("float16").tobytes(), tx.tick()) for id_, vector in rows],
        )

    def remove(self, tx: Transaction, ids: Sequence[int]) -> None:
        """Take vectors out; ids that have none are fine."""
        gone = [id_ for id_ in ids if tx.execute("delete from vectors where doc = ? returning 1", (id_,))]
        note_removals(tx, gone)

    def clear(self, tx: Transaction) -> None:
        """Take all vectors out."""
        tx.execute("delete from vectors")
        note_removals(tx, [EVERYTHING])

    def nearest(self, query: Vector, k: int) -> list[tuple[int, float]]:
        """Return at most k ids with their cosines, the best first."""
        return self._best(self._database.query("select doc, vector from vectors"), query, k)

    def cosines(self, query: Vector, ids: Iterable[int]) -> dict[int, float]:
        """Return the cosines of those ids that have a vector."""
        found: dict[int, float] = {}
        for some in in_batches(list(ids)):
            sql = f"select doc, vector from vectors where doc in ({marks(some)})"  # noqa: S608 - our own text
            rows = self._database.query(sql, bound(some))
            found.update(self._best(rows, query, len(rows)))
        return found

    def _best(self, rows: list[tuple[int, bytes]], query: Vector, k: int) -> list[tuple[int, float]]:
        import numpy as np

        # A vector of another model has another length: it waits to be made again, and matches nothing.
        rows = [row for row in rows if len(row[1]) == 2 * self._dimensions]
        if not rows or k <= 0:
            return []
        matrix = np.frombuffer(b"".join(row[1] for row in rows), np.float16).reshape(len(rows), -1)
        scores = matrix.astype(np.float32) @ query
        order = np.lexsort((np.array([row[0] for row in rows]), -scores))[:k]
        return [(rows[at][0], float(scores[at])) for at in order]


class BitVectors(ExactVectors):
    """Looks at sign bits first, in a vec0 table of sqlite-vec."""

    def add(self, tx: Transaction, rows: Sequence[tuple[int, Vector]]) -> None:
        """Store unit vectors, in place of what the ids had before."""
        self._make_table(tx)
        super().add(tx, rows)
        # vec0 refuses to replace a row.
        tx.executemany("delete from bits where rowid = ?", [(id_,) for id_, _ in rows])
        tx.executemany(
            "insert into bits (rowid, embedding) values (?, vec_bit(?))",
            [(id_, _signs(vector)) for id_, vector in rows],
        )

    def remove(self, tx: Transaction, ids: Sequence[int]) -> None:
        """Take vectors out; ids that have none are fine."""
        super().remove(tx, ids)
        if self._has_table(tx):
            tx.executemany("delete from bits where rowid = ?", [(id_,) for id_ in ids])

    def clear(self, tx: Transaction) -> None:
        """Take all vectors out, and the table that was made for their length."""
        super().clear(tx)
        tx.execute("drop table if exists bits")

    def repair(self, tx: Transaction) -> None:
        """Bring the bits in line with the vectors, which a process without sqlite-vec may have changed."""
        import numpy as np

        self._make_table(tx)
        # The rowids stand in a shadow table, which can be compared without decoding a vector.
        stale = tx.execute("select rowid from bits_rowids where rowid not in (select doc from vectors)")
        tx.executemany("delete from bits where rowid = ?", stale)
        missing = tx.execute(
            "select doc, vector from vectors where doc not in (select rowid from bits_rowids)"
        )
        tx.executemany(
            "insert into bits (rowid, embedding) values (?, vec_bit(?))",
            [(id_, _signs(np.frombuffer(vector, np.float16))) for id_, vector in missing],
        )

    def nearest(self, query: Vector, k: int) -> list[tuple[int, float]]:
        """Return at most k ids with their cosines, the best first."""
        if k <= 0 or not self._database.query("select 1 from sqlite_master where name = 'bits'"):
            return []
        rows = self._database.query(
            """
            select v.doc, v.vector from (select rowid as doc from bits where embedding match vec_bit(?) and k = ?) b
            join vectors v on v.doc = b.doc
            """,
            (_signs(query), k),
        )
        return self._best(rows, query, k)

    def _make_table(self, tx: Transaction) -> None:
        tx.execute(
            f"create virtual table if not exists bits using vec0 (embedding bit[{self._dimensions:d}])"
        )

    def _has_table(self, tx: Transaction) -> bool:
        return bool(tx.execute("select 1 from sqlite_master where name = 'bits'"))


def _signs(vector: NDArray[np.floating]) -> bytes:
    import numpy as np

    return np.packbits(vector > 0, bitorder="little").tobytes()
