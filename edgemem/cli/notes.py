"""`edgemem notes`, `bank`: the text of NOTES.md, and the files that models and people keep in the memory bank."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from edgemem.cli import options
from edgemem.cli.printing import answer, plain, print_json, print_lines
from edgemem.errors import InvalidInputError, count
from edgemem.store.notes import last_lines

if TYPE_CHECKING:
    from edgemem.memory import Memory
    from edgemem.store.bank.bank import ScopedBank
    from edgemem.store.notes import NotesFile

    F = TypeVar("F", bound="Callable[..., Any]")


@click.group(cls=options.Guided, bare="list", single="show")
def notes() -> None:
    """Print the notes (`notes`), one section of them (`notes HEADING`), or add to them.

    NOTES.md of the home may be edited by hand at any time.
    """


@notes.command(name="list", short_help="Print all notes.")
@options.home_and_json
def print_all(home: Path, as_json: bool) -> None:
    """Print the notes from the first line to the last; of more than NOTES.md may hold, the end."""
    with options.open_existing(home) as memory:
        text = memory.notes.read()
    otherwise = "There are no notes; `edgemem notes add TEXT` writes one."
    _print_notes(memory.notes, text, as_json=as_json, otherwise=otherwise)


@notes.command()
@click.argument("heading")
@options.home_and_json
def show(heading: str, home: Path, as_json: bool) -> None:
    """Print the text under HEADING, the oldest first."""
    with options.open_existing(home) as memory:
        text, headings = memory.notes.read_section(heading), memory.notes.sections()
    if not text:
        known = ", ".join(headings) if headings else "none yet"
        raise InvalidInputError(
            f"There is no text under the heading {heading!r}; there are: {known}.{options.did_you_mean(heading, headings)}"
        )
    _print_notes(memory.notes, text, as_json=as_json, heading=heading)


@notes.command(cls=options.Dashed, short_help="Write at the end of the notes.")
@click.argument("words", metavar="TEXT", nargs=-1, required=True)
@click.option("--heading", help="Open a section with this heading and the date.")
@options.home_and_json
def add(words: tuple[str, ...], heading: str | None, home: Path, as_json: bool) -> None:
    """Write TEXT at the end of the notes; `-` reads it from standard input.

    \b
    edgemem notes add The spare key is under the blue pot. --heading House
    """  # noqa: D301 - click reads the backspace as: do not wrap
    note = options.typed(words)
    if not note.strip():
        raise InvalidInputError("An empty note is not written; give some text.")
    with options.open_home(home) as memory:
        memory.notes.append(note, heading=heading)
        path = memory.notes.path
    answer(as_json, {"path": str(path), "text": note, "heading": heading}, f"Noted in {path}.")


def _print_notes(
    notes: NotesFile, text: str, *, as_json: bool, otherwise: str = "", heading: str | None = None
) -> None:
    """Print a text of the notes; of one that is longer than the file may be, the end."""
    shown = last_lines(text, notes.max_size_chars or len(text))
    path = str(notes.path)
    if as_json:
        print_json({"path": path, "text": shown, **({} if heading is None else {"heading": heading})})
    elif not shown.strip():
        click.echo(otherwise)
    else:
        print_lines(shown)
    if shown != text:
        bound = f"its bound of {notes.max_size_chars:,} characters"
        click.echo(f"{plain(path)} is longer than {bound}; this is its end.", err=True)


def _whose(command: F) -> F:
    """Give a command the path of a file, and the options that say whose it is."""
    topic = click.option(
        "--topic", default="default", show_default=True, help="Of a person's files: the session."
    )
    scope = click.option(
        "--scope", type=click.Choice(["household", "shared"]), help="The files of all here, or of anyone."
    )
    user = click.option("--user", help="The files of this person.")
    return click.argument("path")(user(scope(topic(options.home_and_json(command)))))


def _bank(memory: Memory, user: str | None, scope: str | None, topic: str) -> ScopedBank:
    if (user is None) == (scope is None):
        raise InvalidInputError("Say whose file it is: --user NAME, --scope household or --scope shared.")
    return memory.bank.for_person(user, topic) if user is not None else memory.bank.for_scope(scope or "", "")


def _read(bank: ScopedBank, path: str) -> str:
    if (text := bank.read_file(path)) is None:
        raise InvalidInputError(f"There is no file {path!r}; `edgemem bank` lists those that there are.")
    return text


@click.group(cls=options.Guided, bare="list", single="show")
def bank() -> None:
    """List all files of the bank (`bank`), show one (`bank show PATH --user NAME`), write or delete one.

    \b
    edgemem bank write plans/garden.md "Beans behind the shed." --user mara
    edgemem bank show plans/garden.md --user mara
    """  # noqa: D301 - click reads the backspace as: do not wrap


@bank.command(name="list")
@options.home_and_json
def list_files(home: Path, as_json: bool) -> None:
    """List where the files stand, and their sizes."""
    with options.open_existing(home) as memory:
        files = memory.bank.files()
    if as_json:
        print_json([{**file._asdict(), "place": file.place} for file in files])
    elif files:
        click.echo("\n".join(f"{plain(file.place)} ({count(file.size, 'byte')})" for file in files))
    else:
        click.echo("There are no files; `edgemem bank write PATH TEXT --user NAME` writes one.")


@bank.command("show")
@_whose
def show_file(path: str, home: Path, as_json: bool, **whose: Any) -> None:
    """Print the file PATH."""
    with options.open_existing(home) as memory:
        text = _read(_bank(memory, **whose), path)
    if as_json:
        print_json({"path": path, "text": text})
    else:
        print_lines(text)


@bank.command(cls=options.Dashed, short_help="Write a file.")
@_whose
@click.argument("words", metavar="TEXT", nargs=-1, required=True)
def write(path: str, words: tuple[str, ...], home: Path, as_json: bool, **whose: Any) -> None:
    """Write TEXT into the file PATH, in place of what it held; `-` reads it from standard input."""
    text = options.typed(words)
    with options.open_home(home) as memory:
        _bank(memory, **whose).write_file(path, text)
    answer(as_json, {"path": path, "text": text}, f"Written: {plain(path)}.")


@bank.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@_whose
def delete(path: str, yes: bool, home: Path, as_json: bool, **whose: Any) -> None:
    """Delete the file PATH."""
    with options.open_existing(home) as memory:
        place = _bank(memory, **whose)
        _read(place, path)
        if not yes:
            options.agreed(f"Delete {plain(path)}?")
        place.delete_file(path)
    answer(as_json, {"path": path}, f"Deleted: {plain(path)}.")
