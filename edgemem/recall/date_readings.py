"""Date readings: what the parts of one phrase may mean, as seen from a day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.recall.date_clusters import LAST_DAY, SETS
from edgemem.recall.date_pieces import MAX_DIGITS
from edgemem.recall.date_spans import (
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
from edgemem.recall.date_words import Lexicon, date_words

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date


def readings_of(
    parts: dict[str, Any], lexicon: Lexicon, day: Today, *, past: bool | None
) -> Iterator[Reading]:
    """Yield what the parts of a phrase may mean, the likeliest first."""
    if "span" in parts:
        yield day.weekday_near(parts["span"], parts["weekday"]) if "weekday" in parts else parts["span"]
        return
    part = parts.get("part")
    if "date" in parts:
        dates = [whole_day(*each) for each in _dates(parts["date"])]
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
    known = date_words()
    if name in known.moving_days:
        return [whole_day(each.year, each.month, each.day) for each in known.moving_days[name]]
    return year_days_of(around, *known.holiday_days[name])


def _dates(figures: str) -> Iterator[tuple[int, int, int]]:
    """Yield the years, months and days that figures may mean: 5/7/2023 is in May or in July."""
    sign = next(each for each in figures if not each.isdigit())
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
