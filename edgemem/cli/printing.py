"""How the command line looks: 80 columns, colours only on a terminal, nothing that could steer it."""

from __future__ import annotations

import sys
import unicodedata
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import Console
    from rich.text import Text

WIDTH = 80

T = TypeVar("T")


@lru_cache(maxsize=1024)
def plain(text: str) -> str:
    """Return text on one line that cannot move the cursor, recolour the screen or turn the direction of writing."""
    return "".join(
        c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}"
        for c in " ".join(text.split())
        if unicodedata.category(c) != "Cf"
    )


def console(*, stderr: bool = False) -> Console:
    """Return a console of at most 80 columns on what stdout is now."""
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False, emoji=False, markup=False)
    made.width = min(WIDTH, made.width)
    return made


def print_hanging(on: Console, lead: Text, body: Text) -> None:
    """Print a text that begins behind `lead` and wraps under itself."""
    for row in body.wrap(on, max(20, on.width - lead.cell_len)) or [body]:
        row.rstrip()
        on.print(lead + row, soft_wrap=True)
        lead = type(lead)(" " * lead.cell_len)


def print_json(value: Any) -> None:
    """Print a value as JSON, indented."""
    click.echo(msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode())


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, wide: Sequence[str] = (), title: str = ""
) -> None:
    """Print rows under a ruled head; the `wide` columns wrap, the others do not."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, title=title or None, title_justify="left", header_style="bold"
    )
    for column in columns:
        wraps = column in wide
        table.add_column(
            column, no_wrap=not wraps, overflow="fold" if wraps else "ellipsis", ratio=1 if wraps else None
        )
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    console().print(table)


@contextmanager
def progress(items: Iterable[T], label: str, length: int) -> Iterator[Iterable[T]]:
    """Show on stderr how far an iteration has come; off a terminal, show nothing."""
    if not sys.stderr.isatty():
        yield items
        return
    with click.progressbar(items, length=length, label=label, file=sys.stderr) as shown:
        yield shown


def moment(seconds: float | None) -> str:
    """Return a time in this machine's zone, to the minute, or an empty text for none."""
    if seconds is None:
        return ""
    try:
        return f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return f"{seconds:g} s"


def count(n: int, noun: str) -> str:
    """Return a number with its noun: 1 turn, 2,000 turns."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
