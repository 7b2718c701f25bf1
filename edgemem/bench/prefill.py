"""What the model must read again because of memory, and whether it is shown what a question needs.

Three loops hear the same script (`loops`): one without memory, one with all default hooks, and one that puts memory where
EdgeVox puts it (`seed_layout`). Each has a context of llama.cpp of its own on one model of random weights, with one
thread; `evaluated` tells what is real of it. With `--dry` tokens are only counted, which takes seconds and must come to
the same.

New text is what the loop without memory reads: each utterance and tool result with the template's markers, and the last
sampled token. Nobody is charged for what the model generates. A turn in which the memory compacted is left out of the
ratios of both loops, and told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgemem.bench.corpus import SPEAKER, Known, askable, known
from edgemem.bench.evening import FACTS, TOOLS, Moment, evening
from edgemem.bench.ground import real_embedder, scratch
from edgemem.bench.loops import SEED_TURNS, Readers, Told, play
from edgemem.bench.model import write_model
from edgemem.bench.report import at_least, at_most, median, report, say
from edgemem.errors import InvalidInputError
from edgemem.script import Line

VALID_TOKENS = 4000
"""A loop without memory that reads more in 40 turns would make any ratio look good."""
LATE = 5
"""Turns at the end of `SEED_TURNS` whose median is the time to first token."""


def run(
    *,
    turns: int = 40,
    facts: int = 10_000,
    dry: bool = False,
    model: Path | None = None,
    server: str = "",
    home: Path | None = None,
) -> dict[str, Any]:
    """Read prompts with and without memory: evenings with tool calls, notes and changes, and one with many facts.

    Args:
        turns: of each scenario.
        facts: stored before the second.
        dry: count tokens, without a model.
        model: a GGUF that reads; default: one of about 100 M random weights, written for this.
        server: where a llama-server listens that reads instead, such as http://127.0.0.1:8080, started with
            `-np 3 -c 24576`.
        home: where scratch files go; default: the temporary files.
    """
    if dry and server:
        raise InvalidInputError("Counting needs no server; leave out --dry or --server.")
    real_embedder()
    with scratch(home) as folder:
        if model is None and not dry and not server:
            say("writing a model …")
            model = write_model(folder / "model.gguf")
        readers = Readers(None if dry else model, server)
        say(f"{turns} turns of evenings …")
        one = play(folder / "one", readers, FACTS, evening(turns), TOOLS, seed=True)
        say(f"storing and embedding {facts} facts …")
        stored = known(facts)
        asked = [Moment(_answered(fact), "question", fact) for fact in askable(stored, turns)]
        two = play(folder / "two", readers, stored, asked, ())
    first, second = _figures(one), _figures(two)
    first |= _seed_figures(one[:SEED_TURNS])
    first["by_kind"] = {kind: _parts([turn for turn in one if turn.kind == kind]) for kind in _kinds(one)}
    bars = {
        "valid_tokens_without_memory": at_most(
            max(first["without_memory"], second["without_memory"]), VALID_TOKENS * turns / 40
        ),
        "evening_ratio": at_most(first["ratio_between_compactions"], 1.10),
        "evening_needed_shown": at_least(first["needed_shown"], 0.95),
        "many_ratio": at_most(second["ratio_to_new_text_and_blocks_between_compactions"], 1.02),
        "many_block_median": at_most(second["block_median"], 80),
        "many_needed_shown": at_least(second["needed_shown"], 0.95),
        "miscounted_tokens": at_most(sum(turn.miscounted for turn in [*one, *two]), 0),
    }
    if not dry:
        bars["first_token_times_faster"] = at_least(first["first_token_times_faster"], 10)
    figures = {
        "turns": turns,
        "facts": facts,
        "evaluated_by": "nobody, counted" if dry else server or "llama.cpp",
    }
    return report("prefill", {**figures, "evening": first, "many": second}, bars)


def _figures(told: Sequence[Told]) -> dict[str, Any]:
    blocks = [turn.block for turn in told]
    steady = [turn for turn in told if not turn.compacted]
    bare, evaluated, block = (
        sum(getattr(turn, name) for turn in steady) for name in ("bare", "evaluated", "block")
    )
    asked = [turn for turn in told if turn.needed]
    return {
        "without_memory": sum(turn.bare for turn in told),
        "evaluated": sum(turn.evaluated for turn in told),
        "blocks": sum(blocks),
        "block_median": median(blocks),
        "compactions": len(told) - len(steady),
        "evaluated_for_compaction": sum(t.evaluated - t.bare - t.block for t in told if t.compacted),
        "ratio_between_compactions": round(evaluated / max(1, bare), 4),
        "ratio_to_new_text_and_blocks_between_compactions": round(evaluated / max(1, bare + block), 4),
        "recall_late": sum(turn.late for turn in told),
        "asked": len(asked),
        "needed_shown": round(sum(turn.shown for turn in asked) / max(1, len(asked)), 4),
        "not_shown": [turn.needed for turn in asked if not turn.shown],
    }


def _seed_figures(told: Sequence[Told]) -> dict[str, Any]:
    """Compare with EdgeVox's layout, over the turns that it played."""
    ours, theirs = (median(getattr(t, name) for t in told[-LATE:]) for name in ("first_ms", "seed_first_ms"))
    tokens = sum(turn.seed for turn in told)
    return {
        "seed_evaluated": tokens,
        "seed_ratio": round(tokens / max(1, sum(turn.bare for turn in told)), 3),
        "first_token_ms": ours,
        "seed_first_token_ms": theirs,
        "first_token_times_faster": round(theirs / ours, 2) if ours else 0.0,
    }


def _kinds(told: Sequence[Told]) -> list[str]:
    return sorted({turn.kind for turn in told})


def _parts(told: Sequence[Told]) -> dict[str, int]:
    """Return where the tokens of some turns go, those of compactions apart."""
    steady = [turn for turn in told if not turn.compacted]
    sums = {
        "turns": len(steady),
        "new_text": sum(t.bare for t in steady),
        "read": sum(t.evaluated for t in steady),
    }
    for part in sorted({part for turn in steady for part in turn.parts}):
        sums[part] = sum(turn.parts.get(part, 0) for turn in steady)
    return sums


def _answered(fact: Known) -> Line:
    return Line(fact.question, speaker=SPEAKER, reply=f"It is {fact.value}.")
