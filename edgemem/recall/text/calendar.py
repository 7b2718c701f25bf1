"""Calendar: ranges of time, and the days of a month, a weekday, a season or "three weeks ago" as seen from one day.

A recurring day is listed around that day, and one rule picks from the list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Any, Literal

import msgspec

Days = tuple[date, date]
"""From the first day up to, but without, the second."""
Kind = Literal["", "span", "since", "until", "before", "after"]
"""The named ends of a range: none, both (`span`), or one and the word before it."""

LIKELY, EVEN, UNLIKELY = 0.7, 0.5, 0.3
RECURRING = ("month", "season", "weekday", "weekend")
"""Parts of a phrase with a last and a next one."""
FIXED = ("day", "date", "within", "year", "shift")
"""Parts of a phrase that occur once in all time."""
_LAST_DAY, _YEAR_DIGITS = 31, 4
_YEARS_AROUND = 4  # enough for the 29th of February
_WEEKS_AROUND, _MONTHS_AROUND = 3, 6
_WEEK, _SATURDAY = 7, 5
_HOURS = {"morning": (5, 12), "noon": (11, 14), "afternoon": (12, 18), "evening": (17, 24), "night": (20, 29)}
_UNIT_DAYS = {"day": 1, "week": 7, "fortnight": 14, "month": 30, "year": 365}
_SLACK_DAYS = {"day": 0, "week": 3, "fortnight": 0, "month": 10, "year": 120}
"""How far from the exact day "two weeks ago" may be."""
_MOST_UNITS = 1000
_WEEKS_AHEAD = {(1, "week"): 1, (7, "day"): 1, (8, "day"): 1, (15, "day"): 2, (1, "fortnight"): 2}
_WEEK_S = 7 * 86400.0
_NEAR_DAYS, _FAR_DAYS = 60, 200
"""So near to come, a day of the year is as likely as so far back, in a sentence about the past: they asked whether it suits us."""


class Range(msgspec.Struct, frozen=True):
    """A time that a text names: from `begin` up to `end`, seconds since the epoch."""

    begin: float
    end: float
    sure: float = 1.0
    """1 where only this can be meant, less for one of several readings."""
    text: str = ""
    """Its words, as in the text."""
    kind: Kind = ""
    ends: tuple[Range, ...] = ()
    """The ranges of its ends by themselves: of "since Monday" Monday."""
    every: float = 0.0
    """Seconds after which it comes again; 0: it does not."""

    def holds(self, moment: float) -> bool:
        """Tell whether a moment lies in it."""
        return self.begin <= moment < self.end


class Calendar(msgspec.Struct, frozen=True):
    """The days around `day`, with midnights of `zone`; with `whole_weeks`, "last Friday" is the Friday of the week before."""

    day: date
    zone: tzinfo | None
    whole_weeks: bool = False

    def midnight(self, day: date) -> float:
        """Return the begin of a day, seconds since the epoch."""
        return datetime.combine(day, time(), tzinfo=self.zone).timestamp()

    def range(self, days: Days, sure: float, text: str, part: str | None = None) -> Range:
        """Return days, or a part of the first, as a range."""
        begin, end = map(self.midnight, days)
        if part is not None:
            first, last = _HOURS[part]
            begin, end = begin + first * 3600.0, begin + last * 3600.0
        return Range(begin, end, sure, text)

    def counted(self, count: int, unit: str) -> Days:
        """Return the days so many units from now; negative is past."""
        day, slack = self._moved(count, unit), timedelta(_SLACK_DAYS[unit])
        return day - slack, day + slack + timedelta(1)

    def stretch(self, count: int, unit: str) -> Days:
        """Return the last `count` units up to now, or the next from now."""
        first, last = sorted((self.day, self._moved(count, unit)))
        return first, last + timedelta(1)

    def period(self, unit: str, shift: int) -> Days:
        """Return this day, week, month or year, or the one `shift` away."""
        if unit == "week":
            return _week(self.day, shift)
        if unit == "month":
            return _month(self.day.year, self.day.month + shift)
        if unit == "fortnight":
            return self.stretch(shift, unit)
        return _year(self.day.year + shift) if unit == "year" else _single(self.day + timedelta(shift))

    def _moved(self, count: int, unit: str) -> date:
        if abs(count) > _MOST_UNITS:
            raise OverflowError
        if unit in {"month", "year"}:
            first = _month(self.day.year, self.day.month + count * (12 if unit == "year" else 1))
            return min(first[0] + timedelta(self.day.day - 1), first[1] - timedelta(1))
        return self.day + timedelta(count * _UNIT_DAYS[unit])

    def meanings(self, parts: dict[str, Any], *, past: bool | None) -> Iterator[tuple[Days, float]]:
        """Yield the days that parts of a phrase may mean, likeliest first, with chances; `past` None: the tense is unknown."""
        if "date" in parts:
            dates = [_single(date(*numbers)) for numbers in _dates(parts["date"])]
            yield from ((days, 1.0 / len(dates)) for days in dates)
            return
        shift = parts.get("shift")
        if "day" in parts or (shift in {-1, 0} and parts.keys() == {"part", "shift"}):
            yield self.period("day", parts.get("day", shift or 0)), 1.0
            return
        within = self._within(parts)
        listed = self.occurrences(parts)
        if listed is None:
            if within is not None:
                yield within, 1.0
        elif within is not None:
            yield from ((days, 1.0) for days in listed[:1])
        else:
            yield from self._pick(listed, shift, past=past)

    def weekly(self, parts: dict[str, Any], text: str) -> tuple[Range, ...]:
        """Return the next of the days that parts name, from today on, which comes again each week.

        It tells less of one of these days than what is on that day alone.
        """
        listed = self.occurrences({"weekday": parts["weekday"]}) or ()
        days = next(days for days in listed if days[0] >= self.day)
        return (msgspec.structs.replace(self.range(days, UNLIKELY, text, parts.get("part")), every=_WEEK_S),)

    def ahead(self, count: int, unit: str, parts: dict[str, Any]) -> Days:
        """Return the days so many units from now, or from a named day; Sunday week is the one after the coming one."""
        weeks = _WEEKS_AHEAD.get((count, unit))
        if "day" in parts:  # "heute in acht Tagen" is in a week
            moved = self._moved(weeks or count, "week" if weeks else unit)
            return _single(moved + timedelta(parts.pop("day")))
        if "weekday" not in parts:
            return self.counted(count, unit)
        if weeks:
            first = self.day + timedelta(_WEEK * weeks + (parts["weekday"] != self.day.weekday()))
            return first, first + timedelta(_WEEK)
        first, last = self.counted(count, unit)
        slack = timedelta(_SLACK_DAYS["week"] if unit == "day" else 0)
        return first - slack, last + slack

    def occurrences(self, parts: dict[str, Any]) -> list[Days] | None:
        """Return all days that parts can mean, in order; None where nothing recurs."""
        within = self._within(parts)
        listed = self._around(parts, self.day if within is None else within[0])
        if listed is None or within is None:
            return listed
        return [days for days in listed if within[0] <= days[0] < within[1]]

    def pairs(
        self, starts: Sequence[Days], stops: Sequence[Days], *, past: bool | None
    ) -> list[tuple[Days, float]]:
        """Return the ranges from one of some days to the next of others, likeliest first."""
        nearest: dict[Days, Days] = {}
        for stop in stops:
            earlier = [start for start in starts if start[0] < stop[0]]
            if earlier:
                nearest.setdefault(earlier[-1], stop)
        over = [(start[0], stop[1]) for start, stop in nearest.items() if stop[0] <= self.day]
        coming = [(start[0], stop[1]) for start, stop in nearest.items() if start[0] > self.day]
        rest = [(start[0], stop[1]) for start, stop in nearest.items()]
        if len(rest) <= 1:
            return [(days, 1.0) for days in rest]
        return list(_nearest(over, coming, past=past)) or [(days, EVEN) for days in rest[-1:]]

    def _within(self, parts: dict[str, Any]) -> Days | None:
        """Return the period around a named day, as "last year" in "in May last year"."""
        if "within" in parts:
            within: Days = parts["within"]
            return within
        if "year" in parts:
            return _year(parts["year"])
        if self.whole_weeks and "shift" in parts and parts.keys() & {"weekday", "weekend"}:
            return self.period("week", parts["shift"])
        return None

    def _around(self, parts: dict[str, Any], around: date) -> list[Days] | None:
        years = range(around.year - _YEARS_AROUND, around.year + _YEARS_AROUND + 1)
        weekday, number, place = parts.get("weekday"), parts.get("nth"), parts.get("place")
        if place is not None and weekday is not None:
            begins = [_month(year, parts["month"])[0] for year in years] if "month" in parts else [around]
            return [_single(day) for first in begins if (day := _monthly(first, weekday, place)) is not None]
        if "month" in parts:
            if number is None:
                return [_month(year, parts["month"]) for year in years]
            dated = _existing((year, parts["month"], number) for year in years)
            return _on_weekday(dated, weekday) or dated
        if number is not None:
            months = (
                _month(around.year, around.month + away)[0]
                for away in range(-_MONTHS_AROUND, _MONTHS_AROUND + 1)
            )
            numbered = _existing((first.year, first.month, number) for first in months)
            if numbered := _on_weekday(numbered, weekday):
                return numbered
        if "season" in parts:  # north of the equator; a winter ends in the next year
            first = 3 + 3 * parts["season"]
            return [(_month(year, first)[0], _month(year, first + 2)[1]) for year in years]
        if weekday is None and "weekend" not in parts:
            return None
        first_day, length = (_SATURDAY, 2) if weekday is None else (weekday, 1)
        weeks = (_week(around, away)[0] for away in range(-_WEEKS_AROUND, _WEEKS_AROUND + 1))
        firsts = (monday + timedelta(first_day) for monday in weeks)
        return [(day, day + timedelta(length)) for day in firsts]

    def _pick(
        self, listed: Sequence[Days], shift: int | None, *, past: bool | None
    ) -> Iterator[tuple[Days, float]]:
        """Yield the days of a list that may be meant, likeliest first."""
        short, day = bool(listed) and listed[0][1] - listed[0][0] <= timedelta(2), self.day
        if shift is None:
            # "On Monday" on a Monday is seldom today, but "in June" in June may be this one.
            over = [days for days in listed if (days[1] if short else days[0]) <= day]
            coming = [days for days in listed if (days[0] if short else days[1]) > day]
            if past is not False and short and over and coming:
                near, far = (coming[0][0] - day).days, (day - over[-1][0]).days
                if near < _NEAR_DAYS and far > _FAR_DAYS:
                    past = None if past else False
            yield from _nearest(over, coming, past=past)
        elif shift == 0:
            nearest = sorted(listed, key=lambda days: abs((days[0] - day).days))
            first = day if past is False else _week(day, 0)[0]  # "this Monday" on a Wednesday
            yield from ((days, 1.0) for days in [days for days in nearest if first < days[1]][:1])
        elif shift < 0:
            yield from ((days, LIKELY) for days in [days for days in listed if days[1] <= day][-1:])
        else:
            # Nobody says "next Friday" for tomorrow.
            later = [days for days in listed if days[0] > day + timedelta(short)][shift - 1 : shift + 1]
            yield from ((days, LIKELY) for days in later[:1])
            # "next Friday" may be the one of next week.
            if short and shift == 1 and later[1:] and _week(later[0][0], 0) == _week(day, 0):
                yield later[1], EVEN


def _nearest(
    over: Sequence[Days], coming: Sequence[Days], *, past: bool | None
) -> Iterator[tuple[Days, float]]:
    """Yield the last past days and the first coming ones, the likelier first."""
    first, second = (over[-1:], coming[:1]) if past else (coming[:1], over[-1:])
    if first == second or not (first and second):
        yield from ((days, 1.0) for days in first or second)
        return
    chances = (EVEN, EVEN) if past is None else (LIKELY, UNLIKELY)
    yield from ((days, sure) for days, sure in zip((*first, *second), chances, strict=True))


def _monthly(first: date, weekday: int, place: int) -> date | None:
    """Return the first, second … weekday of the month that begins then, the last for -1; None: it has none."""
    days = [
        day
        for n in range(_LAST_DAY)
        if (day := first + timedelta(n)).month == first.month and day.weekday() == weekday
    ]
    return days[place if place < 0 else place - 1] if place <= len(days) else None


def edge(days: Days, place: int) -> Days:
    """Return the beginning of some days (`place` 0), their middle, their end (three of a week, some nine of a month) or last day."""
    length = (days[1] - days[0]).days
    size = length // 4 + 2 if place <= 2 else 1
    first = days[0] + timedelta((0, (length - size - 1) // 2, length - size)[min(place, 2)])
    return first, first + timedelta(size)


def _single(day: date) -> Days:
    return day, day + timedelta(1)


def _week(day: date, away: int) -> Days:
    monday = day - timedelta(day.weekday()) + timedelta(_WEEK * away)
    return monday, monday + timedelta(_WEEK)


def _month(year: int, month: int) -> Days:
    """Return a month; one beyond December is of the next year."""
    first, last = (divmod(12 * year + number, 12) for number in (month - 1, month))
    return date(first[0], first[1] + 1, 1), date(last[0], last[1] + 1, 1)


def _year(year: int) -> Days:
    return date(year, 1, 1), date(year + 1, 1, 1)


def _existing(days: Iterable[tuple[int, int, int]]) -> list[Days]:
    """Return the days that the calendar has of some years, months and numbers."""
    existing = []
    for numbers in days:
        with suppress(ValueError):
            existing.append(_single(date(*numbers)))
    return existing


def _on_weekday(listed: list[Days], weekday: int | None) -> list[Days]:
    """Return those on a weekday: the tenth of May was a Friday in one year of some."""
    return [days for days in listed if weekday is None or days[0].weekday() == weekday]


def _dates(figures: str) -> Iterator[tuple[int, int, int]]:
    """Yield the years, months and days that figures may mean: 5/7/2023 is in May or in July."""
    sign = next(char for char in figures if not char.isdigit())
    first, second, third = figures.split(sign)
    if len(first) == _YEAR_DIGITS:
        yield int(first), int(second), int(third)
    elif len(third) in {2, _YEAR_DIGITS}:
        short = len(third) == 2
        year = int(third) + (0 if not short else 2000 if int(third) < 70 else 1900)
        day, month = int(first), int(second)
        orders = [(day, month)] if sign == "." or day == month else [(day, month), (month, day)]
        yield from ((year, month, day) for day, month in orders if month <= 12 and day <= _LAST_DAY)
