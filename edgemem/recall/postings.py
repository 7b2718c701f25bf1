"""Resident postings: the words of all docs in memory.

FTS5 looks up each term in each of its segments and reads a row for every text that matches, most of them from pages that
the last commit took out of its cache: 1.4 ms a question at 30,000 texts. The same postings in memory are scored in .1 ms
(one x86-64 core). They take about 200 bytes a text of ten words. FTS5 stays what colder processes use, and
what this is tested against; the formula is the same but for the weight of a term (see `lexical.Statistics`).
"""

from __future__ import annotations

import threading
from array import array
from collections import Counter
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.recall.columns import COLUMNS, NOBODY, Columns, Row
from edgemem.recall.lexical import K1, B
from edgemem.recall.removals import newest_removal, read_removals
from edgemem.recall.sources import TURN
from edgemem.recall.state import FIRST_OTHER, State

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.candidates import Filter
    from edgemem.recall.lexical import Statistics
    from edgemem.store.database import Database

LEAST = 1
"""Docs from which memory is used. FTS5's own formula tells nothing apart in a memory of a few texts (see Statistics)."""
AT_ONCE = 300
"""Docs that a question may still read in; more are left to `warm`, and FTS5 answers meanwhile."""
_STEP = 300  # docs that are read between two looks at `stop`: some milliseconds
_OFTEN = 255  # how often a term stands in a text is kept in 8 bits


class Matched(NamedTuple):
    """BM25 of the words of a question; by slot, or by session."""

    own: NDArray[np.float32]
    """Of each text by itself."""
    window: NDArray[np.float32]
    """Of a message together with the one before and the one after it, as if they were one text."""
    session: NDArray[np.float32]
    """Of all messages of a session together, by its code."""


class ResidentPostings:
    """Postings of the docs in one index file, brought up to date with each question.

    Docs are numbered in two rows that only grow (messages, everything else), and what is taken out or replaced is logged,
    so a few look-ups tell what happened since, in whichever process.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.lock = threading.RLock()
        """Held by whoever reads the columns while more may be read in."""
        self._removal = 0
        self._forget()

    def warm(self, state: State, stop: Callable[[], bool] | None = None) -> bool:
        """Read in what is not in memory yet, while nobody waits; return whether there was anything."""
        if state.docs < LEAST:
            return False
        with self.lock:
            if self.columns.n - len(self.columns) > max(AT_ONCE, self.columns.n // 2) or not self._drop_removed(None):
                self._forget()
        worked = False
        while not (stop and stop()):
            with self.lock:  # a question need not wait for more than one step
                if not self._read(state, _STEP):
                    break
            worked = True
        return worked

    def counts(self, state: State, terms: Sequence[str]) -> dict[str, int] | None:
        """Return in how many docs each term stands; None if memory does not hold them all."""
        with self.lock:
            if not self._follow(state):
                return None
            return {term: len(self._postings.get(term, ())) for term in terms}

    def match(self, terms: Sequence[str], statistics: Statistics, only: Filter) -> Matched:
        """Return the BM25 of these, as of the last `counts`; what may not be found counts for nothing; holds `lock`."""
        import numpy as np

        columns = self.columns
        rows, n, sessions = columns.rows, columns.n, columns.sessions
        own, window, session = np.zeros(n, np.float32), np.zeros(n, np.float32), np.zeros(sessions, np.float32)
        hits: list[tuple[float, NDArray[np.intp], NDArray[np.float32]]] = []
        for term in terms:
            if term in self._postings:
                packed = np.frombuffer(self._postings[term], np.uint32)
                slots, times = (packed >> 8).astype(np.intp), (packed & _OFTEN).astype(np.float32)
                may = columns.allowed(slots, only)
                hits.append((statistics.weight(term), slots[may], times[may]))
        if not hits:
            return Matched(own, window, session)
        average = max(1.0, statistics.terms / max(1, statistics.docs))
        for weight, slots, times in hits:
            own[slots] += weight * _saturated(times, rows["length"][slots], average)
        found = np.flatnonzero(own)
        messages = found[rows["kind"][found] == TURN]
        docs = np.unique(np.concatenate([rows["id"][messages] + step for step in (-1, 0, 1)]))
        slot_of = columns.slots(docs.tolist())
        docs = np.array(sorted(slot_of), np.int64)
        around = np.array([slot_of[doc] for doc in docs.tolist()], np.intp)
        before, after = (columns.beside(docs, step) for step in (-1, 1))
        # Slot -1, beyond the last one, holds nothing.
        lengths = np.append(rows["length"][:n], 0)
        long = lengths[around] + lengths[before] + lengths[after]
        words_in = columns.words_in
        long_session = max(1.0, float(words_in[1:].mean()) if sessions > 1 else 1.0)
        for weight, slots, times in hits:
            dense = np.zeros(n + 1, np.float32)
            dense[slots] = times
            together = dense[around] + dense[before] + dense[after]
            window[around] += weight * _saturated(together, long, 3 * average)
            in_session = np.bincount(rows["session"][slots], times, sessions)
            with_term = np.count_nonzero(in_session)
            rare = log(1 + (sessions - with_term + 0.5) / (with_term + 0.5))
            session += rare * _saturated(in_session, words_in, long_session)
        session[NOBODY] = 0.0
        return Matched(own, window, session)

    def having(self, stem: str) -> NDArray[np.intp]:
        """Return the slots of the texts that a stem stands in; holds `lock`."""
        import numpy as np

        found = self._postings.get(stem)
        if found is None:
            return np.zeros(0, np.intp)
        return (np.frombuffer(found, np.uint32) >> 8).astype(np.intp)

    def _follow(self, state: State) -> bool:
        """Read in a few changes; return whether memory holds what the index does."""
        if state.docs < LEAST:
            return False
        if not self._drop_removed(AT_ONCE):
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
            self._drop(doc)
            message, other = self._reached
            if doc <= message or FIRST_OTHER <= doc <= other:
                # Replaced under its number: what is there now is beyond nobody's watermark.
                self._take(self._database.query(f"select {COLUMNS}, d.terms from docs d where d.id = ?", (doc,)))  # noqa: S608 - ours
        return True

    def _drop(self, doc: int) -> None:
        self.columns.drop(doc)

    def _read(self, state: State, limit: int) -> bool:
        """Read in some of what is new; return whether there was anything."""
        for row, last in enumerate((state.last_message, state.last_other)):
            first = self._reached[row]
            if first < last:
                rows = self._database.query(
                    f"select {COLUMNS}, d.terms from docs d where d.id > ? and d.id <= ? order by d.id limit ?",  # noqa: S608 - ours
                    (first, last, limit),
                )
                self._take(rows)
                self._reached[row] = rows[-1][0] if len(rows) == limit else last
                return True
        return False

    def _take(self, rows: Sequence[tuple[Any, ...]]) -> None:
        for *columns, terms in rows:
            row = Row(*columns)
            self._drop(row.id)
            slot = self.columns.append(row)
            for term, times in Counter(terms.split()).items():
                found = self._postings.get(term)
                if found is None:
                    found = self._postings[term] = array("I")
                found.append(slot << 8 | min(times, _OFTEN))

    def _forget(self) -> None:
        self.columns = Columns()
        """What is known of the docs; whoever reads it holds `lock`."""
        self._postings: dict[str, array[int]] = {}
        self._reached = [0, FIRST_OTHER - 1]
        self._removal = newest_removal(self._database)


def _saturated(times: Any, lengths: Any, average: float) -> Any:
    """Return what so many occurrences in texts of such lengths are worth to BM25."""
    return times * (K1 + 1) / (times + K1 * (1 - B + B * lengths / average))
