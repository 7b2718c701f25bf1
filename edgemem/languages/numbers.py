"""Numbers: those of a sentence, whether they were spoken or written, by which a summary and what a tool writes are checked.

Every number becomes digits, cut as by `analyse.plain_words`: twenty one and 21 are `21`, 7:30 and seven thirty `7` `30`, the twenty
first and 21st `21`. Neighbours stay together, since a code or a year is said in parts: four two nine one may be `4291`, nineteen
eighty four `1984`. First and second alone are words, and so is the half of half past seven.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from edgemem.languages.words import Numbers, WordSet, all_words, bare, small

_MOST_DIGITS = 15  # a longer number is no amount; it stays as written
_MOST_PARTS = 15  # in which one is said: digit by digit
_DIGITS = re.compile(rf"([0-9]{{1,{_MOST_DIGITS}}})(?:st|nd|rd|th)?")


def _counted(words: str, first: int = 0, step: int = 1) -> dict[str, int]:
    return {word: first + n * step for n, word in enumerate(bare(small(words)).split())}


def _inflected(places: dict[str, int], numbers: Numbers) -> dict[str, int]:
    return {f"{word}{end}": n for word, n in places.items() for end in ("", *numbers.inflections.split())}


def number_runs(words: Sequence[str], language: str = "en") -> list[list[str]]:
    """Return the numbers of plain words, stop words among them, neighbours together; en, de and es have number words."""
    spoken, runs, at = _spoken(language), [], 0
    while at < len(words):
        run, end = spoken.read(words, at)
        if run := run or re.findall(r"\d+", words[at]):
            runs.append(run)
        at = max(end, at + 1)
    return runs


def with_digits(words: Sequence[str]) -> set[tuple[str, ...]]:
    """Return plain words as they are, and with digits for the number words of each language that has them."""
    forms, some = {tuple(words)}, frozenset(words)
    for language in (name for name, known in all_words().items() if known.numbers is not None):
        spoken, form, at = _spoken(language), list[str](), 0
        while at < len(words) and not some.isdisjoint(spoken.words):
            run, end = spoken.read(words, at) if words[at] in spoken.words else ([], at)
            form += run or [words[at]]
            at = max(end, at + 1)
        forms |= {tuple(form)} if form else set()
    return forms


def unknown_numbers(runs: Iterable[Sequence[str]], source: Iterable[Sequence[str]]) -> set[str]:
    """Return the numbers that `source` has neither as such nor in neighbouring parts."""
    known = {
        "".join(run[a:b])
        for run in source
        for b in range(len(run) + 1)
        for a in range(max(0, b - _MOST_PARTS), b)
    }
    return {number for run in runs if "".join(run) not in known for number in run if number not in known}


class _Spoken:
    def __init__(self, numbers: Numbers, joins: WordSet) -> None:
        self._numbers, self._joins = numbers, joins
        tens = _counted(numbers.tens, 20, 10)
        values = _counted(numbers.units) | tens
        places = _counted(numbers.places, 3) | _counted(numbers.place_tens, 20, 10)
        if numbers.ones:
            ones = _counted(numbers.ones, 1)
            within = numbers.and_within
            values |= {f"{unit}{within}{ten}": n + m for ten, m in tens.items() for unit, n in ones.items()}
            places |= {f"{word}{numbers.place_ending}": n for word, n in values.items() if n >= 20}
            values |= {f"{unit}{numbers.hundred_within}": 100 * n for unit, n in ones.items()}
        self._values = values | _counted(numbers.hundreds, 100, 100) | _counted(numbers.hundred, 100)
        self._places = _inflected(places, numbers)
        self._rare = _inflected(_counted(numbers.rare_places, 1), numbers)
        begins = (self._values, self._places, numbers.zeros.words, numbers.repeats, numbers.sizes)
        self.words = frozenset().union(*begins)
        """With which a number that is not written in digits may begin."""

    def read(self, words: Sequence[str], at: int) -> tuple[list[str], int]:
        """Return neighbouring numbers from a place on, and their end; none if it has none."""
        parts: list[str] = []
        while at < len(words):
            part, end = self._part(words, at, begun=bool(parts))
            if not part:
                break
            parts.append(part)
            at = end
        return parts, at

    def _part(self, words: Sequence[str], at: int, *, begun: bool) -> tuple[str, int]:
        """Return the digits of one number at a place, if any, and its end."""
        numbers = self._numbers
        word = words[at] if at < len(words) else ""
        if word in numbers.repeats:
            digit, end = self._part(words, at + 1, begun=True)
            return (digit * numbers.repeats[word], at + 2) if len(digit) == 1 and end == at + 2 else ("", at)
        if word in numbers.zeros.words:
            follows = words[at + 1] if at + 1 < len(words) else word if begun else ""
            spelt = follows in numbers.zeros.words or self._values.get(follows, 10) < 10
            return ("0", at + 1) if spelt else ("", at)
        if figure := _DIGITS.fullmatch(word):
            return figure[1], at + 1
        if word in self._places:
            return str(self._places[word]), at + 1
        return self._cardinal(words, at)

    def _cardinal(self, words: Sequence[str], at: int) -> tuple[str, int]:
        """Return the digits of a number of words: three hundred and five, twenty first."""
        numbers = self._numbers
        total, part, end, last, least = 0, None, at, at, 10**9
        while end < len(words):
            word = words[end]
            value = self._values.get(word, least)
            # Zero stands alone; twenty is followed by a number with fewer digits: twenty one, but not one twenty.
            if value < least and (value or part is None):
                part, least, last = (part or 0) + value, _step(value), end + 1
            elif (
                part is not None
                and (place := self._places.get(word) or self._rare.get(word))
                and place < least
            ):
                return str(total + part + place), end + 1
            elif (
                word in numbers.sizes
                and (part is not None or end == at)
                and numbers.sizes[word] > (part or 0) % 100
            ):
                least = numbers.sizes[word]
                part, last = (part or 1) * least, end + 1
                if least >= 1000:  # the next part is counted anew
                    total, part = total + part, 0
            elif part is None or word not in self._joins.words:
                break
            end += 1
        return ("", at) if part is None else (str(total + part), last)


def _step(value: int) -> int:
    """Return the bound for the next part: nothing follows a unit or a teen, units follow tens."""
    return 10 if 20 <= value < 100 and value % 10 == 0 else 100 if value >= 100 and value % 100 == 0 else 1


@lru_cache(maxsize=8)
def _spoken(language: str) -> _Spoken:
    words = all_words().get(language)
    if words is None or words.numbers is None:
        return _Spoken(Numbers(units="", tens="", sizes={}), WordSet())
    return _Spoken(words.numbers, words.joins)
