"""`edgemem export`: everything that is remembered, or one person's part of it, as JSON lines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgemem.cli.options import home_option, json_option, open_existing
from edgemem.cli.printing import count, print_json
from edgemem.store.files import create_private, sync

if TYPE_CHECKING:
    from collections.abc import Iterable


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--speaker", help="Only what this person said or owns; facts with their whole history.")
@home_option
@json_option
def export(file: Path | None, speaker: str | None, home: Path, as_json: bool) -> None:
    """Write what is remembered to FILE, or to the screen: one JSON record a line, read by `edgemem import`.

    A FILE is readable by its owner only, and replaced in one step. --json tells what was written to it.
    """
    from edgemem.exporting import withheld_by

    with open_existing(home) as memory:
        lines = memory.export(speaker=speaker)
        if file is None:
            number, last = _print(lines)
        else:
            number, last = _write(lines, file)
    withheld = withheld_by(last)
    if withheld:
        click.echo(
            f"{count(withheld, 'fact')} left out: also private to somebody else; the operator's export has all.",
            err=True,
        )
    if file is not None and as_json:
        print_json({"file": str(file), "lines": number, "speaker": speaker, "withheld": withheld})
    elif file is not None:
        click.echo(f"Wrote {count(number, 'line')} to {file}.")


def _print(lines: Iterable[str]) -> tuple[int, str]:
    number, line = 0, ""
    for line in lines:
        number += 1
        click.echo(line)
    return number, line


def _write(lines: Iterable[str], file: Path) -> tuple[int, str]:
    """Write lines to a file in one step; return how many they were, and the last."""
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
