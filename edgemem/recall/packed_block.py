"""A block of packed rows: the columns that `PackedVectors` keeps, a few ten thousand rows each.

Nothing is moved when memory grows, and a look-up by id needs no dictionary: the rows of a full block stand in the order
of their ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]
    Rows = NDArray[np.intp]

BLOCK = 32_768
"""Rows of a block: its signs take 1.5 MB, which a cache holds while they are compared."""


class Block:
    """Some rows; once full, in the order of their ids.

    Args:
        dimensions: of the vectors that were packed.
        room: how many rows it holds.
    """

    def __init__(self, dimensions: int, room: int = BLOCK) -> None:
        import numpy as np

        words = -(-dimensions // 64)
        self.n = 0
        self.room = room
        self.sealed = False
        self._order: tuple[Rows, Ids] | None = None
        # Word by word, all rows: the same word of all is compared at once. The other bits are read row by row.
        self._signs = np.zeros((words, room), np.uint64)
        self._steps = np.zeros((room, words), np.uint64)
        # The system gives memory for zeros only when something else is written there.
        self._columns: dict[str, NDArray[Any]] = {
            "ids": np.zeros(room, np.int64),
            "seqs": np.zeros(room, np.int64),
            "labels": np.zeros(room, np.int32),
            "scales": np.zeros(room, np.float16),
        }

    @property
    def nbytes(self) -> int:
        """Return the bytes of the rows; the room behind them takes none until it is used."""
        arrays = self._signs, self._steps, *self._columns.values()
        return sum(array.nbytes // self.room for array in arrays) * self.n

    @property
    def signs(self) -> NDArray[np.uint64]:
        """Return the first bits of all rows, `uint64[words, n]`."""
        return self._signs[:, : self.n]

    def column(self, name: str) -> NDArray[Any]:
        """Return the `ids`, `seqs`, `labels` or `scales` of all rows."""
        return self._columns[name][: self.n]

    def codes(self, rows: Rows) -> NDArray[np.uint8]:
        """Return both bits of some rows: the bytes of all signs, then of all second bits."""
        import numpy as np

        signs = np.ascontiguousarray(self._signs.take(rows, axis=1).T)
        return np.concatenate([signs, self._steps.take(rows, axis=0)], axis=1).view(np.uint8)

    def append(self, signs: NDArray[np.uint64], steps: NDArray[np.uint64], **columns: NDArray[Any]) -> None:
        """Put rows behind the others, for which there must be room; a block that is full is sealed."""
        new = slice(self.n, self.n + len(signs))
        self._signs[:, new], self._steps[new] = signs.T, steps
        for name, rows in columns.items():
            self._columns[name][new] = rows
        self.n = new.stop
        self._order = None
        if self.n == self.room:
            self.seal()

    def absorb(self, other: Block) -> None:
        """Take in all rows of another block, for which there must be room, and seal."""
        columns = {name: other.column(name) for name in self._columns}
        self.append(other.signs.T, other._steps[: other.n], **columns)
        self.seal()

    def seal(self) -> None:
        """Put the rows in the order of their ids; no more are added one by one."""
        import numpy as np

        self._pick(np.argsort(self.column("ids"), kind="stable"))
        self.sealed = True

    def find(self, wanted: Ids) -> Rows:
        """Return the rows of ids, which are given in ascending order and once each; rows are in ascending order, too."""
        import numpy as np

        if self.sealed:
            return _runs(self.column("ids"), wanted)
        if self._order is None:
            rows = np.argsort(self.column("ids"), kind="stable")
            self._order = rows, self.column("ids")[rows]
        rows, ids = self._order
        return np.sort(rows[_runs(ids, wanted)])

    def cut(self, rows: Rows) -> None:
        """Take rows out; those behind them move up."""
        import numpy as np

        if len(rows):
            self._pick(np.delete(np.arange(self.n), rows))

    def _pick(self, rows: Rows) -> None:
        """Keep these rows, in this order, and overwrite the others."""
        # Word by word, so that little memory is taken meanwhile.
        for column in (*self._signs, *self._steps.T, *self._columns.values()):
            column[: len(rows)] = column[rows]
            column[len(rows) : self.n] = 0
        self.n = len(rows)
        self._order = None


def _runs(ids: Ids, wanted: Ids) -> Rows:
    """Return where ids that are in ascending order are among those wanted, which are so, too, and once each."""
    import numpy as np

    begin = np.searchsorted(ids, wanted)
    many = np.searchsorted(ids, wanted, side="right") - begin
    # For each id: its first row, and so many after it.
    found: Rows = np.repeat(begin - np.cumsum(many) + many, many) + np.arange(many.sum())
    return found


def places(wanted: Ids, ids: Ids) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return where ids stand among wanted ones that are in ascending order, the first of equals, and which do."""
    import numpy as np

    if not len(wanted):
        return np.zeros(len(ids), np.intp), np.zeros(len(ids), np.bool_)
    places = np.minimum(np.searchsorted(wanted, ids), len(wanted) - 1)
    return places, wanted[places] == ids
