"""`edgemem recall`: ask the memory by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import UNSET

from edgemem.cli.options import When, home_option, json_option, open_existing, speaker_option
from edgemem.cli.printing import console, moment, plain, print_hanging, print_json
from edgemem.errors import InvalidInputError
from edgemem.fence import check_text

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.records import Recalled


@click.command()
@click.argument("words", metavar="QUERY", nargs=-1, required=True)
@click.option("--k", default=5, show_default=True, type=click.IntRange(1, 1000), help="How many to show.")
@click.option("--valid-at", type=When(), help="Facts as they held at this time.")
@click.option("--known-at", type=When(), help="Only what was known at this time.")
@speaker_option
@home_option
@json_option
def recall(
    words: tuple[str, ...],
    k: int,
    valid_at: float | None,
    known_at: float | None,
    speaker: str | None,
    home: Path,
    as_json: bool,
) -> None:
    """Find what is remembered about QUERY, best first, and say why it was found.

    A time is 2026-11-02 (the end of that day), 2026-11-02T18:30, or seconds since 1970.

    \b
    edgemem recall where are the tickets
    edgemem recall "what can I cook for Alice?" --speaker Alice --k 3
    edgemem recall "what did Alice drink before?"
    edgemem recall "what does Alice drink?" --valid-at 2026-11-02
    """  # noqa: D301 - click reads the backspace as: do not wrap
    query = " ".join(words)
    if not query.strip():
        raise InvalidInputError("The question is empty; say what to look for.")
    check_text(query, what="query", max_bytes=1 << 20)
    with open_existing(home) as memory:
        found = memory.recall(
            query, speaker=UNSET if speaker is None else speaker, k=k, valid_at=valid_at, known_at=known_at
        )
    if as_json:
        print_json(found)
    elif not found:
        click.echo("Nothing is remembered about that.")
    else:
        _print(found)


def _print(found: list[Recalled]) -> None:
    """Print one item after the other, its reasons behind it."""
    from rich.text import Text

    on = console()
    for item in found:
        day = moment(item.event_time or item.recorded_at)[: len("2026-11-02")]
        who = f"{item.speaker}: " if item.speaker and item.kind == "turn" else ""
        what = Text(plain(f"{who}{item.text}")).append(f" ({', '.join(item.why)})", style="dim italic")
        print_hanging(on, Text(f"{item.score:.2f}  {item.kind:<10}  {day:<10}  "), what)
