"""`edgemem episodes`, `goals`: experiences of the robot, and the aims of people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from edgemem.cli.options import Begin, When, home_and_json, open_existing, reader_of, speaker_option
from edgemem.cli.printing import moment, print_entries, shortened
from edgemem.store.episodes import happened_at, text_of_episode
from edgemem.store.goals import goal_text, read_goals

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.records import Episode
    from edgemem.store.goals import Goal


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
    """List episodes of the robot, newest first; with a QUERY those that fit it, best first.

    Each call of a tool makes an episode by itself, `tool_call`, and a turn with several one more, `turn`.

    \b
    edgemem episodes --outcome failure --since 2026-11-01
    edgemem episodes the red cup --person Mara
    """  # noqa: D301 - click reads the backspace as: do not wrap
    reader, words = reader_of(speaker), " ".join(query)
    with open_existing(home) as memory:
        most = memory.store.max_episodes or 2**31
        entries = memory.store.episodes(n=most if words else limit, reader=reader, **filters)
        if words:
            by_id = {int(entry.id): entry for entry in entries}
            refs = by_id if any(given is not None for given in filters.values()) else None
            items = memory.diagnostics.search.recall(
                words, reader=reader, k=limit, kinds={"episode"}, refs=refs
            )
            entries = [by_id[int(item.id)] for item in items if int(item.id) in by_id]

    def row(entry: Episode) -> tuple[str, ...]:
        return entry.id, moment(happened_at(entry)), entry.outcome, shortened(text_of_episode(entry))

    columns = ("id", "when", "outcome", "what happened")
    print_entries(entries, as_json, columns, row, noun="episodes", wide=columns[3:])


@click.command()
@click.option("--person", help="Only the goals of this person.")
@home_and_json
def goals(person: str | None, home: Path, as_json: bool) -> None:
    """List the goals of people, as an agent stored them; the newest come first."""
    with open_existing(home) as memory:
        stored = read_goals(memory.store.database, person=person)

    def row(goal: Goal) -> tuple[str, ...]:
        return goal.person, goal.name, shortened(goal_text(goal.title, goal.data)), moment(goal.changed_at)

    print_entries(stored, as_json, ("person", "id", "goal", "since"), row, noun="goals", wide=("goal",))
