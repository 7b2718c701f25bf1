"""What commands share: the home, `--json`, times, and groups that list or show one thing."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgemem.errors import InvalidInputError

if TYPE_CHECKING:
    from edgemem.memory import Memory

home_option = click.option(
    "--home",
    type=click.Path(path_type=Path),
    default="~/.edgemem",
    envvar="EDGEMEM_HOME",
    show_default=True,
    help="Where the memory lives ($EDGEMEM_HOME).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
speaker_option = click.option(
    "--speaker", help="Read as this person; without it, as the operator, who sees everything."
)


class When(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.3
    """A moment: ISO 8601 (without a zone: this machine's), a date (its end), or seconds since the epoch."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds since the epoch."""
        text = str(value).strip()
        try:
            return float(text)
        except ValueError:
            pass
        try:
            moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
            if len(text) == len("2026-11-02"):
                moment += timedelta(days=1, microseconds=-1)
            return moment.astimezone().timestamp()
        except (ValueError, OverflowError, OSError):
            self.fail(
                f"{text!r} is not a time; write 2026-11-02, 2026-11-02T18:30 or seconds since 1970.",
                param,
                ctx,
            )


class ListOrShow(click.Group):
    """A group of `list` and `show` where both words may be left out: `facts`, `facts KEY`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put in the word that was left out."""
        first = args[0] if args else ""
        if first not in ("-h", "--help", *self.commands):
            args = ["list" if first.startswith("-") or not args else "show", *args]
        return super().parse_args(ctx, args)


def open_existing(home: Path) -> Memory:
    """Open a home that is there already; reading commands make none."""
    home = home.expanduser()
    if not home.exists():
        raise InvalidInputError(
            f"There is no memory at {home}; `edgemem demo --home {home}` makes one to try."
        )
    return open_home(home)


def open_home(home: Path, **settings: Any) -> Memory:
    """Open a home, making it if there is none."""
    import edgemem

    home = home.expanduser()
    if home.exists() and not home.is_dir():
        raise InvalidInputError(
            f"{home} is a file; a memory's home is a directory. Name another with --home."
        )
    memory: Memory = edgemem.open(home, **settings)
    return memory
