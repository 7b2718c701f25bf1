"""The drawing of one fact: valid time across, in equal stretches, recorded time down; a line is shaded where older ones hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from math import inf, isfinite
from typing import TYPE_CHECKING, NamedTuple

from edgemem.cli.printing import WIDTH, moment, plain

if TYPE_CHECKING:
    from edgemem.store.db.database import Database

    Said = tuple[int, str | None]

UNICODE, ASCII = "█░×·", "#-x."
LEGEND = "{} learnt then  {} still believed  {} no value from then on  {} nothing known"
_MARGIN = 23  # cells left of the drawing, for a version's number and recorded time
_DAY = 86400.0


class Belief(NamedTuple):
    """A value for a stretch of valid time, believed for a while; seconds since the epoch."""

    statement: int
    value: str | None
    valid_from: float
    valid_to: float
    learnt: float
    known_to: float


def beliefs_of(database: Database, key: str, scope: str) -> list[Belief]:
    """Return every rectangle of a fact."""
    rows = database.query(
        "select f.origin, f.value, f.valid_from, coalesce(f.valid_to, 9e999), f.recorded / 1e6,"
        " coalesce(f.known_to / 1e6, 9e999)"
        " from fact_keys k join facts f on f.key_id = k.id where k.scope = ? and k.key = ? order by f.id",
        (scope, key),
    )
    return [Belief(*row) for row in rows]


def versions(beliefs: Sequence[Belief]) -> dict[int, Belief]:
    """Return the statements by number, from 1; the remainder of an older one is written at the same moment."""
    first: dict[int, float] = {}
    stated: dict[float, Belief] = {}
    for belief in sorted(beliefs, key=lambda belief: (belief.learnt, belief.statement)):
        if belief.learnt == first.setdefault(belief.statement, belief.learnt):
            stated[belief.learnt] = belief
    return dict(enumerate(stated.values(), start=1))


def draw(beliefs: Sequence[Belief], *, now: float, width: int = WIDTH, glyphs: str = UNICODE) -> list[str]:
    """Return the lines of the drawing of the newest versions, each at most `width` cells wide."""
    numbered = versions(beliefs)
    numbers = {belief.statement: number for number, belief in numbered.items()}
    drawn = dict(list(numbered.items())[-newest(width) :])
    axis = axis_of(drawn.values(), now)
    cells = (width - _MARGIN) // (len(axis) - 1)
    lines = _head(axis[1:-1], cells, now=now, width=width)
    for number, new in drawn.items():
        line = ""
        for known, run in groupby(believed(beliefs, new.learnt, *stretch) for stretch in pairwise(axis)):
            values = [f"{numbers[statement]} {value}" for statement, value in known if value is not None]
            is_new = new.statement in dict(known)
            glyph = glyphs[(0 if is_new else 1) if values else (2 if is_new else 3)]
            label = values[0] if len(values) == 1 else ""
            line += _stretch(glyph, label if is_new else label.partition(" ")[0], cells * len(list(run)))
        lines.append(f"{number:>4}  {moment(new.learnt):<16} {line}")
    return lines


def newest(width: int) -> int:
    """Return how many versions have room in a drawing."""
    return (width - _MARGIN) // 4  # two stretches each at most, of two cells


def axis_of(drawn: Iterable[Belief], now: float) -> list[float]:
    """Return the edges between the stretches, with an end on both sides that is open."""
    return [-inf, *sorted({now, *(edge for belief in drawn for edge in belief[2:4] if isfinite(edge))}), inf]


def believed(beliefs: Sequence[Belief], learnt: float, begin: float, end: float) -> list[Said]:
    """Return the statements and values believed of a stretch right after a moment."""
    known = [old for old in beliefs if old.learnt <= learnt < old.known_to]
    return [old[:2] for old in known if old.valid_from < end and old.valid_to > begin]


def _stretch(glyph: str, label: str, width: int) -> str:
    from rich.cells import cell_len, set_cell_size

    number, _, value = plain(label).partition(" ")
    if cell_len(label) > (room := width - 4):
        value = set_cell_size(value, room - len(number) - 2).rstrip() + "…" if room > 2 * len(number) else ""
    text = f"{number} {value} " if value else number
    rest = width - 2 - cell_len(text)
    return glyph + text + glyph * (rest + 1) if text and rest >= 0 else glyph * width


def _head(edges: Sequence[float], cells: int, *, now: float, width: int) -> list[str]:
    labels, ticks = "true in the world:".ljust(width), "learnt".rjust(10).ljust(width)
    for number, edge in sorted(enumerate(edges, start=1), key=lambda pair: pair[1] != now):
        place = _MARGIN + number * cells
        ticks = f"{ticks[:place]}|{ticks[place + 1 :]}"
        is_near = any(0 < abs(edge - other) < _DAY for other in edges if other != now)
        text = "now" if edge == now else moment(edge)[5:] if is_near else moment(edge)[:10]
        begin = min(place, width - len(text))
        if not labels[begin - 1 : begin + len(text) + 1].strip():
            labels = labels[:begin] + text + labels[begin + len(text) :]
    return [labels.rstrip(), ticks.rstrip()]
