"""`edgemem notes`: the text of NOTES.md, and additions to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edgemem.cli.options import Dashed, Guided, did_you_mean, home_and_json, open_existing, open_home, typed
from edgemem.cli.printing import answer, print_json, print_lines
from edgemem.errors import InvalidInputError

if TYPE_CHECKING:
    from pathlib import Path


@click.group(cls=Guided, bare="list", single="show")
def notes() -> None:
    """Print the notes (`notes`), one section of them (`notes HEADING`), or add to them.

    NOTES.md of the home may be edited by hand at any time.
    """


@notes.command(name="list", short_help="Print all notes.")
@home_and_json
def print_all(home: Path, as_json: bool) -> None:
    """Print the notes from the first line to the last."""
    with open_existing(home) as memory:
        path, text = memory.notes.path, memory.notes.read()
    _print(path, text, as_json=as_json, otherwise="There are no notes; `edgemem notes add TEXT` writes one.")


@notes.command()
@click.argument("heading")
@home_and_json
def show(heading: str, home: Path, as_json: bool) -> None:
    """Print the text under HEADING, the oldest first."""
    with open_existing(home) as memory:
        path, text, headings = memory.notes.path, memory.notes.read_section(heading), memory.notes.sections()
    if not text:
        known = ", ".join(headings) if headings else "none yet"
        raise InvalidInputError(
            f"There is no text under the heading {heading!r}; there are: {known}.{did_you_mean(heading, headings)}"
        )
    _print(path, text, as_json=as_json, heading=heading)


@notes.command(cls=Dashed, short_help="Write at the end of the notes.")
@click.argument("words", metavar="TEXT", nargs=-1, required=True)
@click.option("--heading", help="Open a section with this heading and the date.")
@home_and_json
def add(words: tuple[str, ...], heading: str | None, home: Path, as_json: bool) -> None:
    """Write TEXT at the end of the notes; `-` reads it from standard input.

    \b
    edgemem notes add The spare key is under the blue pot. --heading House
    """  # noqa: D301 - click reads the backspace as: do not wrap
    note = typed(words)
    if not note.strip():
        raise InvalidInputError("An empty note is not written; give some text.")
    with open_home(home) as memory:
        memory.notes.append(note, heading=heading)
        path = memory.notes.path
    answer(as_json, {"path": str(path), "text": note, "heading": heading}, f"Noted in {path}.")


def _print(path: Path, text: str, *, as_json: bool, otherwise: str = "", heading: str | None = None) -> None:
    if as_json:
        print_json({"path": str(path), "text": text, **({} if heading is None else {"heading": heading})})
    elif not text.strip():
        click.echo(otherwise)
    else:
        print_lines(text)
