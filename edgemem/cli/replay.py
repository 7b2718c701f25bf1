"""`edgemem replay`: a written conversation through the loop with every default hook."""

from __future__ import annotations

import sys
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import click
import msgspec

from edgemem.cli.options import home_and_json, open_home
from edgemem.cli.printing import count, plain, print_json, print_table
from edgemem.errors import InvalidInputError
from edgemem.fence import check_session_id
from edgemem.inspect.replay import read_script


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--session", help="Play everything as one conversation of this name.")
@home_and_json
def replay(file: Path, session: str | None, home: Path, as_json: bool) -> None:
    """Play FILE, a JSON-lines script, into the memory, as if it were said now.

    The times of the script become event times. Exit code 1 if what a line must or must not be shown is otherwise, or a hook
    fails.
    """
    from edgemem.inspect.replay import Player, find_tokenizer

    lines = read_script(file)
    if session is not None:
        check_session_id(session)
        lines = [msgspec.structs.replace(line, session=session) for line in lines]
    tokenizer = find_tokenizer()
    with (
        closing(tokenizer) if tokenizer else nullcontext(),
        open_home(home, tokenizer=tokenizer, worker=False) as memory,
    ):
        taken = sorted({line.session for line in lines} & set(memory.sessions.list_ids()))
        if taken:
            raise InvalidInputError(
                f"{memory.home} holds session {taken[0]!r} already; give --home a new folder."
            )
        player = Player(memory)
        played = list(player.play(lines))
        report: dict[str, Any] = {
            "turns": len(played),
            "messages": sum(1 + bool(line.reply) for line in lines),
            "sessions": len({line.session for line in lines}),
            "checks": sum(len(line.must) + len(line.must_not) for line in lines),
            "checks_failed": sum(len(turn.missing) + len(turn.leaked) for turn in played),
            "tokens_evaluated": sum(turn.new_tokens for turn in played),
            "tokens_memory": sum(turn.block_tokens for turn in played),
            "longest_prompt": max(turn.tokens for turn in played),
            "exact_tokens": memory.diagnostics.tokenizer.exact,
            "hook_failures": list(player.failures),
        }
    if as_json:
        print_json(report)
    else:
        figures = {name.replace("_", " "): n for name, n in report.items() if not isinstance(n, list)}
        print_table(("", "figure"), [(name, f"{n:,}") for name, n in figures.items()])
        for failure in report["hook_failures"]:
            times = count(failure.count, "time")
            click.secho(f"{failure.hook} failed {times}: {plain(failure.message)}", fg="red")
    if report["checks_failed"] or report["hook_failures"]:
        sys.exit(1)
