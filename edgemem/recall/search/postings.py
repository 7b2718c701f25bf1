"""The postings of all docs, resident in memory.

FTS5 looks up each term in each of its segments and reads a row for every text that matches, most of them from pages that
the last commit took out of its cache: 1.4 ms a question at 30,000 texts. The same postings in memory are scored in .1 ms
(one x86-64 core). They take about 200 bytes a text of ten words. FTS5 stays what colder processes use, and
what this is tested against; the formula is the same but for the weight of a term (see `bm25.Statistics`).
"""

from __future__ import annotations

import threading
from array import array
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import CorruptError
from edgemem.recall.index.state import FIRST_OTHER, State, newest_removal, read_removals
from edgemem.recall.people.alike import Alikes
from edgemem.recall.search.table import COLUMNS, Columns, sound_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.search.view import View
    from edgemem.store.db.database import Database

    Slots = NDArray[np.intp]
    Numbers = NDArray[np.float32]


_COLUMNS = f"{COLUMNS}, d.terms"
AT_ONCE = 300
"""Docs that a question may still read in; more are left to `warm`, and FTS5 answers meanwhile."""
_STEP = 300  # docs that are read between two looks at `stop`: some milliseconds
_TERMS = 1000  # terms that are looked at between two looks at `stop`
_STEPS = 16  # of a search among 65,536 texts
_OFTEN = 255  # how often a term stands in a text is kept in 8 bits


class ResidentPostings:
    """Postings of the docs in one index file, brought up to date with each question.

    Docs are numbered in two rows that only grow (messages, everything else), and what is taken out or replaced is logged,
    so a few look-ups tell what happened since, in whichever process.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.lock = threading.RLock()
        """Held by whoever reads the columns while more may be read in."""
        self._removal = self._pruned = 0
        self._columns: Columns | None = None
        self._forget()

    @property
    def columns(self) -> Columns:
        """Return what is known of the docs; whoever reads it holds `lock`."""
        if self._columns is None:  # made late, for opening need not wait for numpy
            self._columns = Columns()
        return self._columns

    def warm(self, state: State, stop: Callable[[], bool] | None = None) -> bool:
        """Read in what is not in memory yet, while nobody waits; return whether there was anything."""
        with self.lock:
            if self.columns.n - len(self.columns) > max(
                AT_ONCE, self.columns.n // 2
            ) or not self._drop_removed(None):
                self._forget()
        worked = False
        while not (stop and stop()):
            with self.lock:  # a question need not wait for more than one step
                if not self._read(state, _STEP):
                    break
            worked = True
        self._prune(stop)
        return worked

    def _prune(self, stop: Callable[[], bool] | None) -> None:
        """Drop the terms that no text holds any more, once a text was taken out."""
        if self._pruned == self._removal:
            return
        terms = list(self._postings)
        for first in range(0, len(terms), _TERMS):
            if stop and stop():
                return
            with self.lock:
                ids = self.columns.rows["id"]
                for term in terms[first : first + _TERMS]:
                    if term in self._postings and not ids[self.having(term)].any():
                        del self._postings[term]
                        self.alikes.drop(term)
        self._pruned = self._removal

    def follow_removals(self) -> None:
        """Drop from memory what was taken out of the file, also while nobody asks."""
        with self.lock:
            if not self._drop_removed(None):
                self._forget()
        self._prune(None)

    def follow(self, state: State) -> bool:
        """Read in a few changes; return whether memory holds what the index does."""
        with self.lock:
            return self._follow(state)

    def find(self, terms: Sequence[str]) -> Iterator[tuple[str, Slots, Numbers]]:
        """Yield each term that stands anywhere, with its slots and how often it stands there; as of the last `follow`."""
        import numpy as np

        for term in terms:
            if term in self._postings:
                packed = np.frombuffer(self._postings[term], np.uint32)
                yield term, (packed >> 8).astype(np.intp), (packed & _OFTEN).astype(np.float32)

    def count(self, term: str, view: View) -> int:
        """Return the number of findable texts that a term stands in, as of the last `follow`; the caller holds `lock`."""
        import numpy as np

        posting = self._postings.get(term)
        if posting is None:
            return 0
        packed = np.frombuffer(posting, np.uint32)
        if view.concealed * _STEPS > len(packed):
            return int(np.count_nonzero(view.may[packed >> 8]))
        # Of a common term it is quicker to look for the few that may not be found.
        hidden = view.hidden
        at = np.minimum(packed.searchsorted(hidden << 8), len(packed) - 1)
        return len(packed) - int(np.count_nonzero(packed[at] >> 8 == hidden))

    def having(self, stem: str) -> NDArray[np.intp]:
        """Return the slots of the texts that a stem stands in; the caller holds `lock`."""
        import numpy as np

        posting = self._postings.get(stem)
        if posting is None:
            return np.zeros(0, np.intp)
        return (np.frombuffer(posting, np.uint32) >> 8).astype(np.intp)

    def _follow(self, state: State) -> bool:
        empty = self.columns.n - len(self.columns)
        if empty > max(AT_ONCE, self.columns.n // 2) or not self._drop_removed(AT_ONCE):
            if state.docs > AT_ONCE:
                return False
            self._forget()  # so few are read anew at once
        waiting = state.last_message - self._reached[0] + state.last_other - self._reached[1]
        if waiting > AT_ONCE:
            return False
        while self._read(state, AT_ONCE):
            pass
        return True

    def _drop_removed(self, at_once: int | None) -> bool:
        """Follow what was taken out or replaced; return whether that is known and not too much."""
        if newest_removal(self._database) == self._removal:
            return True
        removed = read_removals(self._database, self._removal, at_once or 10 * AT_ONCE)
        if removed is None:
            return False
        for seq, doc in removed:
            self._removal = seq
            self.columns.drop(doc)
            message, other = self._reached
            if doc <= message or FIRST_OTHER <= doc <= other:
                # Replaced under its number: what is there now is beyond nobody's watermark.
                sql = f"select {_COLUMNS} from docs d where d.id = ?"  # noqa: S608 - our own text
                self._take(self._database.query(sql, (doc,)))
        return True

    def _read(self, state: State, limit: int) -> bool:
        """Read in some of what is new; return whether there was anything."""
        for row, last in enumerate((state.last_message, state.last_other)):
            first = self._reached[row]
            if first < last:
                rows = self._database.query(
                    f"select {_COLUMNS} from docs d where d.id > ? and d.id <= ? order by d.id limit ?",  # noqa: S608 - ours
                    (first, last, limit),
                )
                self._take(rows)
                self._reached[row] = rows[-1][0] if len(rows) == limit else last
                return True
        return False

    def _take(self, rows: Sequence[tuple[Any, ...]]) -> None:
        try:
            for row, terms in [(sound_row(columns), msgspec.convert(terms, str)) for *columns, terms in rows]:
                often = Counter(terms.split())
                slot = self.columns.append(row)
                for term, times in often.items():
                    posting = self._postings.get(term)
                    if posting is None:
                        posting = self._postings[term] = array("I")
                        self.alikes.add(term)
                    posting.append(slot << 8 | min(times, _OFTEN))
        except (ValueError, OverflowError, msgspec.ValidationError) as error:
            raise CorruptError(f"{self._database.path} is damaged: a row cannot be ({error}).") from error

    def _forget(self) -> None:
        self._columns = None
        self._postings: dict[str, array[int]] = {}
        self.alikes = Alikes()
        """Its terms by how they sound and end; whoever looks at them holds `lock`."""
        self._reached = [0, FIRST_OTHER - 1]
        self._removal = newest_removal(self._database)
