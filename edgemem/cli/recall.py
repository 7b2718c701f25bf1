"""`edgemem recall`: ask the memory by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edgemem.cli.options import home_option, json_option, open_existing, speaker_option
from edgemem.cli.printing import moment, print_json, print_table
from edgemem.fence import check_text

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.argument("query")
@click.option("--k", default=5, show_default=True, type=click.IntRange(1, 1000), help="How many to show.")
@speaker_option
@home_option
@json_option
def recall(query: str, k: int, speaker: str | None, home: Path, as_json: bool) -> None:
    """Find what is remembered about QUERY, best first, and say why it was found."""
    check_text(query, what="query", max_bytes=1 << 20)
    with open_existing(home) as memory:
        found = memory.recall(query, speaker=speaker, k=k)
    if as_json:
        print_json(found)
    elif not found:
        click.echo("Nothing is remembered about that.")
    else:
        print_table(
            ("score", "kind", "what", "why"),
            (
                (
                    f"{item.score:.2f}",
                    item.kind,
                    f"{item.text} ({moment(item.event_time or item.recorded_at)})",
                    ", ".join(item.why),
                )
                for item in found
            ),
            wide=("what",),
        )
