"""Numbers: one normal form of numbers, whether they were spoken or written, for index and query alike.

Every number becomes digits, cut as by `analyse.plain_words`: twenty one and 21 are `21`, 7:30 and half past seven `7` `30`, the
twenty first and 21st `21`, four two nine one and double oh seven `4291` and `007`. Of two readings both are given: nineteen
eighty four is `19` `84` and `1984`, the first of May `1` and `first`, as in a first day.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

from edgemem.languages.words import all_words, bare, small

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.languages.words import Numbers, Words

_MOST_DIGITS = 15  # a longer number is no amount; it stays as written
_DIGITS = re.compile(rf"([0-9]{{1,{_MOST_DIGITS}}})(?:st|nd|rd|th)?")


def _compounds(values: dict[str, int], ones: list[str], numbers: Numbers) -> dict[str, int]:
    """Return a language's one-word numbers from 100, from those below: hundertfünf, zweitausendzwei."""
    hundred, thousand, joins = numbers.hundred_within, numbers.thousand_within, ("", numbers.and_within)
    hundreds = {f"{unit}{hundred}": 100 * n for n, unit in enumerate(["", *ones[1:]], 1)}
    hundreds |= {f"{ones[0]}{hundred}": 100}
    hundreds |= {f"{word}{hundred}": 100 * n for word, n in values.items() if 11 <= n < 20}
    below = {word: n for word, n in values.items() if 0 < n < 100}
    return (
        hundreds
        | {
            f"{front}{join}{word}": size + n
            for front, size in hundreds.items()
            for word, n in below.items()
            for join in joins
        }
        | {f"{unit}{thousand}": 1000 * n for n, unit in enumerate(ones, 1)}
        | {f"{ones[1]}{thousand}{word}": 2000 + n for word, n in below.items()}
    )


def _counted(words: str, first: int = 0, step: int = 1) -> dict[str, int]:
    return {word: first + n * step for n, word in enumerate(bare(small(words)).split())}


def _inflected(places: dict[str, int], numbers: Numbers) -> dict[str, int]:
    return {f"{word}{end}": n for word, n in places.items() for end in ("", *numbers.inflections.split())}


def with_digits(words: list[str], language: str = "en") -> list[str]:
    """Return plain words, stop words among them, with digits for numbers; the same list if there are none.

    Only `en`, `de` and `es` have number words.
    """
    spoken = _spoken(language)
    # Most sentences have no number: this is all that they cost.
    if spoken is None or (
        spoken.starts.isdisjoint(words) and not any(word[:1].isdecimal() for word in words)
    ):
        return words
    out: list[str] = []
    at = 0
    while at < len(words):
        digits, end = spoken.read(words, at)
        out += digits or words[at : at + 1]
        if digits and words[at] in spoken.rare:
            out.append(words[at])
        at = max(end, at + 1)
    return out


class _Spoken:
    def __init__(self, language: Words, numbers: Numbers) -> None:
        self._numbers = numbers
        values = _counted(numbers.units) | _counted(numbers.tens, 20, 10)
        places = _counted(numbers.places, 3) | _counted(numbers.place_tens, 20, 10)
        if numbers.ones:
            tens = _counted(numbers.tens, 20, 10)
            ones = list(_counted(numbers.ones))
            values |= {
                f"{unit}{numbers.and_within}{ten}": n + of_ten
                for ten, of_ten in tens.items()
                for n, unit in enumerate(ones, 1)
            }
            places |= {f"{word}{numbers.place_ending}": n for word, n in values.items() if n >= 20}
            values |= _compounds(values, ones, numbers)
        self._values = values | _counted(numbers.hundreds, 100, 100) | _counted(numbers.hundred, 100)
        self._places = _inflected(places, numbers)
        self.rare = _inflected(_counted(numbers.rare_places, 1), numbers)
        self._clock = tuple(numbers.clock.split())
        self._months = frozenset(
            bare(small(month.partition("/")[0].strip())) for month in language.dates.words["month"].split(",")
        )
        words = (self._values, self._places, self.rare, numbers.sizes, numbers.repeats)
        self.starts = frozenset().union(*words, filter(None, (numbers.half, numbers.quarter)))

    def read(self, words: Sequence[str], at: int) -> tuple[list[str], int]:
        """Return the words of the number at a place, and its end; nothing if there is none."""
        digits, end = self._time(words, at)
        if digits:
            return digits, end
        parts: list[str] = []
        end = at
        while end < len(words):
            part, after = self._part(words, end, begun=bool(parts))
            if not part:
                if not (
                    parts
                    and words[end] in self._numbers.points.words
                    and self._part(words, end + 1, begun=True)[0]
                ):
                    break
                end += 1
                continue
            # Doubled digits belong to a code said digit by digit.
            parts += part if words[end] in self._numbers.repeats else [part]
            end = after
        return _joined(parts), end

    def _part(self, words: Sequence[str], at: int, *, begun: bool) -> tuple[str, int]:
        """Return the digits of one number at a place, if any, and its end."""
        numbers = self._numbers
        word = words[at] if at < len(words) else ""
        if word in numbers.repeats:
            digit, end = self._part(words, at + 1, begun=True)
            return (digit * numbers.repeats[word], at + 2) if len(digit) == 1 and end == at + 2 else ("", at)
        if word in numbers.zeros.words:
            follows = words[at + 1] if at + 1 < len(words) else ""
            return ("0", at + 1) if begun or self._values.get(follows, 10) < 10 else ("", at)
        if figure := _DIGITS.fullmatch(word):
            return figure[1], at + 1
        if word in self._places:
            return str(self._places[word]), at + 1
        if word in self.rare and self._in_date(words, at):
            return str(self.rare[word]), at + 1
        return self._cardinal(words, at)

    def _cardinal(self, words: Sequence[str], at: int) -> tuple[str, int]:
        """Return the digits of a number of words: three hundred and five, twenty first."""
        numbers = self._numbers
        total, part, end, least = 0, None, at, 10**9
        while end < len(words):
            word = words[end]
            if word in numbers.joins.words and part is not None:
                follows = words[end + 1] if end + 1 < len(words) else ""
                if not _below(
                    self._values.get(follows, self._places.get(follows, self.rare.get(follows))), least
                ):
                    break
                end += 1
                continue
            if word in self._values and _below(self._values[word], least):
                value = self._values[word]
                part, least = (part or 0) + value, _step(value)
            elif (
                part is not None
                and (place := self._places.get(word) or self.rare.get(word))
                and _below(place, least)
            ):
                return str(total + part + place), end + 1
            elif (
                word in numbers.sizes
                and (part is not None or end == at)
                and numbers.sizes[word] > (part or 0) % 100
            ):
                size = numbers.sizes[word]
                part = (part or 1) * size
                if size >= 1000:  # the next part is counted anew
                    total, part = total + part, 0
                least = size
            else:
                break
            end += 1
        return ("", at) if part is None else (str(total + part), end)

    def _time(self, words: Sequence[str], at: int) -> tuple[list[str], int]:
        """Return the hour and minutes of a time of day: half past seven, ten to six, eight o'clock."""
        numbers, word = self._numbers, words[at]
        if word == numbers.half and numbers.half_is_to and at + 1 < len(words):
            hour, end = self._hour(words, at + 1)
            return _clock(hour, -30, end)
        minutes, between = self._minutes(word), at + 1
        if minutes == 20 and between < len(words) and self._values.get(words[between]) == 5:
            minutes, between = 25, between + 1
        if _are_told(minutes) and between + 1 < len(words):
            past, to = words[between] in numbers.past.words, words[between] in numbers.to.words
            hour, end = self._hour(words, between + 1)
            if hour and (past or (to and minutes < 30)):
                digits, end = _clock(hour, minutes if past else -minutes, end)
                # From ten to seven may also be a span.
                return (
                    digits if past or word == numbers.quarter else [*digits, str(minutes), str(hour)]
                ), end
        hour, end = self._hour(words, at)
        if hour and end + 1 < len(words):
            minutes, more = self._minutes(words[end + 1]), words[end] in numbers.and_behind.words
            if _are_told(minutes) and (more or words[end] in numbers.less_behind.words):
                return _clock(hour, minutes if more else -minutes, end + 2)
        if hour and self._clock and tuple(words[end : end + len(self._clock)]) == self._clock:
            end += len(self._clock)
            part, after = self._cardinal(words, end)
            return _clock(hour, int(part), after) if part and int(part) < 60 else _clock(hour, 0, end)
        return [], at

    def _minutes(self, word: str) -> int:
        """Return the minutes of a word beside an hour; 0: none."""
        halves = {self._numbers.half: 30, self._numbers.quarter: 15}
        return halves[word] if word and word in halves else self._values.get(word, 0)

    def _in_date(self, words: Sequence[str], at: int) -> bool:
        after = [word for word in words[at + 1 : at + 3] if word != self._numbers.of]
        return bool({*after[:1], *words[max(0, at - 1) : at]} & self._months)

    def _hour(self, words: Sequence[str], at: int) -> tuple[int, int]:
        value = self._values.get(words[at], 0)
        if not value and words[at].isdecimal() and len(words[at]) <= 2:
            value = int(words[at])
        return (value, at + 1) if 0 < value <= 12 else (0, at)


def _joined(parts: list[str]) -> list[str]:
    """Return neighbouring numbers, and in one piece what may be one."""
    if len(parts) < 2:
        return parts
    whole = "".join(parts)
    if len(whole) > _MOST_DIGITS:
        return parts
    if max(map(len, parts)) == 1 or whole.startswith("0"):
        if len(whole) == 3 and whole[1] == "0" and whole[0] != "0":  # seven oh five may be a time
            return [whole, whole[0], whole[1:]]
        return [whole] if len(whole) > 2 or whole.startswith("0") else parts
    if len(parts) == 3 and len(parts[0]) == 2 and parts[1] == "0":  # nineteen oh five
        return [parts[0], f"0{parts[2]}", whole]
    runs = [list(run) for _, run in groupby(parts, key=lambda part: len(part) == 1)]
    if any(len(run) > 2 and len(run[0]) == 1 for run in runs):
        # A code said digit by digit, before or after another number.
        return [word for run in runs for word in _joined(run)]
    pairs = [part for part in parts if len(part) == 2]
    thousands = len(parts[0]) <= 3 and all(len(part) == 3 for part in parts[1:])
    if (
        len(pairs) == len(parts)
        or thousands
        or (all(len(part) <= 2 for part in parts[1:]) and len(parts) > 2)
    ):
        return [*parts, whole]
    return parts


def _below(value: int | None, least: int) -> bool:
    """Tell whether a number fits behind one with so many zeros at its end: twenty one, but not one twenty."""
    return (value is not None and 0 < value < least) or (value == 0 and least == 10**9)


def _step(value: int) -> int:
    """Return the bound for the next part: nothing follows a unit or a teen, units follow tens."""
    if 20 <= value < 100 and value % 10 == 0:
        return 10
    return 100 if value >= 100 and value % 100 == 0 else 1


def _are_told(minutes: int) -> bool:
    return 0 < minutes <= 30 and minutes % 5 == 0


def _clock(hour: int, minutes: int, end: int) -> tuple[list[str], int]:
    """Return a time's words as `7:30` is cut."""
    if not hour:
        return [], end
    if minutes < 0:
        hour, minutes = (hour - 2) % 12 + 1, 60 + minutes
    return [str(hour), f"{minutes:02}"], end


@lru_cache(maxsize=8)
def _spoken(language: str) -> _Spoken | None:
    words = all_words().get(language)
    return None if words is None or words.numbers is None else _Spoken(words, words.numbers)
