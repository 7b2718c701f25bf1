"""`edgemem learn` and `upcoming`: what was learnt of talk and deeds, to see and to take back; and what is still to come."""

from __future__ import annotations

from pathlib import Path

import click

from edgemem.cli import options
from edgemem.cli.printing import answer, moment, plain, print_entries, zone
from edgemem.clock import local
from edgemem.learn.upcoming import Upcoming
from edgemem.thoughts import ThoughtRecord, seconds


@click.group(cls=options.Guided, bare="log")
def learn() -> None:
    """List what was learnt by itself (`learn`), learn now, or undo something."""


_COLUMNS = ("id", "day", "from", "what")  # no clock: an id is copied, so it stays whole in 80 columns


def _row(entry: ThoughtRecord) -> tuple[str, ...]:
    return (
        entry.thought_id,
        moment(seconds(entry.created_at)).partition(" ")[0],
        entry.source.removeprefix("learn:"),
        entry.content,
    )


@learn.command("log")
@options.home_and_json
def log(home: Path, as_json: bool) -> None:
    """List what was learnt and not undone, the newest first."""
    with options.open_existing(home) as memory:
        entries = memory.learning.log()
    print_entries(entries, as_json, _COLUMNS, _row, noun="things learnt", wide=("what",))


@learn.command("now")
@options.home_and_json
def now(home: Path, as_json: bool) -> None:
    """Learn what there is to learn, without waiting for quiet."""
    with options.open_existing(home) as memory:
        before = {entry.thought_id for entry in memory.learning.log(limit=10_000)}
        memory.learning.now()
        entries = [entry for entry in memory.learning.log(limit=10_000) if entry.thought_id not in before]
    print_entries(entries, as_json, _COLUMNS, _row, noun="new things learnt", wide=("what",))


@learn.command("undo")
@click.argument("thought_id", metavar="ID")
@options.home_and_json
def undo(thought_id: str, home: Path, as_json: bool) -> None:
    """Take back what was learnt, by its ID; it is not learnt again."""
    with options.open_existing(home) as memory:
        memory.learning.undo(thought_id)
    answer(as_json, {"undone": thought_id}, plain(f"Undone: {thought_id}."))


def _day(entry: Upcoming) -> tuple[str, ...]:
    day = local(entry.begin, zone())
    return f"{day:%Y-%m-%d %H:%M}" if entry.has_clock else f"{day:%Y-%m-%d}", entry.text, entry.speaker or ""


@click.command()
@options.speaker_option
@click.option("--until", type=options.When(), help="Until then; else of the next 30 days.")
@options.home_and_json
def upcoming(home: Path, as_json: bool, speaker: str | None, until: float | None) -> None:
    """List what is still to come: appointments, goals and reminders, the earliest first."""
    with options.open_existing(home) as memory:
        entries = memory.upcoming(reader=options.reader_of(memory, speaker), until=until)
    print_entries(entries, as_json, ("day", "what", "told by"), _day, noun="appointments", wide=("what",))
