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
from typing import TYPE_CHECKING

from edgemem.recall.lexical import K1, B
from edgemem.recall.removals import newest_removal, read_removals
from edgemem.recall.state import FIRST_OTHER, State

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.recall.lexical import Statistics
    from edgemem.store.database import Database

LEAST = 1
"""Docs from which memory is used. FTS5's own formula tells nothing apart in a memory of a few texts (see Statistics)."""
AT_ONCE = 300
"""Docs that a question may still read in; more are left to `warm`, and FTS5 answers meanwhile."""
_STEP = 300  # docs that are read between two looks at `stop`: some milliseconds
_OFTEN = 255  # how often a term stands in a text is kept in 8 bits


class ResidentPostings:
    """Postings of the docs in one index file, brought up to date with each question.

    Docs are numbered in two rows that only grow (messages, everything else), and what is taken out or replaced is logged,
    so a few look-ups tell what happened since, in whichever process.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._removal = 0
        self._forget()

    def warm(self, state: State, stop: Callable[[], bool] | None = None) -> bool:
        """Read in what is not in memory yet, while nobody waits; return whether there was anything."""
        if state.docs < LEAST:
            return False
        with self._lock:
            if self._dead > max(AT_ONCE, len(self._docs) // 2) or not self._drop_removed(None):
                self._forget()
        worked = False
        while not (stop and stop()):
            with self._lock:  # a question need not wait for more than one step
                if not self._read(state, _STEP):
                    break
            worked = True
        return worked

    def counts(self, state: State, terms: Sequence[str]) -> dict[str, int] | None:
        """Return in how many docs each term stands; None if memory does not hold them all."""
        with self._lock:
            if not self._follow(state):
                return None
            return {term: len(self._postings.get(term, ())) for term in terms}

    def best(self, terms: Sequence[str], statistics: Statistics, most: int) -> list[tuple[int, float]]:
        """Return the docs with the highest BM25 and these, the best first; as of the last `counts`."""
        import numpy as np

        with self._lock:
            # Views, gone before the lock is: while one lives, an array cannot grow.
            docs, lengths = np.frombuffer(self._docs, np.int64), np.frombuffer(self._lengths, np.uint32)
            scores = np.zeros(len(docs), np.float32)
            average = max(1.0, statistics.terms / max(1, statistics.docs))
            for term in terms:
                if term in self._postings:
                    packed = np.frombuffer(self._postings[term], np.uint32)
                    slots, times = packed >> 8, (packed & _OFTEN).astype(np.float32)
                    norm = K1 * (1 - B + B * lengths[slots] / average)
                    scores[slots] += statistics.weight(term) * times * (K1 + 1) / (times + norm)
            found = np.flatnonzero(scores)
            found = found[docs[found] != 0]
            if most < len(found):
                found = found[np.argpartition(-scores[found], most)[:most]]
            found = found[np.lexsort((docs[found], -scores[found]))]
            return list(zip(docs[found].tolist(), scores[found].tolist(), strict=True))

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
                self._take(self._database.query("select id, terms from docs where id = ?", (doc,)))
        return True

    def _drop(self, doc: int) -> None:
        slot = self._slots.pop(doc, None)
        if slot is not None:
            self._docs[slot] = 0
            self._dead += 1

    def _read(self, state: State, limit: int) -> bool:
        """Read in some of what is new; return whether there was anything."""
        for row, last in enumerate((state.last_message, state.last_other)):
            first = self._reached[row]
            if first < last:
                rows = self._database.query(
                    "select id, terms from docs where id > ? and id <= ? order by id limit ?",
                    (first, last, limit),
                )
                self._take(rows)
                self._reached[row] = rows[-1][0] if len(rows) == limit else last
                return True
        return False

    def _take(self, rows: Sequence[tuple[int, str]]) -> None:
        for doc, terms in rows:
            self._drop(doc)
            slot = len(self._docs)
            stems = terms.split()
            self._docs.append(doc)
            self._lengths.append(len(stems))
            self._slots[doc] = slot
            for term, times in Counter(stems).items():
                found = self._postings.get(term)
                if found is None:
                    found = self._postings[term] = array("I")
                found.append(slot << 8 | min(times, _OFTEN))

    def _forget(self) -> None:
        self._docs, self._lengths = array("q"), array("I")
        self._slots: dict[int, int] = {}
        self._postings: dict[str, array[int]] = {}
        self._dead = 0
        self._reached = [0, FIRST_OTHER - 1]
        self._removal = newest_removal(self._database)
