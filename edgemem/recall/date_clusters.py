"""Date clusters: pieces of one language that stand together and tell one time, in whatever order the language likes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgemem.recall.date_pieces import Piece
    from edgemem.recall.date_words import Lexicon

SETS = ("month", "season", "weekday", "weekend", "day", "holiday", "date", "span", "period", "year")
"""What tells a time by itself; of one of these kinds, a phrase has one word."""
SHIFTED = ("month", "season", "weekday", "weekend", "holiday")
"""What comes round again: there is a last and a next one."""
_GAP = 3
"""Words that may stand between two pieces of one phrase."""
LAST_DAY = 31
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
            return stands and self.gap <= 1 and not self.parts.keys().isdisjoint(SHIFTED)
        return True

    def add(self, kind: str, value: Any, piece: Piece, at: int) -> None:
        """Take one more piece in."""
        if kind == "month" and (self.comma or self.gap > 2):
            self.parts.pop("number", None)
        # A month that may be another word is one beside a day or a year, but not beside a bare number: one may sleep.
        sure = not piece.doubtful and kind != "part" and (kind != "number" or "number" not in piece.label)
        self.doubtful = self.doubtful and not sure and not ("year" in piece.label and self.parts)
        self.ordinal = self.ordinal or "ordinal" in piece.label
        self.parts[kind] = value
        self.last, self.end, self.gap, self.comma = at, piece.end, 0, False

    def passes(self, *, comma: bool) -> bool:
        """Tell whether it goes on after a word that may stand between."""
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
