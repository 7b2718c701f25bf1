"""Lexicon: words and forms of five languages that name a time, as `[dates]` of their files has them; words about lists, and ordinary English words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any, get_args

import msgspec

from edgemem.languages.words import (
    Binding,
    Dates,
    Exact,
    Items,
    Naming,
    Templates,
    Vocabulary,
    Words,
    all_words,
    bare,
    either,
    in_any,
)
from edgemem.preload import Pattern, preloaded
from edgemem.recall.text.analyse import fold

MARK = "\ue000\ue001*"
"""Replaces a time where forms of ranges are looked for."""
UNITS = ("day", "week", "month", "year", "fortnight")
PARTS = ("morning", "noon", "afternoon", "evening", "night")
_FIRST_VALUE = {"ordinal": 1, "month": 1, "day": -2, "shift": -1}
_NAMES = {"unit": UNITS, "part": PARTS}
_ANCHORS = ("monthday", "month", "season", "weekday", "weekend", "day", "part", "unit", "whole")
"""Without one of these words, or figures, no text names a time."""
_ACCENTED_ONLY = ("season", "part")
"""Words of one syllable that mean something else without accents: hè is no he, and tôi, which is I, no evening."""
_FIGURES = {
    "nth": r"\d{1,2}(?:st|nd|rd|th|[ºª.])?(?![\d:])", "monthday": r"\d{1,2}(?:st|nd|rd|th|[ºª.])(?![\d:])",
    "count": r"\d{1,3}", "year": r"(?:19|20)\d\d", "short": r"\d{1,2}(?:/\d{1,2}|\.\s?\d{1,2}\.)(?![\d/])",
    "date": r"\d{1,4}(?P<sign>[-/.])\d{1,2}(?P=sign)\d{1,4}(?!\d|[-/.]\d)",
}  # fmt: skip
_ANY_FIGURES = r"(?:19|20)\d\d|\d[-/.]\d|\d(?:[号日ºª.]|st|nd|rd|th)"
_NAMING = get_args(Naming)
_BINDING = get_args(Binding)
_LEAST_MONTHDAY = 4  # the lowest number of a day that stands alone: "the first" is rarely a day
_NOTATION = str.maketrans({"(": "(?:", "[": "(?:", "]": ")?", " ": r"\s+"})
_GAP = r"[\w'’]+(?:\s+[\w'’]+){0,3}"
_SLOT = re.compile(r"\{(\w+)\}")
_PAST_FORM = Pattern(
    r"\b(?:[a-z]{3,}[^e\W]ed|(?:ab|an|auf|aus|bei|ein|fest|her|hin|los|mit|nach|um|vor|weg|zu|zurück)?ge[a-zäöüß]{3,}t|(?:hab|hast|hat|habe|haben|habt)\b[^.]*\b(?:be|er|ent|ver|zer)[a-zäöüß]{2,}(?:t|en)|[a-zñ]{2,}(?:aron|ieron|imos)|[a-zñ]{3,}amos|(?!qué\b)[a-zñ]{2,}(?<![aei]r)[éó])\b"
)
_PERFECT_FORM = {
    "en": r"(?<!\w)(?:have|has|had|having|(?<=['’])(?:ve|s|d))(?:\s+[a-z]+){0,2}?\s+(?:[a-z]{2,}ed|been|given|made|put|told|taken|sent|done|gone|come|become|chosen|brought|bought|found|left|lost|kept|held|let|written|spoken)\b",
    "de": r"\b(?:hab|habe|hast|hat|haben|habt|bin|bist|ist|is|sind|seid)\b[^.,;]*?\b(?!ersten|beiden)(?:[a-zäöüß]*ge[a-zäöüß]{2,}(?:t|en)|(?:be|er|ent|ver|zer|ueber|uber|über|unter)[a-zäöüß]{2,}(?:t|en)|[a-z]+iert)\b|\bge(?!burt|dicht|richt|sicht|wicht)[a-zäöüß]{3,}t\b",
    "es": r"\b(?:he|has|ha|hemos|habéis|habeis|han)\s+(?:\w+\s+)?\w+(?:ado|ido|cho|sto|rto)\b",
}
"""A perfect tells that something is done, not that the day in its sentence is past: "I've been given Friday"."""
_FUTURE_FORM = Pattern(r"\b[a-zñ]{2,}[aei]r(?:é|á|ás|án|emos)\b|\b[a-zñ]{3,}amos\b")


class Lexicon(msgspec.Struct, frozen=True):
    """One language's words and forms, without accents unless they matter."""

    code: str
    values: dict[str, dict[str, Any]]
    """By kind, each word's value."""
    times: Pattern
    """Finds what names a time; groups are named after the form and its words, each with a number."""
    ranges: Pattern
    """Finds words that bind times, each of which is a `MARK`."""
    anchors: Pattern
    """Finds figures, and words of `_ANCHORS`."""
    doubtful: frozenset[str]
    prepositions: Pattern
    """Finds, at the end of a text, a word after which a doubtful one is a time."""
    before_monthday: Pattern
    """Finds, at the end of a text, a word after which the number of a day stands alone."""
    past: Pattern
    coming: Pattern
    before_coming: Pattern
    """Finds, at the end of a text, a word behind which a time is to come."""
    either: Pattern
    """Finds what leaves open whether a day is past,"""
    before_other: Pattern
    """and, at the end of a text, what leaves open which of its weekdays is meant."""
    longer: Pattern
    """Finds units longer than a day."""
    whole_weeks: bool

    def tenses(self, written: str, plain: str) -> tuple[bool, bool]:
        """Tell whether a text has signs of the past, and of the future; `plain` has the letters of the lexicon.

        In `written` no German noun is taken for a verb, as in small letters.
        """
        past = self.past.search(plain) or _PAST_FORM.search(written)
        coming = self.coming.search(plain) or _FUTURE_FORM.search(written)
        return past is not None, coming is not None


class Lexicons(msgspec.Struct, frozen=True):
    """The words and forms of all languages."""

    plain: dict[str, Lexicon]
    accented: dict[str, Lexicon]
    """Languages whose accents matter, as written; in `plain`, without accents, autumn is half of Thursday."""
    asks: Pattern
    """Finds words that ask for a time in a text without accents,"""
    asks_accented: Pattern
    """and in one as written."""
    begins: Pattern
    """Finds the beginning or end of a question, without accents."""


@preloaded
def lexicons() -> Lexicons:
    """Read the words and forms of all languages, once."""
    languages = all_words()
    tables = [words.dates for words in languages.values()]
    asks = [_either(fold(words.dates.asks), spaced=words.spaced) for words in languages.values()]
    asks += [rf"(?:^|\s)(?:{table.asks_alone})\s*$" for table in tables if table.asks_alone]
    begins = {
        bare(item)
        for words in languages.values()
        if words.spaced
        for item in (
            *words.dates.begins.items,
            *(() if words.stop_bare.words else (*words.questions.items, *words.polar.items)),
        )
    }
    accented = [_either(table.asks_accented, spaced=True) for table in tables if table.asks_accented]
    return Lexicons(
        {code: _lexicon(code, words, key=fold) for code, words in languages.items()},
        {code: _lexicon(code, words, key=str.lower) for code, words in languages.items() if words.accented},
        Pattern(*asks),
        Pattern(*accented),
        Pattern(rf"\?|？|^\W*{either(Items(','.join(sorted(begins))))}\b"),
    )


def _lexicon(code: str, words: Words, *, key: Callable[[str], str]) -> Lexicon:
    table, spaced = words.dates, words.spaced
    values: dict[str, dict[str, Any]] = {}
    for kind, value, word in _entries(table):
        if words.accented and key(word) != word.lower() and kind in _ACCENTED_ONLY and " " not in word:
            continue
        for written in (key(word), key(_without_umlauts(word))):
            values.setdefault(kind, {}).setdefault(written, value)
    values["nth"], values["count"] = values.get("ordinal", values["number"]), values["number"]
    away = {word: value for word, value in values["shift"].items() if value}
    nth = values["nth"].items()
    if table.before_monthday:
        values["monthday"] = {word: value for word, value in nth if value >= _LEAST_MONTHDAY}
    values["later"] = {word: value for word, value in away.items() if value > 1}
    values["weeks"] = {word: unit for word, unit in values["unit"].items() if unit in ("week", "fortnight")}
    values["place"] = {word: value for word, value in (*away.items(), *nth) if value in (-1, *range(1, 6))}
    slots = {kind: "|".join(_escaped(known)) for kind, known in (*values.items(), ("away", away)) if known}
    number = count()

    def slot(match: re.Match[str]) -> str:
        kind, n = match[1], next(number)
        if kind == "time":
            return MARK
        figures = _FIGURES.get(kind, "").replace("sign", f"sign_{n}")
        ways = "|".join(filter(None, (slots.get(kind), figures)))
        return f"(?P<{'shift' if kind == 'away' else kind}_{n}>{ways})"

    def pattern(kinds: Iterable[Any]) -> Pattern:
        forms = []
        for kind in kinds:
            for form in table.forms.get(kind, ()):
                opened = key(form).translate(_NOTATION)
                forms.append(f"(?P<{kind}__{next(number)}>{_SLOT.sub(slot, opened)})")
        either = "|".join(forms)
        return Pattern(rf"(?<![\w/.-])(?:{either})(?!\w)" if spaced else rf"(?<![\d./-])(?:{either})")

    begin = r"(?<!\w)" if spaced else ""
    longer = [word for word, unit in values["unit"].items() if unit != "day"] + list(values["weekend"])
    anchors = _escaped({word for kind in _ANCHORS for word in values.get(kind, ())})
    return Lexicon(
        code,
        values,
        pattern(_NAMING),
        pattern(_BINDING),
        Pattern(rf"{begin}(?:{'|'.join(anchors)})", _ANY_FIGURES),
        frozenset(map(key, _items(table.doubtful))),
        Pattern(rf"{begin}(?:{_either(key(table.prepositions), spaced=False)})\s*$"),
        Pattern(rf"{begin}(?:{_either(key(table.before_monthday), spaced=False)})\s*$"),
        Pattern(_either(key(table.past), spaced=spaced)),
        Pattern(_either(key(table.coming), spaced=spaced)),
        Pattern(rf"{begin}(?:{_either(key(table.before_coming), spaced=False)})\s*$"),
        Pattern(*filter(None, (_either(key(table.either), spaced=spaced), _PERFECT_FORM.get(code)))),
        Pattern(rf"{begin}(?:{_either(key(table.before_other), spaced=False) or '(?!)'})\s*$"),
        Pattern(_either(",".join(longer), spaced=spaced)),
        table.whole_weeks,
    )


def _entries(table: Dates) -> Iterator[tuple[str, Any, str]]:
    """Yield each word's kind, value and letters."""
    for kind, row in table.words.items():
        for value, words in enumerate(row.split(","), _FIRST_VALUE.get(kind, 0)):
            yield from (
                (kind, _NAMES[kind][value] if kind in _NAMES else value, word) for word in _items(words)
            )
    for word, parts in table.whole.items():
        pairs = (part.partition(":") for part in parts.split())
        yield (
            "whole",
            {kind: int(value) if value.lstrip("-").isdigit() else value for kind, _, value in pairs},
            word,
        )


def _items(words: str) -> list[str]:
    return [word.strip() for word in re.split("[,/]", words) if word.strip()]


def _without_umlauts(word: str) -> str:
    """Spell a German word without umlauts; words of other languages hardly hold any."""
    return word.replace("ä", "ae").replace("ö", "oe").replace("ü", "ue")


def _escaped(words: Iterable[str]) -> list[str]:
    """Return words as expressions, longest first; `…` means one to four words."""
    longest = sorted(words, key=lambda word: (-len(word), word))
    return [re.escape(word).replace(r"\ ", r"[\s-]+").replace("…", _GAP) for word in longest]


def _either(listed: str, *, spaced: bool) -> str:
    words = "|".join(_escaped(set(_items(listed))))
    return rf"(?<!\w)(?:{words})(?!\w)" if spaced else words


@preloaded
def common_words() -> frozenset[str]:
    """Return the English words that everybody uses at home, in small letters."""
    return _english().common.words | all_words()["en"].stop.words


def common_names() -> frozenset[str]:
    """Return first names that a recogniser writes rightly, so that who is called so is mostly meant."""
    return _english().first_names.words


def is_english(word: str) -> bool:
    """Tell whether a word in small letters is an ordinary English one, or a form of one."""
    known = _ordinary()
    if word in known:
        return True
    for ending in _english().endings.words:
        if word.endswith(ending) and len(word) > len(ending) + 1:
            root = word[: -len(ending)]
            forms = {root, f"{root}e", f"{root}y", root[:-1] if root[-1:] == root[-2:-1] else root}
            if not known.isdisjoint(forms):
                return True
    return False


@preloaded
def _ordinary() -> frozenset[str]:
    return common_words() | _english().ordinary.words


def _english() -> Vocabulary:
    vocabulary = all_words()["en"].vocabulary
    if vocabulary is None:
        raise LookupError("en.toml has no [vocabulary]")
    return vocabulary


@preloaded
def joining_words() -> frozenset[str]:
    """Return the words between the last items of a list, in any language."""
    return frozenset().union(*(words.joins.words for words in all_words().values()))


@preloaded
def list_words() -> Exact:
    """Return the words for lists, in any language."""
    return in_any(lambda words: words.lists, Templates)
