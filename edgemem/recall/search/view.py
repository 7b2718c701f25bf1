"""View: the columns as one question sees them, and what it has found out about each slot so far.

It sees as many slots as there were when it began. What its reader may not read it looks up once, for all slots, and
whatever asks it for a slot gets only what may be read. Arrays have one value more at the end, for no slot (-1).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.search.table import Columns, Filter, Row

    Slots = NDArray[np.intp]
    Numbers = NDArray[np.float32]


class View:
    """What one question sees; whoever uses it holds the lock of the columns.

    Args:
        only: what may be found.
        read: returns rows of the file by the numbers of docs, where columns do not hold all of them.
    """

    def __init__(
        self, columns: Columns, only: Filter, read: Callable[[Sequence[int]], Sequence[Row]] | None = None
    ) -> None:
        import numpy as np

        self.columns = columns
        self.only = only
        self._read = read
        self.n = columns.n
        self._dropped = columns.dropped
        self.may: NDArray[np.bool_] = columns.readable(only)
        """Which slots may be found."""
        self.words, self.window, self.cosines = np.zeros((3, self.n + 1), np.float32)
        """What the words are worth in each text, and with its neighbours; how near in meaning it is."""
        self.session: Numbers = np.zeros(columns.sessions, np.float32)
        """What the words are worth in each session, by its code."""
        self.known = 1.0
        """How much of what the words of the question tell apart stands in texts that may be found, 0 to 1."""
        self.near, self.mentioned, self.chosen = np.zeros((3, self.n + 1), bool)
        """Whose cosine is known; which texts speak of somebody whom the question names; which are candidates."""

    @property
    def whole(self) -> bool:
        """Tell whether the columns hold every doc."""
        return self._read is None

    def follow(self) -> None:
        """See nothing any more of what was taken out since."""
        if self._dropped != self.columns.dropped:
            self._dropped = self.columns.dropped
            self.may[: self.n] &= self.columns.rows["id"][: self.n] != 0

    @cached_property
    def concealed(self) -> int:
        """Return how many slots might not be found when this was first asked."""
        import numpy as np

        return self.n - int(np.count_nonzero(self.may[: self.n]))

    @cached_property
    def hidden(self) -> NDArray[np.uint32]:
        """Return the slots that might not be found when this was first asked, in ascending order."""
        import numpy as np

        return np.flatnonzero(~self.may[: self.n]).astype(np.uint32)

    def allowed(self, slots: Slots) -> NDArray[np.bool_]:
        """Tell which slots may be found."""
        may: NDArray[np.bool_] = self.may[slots]
        return may

    def seen(self, slots: Slots) -> Slots:
        """Return those of some slots that may be found."""
        slots = slots[slots < self.n]
        return slots[self.may[slots]]

    def beside(self, slots: Slots, step: int) -> Slots:
        """Return the slot of the message so many after each; -1 where there is none, or it may not be read."""
        import numpy as np

        there = self.columns.beside(slots, step)
        there[there >= self.n] = -1  # it came after the question
        return np.where(self.may[there], there, -1)

    def around(self, slots: Slots, steps: Sequence[int]) -> Slots:
        """Return slots and those of the messages beside them, in ascending order and once each."""
        import numpy as np

        found = np.zeros(self.n + 1, bool)
        found[slots] = True
        for step in steps:
            found[self.beside(slots, step)] = True
        return np.flatnonzero(found[:-1])

    def take_up(self, docs: Sequence[int]) -> Slots:
        """Return the slot of each doc, read in where it is not in memory; -1 where it may not be found."""
        import numpy as np

        self.read(docs)
        slots = self.columns.slots_of(docs)
        slots[slots >= self.n] = -1
        return np.where(self.may[slots], slots, -1)

    def read(self, docs: Sequence[int]) -> None:
        """Read in what may be found of docs that are not in memory, where that does not hold all."""
        if self._read is None:
            return
        missing = [doc for doc in dict.fromkeys(docs) if doc not in self.columns]
        if missing:
            for row in self._read(missing):
                self.columns.append(row)
            self.grow()

    def grow(self) -> None:
        """See also what was read in since."""
        import numpy as np

        known, self.n, self.may = self.n, self.columns.n, self.columns.readable(self.only)
        for name in ("words", "window", "cosines", "near", "mentioned", "chosen"):
            column = np.zeros(self.n + 1, getattr(self, name).dtype)
            column[:known] = getattr(self, name)[:known]
            setattr(self, name, column)
        self.session = np.append(
            self.session, np.zeros(self.columns.sessions - len(self.session), np.float32)
        )
