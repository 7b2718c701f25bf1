"""The docs of an index file, resident in memory with their words.

FTS5 looks up each term in each of its segments and reads a row for every text that matches: 1.4 ms a question at 30,000
texts. The same postings in memory are scored in .1 ms (one x86-64 core). FTS5 stays what is asked while memory does not
hold all docs, and what this is tested against; the formula is the same but for the weight of a term (see `bm25.Statistics`).
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
"""Docs that a question may still read in, and that are read between two looks at `stop`; more are left to `warm`, and FTS5
answers meanwhile."""


class ResidentPostings:
    """The docs in one index file with their postings, brought up to date with each question.

    Docs are numbered in two rows that only grow (messages, everything else), and what is taken out or replaced is logged,
    so a few look-ups tell what happened since, in whichever process.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.lock = threading.RLock()
        """Held by whoever reads the columns while more may be read in."""
        self._columns: DocTable | None = None
        self._reached = [0, FIRST_OTHER - 1]
        self._removals = Removals(database)
        self._pruned = self._removals.tick

    @property
    def columns(self) -> DocTable:
        """Return what is known of the docs; whoever reads it holds `lock`."""
        if self._columns is None:  # made late, for opening need not wait for numpy
            self._columns = DocTable()
        return self._columns

    def warm(self, state: State, stop: Callable[[], bool] | None = None) -> bool:
        """Read in what is not in memory yet, while nobody waits; return whether there was anything."""
        with self.lock:
            if self._has_holes() or not self._drop_removed(KEPT):
                self._forget()
        worked = False
        while not (stop and stop()):
            with self.lock:  # a question need not wait for more than one step
                if not self._read(state, AT_ONCE):
                    break
            worked = True
        self._prune(stop)
        return worked

    def follow_removals(self) -> None:
        """Drop from memory what was taken out of the file, also while nobody asks."""
        with self.lock:
            if not self._drop_removed(KEPT):
                self._forget()
        self._prune(None)

    def follow(self, state: State) -> bool:
        """Read in a few changes; return whether memory holds what the index does. The caller holds `lock`."""
        if self._has_holes() or not self._drop_removed(AT_ONCE):
            if state.docs > AT_ONCE:
                return False
            self._forget()  # so few are read anew at once
        waiting = state.last_message - self._reached[0] + state.last_other - self._reached[1]
        if waiting > AT_ONCE:
            return False
        while self._read(state, AT_ONCE):
            pass
        return True

    def _has_holes(self) -> bool:
        """Tell whether so many slots are empty that memory is better made anew."""
        return self.columns.n - len(self.columns) > max(AT_ONCE, self.columns.n // 2)

    def _prune(self, stop: Callable[[], bool] | None) -> None:
        """Drop the terms that no text holds any more, once a text was taken out."""
        removal = self._removals.tick
        if self._pruned != removal and self.columns.prune(stop, self.lock):
            self._pruned = removal

    def _drop_removed(self, limit: int) -> bool:
        """Follow what was taken out or replaced; return whether that is known, and at most so much."""
        removed = self._removals.take(limit)
        for _, doc in removed or ():
            self.columns.drop(doc)
            message, other = self._reached
            if doc <= message or FIRST_OTHER <= doc <= other:
                # Replaced under its number: what is there now is beyond nobody's watermark.
                self._take("d.id = ?", (doc,))
        return removed is not None

    def _read(self, state: State, limit: int) -> bool:
        """Read in some of what is new; return whether there was anything."""
        for row, last in enumerate((state.last_message, state.last_other)):
            first = self._reached[row]
            if first < last:
                numbers = self._take("d.id > ? and d.id <= ? order by d.id limit ?", (first, last, limit))
                self._reached[row] = numbers[-1] if len(numbers) == limit else last
                return True
        return False

    def _take(self, where: str, values: Sequence[int]) -> list[int]:
        """Read in some docs; return their numbers."""
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

    def _forget(self) -> None:
        self._columns = None
        self._reached = [0, FIRST_OTHER - 1]
        self._removals.skip()
