"""What the model must read again because of memory, and whether it is shown what a question needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import edgemem
from edgemem.bench.corpus import SPEAKER, Known, askable, known
from edgemem.bench.evening import FACTS, TOOLS, evening
from edgemem.bench.ground import Robot, real_embedder, real_tokenizer, scratch, store_facts, ticking
from edgemem.bench.report import at_least, at_most, median, report, say
from edgemem.hooks.conversation import conversation_of
from edgemem.replay import common_prefix
from edgemem.script import Line

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer
    from edgemem.loop import Tool
    from edgemem.memory import Memory
    from edgemem.records import Message

IDLE_S = 600.0
VALID_TOKENS = 4000
"""A loop without memory that evaluates more in 40 turns would make any ratio look good."""


class Told(msgspec.Struct):
    """What one turn cost, and whether it was shown what it asked for."""

    bare: int
    """New tokens of the loop without memory: the turn's own text with the template's markers."""
    evaluated: int
    """New tokens with memory."""
    block: int
    compacted: bool
    needed: str = ""
    shown: bool = True
    seed: int = 0


def run(*, turns: int = 40, facts: int = 10_000, home: Path | None = None) -> dict[str, Any]:
    """Count evaluated tokens with and without memory: an evening in the seed's way, and one with many facts.

    Args:
        turns: of each scenario.
        facts: stored before the second.
        home: where scratch files go; default: the temporary files.
    """
    real_embedder()
    tokenizer = real_tokenizer()
    try:
        with scratch(home) as folder:
            one = _play(folder / "one", tokenizer, FACTS, evening(turns), TOOLS)
            say(f"storing and embedding {facts} facts …")
            stored = known(facts)
            asked = [(_answered(fact), fact) for fact in askable(stored, turns)]
            two = _play(folder / "two", tokenizer, stored, asked, ())
    finally:
        tokenizer.close()
    first, second = _figures(one), _figures(two)
    first["seed_tokens"] = sum(turn.seed for turn in one)
    first["seed_ratio"] = round(first["seed_tokens"] / first["without_memory"], 3)
    limit = VALID_TOKENS * turns / 40
    bars = {
        "valid_tokens_without_memory": at_most(max(first["without_memory"], second["without_memory"]), limit),
        "evening_ratio": at_most(first["evaluated"] / first["without_memory"], 1.25),
        "evening_needed_shown": at_least(first["needed_shown"], 0.95),
        "many_ratio": at_most(second["evaluated"] / second["new_text_and_blocks"], 1.05),
        "many_block_median": at_most(second["block_median"], 100),
        "many_needed_shown": at_least(second["needed_shown"], 0.95),
    }
    return report("prefill", {"turns": turns, "facts": facts, "evening": first, "many": second}, bars)


def _play(
    home: Path,
    tokenizer: Tokenizer,
    facts: Sequence[Known],
    lines: Sequence[tuple[Line, Known | None]],
    tools: Sequence[Tool],
) -> list[Told]:
    """Play the same lines with memory, without, and rendered in the seed's way."""
    with edgemem.open(home, tokenizer=tokenizer, clock=ticking(), worker=False) as memory:
        store_facts(memory, facts)
        memory.idle(IDLE_S)
        robot, bare = Robot(memory.hooks(), tools=tools), Robot(tools=tools)
        meters = [_Meter(tokenizer, robot.schemas) for _ in range(3)]
        out = []
        for line, fact in lines:
            remembered = memory.store.render_for_prompt()
            epoch = _epoch(robot)
            without = bare.turn(line).handed
            handed = robot.turn(line).handed
            told = Told(
                bare=meters[0].new(without),
                evaluated=meters[1].new(handed),
                block=_block_tokens(robot, tokenizer),
                compacted=_epoch(robot) != epoch,
                seed=meters[2].new([_in_system(messages, remembered) for messages in without]),
            )
            if fact is not None:
                told.needed = fact.key
                told.shown = _holds(meters[1].first, fact.value, tokenizer)
            out.append(told)
            memory.idle(IDLE_S)
        robot.check()
        _check_idle(memory)
        return out


class _Meter:
    """Counts the tokens of each prompt that are no common prefix with the one before."""

    def __init__(self, tokenizer: Tokenizer, schemas: list[dict[str, Any]]) -> None:
        self._tokenizer = tokenizer
        self._schemas = schemas
        self._ids: list[int] = []
        self.first: list[int] = []
        """The ids of the newest turn's first prompt."""

    def new(self, handed: Sequence[list[Message]]) -> int:
        """Return the new tokens of one turn, all hops."""
        total = 0
        for hop, messages in enumerate(handed):
            ids = self._tokenizer.render(messages, tools=self._schemas).ids
            total += len(ids) - common_prefix(self._ids, ids)
            self._ids = ids
            if hop == 0:
                self.first = ids
        return total


def _figures(told: Sequence[Told]) -> dict[str, Any]:
    bare, evaluated = sum(turn.bare for turn in told), sum(turn.evaluated for turn in told)
    blocks = [turn.block for turn in told]
    steady = [turn for turn in told if not turn.compacted]
    asked = [turn for turn in told if turn.needed]
    return {
        "without_memory": bare,
        "evaluated": evaluated,
        "blocks": sum(blocks),
        "new_text_and_blocks": bare + sum(blocks),
        "block_median": median(blocks),
        "compactions": len(told) - len(steady),
        "evaluated_for_compaction": sum(t.evaluated - t.bare - t.block for t in told if t.compacted),
        "ratio_between_compactions": round(
            sum(t.evaluated for t in steady) / max(1, sum(t.bare for t in steady)), 3
        ),
        "ratio_to_new_text_and_blocks_between_compactions": round(
            sum(t.evaluated for t in steady) / max(1, sum(t.bare + t.block for t in steady)), 3
        ),
        "asked": len(asked),
        "needed_shown": round(sum(turn.shown for turn in asked) / max(1, len(asked)), 4),
        "not_shown": [turn.needed for turn in asked if not turn.shown],
    }


def _answered(fact: Known) -> Line:
    return Line(fact.question, speaker=SPEAKER, reply=f"It is {fact.value}.")


def _in_system(messages: Sequence[Message], remembered: str) -> list[Message]:
    """Return messages with memory where the seed puts it: at the end of the system message."""
    head, *rest = messages
    return [{**head, "content": f"{head['content']}\n\n{remembered}"}, *rest]


def _holds(ids: Sequence[int], value: str, tokenizer: Tokenizer) -> bool:
    """Tell whether a value, as tokens, stands in a prompt."""
    spellings = [tokenizer.encode(" " + value), tokenizer.encode(value)]
    return any(
        list(ids[at : at + len(wanted)]) == wanted
        for wanted in spellings
        for at in range(len(ids) - len(wanted) + 1)
    )


def _block_tokens(robot: Robot, tokenizer: Tokenizer) -> int:
    turns = conversation_of(robot.loop.ctx).layout.turns
    return len(tokenizer.encode(turns[-1].block)) if turns and turns[-1].block else 0


def _epoch(robot: Robot) -> int:
    return conversation_of(robot.loop.ctx).layout.epoch.first_turn


def _check_idle(memory: Memory) -> None:
    for failure in memory.idle_failures():
        raise AssertionError(f"idle work {failure.step} failed: {failure.message}")
