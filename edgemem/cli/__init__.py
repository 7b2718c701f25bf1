"""The command line: one module per command, imported when it is called, so that `--help` is quick."""

from __future__ import annotations

import logging
import os
import sys
from importlib import import_module
from io import TextIOWrapper
from keyword import iskeyword
from pathlib import Path
from typing import Any

import click

import edgemem
from edgemem.cli.options import Guided, first_home_option
from edgemem.cli.printing import plain
from edgemem.errors import EdgememError

COMMANDS = {
    "demo": ("demo", "Watch a kitchen robot remember three days."),
    "chat": ("chat", "Talk to a local model that remembers."),
    "replay": ("demo", "Play a written conversation through the memory."),
    "recall": ("recall", "Find what is remembered about something."),
    "facts": ("facts", "List facts, draw the history of one, add or forget one."),
    "episodes": ("episodes", "List what the robot did and lived through."),
    "procedures": ("episodes", "List ways of doing things, or find one for a task."),
    "notes": ("notes", "Print NOTES.md, a section of it, or add to it."),
    "goals": ("episodes", "List what people are after."),
    "learn": ("learn", "List what was learnt by itself, learn now, or undo something."),
    "upcoming": ("learn", "List what is still to come: appointments, goals and reminders."),
    "people": ("people", "List who is known; rename, merge or split them."),
    "thoughts": ("thoughts", "List thoughts, show one, or what hangs together with it."),
    "why": ("thoughts", "Tell who said a thing, when, and what contests it."),
    "query": ("thoughts", "Answer a question in SQL, which only reads."),
    "bank": ("notes", "List files of the bank, show, write or delete one."),
    "sessions": ("recall", "List conversations, or show one."),
    "inspect": ("inspect", "Show the next prompt part by part, or a tool's result in full."),
    "stats": ("stats", "Count what there is, what it takes and what waits."),
    "export": ("transfer", "Write what is remembered as JSON lines, whole or by person."),
    "import": ("transfer", "Take in an export, or what EdgeVox remembers."),
    "forget": ("facts", "Erase a fact, an episode, a conversation or a person for good."),
    "gc": ("facts", "Show what has aged and why, or erase it."),
    "backup": ("transfer", "Copy the memory, whole and checked."),
    "restore": ("transfer", "Put a backup in the place of the memory."),
    "check": ("stats", "Tell what works on this machine, and what to do about the rest."),
    "models": ("models", "Fetch, add, list, verify and remove models."),
    "bench": ("bench", "Measure this machine."),
    "completion": ("options", "Print the script for completion in bash, zsh or fish."),
}
"""Module and short help of each; the function of its name is the command (`import_` of `import`)."""


class Commands(Guided):
    """Loads a command's module when it is called, and words every error as one sentence."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words before the command."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            option = error.option_name if isinstance(error, click.NoSuchOption) else ""
            if option in ("--json", "--speaker"):
                raise Misuse(f"{option} stands behind the command: edgemem COMMAND {option} …") from error
            raise in_a_sentence(error) from error

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return the names in the order in which a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"edgemem.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = vars(module)[f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name]
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what goes wrong is told in one sentence, with exit code 1, or 2 where the line was mistyped."""
        try:
            return super().invoke(ctx)
        except EdgememError as error:
            raise Sentence(str(error)) from error
        except click.UsageError as error:
            raise in_a_sentence(error) from error
        except (click.exceptions.Exit, click.ClickException, click.Abort, BrokenPipeError):
            raise
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise Sentence(f"{where}{error.strerror or error}.") from error
        except Exception as error:
            if os.environ.get("EDGEMEM_TRACEBACK"):
                raise
            raise Sentence(
                f"This is a fault of edgemem ({type(error).__name__}: {error}); "
                "EDGEMEM_TRACEBACK=1 before the command shows where. Please report it."
            ) from error


class Sentence(click.ClickException):
    """An error in one sentence for the person in front of the robot."""

    def show(self, file: Any = None) -> None:
        """Print it to stderr."""
        text = plain(self.message)
        name = click.style("edgemem:", fg="red", bold=True)
        click.echo(f"{name} {text}", file=file, err=True, color=False if os.environ.get("NO_COLOR") else None)


class Misuse(Sentence):
    """A line that no command understands."""

    exit_code = 2


def in_a_sentence(error: click.UsageError) -> click.ClickException:
    """Return an error of usage that is told without the block that click prints above it."""
    if type(error).__name__ == "NoArgsIsHelpError":  # click from 8.2 on; it is a page of help
        return error
    message = error.format_message()
    if error.ctx is None or message.endswith("?"):  # it has advice already
        return Misuse(message)
    return Misuse(f"{message.rstrip('.')}; {error.ctx.command_path} --help tells how it is called.")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(edgemem.__version__, prog_name="edgemem")
@first_home_option
@click.pass_context
def main(ctx: click.Context, home: Path) -> None:  # noqa: ARG001 - its commands read it
    """Offline memory for voice agents on robots.

    `edgemem demo` shows in a minute what it does; `edgemem COMMAND --help` tells about one command. Everything that
    prints can print JSON with --json. --home or EDGEMEM_HOME says whose memory it is.

    \b
    edgemem facts add alice.allergy hazelnuts --scope user:alice
    edgemem recall what must Alice not eat --speaker alice
    """  # noqa: D301 - click reads the backspace as: do not wrap
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    if not os.environ.get("EDGEMEM_TRACEBACK"):
        # Repairs and failures are for a program's log; here `check` reports them in a sentence.
        logging.getLogger("edgemem").addHandler(logging.NullHandler())
    # A terminal's encoding may lack what stored text holds; printing must not fail for it.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
