"""Packed vectors: enough of each vector in memory to say which few must be compared exactly.

A question goes through three sieves:

1. signs are compared with signs, 64 dimensions at a time, over all rows that it may see;
2. of the nearest some hundred, two bits a dimension are compared with the question itself (`two_bits`);
3. of these, all that may be among the k nearest are compared exactly, by whoever has the vectors.

A vector of 384 dimensions takes 118 bytes: 48 for each of the two bits, 8 for its id, 8 for its tick, 4 for its label,
2 for its scale. What is wiped is overwritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.recall.packed_block import BLOCK, Block, places
from edgemem.recall.two_bits import ERROR, Asked, pack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from edgemem.recall.packed_block import Ids, Rows

    Exact = Callable[[list[int]], Mapping[int, float]]

_PACKED_AT_ONCE = 256  # vectors: .4 MB of each intermediate result
_ESTIMATED_AT_ONCE = 4096  # rows: 3 MB of intermediate results
_PIECES = 2  # rows that are put in order for each id that is wanted: a text may have several
_SAMPLE = 16_384  # distances that are counted to guess the limit

# Which rows pass the first sieve: their signs differ in so many more than those of the k-th, times sqrt(dimensions): two
# and a half times what chance does. At least and at most so many, and so many for each that is wanted, and one of so many.
_CHANCE = 1.3
_LEAST, _LEAST_EACH = 100, 4
_MOST, _MOST_EACH, _MOST_OF = 4000, 30, 250
_SURE = 3.0  # so many times the error of an estimate: 50 pass the second sieve for k = 10
_EXACT, _EXACT_EACH = 260, 4  # at most, however alike all are: each costs 8 microseconds in SQLite


class PackedVectors:
    """Finds the nearest of many vectors; several rows may have the same id (pieces of one text).

    Not safe to use from several threads at once.

    Args:
        dimensions: of the vectors, which are unit vectors.
        block: rows that are kept together.
    """

    def __init__(self, dimensions: int, *, block: int = BLOCK) -> None:
        self.dimensions = dimensions
        self._room = block
        self._blocks: list[Block] = []
        self._asked: tuple[NDArray[np.float32], Asked] | None = None
        self._compared: tuple[Asked, NDArray[np.uint16]] | None = None
        """The newest question that was compared with all rows, and in how many signs each differs."""

    def __len__(self) -> int:
        return sum(block.n for block in self._blocks)

    @property
    def nbytes(self) -> int:
        """Return the bytes of all rows."""
        return sum(block.nbytes for block in self._blocks)

    @property
    def ids(self) -> Ids:
        """Return the id of each row, in the order that a mask of rows has until the next change."""
        return self._column("ids")

    def labelled(self, labels: ArrayLike) -> NDArray[np.bool_]:
        """Return a mask of the rows that have one of these labels."""
        import numpy as np

        wanted = np.unique(np.asarray(labels, np.int32))
        own = self._column("labels")
        mask: NDArray[np.bool_] = own == wanted[0] if len(wanted) == 1 else np.isin(own, wanted)
        return mask

    def append(
        self, ids: ArrayLike, seqs: ArrayLike, vectors: NDArray[Any], labels: ArrayLike | None = None
    ) -> None:
        """Put rows beside the others.

        Args:
            ids: `int64[n]`; what is there under the same ids stays.
            seqs: `int64[n]`: the ticks at which they were written.
            vectors: `[n, dimensions]`.
            labels: `int32[n]`: whatever rows are chosen by; 0 where nothing is said.
        """
        import numpy as np

        columns: dict[str, NDArray[Any]] = {
            "ids": np.asarray(ids, np.int64),
            "seqs": np.asarray(seqs, np.int64),
            "labels": np.zeros(len(vectors), np.int32) if labels is None else np.asarray(labels, np.int32),
        }
        if any(len(rows) != len(vectors) for rows in columns.values()):
            raise ValueError("Each vector has one id, one tick and one label.")
        begin, self._compared = 0, None
        while begin < len(vectors):
            if not self._blocks or self._blocks[-1].sealed:
                self._blocks.append(Block(self.dimensions, self._room))
            block = self._blocks[-1]
            some = slice(begin, begin + min(_PACKED_AT_ONCE, block.room - block.n))
            signs, steps, scales = pack(np.asarray(vectors[some], np.float32))
            block.append(signs, steps, scales=scales, **{name: rows[some] for name, rows in columns.items()})
            begin = some.stop

    def wipe(self, ids: ArrayLike, before: ArrayLike | None = None) -> int:
        """Take out all rows of some ids, and leave nothing of them; return how many rows there were.

        Args:
            ids: those that are not there are fine.
            before: ticks, one for each id: rows that were written at that tick or later stay.
        """
        import numpy as np

        wanted, which = np.unique(np.asarray(ids, np.int64), return_inverse=True)
        ticks = np.full(len(wanted), np.iinfo(np.int64).min)
        if before is not None:
            np.maximum.at(ticks, which.ravel(), np.asarray(before, np.int64).ravel())
        wiped = 0
        for block in self._blocks:
            rows = block.find(wanted)
            if before is not None and len(rows):
                place, _ = places(wanted, block.column("ids")[rows])
                rows = rows[block.column("seqs")[rows] < ticks[place]]
            block.cut(rows)
            wiped += len(rows)
        if wiped:
            self._compared = None
            self._join()
        return wiped

    def nearest(
        self, query: NDArray[np.float32], k: int, allowed: ArrayLike | None = None, exact: Exact | None = None
    ) -> list[tuple[int, float]]:
        """Return at most k ids with their cosines, each id once with its best row, the best first.

        Args:
            query: a unit vector.
            k: how many.
            allowed: which rows count: a mask of rows (the quick way to filter), or ids; None: all.
            exact: returns the cosines of those ids that still have a vector; the others are left out. None: cosines
                are estimates.
        """
        import numpy as np

        rows = None if allowed is None else self._allowed(np.asarray(allowed))
        n = len(self) if rows is None else len(rows)
        if k <= 0 or n == 0:
            return []
        asked = self._made_ready(query)
        distances = self._distances(asked, rows)
        near = _near(distances, k, self.dimensions)
        while True:
            found = self._estimates(asked, near if rows is None else rows[near])
            ids, cosines = _best_of_each(*found, most=k if exact is None else None)
            if len(ids) >= k or len(near) == n:  # or else they are pieces of a few texts
                break
            near = _lowest(distances, 4 * len(near))
        if exact is not None:
            sure = exact(ids[: _in_doubt(cosines, k, self.dimensions)].tolist())
            ids = np.fromiter(sure.keys(), np.int64, len(sure))
            ids, cosines = _best_of_each(ids, np.fromiter(sure.values(), np.float32, len(sure)))
        return list(zip(ids[:k].tolist(), cosines[:k].tolist(), strict=True))

    def cosines(self, query: NDArray[np.float32], ids: ArrayLike) -> tuple[Ids, NDArray[np.float32]]:
        """Return those ids that are there, in ascending order, and the estimated cosine of the best row of each.

        One in three is .016 off or more.
        """
        import numpy as np

        found, cosines = self._estimates(self._made_ready(query), self._rows_of(ids))
        order = np.argsort(found, kind="stable")
        found, cosines = found[order], cosines[order]
        first = np.flatnonzero(np.diff(found, prepend=found[:1] - 1))
        return found[first], np.maximum.reduceat(cosines, first) if len(first) else cosines

    def _made_ready(self, query: NDArray[np.float32]) -> Asked:
        """Return a question that is ready to be compared; the same array, asked again, is the same question."""
        import numpy as np

        if self._asked is None or self._asked[0] is not query:
            self._asked = query, Asked(np.asarray(query, np.float32))
        return self._asked[1]

    def _column(self, name: str) -> NDArray[Any]:
        import numpy as np

        columns = [block.column(name) for block in self._blocks]
        return np.concatenate(columns) if columns else np.zeros(0, np.int64)

    def _allowed(self, allowed: NDArray[Any]) -> Rows:
        """Return the numbers of the rows that count, in ascending order."""
        import numpy as np

        if allowed.dtype != np.bool_:
            return self._rows_of(allowed)
        if len(allowed) != len(self):
            raise ValueError("A mask has one value for each row; rows came or went since it was made.")
        return np.flatnonzero(allowed)

    def _rows_of(self, ids: ArrayLike) -> Rows:
        """Return the numbers of the rows of some ids, in ascending order."""
        import numpy as np

        wanted = np.asarray(ids, np.int64)
        if not (wanted[1:] > wanted[:-1]).all():
            wanted = np.sort(wanted)
            wanted = wanted[np.diff(wanted, prepend=wanted[:1] - 1) != 0]
        found = [block.find(wanted) + first for first, block in self._numbered()]
        return np.concatenate(found) if found else np.zeros(0, np.intp)

    def _numbered(self) -> Iterator[tuple[int, Block]]:
        """Yield the blocks with the number of their first row."""
        first = 0
        for block in self._blocks:
            yield first, block
            first += block.n

    def _split(self, rows: Rows) -> Iterator[tuple[slice, Block, Rows]]:
        """Yield which part of rows in ascending order is in which block, and where."""
        import numpy as np

        ends = np.searchsorted(rows, np.cumsum([block.n for block in self._blocks])).tolist()
        begin = 0
        for (first, block), end in zip(self._numbered(), ends, strict=True):
            if begin < end:
                yield slice(begin, end), block, rows[begin:end] - first
            begin = end

    def _distances(self, asked: Asked, rows: Rows | None) -> NDArray[np.uint16]:
        """Return in how many signs rows differ from the question."""
        import numpy as np

        if rows is None:
            every = np.concatenate([asked.differences(block.signs) for block in self._blocks])
            self._compared = asked, every
            return every
        if self._compared is not None and self._compared[0] is asked:
            return self._compared[1][rows]
        found = np.empty(len(rows), np.uint16)
        for part, block, own in self._split(rows):
            most = 2 * len(own) > block.n  # picking a row costs as much as comparing it
            signs = block.signs if most else block.signs.take(own, axis=1)
            found[part] = asked.differences(signs)[own if most else slice(None)]
        return found

    def _estimates(self, asked: Asked, rows: Rows) -> tuple[Ids, NDArray[np.float32]]:
        """Return the ids and estimated cosines of rows in ascending order."""
        import numpy as np

        ids, cosines = np.empty(len(rows), np.int64), np.empty(len(rows), np.float32)
        scales = np.empty(len(rows), np.float16)
        for begin in range(0, len(rows), _ESTIMATED_AT_ONCE):
            some = slice(begin, begin + _ESTIMATED_AT_ONCE)
            codes = np.empty((len(rows[some]), 2 * -(-self.dimensions // 64)), np.uint64)
            for part, block, own in self._split(rows[some]):
                block.copy_codes(own, codes[part])
                ids[some][part] = block.column("ids")[own]
                scales[some][part] = block.column("scales")[own]
            cosines[some] = asked.sums(codes.view(np.uint8)) * scales[some]
        return ids, cosines

    def _join(self) -> None:
        """Drop empty blocks, and join those that wiping has left nearly empty."""
        kept: list[Block] = []
        for block in self._blocks:
            before = kept[-1] if kept else None
            if before and before.sealed and block.sealed and before.n + block.n <= self._room // 2:
                before.absorb(block)
            elif block.n:
                kept.append(block)
        self._blocks = kept


def _near(distances: NDArray[np.uint16], k: int, dimensions: int) -> Rows:
    """Return where the distances are low enough for one of the k nearest, in ascending order."""
    import numpy as np

    lowest = _lowest(distances, _LEAST + _LEAST_EACH * k)
    if len(lowest) == len(distances):
        return lowest
    last = int(np.partition(distances[lowest], k - 1)[k - 1])
    near = np.flatnonzero(distances <= last + int(_CHANCE * dimensions**0.5))
    most = _MOST + _MOST_EACH * k + len(distances) // _MOST_OF
    if len(near) > most:
        return _lowest(distances, most)
    return near if len(near) > len(lowest) else lowest


def _lowest(distances: NDArray[np.uint16], wanted: int) -> Rows:
    """Return where about the lowest `wanted` distances are, at least so many, in ascending order."""
    import numpy as np

    n = len(distances)
    if wanted >= n:
        return np.arange(n)
    # Counting how often each distance occurs in a sample finds the limit in a tenth of the time of a partition.
    sample = distances[:: max(1, n // _SAMPLE)]
    limit, more = int(np.searchsorted(np.cumsum(np.bincount(sample)), wanted * len(sample) / n)), 1
    while len(near := np.flatnonzero(distances <= limit)) < wanted:
        limit, more = limit + more, 2 * more
    if len(near) > 2 * wanted:  # the sample misled, or many are alike
        near = np.sort(near[np.argpartition(distances[near], wanted)[:wanted]])
    return near


def _best_of_each(
    ids: Ids, cosines: NDArray[np.float32], most: int | None = None
) -> tuple[Ids, NDArray[np.float32]]:
    """Return each id once with its best cosine, the best first, among equals the lowest id.

    Args:
        most: so many are enough, if there are; None: all.
    """
    import numpy as np

    if most is not None and len(ids) > (some := _PIECES * most):
        good = np.flatnonzero(cosines >= np.partition(cosines, -some)[-some])
        best = _best_of_each(ids[good], cosines[good])
        if len(best[0]) >= most:
            return best
    order = np.lexsort((ids, -cosines))
    by_id = np.argsort(ids[order], kind="stable")
    same = np.diff(ids[order[by_id]]) == 0
    first = np.ones(len(order), np.bool_)
    first[by_id[1:][same]] = False
    order = order[first]
    return ids[order], cosines[order]


def _in_doubt(cosines: NDArray[np.float32], k: int, dimensions: int) -> int:
    """Return how many of the best estimates may be among the k nearest."""
    if len(cosines) <= k:
        return len(cosines)
    last = float(cosines[k - 1])
    error = _SURE * ERROR * (max(0.0, 1 - last * last) / dimensions) ** 0.5
    return max(k, min(int((cosines >= last - error).sum()), _EXACT + _EXACT_EACH * k))
