"""Vectors: the stored texts nearest in meaning to a question, in one space for each model.

Every vector stands as float16 in an ordinary table, under the number of its doc and of its space. A long text has several,
one for each of its pieces, and is as near as the nearest of them. Rows are never changed, only replaced: their number is the
tick at which they were written. `ExactVectors` compares all vectors of the file, and is what `ResidentVectors`, which looks in
memory first, is tested against.

A space belongs to a fingerprint: of the model's file, its prefixes, its pooling and the length of its vectors. One space is
made whole at a time, that of the model which came last; the one that it replaces stays until then. The numbers of spaces are
odd and never used twice; facts that do not hold any more have their vectors under the even number that follows.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from edgemem.recall.index.packed import PackedVectors
from edgemem.recall.index.sources import bound, in_batches, placeholders
from edgemem.recall.index.state import (
    KEPT,
    DamagedIndexError,
    Removals,
    get_meta,
    note_removals,
    set_meta,
    sound,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

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
"""Vectors that a question may still read in, and that are read between two looks at `stop`: some milliseconds."""
URGENT, LATER, PAST = 2, 1, 0
"""How soon a doc is embedded: what came, changed or was shown of late, all else, and what does not hold any more."""
_MOST_SPACES = 1 << 40
DROPPED = 200  # rows of a space that is not kept, in one transaction: some milliseconds


def remove_vectors(tx: Transaction, ids: Iterable[int], *, space: int | None = None) -> list[int]:
    """Take the vectors of docs out of one space, or of all; return the ids that had any.

    The caller notes the removal, so that it is noted once of a doc that goes as a whole.
    """
    sql = "delete from vectors where doc = :doc and (:space is null or space = :space) returning seq"
    return [id_ for id_ in ids if tx.execute(sql, {"doc": id_, "space": space})]


def move_vectors(tx: Transaction, id_: int, *, past: bool) -> bool:
    """Put the vectors of a doc among those of what does not hold any more, or back; tell whether the newest model has any.

    The caller notes the removal before: what is written at a later tick stays.
    """
    current, has_current = get_meta(tx, "space"), False
    for seq, under in tx.execute("select seq, space from vectors where doc = ? order by seq", (id_,)):
        space = under - 1 + under % 2
        has_current = has_current or space == current
        tx.execute("update vectors set seq = ?, space = ? where seq = ?", (tx.tick(), space + past, seq))
    return has_current


class ExactVectors:
    """Finds the vectors of one space by their cosine; the ids are those of docs. Slow beyond a few thousand.

    Args:
        space: the number of the space.
    """

    def __init__(self, database: Database, dimensions: int, space: int = 1) -> None:
        self._database = database
        self._dimensions = dimensions
        self._space = space

    def add(self, tx: Transaction, rows: Sequence[tuple[int, Vector]]) -> None:
        """Store unit vectors, in place of what the ids had before; rows of the same id are its pieces."""
        self.remove(tx, sorted({id_ for id_, _ in rows}))
        tx.executemany(
            "insert into vectors (seq, space, doc, vector) values (?, ?, ?, ?)",
            [(tx.tick(), self._space, id_, vector.astype("float16").tobytes()) for id_, vector in rows],
        )

    def remove(self, tx: Transaction, ids: Iterable[int]) -> None:
        """Take vectors out; ids that have none are fine."""
        note_removals(tx, remove_vectors(tx, ids, space=self._space), space=self._space)

    def nearest(
        self, query: Vector, k: int, among: Ids | None = None, *, about: bool = False
    ) -> list[tuple[int, float]]:
        """Return at most k ids with their cosines, the best first.

        Args:
            among: only these ids.
            about: cosines may be estimates, and what was written since the last question without `among` may be missing.
        """
        if among is not None:
            cosines = self.cosines(query, among)
            return sorted(cosines.items(), key=lambda item: (-item[1], item[0]))[:k]
        rows = self._database.query("select doc, vector from vectors where space = ?", (self._space,))
        return self._best(rows, query, k)

    def cosines(self, query: Vector, ids: Ids) -> dict[int, float]:
        """Return the cosines of those ids that have a vector."""
        import numpy as np

        cosines: dict[int, float] = {}
        for some in in_batches(ids.tolist() if isinstance(ids, np.ndarray) else list(ids)):
            sql = f"select doc, vector from vectors where doc in ({placeholders(some)}) and space = :space"  # noqa: S608 - our own text
            rows = self._database.query(sql, {**bound(some), "space": self._space})
            cosines.update(self._best(rows, query, len(rows)))
        return cosines

    def estimates(self, query: Vector, ids: Ids) -> tuple[NDArray[np.int64], Vector]:
        """Return those ids that have a vector, once each, and their cosines, about: as memory was at the last `nearest`."""
        import numpy as np

        cosines, n = self.cosines(query, ids), -1
        return np.fromiter(cosines.keys(), np.int64, n), np.fromiter(cosines.values(), np.float32, n)

    def _best(self, rows: list[tuple[int, bytes]], query: Vector, k: int) -> list[tuple[int, float]]:
        """Return the k best ids, each with the cosine of its best row."""
        import numpy as np

        rows = [row for row in rows if self._is_whole(row[1])]
        if not rows or k <= 0 or len(query) != self._dimensions:
            return []
        matrix = np.frombuffer(b"".join(row[1] for row in rows), np.float16).reshape(len(rows), -1)
        wide = matrix.astype(np.float32)
        scores = np.where(_are_sound(wide), wide @ query, np.float32(-1))
        best: dict[int, float] = {}
        for at in np.lexsort((np.array([row[0] for row in rows]), -scores)).tolist():
            best.setdefault(rows[at][0], float(scores[at]))
            if len(best) == k:
                break
        return list(best.items())

    def _is_whole(self, vector: Any) -> bool:
        """Tell whether what stands in the file may be a vector of this model; in a damaged one it is anything."""
        return isinstance(vector, bytes) and len(vector) == 2 * self._dimensions


class ResidentVectors(ExactVectors):
    """Looks in memory first, once the vectors are there with two bits a dimension.

    `PackedVectors` says which few vectors may be the nearest, and these are compared exactly, from the file.
    """

    def __init__(self, database: Database, dimensions: int, space: int = 1) -> None:
        super().__init__(database, dimensions, space)
        self._lock = threading.Lock()
        self._removals = Removals(database, space)
        self.packed = PackedVectors(dimensions)
        """What is in memory."""
        self._upto = 0
        self._packs = dimensions % 64 == 0
        """Whether memory helps: where dimensions are few or odd, two bits of each tell too little."""
        self._followed = False

    def warm(self, stop: Callable[[], bool] | None = None) -> None:
        """Bring memory in line with the file, while nobody waits; the next call goes on where `stop` ended it."""
        self.follow_removals()
        more = self._packs
        while more and not (stop and stop()):
            with self._lock:  # a question need not wait for more than one step
                more = self._read() == AT_ONCE

    def follow_removals(self) -> None:
        """Wipe what was taken out of the file, also where nobody asks anything."""
        with self._lock:
            if not self._wipe(KEPT):
                self.packed, self._upto = PackedVectors(self._dimensions), 0
                self._removals.skip()

    def nearest(
        self, query: Vector, k: int, among: Ids | None = None, *, about: bool = False
    ) -> list[tuple[int, float]]:
        """Return at most k ids with their cosines, the best first: as `ExactVectors` does."""
        with self._lock:
            if not (about and among is not None):
                self._followed = self._packs and self._follow() and len(self.packed) >= LEAST
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
        """Read in a few changes; return whether memory is as the file."""
        if not self._wipe(AT_ONCE):
            return False
        sql = "select count(*) from (select 1 from vectors where space = ? and seq > ? limit ?)"
        new = self._database.query(sql, (self._space, self._upto, AT_ONCE + 1))[0][0]
        return bool(new <= AT_ONCE and (new == 0 or self._read()))

    def _wipe(self, limit: int) -> bool:
        """Wipe what was taken out of the file; return whether that is known, and at most so much."""
        removed = self._removals.take(limit)
        if removed:
            # What was put in again since is another vector.
            self.packed.wipe([doc for _, doc in removed], before=[seq for seq, _ in removed])
        return removed is not None

    def _read(self) -> int:
        """Read the next vectors into memory; return how many."""
        import numpy as np

        rows = self._database.query(
            "select doc, seq, vector from vectors where space = ? and seq > ? order by seq limit ?",
            (self._space, self._upto, AT_ONCE),
        )
        whole = [row for row in rows if isinstance(row[0], int) and self._is_whole(row[2])]
        if whole:
            vectors = np.frombuffer(b"".join(row[2] for row in whole), np.float16).reshape(len(whole), -1)
            intact = _are_sound(vectors.astype(np.float32))
            ids, seqs = (np.array([row[column] for row in whole], np.int64)[intact] for column in (0, 1))
            self.packed.append(ids, seqs, vectors[intact])
        self._upto = rows[-1][1] if rows else self._upto
        return len(rows)


def _array(ids: Ids) -> NDArray[np.int64]:
    import numpy as np

    return np.asarray(ids if isinstance(ids, np.ndarray) else list(ids), np.int64)


def _are_sound(matrix: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Tell which rows are unit vectors, or nothing at all; a flipped bit of an exponent makes a row that outshines all."""
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", matrix, matrix)
        intact: NDArray[np.bool_] = (squares < 1.2) & ((squares > 0.8) | (squares == 0))
    return intact


# Spaces


def find_space(
    query: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]], embedder: Embedder
) -> int | None:
    """Return the number of a model's space; None if it has none yet.

    Args:
        query: of a database, or `execute` of a transaction.
    """
    rows = query(
        "select id from spaces where fingerprint = ? and dimensions = ?",
        (embedder.fingerprint, embedder.dimensions),
    )
    if not rows:
        return None
    number = sound(rows[0][0], int, "a space")
    if not 0 < number < _MOST_SPACES:
        raise DamagedIndexError(
            f"The index is damaged: there is no space {number}; it is made again by itself."
        )
    return number


def current_space(database: Database) -> int:
    """Return the number of the space that is made whole: that of the model which came last; 0 if there is none."""
    rows = database.query("select value from meta where key = 'space'")
    return sound(rows[0][0], int, "meta.space") if rows else 0


def begin_space(tx: Transaction, embedder: Embedder, urgent: Iterable[int]) -> int:
    """Begin the space of a model, or go on with it: all docs without its vectors wait for them; return its number.

    Args:
        urgent: numbers of docs whose vectors are to be made first.
    """
    number, before = find_space(tx.execute, embedder), get_meta(tx, "space")
    if number is None:
        number = get_meta(tx, "spaces", -1) + 2
        set_meta(tx, "spaces", number)
        tx.execute(
            "insert into spaces (id, fingerprint, dimensions) values (?, ?, ?)",
            (number, embedder.fingerprint, embedder.dimensions),
        )
    set_meta(tx, "space", number)
    tx.execute("update spaces set fingerprint = null where id not in (?, ?)", (number, before))
    tx.execute("delete from unembedded")
    tx.execute(
        """
        insert into unembedded (urgent, doc) select case past when 0 then ? else ? end, id from docs d
        where not exists (select 1 from vectors v where v.doc = d.id and v.space in (?, ?))
        """,
        (LATER, PAST, number, number + 1),
    )
    tx.executemany(
        "update unembedded set urgent = ? where urgent = ? and doc = ?",
        [(URGENT, LATER, doc) for doc in set(urgent)],
    )
    return number


def enqueue(tx: Transaction, docs: Iterable[tuple[int, bool]]) -> None:
    """Have docs that do not wait for a vector wait for one of the newest model.

    Args:
        docs: numbers, and whether each does not hold any more, and so waits behind all others.
    """
    if get_meta(tx, "space"):
        rows = [(PAST if past else URGENT, doc) for doc, past in docs]
        tx.executemany("insert or ignore into unembedded (urgent, doc) values (?, ?)", rows)


def dequeue(tx: Transaction, docs: Iterable[int]) -> None:
    """Have docs wait no more."""
    tx.executemany("delete from unembedded where urgent in (0, 1, 2) and doc = ?", [(doc,) for doc in docs])


def drop_others(tx: Transaction, own: int) -> int:
    """Take out a slice of the spaces of other models; return how many rows that was."""
    rows = tx.execute("select id from spaces where id <> ? order by id limit 1", (own,))
    if not rows or get_meta(tx, "space") != own:
        return 0
    number = sound(rows[0][0], int, "a space")
    # From here on nobody finds it by its model; what is left of it after a crash is taken out later.
    tx.execute("update spaces set fingerprint = null where id = ?", (number,))
    tx.execute(
        "delete from vectors where seq in (select seq from vectors where space in (?, ?) limit ?)",
        (number, number + 1, DROPPED),
    )
    if tx.changes:
        return tx.changes
    tx.execute("delete from spaces where id = ?", (number,))
    return 1
