"""What is said when a text is read aloud: small letters, no punctuation, and numbers as words."""

from __future__ import annotations

import re
from typing import NamedTuple

_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_GREAT = ((1_000_000_000, "billion"), (1_000_000, "million"), (1_000, "thousand"))
_ODD_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth", "twelve": "twelfth",
}  # fmt: skip
_SIGNS = {
    "%": "percent", "€": "euros", "$": "dollars", "£": "pounds", "°": "degrees", "&": "and", "+": "plus", "@": "at",
}  # fmt: skip
_LONGEST = 9  # digits that anybody reads as one number
_CODE = 4  # digits from which on a number is no amount, but a code or a year
_PIECE = re.compile(
    r"(?P<clock>\d{1,2}:\d{2})(?!\d)|(?P<ordinal>\d+)(?:st|nd|rd|th)\b"
    r"|(?P<number>(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?)|(?P<sign>[%€$£°&+@])|(?P<word>(?:(?!\d)[^\W_])+(?:['’][^\W\d_]+)*)"
)


class Spoken(NamedTuple):
    """A word as it is said."""

    word: str
    is_name: bool
    """Whether it was written as a name is: with a capital, and not because a sentence begins."""


def spoken(text: str) -> list[Spoken]:
    """Return the words of a text as they are said."""
    said: list[Spoken] = []
    for piece in _PIECE.finditer(text):
        kind, part = piece.lastgroup, piece[piece.lastgroup or 0]
        if kind == "word":
            word = part.replace("’", "'")
            is_name = word[0].isupper() and word != "I" and not _begins(text, piece.start())
            said.append(Spoken(word.casefold(), is_name))
        else:
            said += [Spoken(word, is_name=False) for word in _numbers(kind, part)]
    return said


def cardinal(number: int) -> list[str]:
    """Return a number from 0 on as it is read: three hundred and five."""
    if number < len(_ONES):
        return [_ONES[number]]
    if number < 100:
        return [_TENS[number // 10], *([_ONES[number % 10]] if number % 10 else [])]
    if number < 1000:
        rest = ["and", *cardinal(number % 100)] if number % 100 else []
        return [_ONES[number // 100], "hundred", *rest]
    for size, name in _GREAT:
        if number >= size:
            rest = cardinal(number % size) if number % size else []
            return [*cardinal(number // size), name, *(["and"] if 0 < number % size < 100 else []), *rest]
    raise AssertionError(number)  # pragma: no cover - the smallest of _GREAT is 1000


def ordinal(number: int) -> list[str]:
    """Return the word for a place in a row: twenty first."""
    *front, last = cardinal(number)
    if last in _ODD_ORDINALS:
        return [*front, _ODD_ORDINALS[last]]
    return [*front, f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th"]


def _numbers(kind: str | None, part: str) -> list[str]:
    if kind == "sign":
        return [_SIGNS[part]]
    if kind == "clock":
        hour, minute = (int(each) for each in part.split(":"))
        exact = ["o'clock"] if 0 < hour <= 12 else ["hundred"]
        return [*cardinal(hour), *(exact if not minute else ["oh"] * (minute < 10) + cardinal(minute))]
    if kind == "ordinal" and len(part) <= _LONGEST:
        return ordinal(int(part))
    whole, _, fraction = part.replace(",", "").partition(".")
    is_code = "," not in part and not fraction and (len(whole) >= _CODE or whole.startswith("0"))
    read = _digits(whole) if is_code or len(whole) > _LONGEST else cardinal(int(whole))
    return [*read, *(["point", *_digits(fraction)] if fraction else [])]


def _digits(number: str) -> list[str]:
    return [_ONES[int(digit)] for digit in number]


def _begins(text: str, start: int) -> bool:
    before = text[max(0, start - 4) : start].rstrip(" \t\"'“”«»([-")
    return not before or before[-1] in ".!?…:;\n"
