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
_DENSE, _WIDE = 16, 8
"""One in how many rows must be wanted, and within how many ids for each row, until they are looked up in a table of ids:
that takes a tenth of the time of looking for each."""


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
        self._once: bool | None = None
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

    def copy_codes(self, rows: Rows, out: NDArray[np.uint64]) -> None:
        """Write both bits of some rows to `uint64[n, 2 * words]`: all signs, then all second bits."""
        words = len(self._signs)
        out[:, :words] = self._signs.take(rows, axis=1).T
        out[:, words:] = self._steps.take(rows, axis=0)

    def append(self, signs: NDArray[np.uint64], steps: NDArray[np.uint64], **columns: NDArray[Any]) -> None:
        """Put rows behind the others, for which there must be room; a block that is full is sealed."""
        new = slice(self.n, self.n + len(signs))
        self._signs[:, new], self._steps[new] = signs.T, steps
        for name, rows in columns.items():
            self._columns[name][new] = rows
        self.n = new.stop
        self._order = self._once = None
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

        if not self.sealed and self._order is None:
            rows = np.argsort(self.column("ids"), kind="stable")
            self._order = rows, self.column("ids")[rows]
        ids = self.column("ids") if self._order is None else self._order[1]
        if self._once is None:
            self._once = bool((ids[1:] != ids[:-1]).all())
        found = _found(ids, wanted, once=self._once)
        return found if self._order is None else np.sort(self._order[0][found])

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
        self._order = self._once = None


def _found(ids: Ids, wanted: Ids, *, once: bool) -> Rows:
    """Return where ids that are in ascending order are among those wanted, which are so, too, and once each.

    Args:
        once: whether all ids are different.
    """
    import numpy as np

    if not len(ids):
        return np.zeros(0, np.intp)
    # Blocks are filled as texts come, so most of what is wanted is in others.
    wanted = wanted[np.searchsorted(wanted, ids[0]) : np.searchsorted(wanted, ids[-1], side="right")]
    if not len(wanted):
        return np.zeros(0, np.intp)
    least, width = wanted[0], int(wanted[-1] - wanted[0]) + 1
    if _DENSE * len(wanted) > len(ids) and width <= _WIDE * len(ids):
        first, end = np.searchsorted(ids, least), np.searchsorted(ids, wanted[-1], side="right")
        there = np.zeros(width, np.bool_)
        there[wanted - least] = True
        rows: Rows = np.flatnonzero(there[ids[first:end] - least]) + first
        return rows
    begin = np.searchsorted(ids, wanted)
    here = ids[begin] == wanted
    found: Rows = begin[here]
    if not once:
        many = np.searchsorted(ids, wanted[here], side="right") - found
        # For each id: its first row, and so many after it.
        found = np.repeat(found - np.cumsum(many) + many, many) + np.arange(many.sum())
    return found


def places(wanted: Ids, ids: Ids) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return where ids stand among wanted ones that are in ascending order, the first of equals, and which do."""
    import numpy as np

    if not len(wanted):
        return np.zeros(len(ids), np.intp), np.zeros(len(ids), np.bool_)
    places = np.minimum(np.searchsorted(wanted, ids), len(wanted) - 1)
    return places, wanted[places] == ids
