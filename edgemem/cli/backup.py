"""`edgemem backup`: a whole, checked copy of the memory."""

from __future__ import annotations

from pathlib import Path

import click

from edgemem.cli.options import home_and_json, open_existing, truth_alone
from edgemem.cli.printing import answer, plain
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
