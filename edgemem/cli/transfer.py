"""`edgemem export`, `import`, `backup`, `restore`: records leave a home as lines or a file, and come in."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from edgemem.cli.options import Guided, agreed, home_and_json, open_existing, open_home, truth_alone
from edgemem.cli.printing import answer, counts, plain, print_json, zone
from edgemem.clock import local
from edgemem.config import open_file
from edgemem.errors import InvalidInputError, count

if TYPE_CHECKING:
    from edgemem.memory import Memory
    from edgemem.takeover.scratch import TakeoverReport

_NO_RECORD = 2  # lines of an empty export: the first and the last


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
    from edgemem.store.transfer.export import withheld_by, written_to

    number, last = 0, ""
    # UTF-8, also where the terminal speaks something else.
    out = nullcontext(lambda line: click.echo(line.encode())) if file in (None, "-") else written_to(file)
    with open_existing(home) as memory, out as write:
        for last in memory.export(speaker=speaker):
            number += 1
            write(last)
    if speaker is not None and number == _NO_RECORD:
        click.echo(f"Nothing here was said by {plain(speaker)}, or is theirs.", err=True)
    if withheld := withheld_by(last):
        click.echo(
            f"{count(withheld, 'fact')} left out: also private to somebody else; the operator's export has all.",
            err=True,
        )
    if file not in (None, "-"):
        report = {"file": file, "lines": number, "speaker": speaker, "withheld": withheld}
        answer(as_json, report, f"Wrote {count(number, 'line')} to {plain(file)}.")


@click.group(name="import", cls=Guided, bare="file", single="file")
def import_() -> None:
    """Take in an export (`import FILE`), or what EdgeVox, Swarmline or Engrava remembers (`import edgevox PATH`).

    Records that are here already stay, so a second time adds nothing. All have --home and --json.

    \b
    edgemem import kitchen.jsonl
    ssh robot edgemem export | edgemem import -
    edgemem import edgevox ~/.edgevox/memory
    edgemem import swarmline agent.db
    edgemem import engrava engrava.db
    """  # noqa: D301 - click reads the backspace as: do not wrap


@import_.command(name="file", short_help="Take in what `edgemem export` wrote.")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@home_and_json
def import_file(file: Path, home: Path, as_json: bool) -> None:
    """Take in FILE, which `edgemem export` wrote: all of it, or nothing where a line is damaged.

    `-` reads standard input.
    """
    from edgemem.store.transfer.export import lines_of

    with _opened(file) as opened, open_home(home) as memory:
        report = memory.import_lines(lines_of(opened))
        _index(memory)
    if as_json:
        print_json(report)
    else:
        _print_counts(report.added, report.known, report.refused)


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


@import_.command(short_help="Take over a database of Engrava 0.7.2.")
@click.argument("file", type=click.Path(path_type=Path))
@home_and_json
def engrava(file: Path, home: Path, as_json: bool) -> None:
    """Take over FILE, a database that Engrava 0.7.2 wrote, which is only read: all of its thoughts and edges, or none.

    They keep their ids, cycles, states and times; `edgemem thoughts list` shows them.
    """
    from edgemem.takeover.engrava import EngravaFile, import_engrava

    old = EngravaFile(file)
    with open_home(home) as memory:
        _tell(import_engrava(memory.diagnostics.database, old), memory, as_json)


def _tell(report: TakeoverReport, memory: Memory, as_json: bool) -> None:
    _index(memory)
    if as_json:
        print_json(report)
        return
    for name, records in report.files.items():
        click.echo(f"{plain(name)}: {counts(records) or 'empty'}")
    _print_counts(report.added, report.known, [*report.refused, *report.remarks])


def _opened(file: Path) -> AbstractContextManager[BinaryIO]:
    """Open a file, or standard input, before a home is made in vain."""
    if str(file) == "-":
        if sys.stdin is None:
            raise InvalidInputError("There is no standard input to read from; name a file.")
        return nullcontext(sys.stdin.buffer)
    if file.is_dir():
        raise InvalidInputError(
            f"{plain(str(file))} is a directory; what EdgeVox keeps in one comes with: edgemem import edgevox PATH"
        )
    return open_file(file)


def _index(memory: Memory) -> None:
    """Index what came in, so that the next question finds all of it."""
    while memory.diagnostics.index.catch_up():
        pass


def _print_counts(added: dict[str, int], known: dict[str, int], sentences: Sequence[str]) -> None:
    click.echo(f"Added: {counts(added) or 'nothing'}. Here already: {counts(known) or 'nothing'}.")
    for sentence in sentences:
        click.echo(f"- {plain(sentence)}")


@click.command()
@click.argument("to", required=False, type=click.Path(path_type=Path))
@home_and_json
def backup(to: Path | None, home: Path, as_json: bool) -> None:
    """Copy the memory to TO, a folder that is there or a file with an ending; without it, into the home's own `backups`.

    The copy is one file, checked, and there whole or not at all. While a robot has the home open it makes its own; stop it
    first. NOTES.md and the profile are files of yours, and not in it.
    """
    target = to.expanduser().absolute() if to is not None else None
    if target is not None and not target.exists():
        real = Path(os.path.realpath(target))  # what a link to nothing would make
        folder = real.parent if real.suffix or not real.parent.is_dir() else real
        if not folder.is_dir():  # else a stick that nobody has put in would become a file
            raise InvalidInputError(
                f"There is no folder {folder}; mount or make it, or name a file in another one, such as memory.db."
            )
    with truth_alone(home):
        pass  # a robot makes its own
    with open_existing(home) as memory:
        path = memory.diagnostics.backups.make(target)
    size = path.stat().st_size
    sentence = f"Copied to {plain(str(path))} ({size / 1e6:.1f} MB), and found good."
    answer(as_json, {"backup": path, "bytes": size}, sentence)


@click.command()
@click.argument("source", metavar="[FROM]", required=False, type=click.Path(path_type=Path))
@click.option("--empty", is_flag=True, help="Begin anew, with nothing.")
@click.option("--yes", is_flag=True, help="Do not ask, also where the memory that is there is sound.")
@home_and_json
def restore(source: Path | None, empty: bool, yes: bool, home: Path, as_json: bool) -> None:
    """Put FROM, a backup, in the place of the memory, also on a new card; without it, the newest good one of the home.

    The copy is checked before anything is changed. What stood there is put aside in `db` under a dated name: delete it
    when it is not needed any more, because nothing is erased from it. Stop the robot first.
    """
    if empty and source is not None:
        raise InvalidInputError("Name a backup, or write --empty; not both.")
    with truth_alone(home, make=source is not None) as truth:
        path = source.expanduser().absolute() if source is not None else truth.newest_backup()
        if path is None and not empty:
            raise InvalidInputError(
                f"There is no good backup in {truth.backups}; name one, or begin anew with --empty."
            )
        what = "an empty memory" if empty or path is None else str(path)
        if not yes and truth.is_sound():
            agreed(
                f"The memory in {plain(str(truth.home))} is sound; put it aside, and {plain(what)} in its place?",
                otherwise="Nothing was changed",
            )
        replaced = truth.replace(None if empty else path)
    if as_json:
        print_json(
            {"restored": None if empty else path, "until": replaced.until or None, "aside": replaced.aside}
        )
        return
    if empty:
        click.echo("The memory begins anew.")
    else:
        until = f"{local(replaced.until, zone()):%Y-%m-%d %H:%M:%S %Z}"
        newest = f"; its newest record is of {until}" if replaced.until else ""
        click.echo(f"Put back {plain(what)}{newest}.")
    for aside in replaced.aside:
        click.echo(f"Put aside: {plain(str(aside))}")
