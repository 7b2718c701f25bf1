"""Days of the weeks as they are spoken ("in two weeks", "next Tuesday"), each phrase with one reading only.

"Next Tuesday" is said where the coming Tuesday is also that of the next calendar week.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

DAY = 86_400
FIRST = datetime(2026, 3, 2, tzinfo=timezone.utc)  # the Monday on which the weeks begin
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")  # fmt: skip
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_ORDINALS = (
    "", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth",
    "twentieth", "twenty first", "twenty second", "twenty third", "twenty fourth", "twenty fifth", "twenty sixth",
    "twenty seventh", "twenty eighth", "twenty ninth", "thirtieth", "thirty first",
)  # fmt: skip


def day_of(number: int) -> date:
    return (FIRST + timedelta(days=number)).date()


def number_of(at: int) -> int:
    return (at - int(FIRST.timestamp())) // DAY


def moment(number: int, second: int) -> int:
    return int(FIRST.timestamp()) + number * DAY + second


def written(number: int) -> str:
    """Return a date as answers give it: Tuesday 10 March."""
    day = day_of(number)
    return f"{_WEEKDAYS[day.weekday()]} {day.day} {_MONTHS[day.month - 1]}"


def coming(today: int, number: int) -> list[str]:
    ahead, weekday = number - today, day_of(number).weekday()
    name, passed = _WEEKDAYS[weekday], day_of(today).weekday()
    phrases = [f"on {name} the {_ordinal(number)}", f"on the {_ordinal(number)} of {_month(number)}"]
    if ahead == 1:
        phrases = ["tomorrow"]
    elif ahead < 7 and weekday > passed:
        phrases += [f"this {name}", f"this coming {name}"]
    elif ahead < 7 and weekday < passed:
        phrases += [f"next {name}", f"next {name}"]
    if ahead in {7, 14, 21}:
        phrases += ["in a week" if ahead == 7 else f"in {_NUMBERS[ahead // 7]} weeks"] * 2
    elif 2 <= ahead <= 10:
        phrases.append(f"in {_NUMBERS[ahead]} days")
    elif 10 < ahead < 28:
        phrases.append(f"on {name} in {_NUMBERS[_weeks(today, number)]} weeks")
    return phrases


def gone(today: int, number: int) -> list[str]:
    ago, name = today - number, _WEEKDAYS[day_of(number).weekday()]
    phrases = [
        f"on {name} the {_ordinal(number)} of {_month(number)}",
        f"on the {_ordinal(number)} of {_month(number)}",
    ]
    if ago == 1:
        return ["yesterday"]
    if ago == 7:
        return [*phrases, "a week ago today"]
    if ago < 7:
        return [f"last {name}" if _weeks(number, today) else f"this past {name}"]
    if ago % 7 == 0:
        phrases.append(f"{_NUMBERS[ago // 7]} weeks ago today")
    elif _weeks(number, today) == 1:
        phrases += [f"on {name} of last week"] * 2
    return phrases


def just_gone(today: int, number: int) -> list[str]:
    return ["today", "this morning", "an hour ago"] if today == number else ["yesterday", "last night"]


def _weeks(early: int, late: int) -> int:
    return late // 7 - early // 7


def _ordinal(number: int) -> str:
    return _ORDINALS[day_of(number).day]


def _month(number: int) -> str:
    return _MONTHS[day_of(number).month - 1]
