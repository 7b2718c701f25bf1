"""What the model must read because of memory, over all turns, and whether it is shown what a question needs.

Several loops hear the same script (`loops`): one with all default hooks, one without memory that has the same window and
leaves out its oldest turns when that is full, and the agent of the real EdgeVox with its memory and without. What is read
again after a compaction, or because turns were left out, is counted. Nobody is charged for what the model generates.

With `--dry` tokens are only counted, which takes seconds and comes to the same: else a model of random weights, with one
thread, reads the prompts of the first two and of EdgeVox with its memory; `loops` tells what is real of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgemem.bench.corpus import SPEAKER, askable, known
from edgemem.bench.evening import FACTS, TOOLS, Moment, evening
from edgemem.bench.ground import real_embedder, scratch
from edgemem.bench.loops import (
    BARE,
    EDGEVOX,
    EDGEVOX_BARE,
    EDGEVOX_TURNS,
    ONE_BY_ONE,
    OURS,
    Readers,
    TurnCost,
    edgevox_path,
    play,
)
from edgemem.bench.model import write_model
from edgemem.bench.report import at_least, at_most, median, report, say
from edgemem.errors import InvalidInputError
from edgemem.inspect.script import Line

LATE = 5
"""Turns at the end of `EDGEVOX_TURNS` whose median is the time to first token."""


def run(
    *,
    turns: int = 40,
    facts: int = 10_000,
    dry: bool = False,
    model: Path | None = None,
    server: str = "",
    edgevox: Path | None = None,
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
        edgevox: a folder that EdgeVox was installed into; default: the one that `make server` makes in the cache.
        home: where scratch files go; default: the temporary files.
    """
    if dry and server:
        raise InvalidInputError("Counting needs no server; leave out --dry or --server.")
    if edgevox is not None and not (edgevox / "edgevox").is_dir():
        raise InvalidInputError(f"There is no EdgeVox in {edgevox}; leave out --edgevox after `make server`.")
    real_embedder()
    edgevox = edgevox or edgevox_path()
    with scratch(home) as folder:
        if model is None and not dry and not server:
            say("writing a model …")
            model = write_model(folder / "model.gguf")
        readers = Readers(None if dry else model, server)
        say(f"{turns} turns of evenings …")
        evenings = play(folder / "evening", readers, FACTS, evening(turns), TOOLS, edgevox=edgevox)
        say(f"storing and embedding {facts} facts …")
        stored = known(facts)
        asked = [
            Moment(Line(fact.question, speaker=SPEAKER, reply=f"It is {fact.value}."), fact)
            for fact in askable(stored, turns)
        ]
        among_many = play(folder / "many", readers, stored, asked, ())
    of_evenings, many = _figures(evenings), _figures(among_many)
    theirs = _edgevox(evenings[:EDGEVOX_TURNS], timed=not dry) if edgevox else None
    bars = {
        "evening_times_without_memory": at_most(of_evenings["times_without_memory"], 1.10),
        "evening_needed_shown": at_least(of_evenings["needed_shown"], 0.95),
        "many_block_median": at_most(many["block_median"], 80),
        "many_needed_shown": at_least(many["needed_shown"], 0.95),
        "miscounted_tokens": at_most(sum(turn.miscounted for turn in [*evenings, *among_many]), 0),
    }
    if theirs and not dry:
        bars["first_token_times_faster"] = at_least(theirs["first_token_times_ours"], 10)
    figures = {
        "turns": turns,
        "facts": facts,
        "evaluated_by": "nobody, counted" if dry else server or "llama.cpp",
        "evening": of_evenings,
        "many": many,
        "edgevox": theirs or "not here; `make server` installs it, or name its folder with --edgevox",
    }
    return report("prefill", figures, bars)


def _figures(turns: Sequence[TurnCost]) -> dict[str, Any]:
    read = {name: sum(turn.read[name] for turn in turns) for name in (OURS, BARE, ONE_BY_ONE)}
    asked = [turn for turn in turns if turn.needed]
    parts: Counter[str] = Counter()
    for turn in turns:
        parts.update(turn.parts)
    return {
        "read": read,
        "times_without_memory": round(read[OURS] / read[BARE], 4),
        f"times_{ONE_BY_ONE}": round(read[OURS] / read[ONE_BY_ONE], 4),
        "block_tokens": dict(parts),
        "block_median": median(turn.block for turn in turns),
        "compactions": sum(turn.compacted for turn in turns),
        "recall_late": sum(turn.late for turn in turns),
        "asked": len(asked),
        "needed_shown": round(sum(turn.shown for turn in asked) / max(1, len(asked)), 4),
        "not_shown": [turn.needed for turn in asked if not turn.shown],
    }


def _edgevox(turns: Sequence[TurnCost], *, timed: bool) -> dict[str, Any]:
    """Compare EdgeVox with its memory to EdgeVox without, and with ours, over the turns that it played."""
    read = {name: sum(turn.read[name] for turn in turns) for name in (EDGEVOX, EDGEVOX_BARE)}
    figures = {
        "turns": len(turns),
        "read": read,
        "times_without_memory": round(read[EDGEVOX] / read[EDGEVOX_BARE], 4),
    }
    if timed:
        first = {name: median(turn.first_ms[name] for turn in turns[-LATE:]) for name in (EDGEVOX, OURS)}
        figures |= {"first_token_ms": first, "first_token_times_ours": round(first[EDGEVOX] / first[OURS], 2)}
    return figures
