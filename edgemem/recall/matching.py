"""Matching: what the words of a question are worth in each text, with its neighbours, and in each session.

BM25 three times, over the same occurrences: a message alone, a message with the one before and the one after it, and a
session as a whole, because an answer often does not repeat the words of its question.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.recall.columns import NOBODY, Columns
from edgemem.recall.lexical import K1, B
from edgemem.recall.sources import TURN

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.candidates import Filter
    from edgemem.recall.lexical import Statistics

    Slots = NDArray[np.intp]
    Numbers = NDArray[np.float32]


class Matched(NamedTuple):
    """BM25 of the words of a question; by slot, or by session."""

    own: Numbers
    """Of each text by itself."""
    window: Numbers
    """Of a message together with the one before and the one after it, as if they were one text."""
    session: Numbers
    """Of all messages of a session together, by its code."""


def matched(
    columns: Columns, found: Iterable[tuple[str, Slots, Numbers]], statistics: Statistics, only: Filter
) -> Matched:
    """Return the BM25 of the texts that terms stand in; what may not be found counts for nothing.

    Args:
        found: terms, with the slots that each stands in, and how often.
    """
    import numpy as np

    rows, n, sessions = columns.rows, columns.n, columns.sessions
    own, window, session = np.zeros(n, np.float32), np.zeros(n, np.float32), np.zeros(sessions, np.float32)
    stands = list(found)
    if not stands:
        return Matched(own, window, session)
    anywhere = np.unique(np.concatenate([slots for _, slots, _ in stands]))
    readable = np.zeros(n, bool)
    readable[anywhere] = columns.allowed(anywhere, only)
    hits: dict[str, list[tuple[Slots, Numbers]]] = {}
    for term, slots, times in stands:
        may = readable[slots]
        hits.setdefault(term, []).append((slots[may], times[may]))
    average = max(1.0, statistics.terms / max(1, statistics.docs))
    for term, parts in hits.items():
        weight = statistics.weight(term)
        for slots, times in parts:
            own[slots] += weight * _saturated(times, rows["length"][slots], average)
    texts = np.flatnonzero(own)
    messages = rows["id"][texts[rows["kind"][texts] == TURN]]
    slot_of = columns.slots({doc + step for doc in messages.tolist() for step in (-1, 0, 1)})
    around = np.array(sorted(slot_of.values()), np.intp)
    around = around[(rows["kind"][around] == TURN) & columns.allowed(around, only)]
    before, after = (_readable(columns, columns.beside(around, step), only) for step in (-1, 1))
    # Slot -1, beyond the last one, holds nothing.
    lengths = np.append(rows["length"][:n], 0)
    long = lengths[around] + lengths[before] + lengths[after]
    words_in = columns.words_in(only)
    long_session = max(1.0, float(words_in[1:].mean()) if sessions > 1 else 1.0)
    dense = np.zeros(n + 1, np.float32)
    for term, parts in hits.items():
        in_session = np.zeros(sessions)
        for slots, times in parts:
            dense[slots] = times
            in_session += np.bincount(rows["session"][slots], times, sessions)
        together = dense[around] + dense[before] + dense[after]
        window[around] += statistics.weight(term) * _saturated(together, long, 3 * average)
        with_term = np.count_nonzero(in_session)
        rare = log(1 + (sessions - with_term + 0.5) / (with_term + 0.5))
        session += (rare * _saturated(in_session, words_in, long_session)).astype(np.float32)
        for slots, _ in parts:
            dense[slots] = 0
    session[NOBODY] = 0.0
    return Matched(own, window, session)


def _saturated(times: Any, lengths: Any, average: float) -> Any:
    """Return what so many occurrences in texts of such lengths are worth to BM25."""
    return times * (K1 + 1) / (times + K1 * (1 - B + B * lengths / average))


def _readable(columns: Columns, slots: Slots, only: Filter) -> Slots:
    """Return slots, and -1 for what may not be read: not even how long it is may be told from a score."""
    import numpy as np

    good = slots >= 0
    good[good] = columns.allowed(slots[good], only)
    return np.where(good, slots, -1)
