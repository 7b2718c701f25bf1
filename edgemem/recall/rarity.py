"""Rarity: in how many texts the rarest word of a text stands; who tells something says a word that is seldom said.

Words are counted by their hash, so that none of them stays here when its text is gone: of 20,000 words, eight in a hundred
share their count with another one, and are taken for a little less rare than they are. What only its owner reads is not
counted, and what only known people read counts for them alone. Four bytes a word of each text, and 2 MB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Collection

    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float32]
    Slots = NDArray[np.intp]

_PLACES = 1 << 18
_GONE = -1  # the place of a word of a text that is gone
_LEVELS = 2  # texts that all read, and those that known people read
_UNKNOWN = 0.5  # of a text whose words are not known here: as much as most that tell something, more than most that do not


class Worth(NamedTuple):
    """What the words of some texts are worth, each from 0 to 1."""

    rarest: Numbers
    """The inverse document frequency of the rarest word, as a share of that of a word that was said once."""
    mean: Numbers
    """The mean of the same, of all words."""
    single: Numbers
    """One by the number of texts in which the rarest word stands that is none of the question, since its words stand in
    whatever it finds: this tells what was said once from what was said twice."""


class Rarity:
    """The words of texts by slot; not safe to use from several threads at once."""

    def __init__(self) -> None:
        import numpy as np

        self._counts = np.zeros((_LEVELS, _PLACES), np.int32)
        self._docs = np.zeros(_LEVELS, np.int64)
        self._first: NDArray[Any] = np.zeros(0, np.int64)
        self._many: NDArray[Any] = np.zeros(0, np.int32)
        self._places: NDArray[Any] = np.zeros(0, np.int32)
        self._end = 0

    def add(self, slot: int, stems: Collection[str], level: int) -> None:
        """Take in the words of a text, each once."""
        import numpy as np

        places, begin = np.array([_place(stem) for stem in stems], np.int32), self._end
        self._end += len(places)
        self._first, self._many = (_with_room(column, slot + 1) for column in (self._first, self._many))
        self._places = _with_room(self._places, self._end)
        self._first[slot], self._many[slot] = begin, len(places)
        self._places[begin : self._end] = places
        if level < _LEVELS:
            self._docs[level] += 1
            np.add.at(self._counts[level], places, 1)

    def drop(self, slot: int, level: int) -> None:
        """Leave nothing of the words of a text."""
        import numpy as np

        if slot >= len(self._many) or self._many[slot] == _GONE:
            return
        words = slice(self._first[slot], self._first[slot] + self._many[slot])
        if level < _LEVELS:
            self._docs[level] -= 1
            np.subtract.at(self._counts[level], self._places[words], 1)
        self._places[words] = _GONE
        self._many[slot] = _GONE

    def of(self, slots: Slots, *, known: bool, without: Collection[str] = ()) -> Worth:
        """Return what the words of some texts are worth.

        Args:
            known: whether texts are counted that only known people read.
            without: the stems of the question.
        """
        import numpy as np

        found = np.full((len(Worth._fields), len(slots)), _UNKNOWN, np.float32)
        here = np.flatnonzero(slots < len(self._many))
        many = self._many[slots[here]]
        found[:, here[many == 0]] = 0.0
        here, many = here[many > 0], many[many > 0]
        if not len(here):
            return Worth(*found)
        starts = np.cumsum(many) - many
        words = np.repeat(self._first[slots[here]] - starts, many) + np.arange(int(many.sum()))
        places = self._places.take(words)
        docs = int(self._docs[: 1 + known].sum())
        # Level by level: to pick from both at once takes seven times as long.
        counts = self._counts[0].take(places)
        if known:
            counts += self._counts[1].take(places)
        common = np.maximum(counts, 1).astype(np.float32)
        most = np.log(1 + max(0.0, docs - 0.5) / 1.5) or 1.0
        worth = np.minimum(np.log(1 + np.maximum(0.0, docs - common + 0.5) / (common + 0.5)) / most, 1)
        new = np.ones(len(places), bool)
        for place in map(_place, without):
            new &= places != place
        found[0, here] = np.maximum.reduceat(worth, starts)
        found[1, here] = np.add.reduceat(worth, starts) / many
        found[2, here] = np.maximum.reduceat(new / common, starts)
        return Worth(*found)


def _place(stem: str) -> int:
    return crc32(stem.encode("utf-8", "surrogatepass")) % _PLACES


def _with_room(column: NDArray[Any], room: int) -> NDArray[Any]:
    """Return a column that has room for so many values."""
    import numpy as np

    if room <= len(column):
        return column
    grown = np.full(max(256, room * 3 // 2), _GONE, column.dtype)
    grown[: len(column)] = column
    return grown
