"""Date phrases: words of one language that stand together and tell a time, and what it may be.

First a year said as "two thousand" and "three" becomes one piece, then "two weeks ago" and "last month"; what is left
stands in phrases, each of which has its pieces in whatever order the language likes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

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
from edgemem.recall.date_words import Label, Lexicon, date_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import date

_SETS = ("month", "season", "weekday", "weekend", "day", "holiday", "date", "span", "period", "year")
"""What tells a time by itself; of one of these kinds, a phrase has one word."""
_SHIFTED = ("month", "season", "weekday", "weekend", "holiday")
"""What comes round again: there is a last and a next one."""
_GAP = 3
"""Words that may stand between two pieces of one phrase."""
_MAX_DIGITS = 4
_FIRST_YEAR, _LAST_YEAR = 1900, 2100
_THOUSANDS, _CENTURIES = 2000, (19, 20)
_LAST_DAY = 31
_FEW = 3
_DAY_BESIDE = ("month", "month_day", "weekday", "year", "period")
"""Kinds after which a number may be that of a day."""
_QUESTION = re.compile(r"\?|？|^\W*(?:who|what|where|when|which|why|how|did|wer|was|wo|wie|wann|que|quien|donde|cuando|cual|ai)\b")
_PAST_FORM = re.compile(r"\b(?:[a-z]{3,}[^e\W]ed|ge[a-z]{3,}t|[a-z]{2,}(?:aron|ieron|imos))\b")


class Token(msgspec.Struct, frozen=True):
    """A word, a number or a sign of the text."""

    kind: str
    word: str
    begin: int
    end: int


class Phrase(msgspec.Struct, frozen=True):
    """Words that tell a time."""

    begin: int
    end: int
    known: int
    """Words of the whole text that the language knows: of two that read the same words, the one that knows more is right."""
    readings: tuple[Reading, ...]


class _Piece(msgspec.Struct):
    """A word or a phrase, with what it may be; nothing, if the language knows no time by it."""

    label: dict[str, Any]
    begin: int
    end: int
    doubtful: bool = False


class _Cluster(msgspec.Struct):
    """Pieces that stand together, in their order."""

    first: int
    begin: int
    end: int
    parts: dict[str, Any] = {}
    doubtful: bool = True
    gap: int = 0
    comma: bool = False

    def takes(self, kind: str, value: Any, lexicon: Lexicon) -> bool:
        """Tell whether one more piece can belong to it."""
        if kind in self.parts:
            return False
        if kind == "number":
            return not (self.comma and "month" in self.parts) and not self.parts.keys().isdisjoint(_DAY_BESIDE)
        if kind == "shift":
            stands = lexicon.shift_stands == "after" or (lexicon.shift_stands == "around" and value != 0)
            return stands and self.gap <= 1 and not self.parts.keys().isdisjoint(_SHIFTED)
        return True

    def add(self, kind: str, value: Any, piece: _Piece) -> None:
        """Take one more piece in."""
        if kind == "month" and (self.comma or self.gap > 2):
            self.parts.pop("number", None)
        self.doubtful = self.doubtful and (kind == "part" or (not self.parts and piece.doubtful))
        self.parts[kind] = value
        self.end, self.gap, self.comma = piece.end, 0, False

    def passes(self, *, comma: bool) -> bool:
        """Tell whether it goes on after a word that may stand between."""
        ended = comma and self.comma
        self.gap, self.comma = self.gap + 1, self.comma or comma
        return self.gap <= _GAP and not ended


def phrases_in(text: str, tokens: Sequence[Token], lexicon: Lexicon, day: Today) -> Iterator[Phrase]:
    """Yield the times that a text tells in one language.

    Args:
        text: in small letters and without accents, for its tense.
    """
    pieces = _pieces(tokens, lexicon)
    known = sum(1 for piece in pieces if piece.label and not piece.label.keys() & {"stop", "comma", "figure"})
    pieces = _join_years(pieces)
    _Units(pieces, lexicon, day).join()
    past = _speaks_of_past(text, lexicon)
    for cluster in _clusters(pieces, lexicon):
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


def _pieces(tokens: Sequence[Token], lexicon: Lexicon) -> list[_Piece]:
    """Return the words with what they may be, of phrases that are known the longest."""
    pieces: list[_Piece] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        for length in range(min(lexicon.longest.get(token.word, 0), len(tokens) - at), 0, -1):
            key = lexicon.join.join(each.word for each in tokens[at : at + length])
            if (labels := lexicon.phrases.get(key)) is not None:
                end = tokens[at + length - 1].end
                pieces += (_Piece(dict(label), token.begin, end, key in lexicon.doubtful) for label in labels)
                at += length
                break
        else:
            label = _figure(token)
            pieces.append(_Piece(label, token.begin, token.end, doubtful="year" in label))
            at += 1
    return pieces


def _figure(token: Token) -> dict[str, Any]:
    """Return what a token may be that no lexicon holds."""
    if token.kind == "number" and len(token.word) <= _MAX_DIGITS:
        number = int(token.word)
        if len(token.word) == _MAX_DIGITS and _FIRST_YEAR <= number < _LAST_YEAR:
            return {"year": number, "figure": 1}
        return {"number": number, "figure": 1}
    if token.kind == "ordinal":
        return {"ordinal": int(re.sub(r"\D", "", token.word)), "figure": 1}
    if token.kind == "date":
        return {"date": token.word, "figure": 1}
    return {token.kind: 1} if token.kind in {"comma", "stop"} else {}


def _join_years(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Make one year of "two thousand" and "twenty three", or of "nineteen", "ninety" and "nine"."""
    out: list[_Piece] = []
    for piece in pieces:
        number = piece.label.get("number") if "figure" not in piece.label else None
        last = out[-1].label if out else {}
        before, year = (last.get("number"), last.get("year")) if "figure" not in last else (None, None)
        label: Label | None = None
        if number is None:
            pass
        elif before == _THOUSANDS and number < 100:
            label = {"year": _THOUSANDS + number}
        elif before in _CENTURIES and 10 <= number < 100:
            label = {"year": before * 100 + number}
        elif year is not None and year % 10 == 0 and 0 < number < 10:
            label = {"year": year + number}
        elif before is not None and 20 <= before < 100 and before % 10 == 0 and 0 < number < 10:
            label = {"number": before + number}
        if label is None:
            out.append(piece)
        else:
            out[-1] = _Piece(dict(label), out[-1].begin, piece.end)
    return out


class _Units:
    """Makes one piece of "two weeks ago", "the last three days" and "last month"."""

    def __init__(self, pieces: list[_Piece], lexicon: Lexicon, day: Today) -> None:
        self.pieces, self.lexicon, self.day = pieces, lexicon, day

    def join(self) -> None:
        """Join what stands around each unit."""
        at = 0
        while at < len(self.pieces):
            if "unit" in self.pieces[at].label:
                at = self._join(at)
            at += 1

    def _join(self, at: int) -> int:
        unit = self.pieces[at].label["unit"]
        if unit == "year" and at and "year" in self.pieces[at - 1].label:  # 2023年
            return self._replace(at - 1, at, {"year": self.pieces[at - 1].label["year"]})
        if unit == "year" and at + 1 < len(self.pieces) and "year" in self.pieces[at + 1].label:  # năm 2023
            return self._replace(at, at + 1, {"year": self.pieces[at + 1].label["year"]})
        counted = self._beside(at, -1, "number", "few", "one")
        first = at if counted is None else counted
        count = _FEW if counted is None else self.pieces[counted].label.get("number", 1)
        few = counted is None or "few" in self.pieces[counted].label
        count = _FEW if few else count
        before, after = self._beside(first, -1, "shift", "ago_before", "ahead_before"), self._beside(at, 1, "ago", "ahead", "shift")
        label_before = {} if before is None else self.pieces[before].label
        label_after = {} if after is None else self.pieces[after].label
        shift_before = label_before.get("shift") if self.lexicon.shift_stands != "after" else None
        shift_after = label_after.get("shift") if self.lexicon.shift_stands != "before" else None
        if counted is None and (shift_before is not None or shift_after is not None):
            shift = shift_before if shift_before is not None else shift_after
            if unit in {"week", "month", "year"} or (unit == "day" and shift == 0):
                return self._replace(before if shift_before is not None else at, at if shift_before is not None else after, {"period": (unit, shift)})
            return at
        if "ago" in label_after:
            return self._away(first, after, -count, unit, few=few)
        if "ago_before" in label_before and (counted is not None or before == at - 1):
            return self._away(before, at, -count, unit, few=few)
        if counted is None:
            return at
        if shift_before:
            return self._span(before, at, lambda: self.day.stretch(count if shift_before > 0 else -count, unit))
        if shift_after:
            first = before if "ahead_before" in label_before and before is not None else first
            return self._away(first, after, count if shift_after > 0 else -count, unit, few=few)
        if "ahead_before" in label_before:
            return self._away(before, after if "ahead" in label_after else at, count, unit, few=few)
        if "ahead" in label_after:
            return self._away(first, after, count, unit, few=few)
        return at

    def _beside(self, at: int, step: int, *kinds: str) -> int | None:
        """Return the place of the next piece that is one of some kinds; one small word may stand between."""
        for away in (1, 2):
            there = at + step * away
            if not 0 <= there < len(self.pieces):
                return None
            label = self.pieces[there].label
            if any(kind in label for kind in kinds):
                return there
            if "small" not in label:
                return None
        return None

    def _away(self, first: int | None, last: int | None, count: int, unit: str, *, few: bool) -> int:
        return self._span(first, last, lambda: self.day.ago(count, unit, few=few))

    def _span(self, first: int | None, last: int | None, reading: Callable[[], Reading]) -> int:
        try:
            return self._replace(first, last, {"span": reading()})
        except (ValueError, OverflowError, OSError):
            return self._replace(first, last, {})

    def _replace(self, first: int | None, last: int | None, label: dict[str, Any]) -> int:
        if first is None or last is None:
            raise ValueError("a unit is joined with what stands beside it")
        self.pieces[first : last + 1] = [_Piece(label, self.pieces[first].begin, self.pieces[last].end)]
        return first


def _clusters(pieces: Sequence[_Piece], lexicon: Lexicon) -> Iterator[_Cluster]:
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
        if cluster is not None and (not kind or not cluster.takes(kind, value, lexicon)):
            yield cluster
            cluster = None
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


def _prepared(pieces: Sequence[_Piece], first: int) -> bool:
    """Tell whether a word stands before a phrase that makes a time of a doubtful one: "in may"."""
    for at in range(first - 1, max(first - 1 - _GAP, -1), -1):
        if "before" in pieces[at].label:
            return True
        if "small" not in pieces[at].label:
            return False
    return False


def _speaks_of_past(text: str, lexicon: Lexicon) -> bool | None:
    """Tell whether a text speaks of what was, as a question does that does not say so; None where nothing tells."""
    if lexicon.past.search(text) or _PAST_FORM.search(text):
        return True
    if lexicon.coming.search(text):
        return False
    return True if _QUESTION.search(text) else None


def _readings(parts: dict[str, Any], lexicon: Lexicon, day: Today, *, past: bool | None) -> Iterator[Reading]:
    """Yield what the parts of a phrase may mean, the likeliest first."""
    if "span" in parts:
        yield parts["span"]
        return
    part = parts.get("part")
    if "date" in parts:
        dates = [whole_day(*each) for each in _dates(parts["date"])]
        yield from (day.reading(days, 1.0 / len(dates), part) for days in dates)
        return
    shift = parts.get("shift")
    if "day" in parts or (part and shift in {-1, 0} and parts.keys().isdisjoint(_SETS)):
        yield day.reading(day.period("day", parts.get("day", shift)), 1.0, part)
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
        return year_days_of(around, parts["month"], parts["number"]) if "number" in parts else months(around, parts["month"])
    if "number" in parts and "month_day" in parts:
        order = list(parts)
        if (order.index("month_day") > order.index("number")) == (lexicon.join == ""):
            return month_days(around, parts["number"])
    if "holiday" in parts:
        return _holidays(around, parts["holiday"])
    if "season" in parts:
        return seasons(around, parts["season"])
    if "weekday" in parts:
        return weekdays(around, parts["weekday"])
    return weekends(around) if "weekend" in parts else None


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
    if len(first) == _MAX_DIGITS:
        yield int(first), int(second), int(third)
        return
    if len(third) not in {2, _MAX_DIGITS}:
        return
    year = int(third) if len(third) == _MAX_DIGITS else _century(int(third))
    day, month = int(first), int(second)
    orders = [(day, month)] if sign == "." or day == month else [(day, month), (month, day)]
    yield from ((year, month, day) for day, month in orders if month <= 12 and day <= _LAST_DAY)


def _century(year: int) -> int:
    return year + (2000 if year < 70 else 1900)
