"""`edgemem recall`, `sessions`: ask the memory by hand, and conversations turn by turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import UNSET

from edgemem.cli import options
from edgemem.cli.printing import console, moment, plain, print_entries, print_hanging, print_json
from edgemem.errors import InvalidInputError, count
from edgemem.fence import check_session_id, check_text
from edgemem.records import Recalled, RecalledSession, Turn

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

ENDS = {
    "interrupted": "(interrupted: somebody cut the robot off)",
    "unfinished": "(unfinished: the robot crashed, lost its power, or its model failed)",
}


@click.command()
@click.argument("words", metavar="QUERY", nargs=-1, required=True)
@click.option(
    "-k", "--k", default=5, show_default=True, type=click.IntRange(1, 1000), help="How many to show."
)
@click.option("--valid-at", type=options.When(), help="Facts as they held at this time.")
@click.option("--known-at", type=options.When(), help="Only what was known at this time.")
@click.option("--sessions", is_flag=True, help="Whole conversations: when it was talked about.")
@options.speaker_option
@options.home_and_json
def recall(
    words: tuple[str, ...], sessions: bool, speaker: str | None, home: Path, as_json: bool, **bounds: Any
) -> None:
    """Find memories about QUERY, best first, and say why each was found.

    A time is 2026-11-02 (the end of that day), 2026-11-02T18:30, or seconds since 1970.

    \b
    edgemem recall where are the tickets
    edgemem recall "what can I cook for Alice?" --speaker Alice --k 3
    edgemem recall "what did Alice drink before?"
    edgemem recall "what does Alice drink?" --valid-at 2026-11-02
    edgemem recall --sessions "when did we talk about the holidays?"
    """  # noqa: D301 - click reads the backspace as: do not wrap
    from rich.text import Text

    from edgemem.llama.models.catalog import find_entry

    query = " ".join(words)
    if not query.strip():
        raise InvalidInputError("The question is empty; say what to look for.")
    check_text(query, what="query", max_bytes=1 << 20)
    valid_at = bounds["valid_at"]
    if sessions and valid_at is not None:
        raise InvalidInputError("Conversations are true of no time; leave out --valid-at, or --sessions.")
    results: Sequence[Recalled | RecalledSession]
    with options.open_existing(home) as memory:
        reader = options.reader_of(memory, speaker)
        memory.idle(options.EMBED_S)
        options.tell_waiting(memory)
        who = UNSET if reader is None else reader.speaker
        if sessions:
            results = memory.recall_sessions(query, speaker=who, k=bounds["k"], known_at=bounds["known_at"])
        else:
            results = memory.recall(query, speaker=who, **bounds)
        missing = memory.profile.llama.embedder if memory.diagnostics.embedder is None else ""
    if as_json:
        print_json(results)
    elif not results:
        click.echo("Nothing is remembered about that.")
        if find_entry(missing) is not None:  # else a newcomer would think that nothing was kept
            click.echo(f"Only words are found; to find by meaning: edgemem models get {missing}", err=True)
    for item in () if as_json else results:
        if isinstance(item, RecalledSession):
            what = Text(" / ", style="dim").join(map(_speech, item.messages))
            what.append(f" ({plain(item.session)})", style="dim italic")
            lead = f"{item.score:.2f}  {_day(item.at):<10}  "
        else:
            name = (f"episode {item.id}",) if item.kind == "episode" else ()
            what = _speech(item).append(f" ({', '.join((*item.why, *name))})", style="dim italic")
            lead = f"{item.score:.2f}  {item.kind:<10}  {_day(item.event_time or item.recorded_at):<10}  "
        print_hanging(console(), Text(lead), what)


def _speech(item: Recalled) -> Text:
    from rich.text import Text

    who = f"{item.speaker}: " if item.speaker and item.kind == "turn" else ""
    return Text(plain(f"{who}{item.text}"))


def _day(at: float) -> str:
    return moment(at)[: len("2026-11-02")]


@click.group(cls=options.Guided, bare="list", single="show")
def sessions() -> None:
    """List conversations (`sessions`), or show one turn by turn (`sessions NAME`)."""


@sessions.command(name="list")
@options.home_and_json
def list_sessions(home: Path, as_json: bool) -> None:
    """List the conversations, oldest first; --json has the number of each in the log of turns."""
    from edgemem.session.figures import name_hash

    with options.open_existing(home) as memory:
        rows = memory.store.database.query(
            "select s.name, count(*), min(t.recorded), max(t.recorded), sum(t.state = 3)"
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
@click.argument("name", shell_complete=options.session_ids)
@click.option(
    "--blocks/--no-blocks", default=True, show_default=True, help="Show what memory put before the model."
)
@options.speaker_option
@options.home_and_json
def show(name: str, blocks: bool, speaker: str | None, home: Path, as_json: bool) -> None:
    """Show the conversation NAME turn by turn: when, who, how it ended, and the unheard part of a reply."""
    from edgemem.store.turns import read_turns

    check_session_id(name)
    with options.open_existing(home) as memory:
        known = memory.sessions.list_ids()
        if name not in known:
            raise InvalidInputError(
                f"There is no conversation {name!r}; `edgemem sessions` lists them.{options.did_you_mean(name, known)}"
            )
        turns = read_turns(memory.store.database, name, reader=options.reader_of(memory, speaker))
    if as_json:
        print_json(turns)
        return
    on = console()
    for turn in turns:
        _print_turn(on, turn, blocks=blocks)
    odd = [(state, sum(turn.state == state for turn in turns)) for state in ENDS]
    click.echo(", ".join((count(len(turns), "turn"), *(f"{n:,} {state}" for state, n in odd if n))))


def _print_turn(on: Console, turn: Turn, *, blocks: bool) -> None:
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
    """Yield when a turn was said and kept, how it was heard, and who may read it if not the household."""
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
