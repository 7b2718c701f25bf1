"""The drawing of one fact in two times: when it was true from left to right, when it was learnt from top to bottom.

Beliefs in, lines of text out. Each version is one line; what it says is drawn solid on it, and what was still
believed from earlier ones beside it shaded, so each line shows all that was believed from then on. Across, the
stretches between two changes are equally wide: a scale would hide a correction of minutes beside one of years. Many
versions are drawn as several panels, one below the other. Below stands what the numbers of the drawing mean.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_right
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import click

from edgemem.cli.printing import console, count, moment, plain, print_table, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.records import Fact
    from edgemem.store.db.database import Database


WIDTH = 80
_GUTTER = 23
"""Cells before the drawing: the number of the version, and when it was learnt."""

_LEAST = 6
"""Cells of a value below which it is left to the table."""
_DAY = 86400.0


class Belief(NamedTuple):
    """A rectangle: what was believed of a stretch of time, for a while. All times in seconds since the epoch."""

    statement: int
    """Which statement it is a piece of."""
    value: str | None
    """None: there was no value."""
    valid_from: float
    valid_to: float
    learnt: float
    known_to: float


Paint = Callable[[str, int], str]


class Glyphs(NamedTuple):
    """What the drawing is made of; each is one cell wide."""

    new: str = "█"
    still: str = "░"
    several: str = "▒"
    ended: str = "×"
    nothing: str = "·"
    tick: str = "╷"


UNICODE = Glyphs()
ASCII = Glyphs("#", "-", "~", "x", ".", "|")


class Cell(NamedTuple):
    """What one version's line says about one stretch of time."""

    number: int | None
    """The version that was believed, from 1; None: nothing was."""
    new: bool = False
    """Whether it was learnt with this line."""
    several: bool = False
    """Whether earlier versions that this panel does not tell apart were believed there."""


class Row(NamedTuple):
    """One version."""

    number: int
    value: str | None
    learnt: float
    cells: list[Cell]


class Panel(NamedTuple):
    """Some versions over one axis: stretch n lies between edges n and n + 1, the outer ones without end."""

    edges: list[float]
    rows: list[Row]


def panels(beliefs: Sequence[Belief], *, now: float, width: int = WIDTH, last: int = 0) -> list[Panel]:
    """Lay the versions of one fact out, the oldest first.

    Args:
        beliefs: every rectangle of the key; the statements of a version are those whose `statement` appears there first.
        now: stands on the axis, in seconds since the epoch.
        width: cells of a line.
        last: so many versions, the newest; 0: all.
    """
    statements = versions(beliefs)
    room = width - _GUTTER - 1
    groups: list[tuple[set[float], list[tuple[int, Belief]]]] = []
    for number, belief in list(enumerate(statements, start=1))[-last:]:
        edges = {edge for edge in (belief.valid_from, belief.valid_to) if math.isfinite(edge)}
        if not groups or len(groups[-1][0] | edges) >= room:
            groups.append(({now}, []))
        groups[-1][0].update(edges)
        groups[-1][1].append((number, belief))
    numbers = {belief.statement: number for number, belief in enumerate(statements, start=1)}
    laid = []
    for edges, group in groups:
        axis = [-math.inf, *sorted(edges), math.inf]
        rows = [
            Row(number, belief.value, belief.learnt, _cells(beliefs, belief, axis, numbers))
            for number, belief in group
        ]
        laid.append(Panel(axis, rows))
    return laid


def versions(beliefs: Sequence[Belief]) -> list[Belief]:
    """Return what was said, in the order of learning: of each moment the statement itself, which is written last.

    What is left of older statements at its sides is written at the same moment, and so is the nothing before the first.
    """
    begun: dict[int, float] = {}
    for belief in beliefs:
        begun[belief.statement] = min(belief.learnt, begun.get(belief.statement, math.inf))
    newest: dict[float, Belief] = {}
    for belief in sorted(beliefs, key=lambda belief: (belief.learnt, belief.statement)):
        if belief.learnt == begun[belief.statement]:
            newest[belief.learnt] = belief
    return [newest[learnt] for learnt in sorted(newest)]


def _cells(
    beliefs: Sequence[Belief], new: Belief, axis: Sequence[float], numbers: dict[int, int]
) -> list[Cell]:
    """Return what was believed of each stretch right after a version was learnt."""
    believed = sorted(
        (belief for belief in beliefs if belief.learnt <= new.learnt < belief.known_to),
        key=lambda belief: belief.valid_from,
    )
    starts = [belief.valid_from for belief in believed]
    cells = []
    for begin, end in pairwise(axis):
        first = max(0, bisect_right(starts, begin) - 1)
        standing = [
            belief
            for belief in believed[first : bisect_right(starts, end)]
            if belief.valid_from < end and belief.valid_to > begin
        ]
        values = {belief.statement for belief in standing if belief.value is not None}
        if len(values) > 1:
            cells.append(Cell(None, several=True))
            continue
        is_new = any(belief.statement == new.statement for belief in standing)
        number = next((numbers.get(statement) for statement in values), None)
        cells.append(Cell(number, is_new))
    return cells


def draw(
    beliefs: Sequence[Belief],
    *,
    now: float,
    width: int = WIDTH,
    last: int = 0,
    ascii_only: bool = False,
    paint: Paint | None = None,
) -> list[str]:
    """Return the lines of the drawing, each at most `width` cells wide; `paint` colours what is drawn of a version, by its number."""
    glyphs = ASCII if ascii_only else UNICODE
    lines: list[str] = []
    for panel in panels(beliefs, now=now, width=width, last=last):
        stretches = _widths(len(panel.edges) - 1, width - _GUTTER)
        lines += _axis(panel, stretches, glyphs, now=now, width=width)
        lines += [_row(row, stretches, glyphs, paint) for row in panel.rows]
        lines.append("")
    return lines


def legend(lines: Sequence[str] = (), *, ascii_only: bool = False, width: int = WIDTH) -> str:
    """Return what the glyphs mean: those that every drawing has, and the rarer ones of these lines."""
    glyphs = ASCII if ascii_only else UNICODE
    drawn = "".join(lines)
    parts = [f"{glyphs.new} learnt then", f"{glyphs.still} still believed"]
    if glyphs.ended in drawn or not lines:
        parts.append(f"{glyphs.ended} no value from then on")
    parts.append(f"{glyphs.nothing} nothing known")
    if glyphs.several in drawn:
        parts.append(f"{glyphs.several} several older ones")
    text = ""
    for part in parts:
        begun = text.rpartition("\n")[2]
        gap = "" if not text else "  " if len(begun) + len(part) + 2 <= width else "\n"
        text += gap + part
    return text


def _widths(stretches: int, room: int) -> list[int]:
    """Share the cells among the stretches; those on the right get what is left over."""
    cells, over = divmod(room, stretches)
    return [cells + (n >= stretches - over) for n in range(stretches)]


def _axis(panel: Panel, widths: Sequence[int], glyphs: Glyphs, *, now: float, width: int) -> list[str]:
    """Return the labels above the drawing, as many as there is room for, and a tick at each edge."""
    inner = panel.edges[1:-1]
    places = [_GUTTER + sum(widths[: n + 1]) for n in range(len(inner))]
    ticks = [" "] * width
    labels = [" "] * width
    where = places[inner.index(now)]
    taken = [(_left(where, len("now"), width), where + len("now"))]
    labels[taken[0][0] : taken[0][0] + len("now")] = "now"
    for edge, place in zip(inner, places, strict=True):
        ticks[place] = glyphs.tick
        text = _label(edge, [other for other in inner if other != now])
        begin = _left(place, len(text), width)
        if all(begin + len(text) < first or begin > last for first, last in taken):
            labels[begin : begin + len(text)] = text
            taken.append((begin, begin + len(text)))
    head = "true in the world:"
    return [
        (head + "".join(labels)[len(head) :]).rstrip(),
        ("learnt".rjust(10) + "".join(ticks)[10:]).rstrip(),
    ]


def _left(place: int, length: int, width: int) -> int:
    """Return where a label of an edge begins: at its tick, or as far left as the end of the line demands."""
    return max(_GUTTER, min(place, width - length))


def _label(edge: float, edges: Sequence[float]) -> str:
    """Return a time as short as tells it apart: a day, and where others lie close to it the time of day."""
    try:
        when = datetime.fromtimestamp(edge).astimezone()
    except (ValueError, OverflowError, OSError):
        return f"{edge:.3g} s"
    nearest = min((abs(edge - other) for other in edges if other != edge), default=math.inf)
    if nearest >= _DAY:
        return f"{when:%Y-%m-%d}"
    if edges[-1] - edges[0] < 600:
        return f"{when:%H:%M:%S}"
    return f"{when:%m-%d %H:%M}"


def _row(row: Row, widths: Sequence[int], glyphs: Glyphs, paint: Paint | None) -> str:
    out = []
    at = 0
    while at < len(row.cells):
        cell, begin = row.cells[at], at
        while at < len(row.cells) and row.cells[at] == cell:
            at += 1
        drawn = _stretch(cell, sum(widths[begin:at]), row.value, glyphs)
        out.append(drawn if paint is None or cell.number is None else paint(drawn, cell.number))
    return f"{row.number:>4}  {moment(row.learnt):<16} {''.join(out)}"


def _stretch(cell: Cell, width: int, value: str | None, glyphs: Glyphs) -> str:
    """Draw neighbouring cells that say the same, and into them the number and the value, where there is room."""
    from rich.cells import cell_len

    if cell.several:
        return glyphs.several * width
    if cell.new:
        if value is None:
            return glyphs.ended * width
        label, fill = _numbered(cell, value, width - 3, glyphs), glyphs.new
    elif cell.number is not None:
        label, fill = str(cell.number), glyphs.still
    else:
        return glyphs.nothing * width
    # A gap on both sides, or two labels would run together.
    rest = width - 1 - cell_len(label)
    return fill + label + fill * rest if rest > 0 else fill * width


def _numbered(cell: Cell, value: str, room: int, glyphs: Glyphs) -> str:
    """Return the number of a version, and of its value what there is room for."""
    from rich.cells import cell_len, set_cell_size

    text = plain(value)
    if glyphs is ASCII:
        text = text.encode("ascii", "replace").decode()
    number = str(cell.number)
    room -= len(number) + 1
    if cell_len(text) > room:
        text = (
            set_cell_size(text, room - 1).rstrip() + ("~" if glyphs is ASCII else "…")
            if room >= _LEAST
            else ""
        )
    return f"{number} {text} " if text else number


_COLOURS = ("magenta", "cyan", "green", "yellow", "blue")
_NARROWEST = 40
"""Cells of a line in which there is still something to see."""


def print_histories(
    key: str,
    histories: dict[str, list[Fact]],
    beliefs: dict[str, list[Belief]],
    *,
    now: float,
    last: int,
    ascii_only: bool,
) -> None:
    """Draw what is known under a key, one scope after the other, and print what was said; of each the newest `last`, 0: all."""
    ascii_only = ascii_only or not _can_draw()
    width = max(_NARROWEST, console().width)
    drawn: list[str] = []
    for scope, rectangles in beliefs.items():
        statements = versions(rectangles)
        older = len(statements) - last if last else 0
        left_out = f", the newest {last} drawn; --last 0 draws all" if older > 0 else ""
        click.echo(f"{plain(key)} ({plain(scope)}), {count(len(statements), 'version')}{left_out}\n")
        lines = draw(rectangles, now=now, width=width, last=last, ascii_only=ascii_only, paint=_paint)
        click.echo("\n".join(lines))
        _print_versions(statements, histories[scope], after=max(0, older))
        _print_doubts([version for version in histories[scope] if version.doubtful])
        drawn += lines
    click.echo(legend(drawn, ascii_only=ascii_only, width=width))


def beliefs_of(database: Database, key: str, scope: str) -> list[Belief]:
    """Return every rectangle of a fact."""
    rows = database.query(
        "select f.origin, f.value, f.valid_from, f.valid_to, f.recorded, f.known_to"
        " from fact_keys k join facts f on f.key_id = k.id where k.scope = ? and k.key = ? order by f.id",
        (scope, key),
    )
    return [
        Belief(
            origin,
            value,
            valid_from,
            math.inf if valid_to is None else valid_to,
            recorded / 1e6,
            math.inf if known_to is None else known_to / 1e6,
        )
        for origin, value, valid_from, valid_to, recorded, known_to in rows
    ]


def _paint(drawn: str, number: int) -> str:
    """Give each version a colour of its own, so that the eye finds it on later lines."""
    return click.style(drawn, fg=_COLOURS[number % len(_COLOURS)])


def _print_versions(statements: list[Belief], facts: list[Fact], *, after: int) -> None:
    """Print what the numbers of the drawing stand for, leaving out the first `after` ones."""
    known = {fact.id: fact for fact in facts}
    rows = []
    for number, belief in enumerate(statements[after:], start=after + 1):
        fact = known.get(str(belief.statement))
        if fact is None:
            rows.append((str(number), "(no value)", moment(belief.valid_from), _end(belief), ""))
            continue
        by = fact.heard.speaker if fact.heard and fact.heard.speaker else fact.source
        value = shortened(fact.value) + (" (replaced)" if fact.superseded_by else "")
        rows.append((str(number), value, moment(fact.valid_from), moment(fact.valid_to), by))
    print_table(("", "value", "true from", "until", "told by"), rows, wide=("value", "told by"))


def _print_doubts(facts: list[Fact]) -> None:
    """Print what was heard badly and not believed, and what became of it."""
    for fact in facts:
        became = "confirmed" if fact.superseded_by else "refuted" if fact.invalidated_at else "undecided"
        sure = fact.heard.asr_confidence if fact.heard is not None else None
        how = "" if sure is None else f", {sure:.0%} sure"
        click.echo(f"perhaps misheard: {plain(fact.value)} ({moment(fact.recorded_at)}{how}; {became})")
    if facts:
        click.echo()


def _end(belief: Belief) -> str:
    return moment(belief.valid_to) if math.isfinite(belief.valid_to) else ""


def _can_draw() -> bool:
    """Tell whether what is printed to can show the glyphs."""
    try:
        legend().encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
