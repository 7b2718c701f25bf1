"""Resident vectors: two bits a dimension of all vectors in memory, for memories of many thousand.

`PackedVectors` says which few vectors may be the nearest, and these are compared exactly, from the file. vec0 reads its
table at every question. sqlite-vec stays what smaller memories and colder processes use; `edgemem bench vectors`
measures both.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from edgemem.recall.packed import PackedVectors
from edgemem.recall.removals import KEPT, newest_removal, read_removals
from edgemem.recall.vectors import BitVectors, ExactVectors, are_sound

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.vectors import Ids, Vector, VectorIndex
    from edgemem.store.database import Database

LEAST = 256
"""Vectors below which vec0 answers in under half a millisecond by itself."""
AT_ONCE = 500
"""Vectors that a question may still read in; more are left to `warm`, and vec0 answers meanwhile."""
_STEP = 500  # vectors that are read between two looks at `stop`: some milliseconds


class ResidentVectors(BitVectors):
    """Looks in memory first, once the vectors are there.

    The file says what was added and removed since the last question, in whichever process. A few changes are read in at
    once; when they are many, the file itself is asked until `warm` has followed.
    """

    def __init__(self, database: Database, dimensions: int, space: int = 1) -> None:
        super().__init__(database, dimensions, space)
        self._lock = threading.Lock()
        self._packed = PackedVectors(dimensions)
        self._upto = 0
        self._followed = False
        self.removal = newest_removal(database)
        """The newest removal that memory has followed."""

    def warm(self, stop: Callable[[], bool] | None = None) -> None:
        """Bring memory in line with the file, while nobody waits; the next call goes on where `stop` ended it."""
        with self._lock:
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

    def nearest(
        self, query: Vector, k: int, among: Ids | None = None, *, about: bool = False
    ) -> list[tuple[int, float]]:
        """Return at most k ids with their cosines, the best first.

        Args:
            among: only these ids.
            about: cosines may be estimates; what was written since the last question without `among` may be missing.
        """
        with self._lock:
            follows = self._followed if about and among is not None else self._follow()
            if k > 0 and len(query) == self._dimensions and follows:
                exact = None if about else partial(self.cosines, query)
                return self._packed.nearest(query, k, None if among is None else _array(among), exact=exact)
        return super().nearest(query, k, among, about=about)

    def estimates(self, query: Vector, ids: Ids) -> tuple[NDArray[np.int64], Vector]:
        """Return those ids that have a vector, and their cosines, about: as memory was at the last `nearest`."""
        with self._lock:
            if len(query) == self._dimensions and self._followed:
                return self._packed.cosines(query, _array(ids))
        return super().estimates(query, ids)

    def _follow(self) -> bool:
        """Read in a few changes; return whether memory is as the file, and holds enough to be worth it."""
        self._followed = self._is_followed()
        return self._followed

    def _is_followed(self) -> bool:
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
        return len(self._packed) >= LEAST

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
            self._packed.wipe([doc for _, doc in removed], before=[seq for seq, _ in removed])
        self.removal = max([newest, *(seq for seq, _ in removed)])
        return True

    def _read(self, limit: int) -> bool:
        """Read in some of what is new; return whether there is more."""
        rows = self._database.query(
            "select doc, seq, vector from vectors where space = ? and seq > ? order by seq limit ?",
            (self.space, self._upto, limit),
        )
        # A vector of another length waits to be made again, and matches nothing.
        self._append([row for row in rows if self._is_one(*row)])
        self._upto = rows[-1][1] if rows else self._upto
        return len(rows) == limit

    def _is_one(self, doc: object, seq: object, vector: object) -> bool:
        """Tell whether a row is a vector of this model; in a damaged file it may be anything."""
        whole = isinstance(doc, int) and isinstance(seq, int)
        return whole and isinstance(vector, bytes) and len(vector) == 2 * self._dimensions

    def _forget(self) -> None:
        self._packed, self._upto = PackedVectors(self._dimensions), 0
        self.removal = newest_removal(self._database)

    def _append(self, rows: list[tuple[int, int, bytes]]) -> None:
        import numpy as np

        if not rows:
            return
        vectors = np.frombuffer(b"".join(row[2] for row in rows), np.float16).reshape(len(rows), -1)
        sound = are_sound(vectors.astype(np.float32))
        ids, seqs = (np.array([row[column] for row in rows], np.int64)[sound] for column in (0, 1))
        self._packed.append(ids, seqs, vectors[sound])


def _array(ids: Ids) -> NDArray[np.int64]:
    """Return ids as an array: of a memory of a hundred thousand they may be many."""
    import numpy as np

    return np.asarray(ids if hasattr(ids, "dtype") else list(ids), np.int64)


def open_vectors(database: Database, dimensions: int, space: int = 1) -> VectorIndex:
    """Return the best index of a space that works on this machine."""
    if database.vec_version is None or dimensions % 8 != 0:
        return ExactVectors(database, dimensions, space)
    return (ResidentVectors if dimensions % 64 == 0 else BitVectors)(database, dimensions, space)
