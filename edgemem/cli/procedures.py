"""`edgemem procedures`: ways of doing things, and how often each worked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from edgemem.cli.options import (
    Guided,
    did_you_mean,
    erase,
    home_and_json,
    open_existing,
    reader_of,
    speaker_option,
)
from edgemem.cli.printing import plain, print_entries, print_json, print_table, shortened
from edgemem.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgemem.memory import Memory
    from edgemem.records import Procedure


@click.group(cls=Guided, bare="list", single="show")
def procedures() -> None:
    """List procedures (`procedures`), show one (`procedures ID`), find one for a task, and forget.

    \b
    edgemem procedures suggest bring me the red cup
    edgemem procedures fetch-cup
    """  # noqa: D301 - click reads the backspace as: do not wrap


@procedures.command(name="list", short_help="List procedures, newest first.")
@click.option("--limit", default=100, show_default=True, help="At most so many.")
@speaker_option
@home_and_json
def list_procedures(limit: int, speaker: str | None, home: Path, as_json: bool) -> None:
    """List the procedures that were stored last."""
    with open_existing(home) as memory:
        _print(memory.procedures.list(limit, reader=reader_of(speaker)), as_json)


@procedures.command(short_help="Show the steps of a procedure.")
@click.argument("proc_id", metavar="ID")
@speaker_option
@home_and_json
def show(proc_id: str, speaker: str | None, home: Path, as_json: bool) -> None:
    """Show the procedure ID with its steps."""
    with open_existing(home) as memory:
        procedure = _found(memory, proc_id, speaker)
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
@speaker_option
@home_and_json
def suggest(words: tuple[str, ...], limit: int, speaker: str | None, home: Path, as_json: bool) -> None:
    """Find procedures for a TASK: what fits it, and what worked more often first."""
    with open_existing(home) as memory:
        _print(memory.procedures.suggest(" ".join(words), top_k=limit, reader=reader_of(speaker)), as_json)


@procedures.command(short_help="Erase a procedure.")
@click.argument("proc_id", metavar="ID")
@click.option("--yes", is_flag=True, help="Do not ask.")
@home_and_json
def forget(proc_id: str, yes: bool, home: Path, as_json: bool) -> None:
    """Erase the procedure ID from the file and every index; it cannot be taken back."""
    with open_existing(home) as memory:
        what = f"the procedure {plain(proc_id)}: {plain(_found(memory, proc_id).name)}"
        erase(what, lambda: memory.procedures.forget(proc_id), {"id": proc_id}, yes=yes, as_json=as_json)


def _print(entries: Sequence[Procedure], as_json: bool) -> None:
    def row(entry: Procedure) -> tuple[str, ...]:
        return entry.id, shortened(entry.trigger or entry.name), _uses(entry)

    print_entries(entries, as_json, ("id", "for", "worked"), row, noun="procedures", wide=("for",))


def _uses(procedure: Procedure) -> str:
    uses = procedure.total_uses
    return f"{procedure.success_count:,} of {uses:,}" if uses else "not tried yet"


def _found(memory: Memory, proc_id: str, speaker: str | None = None) -> Procedure:
    procedure = memory.procedures.get(proc_id, reader=reader_of(speaker))
    if procedure is None:
        ids = (entry.id for entry in memory.procedures.list())
        raise InvalidInputError(
            f"There is no procedure {proc_id!r}; `edgemem procedures` lists them.{did_you_mean(proc_id, (*ids, *procedures.commands))}"
        )
    return procedure
