"""Shared parts of commands: the home, `--json`, times, questions, groups of commands, completion by a shell."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from edgemem.cli.printing import answer, plain, zone
from edgemem.errors import EdgememError, InvalidInputError, count
from edgemem.records import Reader
from edgemem.scopes import name_key

if TYPE_CHECKING:
    from edgemem.memory import Memory
    from edgemem.memory.home import TruthFile
    from edgemem.records import Forgotten

F = TypeVar("F", bound="Callable[..., Any]")
NOT_YET_ERASED = 3  # the exit code of a command that forgot, where a file still holds bytes of it
EMBED_S = 10.0  # that a command takes for what waits for its vector
MOST_COMPLETED = 200  # more than anybody reads; a shell asks with every press of the key


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


def home_before() -> Any:
    """Return the home that stands before the command, if one does."""
    return click.get_current_context().find_root().params.get("home")


def _home() -> str | Path:
    return home_before() or os.environ.get("EDGEMEM_HOME") or "~/.edgemem"


first_home_option = click.option("--home", type=HomePath(path_type=Path), help="As behind the command.")
home_option = click.option(
    "--home",
    type=HomePath(path_type=Path),
    default=_home,
    is_eager=True,  # its profile has the zone of times
    show_default="~/.edgemem",
    help="Where the memory lives ($EDGEMEM_HOME).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def home_and_json(command: F) -> F:
    """Give a command --home and --json."""
    return home_option(json_option(command))


speaker_option = click.option(
    "--speaker", help="Read as this person; without it, as the operator, who sees everything."
)


def reader_of(memory: Memory, speaker: str | None) -> Reader | None:
    """Return the reader that --speaker names, None: the operator; a name that nobody bears is told with the nearest."""
    if speaker is None:
        return None
    stored = memory.store.database.query("select name from names")
    names = [*memory.profile.names(), *(name for (name,) in stored)]
    if name_key(speaker) not in map(name_key, names):
        click.echo(f"Nobody here is called {plain(speaker)}.{did_you_mean(speaker, names)}", err=True)
    return Reader(speaker)


def tell_waiting(memory: Memory) -> int:
    """Tell how many texts wait for their vectors, if any do; return their number."""
    waiting = memory.diagnostics.search.pending()["vectors"]
    if waiting:
        click.echo(f"{count(waiting, 'text')} without a vector yet: only words find that.", err=True)
    return waiting


class When(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.3
    """A moment: ISO 8601 (without a zone: the home's), a date (its end), or seconds since the epoch."""

    name = "time"
    into_the_day = timedelta(days=1, microseconds=-1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds since the epoch."""
        text = str(value).strip()
        with suppress(ValueError):
            return float(text)
        try:
            moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
            if len(text) == len("2026-11-02"):
                moment += self.into_the_day
            return (moment if moment.tzinfo else moment.replace(tzinfo=zone())).timestamp()
        except (ValueError, OverflowError, OSError):
            advice = "write 2026-11-02, 2026-11-02T18:30 or seconds since 1970"
            self.fail(f"{text!r} is not a time; {advice}.", param, ctx)


class Begin(When):  # type: ignore[type-arg,unused-ignore]
    """A moment; a date alone is its beginning."""

    into_the_day = timedelta()


class Guided(click.Group):
    """A group that suggests the nearest command, and in which the words of two commands may be left out.

    `bare` is meant where there is no word, or an option first (`facts --json`); `single` where the word is none (`facts KEY`).
    """

    def __init__(self, *args: Any, bare: str = "", single: str = "", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._bare, self._single = bare, single

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put in the word that was left out; while a shell completes, it may still be typed."""
        word = args[0] if args else ""
        if not ctx.resilient_parsing and word not in ("-h", "--help", *self.commands):
            if self._bare and word != "-" and (not word or word.startswith("-")):
                args = [self._bare, *args]
            elif self._single and word:
                meant = did_you_mean(word, self.list_commands(ctx))
                # A second word means that the first was to be a command: only one thing is shown at a time.
                if meant and len(args) > 1 and not args[1].startswith("-"):
                    raise click.UsageError(f"No such command {word!r}.{meant}", ctx)
                args = [self._single, *args]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the command that a word names."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            meant = did_you_mean(args[0], self.list_commands(ctx))
            if not meant or "Did you mean" in error.message:
                raise
            raise click.UsageError(error.message + meant, ctx) from error


class Dashed(click.Command):
    """Takes words that begin with the dash of a list as words, not options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put such words behind `--`."""
        dashed = [] if "--" in args else [word for word in args if word.startswith("- ")]
        return super().parse_args(
            ctx, [*(w for w in args if w not in dashed), *(["--"] if dashed else []), *dashed]
        )


def typed(words: Sequence[str]) -> str:
    """Return the text typed behind a command; `-` alone reads standard input."""
    text = " ".join(words)
    if text != "-":
        return text
    if sys.stdin is None:
        raise InvalidInputError("There is no standard input to read from; write the text behind the command.")
    return sys.stdin.read()


def did_you_mean(word: str, valid: Iterable[str]) -> str:
    """Return the end of a sentence that names the nearest word, if one is near."""
    import difflib

    words = {name.casefold(): name for name in valid}
    matches = difflib.get_close_matches(word.casefold(), words, n=1)
    return f" Did you mean {plain(words[matches[0]])}?" if matches else ""


def asked(question: str, *, otherwise: str = "Nothing was erased", **how: Any) -> Any:
    """Return what somebody types, yes or no if `how` tells no type; raise InvalidInputError where nobody does."""
    try:
        return click.prompt(question, err=True, **how) if how else click.confirm(question, err=True)
    except (click.Abort, RuntimeError) as error:  # the end of the input, or none at all
        click.echo(err=True)
        raise InvalidInputError(f"{otherwise}: nobody agreed; --yes does it without asking.") from error


def agreed(question: str, *, otherwise: str = "Nothing was erased") -> None:
    """Ask before something is erased or replaced; a no raises InvalidInputError, whose message begins with `otherwise`."""
    if not asked(question, otherwise=otherwise):
        raise InvalidInputError(f"{otherwise}.")


def erase(
    what: str, do: Callable[[], Forgotten], report: dict[str, object], *, yes: bool, as_json: bool
) -> None:
    """Ask, erase, and confirm; `--json` prints `report` with the files that still hold bytes of it."""
    if not yes:
        agreed(f"Erase {what}?")
    forgotten = do()
    answer(as_json, {**report, "pending": forgotten.pending}, f"Erased {what}.")
    tell_pending(forgotten)


def tell_pending(forgotten: Forgotten) -> None:
    """Name files that still hold forgotten bytes, and exit with 3; return where none does."""
    if forgotten.pending:
        files = ", ".join(f"{plain(name)} ({plain(why)})" for name, why in forgotten.pending.items())
        click.echo(f"Not yet gone from {files}; that goes on by itself, in a robot's idle time.", err=True)
        click.get_current_context().exit(NOT_YET_ERASED)


def open_existing(home: Path) -> Memory:
    """Open a home that exists, to look at it or change a record: nothing that lies in it is run, and no upkeep begins."""
    memory = open_home(existing(home), worker=False, watch=False)
    memory.diagnostics.reload.runs_hooks = False
    return memory


def existing(home: Path) -> Path:
    """Return a home that exists; else raise InvalidInputError."""
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
def truth_alone(home: Path, *, make: bool = False) -> Iterator[TruthFile]:
    """Lend a home's truth while nobody else has the home open; raise BusyError where somebody has. `make`: a home that is none yet."""
    from edgemem.clock import Clock
    from edgemem.memory.home import TruthFile, make_home

    home = make_home((home.expanduser() if make else existing(home)).absolute())
    with closing(TruthFile(home, clock=Clock(), timeout_s=0.0)) as truth:
        truth.lock.hold_alone()
        yield truth


def open_home(home: Path, **settings: Any) -> Memory:
    """Open a home, making it if there is none; where it is read-only, the end of a command that went well says so."""
    import edgemem

    memory: Memory = edgemem.open(home, **settings)
    if memory.diagnostics.database.read_only:
        click.get_current_context().call_on_close(partial(_tell_read_only, memory.home))
    return memory


def _tell_read_only(home: Path) -> None:
    if sys.exc_info()[0] is None:  # else its own sentence says so
        click.echo(f"edgemem: {plain(str(home))} is read-only; nothing can be stored.", err=True)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script with which SHELL completes edgemem's commands, options, keys and conversations.

    \b
    bash:  edgemem completion bash > ~/.local/share/bash-completion/completions/edgemem
    zsh:   edgemem completion zsh > ~/.edgemem-completion; echo '. ~/.edgemem-completion' >> ~/.zshrc
    fish:  edgemem completion fish > ~/.config/fish/completions/edgemem.fish

    It works in the next shell that is opened.
    """  # noqa: D301 - click reads the backspace as: do not wrap
    from click.shell_completion import get_completion_class

    shell_class = get_completion_class(shell)
    if shell_class is None:
        raise InvalidInputError(f"This version of click cannot complete in {shell}; update click.")
    click.echo(
        shell_class(
            click.get_current_context().find_root().command, {}, "edgemem", "_EDGEMEM_COMPLETE"
        ).source()
    )


def model_names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the catalogue's models whose name begins with the typed letters."""
    from edgemem.llama.models.catalog import load_catalogue

    return [entry.name for entry in load_catalogue() if entry.name.startswith(incomplete)]


def _names_of(column: str, table: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    sql = f"select distinct {column} from {table} where {column} >= ? order by {column} limit ?"  # noqa: S608 - our own constants

    def names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        from edgemem.store.kinds import open_truth

        home = Path(ctx.params.get("home") or _home()).expanduser()
        truth, backups = home / "db" / "memory.db", home / "backups"
        try:  # the truth alone: opening the whole memory takes longer than a finger waits
            with open_truth(truth, busy_timeout_s=0.2, backups=backups, create=False) as database:
                rows = database.query(sql, (incomplete, MOST_COMPLETED))
        except EdgememError:
            return []  # the command itself reports the error
        # It must not steer the terminal.
        return [name for (name,) in rows if name.startswith(incomplete) and plain(name) == name]

    return names


fact_keys, session_ids = _names_of("key", "fact_keys"), _names_of("name", "sessions")
