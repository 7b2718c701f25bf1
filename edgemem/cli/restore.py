"""`edgemem backup`, `restore`: a checked copy of the memory, and the way back."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from edgemem.cli.options import agreed, home_and_json, open_existing, truth_alone
from edgemem.cli.printing import answer, plain, print_json
from edgemem.errors import InvalidInputError


@click.command()
@click.argument("to", required=False, type=click.Path(path_type=Path))
@home_and_json
def backup(to: Path | None, home: Path, as_json: bool) -> None:
    """Copy the memory to TO, a file or a folder; without it, into the home's own `backups`.

    The copy is one file, checked, and there whole or not at all. While a robot has the home open it makes its own; stop it
    first. NOTES.md and the profile are files of yours, and not in it.
    """
    from edgemem.store.schema import origin_of

    target = to.expanduser().absolute() if to is not None else None
    with truth_alone(home) as truth:
        if target is not None and truth.folder.absolute() in target.parents:
            raise InvalidInputError(f"{truth.folder} is where the memory itself stands; name another place.")
        if target is not None and target.exists() and not target.is_dir() and origin_of(target) is None:
            raise InvalidInputError(f"{target} is something else, and is left as it is; name another file.")
    with open_existing(home, worker=False, watch=False) as memory:
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
    """Put FROM, a backup, in the place of the memory; without it, the newest good one of the home.

    The copy is checked before anything is changed. What stood there is put aside in `db` under a dated name: delete it
    when it is not needed any more, because nothing is erased from it. Stop the robot first.
    """
    if empty and source is not None:
        raise InvalidInputError("Name a backup, or write --empty; not both.")
    with truth_alone(home) as truth:
        path = source.expanduser().absolute() if source is not None else truth.newest_backup()
        if path is None and not empty:
            raise InvalidInputError(
                f"There is no good backup in {truth.backups}; name one, or begin anew with --empty."
            )
        if path is not None and not path.is_file():
            raise InvalidInputError(f"{path} is no file; name a backup.")
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
        until = datetime.fromtimestamp(replaced.until).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
        newest = f"; its newest record is of {until}" if replaced.until else ""
        click.echo(f"Put back {plain(what)}{newest}.")
    for aside in replaced.aside:
        click.echo(f"Put aside: {plain(str(aside))}")
