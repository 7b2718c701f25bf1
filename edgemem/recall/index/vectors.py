"""Vectors: the stored texts nearest in meaning to a question.

Every vector stands as float16 in an ordinary table, under the number of its doc and of the space of the model that made it;
its sign bits stand in another. A long text has several vectors, one for each of its pieces, and is as near as the nearest of
them. Rows are never changed, only replaced: their number is the tick at which they were written.

`ExactVectors` compares all vectors, and is what the others are tested against. `BitVectors` compares sign bits first, in
SQL; `ResidentVectors` does so in memory.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from edgemem.recall.index.packed import PackedVectors
from edgemem.recall.index.sources import bound, in_batches, marks
from edgemem.recall.index.state import KEPT, newest_removal, note_removals, read_removals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction

    Vector = NDArray[np.float32]
    Ids = Iterable[int] | NDArray[np.int64]

LEAST = 256
"""Vectors below which the file answers in under half a millisecond by itself."""
AT_ONCE = 500
"""Vectors that a question may still read in; more are left to `warm`, and the file answers meanwhile."""
_STEP = 500  # vectors that are read between two looks at `stop`: some milliseconds
_LEAST_BITS = 64  # rows whose sign bits are nearest, of which the nearest are found by comparing them in full


def past_of(space: int) -> int:
    """Return the number under which a space keeps the vectors of what does not hold any more."""
    return space + 1


def remove_vectors(tx: Transaction, ids: Iterable[int], *, space: int | None = None) -> list[int]:
    """Take the vectors of docs out of one space, or of all; return the ids that had any.

    The caller notes the removal, so that it is noted once of a doc that goes as a whole.
    """
    sql = "delete from vectors where doc = :doc and (:space is null or space = :space) returning seq"
    return [id_ for id_ in ids if tx.execute(sql, {"doc": id_, "space": space})]


def move_vectors(tx: Transaction, id_: int, *, past: bool) -> list[int]:
    """Put the vectors of a doc among those of what does not hold any more, or back; return in which spaces it has any.

    The caller notes the removal before: what is written at a later tick stays.
    """
    spaces = []
    for seq, under in tx.execute("select seq, space from vectors where doc = ? order by seq", (id_,)):
        space = under - 1 + under % 2
        values = {"new": tx.tick(), "space": past_of(space) if past else space, "seq": seq}
        for table in ("vectors", "signs"):
            tx.execute(f"update {table} set seq = :new, space = :space where seq = :seq", values)  # noqa: S608 - ours
        spaces.append(space)
    return spaces


class ExactVectors:
    """Finds the vectors of one space by their cosine; the ids are those of docs. Slow beyond a few thousand.

    Args:
        space: the number of the space.
    """

    def __init__(self, database: Database, dimensions: int, space: int = 1) -> None:
        self._database = database
        self._dimensions = dimensions
        self.space = space

    def add(self, tx: Transaction, rows: Sequence[tuple[int, Vector]]) -> None:
        """Store unit vectors, in place of what the ids had before; rows of the same id are its pieces."""
        self.remove(tx, sorted({id_ for id_, _ in rows}))
        numbered = [(tx.tick(), id_, vector) for id_, vector in rows]
        tx.executemany(
            "insert into vectors (seq, space, doc, vector) values (?, ?, ?, ?)",
            [(seq, self.space, id_, vector.astype("float16").tobytes()) for seq, id_, vector in numbered],
        )
        tx.executemany(
            "insert into signs (seq, space, bits) values (?, ?, ?)",
            [(seq, self.space, _sign_bits(vector)) for seq, _, vector in numbered],
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
            cosines = self.cosines(query, among)
            return sorted(cosines.items(), key=lambda item: (-item[1], item[0]))[:k]
        rows = self._database.query("select doc, vector from vectors where space = ?", (self.space,))
        return self._best(rows, query, k)

    def cosines(self, query: Vector, ids: Ids) -> dict[int, float]:
        """Return the cosines of those ids that have a vector."""
        cosines: dict[int, float] = {}
        for some in in_batches(_plain(ids)):
            sql = f"select doc, vector from vectors where doc in ({marks(some)}) and space = :space"  # noqa: S608 - our own text
            rows = self._database.query(sql, {**bound(some), "space": self.space})
            cosines.update(self._best(rows, query, len(rows)))
        return cosines

    def estimates(self, query: Vector, ids: Ids) -> tuple[NDArray[np.int64], Vector]:
        """Return those ids that have a vector, once each, and their cosines, about."""
        import numpy as np

        cosines = self.cosines(query, ids)
        n = len(cosines)
        return np.fromiter(cosines.keys(), np.int64, n), np.fromiter(cosines.values(), np.float32, n)

    def _best(self, rows: list[tuple[int, bytes]], query: Vector, k: int) -> list[tuple[int, float]]:
        """Return the k best ids, each with the cosine of its best row."""
        import numpy as np

        # One of another length was not made by this model, or is damaged: it matches nothing.
        rows = [row for row in rows if isinstance(row[1], bytes) and len(row[1]) == 2 * self._dimensions]
        if not rows or k <= 0 or len(query) != self._dimensions:
            return []
        matrix = np.frombuffer(b"".join(row[1] for row in rows), np.float16).reshape(len(rows), -1)
        wide = matrix.astype(np.float32)
        scores = np.where(_are_sound(wide), wide @ query, np.float32(-1))
        ids = np.array([row[0] for row in rows])
        best: dict[int, float] = {}
        for at in np.lexsort((ids, -scores)).tolist():
            best.setdefault(rows[at][0], float(scores[at]))
            if len(best) == k:
                break
        return list(best.items())


class BitVectors(ExactVectors):
    """Looks at sign bits first, where sqlite-vec can be loaded."""

    def nearest(
        self, query: Vector, k: int, among: Ids | None = None, *, about: bool = False
    ) -> list[tuple[int, float]]:
        """Return at most k ids with their cosines, the best first: as `ExactVectors` does."""
        if among is not None or self._database.vec_version is None:
            return super().nearest(query, k, among, about=about)
        if k <= 0 or len(query) != self._dimensions:
            return []
        bits, most = _sign_bits(query), max(k, _LEAST_BITS)
        while True:
            rows = self._database.query(
                """
                select v.doc, v.vector from (
                  select seq from signs where space = :space and typeof(bits) = 'blob' and length(bits) = :length
                  order by vec_distance_hamming(vec_bit(bits), vec_bit(:bits)) limit :most) n
                join vectors v on v.seq = n.seq
                """,
                {"space": self.space, "bits": bits, "length": len(bits), "most": most},
            )
            best = self._best(rows, query, k)
            # Where several of the nearest are pieces of one text, there must be more of them.
            if len(best) == k or len(rows) < most:
                return best
            most *= 4


class ResidentVectors(BitVectors):
    """Looks in memory first, once the vectors are there with two bits a dimension.

    `PackedVectors` says which few vectors may be the nearest, and these are compared exactly, from the file. The file says
    what was added and removed since the last question, in whichever process. A few changes are read in at once; when they
    are many, the file itself is asked until `warm` has followed.
    """

    def __init__(self, database: Database, dimensions: int, space: int = 1) -> None:
        super().__init__(database, dimensions, space)
        self._lock = threading.Lock()
        self.packed = PackedVectors(dimensions)
        """What is in memory."""
        self._upto = 0
        self._followed = False
        self.removal = newest_removal(database)
        """The newest removal that memory has followed."""

    def warm(self, stop: Callable[[], bool] | None = None) -> None:
        """Bring memory in line with the file, while nobody waits; the next call goes on where `stop` ended it."""
        self.follow_removals()
        more = True
        while more and not (stop and stop()):
            with self._lock:  # a question need not wait for more than one step
                more = self._read(_STEP)

    def follow_removals(self) -> None:
        """Wipe what was taken out of the file, also where nobody asks anything."""
        with self._lock:
            if not self._drop_removed(None):
                self.packed, self._upto = PackedVectors(self._dimensions), 0
                self.removal = newest_removal(self._database)

    def nearest(
        self, query: Vector, k: int, among: Ids | None = None, *, about: bool = False
    ) -> list[tuple[int, float]]:
        """Return at most k ids with their cosines, the best first.

        Args:
            among: only these ids.
            about: cosines may be estimates; what was written since the last question without `among` may be missing.
        """
        with self._lock:
            if not (about and among is not None):
                self._followed = self._follow()
            if k > 0 and len(query) == self._dimensions and self._followed:
                exact = None if about else partial(self.cosines, query)
                return self.packed.nearest(query, k, None if among is None else _array(among), exact=exact)
        return super().nearest(query, k, among, about=about)

    def estimates(self, query: Vector, ids: Ids) -> tuple[NDArray[np.int64], Vector]:
        """Return those ids that have a vector, and their cosines, about: as memory was at the last `nearest`."""
        with self._lock:
            if len(query) == self._dimensions and self._followed:
                return self.packed.cosines(query, _array(ids))
        return super().estimates(query, ids)

    def _follow(self) -> bool:
        """Read in a few changes; return whether memory is as the file, and holds enough to be worth it."""
        if not self._drop_removed(AT_ONCE):
            return False
        new = self._database.query(
            "select count(*) from (select 1 from vectors where space = ? and seq > ? limit ?)",
            (self.space, self._upto, AT_ONCE + 1),
        )[0][0]
        if new > AT_ONCE:
            return False
        if new:
            self._read(AT_ONCE)
        return len(self.packed) >= LEAST

    def _drop_removed(self, at_once: int | None) -> bool:
        """Wipe what was taken out of the file; return whether that is known and not too much."""
        newest = newest_removal(self._database)
        if newest == self.removal:
            return True
        removed = read_removals(self._database, self.removal, at_once or KEPT, space=self.space)
        if removed is None:
            return False
        if removed:
            # What was put in again since is another vector.
            self.packed.wipe([doc for _, doc in removed], before=[seq for seq, _ in removed])
        self.removal = max([newest, *(seq for seq, _ in removed)])
        return True

    def _read(self, limit: int) -> bool:
        """Read in some of what is new; return whether there is more."""
        import numpy as np

        rows = self._database.query(
            "select doc, seq, vector from vectors where space = ? and seq > ? order by seq limit ?",
            (self.space, self._upto, limit),
        )
        # A vector of another length waits to be made again, and matches nothing; in a damaged file it may be anything.
        whole = [
            row
            for row in rows
            if isinstance(row[0], int) and isinstance(row[2], bytes) and len(row[2]) == 2 * self._dimensions
        ]
        if whole:
            vectors = np.frombuffer(b"".join(row[2] for row in whole), np.float16).reshape(len(whole), -1)
            intact = _are_sound(vectors.astype(np.float32))
            ids, seqs = (np.array([row[column] for row in whole], np.int64)[intact] for column in (0, 1))
            self.packed.append(ids, seqs, vectors[intact])
        self._upto = rows[-1][1] if rows else self._upto
        return len(rows) == limit


def open_vectors(database: Database, dimensions: int, space: int = 1) -> BitVectors:
    """Return the best index of a space that can hold vectors of this length."""
    return (ResidentVectors if dimensions % 64 == 0 else BitVectors)(database, dimensions, space)


def _sign_bits(vector: NDArray[np.floating]) -> bytes:
    import numpy as np

    return np.packbits(vector > 0, bitorder="little").tobytes()


def _plain(ids: Ids) -> list[int]:
    """Return ids as SQLite takes them."""
    plain: list[int] = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    return plain


def _array(ids: Ids) -> NDArray[np.int64]:
    """Return ids as an array: of a memory of a hundred thousand they may be many."""
    import numpy as np

    return np.asarray(ids if hasattr(ids, "dtype") else list(ids), np.int64)


def _are_sound(matrix: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Tell which rows are unit vectors, or nothing at all; a flipped bit of an exponent makes a row that outshines all."""
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", matrix, matrix)
        sound: NDArray[np.bool_] = (squares < 1.2) & ((squares > 0.8) | (squares == 0))
    return sound
