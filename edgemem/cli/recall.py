"""`edgemem recall`: ask the memory by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from msgspec import UNSET

from edgemem.cli.options import When, home_and_json, open_existing, speaker_option
from edgemem.cli.printing import console, moment, plain, print_hanging, print_json
from edgemem.errors import InvalidInputError
from edgemem.fence import check_text
from edgemem.records import Recalled, RecalledSession

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.text import Text


@click.command()
@click.argument("words", metavar="QUERY", nargs=-1, required=True)
@click.option(
    "-k", "--k", default=5, show_default=True, type=click.IntRange(1, 1000), help="How many to show."
)
@click.option("--valid-at", type=When(), help="Facts as they held at this time.")
@click.option("--known-at", type=When(), help="Only what was known at this time.")
@click.option("--sessions", is_flag=True, help="Whole conversations: when it was talked about.")
@speaker_option
@home_and_json
def recall(
    words: tuple[str, ...], sessions: bool, speaker: str | None, home: Path, as_json: bool, **bounds: Any
) -> None:
    """Find memories about QUERY, best first, and say why each was found.

    A time is 2026-11-02 (the end of that day), 2026-11-02T18:30, or seconds since 1970.

    \b
    edgemem recall where are the tickets
    edgemem recall "what can I cook for Alice?" --speaker Alice --k 3
    edgemem recall "what did Alice drink before?"
    edgemem recall "what does Alice drink?" --valid-at 2026-11-02
    edgemem recall --sessions "when did we talk about the holidays?"
    """  # noqa: D301 - click reads the backspace as: do not wrap
    from rich.text import Text

    from edgemem.llama.models.catalog import find_entry

    query = " ".join(words)
    if not query.strip():
        raise InvalidInputError("The question is empty; say what to look for.")
    check_text(query, what="query", max_bytes=1 << 20)
    valid_at = bounds["valid_at"]
    if sessions and valid_at is not None:
        raise InvalidInputError("Conversations are true of no time; leave out --valid-at, or --sessions.")
    who = UNSET if speaker is None else speaker
    results: Sequence[Recalled | RecalledSession]
    with open_existing(home) as memory:
        if sessions:
            results = memory.recall_sessions(query, speaker=who, k=bounds["k"], known_at=bounds["known_at"])
        else:
            results = memory.recall(query, speaker=who, **bounds)
        missing = memory.profile.llama.embedder if memory.diagnostics.embedder is None else ""
    if as_json:
        print_json(results)
    elif not results:
        click.echo("Nothing is remembered about that.")
        if find_entry(missing) is not None:  # else a newcomer would think that nothing was kept
            click.echo(f"Only words are found; to find by meaning: edgemem models get {missing}", err=True)
    for item in () if as_json else results:
        if isinstance(item, RecalledSession):
            what = Text(" / ", style="dim").join(map(_speech, item.messages))
            what.append(f" ({plain(item.session)})", style="dim italic")
            lead = f"{item.score:.2f}  {_day(item.at):<10}  "
        else:
            # An episode is forgotten by its id.
            name = (f"episode {item.id}",) if item.kind == "episode" else ()
            what = _speech(item).append(f" ({', '.join((*item.why, *name))})", style="dim italic")
            lead = f"{item.score:.2f}  {item.kind:<10}  {_day(item.event_time or item.recorded_at):<10}  "
        print_hanging(console(), Text(lead), what)


def _speech(item: Recalled) -> Text:
    from rich.text import Text

    who = f"{item.speaker}: " if item.speaker and item.kind == "turn" else ""
    return Text(plain(f"{who}{item.text}"))


def _day(at: float) -> str:
    return moment(at)[: len("2026-11-02")]
