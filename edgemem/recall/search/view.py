"""The table as one question sees it, with the scores that it gives to each slot.

It sees as many slots as there were when it began. What its reader may not read it looks up once, for all slots, and
whatever asks it for a slot gets only what may be read. Arrays have one value more at the end, for no slot (-1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.search.table import DocTable, Filter

    Slots = NDArray[np.intp]
    Numbers = NDArray[np.float32]


class View:
    """What one question sees; whoever uses it holds the lock of the table.

    Args:
        only: what may be found.
    """

    def __init__(self, columns: DocTable, only: Filter) -> None:
        import numpy as np

        self.columns = columns
        self.only = only
        self._dropped = columns.dropped
        self.n = columns.n
        self.readable = columns.readable(only)
        """Which slots the reader may read,"""
        self.may: NDArray[np.bool_] = columns.findable(only, self.readable)
        """and which of them may be found."""
        self.words, self.window, self.cosines = np.zeros((3, self.n + 1), np.float32)
        """By slot: BM25, at last as a share of the best possible; BM25 together with the neighbours; the cosine."""
        self.session: Numbers = np.zeros(columns.sessions, np.float32)
        """BM25 of each session, by its code."""
        self.known = 1.0
        """The share of the idf of the question's words that texts which may be found hold, 0 to 1."""
        self.near, self.mentioned, self.chosen = np.zeros((3, self.n + 1), bool)
        """Masks of the texts with a known cosine, of those that speak of a person whom the question names, and of the candidates."""

    def size(self) -> tuple[int, int]:
        """Return how many texts the reader may read, of any kind, and how many words they have."""
        import numpy as np

        read = self.readable[: self.n]
        return int(np.count_nonzero(read)), int(self.columns.rows["length"][: self.n][read].sum())

    def words_in_sessions(self) -> NDArray[Any]:
        """Return how many words of each session, by its code, may be read: what may not leaves no trace."""
        import numpy as np

        rows, read = self.columns.rows, self.readable[: self.n]
        session, length = rows["session"][: self.n][read], rows["length"][: self.n][read]
        return np.bincount(session, length, self.columns.sessions)

    def follow(self) -> None:
        """See nothing any more of what was taken out since."""
        if self._dropped != self.columns.dropped:
            self._dropped = self.columns.dropped
            self.may[: self.n] &= self.columns.rows["id"][: self.n] != 0

    def allowed(self, slots: Slots) -> NDArray[np.bool_]:
        """Tell which slots may be found."""
        may: NDArray[np.bool_] = self.may[slots]
        return may

    def seen(self, slots: Slots) -> Slots:
        """Return the slots that may be found."""
        slots = slots[slots < self.n]
        return slots[self.may[slots]]

    def beside(self, slots: Slots, step: int) -> Slots:
        """Return the slot of the message `step` after each; -1 where there is none, or it may not be read."""
        import numpy as np

        neighbours = self.columns.beside(slots, step)
        neighbours[neighbours >= self.n] = -1  # it came after the question
        return np.where(self.may[neighbours], neighbours, -1)

    def around(self, slots: Slots, steps: Sequence[int]) -> Slots:
        """Return slots with those of the messages at some steps from them, once each, in ascending order."""
        import numpy as np

        marked = np.zeros(self.n + 1, bool)
        marked[slots] = True
        for step in steps:
            marked[self.beside(slots, step)] = True
        return np.flatnonzero(marked[:-1])

    def slots_of(self, docs: Sequence[int]) -> Slots:
        """Return the slot of each doc; -1 where it may not be found."""
        import numpy as np

        slots = self.columns.slots_of(docs)
        slots[slots >= self.n] = -1
        return np.where(self.may[slots], slots, -1)
