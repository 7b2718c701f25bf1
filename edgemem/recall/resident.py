"""Resident bits: the sign bits of all vectors in memory, for memories of many thousand vectors.

vec0 reads its table at every question, which takes 2.6 ms at 30,000 vectors; the same bits in memory, as 64-bit words
column by column, are compared in 0.5 ms (measured on one x86-64 core), so more candidates can be rescored as well. They
take 48 bytes a vector of 384 dimensions. sqlite-vec stays what smaller memories and colder processes use.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from edgemem.recall.vectors import BitVectors, ExactVectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.vectors import Vector, VectorIndex
    from edgemem.store.database import Database

LEAST = 5000
"""Vectors below which vec0 answers in under half a millisecond by itself."""
AT_ONCE = 500
"""Vectors that a question may still read in; more are left to `warm`, and vec0 answers meanwhile."""
RESCORED = 2
"""Candidates by bits for each vector that is asked for: with 32 asked for, .83 of the 10 true neighbours are among 64, .69
among vec0's own 32 (a synthetic trial at 30,000 vectors; each more costs a look-up of 8 microseconds)."""


class ResidentBits(BitVectors):
    """Looks at sign bits in memory first, once they are there.

    Rows carry the tick at which they were written, so what another process added is read in at the next question. A
    row that was taken out is noticed when its vector is not there to be rescored.
    """

    def __init__(self, database: Database, dimensions: int) -> None:
        super().__init__(database, dimensions)
        self._lock = threading.Lock()
        self._words: NDArray[np.uint64] | None = None
        self._ids: NDArray[np.int64] | None = None
        self._n = 0
        self._upto = 0

    def warm(self) -> None:
        """Read in what is not in memory yet; called while nobody waits."""
        with self._lock:
            # Vectors that were put in again stand here twice, those taken out once; too many are read anew.
            if self._n > LEAST and self._n > 2 * self._database.query("select count(*) from vectors")[0][0]:
                self._forget()
            self._read(None)

    def nearest(self, query: Vector, k: int) -> list[tuple[int, float]]:
        """Return at most k ids with their cosines, the best first."""
        with self._lock:
            ready = k > 0 and self._read(AT_ONCE)
            found = self._candidates(query, RESCORED * k) if ready else None
        if found is None:
            return super().nearest(query, k)
        cosines = self.cosines(query, found)
        return sorted(cosines.items(), key=lambda one: (-one[1], one[0]))[:k]

    def _candidates(self, query: Vector, wanted: int) -> list[int]:
        import numpy as np

        words, ids = self._words, self._ids
        if words is None or ids is None:
            return []
        asked = _words_of(query[None, :])[:, 0]
        distance = np.zeros(self._n, np.uint16)
        for column, word in zip(words, asked, strict=True):
            distance += np.bitwise_count(column[: self._n] ^ word)
        if wanted >= self._n:
            return [int(id_) for id_ in ids[: self._n]]
        nearest = np.argpartition(distance, wanted)[:wanted]
        return [int(id_) for id_ in ids[nearest]]

    def _read(self, at_once: int | None) -> bool:
        """Bring memory up to date; return whether it is, and holds enough to be worth it."""
        newest = self._database.query("select coalesce(max(seq), 0) from vectors")[0][0]
        if newest < self._upto:
            self._forget()
        if newest == self._upto:
            return self._n >= LEAST
        limit = -1 if at_once is None else at_once + 1
        rows = self._database.query(
            "select doc, seq, vector from vectors where seq > ? order by seq limit ?", (self._upto, limit)
        )
        if at_once is not None and len(rows) > at_once:
            return False
        self._append([row for row in rows if len(row[2]) == 2 * self._dimensions])
        self._upto = rows[-1][1] if rows else self._upto
        return self._n >= LEAST

    def _forget(self) -> None:
        self._words, self._ids, self._n, self._upto = None, None, 0, 0

    def _append(self, rows: list[tuple[int, int, bytes]]) -> None:
        import numpy as np

        if not rows:
            return
        matrix = np.frombuffer(b"".join(row[2] for row in rows), np.float16).reshape(len(rows), -1)
        words, ids = _words_of(matrix), np.array([row[0] for row in rows], np.int64)
        room = 0 if self._ids is None else len(self._ids)
        if self._words is None or self._ids is None or self._n + len(rows) > room:
            # Doubling, so that a growing memory is not copied with each turn.
            room = max(2 * self._n, self._n + len(rows))
            grown, numbers = np.zeros((len(words), room), np.uint64), np.zeros(room, np.int64)
            if self._words is not None and self._ids is not None:
                grown[:, : self._n] = self._words[:, : self._n]
                numbers[: self._n] = self._ids[: self._n]
            self._words, self._ids = grown, numbers
        self._words[:, self._n : self._n + len(rows)] = words
        self._ids[self._n : self._n + len(rows)] = ids
        self._n += len(rows)


def open_vectors(database: Database, dimensions: int) -> VectorIndex:
    """Return the best index that works on this machine."""
    import numpy as np

    if database.vec_version is None or dimensions % 8 != 0:
        return ExactVectors(database, dimensions)
    if dimensions % 64 == 0 and hasattr(np, "bitwise_count"):  # numpy 2.0
        return ResidentBits(database, dimensions)
    return BitVectors(database, dimensions)


def _words_of(matrix: NDArray[np.floating]) -> NDArray[np.uint64]:
    """Return the sign bits of rows as 64-bit words, one row of words for each 64 dimensions."""
    import numpy as np

    packed = np.packbits(matrix > 0, axis=1, bitorder="little")
    packed = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8)))
    return np.ascontiguousarray(packed.view(np.uint64).T)
