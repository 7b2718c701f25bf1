"""`edgemem episodes`, `procedures`, `goals`: experiences of the robot, ways of doing things, and the aims of people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from edgemem.cli import options
from edgemem.cli.printing import moment, plain, print_entries, print_json, print_table, shortened
from edgemem.errors import InvalidInputError
from edgemem.recall.recall import Request
from edgemem.store.episodes import goal_text, happened_at, text_of_episode
from edgemem.store.users import read_goals

if TYPE_CHECKING:
    from edgemem.memory import Memory
    from edgemem.records import Episode, Procedure
    from edgemem.store.users import Goal


@click.command()
@click.argument("query", nargs=-1)
@click.option("--tag", help="Only those with this tag.")
@click.option("--outcome", help="Only those that ended so: success, failure, partial, or another word.")
@click.option("--person", help="Only what this person caused or owns.")
@click.option("--session", help="Only what happened in this conversation.")
@click.option("--since", type=options.Begin(), help="Only what happened from then on; a date: its begin.")
@click.option("--until", type=options.When(), help="Only what happened before then; a date is its end.")
@click.option("--limit", default=20, show_default=True, help="At most so many.")
@options.speaker_option
@options.home_and_json
def episodes(
    query: tuple[str, ...], limit: int, speaker: str | None, home: Path, as_json: bool, **filters: Any
) -> None:
    """List episodes of the robot, newest first; with a QUERY those that fit it, best first.

    Each call of a tool makes an episode by itself, `tool_call`, and a turn with several one more, `turn`.

    \b
    edgemem episodes --outcome failure --since 2026-11-01
    edgemem episodes the red cup --person Mara
    """  # noqa: D301 - click reads the backspace as: do not wrap
    words = " ".join(query)
    with options.open_existing(home) as memory:
        reader = options.reader_of(memory, speaker)
        most = memory.store.max_episodes or 2**31
        entries = memory.store.episodes(n=most if words else limit, reader=reader, **filters)
        if words:
            by_id = {int(entry.id): entry for entry in entries}
            refs = by_id if any(given is not None for given in filters.values()) else None
            asked = Request(reader=reader, k=limit, kinds={"episode"}, refs=refs)
            items = memory.diagnostics.search.recall(words, asked)
            entries = [by_id[int(item.id)] for item in items if int(item.id) in by_id]

    def row(entry: Episode) -> tuple[str, ...]:
        return entry.id, moment(happened_at(entry)), entry.outcome, shortened(text_of_episode(entry))

    columns = ("id", "when", "outcome", "what happened")
    print_entries(entries, as_json, columns, row, noun="episodes", wide=columns[3:])


@click.command()
@click.option("--person", help="Only the goals of this person.")
@options.home_and_json
def goals(person: str | None, home: Path, as_json: bool) -> None:
    """List the goals of people, as an agent stored them; the newest come first."""
    with options.open_existing(home) as memory:
        stored = read_goals(memory.store.database, person=person)

    def row(goal: Goal) -> tuple[str, ...]:
        return goal.person, goal.name, shortened(goal_text(goal.title, goal.data)), moment(goal.changed_at)

    print_entries(stored, as_json, ("person", "id", "goal", "since"), row, noun="goals", wide=("goal",))


@click.group(cls=options.Guided, bare="list", single="show")
def procedures() -> None:
    """List procedures (`procedures`), show one (`procedures ID`), find one for a task, and forget.

    \b
    edgemem procedures suggest bring me the red cup
    edgemem procedures fetch-cup
    """  # noqa: D301 - click reads the backspace as: do not wrap


@procedures.command(name="list", short_help="List procedures, newest first.")
@click.option("--limit", default=100, show_default=True, help="At most so many.")
@options.speaker_option
@options.home_and_json
def list_procedures(limit: int, speaker: str | None, home: Path, as_json: bool) -> None:
    """List the procedures that were stored last."""
    with options.open_existing(home) as memory:
        _print_procedures(memory.procedures.list(limit, reader=options.reader_of(memory, speaker)), as_json)


@procedures.command(short_help="Show the steps of a procedure.")
@click.argument("proc_id", metavar="ID")
@options.speaker_option
@options.home_and_json
def show(proc_id: str, speaker: str | None, home: Path, as_json: bool) -> None:
    """Show the procedure ID with its steps."""
    with options.open_existing(home) as memory:
        procedure = _procedure(memory, proc_id, speaker)
    if as_json:
        print_json(procedure)
        return
    click.echo(f"{plain(procedure.id)}: {plain(procedure.name)}, {_uses(procedure)}")
    click.echo(f"for: {plain(procedure.trigger)}")
    if procedure.description:
        click.echo(plain(procedure.description))
    rows = [
        (step.tool_name, shortened(msgspec.json.encode(step.args_template).decode()), step.expected_outcome)
        for step in procedure.steps
    ]
    print_table(("tool", "is given", "should"), rows, wide=("is given", "should"))


@procedures.command(short_help="Find procedures for a task, best first.")
@click.argument("words", metavar="TASK", nargs=-1, required=True)
@click.option("--limit", default=3, show_default=True, help="At most so many.")
@options.speaker_option
@options.home_and_json
def suggest(words: tuple[str, ...], limit: int, speaker: str | None, home: Path, as_json: bool) -> None:
    """Find procedures for a TASK: what fits it, and what worked more often first."""
    with options.open_existing(home) as memory:
        _print_procedures(
            memory.procedures.suggest(
                " ".join(words), top_k=limit, reader=options.reader_of(memory, speaker)
            ),
            as_json,
        )


@procedures.command(short_help="Erase a procedure.")
@click.argument("proc_id", metavar="ID")
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.home_and_json
def forget(proc_id: str, yes: bool, home: Path, as_json: bool) -> None:
    """Erase the procedure ID from the file and every index; it cannot be taken back."""
    with options.open_existing(home) as memory:
        what = f"the procedure {plain(proc_id)}: {plain(_procedure(memory, proc_id).name)}"
        options.erase(
            what, lambda: memory.procedures.forget(proc_id), {"id": proc_id}, yes=yes, as_json=as_json
        )


def _print_procedures(entries: Sequence[Procedure], as_json: bool) -> None:
    def row(entry: Procedure) -> tuple[str, ...]:
        return entry.id, shortened(entry.trigger or entry.name), _uses(entry)

    print_entries(entries, as_json, ("id", "for", "worked"), row, noun="procedures", wide=("for",))


def _uses(procedure: Procedure) -> str:
    uses = procedure.total_uses
    return f"{procedure.success_count:,} of {uses:,}" if uses else "not tried yet"


def _procedure(memory: Memory, proc_id: str, speaker: str | None = None) -> Procedure:
    procedure = memory.procedures.get(proc_id, reader=options.reader_of(memory, speaker))
    if procedure is None:
        ids = (entry.id for entry in memory.procedures.list())
        raise InvalidInputError(
            f"There is no procedure {proc_id!r}; `edgemem procedures` lists them.{options.did_you_mean(proc_id, (*ids, *procedures.commands))}"
        )
    return procedure
