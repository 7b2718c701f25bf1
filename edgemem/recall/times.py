"""Times: the moments and periods that a question is asked of, and which texts and facts are of them.

A fact alone is true of a time. A word, a deed, a note and a summary stay true; each counts from when it was learnt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from edgemem.errors import InvalidInputError
from edgemem.recall.dates.calendar import Range
from edgemem.recall.index.sources import TURN
from edgemem.store.fact_queries import held_at
from edgemem.store.validation import checked_tick, checked_time

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.index.table import DocTable
    from edgemem.recall.query import ParsedQuery, Question
    from edgemem.records import Reader
    from edgemem.store.db.database import Database

    Numbers = NDArray[np.float32]

_SURE = 0.5  # a time that is less sure than this is one of several readings
_DAY_S = 86400.0
_SPOKEN_WITHIN_S = 86400.0
"""Seconds within which somebody tells what they did: until the end of the next day."""
_SPOKEN_LATER = 0.9
"""The share of a text that was told on the next day: one of the day itself comes first where nothing else
tells the two apart (chosen as `tests/lab/tuning.md` says)."""
_FEW_DAYS_S = 3 * 86400.0
"""The longest time of which all messages are looked through: a weekend, and the hour that a clock may be set by."""
_LIKELY = 0.5


class When(NamedTuple):
    """A moment in either time; seconds since the epoch."""

    valid_at: float
    known_at: float | None
    """None: as it is known now."""

    @property
    def known_tick(self) -> int | None:
        """Return a time of `known_at` as a tick of the clock."""
        return None if self.known_at is None else checked_tick(self.known_at, "known_at")

    def valid_statements(self, truth: Database, reader: Reader | None) -> list[int]:
        """Return the statements that held then and may be read, as far as was known, by their ids in ascending order.

        All keys are looked at, so that no number of other versions of a fact takes the place of the one that held.
        """
        return held_at(truth, self.valid_at, known_at=self.known_at, reader=reader)


def checked_when(valid_at: float | None, known_at: float | None) -> When | None:
    """Return a moment as it was asked for; None: now, as it is known now."""
    known = None if known_at is None else checked_time(known_at, "known_at")
    if known is not None and known < 0:
        raise InvalidInputError(
            f"known_at must be a moment since 1970, not {known:g}: before, no memory knew anything; leave it out for now."
        )
    if valid_at is not None:
        return When(checked_time(valid_at, "valid_at"), known)
    return None if known is None else When(known, known)


def past_times(asked: Question, now: float) -> list[Range]:
    """Return the past times whose facts a question asks for.

    Args:
        now: seconds since the epoch.
    """
    likeliest: dict[str, Range] = {}
    for span in asked.times:
        likeliest.setdefault(span.text, span)
    times = [_with_facts(span, now) for span in likeliest.values() if span.sure >= _SURE]
    if asked.tense.speaks:  # "which codes did it have this year?"
        times = [Range(span.begin, min(span.end, now)) for span in times]
    return sorted(
        (span for span in times if span.begin < span.end <= now), key=lambda span: (span.begin, span.end)
    )


def _with_facts(span: Range, now: float) -> Range:
    """Return the time whose facts are meant: of an open range the last day before its end, or all from its begin on."""
    if span.kind in {"until", "before"}:
        return Range(span.ends[0].begin - _DAY_S, span.ends[0].begin)
    if span.kind in {"since", "after"}:
        return Range(span.ends[0].begin if span.kind == "since" else span.ends[0].end, now)
    return span


def on_dates(table: DocTable, question: ParsedQuery) -> NDArray[np.intp]:
    """Return the slots of the texts that speak of a time that the question speaks of, the best first."""
    import numpy as np

    spans = table.spans()
    if not question.times or not len(spans):
        return np.zeros(0, np.intp)
    shares = _overlap(spans, question)
    dated = np.flatnonzero(shares > 0)
    best: NDArray[np.intp] = spans[dated[np.argsort(-shares[dated], kind="stable")], 0].astype(np.intp)
    return best


def on_days(table: DocTable, question: ParsedQuery) -> NDArray[np.intp]:
    """Return the slots of the messages that were said on a day that the question speaks of, as they were said."""
    import numpy as np

    at, kind = table.rows["at"][: table.n], table.rows["kind"][: table.n]
    inside = np.zeros(table.n, bool)
    for span in question.times:
        if span.end - span.begin <= _FEW_DAYS_S and span.sure >= _LIKELY:
            inside |= (at >= span.begin) & (at < span.end)
    return np.flatnonzero(inside & (kind == TURN))


def spoken_of(table: DocTable, question: ParsedQuery) -> Numbers:
    """Return, by slot, how well the times that each text speaks of are the question's, 0 to 1; one more at the end."""
    import numpy as np

    scores = np.zeros(table.n + 1, np.float32)
    if question.times:
        spans = table.spans()
        np.maximum.at(scores, spans[:, 0].astype(np.intp), _overlap(spans, question))
    return scores


def date_scores(at: NDArray[np.float64], question: ParsedQuery) -> Numbers:
    """Return how sure it is that each text was said at a time that the question speaks of, or the day after, a little less, 0 to 1.

    Args:
        at: when it was said, seconds since the epoch.
    """
    import numpy as np

    scores = np.zeros(len(at), np.float32)
    for span in question.times:
        then = (at >= span.begin) & (at < span.end)
        later = (at >= span.end) & (at < span.end + _SPOKEN_WITHIN_S)
        scores = np.maximum(scores, np.float32(span.sure) * (then + np.float32(_SPOKEN_LATER) * later))
    return scores


def _overlap(spans: NDArray[np.float64], question: ParsedQuery) -> NDArray[np.float32]:
    """Return the share of the longer of two times, a text's and the question's, that they have in common, times how sure both are."""
    import numpy as np

    shares = np.zeros(len(spans))
    for span in question.times:
        common = np.minimum(spans[:, 2], span.end) - np.maximum(spans[:, 1], span.begin)
        longer = np.maximum(spans[:, 2] - spans[:, 1], max(span.end - span.begin, 1.0))
        shares = np.maximum(shares, span.sure * spans[:, 3] * np.maximum(common, 0) / longer)
    return shares.astype(np.float32)
