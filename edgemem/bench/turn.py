"""Milliseconds that memory takes of one turn, with ten thousand facts and ten thousand turns stored."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import edgemem
from edgemem.bench.corpus import SPEAKER, Known, known
from edgemem.bench.ground import (
    KEEP_PLAN,
    NearlyReal,
    Robot,
    real_embedder,
    real_tokenizer,
    scratch,
    store_facts,
    store_turns,
)
from edgemem.bench.report import at_most, median, percentile, report, say, timed_ms
from edgemem.hooks.points import BEFORE_LLM
from edgemem.hooks.registry import HookRegistry
from edgemem.script import Line, ScriptedCall

if TYPE_CHECKING:
    from edgemem.hooks.points import HookResult
    from edgemem.memory import Memory

IDLE_S = 3600.0
QUERIES = 50


class _Timed(HookRegistry):
    """A registry that adds up the time of all hooks, by point."""

    spent_ms: dict[str, float]

    def fire(self, point: str, ctx: Any, payload: Any) -> HookResult:
        """Call the hooks of a point and keep how long they took."""
        started = perf_counter()
        try:
            return super().fire(point, ctx, payload)
        finally:
            self.spent_ms[point] = self.spent_ms.get(point, 0.0) + (perf_counter() - started) * 1e3


def run(
    *, facts: int = 10_000, turns: int = 10_000, asked: int = 100, home: Path | None = None
) -> dict[str, Any]:
    """Time all default hooks of a turn with a tool call, at every point, beside a large memory.

    Stored vectors are real ones of 300 sentences with seeded noise, because embedding 30,000 texts would take
    minutes; the time of a real query embedding is measured apart.

    Args:
        facts: stored before.
        turns: of two messages, stored before.
        asked: turns that are timed.
        home: where scratch files go; default: the temporary files.
    """
    embed_ms = _real_query_ms()
    embedder = NearlyReal()
    tokenizer = real_tokenizer()
    stored = known(facts)
    with scratch(home) as folder:
        try:
            with edgemem.open(
                folder / "home", embedder=embedder, tokenizer=tokenizer, worker=False
            ) as memory:
                say(f"storing {facts} facts and {turns} turns …")
                store_facts(memory, stored)
                store_turns(memory, turns)
                say("indexing …")
                memory.idle(IDLE_S)
                left = memory.pending()
                say("asking …")
                spent, hot = _ask(memory, embedder, stored, asked)
        finally:
            tokenizer.close()
    totals = [sum(points.values()) for points in spent]
    figures = {
        "facts": facts,
        "turns": turns,
        "not_indexed": left,
        "asked": asked,
        "hooks_ms": median(totals),
        "hooks_p95_ms": percentile(totals, 0.95),
        "before_the_model_ms": median(hot),
        "before_the_model_p95_ms": percentile(hot, 0.95),
        "by_point_ms": {point: median(points.get(point, 0.0) for points in spent) for point in spent[0]},
        "query_embedding_ms": embed_ms,
        "with_query_embedding_ms": round(median(totals) + embed_ms, 4),
        "vectors": "real vectors of 300 sentences with seeded noise",
    }
    return report("turn", figures, {"hooks_ms": at_most(median(totals), 10.0)})


def _ask(
    memory: Memory, embedder: NearlyReal, facts: Sequence[Known], asked: int
) -> tuple[list[dict[str, float]], list[float]]:
    """Play turns that ask for facts; return ms by point, and from the utterance to the model, of each turn."""
    hooks = _Timed(memory.hooks(session_id="now"))
    hooks.spent_ms = {}
    robot = Robot(hooks, tools=[KEEP_PLAN])
    spent, hot = [], []
    for n, fact in enumerate(facts[i * len(facts) // asked] for i in range(asked)):
        call = ScriptedCall("keep_plan", {"text": f"plan {n}", "who": SPEAKER}, "kept")
        line = Line(fact.question, speaker=SPEAKER, reply=f"It is {fact.value}.", tools=(call,))
        # Making up a query's vector is no work of the memory's; what a real one takes is reported beside.
        hooks.spent_ms, embedder.query_ms = {}, 0.0
        hot.append(robot.turn(line).hooks_ms - embedder.query_ms)
        hooks.spent_ms[BEFORE_LLM] -= embedder.query_ms
        spent.append(hooks.spent_ms)
        memory.idle(IDLE_S)
    robot.check()
    return spent, hot


def _real_query_ms() -> float:
    from edgemem.llama.embedder import LlamaEmbedder

    embedder = LlamaEmbedder(real_embedder())
    try:
        embedder.embed_query("Is somebody there?")  # loads the model
        return median(timed_ms(partial(embedder.embed_query, fact.question)) for fact in known(QUERIES))
    finally:
        embedder.close()
