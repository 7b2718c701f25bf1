"""Date phrases: pieces of one language that stand together and tell a time, and what it may be.

A phrase has its pieces in whatever order the language likes, so no language needs a grammar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.patterns import Pattern
from edgemem.recall.date_pieces import MAX_DIGITS, Piece, Token, pieces_of
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
    from collections.abc import Iterator, Sequence
    from datetime import date

_SETS = ("month", "season", "weekday", "weekend", "day", "holiday", "date", "span", "period", "year")
"""What tells a time by itself; of one of these kinds, a phrase has one word."""
_SHIFTED = ("month", "season", "weekday", "weekend", "holiday")
"""What comes round again: there is a last and a next one."""
_GAP = 3
"""Words that may stand between two pieces of one phrase."""
_LAST_DAY = 31
_DAY_BESIDE = ("month", "month_day", "year", "period")
"""Kinds after which a number may be that of a day."""
_QUESTION = Pattern(
    r"\?|？|^\W*(?:who|what|where|when|which|why|how|did|wer|was|wo|wie|wann|que|quien|donde|cuando|cual|ai)\b"
)


class Phrase(msgspec.Struct, frozen=True):
    """Words that tell a time."""

    begin: int
    end: int
    known: int
    """Words of the whole text that the language knows: of two that read the same words, the one that knows more is right."""
    readings: tuple[Reading, ...]


class _Cluster(msgspec.Struct):
    """Pieces that stand together, in their order."""

    first: int
    begin: int
    end: int
    parts: dict[str, Any] = {}
    doubtful: bool = True
    gap: int = 0
    comma: bool = False
    ordinal: bool = False
    """Whether its number is the tenth, and not ten."""

    def takes(self, kind: str, value: Any, piece: Piece, lexicon: Lexicon) -> bool:
        """Tell whether one more piece can belong to it."""
        if kind in self.parts:
            return False
        if kind == "weekday" and self.parts.keys() == {"number"}:
            return self.ordinal
        if kind == "number":
            if self.parts.keys() <= {"weekday", "shift", "part"}:  # Friday the tenth, but not Friday at ten
                return "ordinal" in piece.label or (self.gap == 0 and "weekday" in self.parts)
            return not (self.comma and "month" in self.parts) and not self.parts.keys().isdisjoint(
                _DAY_BESIDE
            )
        if kind == "shift":
            stands = lexicon.shift_stands == "after" or (lexicon.shift_stands == "around" and value != 0)
            return stands and self.gap <= 1 and not self.parts.keys().isdisjoint(_SHIFTED)
        return True

    def add(self, kind: str, value: Any, piece: Piece) -> None:
        """Take one more piece in."""
        if kind == "month" and (self.comma or self.gap > 2):
            self.parts.pop("number", None)
        # A month that may be another word is one beside a day or a year, but not beside a bare number: one may sleep.
        sure = not piece.doubtful and kind != "part" and (kind != "number" or "number" not in piece.label)
        self.doubtful = self.doubtful and not sure and not ("year" in piece.label and self.parts)
        self.ordinal = self.ordinal or "ordinal" in piece.label
        self.parts[kind] = value
        self.end, self.gap, self.comma = piece.end, 0, False

    def passes(self, *, comma: bool) -> bool:
        """Tell whether it goes on after a word that may stand between."""
        ended = comma and self.comma
        self.gap, self.comma = self.gap + 1, self.comma or comma
        return self.gap <= _GAP and not ended


def phrases_in(
    written: str, plain: str, tokens: Sequence[Token], lexicon: Lexicon, day: Today
) -> Iterator[Phrase]:
    """Yield the times that a text tells in one language.

    Args:
        written: the text in small letters.
        plain: the same as the lexicon has its words: without accents, if it has none.
    """
    past = lexicon.speaks_of_past(written, plain)
    pieces, known = pieces_of(tokens, lexicon, day, past=past)
    if past is None and _QUESTION.search(plain):
        past = True  # people ask a memory about what was
    for cluster in _clusters(pieces, lexicon):
        if cluster.parts.keys() == {"number"} or _comes_round(pieces, cluster):
            continue
        if cluster.doubtful and not _prepared(pieces, cluster.first):
            # Whoever knows the language best has the say: April is a name here, whatever it is elsewhere.
            yield Phrase(cluster.begin, cluster.end, known, ())
            continue
        try:
            readings = tuple(_readings(cluster.parts, lexicon, day, past=past))
        except (ValueError, OverflowError, OSError):
            continue  # a day that no calendar has
        if readings:
            yield Phrase(cluster.begin, cluster.end, known, readings)


def _clusters(pieces: Sequence[Piece], lexicon: Lexicon) -> Iterator[_Cluster]:
    """Yield the pieces that tell one time together."""
    cluster: _Cluster | None = None
    before = ""
    for at, piece in enumerate(pieces):
        kind, value = _role(piece.label, before)
        before = kind
        if kind in {"small", "comma"}:
            if cluster is not None and not cluster.passes(comma=kind == "comma"):
                yield cluster
                cluster = None
            continue
        if cluster is not None and (not kind or not cluster.takes(kind, value, piece, lexicon)):
            yield cluster
            cluster = None
        if cluster is None and kind == "shift" and lexicon.shift_stands == "after":
            continue
        if kind:
            if cluster is None:
                cluster = _Cluster(at, piece.begin, piece.end, {})
            cluster.add(kind, value, piece)
    if cluster is not None:
        yield cluster


def _role(label: dict[str, Any], before: str) -> tuple[str, Any]:
    """Return what a piece is in a phrase, and its value; an empty string ends the phrase."""
    if "part" in label and before in {"day", "weekday"}:  # morgen is tomorrow, and gestern morgen is not
        return "part", label["part"]
    for kind in _SETS:
        if kind in label:
            return kind, label[kind]
    number = label.get("ordinal", label.get("number", 0))
    if 1 <= number <= _LAST_DAY:
        return "number", number
    for kind in ("shift", "part", "month_day", "small", "comma"):
        if kind in label:
            return kind, label[kind]
    return ("small", 1) if label.get("unit") in {"day", "year"} else ("", None)


def _prepared(pieces: Sequence[Piece], first: int) -> bool:
    """Tell whether a word stands before a phrase that makes a time of a doubtful one: "in may"."""
    for at in range(first - 1, max(first - 1 - _GAP, -1), -1):
        if "before" in pieces[at].label:
            return True
        if "small" not in pieces[at].label:
            return False
    return False


def _comes_round(pieces: Sequence[Piece], cluster: _Cluster) -> bool:
    """Tell whether "every Monday" is said, which is no time of its own."""
    if cluster.parts.keys().isdisjoint(_SHIFTED) or cluster.first == 0:
        return False
    return "every" in pieces[cluster.first - 1].label


def _readings(parts: dict[str, Any], lexicon: Lexicon, day: Today, *, past: bool | None) -> Iterator[Reading]:
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
    if "day" in parts or (part and shift in {-1, 0} and parts.keys().isdisjoint(_SETS)):
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
    listed = _listed(parts, day.day if within is None else within[0], lexicon)
    if listed is not None:
        for days, sure in pick(listed, day.day, shift, past=past, within=within):
            yield day.reading(days, sure, part)
    elif within is not None:
        yield day.reading(within, 1.0)


def _listed(parts: dict[str, Any], around: date, lexicon: Lexicon) -> list[Days] | None:
    """Return all that the parts can mean around a day."""
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
    yield from ((year, month, day) for day, month in orders if month <= 12 and day <= _LAST_DAY)


def _century(year: int) -> int:
    return year + (2000 if year < 70 else 1900)
