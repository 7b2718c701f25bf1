"""Vectors: the stored texts nearest in meaning to a question, in one space for each model.

Every vector stands as float16 in an ordinary table, under the number of its doc and of its space; its sign bits stand in
another. A long text has several vectors, one for each of its pieces, and is as near as the nearest of them. Rows are never
changed, only replaced: their number is the tick at which they were written. `ExactVectors` compares all vectors, and is what
the others are tested against. `BitVectors` compares sign bits first, in SQL; `ResidentVectors` does so in memory.

A space belongs to a fingerprint: of the model's file, its prefixes, its pooling and the length of its vectors. Opening the
index with another model begins another space. The one that it replaces stays until the new one is whole, and for as long
as another process may use it; what changes meanwhile waits in its own queue. The numbers of spaces are never used twice.
Facts that do not hold any more have their vectors and queue apart, under the number after that of the space, which is odd.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.recall.index.packed import PackedVectors
from edgemem.recall.index.sources import bound, in_batches, marks
from edgemem.recall.index.state import (
    KEPT,
    DamagedIndexError,
    get_meta,
    newest_removal,
    note_removals,
    read_removals,
    set_meta,
    sound,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.llama.protocols import Embedder
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
