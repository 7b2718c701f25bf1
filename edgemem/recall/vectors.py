"""Vectors: the stored texts nearest in meaning to a question.

Every vector stands as float16 in an ordinary table, under the number of its doc and of the space of the model that made
it. A long text has several, one for each of its pieces, and is as near as the nearest of them. `BitVectors` finds
candidates by their sign bits in a vec0 table and rescores them; `ExactVectors` reads the whole space, and is what the
other is tested against. Rows are never changed, only replaced: their number is the tick at which they were written.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Protocol

from edgemem.recall.bits import MOST, drop_bits, fill_bits, lacks_bits, near_bits
from edgemem.recall.removals import note_removals
from edgemem.recall.sources import bound, in_batches, marks
from edgemem.recall.spaces import past_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.store.database import Database, Transaction

    Vector = NDArray[np.float32]
    Ids = Iterable[int] | NDArray[np.int64]


class VectorIndex(Protocol):
    """Finds the vectors of one space by their cosine; the ids are those of docs."""

    @property
    def space(self) -> int:
        """Return the number of the space."""
        ...

    def add(self, tx: Transaction, rows: Sequence[tuple[int, Vector]]) -> None:
        """Store unit vectors, in place of what the ids had before; rows of the same id are its pieces."""
        ...

    def remove(self, tx: Transaction, ids: Sequence[int]) -> None:
        """Take vectors out; ids that have none are fine."""
        ...

    def nearest(
        self, query: Vector, k: int, among: Ids | None = None, *, about: bool = False
    ) -> list[tuple[int, float]]:
        """Return at most k ids with their cosines, the best first.

        Args:
            among: only these ids.
            about: cosines may be estimates, where that is quicker.
        """
        ...

    def estimates(self, query: Vector, ids: Ids) -> tuple[NDArray[np.int64], Vector]:
        """Return those ids that have a vector, once each, and their cosines, about."""
        ...

    def cosines(self, query: Vector, ids: Ids) -> dict[int, float]:
        """Return the cosines of those ids that have a vector."""
        ...


def remove_vectors(tx: Transaction, ids: Iterable[int], *, space: int | None = None) -> list[int]:
    """Take the vectors of docs out of one space, or of all, with their bits; return the ids that had any.

    The caller notes the removal, so that it is noted once of a doc that goes as a whole.
    """
    gone, seqs = [], defaultdict(list)
    for id_ in ids:
        rows = tx.execute(
            "delete from vectors where doc = :doc and (:space is null or space = :space) returning space, seq",
            {"doc": id_, "space": space},
        )
        for of, seq in rows:
            seqs[of].append(seq)
        if rows:
            gone.append(id_)
    for of, some in seqs.items():
        drop_bits(tx, of, some)
    return gone


def move_vectors(tx: Transaction, id_: int, *, past: bool) -> list[int]:
    """Put the vectors of a doc among those of what does not hold any more, or back; return in which spaces it has any.

    The caller notes the removal before: what is written at a later tick stays.
    """
    rows = sorted(tx.execute("delete from vectors where doc = ? returning space, seq, vector", (id_,)))
    spaces = []
    for under, seq, vector in rows:
        drop_bits(tx, under, [seq])
        space = under - 1 + under % 2
        tx.execute(
            "insert into vectors (seq, space, doc, vector) values (?, ?, ?, ?)",
            (tx.tick(), past_of(space) if past else space, id_, vector),
        )
        spaces.append(space)
    return spaces


class ExactVectors:
    """Compares a question with every vector: exact, and slow beyond a few ten thousand."""

    def __init__(self, database: Database, dimensions: int, space: int = 1) -> None:
        self._database = database
        self._dimensions = dimensions
        self.space = space

    def add(self, tx: Transaction, rows: Sequence[tuple[int, Vector]]) -> None:
        """Store unit vectors, in place of what the ids had before; rows of the same id are its pieces."""
        self.remove(tx, sorted({id_ for id_, _ in rows}))
        tx.executemany(
            "insert into vectors (seq, space, doc, vector) values (?, ?, ?, ?)",
            [(tx.tick(), self.space, id_, vector.astype("float16").tobytes()) for id_, vector in rows],
        )

    def remove(self, tx: Transaction, ids: Sequence[int]) -> None:
        """Take vectors out; ids that have none are fine."""
        note_removals(tx, remove_vectors(tx, ids, space=self.space), space=self.space)

    def nearest(
        self, query: Vector, k: int, among: Ids | None = None, *, about: bool = False
    ) -> list[tuple[int, float]]:
        """Return at most k ids with their cosines, the best first.

        Args:
            among: only these ids.
            about: cosines may be estimates, where that is quicker.
        """
        if among is not None:
            found = self.cosines(query, among)
            return sorted(found.items(), key=lambda each: (-each[1], each[0]))[:k]
        rows = self._database.query("select doc, vector from vectors where space = ?", (self.space,))
        return self._best(rows, query, k)

    def cosines(self, query: Vector, ids: Ids) -> dict[int, float]:
        """Return the cosines of those ids that have a vector."""
        found: dict[int, float] = {}
        for some in in_batches(_plain(ids)):
            sql = f"select doc, vector from vectors where doc in ({marks(some)}) and space = :space"  # noqa: S608 - our own text
            rows = self._database.query(sql, {**bound(some), "space": self.space})
            found.update(self._best(rows, query, len(rows)))
        return found

    def estimates(self, query: Vector, ids: Ids) -> tuple[NDArray[np.int64], Vector]:
        """Return those ids that have a vector, once each, and their cosines."""
        import numpy as np

        found = self.cosines(query, ids)
        n = len(found)
        return np.fromiter(found.keys(), np.int64, n), np.fromiter(found.values(), np.float32, n)

    def _best(self, rows: list[tuple[int, bytes]], query: Vector, k: int) -> list[tuple[int, float]]:
        """Return the k best ids, each with the cosine of its best row."""
        import numpy as np

        # One of another length was not made by this model, or is damaged: it matches nothing.
        rows = [row for row in rows if isinstance(row[1], bytes) and len(row[1]) == 2 * self._dimensions]
        if not rows or k <= 0 or len(query) != self._dimensions:
            return []
        matrix = np.frombuffer(b"".join(row[1] for row in rows), np.float16).reshape(len(rows), -1)
        wide = matrix.astype(np.float32)
        scores = np.where(are_sound(wide), wide @ query, np.float32(-1))
        ids = np.array([row[0] for row in rows])
        order = np.lexsort((ids, -scores))
        best: dict[int, float] = {}
        for at in order.tolist():
            best.setdefault(rows[at][0], float(scores[at]))
            if len(best) == k:
                break
        return list(best.items())


class BitVectors(ExactVectors):
    """Looks at sign bits first, in a vec0 table of sqlite-vec."""

    def add(self, tx: Transaction, rows: Sequence[tuple[int, Vector]]) -> None:
        """Store unit vectors, in place of what the ids had before; rows of the same id are its pieces."""
        super().add(tx, rows)
        self.fill(tx, len(rows))

    def lacks_bits(self) -> bool:
        """Tell whether vectors were written without bits."""
        return lacks_bits(self._database, self.space)

    def fill(self, tx: Transaction, limit: int) -> int:
        """Make the bits of vectors that were written without; return of how many."""
        return fill_bits(tx, self.space, self._dimensions, limit)

    def nearest(
        self, query: Vector, k: int, among: Ids | None = None, *, about: bool = False
    ) -> list[tuple[int, float]]:
        """Return at most k ids with their cosines, the best first.

        Args:
            among: only these ids.
            about: cosines may be estimates, where that is quicker.
        """
        if among is not None:
            return super().nearest(query, k, among, about=about)
        if k <= 0 or len(query) != self._dimensions:
            return []
        wanted = k
        while True:
            rows = near_bits(self._database, self.space, query, wanted)
            best = self._best(rows, query, k)
            # Where several of the nearest are pieces of one text, there must be more of them.
            if len(best) == k or len(rows) < wanted or wanted >= MOST:
                return best
            wanted *= 4


def _plain(ids: Ids) -> list[int]:
    """Return ids as SQLite takes them."""
    plain: list[int] = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    return plain


def are_sound(matrix: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Tell which rows are unit vectors, or nothing at all; a flipped bit of an exponent makes a row that outshines all."""
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", matrix, matrix)
        sound: NDArray[np.bool_] = (squares < 1.2) & ((squares > 0.8) | (squares == 0))
    return sound
