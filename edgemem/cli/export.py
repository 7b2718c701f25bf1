"""`edgemem export`: everything that is remembered, or one person's part of it, as JSON lines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgemem.cli.options import home_and_json, open_existing
from edgemem.cli.printing import answer, count, plain
from edgemem.errors import InvalidInputError
from edgemem.store.db.files import create_private, sync

if TYPE_CHECKING:
    from collections.abc import Iterable


_NO_RECORD = 2
"""Lines of an export that holds nothing: the first and the last."""


@click.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--speaker", help="Only what this person said or owns; facts with their whole history.")
@home_and_json
def export(file: str | None, speaker: str | None, home: Path, as_json: bool) -> None:
    """Write all records to FILE, or to standard output: one JSON record a line, read by `edgemem import`.

    A FILE is readable by its owner only, and replaced in one step. --json prints how much was written.

    \b
    edgemem export kitchen.jsonl
    edgemem export --speaker Alice alice.jsonl
    edgemem export | ssh robot edgemem import -
    """  # noqa: D301 - click reads the backspace as: do not wrap
    from edgemem.store.transfer.export import withheld_by

    with open_existing(home) as memory:
        lines = memory.export(speaker=speaker)
        number, last = _print(lines) if file in (None, "-") else _write(lines, file or "")
    if speaker is not None and number == _NO_RECORD:
        click.echo(f"Nothing here was said by {plain(speaker)}, or is theirs.", err=True)
    if withheld := withheld_by(last):
        click.echo(
            f"{count(withheld, 'fact')} left out: also private to somebody else; the operator's export has all.",
            err=True,
        )
    if file not in (None, "-"):
        report = {"file": file, "lines": number, "speaker": speaker, "withheld": withheld}
        answer(as_json, report, f"Wrote {count(number, 'line')} to {file}.")


def _print(lines: Iterable[str]) -> tuple[int, str]:
    number, line = 0, ""
    for line in lines:
        number += 1
        click.echo(line.encode())  # UTF-8, also where the terminal speaks something else
    return number, line


def _write(lines: Iterable[str], given: str) -> tuple[int, str]:
    """Write lines to a file in one step; return how many they were, and the last."""
    file = Path(given)
    if file.exists() and not file.is_file():
        raise InvalidInputError(
            f"{plain(str(file))} is no ordinary file, and would be replaced; `edgemem export > {plain(str(file))}` writes to it."
        )
    file = Path(os.path.realpath(file))
    folder = file if given.endswith("/") else file.parent
    if not folder.is_dir():  # a stick that is not mounted, say
        place = plain(str(folder))
        raise InvalidInputError(
            f"There is no directory {place}; make it with `mkdir -p {place}`, or name another."
        )
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    create_private(part)
    number, line = 0, ""
    try:
        with part.open("w", encoding="utf-8", newline="\n") as opened:
            for line in lines:
                number += 1
                opened.write(f"{line}\n")
        sync(part)
        part.replace(file)
        sync(file.parent)
    finally:
        part.unlink(missing_ok=True)
    return number, line
