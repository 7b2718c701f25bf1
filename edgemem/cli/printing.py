"""How the command line looks: 80 columns, colours only on a terminal, nothing that could steer it."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from edgemem.clock import local
from edgemem.config import load_profile

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

WIDTH = 80
_CELLS = 30  # of a column beside others; longer text wraps
_LONG = 400  # characters of a value in a table
_ROOM = 16  # cells that a column of prose needs at least

_ZONE = "edgemem.zone"  # the key of a command's zone in click's context

T = TypeVar("T")
Cell = str | list[str]
"""Of a table: text, or lines."""


@lru_cache(maxsize=1024)
def plain(text: str) -> str:
    """Return text on one line that cannot move the cursor, recolour the screen or turn the direction of writing."""
    return harmless(" ".join(text.split()))


def harmless(line: str) -> str:
    """Return a line that cannot do so either, with its blanks as they are."""
    return "".join(
        c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}"
        for c in line
        if unicodedata.category(c) != "Cf"
    )


def console(*, stderr: bool = False) -> Console:
    """Return a console of at most 80 columns on what stdout is now."""
    from rich.console import Console

    terminal = Console(stderr=stderr, highlight=False, emoji=False, markup=False)
    terminal.width = min(WIDTH, terminal.width)
    return terminal


def print_hanging(on: Console, lead: Text, body: Text) -> None:
    """Print a text that begins behind `lead` and wraps under itself."""
    for row in body.wrap(on, max(_ROOM, on.width - lead.cell_len)) or [body]:
        row.rstrip()
        on.print(lead + row, soft_wrap=True)
        lead = type(lead)(" " * lead.cell_len)


def print_lines(text: str) -> None:
    """Print a text that may hold anything that somebody pasted; its indentation is kept."""
    for line in text.strip("\n").splitlines():
        indent = line[: len(line) - len(line.lstrip(" "))]
        click.echo(indent + plain(line))


def print_json(value: Any) -> None:
    """Print a value as indented JSON, in UTF-8 whatever the terminal speaks, because programs read it."""
    click.echo(msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2))


def answer(as_json: bool, value: Any, sentence: str) -> None:
    """Print a value as JSON, or a sentence."""
    if as_json:
        print_json(value)
    else:
        click.echo(sentence)


def print_entries(
    entries: Sequence[T],
    as_json: bool,
    columns: Sequence[str],
    row: Callable[[T], Sequence[Cell]],
    *,
    noun: str,
    wide: Sequence[str] = (),
) -> None:
    """Print entries as JSON, or as a table with a row for each, or that there are none."""
    if as_json:
        print_json(entries)
    elif not entries:
        click.echo(f"There are no {noun} to show.")
    else:
        print_table(columns, map(row, entries), wide=wide)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, wide: Sequence[str] = ()) -> None:
    """Print rows under a ruled head; the `wide` columns take the room, and a cell may be a list of lines."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        is_wide = column in wide
        table.add_column(
            column, overflow="fold", max_width=None if is_wide else _CELLS, ratio=1 if is_wide else None
        )
    for row in rows:
        lines = ([cell] if isinstance(cell, str) else cell for cell in row)
        table.add_row(*(Text("\n".join(map(plain, cell))) for cell in lines))
    console().print(table)


def can_print(text: str) -> bool:
    """Return whether the encoding of stdout has every character of a text."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def zone() -> tzinfo | None:
    """Return the zone of the home that a command names, by its profile; None: this machine's."""
    ctx = click.get_current_context(silent=True)
    if ctx is None or (home := ctx.params.get("home")) is None:
        return None
    if _ZONE not in ctx.meta:
        from edgemem.memory.home import PROFILE_FILE

        profile = home.expanduser() / PROFILE_FILE
        ctx.meta[_ZONE] = load_profile(profile if profile.is_file() else None).time.tzinfo()
    found: tzinfo | None = ctx.meta[_ZONE]
    return found


def moment(seconds: float | None) -> str:
    """Return a time in the home's zone, to the minute, or an empty text for none."""
    if seconds is None:
        return ""
    try:
        return f"{local(seconds, zone()):%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError):
        return f"{seconds:g} s"


def shortened(text: str) -> str:
    """Return a text of at most some lines; --json has all of it."""
    return text if len(text) <= _LONG else f"{text[:_LONG]}… ({len(text):,} characters; --json has all)"


def counts(kinds: Mapping[str, int]) -> str:
    """Return how many of each kind, whose names are plurals: 1 session summary, 2,000 turns."""
    return ", ".join(
        f"{n:,} {noun}" if n != 1 else f"1 {re.sub('ies$', 'y', noun).removesuffix('s')}"
        for noun, n in ((kind.replace("_", " "), n) for kind, n in kinds.items() if n)
    )
