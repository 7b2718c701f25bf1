"""Packed vectors: enough of each vector in memory to say which few must be compared exactly.

A question goes through three sieves: its signs are compared with those of all rows that it may see, 64 dimensions at a time; its
values with two bits a dimension of the nearest some hundred; and exactly with all that may be among the k nearest. The first bit
is the sign, the second says whether the value is large for its vector: four levels, the best ones for values spread like a bell.
A vector of 384 dimensions takes 114 bytes: 48 for each of the two bits, 8 for its id, 8 for its tick, 2 for its scale. Wiped rows
are overwritten.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from edgemem.preload import np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Ids = NDArray[np.int64]
    Rows = NDArray[np.intp]
    Exact = Callable[[list[int]], Mapping[int, float]]

_ROOM = 1024  # rows at first; doubled when full
_BLOCK = 32_768  # rows at once: their signs take 1.5 MB, which a cache holds
_PACKED_AT_ONCE = 256  # vectors: .4 MB of each intermediate result
_ESTIMATED_AT_ONCE = 4096  # rows: 3 MB of intermediate results
_SAMPLE = 16_384  # distances counted to guess the limit

# A row passes the first sieve if at most so many more of its signs differ than of the k-th's, times sqrt(dimensions): 2.5 times
# the chance error. At least and at most so many rows pass, so many more for each hit, and one of so many.
_CHANCE = 1.3
_LEAST, _LEAST_PER_HIT = 100, 4
_MOST, _MOST_PER_HIT, _MOST_OF = 4000, 30, 250
_SURE = 3.0  # so many times the error of an estimate: 50 pass the second sieve for k = 10
_EXACT, _EXACT_PER_HIT = 260, 4  # at most, however alike all are: each costs 8 microseconds in SQLite

_LARGE = 0.9816  # times the root mean square: where the second bit changes
_LEVELS = 0.9814, 0.5286  # the values of the two bits: .4528 and 1.51 are the best four levels
# How far a cosine may be off, times sin(angle) / sqrt(dimensions): sqrt(.1175 / .8825), the loss of four levels.
_ERROR = 0.365


class PackedVectors:
    """Finds the nearest of many unit vectors of `dimensions`, a multiple of 64; several rows, pieces of a text, may share an id.

    Not safe to use from several threads at once.
    """

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._n = 0
        self.columns: dict[str, NDArray[Any]] = {}
        """Of all rows; behind the last are zeros."""
        self._make_room(_ROOM)
        self._order: tuple[Rows, Ids] | None = None
        """Rows in the order of their ids, and these."""
        self._asked: tuple[NDArray[np.float32], PackedQuery] | None = None
        """The newest question: a turn asks several times with the same array."""

    def __len__(self) -> int:
        return self._n

    @property
    def nbytes(self) -> int:
        """The bytes of all rows; the room behind them takes none until it is used."""
        return sum(column[: self._n].nbytes for column in self.columns.values())

    @property
    def ids(self) -> Ids:
        """The id of each row."""
        return self._column("ids")

    def append(self, ids: ArrayLike, seqs: ArrayLike, vectors: NDArray[Any]) -> None:
        """Add rows with `int64[n]` ids, which others may share, `int64[n]` ticks of writing, and `[n, dimensions]` vectors."""
        numbers = {"ids": np.asarray(ids, np.int64), "seqs": np.asarray(seqs, np.int64)}
        if any(len(column) != len(vectors) for column in numbers.values()):
            raise ValueError("Each vector has one id and one tick.")
        room = len(self.columns["ids"])
        if self._n + len(vectors) > room:
            self._make_room(max(2 * room, self._n + len(vectors)))
        for begin in range(0, len(vectors), _PACKED_AT_ONCE):
            some = slice(begin, begin + _PACKED_AT_ONCE)
            signs, steps, scales = pack(np.asarray(vectors[some], np.float32))
            rows = slice(self._n, self._n + len(signs))
            values = {"signs": signs, "steps": steps, "scales": scales}
            for name, column in {**values, **{name: all_[some] for name, all_ in numbers.items()}}.items():
                self.columns[name][rows] = column
            self._n = rows.stop
        self._order = None

    def wipe(self, ids: ArrayLike, before: ArrayLike | None = None) -> int:
        """Take out and overwrite all rows of some ids, which need not be there; return how many rows.

        `before` has a tick for each id: rows written then or later stay.
        """
        gone, which = np.unique(np.asarray(ids, np.int64), return_inverse=True)
        rows = self._rows_of(gone)
        if before is not None and len(rows):
            ticks = np.full(len(gone), np.iinfo(np.int64).min)
            np.maximum.at(ticks, which.ravel(), np.asarray(before, np.int64).ravel())
            place = np.searchsorted(gone, self.ids[rows])
            rows = rows[self._column("seqs")[rows] < ticks[place]]
        if not len(rows):
            return 0
        # The last rows move into the holes.
        left = self._n - len(rows)
        holes, last = rows[rows < left], np.setdiff1d(np.arange(left, self._n), rows)
        for column in self.columns.values():
            column[holes] = column[last]
            column[left : self._n] = 0
        self._n = left
        self._order = None
        return len(rows)

    def nearest(
        self, query: NDArray[np.float32], k: int, allowed: ArrayLike | None = None, exact: Exact | None = None
    ) -> list[tuple[int, float]]:
        """Return at most k ids with their cosines, each id once with its best row, the best first.

        `query` is a unit vector; `allowed` None allows all ids. `exact` returns the cosines of ids that still have a vector, the
        others are left out; with None cosines are estimates.
        """
        rows = None if allowed is None else self._rows_of(allowed)
        n = len(self) if rows is None else len(rows)
        if k <= 0 or n == 0:
            return []
        packed = self._packed(query)
        distances = self._distances(packed, rows)
        near = near_enough(distances, k, self.dimensions)
        while True:
            ids, cosines = _best_by_id(*self._estimates(packed, near if rows is None else rows[near]))
            if len(ids) >= k or len(near) == n:  # or else they are pieces of a few texts
                break
            near = lowest_of(distances, 4 * len(near))
        order = np.argsort(-cosines, kind="stable")
        if exact is not None:
            return best_first(exact(ids[order[: _in_doubt(cosines[order], k, self.dimensions)]].tolist()), k)
        return list(zip(ids[order[:k]].tolist(), cosines[order[:k]].tolist(), strict=True))

    def cosines(self, query: NDArray[np.float32], ids: ArrayLike) -> tuple[Ids, NDArray[np.float32]]:
        """Return the ids that are there, ascending, with the best row's estimated cosine: one in three is .016 off or more."""
        return _best_by_id(*self._estimates(self._packed(query), self._rows_of(ids)))

    def _packed(self, query: NDArray[np.float32]) -> PackedQuery:
        if self._asked is None or self._asked[0] is not query:
            self._asked = query, PackedQuery(np.asarray(query, np.float32))
        return self._asked[1]

    def _column(self, name: str) -> NDArray[Any]:
        return self.columns[name][: self._n]

    def _make_room(self, room: int) -> None:
        words = self.dimensions // 64
        # The system gives memory for zeros only at the first other value. Signs lie as they are compared, word by word.
        columns: dict[str, NDArray[Any]] = {
            "signs": np.zeros((words, room), np.uint64).T, "steps": np.zeros((room, words), np.uint64),
            "scales": np.zeros(room, np.float16), "ids": np.zeros(room, np.int64), "seqs": np.zeros(room, np.int64),
        }  # fmt: skip
        for name, column in self.columns.items():
            columns[name][: self._n] = column[: self._n]
            column[:] = 0  # no old bytes may stay
        self.columns = columns

    def _rows_of(self, ids: ArrayLike) -> Rows:
        sought = np.asarray(ids, np.int64)
        if not (sought[1:] > sought[:-1]).all():
            sought = np.unique(sought)
        if not len(sought) or not self._n:
            return np.zeros(0, np.intp)
        if self._order is None:
            order = np.argsort(self.ids, kind="stable")
            self._order = order, self.ids[order]
        order, ids_in_order = self._order
        first = np.searchsorted(ids_in_order, sought)
        many = np.searchsorted(ids_in_order, sought, side="right") - first
        # For each id: its first row, and so many after it.
        rows: Rows = order[np.repeat(first - np.cumsum(many) + many, many) + np.arange(many.sum())]
        return rows

    def _distances(self, packed: PackedQuery, rows: Rows | None) -> NDArray[np.uint16]:
        """Return in how many signs rows differ from the question."""
        signs = self.columns["signs"].T
        if rows is not None:
            return packed.differences(signs.take(rows, axis=1))
        every = np.empty(self._n, np.uint16)
        for begin in range(0, self._n, _BLOCK):
            block = slice(begin, min(begin + _BLOCK, self._n))
            every[block] = packed.differences(signs[:, block])
        return every

    def _estimates(self, packed: PackedQuery, rows: Rows) -> tuple[Ids, NDArray[np.float32]]:
        cosines = np.empty(len(rows), np.float32)
        for begin in range(0, len(rows), _ESTIMATED_AT_ONCE):
            some = rows[begin : begin + _ESTIMATED_AT_ONCE]
            words = self.columns["steps"].shape[1]
            codes = np.empty((len(some), 2 * words), np.uint64)
            codes[:, :words] = self.columns["signs"].T.take(some, axis=1).T
            codes[:, words:] = self.columns["steps"].take(some, axis=0)
            cosines[begin : begin + len(some)] = (
                packed.sums(codes.view(np.uint8)) * self.columns["scales"][some]
            )
        return self.ids[rows], cosines


def near_enough(distances: NDArray[np.uint16], k: int, dimensions: int) -> Rows:
    """Return where distances are low enough for one of the k nearest, ascending."""
    lowest = lowest_of(distances, _LEAST + _LEAST_PER_HIT * k)
    if len(lowest) == len(distances):
        return lowest
    last = int(np.partition(distances[lowest], k - 1)[k - 1])
    near = np.flatnonzero(distances <= last + int(_CHANCE * dimensions**0.5))
    most = _MOST + _MOST_PER_HIT * k + len(distances) // _MOST_OF
    if len(near) > most:
        return lowest_of(distances, most)
    return near if len(near) > len(lowest) else lowest


def lowest_of(distances: NDArray[np.uint16], count: int) -> Rows:
    """Return where about the lowest `count` distances are, at least so many, ascending."""
    n = len(distances)
    if count >= n:
        return np.arange(n)
    # To count each distance in a sample finds the limit in a tenth of the time of a partition.
    sample = distances[:: max(1, n // _SAMPLE)]
    limit, more = int(np.searchsorted(np.cumsum(np.bincount(sample)), count * len(sample) / n)), 1
    while len(near := np.flatnonzero(distances <= limit)) < count:
        limit, more = limit + more, 2 * more
    if len(near) > 2 * count:  # the sample misled, or many are alike
        near = np.sort(near[np.argpartition(distances[near], count)[:count]])
    return near


def _best_by_id(ids: Ids, cosines: NDArray[np.float32]) -> tuple[Ids, NDArray[np.float32]]:
    """Return each id once, ascending, with its best cosine."""
    order = np.argsort(ids, kind="stable")  # most are in order already
    ids, cosines = ids[order], cosines[order]
    first = np.flatnonzero(np.diff(ids, prepend=ids[:1] - 1))
    return ids[first], np.maximum.reduceat(cosines, first) if len(first) else cosines


def best_first(cosines: Mapping[int, float], k: int) -> list[tuple[int, float]]:
    """Return the best k ids with their cosines, lowest id among equals."""
    return sorted(cosines.items(), key=lambda item: (-item[1], item[0]))[:k]


def _in_doubt(cosines: NDArray[np.float32], k: int, dimensions: int) -> int:
    """Count the best estimates that may be among the k nearest."""
    if len(cosines) <= k:
        return len(cosines)
    last = float(cosines[k - 1])
    error = _SURE * _ERROR * (max(0.0, 1 - last * last) / dimensions) ** 0.5
    return max(k, min(int((cosines >= last - error).sum()), _EXACT + _EXACT_PER_HIT * k))


class PackedQuery:
    """A question, ready to be compared with packed rows."""

    def __init__(self, query: NDArray[np.float32]) -> None:
        self._signs = np.packbits(query > 0, bitorder="little").view(np.uint64)
        # The sum for each value of a byte in each place: its eight bits, each for or against.
        byte_sums = query.reshape(-1, 8) @ _bytes_as_signs().T
        self._byte_sums = np.multiply.outer(np.array(_LEVELS, np.float32), byte_sums).ravel()
        # As narrow as they fit: adding them to the bytes of many rows takes a sixth of the time of comparing these.
        places = np.arange(0, len(self._byte_sums), 256)
        self._places = places.astype(np.min_scalar_type(len(self._byte_sums) - 1))

    def differences(self, signs: NDArray[np.uint64]) -> NDArray[np.uint16]:
        """Return in how many signs each row differs from the query: `uint16[n]` for `uint64[words, n]`."""
        total = np.zeros(signs.shape[1], np.uint16)
        for first in range(0, len(self._signs), 3):
            # Three words differ in 192 bits at most, which a byte holds.
            some = slice(first, first + 3)
            total += count_ones(signs[some] ^ self._signs[some, None]).sum(axis=0, dtype=np.uint8)
        return total

    def sums(self, codes: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the unscaled product of each row with the query."""
        total: NDArray[np.float32] = self._byte_sums.take(codes + self._places).sum(axis=1)
        return total


def pack(vectors: NDArray[np.float32]) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.float16]]:
    """Return the signs and the second bits, both `uint64[n, words]`, and the scales `float16[n]` of vectors."""
    dimensions = vectors.shape[1]
    size = np.abs(vectors)
    squares = np.einsum("ij,ij->i", vectors, vectors)
    large = size > (_LARGE * np.sqrt(squares / dimensions))[:, None]
    positive = vectors > 0
    signs = np.packbits(positive, axis=1, bitorder="little")
    # Set where it adds: to a large positive value, and to a small negative one.
    steps = np.packbits(positive == large, axis=1, bitorder="little")
    first, second = _LEVELS
    along = (first - second) * size.sum(axis=1) + 2 * second * np.where(large, size, 0).sum(axis=1)
    with np.errstate(all="ignore"):
        scales = (squares / along).astype(np.float16)
    scales[~np.isfinite(scales)] = 0  # of a vector that is none
    return signs.view(np.uint64), steps.view(np.uint64), scales


@functools.cache
def _bytes_as_signs() -> NDArray[np.float32]:
    """Return the eight bits of each byte as +1 or -1, `float32[256, 8]`."""
    every = np.arange(256, dtype=np.uint8)[:, None]
    return np.unpackbits(every, axis=1, bitorder="little").astype(np.float32) * 2 - 1


def count_ones(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Count the bits of each word."""
    ones: NDArray[np.uint8]
    if (bits := bits_of_bytes()) is None:
        ones = np.bitwise_count(words)
    else:
        ones = bits[words[..., None].view(np.uint8)].sum(axis=-1, dtype=np.uint8)
    return ones


@functools.cache
def bits_of_bytes() -> NDArray[np.uint8] | None:
    """Return how many bits each byte has; None: numpy counts them itself, from 2.0 on."""
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        return None
    bits: NDArray[np.uint8] = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(1, np.uint8)
    return bits
