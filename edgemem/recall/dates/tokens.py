"""Tokens: the words of a text with what they may be in one language, and those joined that tell one time.

A year said as "two thousand" and "three" becomes one piece, then "two weeks ago", "the last three days", "last month". Pieces
that stand together and tell one time make a cluster, in whatever order the language likes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.recall.dates.lexicon import LAST_DAY, MAX_DIGITS, SETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from edgemem.recall.dates.lexicon import Label, Lexicon
    from edgemem.recall.dates.readings import Reading, Today


_FIRST_YEAR, _LAST_YEAR = 1900, 2100
_THOUSANDS, _CENTURIES = 2000, (19, 20)
_FEW = 3


class Token(msgspec.Struct, frozen=True):
    """A word, a number or a sign of the text."""

    kind: str
    word: str
    begin: int
    end: int


class Piece(msgspec.Struct):
    """A word or a phrase, with what it may be; nothing, if the language knows no time by it."""

    label: dict[str, Any]
    begin: int
    end: int
    doubtful: bool = False


def pieces_of(
    tokens: Sequence[Token], lexicon: Lexicon, day: Today, *, past: bool | None
) -> tuple[list[Piece], int]:
    """Return the words of a text with what they may be, joined where they count units, and how many are known.

    Args:
        past: whether the text speaks of what was, as far as it says so.
    """
    pieces = _pieces(tokens, lexicon)
    known = sum(1 for piece in pieces if piece.label and not piece.label.keys() & {"stop", "comma", "figure"})
    pieces = _join_years(pieces)
    _join_units(pieces, lexicon, day, past=past)
    return pieces, known


def _pieces(tokens: Sequence[Token], lexicon: Lexicon) -> list[Piece]:
    """Return the words with what they may be, of phrases that are known the longest."""
    pieces: list[Piece] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        for length in range(min(lexicon.longest.get(token.word, 0), len(tokens) - at), 0, -1):
            key = (" " if lexicon.spaced else "").join(member.word for member in tokens[at : at + length])
            if (labels := lexicon.phrases.get(key)) is not None:
                end = tokens[at + length - 1].end
                pieces += (Piece(dict(label), token.begin, end, key in lexicon.doubtful) for label in labels)
                at += length
                break
        else:
            label = _figure(token)
            pieces.append(Piece(label, token.begin, token.end, doubtful="year" in label))
            at += 1
    return pieces


def _figure(token: Token) -> dict[str, Any]:
    """Return what a token may be that no lexicon holds."""
    if token.kind == "number" and len(token.word) <= MAX_DIGITS:
        number = int(token.word)
        if len(token.word) == MAX_DIGITS and _FIRST_YEAR <= number < _LAST_YEAR:
            return {"year": number, "figure": 1}
        return {"number": number, "figure": 1}
    if token.kind == "ordinal":
        return {"ordinal": int(re.sub(r"\D", "", token.word)), "figure": 1}
    if token.kind == "date":
        return {"date": token.word, "figure": 1}
    return {token.kind: 1} if token.kind in {"comma", "stop"} else {}


def _join_years(pieces: Sequence[Piece]) -> list[Piece]:
    """Make one year of "two thousand" and "twenty three", or of "nineteen", "ninety" and "nine"."""
    out: list[Piece] = []
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
            out[-1] = Piece(dict(label), out[-1].begin, piece.end)
    return out


def _join_units(pieces: list[Piece], lexicon: Lexicon, day: Today, *, past: bool | None) -> None:
    """Make one piece of "two weeks ago", "the last three days" and "last month"."""
    at = 0
    while at < len(pieces):
        if "unit" in pieces[at].label and (joined := _unit_phrase(pieces, at, lexicon, day, past=past)):
            first, last, label = joined
            pieces[first : last + 1] = [Piece(label, pieces[first].begin, pieces[last].end)]
            at = first
        at += 1


def _unit_phrase(
    pieces: Sequence[Piece], at: int, lexicon: Lexicon, day: Today, *, past: bool | None
) -> tuple[int, int, dict[str, Any]] | None:
    """Return the first and the last piece of what a unit stands in, and what it says; None where it stands alone."""
    unit = pieces[at].label["unit"]
    if unit == "year" and at and "year" in pieces[at - 1].label:  # 2023年
        return at - 1, at, {"year": pieces[at - 1].label["year"]}
    if unit == "year" and at + 1 < len(pieces) and "year" in pieces[at + 1].label:  # năm 2023
        return at, at + 1, {"year": pieces[at + 1].label["year"]}
    counted = _beside(pieces, at, -1, "number", "few", "article")
    first = at if counted < 0 else counted
    few = counted < 0 or "few" in pieces[counted].label
    count = _FEW if few else pieces[counted].label.get("number", 1)
    before = _beside(pieces, first, -1, "shift", "ago_before", "ahead_before")
    after = _beside(pieces, at, 1, "ago", "ahead", "shift")
    label_before = {} if before < 0 else pieces[before].label
    label_after = {} if after < 0 else pieces[after].label
    shift_before = label_before.get("shift") if lexicon.shift_stands != "after" else None
    shift_after = label_after.get("shift") if lexicon.shift_stands != "before" else None

    def away(count: int) -> dict[str, Any]:
        return _span(lambda: day.ago(count, unit, few=few))

    if counted < 0 and (shift_before is not None or shift_after is not None):
        shift = shift_after if shift_before is None else shift_before
        if unit in {"week", "month", "year"} or (unit == "day" and shift == 0):
            begin, end = (at, after) if shift_before is None else (before, at)
            return begin, end, {"period": (unit, shift)}
        return None
    if "ago" in label_after:
        return first, after, away(-count)
    if "ago_before" in label_before and (counted >= 0 or before == at - 1):
        return before, at, away(-count)
    if counted < 0:
        return None
    if shift_before:
        return before, at, _span(lambda: day.stretch(count if shift_before > 0 else -count, unit))
    if shift_after:
        first = before if "ahead_before" in label_before else first
        return first, after, away(count if shift_after > 0 else -count)
    if "ahead_before" in label_before and not (past and "ahead" not in label_after):
        # "We did it in two weeks" tells how long it took.
        return before, after if "ahead" in label_after else at, away(count)
    return (first, after, away(count)) if "ahead" in label_after else None


def _beside(pieces: Sequence[Piece], at: int, step: int, *kinds: str) -> int:
    """Return the place of the next piece that is one of some kinds, -1 for none; one small word may stand between."""
    for place in (at + step, at + 2 * step):
        if not 0 <= place < len(pieces):
            break
        label = pieces[place].label
        if not label.keys().isdisjoint(kinds):
            return place
        if "small" not in label:
            break
    return -1


def _span(reading: Callable[[], Reading]) -> dict[str, Any]:
    """Return a time as what a piece says; nothing where no calendar has it."""
    try:
        return {"span": reading()}
    except (ValueError, OverflowError, OSError):
        return {}


SHIFTED = ("month", "season", "weekday", "weekend", "holiday")
"""What comes round again: there is a last and a next one."""
_GAP = 3
"""Words that may stand between two pieces of one phrase."""
_DAY_BESIDE = ("month", "month_day", "year", "period")
"""Kinds after which a number may be that of a day."""


class Cluster(msgspec.Struct):
    """Pieces that stand together, in their order."""

    first: int
    """The place of its first piece,"""
    last: int
    """and of its last one."""
    begin: int
    end: int
    parts: dict[str, Any] = {}
    doubtful: bool = True
    gap: int = 0
    comma: bool = False
    ordinal: bool = False
    """Whether its number is the tenth, and not ten."""

    def takes(self, kind: str, value: Any, piece: Piece, lexicon: Lexicon) -> bool:
        """Tell whether one more piece can belong to this time."""
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
            return stands and self.gap <= 1 and not self.parts.keys().isdisjoint(SHIFTED)
        return True

    def add(self, kind: str, value: Any, piece: Piece, at: int) -> None:
        """Add a piece to this time."""
        if kind == "month" and (self.comma or self.gap > 2):
            self.parts.pop("number", None)
        # A month that may be another word is one beside a day or a year, but not beside a bare number: one may sleep.
        sure = not piece.doubtful and kind != "part" and (kind != "number" or "number" not in piece.label)
        self.doubtful = self.doubtful and not sure and not ("year" in piece.label and self.parts)
        self.ordinal = self.ordinal or "ordinal" in piece.label
        self.parts[kind] = value
        self.last, self.end, self.gap, self.comma = at, piece.end, 0, False

    def passes(self, *, comma: bool) -> bool:
        """Count a word that may stand within a time; tell whether the time can go on behind it."""
        ended = comma and self.comma
        self.gap, self.comma = self.gap + 1, self.comma or comma
        return self.gap <= _GAP and not ended


def clusters_in(pieces: Sequence[Piece], lexicon: Lexicon) -> Iterator[Cluster]:
    """Yield the pieces that tell one time together."""
    cluster: Cluster | None = None
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
                cluster = Cluster(at, at, piece.begin, piece.end, {})
            cluster.add(kind, value, piece, at)
    if cluster is not None:
        yield cluster


def _role(label: dict[str, Any], before: str) -> tuple[str, Any]:
    """Return what a piece is in a phrase, and its value; an empty string ends the phrase."""
    if "part" in label and before in {"day", "weekday"}:  # morgen is tomorrow, and gestern morgen is not
        return "part", label["part"]
    for kind in SETS:
        if kind in label:
            return kind, label[kind]
    number = label.get("ordinal", label.get("number", 0))
    if 1 <= number <= LAST_DAY:
        return "number", number
    for kind in ("shift", "part", "month_day", "small", "comma"):
        if kind in label:
            return kind, label[kind]
    return ("small", 1) if label.get("unit") in {"day", "year"} else ("", None)
