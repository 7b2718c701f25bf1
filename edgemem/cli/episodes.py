"""`edgemem episodes`: what the robot did and lived through, by what it was about, or by tag, outcome, person and time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from edgemem.cli.options import Begin, When, home_and_json, open_existing, speaker_option
from edgemem.cli.printing import moment, print_json, print_table, shortened
from edgemem.records import Reader
from edgemem.store.episodes import happened_at, text_of_episode

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.argument("query", nargs=-1)
@click.option("--tag", help="Only those with this tag.")
@click.option("--outcome", help="Only those that ended so: success, failure, partial, or another word.")
@click.option("--person", help="Only what this person caused or owns.")
@click.option("--session", help="Only what happened in this conversation.")
@click.option("--since", type=Begin(), help="Only what happened from then on; a date is its beginning.")
@click.option("--until", type=When(), help="Only what happened before then; a date is its end.")
@click.option("--limit", default=20, show_default=True, help="At most so many.")
@speaker_option
@home_and_json
def episodes(
    query: tuple[str, ...], limit: int, speaker: str | None, home: Path, as_json: bool, **filters: Any
) -> None:
    """List what the robot did and lived through, newest first; with a QUERY what fits it, best first.

    Each call of a tool makes an episode by itself, `tool_call`, and a turn with several one more, `turn`.

    \b
    edgemem episodes --outcome failure --since 2026-11-01
    edgemem episodes the red cup --person Mara
    """  # noqa: D301 - click reads the backspace as: do not wrap
    reader = None if speaker is None else Reader(speaker)
    words = " ".join(query)
    with open_existing(home) as memory:
        most = memory.store.max_episodes or 2**31
        entries = memory.store.episodes(n=most if words else limit, reader=reader, **filters)
        if words:
            by_id = {int(entry.id): entry for entry in entries}
            items = memory.diagnostics.search.recall(
                words,
                reader=reader,
                k=limit,
                kinds={"episode"},
                refs=by_id if any(given is not None for given in filters.values()) else None,
            )
            entries = [by_id[int(item.id)] for item in items if int(item.id) in by_id]
    if as_json:
        print_json(entries)
    elif not entries:
        click.echo("There are no episodes to show.")
    else:
        rows = (
            (entry.id, moment(happened_at(entry)), entry.outcome, shortened(text_of_episode(entry)))
            for entry in entries
        )
        print_table(("id", "when", "outcome", "what happened"), rows, wide=("what happened",))
