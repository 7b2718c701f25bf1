"""`edgemem sessions`: the conversations that were had."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edgemem.cli.options import ListOrShow, home_option, json_option, open_existing, speaker_option
from edgemem.cli.printing import console, count, moment, plain, print_hanging, print_json, print_table
from edgemem.errors import InvalidInputError
from edgemem.fence import check_session_id
from edgemem.records import Reader, Turn

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console


@click.group(cls=ListOrShow)
def sessions() -> None:
    """List conversations (`sessions`), or show one turn by turn (`sessions NAME`)."""


@sessions.command(name="list")
@home_option
@json_option
def list_sessions(home: Path, as_json: bool) -> None:
    """List the conversations, oldest first."""
    with open_existing(home) as memory:
        rows = memory.store.database.query(
            "select s.name, count(*), min(t.recorded), max(t.recorded), sum(t.state in (0, 3))"
            " from sessions s join turns t on t.session_id = s.id group by s.id order by s.id"
        )
    found = [
        {"session": name, "turns": turns, "first": first / 1e6, "last": last / 1e6, "unfinished": unfinished}
        for name, turns, first, last, unfinished in rows
    ]
    if as_json:
        print_json(found)
    elif not found:
        click.echo("There are no conversations yet.")
    else:
        print_table(
            ("session", "turns", "first", "last", "cut off"),
            (
                (
                    s["session"],
                    f"{s['turns']:,}",
                    moment(s["first"]),
                    moment(s["last"]),
                    str(s["unfinished"] or ""),
                )
                for s in found
            ),
            wide=("session",),
        )


@sessions.command()
@click.argument("name")
@click.option("--blocks", is_flag=True, help="Also show what memory put before the model.")
@speaker_option
@home_option
@json_option
def show(name: str, blocks: bool, speaker: str | None, home: Path, as_json: bool) -> None:
    """Show the conversation NAME turn by turn."""
    from edgemem.store.turns import read_turns

    check_session_id(name)
    with open_existing(home) as memory:
        if name not in memory.sessions.list_ids():
            raise InvalidInputError(f"There is no conversation {name!r}; `edgemem sessions` lists them.")
        reader = None if speaker is None else Reader(speaker)
        turns = read_turns(memory.store.database, name, reader=reader)
    if as_json:
        print_json(turns)
        return
    on = console()
    for turn in turns:
        _print_turn(on, turn, blocks=blocks)
    click.echo(count(len(turns), "turn"))


def _print_turn(on: Console, turn: Turn, *, blocks: bool) -> None:
    """Print one turn as a small play."""
    from rich.text import Text

    def row(lead: str, text: str, style: str = "") -> None:
        print_hanging(on, Text(lead), Text(plain(text), style=style))

    heard = turn.heard
    at = moment((heard.event_time if heard else None) or turn.recorded_at)
    row(f"{turn.n}  ", at if turn.state == "complete" else f"{at}, {turn.state}", "dim")
    who = (heard.speaker if heard else None) or "a voice"
    for line in turn.block.splitlines() if blocks else ():
        row("    ", line, "dim")
    for message in turn.messages:
        name = {"user": who, "assistant": "robot"}.get(message.role, message.role)
        for call in message.extra.get("tool_calls", ()):
            function = call.get("function", {})
            row(f"  {plain(name)}: ", f"calls {function.get('name')} {function.get('arguments')}")
        if message.content:
            row(f"  {plain(name)}: ", message.content)
        if message.unheard:
            row("    ", f"not heard: {message.unheard}", "dim")
