"""BM25: how common words are, and what the words of a question are worth in each text, with its neighbours, and in each session.

BM25 is computed three times, over the same occurrences: of a message alone, of a message with the one before and the one
after it, and of a session as a whole, because an answer often does not repeat the words of its question. Scores are given
as a share of the best that the question's words could reach, so that they lie between 0 and 1 and mean the same from one
question to the next. The formula is FTS5's own.
"""

from __future__ import annotations

from itertools import accumulate
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.recall.index.sources import TURN, bound, marks
from edgemem.recall.search.table import NOBODY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.people.alike import TermWeight
    from edgemem.recall.search.view import View
    from edgemem.store.db.database import Database

    Slots = NDArray[np.intp]
    Numbers = NDArray[np.float32]


K1, B = 1.2, 0.75
MAX_TERMS = 24
MAX_MATCHES = 1500
"""The commonest terms of a question are left out while the others alone match this many texts: each text costs
time to score, and such a term tells little apart."""


class Statistics(msgspec.Struct, frozen=True):
    """How common words are: FTS5's figures and those of the tail, together."""

    docs: int
    terms: int
    """How many they have together."""
    counts: Mapping[str, int]
    """In how many texts a term stands."""

    def rarity(self, docs: float) -> float:
        """Return how much a term tells apart that stands in so many texts: its inverse document frequency, as FTS5 has it."""
        # With 1 inside of the logarithm it is never negative (Lucene's BM25Similarity): in a memory of two facts each
        # word is common, and still tells more than nothing.
        return log(1 + max(0.0, self.docs - docs + 0.5) / (docs + 0.5))

    def best(self, docs: Iterable[float]) -> float:
        """Return a score that no text can exceed in which terms stand that stand in so many texts each."""
        return sum(map(self.rarity, docs)) * (K1 + 1)

    def telling(self, terms: Sequence[str]) -> list[str]:
        """Return the terms worth looking for: the rarest first, those that stand nowhere last."""
        count = self.counts.get
        rare = sorted(terms, key=lambda term: (not count(term, 0), count(term, 0), term))
        total = list(accumulate(count(term, 0) for term in rare))
        return [term for term, n in zip(rare, total, strict=True) if n <= max(MAX_MATCHES, total[0])][
            :MAX_TERMS
        ]


def count_docs(database: Database, terms: Sequence[str]) -> dict[str, int]:
    """Return in how many indexed texts each term stands."""
    counts = dict.fromkeys(terms, 0)
    found = database.query(f"select term, doc from vocabulary where term in ({marks(terms)})", bound(terms))  # noqa: S608 - ours
    counts.update(found)
    return counts


class Matched(NamedTuple):
    """BM25 of the words of a question; by slot, with one more for no slot, or by session."""

    own: Numbers
    """Of each text by itself."""
    window: Numbers
    """Of a message together with the one before and the one after it, as if they were one text."""
    session: Numbers
    """Of all messages of a session together, by its code."""
    texts: Slots
    """The only slots at which `own` is not 0, in ascending order,"""
    around: Slots
    """and those at which `window` is not."""


class Stands(NamedTuple):
    """Where the terms of a question stand, among what may be found: one of each for each term and text."""

    names: list[str]
    """The terms that stand anywhere, once each."""
    term: Slots
    """The place of the term among these."""
    slots: Slots
    times: Numbers
    """How often it stands there."""
    counts: dict[str, int]
    """In how many texts each term stands that may be read, whether these are looked for or not."""

    def of(self, wanted: Collection[str]) -> Stands:
        """Return where those terms stand that are looked for."""
        import numpy as np

        kept = np.array([name in wanted for name in self.names], bool)
        if kept.all():
            return self
        here = kept[self.term]
        names = [name for name in self.names if name in wanted]
        term = (np.cumsum(kept) - 1)[self.term[here]]
        return Stands(
            names, term, self.slots[here], self.times[here], {name: self.counts[name] for name in names}
        )


def stands_of(view: View, found: Iterable[tuple[str, Slots, Numbers]]) -> Stands:
    """Return where terms stand; what may not be found counts for nothing.

    Args:
        found: terms, with the slots that each stands in, and how often; a term may come twice.
    """
    import numpy as np

    some = list(found)
    if not some:
        return Stands([], np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0, np.float32), {})
    numbers: dict[str, int] = {}
    term = np.repeat(
        [numbers.setdefault(term, len(numbers)) for term, _, _ in some], [len(slots) for _, slots, _ in some]
    )
    slots, times = (np.concatenate([each[part] for each in some]) for part in (1, 2))
    counts = np.bincount(term[view.columns.read_by(slots, view.only)], minlength=len(numbers))
    may = view.may[slots]
    return Stands(
        list(numbers), term[may], slots[may], times[may], dict(zip(numbers, counts.tolist(), strict=True))
    )


def matched(view: View, stands: Stands, asked: Mapping[str, TermWeight], statistics: Statistics) -> Matched:
    """Return the BM25 of the texts that terms stand in.

    Args:
        stands: where these terms stand.
        asked: what each of them counts.
    """
    import numpy as np

    rows, n = view.columns.rows, view.n
    own, window = np.zeros((2, n + 1), np.float32)
    names, term, slots, times, _ = stands
    if not names:
        return Matched(own, window, np.zeros(view.columns.sessions, np.float32), slots, slots)
    worth = np.array([[asked[name].weight] for name in names], np.float32)
    weights = worth * np.array([[statistics.rarity(asked[name].docs)] for name in names], np.float32)
    average = max(1.0, statistics.terms / max(1, statistics.docs))

    texts = view.around(slots, ())
    # How often each term stands in each of these texts, text by text; in the last one, which is none, it never does.
    often = np.zeros((len(texts) + 1, len(names)), np.float32)
    place = np.full(n + 1, len(texts), np.int32)
    place[texts] = np.arange(len(texts))
    often[place[slots], term] = times
    alone = np.ascontiguousarray(often[:-1].T)
    own[texts] = (weights * _saturated(alone, rows["length"][texts], average)).sum(axis=0)

    around = view.around(texts[rows["kind"][texts] == TURN], (-1, 1))
    before, after = view.beside(around, -1), view.beside(around, 1)
    lengths = rows["length"]
    long = (
        lengths[around] + np.where(before >= 0, lengths[before], 0) + np.where(after >= 0, lengths[after], 0)
    )
    # To pick rows takes a tenth of the time of picking from each column, and to weigh columns less than to weigh rows.
    together = often.take(place[around], axis=0)
    for each in (before, after):
        together += often.take(place[each], axis=0)
    window[around] = (weights * _saturated(np.ascontiguousarray(together.T), long, 3 * average)).sum(axis=0)
    return Matched(own, window, _of_sessions(view, stands, worth), texts, around)


def _of_sessions(view: View, stands: Stands, worth: Numbers) -> Numbers:
    """Return the BM25 of sessions, by their code, given what each term counts, `float32[n, 1]`."""
    import numpy as np

    names, term, slots, times, _ = stands
    sessions, words_in = view.columns.sessions, view.columns.words_in(view.only)
    heard_of = max(1, int(np.count_nonzero(words_in[1:])))  # one of which nothing may be read is none
    average = max(1.0, float(words_in[1:].sum()) / heard_of)
    at = term * sessions + view.columns.rows["session"][slots]
    often = np.bincount(at, times, len(names) * sessions).reshape(len(names), sessions)
    with_term = np.count_nonzero(often[:, 1:], axis=1)[:, None]
    rare = worth * np.log(1 + (np.maximum(heard_of - with_term, 0) + 0.5) / (with_term + 0.5))
    found: Numbers = (rare * _saturated(often, words_in, average)).sum(axis=0).astype(np.float32)
    found[NOBODY] = 0.0
    return found


def _saturated(times: Any, lengths: Any, average: float) -> Any:
    """Return what so many occurrences in texts of such lengths are worth to BM25."""
    return times * (K1 + 1) / (times + K1 * (1 - B + B * lengths / average))
