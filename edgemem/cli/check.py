"""`edgemem check`: what works on this machine, and what to do about the rest."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from edgemem.cli.models import file_at, llm_option, not_both, server_option, tokenizer_of
from edgemem.cli.options import home_and_json, open_existing, open_home
from edgemem.cli.printing import console, plain, print_json

if TYPE_CHECKING:
    from edgemem.memory import Memory
    from edgemem.records import Check

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@llm_option
@server_option
@click.option("--acknowledge", is_flag=True, help="You have seen what was lost: tell of it no more.")
@home_and_json
def check(llm: Path | None, server: str | None, acknowledge: bool, home: Path, as_json: bool) -> None:
    """Tell what works on this machine, and what to do about the rest; exit code 1 if something needed fails.

    With a chat model it also tells what its chat template costs each turn, and whether its window is the profile's.
    """
    not_both(llm, server)
    if acknowledge:
        with open_existing(home, worker=False, watch=False) as memory:
            memory.diagnostics.truth.acknowledge()
    checks = _checked(home, file_at(llm, home), server)
    if as_json:
        print_json(checks)
    else:
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(width=4)
        grid.add_column(no_wrap=True)
        grid.add_column(ratio=1, overflow="fold")
        for row in checks:
            detail = Text(plain(row.detail))
            if row.advice:
                detail.append(f"\n{plain(row.advice)}", style="bold")
            grid.add_row(Text(row.state, style=COLOURS.get(row.state, "")), Text(plain(row.name)), detail)
        console().print(grid)
    if any(row.state == "fail" for row in checks):
        sys.exit(1)


def _checked(home: Path, file: Path | None, server: str | None) -> list[Check]:
    """Return what there is to say; where no home is yet, of the machine alone, because looking makes none."""
    from edgemem.records import Check

    home = home.expanduser()
    if home.exists():
        with open_existing(home, worker=False) as memory:
            return _with_model(memory, file, server)
    with (
        TemporaryDirectory(prefix="edgemem-check-") as folder,
        open_home(Path(folder), worker=False) as memory,
    ):
        advice = "Name another with --home, or begin this one: edgemem facts add KEY VALUE"
        return [
            Check("home", "warn", f"there is no memory at {home}; this is the machine", advice),
            *_with_model(memory, file, server),
        ]


def _with_model(memory: Memory, file: Path | None, server: str | None) -> list[Check]:
    with tokenizer_of(file, server, memory) as tokenizer:
        using = tokenizer and memory.diagnostics.budget(tokenizer=tokenizer)
        checks = memory.check()
        del using  # until now: of what nobody holds, the check tells nothing
        return checks
