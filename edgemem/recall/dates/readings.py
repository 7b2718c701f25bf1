"""Readings: what a phrase, or a range of two phrases, may mean, as seen from a day.

"Between Monday and Wednesday" is one time from the begin of its first end to the end of its last one. Which Monday and
which Wednesday is meant they tell together: the second one comes after the first, and what is told of one ("last week")
holds for the other. Only a question is open at one side: who says "since Monday" speaks of Monday, who asks so does not.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.languages.words import all_words, templates
from edgemem.provisions import provided
from edgemem.recall.dates.lexicon import Lexicon
from edgemem.recall.dates.spans import (
    Days,
    Reading,
    Today,
    easters,
    month_days,
    months,
    pick,
    seasons,
    weekdays,
    weekends,
    whole_day,
    year_days,
    year_days_of,
)
from edgemem.recall.dates.tokens import LAST_DAY, MAX_DIGITS, SETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date

    from edgemem.patterns import Pattern
    from edgemem.recall.dates.lexicon import Lexicon
    from edgemem.recall.dates.spans import Reading, Today
    from edgemem.recall.dates.tokens import Cluster, Piece


_HOLIDAYS = {
    "new_year": (1, 1),
    "epiphany": (1, 6),
    "valentine": (2, 14),
    "halloween": (10, 31),
    "saint_nicholas": (12, 6),
    "christmas_eve": (12, 24),
    "christmas": (12, 25),
    "new_year_eve": (12, 31),
}
"""The month and the day; Easter moves, and so does"""
_NEW_MOONS = """
2019-02-05 2020-01-25 2021-02-12 2022-02-01 2023-01-22 2024-02-10 2025-01-29 2026-02-17 2027-02-06 2028-01-26 2029-02-13
2030-02-03 2031-01-23 2032-02-11 2033-01-31 2034-02-19 2035-02-08
"""
"""Tết, which is the Chinese new year."""


def readings_of(
    parts: dict[str, Any], lexicon: Lexicon, day: Today, *, past: bool | None
) -> Iterator[Reading]:
    """Yield what the parts of a phrase may mean, the likeliest first."""
    if "span" in parts:
        yield day.weekday_near(parts["span"], parts["weekday"]) if "weekday" in parts else parts["span"]
        return
    part = parts.get("part")
    if "date" in parts:
        dates = [whole_day(*numbers) for numbers in _dates(parts["date"])]
        yield from (day.reading(days, 1.0 / len(dates), part) for days in dates)
        return
    shift = parts.get("shift")
    if "day" in parts or (part and shift in {-1, 0} and parts.keys().isdisjoint(SETS)):
        away = parts.get("day", shift or 0)
        yield day.reading(day.period("day", away), 1.0, part)
        return
    within: Days | None = None
    if "period" in parts:
        within = day.period(*parts["period"])
    elif "year" in parts:
        within = year_days(parts["year"])
    elif shift is not None and lexicon.whole_weeks and parts.keys() & {"weekday", "weekend"}:
        within = day.period("week", shift)
    listed = listed_of(parts, day.day if within is None else within[0], lexicon)
    if listed is not None:
        for days, sure in pick(listed, day.day, shift, past=past, within=within):
            yield day.reading(days, sure, part)
    elif within is not None:
        yield day.reading(within, 1.0)


def listed_of(parts: dict[str, Any], around: date, lexicon: Lexicon) -> list[Days] | None:
    """Return all that the parts can mean around a day; None of what does not come round."""
    if "month" in parts:
        if "number" not in parts:
            return months(around, parts["month"])
        dated = year_days_of(around, parts["month"], parts["number"])
        return _on_weekday(dated, parts.get("weekday")) or dated
    if "number" in parts and ("weekday" in parts or _numbers_a_day(parts, lexicon)):
        numbered = _on_weekday(month_days(around, parts["number"]), parts.get("weekday"))
        if numbered:
            return numbered
    if "holiday" in parts:
        return _holidays(around, parts["holiday"])
    if "season" in parts:
        return seasons(around, parts["season"])
    if "weekday" in parts:
        return weekdays(around, parts["weekday"])
    return weekends(around) if "weekend" in parts else None


def _on_weekday(listed: list[Days], weekday: int | None) -> list[Days]:
    """Return those that fall on a weekday: the tenth of May was a Friday in one year of some."""
    return [days for days in listed if weekday is None or days[0].weekday() == weekday]


def _numbers_a_day(parts: dict[str, Any], lexicon: Lexicon) -> bool:
    """Tell whether a number is marked as that of a day: ngày 7 before it, 7号 behind it, where no spaces are written."""
    order = list(parts)
    return "month_day" in parts and (order.index("month_day") > order.index("number")) == (lexicon.join == "")


def _holidays(around: date, name: str) -> list[Days]:
    if name in {"easter", "good_friday"}:
        return easters(around, -2 if name == "good_friday" else 0)
    if name == "tet":
        return [whole_day(*map(int, day.split("-"))) for day in _NEW_MOONS.split()]
    return year_days_of(around, *_HOLIDAYS[name])


def _dates(figures: str) -> Iterator[tuple[int, int, int]]:
    """Yield the years, months and days that figures may mean: 5/7/2023 is in May or in July."""
    sign = next(char for char in figures if not char.isdigit())
    first, second, third = figures.split(sign)
    if len(first) == MAX_DIGITS:
        yield int(first), int(second), int(third)
        return
    if len(third) not in {2, MAX_DIGITS}:
        return
    year = int(third) if len(third) == MAX_DIGITS else _century(int(third))
    day, month = int(first), int(second)
    orders = [(day, month)] if sign == "." or day == month else [(day, month), (month, day)]
    yield from ((year, month, day) for day, month in orders if month <= 12 and day <= LAST_DAY)


def _century(year: int) -> int:
    return year + (2000 if year < 70 else 1900)


EVER = 0.0
"""Where all begins that is over before a time: a robot remembers nothing that is older."""

_GAP = 3
"""Words that may stand beside those which bind a range."""
_BETWEEN_GAP = 12
"""Pieces from "between" to its "and"."""
_ABSOLUTE = ("day", "date", "span", "year", "period", "shift")
"""Parts that tell by themselves which one is meant."""


class Range(NamedTuple):
    """A time that has its ends told."""

    kind: str
    """`span`, or what tells its one end: `since`, `until`, `before`, `after`."""
    ends: tuple[Cluster, ...]
    begin: int
    end: int


@provided
def _moved() -> Pattern:
    """Return what tells that something is moved."""
    return templates([item for words in all_words().values() for item in words.dates.moved.items])


def part_at_and(pieces: Sequence[Piece]) -> None:
    """Have no phrase go on across the "and" of "between … and …"."""
    opened = closing = -1
    for at in range(len(pieces) - 1, -1, -1):  # in Chinese it is said behind both
        if pieces[at].label.get("closes") == "between":
            closing = at
        if _joins(pieces[at], "and") and 0 <= closing - at <= _BETWEEN_GAP:
            pieces[at].label.pop("small", None)
    for at, piece in enumerate(pieces):
        if piece.label.get("opens") == "between":
            opened = at
        elif "stop" in piece.label:
            opened = -1
        elif _joins(piece, "and") and 0 <= opened < at <= opened + _BETWEEN_GAP:
            piece.label.pop("small", None)


def ranges_in(
    written: str, pieces: Sequence[Piece], clusters: Sequence[Cluster], *, asked: bool
) -> list[Range]:
    """Return the ranges of a text in their order; no phrase is an end of two ranges.

    Args:
        written: the text in small letters.
        asked: whether one end makes a range, as in "since Monday".
    """
    ranges: list[Range] = []
    moved: bool | None = None
    at = 0
    while at < len(clusters):
        cluster = clusters[at]
        opened, opener = _opener(pieces, cluster)
        begin = cluster.begin if opened is None else pieces[opened].begin
        if at + 1 < len(clusters):
            other = clusters[at + 1]
            closed, closer = _closer(pieces, other)
            joined = _joiner(pieces[cluster.last + 1 : other.first])
            spans = {
                "and": opener == "between" or closer == "between",
                "to": opener in {"", "from", "since", "after"},
                "weak": opener in {"from", "since"},
            }.get(joined, False)
            if spans and joined != "and":
                moved = _moved().search(written) is not None if moved is None else moved
                spans = not moved
            if spans and _is_time(cluster, other, opener):
                end = pieces[closed].end if closed is not None and closer == "between" else other.end
                ranges.append(Range("span", (cluster, other), begin, end))
                at += 2
                continue
        if asked and (kind := _open_kind(written, pieces, cluster, opened, opener)):
            closed, closer = _closer(pieces, cluster)
            behind = closed is not None and closer == kind
            end = pieces[closed].end if behind and closed is not None else cluster.end
            ranges.append(Range(kind, (cluster,), cluster.begin if behind else begin, end))
        at += 1
    return ranges


def range_readings(extent: Range, lexicon: Lexicon, day: Today, *, past: bool | None) -> Iterator[Reading]:
    """Yield what a range may mean, the likeliest first."""
    if extent.kind == "span":
        yield from _spanned(extent.ends[0].parts, extent.ends[1].parts, lexicon, day, past=past)
        return
    parts = extent.ends[0].parts
    seen = list(readings_of(parts, lexicon, day, past=True if extent.kind == "since" else past))
    if extent.kind == "since":
        seen = [reading for reading in seen if reading[0] < day.now] or seen
    midnight = day.reading((day.day, day.day + timedelta(1)), 1.0)[1]
    for begin, end, sure in seen:
        if extent.kind in {"since", "after"}:
            first = begin if extent.kind == "since" else end
            # What is to come after a day has no end, and then the day itself is looked for.
            yield (first, midnight, sure) if first < min(day.now, midnight) else (begin, end, sure)
        else:
            last = end if extent.kind == "until" else begin
            yield (EVER if last <= midnight else day.now, last, sure)


def _spanned(
    first: dict[str, Any], last: dict[str, Any], lexicon: Lexicon, day: Today, *, past: bool | None
) -> Iterator[Reading]:
    first, last = _completed(first, last)
    free, follows = _comes_round(first, lexicon, day), _comes_round(last, lexicon, day)
    if free and not follows:
        for reading in readings_of(last, lexicon, day, past=past):
            if (start := _before(first, reading[0], lexicon, day)) is not None:
                yield start[0], reading[1], reading[2]
        return
    for reading in readings_of(first, lexicon, day, past=past):
        if not follows:
            ends = (end for end in readings_of(last, lexicon, day, past=past) if end[0] > reading[0])
            yield from ((reading[0], end[1], min(reading[2], end[2])) for end in ends)
            continue
        begin: Reading | None = reading
        end = _after(last, reading[0], lexicon, day)
        if past and free and reading[0] < day.now and end is not None and end[0] > day.now:
            # All of it is over: from Wednesday to Friday, asked on a Thursday.
            begin = _before(first, reading[0], lexicon, day)
            end = None if begin is None else _after(last, begin[0], lexicon, day)
        if begin is not None and end is not None:
            yield begin[0], end[1], reading[2]


def _completed(first: dict[str, Any], last: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both ends, each with what is told of the other alone: the 3rd to the 5th of May, March and May 2023."""
    if first.keys() <= {"number", "month_day"} and "month" in last:
        first = {"month": last["month"], **first}
    if last.keys() <= {"number", "month_day"} and "month" in first:
        last = {"month": first["month"], **last}
    whole: dict[str, Any] = {kind: last[kind] for kind in ("year", "period") if kind in last}
    if whole and len(last) > len(whole) and first.keys().isdisjoint(_ABSOLUTE):
        first = {**first, **whole}
    return first, last


def _comes_round(parts: dict[str, Any], lexicon: Lexicon, day: Today) -> bool:
    """Tell whether an end may be one of many: Monday, but not last Monday."""
    return parts.keys().isdisjoint(_ABSOLUTE) and listed_of(parts, day.day, lexicon) is not None


def _near(parts: dict[str, Any], at: float, lexicon: Lexicon, day: Today) -> list[Reading]:
    """Return all that an end may be around a moment, in order of time."""
    around = datetime.fromtimestamp(at, day.zone).date()
    listed = listed_of(parts, around, lexicon) or []
    return [day.reading(days, 1.0, parts.get("part")) for days in sorted(listed)]


def _before(parts: dict[str, Any], at: float, lexicon: Lexicon, day: Today) -> Reading | None:
    return next((reading for reading in _near(parts, at, lexicon, day)[::-1] if reading[0] < at), None)


def _after(parts: dict[str, Any], at: float, lexicon: Lexicon, day: Today) -> Reading | None:
    return next((reading for reading in _near(parts, at, lexicon, day) if reading[0] > at), None)


def _is_time(first: Cluster, last: Cluster, opener: str) -> bool:
    """Tell whether two ends are times, and not numbers or names that may be months."""
    both = (first, last)
    if all(cluster.parts.keys() == {"number"} for cluster in both):
        return False
    return bool(opener) or not any(cluster.doubtful for cluster in both)


def _open_kind(
    written: str, pieces: Sequence[Piece], cluster: Cluster, opened: int | None, opener: str
) -> str:
    """Return the kind of an open range with this end alone: since, until, before or after; empty: there is none."""
    if cluster.parts.keys() == {"number"}:
        return ""
    closed, closer = _closer(pieces, cluster)
    if closed is not None and closer in {"since", "until", "before", "after"}:
        return closer
    # After Monday's meeting is on Monday; the day before Christmas is one day.
    owned = written[cluster.end - 2 : cluster.end] in {"'s", "’s"}
    if opened is None or owned or (opened and "unit" in pieces[opened - 1].label):
        return ""
    return opener if opener in {"since", "until", "before", "after"} else ""


def _opener(pieces: Sequence[Piece], cluster: Cluster) -> tuple[int | None, str]:
    """Return the place of the word that opens a range before a phrase, and what it says."""
    for at in range(cluster.first - 1, max(cluster.first - 2 - _GAP, -1), -1):
        label = pieces[at].label
        if "opens" in label:
            return at, str(label["opens"])
        if label.keys().isdisjoint({"small", "before"}):
            break
    return None, ""


def _closer(pieces: Sequence[Piece], cluster: Cluster) -> tuple[int | None, str]:
    """Return the place of the word that tells behind a phrase what range it ends, and what it says."""
    for at in range(cluster.last + 1, min(cluster.last + 2, len(pieces))):
        if "closes" in pieces[at].label:
            return at, str(pieces[at].label["closes"])
    return None, ""


def _joiner(between: Sequence[Piece]) -> str:
    """Return what binds two phrases, given what stands between them: `to`, `and`, `weak`, or nothing."""
    joins = [str(piece.label["joins"]) for piece in between if "joins" in piece.label]
    others = (piece.label for piece in between if "joins" not in piece.label)
    if len(between) > _GAP + 1 or any(label.keys().isdisjoint({"small", "before"}) for label in others):
        return ""
    return next((kind for kind in ("to", "and", "weak") if kind in joins), "")


def _joins(piece: Piece, kind: str) -> bool:
    return piece.label.get("joins") == kind
