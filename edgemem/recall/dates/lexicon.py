"""Lexicon: the words of five languages that tell a time, ready to be looked up.

What each word may be stands in `[dates]` of `edgemem/languages/<code>.toml`.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

import msgspec

from edgemem.languages.words import Dates, Words, all_words
from edgemem.preload import Pattern, preloaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


Value = int | str | tuple[str, int]
Label = dict[str, Value]
"""What a word may be, and what it says as that: "in" stands between, goes before a time, and points ahead."""

ANCHORS = ("month", "season", "weekday", "weekend", "day", "holiday", "unit", "part", "period", "year")
"""What a text must hold, or figures, to speak of a time at all."""

SETS = ("month", "season", "weekday", "weekend", "day", "holiday", "date", "span", "period", "year")
"""What tells a time by itself; of one of these kinds, a phrase has one word."""
LAST_DAY, MAX_DIGITS = 31, 4

_YEAR_BEGINS = (19, 20, 2000)
"""Numbers that a year said in words begins with."""

_AMBIGUOUS = ("season", "part", "holiday")

_PAST_FORM = Pattern(
    r"\b(?:[a-z]{3,}[^e\W]ed|ge[a-zäöüß]{3,}t|[a-zñ]{2,}(?:aron|ieron|imos)|(?!qué\b)[a-zñ]{2,}(?<![aei]r)[éó])\b"
)
_FUTURE_FORM = Pattern(r"\b[a-zñ]{2,}[aei]r(?:é|á|ás|án|emos)\b")

_SIGN_OR_NUMBER = re.compile(r"\d+|\D")


class Lexicon(msgspec.Struct, frozen=True):
    """The words of one language."""

    spaced: bool
    phrases: dict[str, tuple[Label, ...]]
    """One label for a word or phrase, several where it says several things at once, as "tonight" does."""
    doubtful: frozenset[str]
    longest: dict[str, int]
    """Words of the longest phrase that begins with a word."""
    anchors: frozenset[str]
    """First words of what speaks of a time by itself."""
    past: re.Pattern[str]
    coming: re.Pattern[str]
    shift_stands: str
    whole_weeks: bool

    def speaks_of_past(self, written: str, plain: str) -> bool | None:
        """Tell whether a text speaks of what was, and not of what will be; None where nothing tells."""
        if self.past.search(plain) or _PAST_FORM.search(written):
            return True
        return False if self.coming.search(plain) or _FUTURE_FORM.search(written) else None


class DateWords(msgspec.Struct, frozen=True):
    """The words of all languages."""

    lexicons: dict[str, Lexicon]
    accented: dict[str, Lexicon]
    """Those whose accents matter, as they are written; in `lexicons`, without accents, autumn is Thursday's first half."""
    anchors: frozenset[str]
    asks: re.Pattern[str]
    asks_accented: re.Pattern[str]


def fold(text: str) -> str:
    """Return a text in small letters, without accents, in the simple Chinese characters where a time is told by them."""
    text = text.casefold()
    if text.isascii():
        return text
    text = unicodedata.normalize("NFD", text.translate(_simplified())).replace("đ", "d")
    return "".join(letter for letter in text if not 0x300 <= ord(letter) <= 0x36F)


@preloaded
def _simplified() -> dict[int, int]:
    return str.maketrans(
        "".join(words.dates.traditional for words in all_words().values()),
        "".join(words.dates.simplified for words in all_words().values()),
    )


@preloaded
def date_words() -> DateWords:
    """Return the words, read when they are first asked for."""
    languages = all_words()
    grammars = [words.dates for words in languages.values()]
    accented = {code: _lexicon(words, folded=False) for code, words in languages.items() if words.accented}
    lexicons = {code: _lexicon(words, folded=True) for code, words in languages.items()}
    asks: dict[bool, list[str]] = {True: [], False: []}
    for words in languages.values():
        asks[words.spaced] += map(fold, _items(words.dates.asks))
    alone = "|".join(re.escape(fold(grammar.asks_alone)) for grammar in grammars if grammar.asks_alone)
    questions = (_whole_words(asks[True]), rf"(?:^|\s)(?:{alone})\s*$", *map(re.escape, asks[False]))
    return DateWords(
        lexicons,
        accented,
        frozenset().union(*(lexicon.anchors for lexicon in (*accented.values(), *lexicons.values()))),
        re.compile("|".join(questions)),
        re.compile(_whole_words(word for grammar in grammars for word in _items(grammar.asks_accented))),
    )


def _lexicon(words: Words, *, folded: bool) -> Lexicon:
    language, spaced = words.dates, words.spaced
    key = fold if folded else str.casefold
    phrases: dict[str, tuple[Label, ...]] = {}
    for phrase, kind, value in _entries(language):
        if folded and words.accented and kind in _AMBIGUOUS and " " not in phrase and phrase != fold(phrase):
            continue  # hè is no he, and tôi, which is I, no evening
        for written in {key(phrase), key(_without_umlauts(phrase))}:
            label = phrases.setdefault(written, ({},))[0]
            if not (kind == "month" and "number" in label):
                label.setdefault(kind, value)
    for phrase, kinds in language.whole.items():
        pairs = (part.partition(":") for part in kinds.split())
        phrases[key(phrase)] = tuple({kind: _value(value)} for kind, _, value in pairs)
    if words.compounds:
        _add_compound_days(language, phrases)
    longest: dict[str, int] = {}
    anchors = set()
    for phrase, labels in phrases.items():
        parts = phrase.split() if spaced else _SIGN_OR_NUMBER.findall(phrase)
        longest[parts[0]] = max(longest.get(parts[0], 0), len(parts))
        if (
            any(kind in label for label in labels for kind in ANCHORS)
            or labels[0].get("number") in _YEAR_BEGINS
        ):
            anchors.add(parts[0])
    return Lexicon(
        spaced,
        phrases,
        frozenset(map(key, _items(language.doubtful))),
        longest,
        frozenset(anchors),
        _any_of(language.past, key, spaced=spaced),
        _any_of(language.coming, key, spaced=spaced),
        language.shift_stands,
        language.whole_weeks,
    )


def _entries(language: Dates) -> Iterator[tuple[str, str, Value]]:
    """Yield each word or phrase with what it may be, and its value as that."""
    for kind, row in language.rows.items():
        for value, words in enumerate(row.split(","), int(kind in {"ordinal", "month"})):
            yield from ((word, kind, value) for word in _items(words))
    for name, values in language.named.items():
        for value_name, words in values.items():
            yield from ((word, name, _value(value_name)) for word in _items(words))
    for plain, words in language.plain.items():
        yield from ((word, plain, 1) for word in _items(words))
    for prefix in _items(language.year_prefix):
        for number, words in enumerate(language.rows["number"].split(",")):
            yield from ((prefix + word, "year", 2000 + number) for word in _items(words))


def _add_compound_days(language: Dates, phrases: dict[str, tuple[Label, ...]]) -> None:
    """Add words such as Montagabend."""
    for day, words in enumerate(language.rows["weekday"].split(",")):
        for part, parts in language.named["part"].items():
            for first in _items(words):
                for second in _items(parts):
                    if " " not in first + second:
                        phrases.setdefault(fold(first + second), ({"weekday": day}, {"part": part}))


def _items(words: str) -> list[str]:
    return [word.strip() for word in re.split("[,/]", words) if word.strip()]


def _value(written: str) -> Value:
    unit, slash, shift = written.partition("/")
    if slash:
        return unit, int(shift)
    return int(written) if written.lstrip("-").isdigit() else written


def _without_umlauts(word: str) -> str:
    """Return a German word as it is written where there are no umlauts; words of other languages hardly hold any."""
    return word.replace("ä", "ae").replace("ö", "oe").replace("ü", "ue")


def _any_of(words: str, key: Callable[[str], str], *, spaced: bool) -> re.Pattern[str]:
    phrases = [key(word) for word in _items(words)]
    return re.compile(_whole_words(phrases) if spaced else "|".join(map(re.escape, phrases)))


def _whole_words(phrases: Iterable[str]) -> str:
    return rf"(?<!\w)(?:{'|'.join(map(re.escape, phrases))})(?!\w)"
