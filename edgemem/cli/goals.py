"""`edgemem goals`: what people are after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edgemem.cli.options import home_and_json, open_existing
from edgemem.cli.printing import moment, print_json, print_table, shortened
from edgemem.store.goals import goal_text, read_goals

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.option("--person", help="Only what this person is after.")
@home_and_json
def goals(person: str | None, home: Path, as_json: bool) -> None:
    """List what people are after, as an agent stored it; the newest come first."""
    with open_existing(home) as memory:
        stored = read_goals(memory.store.database, person=person)
    if as_json:
        print_json(stored)
    elif not stored:
        click.echo("There are no goals to show.")
    else:
        rows = (
            (goal.person, goal.name, shortened(goal_text(goal.title, goal.data)), moment(goal.changed_at))
            for goal in stored
        )
        print_table(("person", "id", "goal", "since"), rows, wide=("goal",))
