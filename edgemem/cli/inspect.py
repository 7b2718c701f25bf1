"""`edgemem inspect`: the next prompt of a conversation, and tool results in full."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict

from edgemem.cli import options
from edgemem.cli.chat import INSTRUCTIONS, MAX_UTTERANCE
from edgemem.cli.models import file_at, llm_option, not_both, server_option, tokenizer_of
from edgemem.cli.printing import console, harmless, plain, print_hanging, print_json
from edgemem.errors import InvalidInputError, count
from edgemem.fence import check_text

if TYPE_CHECKING:
    from edgemem.inspect.prompt import InspectedLine, Inspection

SHORT = 160
"""Characters of a part that are shown; --whole shows all."""

MOST_LEFT_OUT = 8

MAX_OUTPUT = 2**31 - 1  # of a tool's result; SQLite holds no longer text


@click.group()
def inspect() -> None:
    """Look at the next prompt, and at tool results that were shortened in it."""


@inspect.command()
@click.argument("utterance")
@click.option(
    "--session",
    default="chat",
    show_default=True,
    shell_complete=options.session_ids,
    help="The conversation.",
)
@click.option("--speaker", help="Who says it; without it, a voice that is not recognised.")
@llm_option
@server_option
@click.option(
    "--instructions", default=INSTRUCTIONS, help="The system message.  [default: that of `edgemem chat`]"
)
@click.option("--no-tools", is_flag=True, help="Count without the memory tools that `edgemem chat` offers.")
@click.option("--whole", is_flag=True, help="Show every part in full, and everything that is left out.")
@options.home_and_json
def prompt(
    utterance: str, llm: Path | None, server: str | None, home: Path, as_json: bool, **scene: Any
) -> None:
    """Show what UTTERANCE would make the next prompt.

    Part by part with its tokens; nothing is stored. With --llm or --server tokens are counted exactly, and the window is
    that model's where it is smaller than the profile's.
    """
    from edgemem.inspect.prompt import inspect_prompt

    check_text(utterance, what="the utterance", max_bytes=MAX_UTTERANCE)
    not_both(llm, server)
    model_file = file_at(llm, home)
    with options.open_existing(home) as memory, tokenizer_of(model_file, server, memory) as tokenizer:
        inspection = inspect_prompt(
            memory,
            utterance,
            session=scene["session"],
            speaker=scene["speaker"],
            tokenizer=tokenizer,
            instructions=scene["instructions"],
            tools=[] if scene["no_tools"] else memory.tools(),
        )
        waiting = options.tell_waiting(memory)
    if as_json:
        room = {"free_tokens": inspection.free_tokens, "over_tokens": inspection.over_tokens}
        print_json(asdict(inspection) | {"plan": inspection.plan, **room, "waiting": waiting})
    else:
        whole = scene["whole"]
        _print(inspection, chars=None if whole else SHORT, most=None if whole else MOST_LEFT_OUT)


@inspect.command(short_help="Show what a tool answered in full.")
@click.argument("pointer")
@options.speaker_option
@options.home_and_json
def output(pointer: str, speaker: str | None, home: Path, as_json: bool) -> None:
    """Show all of a tool's result that was shortened; POINTER is the name that it was kept under.

    \b
    edgemem sessions kitchen                 # … (… characters left out, kept as 3f2a9c01de) …
    edgemem inspect output 3f2a9c01de
    """  # noqa: D301 - click reads the backspace as: do not wrap
    from edgemem.store.rights import LEVELS
    from edgemem.store.turns import read_output

    name = pointer.strip().lower()
    with options.open_existing(home) as memory:
        reader = options.reader_of(memory, speaker)
        piece = read_output(memory.diagnostics.database, name, length=MAX_OUTPUT, reader=reader)
    if piece is None:
        may = "" if speaker is None else f" that {plain(speaker)} may read"
        raise InvalidInputError(
            f"Nothing is kept under {plain(pointer)!r}{may}; `edgemem sessions NAME` shows the names in shortened results,"
            " and the oldest texts go first."
        )
    level = LEVELS[piece.level]
    if as_json:
        place = {"session": piece.session, "turn": piece.turn, "level": level, "owner": piece.owner}
        print_json({"pointer": name, **place, "characters": piece.length, "text": piece.text})
        return
    for line in piece.text.splitlines():
        click.echo(harmless(line.expandtabs()))
    owner = f" of {plain(piece.owner)}" if piece.owner and level == "private" else ""
    click.echo(
        f"{count(piece.length, 'character')}, from turn {piece.turn} of {plain(piece.session)} ({level}{owner})",
        err=True,
    )


def _print(inspection: Inspection, *, chars: int | None, most: int | None) -> None:
    from rich.text import Text

    for part in inspection.parts:
        lines = {"memory": inspection.lines, "notes": inspection.note_lines}.get(part.name)
        number = "" if part.turn is None else f" {part.turn}"
        speaker = f" {part.speaker}" if part.speaker else ""
        block = f" (+{part.block_tokens} of memory)" if part.block_tokens else ""
        name = f"turn{number}{speaker}{block}" if part.name == "turn" else part.name
        _row(part.tokens, name, part.text if lines is None else "", chars)
        if lines is not None:
            _print_lines(lines, chars)
            limited = part.name == "memory" and inspection.block_limit
            limit = f"; at most {inspection.block_limit:,} in all" if limited else ""
            rest = part.tokens - sum(line.tokens for line in lines)
            _row(rest, f"  around them{limit}", "", None, style="dim")
    if inspection.left_out:
        click.echo("\nRemembered, and not put before the model:")
        _print_lines(inspection.left_out[:most], chars)
        if most is not None and len(inspection.left_out) > most:
            click.echo(f"         and {len(inspection.left_out) - most:,} more; --whole shows them")
    about = "" if inspection.exact else "about "
    sums = ", ".join(f"{name} {tokens:,}" for name, tokens in inspection.plan.items() if tokens)
    click.echo(f"\nThe window: {about}{inspection.tokens:,} of {inspection.window_tokens:,} tokens")
    print_hanging(console(), Text("  "), Text(f"{sums}, free {inspection.free_tokens:,}", style="dim"))
    if inspection.over_tokens:
        answer = f"an answer of {inspection.reply_tokens:,}: {inspection.over_advice}"
        click.echo(f"{count(inspection.over_tokens, 'token')} too many for {answer}")
    recall = inspection.recall
    by = " and ".join(recall.signals) or "neither words nor meaning"
    click.echo(
        f"recall {recall.embed_ms + recall.search_ms:.1f} ms ({recall.embed_ms:.1f} to embed the question): "
        f"{count(recall.candidates, 'candidate')} by {by}{', cut off by its deadline' * recall.late}"
    )
    if not inspection.exact:
        click.echo("Tokens are estimates; --llm or --server counts those of your chat model.")
    for note in inspection.notes:
        click.echo(plain(note))


def _print_lines(lines: Iterable[InspectedLine], chars: int | None) -> None:
    for line in lines:
        score = "" if line.score is None else f"{line.score:.2f} of {line.least:.2f} "
        why = "; ".join(filter(None, (line.left_out, ", ".join(line.why))))
        text = line.text or f"a {line.id.partition(':')[0]} that is not quoted here"
        _row(line.tokens or None, f"  {score}{why}", text, chars, style="dim")


def _row(tokens: int | None, name: str, text: str, chars: int | None, *, style: str = "") -> None:
    from rich.text import Text

    on = console()
    lead = Text(" " * 9 if tokens is None else f"{tokens:>7,}  ")
    inset = len(name) - len(name.lstrip())
    print_hanging(on, lead + Text(" " * inset), Text(plain(name), style=style or "bold"))
    shown = plain(text)
    if chars is not None and len(shown) > chars:
        shown = f"{shown[: chars - 1]}…"
    if shown:
        print_hanging(on, Text(" " * (11 + inset)), Text(shown, style="dim"))
