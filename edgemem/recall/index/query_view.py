"""The table as one question sees it, with the scores that it gives to each slot.

The rule of `store.rights` decides here, on the table, who may find which doc. Results are read from the truth once more,
where the rule in SQL has the last word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.recall.annotations import SAYS_I
from edgemem.recall.index.sources import BANK, FACT, KINDS, NOTE, PREFERENCE
from edgemem.recall.index.state import PRIVATE
from edgemem.recall.index.table import NOBODY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.index.table import DocTable
    from edgemem.records import Reader

    Slots = NDArray[np.intp]
    Numbers = NDArray[np.float32]


_BY_TIME = (PREFERENCE, NOTE, BANK)
"""Kinds whose refs are no ticks: their time tells when they were learnt."""


class Filter(NamedTuple):
    """Which docs a question may find."""

    reader: Reader | None
    """Who asks, with the name spelled as in the index, see `with_stored_spelling`; None: the operator, who reads everything."""
    kinds: Collection[str] | None = None
    """None: all."""
    session_id: int | None = None
    """Of this session, `turns` are left out."""
    turns: Collection[int] = ()
    past: bool = False
    """Whether facts that do not hold any more are found too."""
    known_at: int | None = None
    """Only docs that were known by this tick; None: all."""
    facts: Sequence[int] | None = None
    """The only facts that count, by the ids of their statements; None: all that `past` lets through."""
    refs: Collection[int] | None = None
    """Only these rows, by their ids; None: all."""


class QueryView:
    """The slots that one question sees, with its scores for each; the caller holds the lock of the table.

    It sees as many slots as there were when it began. Whatever asks it for a slot gets only what may be found. Arrays have
    one value more at the end, for no slot (-1).
    """

    def __init__(self, table: DocTable, asked: Filter) -> None:
        import numpy as np

        self.table = table
        self.filter = asked
        self._dropped = table.dropped
        self.n = table.n
        self.readable = self._readable(asked.reader)
        """Mask of the slots that the reader may read."""
        self.findable = self._findable(asked)
        """Mask of those that this question may find."""
        self.words, self.window, self.cosines = np.zeros((3, self.n + 1), np.float32)
        """By slot: BM25, at last as a share of the best possible; BM25 together with the neighbours; the cosine."""
        self.session: Numbers = np.zeros(len(table.sessions), np.float32)
        """BM25 of each session, by its code."""
        self.known_share = 1.0
        """The share of the idf of the question's words that texts which may be found hold, 0 to 1."""
        self.has_cosine, self.mentions, self.candidates = np.zeros((3, self.n + 1), bool)
        """Masks of the texts with a known cosine, of those that speak of a person whom the question names, and of the candidates."""

    def _readable(self, reader: Reader | None) -> NDArray[np.bool_]:
        import numpy as np

        rows, n = self.table.rows, self.n
        allowed = np.zeros(n + 1, bool)
        np.not_equal(rows["id"][:n], 0, out=allowed[:n])
        if reader is not None:
            level = rows["level"][:n]
            read = level <= int(reader.is_recognised)
            owner = self.table.codes.get(reader.speaker) if reader.is_alone else NOBODY
            if owner:
                read |= (level == PRIVATE) & (rows["owner"][:n] == owner)
            allowed[:n] &= read
        return allowed

    def _findable(self, asked: Filter) -> NDArray[np.bool_]:
        import numpy as np

        rows, n = self.table.rows, self.n
        allowed: NDArray[np.bool_] = self.readable.copy()
        may, kind = allowed[:n], rows["kind"][:n]
        if not asked.past:
            may &= ~rows["past"][:n]
        if asked.kinds is not None:
            may &= np.array([name in asked.kinds for name in KINDS.values()])[kind]
        if asked.refs is not None:
            may &= np.isin(rows["ref"][:n], np.array(list(asked.refs), np.int64))
        code = None if asked.session_id is None else self.table.sessions.get(asked.session_id)
        if code is not None and asked.turns:
            here = np.flatnonzero(rows["session"][:n] == code)
            may[here] &= np.isin(rows["turn"][here], list(asked.turns), invert=True)
        if asked.facts is not None:
            here = np.flatnonzero(kind == FACT)
            may[here] &= np.isin(rows["ref"][here], np.array(asked.facts, np.int64))
        if asked.known_at is not None:
            known = np.where(np.isin(kind, _BY_TIME), rows["at"][:n] * 1e6, rows["ref"][:n])
            may &= known <= asked.known_at
        return allowed

    def size(self) -> tuple[int, int]:
        """Return how many texts the reader may read, of any kind, and how many words they have."""
        import numpy as np

        read = self.readable[: self.n]
        return int(np.count_nonzero(read)), int(self.table.rows["length"][: self.n][read].sum())

    def words_in_sessions(self) -> NDArray[Any]:
        """Return how many words of each session, by its code, may be read: what may not leaves no trace."""
        import numpy as np

        rows, read = self.table.rows, self.readable[: self.n]
        session, length = rows["session"][: self.n][read], rows["length"][: self.n][read]
        return np.bincount(session, length, len(self.table.sessions))

    def follow(self) -> None:
        """Hide the texts that were taken out of the index since this view was made."""
        if self._dropped != self.table.dropped:
            self._dropped = self.table.dropped
            self.findable[: self.n] &= self.table.rows["id"][: self.n] != 0

    def visible(self, slots: Slots) -> Slots:
        """Return the slots that may be found."""
        slots = slots[slots < self.n]
        return slots[self.findable[slots]]

    def neighbours(self, slots: Slots, step: int) -> Slots:
        """Return the slot of the message `step` after each; -1 where there is none, or it may not be read."""
        return self._or_none(self.table.neighbours(slots, step))

    def with_neighbours(self, slots: Slots, steps: Sequence[int]) -> Slots:
        """Return slots with those of the messages at some steps from them, once each, in ascending order."""
        import numpy as np

        marked = np.zeros(self.n + 1, bool)
        marked[slots] = True
        neighbours = [self.table.neighbours(slots, step) for step in steps]
        if neighbours:
            marked[self._or_none(np.concatenate(neighbours))] = True
        return np.flatnonzero(marked[:-1])

    def slots_of(self, docs: Collection[int]) -> Slots:
        """Return the slot of each doc; -1 where it may not be found."""
        return self._or_none(self.table.slots_of(docs))

    def about_people(self, people: Iterable[str], slots: Slots | slice) -> NDArray[np.bool_]:
        """Tell which texts speak of one of these people, whom the question names, or are their own and say "I"."""
        import numpy as np

        rows = self.table.rows
        codes = [code for name in people if (code := self.table.codes.get(name)) is not None]
        own = np.isin(rows["who"][slots], codes) & ((rows["flags"][slots] & SAYS_I) > 0)
        concerned: NDArray[np.bool_] = self.mentions[slots] | own
        return concerned

    def _or_none(self, slots: Slots) -> Slots:
        import numpy as np

        slots[slots >= self.n] = -1  # it came after the question
        return np.where(self.findable[slots], slots, -1)
