"""The docs of an index file, resident in memory with their words.

A question looks up its words here, and nowhere else: .1 ms among 30,000 texts (one x86-64 core), where FTS5 took 1.4 ms. To
read in a text takes some 10 µs. Idle time does that; a question that comes before reads what its deadline allows, what is newest
first.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import CorruptError
from edgemem.recall.index.state import FIRST_OTHER, KEPT, Removals, State
from edgemem.recall.search.table import COLUMNS, DocTable, sound_row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.store.db.database import Database

AT_ONCE = 300
"""Docs that are read between two looks at `stop`."""
NEWEST = 2000
"""Docs of each kind that a question in a hurry reads before older ones."""


class _Range:
    """Which numbers of one kind of docs are in memory: all above `first`, up to `last`."""

    def __init__(self, first: int) -> None:
        self.lowest = first
        self.first = self.last = -1
        """-1: nothing was read in yet."""

    def begin(self, at: int) -> None:
        """Begin behind a number, if nothing was read in yet."""
        if self.last < 0:
            self.first = self.last = max(self.lowest, at)

    def holds(self, doc: int) -> bool:
        """Tell whether a doc was read in."""
        return self.first < doc <= self.last


class ResidentPostings:
    """The docs in one index file with their postings, brought up to date with each question.

    Docs are numbered in two rows that only grow (messages, everything else), and what is taken out or replaced is logged,
    so a few look-ups tell what happened since, in whichever process.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.lock = threading.RLock()
        """Held by whoever reads the columns while more may be read in."""
        self._removals = Removals(database)
        self._columns: DocTable | None = None
        self._messages, self._others = _Range(0), _Range(FIRST_OTHER - 1)

    @property
    def columns(self) -> DocTable:
        """Return what is known of the docs; whoever reads it holds `lock`."""
        if self._columns is None:  # made late, for opening need not wait for numpy
            self._columns = DocTable()
        return self._columns

    def warm(self, state: State, stop: Callable[[], bool] | None = None) -> bool:
        """Read in what is not in memory yet, while nobody waits; return whether there was anything."""
        with self.lock:
            self._follow_removals()
        worked = False
        while not (stop and stop()):
            with self.lock:  # a question need not wait for more than one step
                if not self._read(state):
                    break
            worked = True
        self.columns.prune(stop, self.lock)
        return worked

    def follow_removals(self) -> None:
        """Drop from memory what was taken out of the file, also while nobody asks."""
        with self.lock:
            self._follow_removals()
        self.columns.prune(None, self.lock)

    def follow(self, state: State, stop: Callable[[], bool] | None = None) -> bool:
        """Read in what is not in memory yet; return whether memory holds what the index does. The caller holds `lock`.

        Args:
            stop: once it is true, at least some docs having been read, the rest is left for later; None: all are read.
        """
        self._follow_removals()
        ranges = self._ranges(state)
        if stop is not None:
            for known, newest in ranges:
                known.begin(newest - NEWEST)
        while self._read(state):
            if stop is not None and stop():
                return all(known.first == known.lowest and known.last >= newest for known, newest in ranges)
        return True

    def _follow_removals(self) -> None:
        """Take out of memory what was taken out of the file, or begin anew where that is not known."""
        table = self.columns
        if table.n - len(table) <= max(AT_ONCE, table.n // 2):  # else memory has too many empty slots
            removed = self._removals.take(KEPT)
            for _, doc in removed or ():
                table.drop(doc)
                if self._messages.holds(doc) or self._others.holds(doc):
                    self._take("d.id = ?", (doc,))  # it may have been replaced under its number
            if removed is not None:
                return
        self._columns = None
        self._messages, self._others = _Range(0), _Range(FIRST_OTHER - 1)
        self._removals.skip()

    def _ranges(self, state: State) -> list[tuple[_Range, int]]:
        return [(self._others, state.last_other), (self._messages, state.last_message)]

    def _read(self, state: State) -> bool:
        """Read some of the missing docs into memory; return whether any was missing."""
        for known, newest in self._ranges(state):
            known.begin(known.lowest)
            if known.last < newest:
                sql = "d.id > ? and d.id <= ? order by d.id limit ?"
                numbers = self._take(sql, (known.last, newest, AT_ONCE))
                known.last = numbers[-1] if len(numbers) == AT_ONCE else newest
                return True
            if known.first > known.lowest:
                sql = "d.id > ? and d.id <= ? order by d.id desc limit ?"
                numbers = self._take(sql, (known.lowest, known.first, AT_ONCE))
                known.first = numbers[-1] - 1 if len(numbers) == AT_ONCE else known.lowest
                return True
        return False

    def _take(self, where: str, values: Sequence[int]) -> list[int]:
        """Read some docs into memory; return their numbers."""
        sql = f"select {COLUMNS}, d.terms from docs d where {where}"  # noqa: S608 - our own text
        numbers: list[int] = []
        try:
            rows: list[tuple[Any, ...]] = self._database.query(sql, values)
            for row, stems in [(sound_row(row), msgspec.convert(stems, str)) for *row, stems in rows]:
                self.columns.append(row, stems)
                numbers.append(row.id)
        except (ValueError, OverflowError, msgspec.ValidationError) as error:
            raise CorruptError(f"{self._database.path} is damaged: a row cannot be ({error}).") from error
        return numbers
