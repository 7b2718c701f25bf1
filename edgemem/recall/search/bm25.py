"""BM25 of the words of a question: in each text, in each message with its neighbours, and in each session.

BM25 is computed three times, over the same occurrences: of a message alone, of a message with the one before and the one
after it, and of a session as a whole, because an answer often does not repeat the words of its question. Scores are given
as a share of the best that the question's words could reach, so that they lie between 0 and 1 and mean the same from one
question to the next. The formula is FTS5's own.
"""

from __future__ import annotations

from itertools import accumulate
from math import log
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.recall.index.sources import TURN
from edgemem.recall.search.table import NOBODY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.people.alike import TermWeight
    from edgemem.recall.search.view import View

    Slots = NDArray[np.intp]
    Numbers = NDArray[np.float32]


K1, B = 1.2, 0.75
MAX_TERMS = 24
MAX_MATCHES = 1500
"""The commonest terms of a question are left out while the others alone match this many texts: each text costs
time to score, and such a term tells little apart."""


class Statistics(msgspec.Struct, frozen=True):
    """How common terms are, in the index and in the tail together."""

    docs: int
    terms: int
    """The number of terms that they have together."""
    counts: Mapping[str, int]
    """By term, the number of texts that it stands in."""

    def idf(self, docs: float) -> float:
        """Return the inverse document frequency, as FTS5 has it, of a term that stands in so many texts."""
        # With 1 inside of the logarithm it is never negative (Lucene's BM25Similarity): in a memory of two facts each
        # word is common, and still tells more than nothing.
        return log(1 + max(0.0, self.docs - docs + 0.5) / (docs + 0.5))

    def best(self, docs: Iterable[float]) -> float:
        """Return the highest score that a text can have, given for each term the number of texts that it stands in."""
        return sum(map(self.idf, docs)) * (K1 + 1)

    def informative(self, terms: Sequence[str]) -> list[str]:
        """Return the terms that are worth looking for: the rarest first, those that stand nowhere last."""
        count = self.counts.get
        rare = sorted(terms, key=lambda term: (not count(term, 0), count(term, 0), term))
        total = list(accumulate(count(term, 0) for term in rare))
        return [term for term, n in zip(rare, total, strict=True) if n <= max(MAX_MATCHES, total[0])][
            :MAX_TERMS
        ]


def note_bm25(
    view: View,
    postings: Sequence[tuple[str, Slots, Numbers]],
    asked: Mapping[str, TermWeight],
    statistics: Statistics,
) -> tuple[Slots, Slots]:
    """Note the BM25 of texts, windows and sessions in the view; return the slots of texts and of windows that may score.

    Args:
        postings: terms, with the slots that each stands in, and how often.
        asked: the weight of each of these terms.
    """
    import numpy as np

    rows, n = view.columns.rows, view.n
    if not postings:
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    names = [name for name, _, _ in postings]
    worth = np.array([[asked[name].weight] for name in names], np.float32)
    weights = worth * np.array([[statistics.idf(asked[name].docs)] for name in names], np.float32)
    term = np.repeat(np.arange(len(names)), [len(slots) for _, slots, _ in postings])
    slots, times = (np.concatenate([posting[part] for posting in postings]) for part in (1, 2))
    may = view.may[slots]
    term, slots, times = term[may], slots[may], times[may]
    average = max(1.0, statistics.terms / max(1, statistics.docs))

    texts = view.around(slots, ())
    # How often each term stands in each of these texts, text by text; in the last one, which is none, it never does.
    often = np.zeros((len(texts) + 1, len(names)), np.float32)
    place = np.full(n + 1, len(texts), np.int32)
    place[texts] = np.arange(len(texts))
    often[place[slots], term] = times
    alone = np.ascontiguousarray(often[:-1].T)
    view.words[texts] = (weights * _saturated(alone, rows["length"][texts], average)).sum(axis=0)

    around = view.around(texts[rows["kind"][texts] == TURN], (-1, 1))
    before, after = view.beside(around, -1), view.beside(around, 1)
    lengths = rows["length"]
    long = (
        lengths[around] + np.where(before >= 0, lengths[before], 0) + np.where(after >= 0, lengths[after], 0)
    )
    # To pick rows takes a tenth of the time of picking from each column, and to weigh columns less than to weigh rows.
    together = often.take(place[around], axis=0)
    for neighbours in (before, after):
        together += often.take(place[neighbours], axis=0)
    view.window[around] = (weights * _saturated(np.ascontiguousarray(together.T), long, 3 * average)).sum(
        axis=0
    )
    sessions = view.columns.sessions
    at = term * sessions + rows["session"][slots]
    in_sessions = np.bincount(at, times, len(names) * sessions).reshape(len(names), sessions)
    view.session = _of_sessions(view, in_sessions, worth)
    return texts, around


def _of_sessions(view: View, often: NDArray[Any], worth: Numbers) -> Numbers:
    """Return the BM25 of sessions by their code.

    Args:
        often: how often each term stands in each session.
        worth: the weight of each term, `float32[n, 1]`.
    """
    import numpy as np

    words_in = view.words_in_sessions()
    heard_of = max(1, int(np.count_nonzero(words_in[1:])))  # one of which nothing may be read is none
    average = max(1.0, float(words_in[1:].sum()) / heard_of)
    with_term = np.count_nonzero(often[:, 1:], axis=1)[:, None]
    rare = worth * np.log(1 + (np.maximum(heard_of - with_term, 0) + 0.5) / (with_term + 0.5))
    scores: Numbers = (rare * _saturated(often, words_in, average)).sum(axis=0).astype(np.float32)
    scores[NOBODY] = 0.0
    return scores


def _saturated(times: Any, lengths: Any, average: float) -> Any:
    """Return what so many occurrences in texts of such lengths are worth to BM25."""
    return times * (K1 + 1) / (times + K1 * (1 - B + B * lengths / average))
