"""Milliseconds of one turn's hooks, with ten thousand facts and ten thousand turns stored, or with more."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import edgemem
from edgemem.bench import ground
from edgemem.bench.corpus import SPEAKER, Known, household_facts
from edgemem.inspect.replay import Line, ScriptedCall

if TYPE_CHECKING:
    from edgemem.memory import Memory

LIMITS_MS = {"hooks_ms": 10.0, "hooks_p95_ms": 25.0}
IDLE_S = 3600.0
QUERIES = 50


class Spent(NamedTuple):
    """Milliseconds of one turn beside its model and the embedding of its question."""

    all: float
    before_the_model: float
    commit: float


def run(
    *, facts: int = 10_000, turns: int = 10_000, asked: int = 100, home: Path | None = None
) -> dict[str, Any]:
    """Time all that memory does in a turn with a tool call, beside a large memory.

    Stored vectors are real ones of 300 sentences with seeded noise, because embedding 30,000 texts would take minutes; a real
    query's embedding is timed apart. `facts` and `turns` of two messages are stored before the turns that are timed.
    """
    embed_ms = _real_query_ms()
    embedder = ground.NearlyReal()
    stored = household_facts(facts)
    with (
        ground.scratch(home) as folder,
        closing(ground.real_tokenizer()) as tokenizer,
        edgemem.open(folder / "home", embedder=embedder, tokenizer=tokenizer, worker=False) as memory,
    ):
        database = memory.diagnostics.database
        ground.say(f"storing {facts} facts and {turns} turns …")
        ground.store_facts(database, stored)
        ground.store_turns(database, turns)
        ground.say("indexing …")
        memory.idle(IDLE_S)
        left = memory.diagnostics.search.pending()
        ground.say("asking …")
        taken = figures_of(ask(memory, embedder, stored, asked))
        # Neither the absence before a fact nor the rest of a correction counts.
        tables = ("facts where id = origin and value is not null", "messages")
        rows = sum(database.query(f"select count(*) from {table}")[0][0] for table in tables)  # noqa: S608 - ours
    figures = {
        "side_by_side": {name: {"ms": ms, "bar": LIMITS_MS.get(name)} for name, ms in taken.items()}, "facts": facts,
        "turns": turns, "rows": rows, "not_indexed": left, "asked": asked, "query_embedding_ms": embed_ms,
        "with_query_embedding_ms": round(taken["hooks_ms"] + embed_ms, 4),
    }  # fmt: skip
    return ground.report(
        "turn", figures, {name: ground.at_most(taken[name], limit) for name, limit in LIMITS_MS.items()}
    )


def figures_of(spent: Sequence[Spent]) -> dict[str, float]:
    """Return medians and 95th percentiles of the time of turns, in ms."""
    every, before, commits = zip(*spent, strict=True)
    return {
        "hooks_ms": ground.median(every),
        "hooks_p95_ms": ground.percentile(every, 0.95),
        "before_the_model_ms": ground.median(before),
        "before_the_model_p95_ms": ground.percentile(before, 0.95),
        "commit_ms": ground.median(commits),
    }


def ask(
    memory: Memory, embedder: ground.NearlyReal | None, facts: Sequence[Known], asked: int
) -> list[Spent]:
    """Play turns that ask for facts, with a tool call each, and return their times."""
    robot = ground.Robot(memory.hooks(session_id="now"), tools=[ground.KEEP_PLAN])
    spent = []
    for n, fact in enumerate(facts[i * len(facts) // asked] for i in range(asked)):
        call = ScriptedCall("keep_plan", {"text": f"plan {n}", "who": SPEAKER}, "kept")
        line = Line(fact.question, speaker=SPEAKER, reply=f"It is {fact.value}.", tools=(call,))
        # The query's vector is made up; the time of a real one is reported beside.
        started, before = perf_counter(), embedder.query_ms if embedder else 0.0
        turn = robot.turn(line)
        vector_ms = embedder.query_ms - before if embedder else 0.0
        all_ms = (perf_counter() - started) * 1e3 - turn.model_ms - vector_ms
        spent.append(Spent(all_ms, turn.hooks_ms - vector_ms, turn.commit_ms))
        memory.idle(IDLE_S)
    robot.check()
    return spent


def _real_query_ms() -> float:
    from edgemem.llama.embedder import LlamaEmbedder

    with LlamaEmbedder(ground.real_embedder()) as embedder:
        embedder.embed_query("Is somebody there?")  # loads the model
        return ground.median(
            ground.timed_ms(partial(embedder.embed_query, fact.question)) for fact in household_facts(QUERIES)
        )
