"""Readings: what a phrase may mean as seen from a day: the days of a month, a weekday, a season or "three weeks ago".

What comes round again (a weekday, a month, Christmas) is listed around a day, and one rule picks from the list.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.recall.dates.lexicon import LAST_DAY, MAX_DIGITS, SETS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import tzinfo

    from edgemem.recall.dates.lexicon import Lexicon


Days = tuple[date, date]
"""From the first day up to, but without, the second."""
Reading = tuple[float, float, float]
"""Begin and end, seconds since the epoch, and how likely it is what was meant."""

_WEEKEND, _WEEK = 5, 7
_YEARS_AROUND = 4
"""Enough for the 29th of February."""
_HOURS = {"morning": (5, 12), "noon": (11, 14), "afternoon": (12, 18), "evening": (17, 24), "night": (20, 29)}
_SECONDS = {"minute": 60.0, "hour": 3600.0}
_SLACK_DAYS = {"day": 0, "week": 3, "month": 10, "year": 120}
"""How far from the day itself "two weeks ago" may be."""
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
_LIKELY, _LESS, _UNLIKELY = 0.7, 0.5, 0.3
_MANY = 1000
"""Of a unit: nobody who talks to a robot speaks of more."""

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


class Today(msgspec.Struct, frozen=True):
    """The day from which a time is seen."""

    now: float
    zone: tzinfo
    day: date

    def reading(self, days: Days, sure: float, part: str | None = None) -> Reading:
        """Return days, or a part of their first, in seconds."""
        first, last = days
        if part is None:
            return self._midnight(first), self._midnight(last), sure
        begin, end = _HOURS[part]
        midnight = self._midnight(first)
        return midnight + begin * 3600.0, midnight + end * 3600.0, sure

    def ago(self, count: int, unit: str, *, few: bool) -> Reading:
        """Return what lies so many units from now, before it where they are negative; a few may be two to six."""
        if abs(count) > _MANY:
            raise OverflowError
        if unit in _SECONDS:
            at, slack = self.now + count * _SECONDS[unit], (abs(count) * 0.25 + 1.0) * _SECONDS[unit]
            return at - slack, at + slack, _LESS if few else 1.0
        if few:
            far, near = (
                self._moved(2 * count, unit),
                self._moved(count // 2 if count > 0 else -(-count // 2), unit),
            )
            begin, end = min(far, near), max(far, near) + timedelta(1)
            return self.reading((begin, end), _LESS)
        at_day, slack_days = self._moved(count, unit), timedelta(_SLACK_DAYS[unit])
        return self.reading((at_day - slack_days, at_day + slack_days + timedelta(1)), 1.0)

    def stretch(self, count: int, unit: str) -> Reading:
        """Return the last so many units up to now, or the next ones from now."""
        if unit in _SECONDS:
            other = self.now + min(max(count, -_MANY), _MANY) * _SECONDS[unit]
        else:
            other = self._midnight(self._moved(count, unit))
        return min(self.now, other), max(self.now, other), 1.0

    def weekday_near(self, reading: Reading, weekday: int) -> Reading:
        """Return a weekday of the week or so that was said with it: Sunday in two weeks."""
        middle = datetime.fromtimestamp((reading[0] + reading[1]) / 2, self.zone).date()
        nearest = min(weekdays(middle, weekday), key=lambda days: abs((days[0] - middle).days))
        return self.reading(nearest, _LIKELY)

    def period(self, unit: str, shift: int) -> Days:
        """Return this week, month or year, or another by how many it is away."""
        if unit == "week":
            return _week(self.day, shift)
        if unit == "month":
            return _month(self.day.year, self.day.month + shift)
        if unit == "year":
            return _year(self.day.year + shift)
        return self.day + timedelta(shift), self.day + timedelta(shift + 1)

    def _moved(self, count: int, unit: str) -> date:
        if unit in {"month", "year"}:
            first = _month(self.day.year, self.day.month + count * (12 if unit == "year" else 1))
            return min(first[0] + timedelta(self.day.day - 1), first[1] - timedelta(1))
        return self.day + timedelta(count * _UNIT_DAYS[unit])

    def _midnight(self, day: date) -> float:
        return datetime.combine(day, time(), tzinfo=self.zone).timestamp()


def weekdays(around: date, weekday: int) -> list[Days]:
    """Return one weekday of the weeks around a day."""
    monday = _week(around, 0)[0]
    return [_single_day(monday + timedelta(_WEEK * away + weekday)) for away in range(-3, 4)]


def _year(year: int) -> Days:
    return date(year, 1, 1), date(year + 1, 1, 1)


def pick(
    listed: Sequence[Days], day: date, shift: int | None, *, past: bool | None, within: Days | None = None
) -> Iterator[tuple[Days, float]]:
    """Yield which of a list may be meant, the likeliest first, and how likely each is.

    Args:
        listed: in order of time.
        day: today.
        shift: said with it: -1 last, 0 this, 1 next.
        past: whether the sentence speaks of the past; None where nothing tells.
        within: the period said with it, as in "in May last year".
    """
    if within is not None:
        yield from ((days, 1.0) for days in [days for days in listed if within[0] <= days[0] < within[1]][:1])
        return
    short = bool(listed) and listed[0][1] - listed[0][0] <= timedelta(2)
    # Who says "on Monday" on a Monday seldom means today, but who says "in June" in June may mean this one.
    before = [days for days in listed if (days[1] if short else days[0]) <= day]
    after = [days for days in listed if (days[0] if short else days[1]) > day]
    if shift is None:
        orders = (before[-1:], after[:1]) if past else (after[:1], before[-1:])
        if orders[0] == orders[1] or not all(orders):
            yield from ((days, 1.0) for days in orders[0] or orders[1])
            return
        for chosen, sure in zip(
            orders, (_LESS, _LESS) if past is None else (_LIKELY, _UNLIKELY), strict=True
        ):
            yield from ((days, sure) for days in chosen)
    elif shift == 0:
        nearest = sorted(listed, key=lambda days: abs((days[0] - day).days))
        yield from ((days, 1.0) for days in [days for days in nearest if _week(day, 0)[0] <= days[0]][:1])
    else:
        over = (
            [days for days in listed if days[1] <= day][::-1]
            if shift < 0
            else [days for days in listed if days[0] > day]
        )
        at = abs(shift) - 1
        yield from ((days, _LIKELY) for days in over[at : at + 1])
        # "next Friday" may be the one of next week.
        if short and over[at + 1 :] and _week(over[at][0], 0) == _week(day, 0):
            yield over[at + 1], _LESS


def _single_day(day: date) -> Days:
    return day, day + timedelta(1)


def _week(day: date, away: int) -> Days:
    monday = day - timedelta(day.weekday()) + timedelta(_WEEK * away)
    return monday, monday + timedelta(_WEEK)


def _month(year: int, month: int) -> Days:
    """Return a month; one beyond December is of the next year."""
    first, last = (divmod(12 * year + number, 12) for number in (month - 1, month))
    return date(first[0], first[1] + 1, 1), date(last[0], last[1] + 1, 1)


def _easter(year: int) -> date:
    """Return Easter Sunday by the Gregorian reckoning: the Sunday after the full moon of spring."""
    golden, century = year % 19, year // 100
    moon = (19 * golden + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    moon -= moon // 28 * (1 - 29 // (moon + 1) * ((21 - golden) // 11))
    sunday = moon - (year + year // 4 + moon + 2 - century + century // 4) % 7
    month = 3 + (sunday + 40) // 44
    return date(year, month, sunday + 28 - 31 * (month // 4))


def readings_of(
    parts: dict[str, Any], lexicon: Lexicon, day: Today, *, past: bool | None
) -> Iterator[Reading]:
    """Yield what the parts of a phrase may mean, the likeliest first."""
    if "span" in parts:
        yield day.weekday_near(parts["span"], parts["weekday"]) if "weekday" in parts else parts["span"]
        return
    part = parts.get("part")
    if "date" in parts:
        dates = [_single_day(date(*numbers)) for numbers in _dates(parts["date"])]
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
        within = _year(parts["year"])
    elif shift is not None and lexicon.whole_weeks and parts.keys() & {"weekday", "weekend"}:
        within = day.period("week", shift)
    listed = listed_of(parts, day.day if within is None else within[0], lexicon)
    if listed is not None:
        for days, sure in pick(listed, day.day, shift, past=past, within=within):
            yield day.reading(days, sure, part)
    elif within is not None:
        yield day.reading(within, 1.0)


def listed_of(parts: dict[str, Any], around: date, lexicon: Lexicon) -> list[Days] | None:
    """Return all that the parts can mean around a day, where the calendar has it; None of what does not come round."""
    years, monday = range(around.year - _YEARS_AROUND, around.year + _YEARS_AROUND + 1), _week(around, 0)[0]
    if "month" in parts:
        if "number" not in parts:
            return [_month(year, parts["month"]) for year in years]
        dated = _existing((year, parts["month"], parts["number"]) for year in years)
        return _on_weekday(dated, parts.get("weekday")) or dated
    if "number" in parts and ("weekday" in parts or _numbers_a_day(parts, lexicon)):
        months = (_month(around.year, around.month + away)[0] for away in range(-6, 7))
        numbered = _existing((first.year, first.month, parts["number"]) for first in months)
        if numbered := _on_weekday(numbered, parts.get("weekday")):
            return numbered
    if "holiday" in parts:
        return _holidays(years, parts["holiday"])
    if "season" in parts:  # as it falls north of the equator; a winter ends in the year after
        first = 3 + 3 * parts["season"]
        return [(_month(year, first)[0], _month(year, first + 2)[1]) for year in years]
    if "weekday" in parts:
        return weekdays(around, parts["weekday"])
    if "weekend" in parts:
        saturdays = (monday + timedelta(_WEEK * away + _WEEKEND) for away in range(-3, 4))
        return [(saturday, saturday + timedelta(2)) for saturday in saturdays]
    return None


def _existing(days: Iterable[tuple[int, int, int]]) -> list[Days]:
    """Return the days of some years, months and numbers, as far as the calendar has them."""
    existing = []
    for numbers in days:
        with suppress(ValueError):
            existing.append(_single_day(date(*numbers)))
    return existing


def _on_weekday(listed: list[Days], weekday: int | None) -> list[Days]:
    """Return those that fall on a weekday: the tenth of May was a Friday in one year of some."""
    return [days for days in listed if weekday is None or days[0].weekday() == weekday]


def _numbers_a_day(parts: dict[str, Any], lexicon: Lexicon) -> bool:
    """Tell whether a number is marked as that of a day: ngày 7 before it, 7号 behind it, where no spaces are written."""
    order = list(parts)
    return "month_day" in parts and (order.index("month_day") > order.index("number")) == (not lexicon.spaced)


def _holidays(years: Iterable[int], name: str) -> list[Days]:
    if name in {"easter", "good_friday"}:
        away = timedelta(-2 if name == "good_friday" else 0)
        return [_single_day(_easter(year) + away) for year in years]
    if name == "tet":
        return [_single_day(date.fromisoformat(day)) for day in _NEW_MOONS.split()]
    return _existing((year, *_HOLIDAYS[name]) for year in years)


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
