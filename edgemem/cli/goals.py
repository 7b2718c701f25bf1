"""`edgemem goals`: what people are after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edgemem.cli.options import home_and_json, open_existing
from edgemem.cli.printing import moment, plain, print_json, print_table, shortened
from edgemem.store.goals import read_goals, read_phase

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.option("--person", help="Only what this person is after, and in which phase they are.")
@home_and_json
def goals(person: str | None, home: Path, as_json: bool) -> None:
    """List what people are after, as an agent stored it; the newest come first."""
    with open_existing(home) as memory:
        database = memory.diagnostics.database
        found = read_goals(database, person=person)
        phase = None if person is None else read_phase(database, person)
    if as_json:
        print_json(found)
        return
    if found:
        print_table(
            ("person", "goal", "title", "reached", "phase", "since"),
            (
                (
                    goal.person,
                    goal.name,
                    shortened(goal.title),
                    _reached(goal.data),
                    str(goal.data.get("phase") or ""),
                    moment(goal.changed_at),
                )
                for goal in found
            ),
            wide=("title",),
        )
    else:
        click.echo("There are no goals to show.")
    if phase is not None:
        click.echo(f"Phase: {plain(': '.join(filter(None, phase)))}")


def _reached(data: dict[str, object]) -> str:
    """Return how much of a goal is reached, where it is a number."""
    target = data.get("target_amount")
    return "" if target is None else f"{data.get('current_amount', 0)} of {target}"
