"""`edgemem restore`: a backup put back in the place of the memory."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from edgemem.cli.options import agreed, home_and_json, truth_alone
from edgemem.cli.printing import plain, print_json
from edgemem.errors import InvalidInputError


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
