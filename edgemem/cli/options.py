"""What commands share: the home, `--json`, times, questions, and groups that list or show one thing."""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from edgemem.cli.printing import answer, plain
from edgemem.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from click.shell_completion import CompletionItem

    from edgemem.memory import Memory
    from edgemem.memory.truth import TruthFile
    from edgemem.store.erase.eraser import Forgotten

F = TypeVar("F", bound="Callable[..., Any]")
NOT_YET_ERASED = 3
"""The exit code of a command that forgot, where bytes of it still stand in a file."""


class HomePath(click.Path):
    """A directory; `~` is followed here too, because no shell does it within `--home=~/kitchen`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if not str(value).strip():
            raise InvalidInputError("The name of the home is empty; write --home DIRECTORY.")
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        try:
            return path.expanduser()
        except RuntimeError as error:
            raise InvalidInputError(f"{path}: there is no such user; name another home.") from error


home_option = click.option(
    "--home",
    type=HomePath(path_type=Path),
    default="~/.edgemem",
    envvar="EDGEMEM_HOME",
    show_default=True,
    help="Where the memory lives ($EDGEMEM_HOME).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def home_and_json(command: F) -> F:
    """Give a command --home and --json."""
    return home_option(json_option(command))


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


class Guided(click.Group):
    """A group that says which command was probably meant."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the command that a word names."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            meant = did_you_mean(args[0], self.list_commands(ctx))
            if not meant or "Did you mean" in error.message:
                raise
            raise click.UsageError(error.message + meant, ctx) from error


class ListByDefault(Guided):
    """A group that lists where no command is named: `models`, `models --json`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put in the word that was left out."""
        # While a shell completes, the word may still be typed.
        bare = not args or (args[0].startswith("-") and args[0] not in ("-h", "--help"))
        if bare and not ctx.resilient_parsing:
            args = ["list", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer the commands, and what may follow where their words are left out."""
        offered = super().shell_complete(ctx, incomplete)
        name = "list" if incomplete.startswith("-") else "show"
        left_out = self.commands.get(name)
        if left_out is not None and incomplete:
            within = left_out.make_context(name, [], parent=ctx, resilient_parsing=True)
            if incomplete.startswith("-"):
                offered += left_out.shell_complete(within, incomplete)
            for param in left_out.params:
                if isinstance(param, click.Argument) and name == "show":
                    offered += param.shell_complete(within, incomplete)
        return offered


class ListOrShow(ListByDefault):
    """A group of `list` and `show` where both words may be left out: `facts`, `facts KEY`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put in the word that was left out."""
        named = args and not args[0].startswith("-") and args[0] not in self.commands
        if named and not ctx.resilient_parsing:
            meant = did_you_mean(args[0], self.list_commands(ctx))
            # Only one thing is shown at a time: before a second word, the first was to be a command.
            if meant and len(args) > 1 and not args[1].startswith("-"):
                raise click.UsageError(f"No such command {args[0]!r}.{meant}", ctx)
            args = ["show", *args]
        return super().parse_args(ctx, args)


def did_you_mean(word: str, valid: Iterable[str]) -> str:
    """Return the end of a sentence that names what was probably meant; empty if nothing is near."""
    import difflib

    matches = difflib.get_close_matches(word, list(valid), n=1)
    return f" Did you mean {plain(matches[0])}?" if matches else ""


def agreed(question: str, *, otherwise: str = "Nothing was erased") -> None:
    """Ask before something is erased or replaced; no answer is a no, and raises InvalidInputError, which begins with `otherwise`."""
    try:
        yes = click.confirm(question, err=True)
    except (click.Abort, RuntimeError) as error:  # the end of the input, or none at all
        click.echo(err=True)
        raise InvalidInputError(
            f"{otherwise}, because nobody agreed; --yes does it without asking."
        ) from error
    if not yes:
        raise InvalidInputError(f"{otherwise}.")


def erase(
    what: str, do: Callable[[], Forgotten], report: dict[str, object], *, yes: bool, as_json: bool
) -> None:
    """Ask, erase, and tell what was erased; `--json` prints `report` with the files that still hold bytes of it."""
    if not yes:
        agreed(f"Erase {what}?")
    forgotten = do()
    answer(as_json, {**report, "pending": forgotten.pending}, f"Erased {what}.")
    tell_pending(forgotten)


def tell_pending(forgotten: Forgotten) -> None:
    """Tell which files still hold bytes of what was forgotten, and exit with 3; return where none does."""
    if forgotten.pending:
        files = ", ".join(f"{plain(name)} ({plain(why)})" for name, why in forgotten.pending.items())
        click.echo(f"Not yet gone from {files}; that goes on by itself, in a robot's idle time.", err=True)
        click.get_current_context().exit(NOT_YET_ERASED)


def open_existing(home: Path, **settings: Any) -> Memory:
    """Open a home that is there already; reading commands make none."""
    return open_home(existing(home), **settings)


def existing(home: Path) -> Path:
    """Return a home that is there already."""
    from edgemem.memory.home import is_home, meant_instead

    home = home.expanduser()
    if home.is_dir() and not is_home(home):
        raise InvalidInputError(f"There is no memory at {home}; {meant_instead(home)}.")
    if not home.exists():
        raise InvalidInputError(
            f"There is no memory at {home}; name another with --home, or begin this one: edgemem facts add KEY VALUE"
        )
    return home


@contextmanager
def truth_alone(home: Path) -> Iterator[TruthFile]:
    """Lend the file of a home's truth, while nobody else has the home open; raise BusyError where somebody has."""
    from edgemem.clock import Clock
    from edgemem.memory.home import make_home
    from edgemem.memory.truth import TruthFile

    with closing(TruthFile(make_home(existing(home).absolute()), clock=Clock(), timeout_s=0.0)) as truth:
        truth.lock.hold_alone()
        yield truth


def open_home(home: Path, **settings: Any) -> Memory:
    """Open a home, making it if there is none."""
    import edgemem

    memory: Memory = edgemem.open(home, **settings)
    for sentence in _newly_joined(memory):
        click.echo(sentence, err=True)
    if memory.database.read_only:
        click.echo(f"edgemem: {plain(str(memory.home))} is read-only; nothing can be stored.", err=True)
    return memory


def _newly_joined(memory: Memory) -> Iterator[str]:
    """Yield which names became one person's when this memory was opened."""
    from edgemem.store.db.schema import NAMES_STEP
    from edgemem.store.spellings import joined_names

    if NAMES_STEP in memory.database.migrated:
        for pair in joined_names(memory.database):
            yield (
                f"{plain(pair.other)} and {plain(pair.kept)} are one person now, written {plain(pair.kept)}. The memory as it"
                f" was is kept in {memory.home / 'backups'}; two people can be kept apart by [speakers], see docs/privacy.md."
            )
