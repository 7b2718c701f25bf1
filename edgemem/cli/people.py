"""`edgemem people`: who is known; renames, merges and splits somebody, gives a turn to another, and takes that back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from edgemem.cli import options
from edgemem.cli.printing import answer, counts, plain, print_entries
from edgemem.store.people import Moved, People, Person

_SPLIT: list[click.Parameter] = [
    click.Option(["--as", "new"], required=True, help="The name of the new person."),
    click.Option(["--voice"], help="What this device heard."),
    click.Option(["--since"], type=options.Begin(), help="What was heard from then on."),
    click.Option(["--until"], type=options.When(), help="What was heard before then."),
]
_MOVES: dict[str, tuple[Callable[..., Moved], str, str]] = {
    "rename": (People.rename, "old new", "Call OLD by the name NEW, which nobody has."),
    "merge": (People.merge, "source into", "Make all that is SOURCE's INTO's: two were one person."),
    "split": (People.split, "name", "Make two people of NAME, by voice and time: one was two people."),
    "give": (People.give, "turn name", "Give the turn of a message, by its id in `recall --json`, to NAME."),
    "undo": (People.undo, "", "Take the newest of these moves back, once."),
}


@click.group(cls=options.Guided, bare="list")
def people() -> None:
    """List who is known (`people`); rename, merge or split them, or give a turn to who spoke."""


def _row(person: Person) -> tuple[str, ...]:
    return person.name, ", ".join(person.also), counts(person.records), ", ".join(person.voices)


@people.command("list")
@options.home_and_json
def list_people(home: Path, as_json: bool) -> None:
    """List who is known, their other names, what is theirs, and the devices that heard them."""
    with options.open_existing(home) as memory:
        entries = memory.people.list()
    print_entries(entries, as_json, ("name", "also", "has", "voices"), _row, noun="people")


def _move(deed: str, home: Path, as_json: bool, **names: Any) -> None:
    with options.open_existing(home) as memory:
        moved = _MOVES[deed][0](memory.people, **names)
    told = f"{'Taken back' if deed == 'undo' else 'Done'}: {moved.deed} {moved.old or 'an unknown voice'} {moved.new}."
    answer(as_json, {"deed": moved.deed, "old": moved.old, "new": moved.new}, plain(told))


for _deed, (_, _words, _about) in _MOVES.items():
    _given = [click.Argument([word]) for word in _words.split()] + _SPLIT * (_deed == "split")
    _command = click.Command(_deed, callback=partial(_move, _deed), params=_given, help=_about)
    people.add_command(options.home_and_json(_command))
