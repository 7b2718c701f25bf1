"""`edgemem sessions`: conversations, turn by turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from edgemem.cli.completion import session_ids
from edgemem.cli.options import (
    Guided,
    did_you_mean,
    home_and_json,
    open_existing,
    reader_of,
    speaker_option,
)
from edgemem.cli.printing import console, count, moment, plain, print_entries, print_hanging, print_json
from edgemem.errors import InvalidInputError
from edgemem.fence import check_session_id
from edgemem.records import Turn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.console import Console

ENDS = {
    "open": "(open: the robot is in this turn, or lost its power in it)",
    "interrupted": "(interrupted: somebody cut the robot off)",
    "unfinished": "(unfinished: the robot crashed, lost its power, or its model failed)",
}
"""Remarks on turns that did not end as they should."""


@click.group(cls=Guided, bare="list", single="show")
def sessions() -> None:
    """List conversations (`sessions`), or show one turn by turn (`sessions NAME`)."""


@sessions.command(name="list")
@home_and_json
def list_sessions(home: Path, as_json: bool) -> None:
    """List the conversations, oldest first; --json has the number of each in the log of turns."""
    from edgemem.session.figures import name_hash

    with open_existing(home) as memory:
        rows = memory.store.database.query(
            "select s.name, count(*), min(t.recorded), max(t.recorded), sum(t.state in (0, 3))"
            " from sessions s join turns t on t.session_id = s.id group by s.id order by s.id"
        )
    keys = ("session", "number", "turns", "first", "last", "unfinished")
    entries = [
        dict(zip(keys, (name, name_hash(name), turns, first / 1e6, last / 1e6, unfinished), strict=True))
        for name, turns, first, last, unfinished in rows
    ]

    def row(entry: dict[str, Any]) -> tuple[str, ...]:
        times = moment(entry["first"]), moment(entry["last"])
        return entry["session"], f"{entry['turns']:,}", *times, str(entry["unfinished"] or "")

    columns = ("session", "turns", "first", "last", "cut off")
    print_entries(entries, as_json, columns, row, noun="conversations", wide=("session",))


@sessions.command(short_help="Show one turn by turn.")
@click.argument("name", shell_complete=session_ids)
@click.option(
    "--blocks/--no-blocks", default=True, show_default=True, help="Show what memory put before the model."
)
@speaker_option
@home_and_json
def show(name: str, blocks: bool, speaker: str | None, home: Path, as_json: bool) -> None:
    """Show the conversation NAME turn by turn: when, who, how it ended, and the unheard part of a reply."""
    from edgemem.store.turns import read_turns

    check_session_id(name)
    with open_existing(home) as memory:
        known = memory.sessions.list_ids()
        if name not in known:
            raise InvalidInputError(
                f"There is no conversation {name!r}; `edgemem sessions` lists them.{did_you_mean(name, known)}"
            )
        turns = read_turns(memory.store.database, name, reader=reader_of(speaker))
    if as_json:
        print_json(turns)
        return
    on = console()
    for turn in turns:
        _print_turn(on, turn, blocks=blocks)
    odd = [(state, sum(turn.state == state for turn in turns)) for state in ENDS]
    click.echo(", ".join((count(len(turns), "turn"), *(f"{n:,} {state}" for state, n in odd if n))))


def _print_turn(on: Console, turn: Turn, *, blocks: bool) -> None:
    """Print one turn as a small play."""
    from rich.text import Text

    def row(lead: str, text: str, style: str = "") -> None:
        print_hanging(on, Text(lead), Text(plain(text), style=style))

    row(f"{turn.n}  ", ", ".join(_heard(turn)), "dim")
    if turn.state in ENDS:
        row("   ", ENDS[turn.state], "bold")
    for line in turn.block.splitlines() if blocks else ():
        row("    ", line, "dim")
    who = (turn.heard.speaker if turn.heard else None) or "a voice"
    for message in turn.messages:
        name = {"user": who, "assistant": "robot"}.get(message.role, message.role)
        for call in message.extra.get("tool_calls", ()):
            function = call.get("function", {})
            row(f"  {plain(name)}: ", f"calls {function.get('name')} {function.get('arguments')}")
        if message.content:
            row(f"  {plain(name)}: ", message.content)
        if message.unheard:
            row("    ", f"not heard: {message.unheard}", "dim")


def _heard(turn: Turn) -> Iterator[str]:
    """Yield when a turn was said and kept, how it came to the robot's ears, and who may read it if not the household."""
    heard, kept = turn.heard, moment(turn.recorded_at)
    spoken = moment(heard.event_time if heard else None) or kept
    yield spoken
    if spoken != kept:
        yield f"kept {kept}"
    if heard is not None:
        if heard.speaker_confidence is not None:
            yield f"voice {heard.speaker_confidence:.0%} sure"
        if heard.asr_confidence is not None:
            yield f"words {heard.asr_confidence:.0%} sure"
        yield from filter(None, (heard.room, heard.device))
    if turn.level != "household":
        yield turn.level
    if turn.answer != turn.level:
        yield f"answer {turn.answer}"
