"""How the history of a fact is shown: the drawing in two times, and what its numbers stand for."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import click

from edgemem.cli.printing import console, count, moment, plain, print_table, shortened
from edgemem.cli.timeline import Belief, draw, legend, versions

if TYPE_CHECKING:
    from edgemem.records import Fact
    from edgemem.store.db.database import Database

_COLOURS = ("magenta", "cyan", "green", "yellow", "blue")
_NARROWEST = 40
"""Cells of a line in which there is still something to see."""


def print_histories(
    key: str,
    told: dict[str, list[Fact]],
    beliefs: dict[str, list[Belief]],
    *,
    now: float,
    last: int,
    ascii_only: bool,
) -> None:
    """Draw what is known under a key, one scope after the other, and print what was said.

    Args:
        told: each scope's versions.
        beliefs: each scope's rectangles.
        now: stands on the axis, in seconds since the epoch.
        last: so many versions of each, the newest; 0: all.
        ascii_only: draw with plain characters.
    """
    ascii_only = ascii_only or not _can_draw()
    width = max(_NARROWEST, console().width)
    drawn: list[str] = []
    for one, there in beliefs.items():
        said = versions(there)
        older = len(said) - last if last else 0
        left_out = f", the newest {last} drawn; --last 0 draws all" if older > 0 else ""
        click.echo(f"{plain(key)} ({plain(one)}), {count(len(said), 'version')}{left_out}\n")
        lines = draw(there, now=now, width=width, last=last, ascii_only=ascii_only, paint=_paint)
        click.echo("\n".join(lines))
        _print_versions(said, told[one], after=max(0, older))
        _print_doubts([version for version in told[one] if version.doubtful])
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


def _print_versions(said: list[Belief], told: list[Fact], *, after: int) -> None:
    """Print what the numbers of the drawing stand for, leaving out the first `after` ones."""
    known = {fact.id: fact for fact in told}
    rows = []
    for number, belief in enumerate(said[after:], start=after + 1):
        fact = known.get(str(belief.said))
        if fact is None:
            rows.append((str(number), "(no value)", moment(belief.valid_from), _end(belief), ""))
            continue
        by = fact.heard.speaker if fact.heard and fact.heard.speaker else fact.source
        value = shortened(fact.value) + (" (replaced)" if fact.superseded_by else "")
        rows.append((str(number), value, moment(fact.valid_from), moment(fact.valid_to), by))
    print_table(("", "value", "true from", "until", "told by"), rows, wide=("value", "told by"))


def _print_doubts(told: list[Fact]) -> None:
    """Print what was heard badly and not believed, and what became of it."""
    for fact in told:
        became = "confirmed" if fact.superseded_by else "refuted" if fact.invalidated_at else "undecided"
        sure = fact.heard.asr_confidence if fact.heard is not None else None
        how = "" if sure is None else f", {sure:.0%} sure"
        click.echo(f"perhaps misheard: {plain(fact.value)} ({moment(fact.recorded_at)}{how}; {became})")
    if told:
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
