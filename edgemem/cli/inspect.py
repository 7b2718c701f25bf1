"""`edgemem inspect`: what the model would be handed, before anybody says it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgemem.cli.chat import INSTRUCTIONS, MAX_UTTERANCE
from edgemem.cli.completion import session_ids
from edgemem.cli.options import home_option, json_option, open_existing
from edgemem.cli.printing import console, plain, print_hanging, print_json
from edgemem.errors import InvalidInputError
from edgemem.fence import check_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgemem.inspecting import BlockLine, Inspection, Part
    from edgemem.llama.protocols import Tokenizer

SHORT = 160
"""Characters of a part that are shown; --whole shows all."""


@click.group()
def inspect() -> None:
    """Look at what the model is handed."""


@inspect.command()
@click.argument("utterance")
@click.option(
    "--session", default="chat", show_default=True, shell_complete=session_ids, help="The conversation."
)
@click.option("--speaker", help="Who says it; without it, a voice that is not recognised.")
@click.option(
    "--llm", type=click.Path(path_type=Path), metavar="FILE", help="Count exactly, for this GGUF chat model."
)
@click.option(
    "--instructions", default=INSTRUCTIONS, help="The system message.  [default: that of `edgemem chat`]"
)
@click.option("--whole", is_flag=True, help="Show every part in full.")
@home_option
@json_option
def prompt(
    utterance: str,
    session: str,
    speaker: str | None,
    llm: Path | None,
    instructions: str,
    whole: bool,
    home: Path,
    as_json: bool,
) -> None:
    """Show the prompt that UTTERANCE would make, part by part with its tokens; nothing is stored."""
    from edgemem.inspecting import inspect_prompt
    from edgemem.llama.tokenizer import LlamaTokenizer

    check_text(utterance, what="the utterance", max_bytes=MAX_UTTERANCE)
    if llm is not None and not llm.expanduser().is_file():
        raise InvalidInputError(
            f"There is no model file {llm}; name a GGUF, or leave --llm out for estimates."
        )
    with open_existing(home) as memory, ExitStack() as opened:
        tokenizer: Tokenizer = memory.tokenizer
        if llm is not None:
            tokenizer = opened.enter_context(LlamaTokenizer(llm))
        found = inspect_prompt(
            memory.hooks(session_id=session, speaker=speaker, tokenizer=tokenizer),
            utterance,
            tokenizer=tokenizer,
            window_tokens=memory.profile.context.window_tokens,
            reply_tokens=memory.profile.context.reply_tokens,
            speaker=speaker,
            instructions=instructions,
        )
    if as_json:
        print_json({**_as_dict(found), "free_tokens": found.free_tokens})
    else:
        _print(found, chars=None if whole else SHORT)


def _as_dict(found: Inspection) -> dict[str, object]:
    return {field: getattr(found, field) for field in found.__struct_fields__}


def _print(found: Inspection, *, chars: int | None) -> None:
    """Print the parts in the order in which the model reads them, then the sums."""
    for part in found.parts:
        _row(part.tokens, _name(part), part.text if part.name != "memory" else "", chars)
        if part.name == "memory":
            _print_lines(found.lines, chars)
            tags = part.tokens - sum(line.tokens for line in found.lines)
            _row(tags, "  tags", f"{part.tokens:,} of {found.block_limit:,} tokens in all", None, style="dim")
    if found.left_out:
        click.echo("\nFound, and not shown to the model:")
        _print_lines(found.left_out, chars)
    about = "" if found.exact else "about "
    limit = found.window_tokens - found.reply_tokens
    click.echo(f"\n{about}{found.tokens:,} of {limit:,} tokens for the prompt, without the loop's tools")
    click.echo(
        f"{about}{found.free_tokens:,} of {found.window_tokens:,} left for the answer; "
        f"{found.reply_tokens:,} are always kept"
    )
    if not found.exact:
        click.echo("Tokens are estimates; --llm FILE counts those of your chat model.")
    for note in found.notes:
        click.echo(plain(note))


def _name(part: Part) -> str:
    if part.name != "turn":
        return part.name
    number = "" if part.turn is None else f" {part.turn}"
    block = f" (+{part.block_tokens} of memory)" if part.block_tokens else ""
    return f"turn{number}{f' {part.speaker}' if part.speaker else ''}{block}"


def _print_lines(lines: Iterable[BlockLine], chars: int | None) -> None:
    for line in lines:
        score = "" if line.score is None else f"{line.score:.2f} "
        why = "; ".join(filter(None, (line.left_out, ", ".join(line.why))))
        _row(line.tokens or None, f"  {score}{why}", line.text, chars, style="dim")


def _row(tokens: int | None, name: str, text: str, chars: int | None, *, style: str = "") -> None:
    """Print one part: its tokens, what it is, and below that what it says."""
    from rich.text import Text

    on = console()
    lead = Text(" " * 9 if tokens is None else f"{tokens:>7,}  ")
    inset = len(name) - len(name.lstrip())
    print_hanging(on, lead + Text(" " * inset), Text(plain(name), style=style or "bold"))
    told = plain(text)
    if chars is not None and len(told) > chars:
        told = f"{told[: chars - 1]}…"
    if told:
        print_hanging(on, Text(" " * (11 + inset)), Text(told, style="dim"))
