"""`edgemem import`: exports, and the memories of EdgeVox and Swarmline."""

from __future__ import annotations

import re
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from edgemem.cli.options import Guided, home_and_json, open_home
from edgemem.cli.printing import plain, print_json
from edgemem.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.memory import Memory
    from edgemem.takeover.scratch import TakeoverReport


@click.group(name="import", cls=Guided, bare="file", single="file")
def import_() -> None:
    """Take in an export (`import FILE`), or what EdgeVox or Swarmline remembers (`import edgevox PATH`).

    Records that are here already stay, so a second time adds nothing. All have --home and --json.

    \b
    edgemem import kitchen.jsonl
    ssh robot edgemem export | edgemem import -
    edgemem import edgevox ~/.edgevox/memory
    edgemem import swarmline agent.db
    """  # noqa: D301 - click reads the backspace as: do not wrap


@import_.command(name="file", short_help="Take in what `edgemem export` wrote.")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@home_and_json
def import_file(file: Path, home: Path, as_json: bool) -> None:
    """Take in FILE, which `edgemem export` wrote: all of it, or nothing where a line is damaged.

    `-` reads standard input.
    """
    from edgemem.store.transfer.export_lines import lines_of

    with _opened(file) as opened, open_home(home) as memory:
        report = memory.import_lines(lines_of(opened))
        _index(memory)
    if as_json:
        print_json(report)
    else:
        _print(report.added, report.known, report.refused)


@import_.command(short_help="Take over the memory of EdgeVox.")
@click.argument("path", type=click.Path(path_type=Path), default="~/.edgevox/memory")
@home_and_json
def edgevox(path: Path, home: Path, as_json: bool) -> None:
    """Take over PATH: a file of EdgeVox's, or the folder of its memory, which is only read; stop EdgeVox before.

    Facts with their history, preferences, episodes, conversations and notes, from JSON and SQLite.
    """
    from edgemem.takeover.edgevox import EdgevoxMemory, import_edgevox

    old = EdgevoxMemory(path)  # before a home is made for a memory that may not be there
    with open_home(home) as memory:
        _tell(
            import_edgevox(memory.diagnostics.database, memory.sessions, memory.notes, old), memory, as_json
        )


@import_.command(short_help="Take over the memory of Swarmline, once called Cognitia.")
@click.argument("path", type=click.Path(path_type=Path))
@home_and_json
def swarmline(path: Path, home: Path, as_json: bool) -> None:
    """Take over PATH: a database of Swarmline's memory, a folder of them, or of memory banks; all are only read.

    Users become speakers, and own theirs alone: facts, messages, summaries, goals, tool events, bank files.
    Episodes and procedures, which are nobody's there, are the household's.
    """
    from edgemem.takeover.swarmline import SwarmlineMemory, import_swarmline

    old = SwarmlineMemory(path)
    with open_home(home) as memory:
        _tell(import_swarmline(memory.diagnostics.database, memory.bank, old), memory, as_json)


def _tell(report: TakeoverReport, memory: Memory, as_json: bool) -> None:
    _index(memory)
    if as_json:
        print_json(report)
        return
    for name, records in report.files.items():
        click.echo(f"{plain(name)}: {_sum(records) or 'empty'}")
    _print(report.added, report.known, [*report.refused, *report.remarks])


def _opened(file: Path) -> AbstractContextManager[BinaryIO]:
    """Open a file, or standard input, before a home is made for what may not be there."""
    if str(file) == "-":
        if sys.stdin is None:
            raise InvalidInputError("There is no standard input to read from; name a file.")
        return nullcontext(sys.stdin.buffer)
    if file.is_dir():
        raise InvalidInputError(
            f"{plain(str(file))} is a directory; what EdgeVox keeps in one comes with: edgemem import edgevox PATH"
        )
    return file.open("rb")


def _index(memory: Memory) -> None:
    """Take what came in into full text, so that the next question finds all of it."""
    while memory.diagnostics.index.catch_up():
        pass


def _print(added: dict[str, int], known: dict[str, int], sentences: Sequence[str]) -> None:
    click.echo(f"Added: {_sum(added) or 'nothing'}. Here already: {_sum(known) or 'nothing'}.")
    for sentence in sentences:
        click.echo(f"- {plain(sentence)}")


def _sum(counts: dict[str, int]) -> str:
    """Return counts with their kinds, which are plurals: 1 session summary, 2,000 turns."""
    kinds = {kind: kind.replace("_", " ") for kind, number in counts.items() if number}
    single = {kind: re.sub("ies$", "y", noun).removesuffix("s") for kind, noun in kinds.items()}
    return ", ".join(
        f"{counts[kind]:,} {single[kind] if counts[kind] == 1 else kinds[kind]}" for kind in kinds
    )
