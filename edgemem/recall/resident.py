"""Resident vectors: all vectors in memory, for memories of many thousand; small enough for a board.

Sign bits as 64-bit words, column by column, find candidates; the same vectors in 8 bits a dimension rescore them. vec0
reads its table at every question (2.6 ms at 30,000 vectors, the bits here .5 ms), and each vector that is looked up in
the file to be rescored costs 8 microseconds, a hundred of them here .02 ms altogether (one x86-64 core). 8 bits keep a
cosine within .001. All of it takes 450 bytes a vector of 384 dimensions: 14 MB at 30,000. sqlite-vec stays what smaller
memories and colder processes use.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

from edgemem.recall.removals import KEPT, newest_removal, read_removals
from edgemem.recall.vectors import BitVectors, ExactVectors, are_sound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.vectors import Vector, VectorIndex
    from edgemem.store.database import Database

LEAST = 5000
"""Vectors below which vec0 answers in under half a millisecond by itself."""
AT_ONCE = 500
"""Vectors that a question may still read in; more are left to `warm`, and vec0 answers meanwhile."""
_STEP = 500  # vectors that are read between two looks at `stop`: some milliseconds
RESCORED = 4
"""Candidates by bits for each vector that is asked for: with 32 asked for, .92 of the 10 true neighbours are among 128,
.83 among 64, .69 among vec0's own 32 (a synthetic trial at 30,000 vectors)."""


class ResidentVectors(BitVectors):
    """Looks in memory first, once the vectors are there.

    The file says what was added and removed since the last question, in whichever process. A few changes are read in at
    once; when they are many, the file itself is asked until `warm` has followed.
    """

    def __init__(self, database: Database, dimensions: int, space: int = 1) -> None:
        super().__init__(database, dimensions, space)
        self._lock = threading.Lock()
        self._kept: _Kept | None = None
        self._rows: dict[int, list[int]] = {}
        """The rows of each doc: one for each of its pieces."""
        self._upto = 0
        self._alive = 0
        self._removal = newest_removal(database)

    def warm(self, stop: Callable[[], bool] | None = None) -> None:
        """Bring memory in line with the file, while nobody waits; the next call goes on where `stop` ended it."""
        if not _can_count_bits():
            return
        with self._lock:
            if self._kept is not None and self._kept.n > max(LEAST, 2 * self._alive):
                self._forget()  # most rows are nobody's
            if not self._drop_removed(None):
                self._forget()
        more = True
        while more and not (stop and stop()):
            with self._lock:  # a question need not wait for more than one step
                more = self._read(_STEP)

    def follow_removals(self) -> None:
        """Wipe what was taken out of the file, also where nobody asks anything."""
        with self._lock:
            if not self._drop_removed(None):
                self._forget()

    def nearest(self, query: Vector, k: int) -> list[tuple[int, float]]:
        """Return at most k ids with their cosines, the best first."""
        with self._lock:
            if k > 0 and len(query) == self._dimensions and self._follow() and self._kept is not None:
                return self._kept.nearest(query, k)
        return super().nearest(query, k)

    def cosines(self, query: Vector, ids: Iterable[int]) -> dict[int, float]:
        """Return the cosines of those ids that have a vector."""
        with self._lock:
            if len(query) == self._dimensions and self._follow() and self._kept is not None:
                rows = [(id_, row) for id_ in ids for row in self._rows.get(id_, ())]
                near = self._kept.cosines(query, [row for _, row in rows]).tolist()
                best: dict[int, float] = {}
                for (id_, _), cosine in zip(rows, near, strict=True):
                    best[id_] = max(cosine, best.get(id_, cosine))
                return best
        return super().cosines(query, ids)

    def _follow(self) -> bool:
        """Read in a few changes; return whether memory is as the file, and holds enough to be worth it."""
        if not (_can_count_bits() and self._drop_removed(AT_ONCE)):
            return False
        new = self._database.query(
            "select count(*) from (select 1 from vectors where space = ? and seq > ? limit ?)",
            (self.space, self._upto, AT_ONCE + 1),
        )[0][0]
        if new > AT_ONCE:
            return False
        if new:
            self._read(AT_ONCE)
        return self._alive >= LEAST

    def _drop_removed(self, at_once: int | None) -> bool:
        """Wipe what was taken out of the file; return whether that is known and not too much."""
        if newest_removal(self._database) == self._removal:
            return True
        removed = read_removals(self._database, self._removal, at_once or KEPT)
        if removed is None:
            return False
        for seq, doc in removed:
            self._removal = seq
            if self._kept is not None and doc in self._rows:
                rows = self._rows.pop(doc)
                # What was put in again since is another vector; and it may have gone from another space alone.
                gone = [row for row in rows if self._kept.seqs[row] < seq and not self._stands(row)]
                for row in gone:
                    self._kept.wipe(row)
                self._alive -= len(gone)
                if len(gone) < len(rows):
                    self._rows[doc] = [row for row in rows if row not in gone]
        return True

    def _read(self, limit: int) -> bool:
        """Read in some of what is new; return whether there is more."""
        rows = self._database.query(
            "select doc, seq, vector from vectors where space = ? and seq > ? order by seq limit ?",
            (self.space, self._upto, limit),
        )
        # A vector of another length waits to be made again, and matches nothing.
        self._append([row for row in rows if len(row[2]) == 2 * self._dimensions])
        self._upto = rows[-1][1] if rows else self._upto
        return len(rows) == limit

    def _forget(self) -> None:
        self._kept, self._rows, self._upto, self._alive = None, {}, 0, 0
        self._removal = newest_removal(self._database)

    def _append(self, rows: list[tuple[int, int, bytes]]) -> None:
        import numpy as np

        if not rows:
            return
        if self._kept is None:
            self._kept = _Kept(self._dimensions)
        first = self._kept.n
        vectors = np.frombuffer(b"".join(row[2] for row in rows), np.float16).reshape(len(rows), -1)
        sound = are_sound(vectors.astype(np.float32))
        rows = [row for row, good in zip(rows, sound, strict=True) if good]
        ids, seqs = (np.array([row[column] for row in rows], np.int64) for column in (0, 1))
        self._kept.append(ids, seqs, vectors[sound])
        for row, (id_, _, _) in enumerate(rows, first):
            self._rows.setdefault(id_, []).append(row)
        self._alive += len(rows)

    def _stands(self, row: int) -> bool:
        """Tell whether a vector that is in memory is in the file as well."""
        assert self._kept is not None
        sql = "select 1 from vectors where seq = ?"
        return bool(self._database.query(sql, (int(self._kept.seqs[row]),)))


class _Kept:
    """The arrays: one row for each vector that was ever read in; row numbers never change."""

    def __init__(self, dimensions: int) -> None:
        import numpy as np

        self.n = 0
        self.seqs = np.zeros(0, np.int64)
        self._ids = np.zeros(0, np.int64)
        # Column by column in memory: the words of one column are compared together.
        self._bits = np.zeros((0, -(-dimensions // 64)), np.uint64, order="F")
        self._values = np.zeros((0, dimensions), np.int8)
        self._steps = np.zeros(0, np.float32)

    def append(self, ids: NDArray[np.int64], seqs: NDArray[np.int64], vectors: NDArray[np.float16]) -> None:
        """Put unit vectors behind the others, with the ticks at which they were written."""
        import numpy as np

        n = self.n + len(ids)
        if n > len(self._ids):
            # Half as much again, so that a growing memory is not copied with each turn.
            room = max(n, self.n * 3 // 2)
            self._ids, self.seqs = _longer(self._ids, room), _longer(self.seqs, room)
            self._steps = _longer(self._steps, room)
            self._bits, self._values = _longer(self._bits, room), _longer(self._values, room)
        new = slice(self.n, n)
        wide = vectors.astype(np.float32)
        steps = np.maximum(np.abs(wide).max(axis=1), 1e-9) / 127
        self._ids[new], self.seqs[new] = ids, seqs
        self._bits[new] = _words_of(vectors)
        self._values[new] = np.rint(wide / steps[:, None])
        self._steps[new] = steps
        self.n = n

    def wipe(self, row: int) -> None:
        """Leave nothing of a vector; its row stays, and is nobody's."""
        self._ids[row] = 0
        self._bits[row] = 0
        self._values[row] = 0

    def cosines(self, query: Vector, rows: Sequence[int] | NDArray[np.intp]) -> NDArray[np.float32]:
        """Return the cosines of some rows."""
        import numpy as np

        near: NDArray[np.float32] = (self._values[rows].astype(np.float32) @ query) * self._steps[rows]
        return near

    def nearest(self, query: Vector, k: int) -> list[tuple[int, float]]:
        """Return at most k ids with their cosines, the best first."""
        import numpy as np

        distance = np.zeros(self.n, np.uint16)
        for column, word in zip(self._bits[: self.n].T, _words_of(query[None, :])[0], strict=True):
            distance += np.bitwise_count(column ^ word)
        # Counting how often each distance occurs finds the limit in a fifth of the time that a partition takes.
        wanted = RESCORED * k
        limit = np.searchsorted(np.cumsum(np.bincount(distance)), wanted)
        rows = np.flatnonzero(distance <= limit)[: 4 * wanted]
        rows = rows[self._ids[rows] != 0]
        ids, near = self._ids[rows], self.cosines(query, rows)
        order = np.lexsort((ids, -near))
        best: dict[int, float] = {}
        for id_, cosine in zip(ids[order].tolist(), near[order].tolist(), strict=True):
            best.setdefault(id_, cosine)  # of several pieces, the nearest
            if len(best) == k:
                break
        return list(best.items())


def open_vectors(database: Database, dimensions: int, space: int = 1) -> VectorIndex:
    """Return the best index of a space that works on this machine."""
    if database.vec_version is None or dimensions % 8 != 0:
        return ExactVectors(database, dimensions, space)
    return (ResidentVectors if dimensions % 64 == 0 else BitVectors)(database, dimensions, space)


@functools.cache
def _can_count_bits() -> bool:
    """Tell whether numpy counts bits (2.0 and later); asked late, because importing it takes 40 ms."""
    import numpy as np

    return hasattr(np, "bitwise_count")


def _longer(rows: NDArray[Any], room: int) -> NDArray[Any]:
    """Return rows in an array with room for more, laid out as they were."""
    import numpy as np

    grown = np.zeros((room, *rows.shape[1:]), rows.dtype, order="C" if rows.flags.c_contiguous else "F")
    grown[: len(rows)] = rows
    return grown


def _words_of(matrix: NDArray[np.floating]) -> NDArray[np.uint64]:
    """Return the sign bits of rows as 64-bit words, `uint64[n, dimensions / 64]`."""
    import numpy as np

    packed = np.packbits(matrix > 0, axis=1, bitorder="little")
    return np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8))).view(np.uint64)
