"""Times: the moments and periods that a question is asked of, and which texts and facts are of them.

Only a fact is true of a time; words, deeds, notes and summaries count from when they were learnt. A question for a period and nothing
else lists what is of that: what speaks of it and, of a past one, what was said then; longer messages first, so that "ok" does not
come before a sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from edgemem.errors import InvalidInputError
from edgemem.preload import np
from edgemem.recall.index.docs import ASKS, GREETS, SUPPOSES
from edgemem.recall.index.sources import BANK, EPISODE, FACT, GOAL, KINDS, NOTE, PREFERENCE, SUMMARY, TURN
from edgemem.recall.index.table import NOBODY
from edgemem.recall.text.calendar import Range
from edgemem.store.validation import checked_tick, checked_time

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.recall.index.table import DocTable
    from edgemem.recall.index.view import QueryView
    from edgemem.recall.query import ParsedQuery, Question

    Numbers = NDArray[np.float32]
    Slots = NDArray[np.intp]

_SURE = 0.5  # a less sure time is one of several readings
_DAY_S = 86400.0
_SPOKEN_WITHIN_S = 86400.0  # deeds are told until the end of the next day
_SPOKEN_LATER = 0.9
"""The share of a text told on the next day: the day itself comes first, all else equal (chosen as `tests/lab/tuning.md` says)."""
_FEW_DAYS_S = 3 * 86400.0  # a weekend, and the hour that a clock may be set by
_LIKELY = 0.5  # readings of a time that are as sure count; of a period that is asked for, else the likeliest
_MOST = 64  # texts
_LEAST_TOLD, _LEAST_SCORE = 0.63, 0.4
_SCORES = {TURN: 0.93, EPISODE: 0.63, SUMMARY: 0.44}
_SCORES |= dict.fromkeys((FACT, PREFERENCE, GOAL), 0.59) | dict.fromkeys((NOTE, BANK), 0.51)
"""Lowest score of a message and of another text, not below the profile's floor, since the question wants an answer, and the highest
by kind; others are of no time."""
_ABOUT = 0.1  # least share of a text's time in a period, times both sureties, if not said then
_OVER = 0.5  # the share of what is over, where a question for a coming day may mean that one
_OTHERS = 0.5  # the share of what is about other people than those asked for
_LEAST, _LONGEST = 2, 20  # stems: "that's fine" tells nothing; a longer text is cut before it is said
_PLAN_S = 8 * 86400.0  # "in May" and "this year" are no day of a plan
_PLAN = 6  # stems that tell what is to come; a habit told at length stands behind it


class When(NamedTuple):
    """A moment in either time; seconds since the epoch."""

    valid_at: float
    known_at: float | None
    """None: as known now."""

    @property
    def known_tick(self) -> int | None:
        """Return `known_at` as a tick of the clock."""
        return None if self.known_at is None else checked_tick(self.known_at, "known_at")


def checked_when(valid_at: float | None, known_at: float | None) -> When | None:
    """Return the moment asked for; None: now, as known now."""
    known = None if known_at is None else checked_time(known_at, "known_at")
    if known is not None and known < 0:
        raise InvalidInputError(
            f"known_at must be a moment since 1970, not {known:g}: before, no memory knew anything; leave it out for now."
        )
    if valid_at is not None:
        return When(checked_time(valid_at, "valid_at"), known)
    return None if known is None else When(known, known)


def past_times(asked: Question, now: float) -> list[Range]:
    """Return the past times whose facts a question asks for; of readings that are as likely the earliest, since no fact held later."""
    likeliest: dict[str, Range] = {}
    for span in sorted(asked.times, key=lambda span: (-span.sure, span.begin)):
        likeliest.setdefault(span.text, span)
    times = [_with_facts(span, now) for span in likeliest.values() if span.sure >= _SURE]
    if asked.tense.speaks:  # "which codes did it have this year?"
        times = [Range(span.begin, min(span.end, now)) for span in times]
    return sorted(
        (span for span in times if span.begin < span.end <= now), key=lambda span: (span.begin, span.end)
    )


def _with_facts(span: Range, now: float) -> Range:
    """Return the time of the meant facts: of an open range the last day before its end, or all from its begin on."""
    if span.kind in {"until", "before"}:
        return Range(span.ends[0].begin - _DAY_S, span.ends[0].begin)
    if span.kind in {"since", "after"}:
        return Range(span.ends[0].begin if span.kind == "since" else span.ends[0].end, now)
    return span


def on_dates(table: DocTable, question: ParsedQuery) -> Slots:
    """Return the slots of texts that speak of a time in the question, best first."""
    shares = spoken_of(table, question)[:-1]
    dated = np.flatnonzero(shares)
    best: Slots = dated[np.argsort(-shares[dated], kind="stable")]
    return best


def spoken_of(table: DocTable, question: ParsedQuery, *, now: float | None = None) -> Numbers:
    """Return, by slot, how well each text's times are the question's, 0 to 1; one more at the end.

    Given `now`, it is how much of a text's time is inside of the question's; of days in a longer time none that are over.
    """
    scores, spans = np.zeros(table.n + 1, np.float32), table.spans()
    if now is not None and any(span.end - span.begin > _DAY_S for span in question.times):
        spans = spans[(spans[:, 2] > now) | (spans[:, 4] > 0)]
    np.maximum.at(scores, spans[:, 0].astype(np.intp), _overlap(spans, question, now))
    return scores


def times_within(view: QueryView, begin: float, end: float) -> dict[tuple[int, int], Range]:
    """Return, by kind and id of each text that may be found, the first time in it that touches a period and does not come again."""
    spans = view.table.spans()
    slots, begins, ends, sure, every = spans.T
    hits = (
        (slots >= 0)
        & (begins < end)
        & (ends > begin)
        & (sure >= _SURE)
        & (every == 0)
        & (ends - begins <= _PLAN_S)
    )
    found: dict[tuple[int, int], Range] = {}
    for slot, first, last, *_ in spans[
        hits & view.findable[np.minimum(slots, view.n).astype(np.intp)]
    ].tolist():
        row = {name: int(view.table.rows[name][int(slot)]) for name in ("kind", "ref")}
        known = found.get((row["kind"], row["ref"]))
        if known is None or first < known.begin:
            found[row["kind"], row["ref"]] = Range(first, last)
    return found


def date_scores(at: NDArray[np.float64], question: ParsedQuery) -> Numbers:
    """Return how sure it is, 0 to 1, that each text was said at a time in the question, or, a little less, the day after."""
    scores = np.zeros(len(at), np.float32)
    for span in question.times:
        then = (at >= span.begin) & (at < span.end)
        later = (at >= span.end) & (at < span.end + _SPOKEN_WITHIN_S)
        scores = np.maximum(scores, np.float32(span.sure) * (then + np.float32(_SPOKEN_LATER) * later))
    return scores


def _overlap(spans: NDArray[np.float64], question: ParsedQuery, now: float | None) -> NDArray[np.float32]:
    """Return the common share of a text's and the question's time, or, given `now`, of the text's alone, times how sure both are."""
    inside, period = now is not None, None if now is None else question.period
    shares = np.zeros(len(spans))
    _, begins, ends, sure, every = spans.T
    lengths = ends - begins
    if period is not None and period.more:
        sure = np.where(every > 0, 0.0, sure)  # a habit is found by what else is asked
    likeliest: dict[str, float] = {}
    for span in question.times:
        best = likeliest.setdefault(span.text, span.sure)
        reading, over = span.sure / best, now is not None and span.end <= now
        # "Next Friday" may be the one of next week; what happened last Friday is not on then.
        if period is not None and (over or not period.coming):
            reading = (reading == 1.0) * (_OVER if period.coming else 1.0)
        weeks = np.round((span.begin - begins) / np.where(every > 0, every, np.inf))
        later = every * np.maximum(weeks, 0)  # what comes each week is of this one as well
        first, last, asked = begins + later, ends + later, span.end - span.begin
        common = np.minimum(last, span.end) - np.maximum(first, span.begin)
        if asked < _DAY_S:  # a night is of the day on which it begins, which has other parts too
            begun = (first <= span.begin) & (span.begin < last)
            common = np.where(lengths >= _DAY_S, asked * begun, common)
        # A part of a day is of that day; a day of a longer time is less so, the longer that is.
        of_day = np.minimum(lengths, asked) if asked <= _FEW_DAYS_S or inside else np.sqrt(lengths * asked)
        longest = lengths if inside else np.maximum(lengths, asked)
        length = np.where(lengths > _DAY_S, longest, of_day)
        shares = np.maximum(shares, reading * sure * np.maximum(common, 0) / np.maximum(length, 1.0))
    return shares.astype(np.float32)


def period_candidates(
    view: QueryView, question: ParsedQuery, of_period: Numbers
) -> tuple[Slots, NDArray[np.float64]] | None:
    """Return slots and scores, 0 to 1, of the best texts of a period (`of_period`: `period_shares`); None: the question asks for more."""
    if question.period is None or question.period.more:
        return None
    slots = np.flatnonzero((of_period > 0) & view.findable[: view.n])
    rows = {name: column[slots] for name, column in view.table.rows.items()}
    (before,) = view.table.neighbours(slots, (-1,))
    replies = (before >= 0) & (view.table.rows["turn"][before] == rows["turn"]) & (rows["who"] == NOBODY)
    silent = replies | ((rows["flags"] & (ASKS | GREETS)) > 0) | (rows["length"] < _LEAST)
    told = np.minimum(rows["length"], _PLAN if question.period.coming else _LONGEST) * of_period[slots]
    told = told / told.max(initial=1.0) * ((rows["flags"] & SUPPOSES) == 0)
    highest = np.array([_SCORES.get(number, 0.0) for number in KINDS])[rows["kind"]]
    lowest = np.where(rows["kind"] == TURN, _LEAST_TOLD, _LEAST_SCORE)
    scores = np.where(
        (highest > 0) & ~(silent & (rows["kind"] == TURN)), lowest + (highest - lowest) * told, 0.0
    )
    best = np.lexsort((-rows["at"], -scores))[:_MOST]
    best = best[scores[best] > 0]
    return slots[best], scores[best]


def period_shares(view: QueryView, question: ParsedQuery, now: float) -> Numbers:
    """Return by slot how well each text is of the period that a question asks for, 0 to 1: about it, or, of a past one, said then."""
    period, n = question.period, view.n
    if period is None:
        return np.zeros(n, np.float32)
    shares = spoken_of(view.table, question, now=now if period.coming else 0.0)[:n]
    shares[shares < _ABOUT] = 0.0
    if not period.coming:
        surest = max(span.sure for span in question.times)
        at = view.table.rows["at"][:n]
        for span in question.times:
            if span.sure >= min(_LIKELY, surest):
                shares[(at >= span.begin) & (at < span.end)] = 1.0
    if period.people:
        slots = np.flatnonzero(shares)
        codes = [code for name in period.people if (code := view.table.codes.get(name)) is not None]
        theirs = np.isin(view.table.rows["who"][slots], codes) | view.mentions[slots]
        shares[slots[~theirs]] *= _OTHERS if period.coming else 0.0
    return shares
