"""The drawing of one fact in two times: when it was true from left to right, when it was learnt from top to bottom.

Each version is one line; what it says is drawn solid on it, and what was still believed from earlier ones beside it shaded, so
each line shows all that was believed from then on. Across, the stretches between two changes are equally wide: a scale would
hide a correction of minutes beside one of years. Of many versions the newest are drawn, as far as there is room for
their changes. Below stands what the numbers of the drawing mean.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_right
from collections.abc import Callable
from datetime import datetime
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
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

_MOST = 30
"""Versions that are drawn; more would be too narrow to be told apart."""

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
    more: str = "…"


UNICODE = Glyphs()
ASCII = Glyphs("#", "-", "~", "x", ".", "|", "~")


Cell = tuple[int, bool]
"""What one version's line says about one stretch of time: the version that was believed, and whether it was learnt with this line."""

NOTHING = 0
"""In the place of a version: none was believed."""
SEVERAL = -1
"""In the place of a version: earlier ones that this drawing does not tell apart."""


class Row(NamedTuple):
    """One version."""

    number: int
    belief: Belief
    cells: list[Cell]


def laid_out(beliefs: Sequence[Belief], *, now: float, width: int = WIDTH) -> tuple[list[float], list[Row]]:
    """Return the edges of an axis, and the newest versions over it, the oldest of them first.

    Stretch n lies between edges n and n + 1, the outer ones without end.

    Args:
        beliefs: every rectangle of the key; the statements of a version are those whose `statement` appears there first.
        now: stands on the axis, in seconds since the epoch.
        width: cells of a line.
    """
    numbered = list(enumerate(versions(beliefs), start=1))
    numbers = {belief.statement: number for number, belief in numbered}
    edges, drawn = {now}, 0
    for _, belief in reversed(numbered[-_MOST:]):
        wider = edges | {edge for edge in (belief.valid_from, belief.valid_to) if math.isfinite(edge)}
        if drawn and len(wider) >= width - _GUTTER - 1:
            break
        edges, drawn = wider, drawn + 1
    axis = [-math.inf, *sorted(edges), math.inf]
    return axis, [
        Row(n, belief, _cells(beliefs, belief, axis, numbers))
        for n, belief in numbered[len(numbered) - drawn :]
    ]


def versions(beliefs: Sequence[Belief]) -> list[Belief]:
    """Return what was said, in the order of learning: of each moment the statement itself, which is written last.

    What is left of older statements at its sides is written at the same moment, and so is the nothing before the first.
    """
    begun: dict[int, float] = {}
    newest: dict[float, Belief] = {}
    for belief in sorted(beliefs, key=lambda belief: (belief.learnt, belief.statement)):
        if belief.learnt == begun.setdefault(belief.statement, belief.learnt):
            newest[belief.learnt] = belief
    return list(newest.values())


def _cells(
    beliefs: Sequence[Belief], new: Belief, axis: Sequence[float], numbers: dict[int, int]
) -> list[Cell]:
    """Return what was believed of each stretch right after a version was learnt."""
    believed = sorted(
        (belief for belief in beliefs if belief.learnt <= new.learnt < belief.known_to),
        key=lambda belief: belief.valid_from,
    )
    starts = [belief.valid_from for belief in believed]
    cells: list[Cell] = []
    for begin, end in pairwise(axis):
        nearby = believed[max(0, bisect_right(starts, begin) - 1) : bisect_right(starts, end)]
        standing = [belief for belief in nearby if belief.valid_from < end and belief.valid_to > begin]
        values = {belief.statement for belief in standing if belief.value is not None}
        if len(values) > 1:
            cells.append((SEVERAL, False))
        else:
            number = numbers[values.pop()] if values else NOTHING
            cells.append((number, any(belief.statement == new.statement for belief in standing)))
    return cells


def draw(
    beliefs: Sequence[Belief],
    *,
    now: float,
    width: int = WIDTH,
    ascii_only: bool = False,
    paint: Paint = lambda drawn, _number: drawn,
) -> list[str]:
    """Return the lines of the drawing, each at most `width` cells wide; `paint` colours what is drawn of a version, by its number."""
    glyphs = ASCII if ascii_only else UNICODE
    edges, rows = laid_out(beliefs, now=now, width=width)
    # The stretches on the right get the cells that are left over.
    cells, over = divmod(width - _GUTTER, len(edges) - 1)
    widths = [cells] * (len(edges) - 1 - over) + [cells + 1] * over
    lines = _axis(edges, widths, glyphs, now=now, width=width)
    for row in rows:
        drawn = ""
        for cell, group in groupby(zip(row.cells, widths, strict=True), key=itemgetter(0)):
            stretch = _stretch(cell, sum(cells for _, cells in group), row.belief.value, glyphs)
            drawn += paint(stretch, cell[0]) if cell[0] > NOTHING else stretch
        lines.append(f"{row.number:>4}  {moment(row.belief.learnt):<16} {drawn}")
    return [*lines, ""]


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
    rows = [""]
    for part in parts:
        if rows[-1] and len(rows[-1]) + len(part) + 2 > width:
            rows.append("")
        rows[-1] += f"  {part}" if rows[-1] else part
    return "\n".join(rows)


def _axis(
    edges: Sequence[float], widths: Sequence[int], glyphs: Glyphs, *, now: float, width: int
) -> list[str]:
    """Return the labels above the drawing, as many as there is room for, and a tick at each edge."""
    inner = edges[1:-1]
    places = dict(zip(inner, accumulate([_GUTTER + widths[0], *widths[1:]]), strict=False))
    ticks, labels = [" "] * width, [" "] * width
    for edge in (now, *inner):  # what says now has its label in any case
        place = places[edge]
        ticks[place] = glyphs.tick
        text = "now" if edge == now else _label(edge, [other for other in inner if other != now])
        # At its tick, or as far left as the end of the line demands, with a blank on both sides.
        begin = max(_GUTTER, min(place, width - len(text)))
        if not "".join(labels[begin - 1 : begin + len(text) + 1]).strip():
            labels[begin : begin + len(text)] = text
    head = "true in the world:"
    return [
        (head + "".join(labels)[len(head) :]).rstrip(),
        ("learnt".rjust(10) + "".join(ticks)[10:]).rstrip(),
    ]


def _label(edge: float, edges: Sequence[float]) -> str:
    """Return a time as short as tells it apart: a day, and where others lie close to it the time of day."""
    try:
        when = datetime.fromtimestamp(edge).astimezone()
    except (ValueError, OverflowError, OSError):
        return f"{edge:.3g} s"
    nearest = min((abs(edge - other) for other in edges if other != edge), default=math.inf)
    if nearest >= _DAY:
        return f"{when:%Y-%m-%d}"
    return f"{when:%H:%M:%S}" if edges[-1] - edges[0] < 600 else f"{when:%m-%d %H:%M}"


def _stretch(cell: Cell, width: int, value: str | None, glyphs: Glyphs) -> str:
    """Draw neighbouring cells that say the same, and into them the number and the value, where there is room."""
    from rich.cells import cell_len, set_cell_size

    number, new = cell
    if number == SEVERAL:
        return glyphs.several * width
    if new and value is None:
        return glyphs.ended * width
    if number == NOTHING:
        return glyphs.nothing * width
    label, fill = str(number), glyphs.new if new else glyphs.still
    if new and value is not None:
        text, room = plain(value), width - 4 - len(label)
        if glyphs is ASCII:
            text = text.encode("ascii", "replace").decode()
        if cell_len(text) > room:
            text = set_cell_size(text, room - 1).rstrip() + glyphs.more if room >= _LEAST else ""
        label += f" {text} " if text else ""
    # A gap on both sides, or two labels would run together.
    rest = width - 1 - cell_len(label)
    return fill + label + fill * rest if rest > 0 else fill * width


_COLOURS = ("magenta", "cyan", "green", "yellow", "blue")
_NARROWEST = 40
"""Cells of a line in which there is still something to see."""


def print_histories(
    key: str,
    histories: dict[str, list[Fact]],
    beliefs: dict[str, list[Belief]],
    *,
    now: float,
    ascii_only: bool,
) -> None:
    """Draw what is known under a key, one scope after the other, and print what was said."""
    try:
        legend().encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        ascii_only = True
    width = max(_NARROWEST, console().width)
    drawn: list[str] = []
    for scope, rectangles in beliefs.items():
        _, rows = laid_out(rectangles, now=now, width=width)
        newest = rows[-1].number if rows else 0
        left_out = f", the newest {len(rows)} drawn; --json has all" if newest > len(rows) else ""
        click.echo(f"{plain(key)} ({plain(scope)}), {count(newest, 'version')}{left_out}\n")
        lines = draw(rectangles, now=now, width=width, ascii_only=ascii_only, paint=_coloured)
        click.echo("\n".join(lines))
        _print_versions(rows, histories[scope])
        _print_doubts([version for version in histories[scope] if version.doubtful])
        drawn += lines
    click.echo(legend(drawn, ascii_only=ascii_only, width=width))


def _coloured(drawn: str, number: int) -> str:
    """Give each version a colour of its own, so that the eye finds it on later lines."""
    return click.style(drawn, fg=_COLOURS[number % len(_COLOURS)])


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


def _print_versions(drawn: list[Row], facts: list[Fact]) -> None:
    """Print what the numbers of the drawing stand for."""
    known = {fact.id: fact for fact in facts}
    rows = []
    for number, belief, _ in drawn:
        fact, value, by = known.get(str(belief.statement)), "(no value)", ""
        if fact is not None:
            by = fact.heard.speaker if fact.heard and fact.heard.speaker else fact.source
            value = shortened(fact.value) + (" (replaced)" if fact.superseded_by else "")
        until = moment(belief.valid_to) if math.isfinite(belief.valid_to) else ""
        rows.append((str(number), value, moment(belief.valid_from), until, by))
    print_table(("", "value", "true from", "until", "told by"), rows, wide=("value", "told by"))


def _print_doubts(facts: list[Fact]) -> None:
    """Print what was not believed, for how it was heard or who said it, and what became of it."""
    for fact in facts:
        became = "confirmed" if fact.superseded_by else "refuted" if fact.invalidated_at else "undecided"
        sure = fact.heard.asr_confidence if fact.heard is not None else None
        how = "" if sure is None else f", {sure:.0%} sure"
        why = "" if fact.disbelieved is None else f"; {plain(fact.disbelieved)}"
        what = "not believed" if why else "perhaps misheard"
        click.echo(f"{what}: {plain(fact.value)} ({moment(fact.recorded_at)}{how}{why}; {became})")
    if facts:
        click.echo()
