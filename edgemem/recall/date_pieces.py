"""Date pieces: the words of a text with what they may be in one language, and those joined that count or shift a unit.

A year said as "two thousand" and "three" becomes one piece, then "two weeks ago", "the last three days", "last month".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.recall.date_spans import Reading, Today
    from edgemem.recall.date_words import Label, Lexicon

MAX_DIGITS = 4
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
    _Units(pieces, lexicon, day, past=past).join()
    return pieces, known


def _pieces(tokens: Sequence[Token], lexicon: Lexicon) -> list[Piece]:
    """Return the words with what they may be, of phrases that are known the longest."""
    pieces: list[Piece] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        for length in range(min(lexicon.longest.get(token.word, 0), len(tokens) - at), 0, -1):
            key = lexicon.join.join(each.word for each in tokens[at : at + length])
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


class _Units:
    """Makes one piece of "two weeks ago", "the last three days" and "last month"."""

    def __init__(self, pieces: list[Piece], lexicon: Lexicon, day: Today, *, past: bool | None) -> None:
        self.pieces, self.lexicon, self.day, self.past = pieces, lexicon, day, past

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
        before, after = (
            self._beside(first, -1, "shift", "ago_before", "ahead_before"),
            self._beside(at, 1, "ago", "ahead", "shift"),
        )
        label_before = {} if before is None else self.pieces[before].label
        label_after = {} if after is None else self.pieces[after].label
        shift_before = label_before.get("shift") if self.lexicon.shift_stands != "after" else None
        shift_after = label_after.get("shift") if self.lexicon.shift_stands != "before" else None
        if counted is None and (shift_before is not None or shift_after is not None):
            shift = shift_before if shift_before is not None else shift_after
            if unit in {"week", "month", "year"} or (unit == "day" and shift == 0):
                return self._replace(
                    before if shift_before is not None else at,
                    at if shift_before is not None else after,
                    {"period": (unit, shift)},
                )
            return at
        if "ago" in label_after:
            return self._away(first, after, -count, unit, few=few)
        if "ago_before" in label_before and (counted is not None or before == at - 1):
            return self._away(before, at, -count, unit, few=few)
        if counted is None:
            return at
        if shift_before:
            return self._span(
                before, at, lambda: self.day.stretch(count if shift_before > 0 else -count, unit)
            )
        if shift_after:
            first = before if "ahead_before" in label_before and before is not None else first
            return self._away(first, after, count if shift_after > 0 else -count, unit, few=few)
        if "ahead_before" in label_before and not (self.past and "ahead" not in label_after):
            # "We did it in two weeks" tells how long it took.
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
        self.pieces[first : last + 1] = [Piece(label, self.pieces[first].begin, self.pieces[last].end)]
        return first
