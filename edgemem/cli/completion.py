"""`edgemem completion`: the script with which a shell completes commands, keys and sessions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgemem.cli.printing import plain
from edgemem.errors import EdgememError, InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

MOST = 200
"""More than anybody reads; a shell asks with every press of the key."""


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

    from edgemem.cli import main

    shell_class = get_completion_class(shell)
    if shell_class is None:
        raise InvalidInputError(f"This version of click cannot complete in {shell}; update click.")
    click.echo(shell_class(main, {}, "edgemem", "_EDGEMEM_COMPLETE").source())


def model_names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the catalogue's models whose name begins with the typed letters."""
    from edgemem.llama.models.catalog import load_catalogue

    return [entry.name for entry in load_catalogue() if entry.name.startswith(incomplete)]


def _names_of(column: str, table: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    sql = f"select distinct {column} from {table} where {column} >= ? order by {column} limit ?"  # noqa: S608 - our own constants

    def names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        from edgemem.store.schema import open_truth

        home = Path(ctx.params.get("home") or "~/.edgemem").expanduser()
        truth, backups = home / "db" / "memory.db", home / "backups"
        try:  # the truth alone: opening the whole memory takes longer than a finger waits
            with open_truth(truth, busy_timeout_s=0.2, backups=backups, create=False) as database:
                rows = database.query(sql, (incomplete, MOST))
        except EdgememError:
            return []  # the command itself reports the error
        # What could steer the terminal is not offered.
        return [name for (name,) in rows if name.startswith(incomplete) and plain(name) == name]

    return names


fact_keys, session_ids = _names_of("key", "fact_keys"), _names_of("name", "sessions")
