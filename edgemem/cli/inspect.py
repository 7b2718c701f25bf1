"""`edgemem inspect`: what the model would be handed, before anybody says it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgemem.cli.chat import INSTRUCTIONS, MAX_UTTERANCE
from edgemem.cli.completion import session_ids
from edgemem.cli.options import home_option, json_option, open_existing
from edgemem.cli.printing import console, count, plain, print_hanging, print_json
from edgemem.fence import check_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgemem.inspecting import BlockLine, Inspection
    from edgemem.llama.protocols import Tokenizer
    from edgemem.prompt_parts import Part
    from edgemem.records import Recalled

SHORT = 160
"""Characters of a part that are shown; --whole shows all."""

MOST_LEFT_OUT = 8
"""Of what is left out; --whole shows all."""

CANDIDATES = 10
"""What is looked at of facts and notes, and as much of turns and episodes."""


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
    "--llm",
    type=click.Path(path_type=Path),
    metavar="NAME|FILE",
    help="Count exactly, for this chat model.",
)
@click.option(
    "--instructions", default=INSTRUCTIONS, help="The system message.  [default: that of `edgemem chat`]"
)
@click.option("--no-tools", is_flag=True, help="Count without the memory tools that `edgemem chat` offers.")
@click.option("--whole", is_flag=True, help="Show every part in full, and everything that is left out.")
@home_option
@json_option
def prompt(
    utterance: str,
    session: str,
    speaker: str | None,
    llm: Path | None,
    instructions: str,
    no_tools: bool,
    whole: bool,
    home: Path,
    as_json: bool,
) -> None:
    """Show the prompt that UTTERANCE would make, part by part with its tokens; nothing is stored."""
    from edgemem.inspecting import inspect_prompt
    from edgemem.llama.catalog import file_of
    from edgemem.llama.tokenizer import LlamaTokenizer
    from edgemem.wiring import SIGHTS

    check_text(utterance, what="the utterance", max_bytes=MAX_UTTERANCE)
    model_file = None if llm is None else file_of(str(llm), home=home)
    with open_existing(home) as memory, ExitStack() as opened:
        tokenizer: Tokenizer = memory.tokenizer
        if model_file is not None:
            tokenizer = opened.enter_context(LlamaTokenizer(model_file))

        def look(**who: Any) -> list[Recalled]:
            return [
                found
                for kinds in SIGHTS
                for found in memory.recall(utterance, k=CANDIDATES, kinds=kinds, **who)
            ]

        # So that the figures of the recall are those of a robot that runs: the model and the index are in memory.
        memory.recall("Is anybody there?", k=1)
        found = inspect_prompt(
            memory.hooks(session_id=session, speaker=speaker, tokenizer=tokenizer),
            utterance,
            tokenizer=tokenizer,
            window_tokens=memory.profile.context.window_tokens,
            reply_tokens=memory.profile.context.reply_tokens,
            speaker=speaker,
            instructions=instructions,
            tools=[] if no_tools else [tool.schema() for tool in memory.tools()],
            look=look,
            k=memory.profile.recall.k,
            recalled=memory.last_recall,
        )
        waiting = memory.pending().get("embed", 0)
    if as_json:
        print_json(
            {**_as_dict(found), "plan": found.plan, "free_tokens": found.free_tokens, "waiting": waiting}
        )
    else:
        _print(found, chars=None if whole else SHORT, most=None if whole else MOST_LEFT_OUT)
        if waiting:
            click.echo(f"{count(waiting, 'record')} wait for their vectors; until then only words find them.")


def _as_dict(found: Inspection) -> dict[str, object]:
    return {field: getattr(found, field) for field in found.__struct_fields__}


def _print(found: Inspection, *, chars: int | None, most: int | None) -> None:
    """Print the parts in the order in which the model reads them, what is left out of them, and the sums."""
    for part in found.parts:
        lines = {"memory": found.lines, "notes": found.note_lines}.get(part.name)
        _row(part.tokens, _name(part), part.text if lines is None else "", chars)
        if lines is not None:
            _print_lines(lines, chars)
            around = part.tokens - sum(line.tokens for line in lines)
            limit = (
                f"; at most {found.block_limit:,} in all"
                if part.name == "memory" and found.block_limit
                else ""
            )
            _row(around, f"  around them{limit}", "", None, style="dim")
    if found.left_out:
        click.echo("\nRemembered, and not put before the model:")
        _print_lines(found.left_out[:most], chars)
        if most is not None and len(found.left_out) > most:
            click.echo(f"         and {len(found.left_out) - most:,} more; --whole shows them")
    _print_plan(found)
    for note in found.notes:
        click.echo(plain(note))


def _print_plan(found: Inspection) -> None:
    from rich.text import Text

    about = "" if found.exact else "about "
    limit = found.window_tokens - found.reply_tokens
    click.echo()
    plan = " + ".join(f"{name} {tokens:,}" for name, tokens in found.plan.items() if tokens)
    print_hanging(console(), Text(), Text(plan))
    click.echo(f"{about}{found.tokens:,} of {limit:,} tokens for the prompt")
    click.echo(
        f"{about}{found.free_tokens:,} of {found.window_tokens:,} left for the answer; "
        f"{found.reply_tokens:,} are always kept"
    )
    recall = found.recall
    by = " and ".join(recall.signals) or "neither words nor meaning"
    click.echo(
        f"recall {recall.embed_ms + recall.search_ms:.1f} ms ({recall.embed_ms:.1f} to embed the question): "
        f"{count(recall.candidates, 'candidate')} by {by}"
    )
    if not found.exact:
        click.echo("Tokens are estimates; --llm NAME counts those of your chat model.")


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
        text = line.text or f"a {line.id.partition(':')[0]} that is not quoted here"
        _row(line.tokens or None, f"  {score}{why}", text, chars, style="dim")


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
