"""Milliseconds that memory takes of one turn, with ten thousand facts and ten thousand turns stored, or with more."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

import edgemem
from edgemem.bench.corpus import SPEAKER, Known, known
from edgemem.bench.everything import everything, fill
from edgemem.bench.ground import (
    KEEP_PLAN,
    NearlyReal,
    Robot,
    real_embedder,
    real_tokenizer,
    scratch,
    store_episodes,
    store_facts,
    store_turns,
)
from edgemem.bench.report import Bar, at_most, median, percentile, report, say, timed_ms
from edgemem.config import Profile
from edgemem.hooks.points import BEFORE_LLM
from edgemem.hooks.registry import HookRegistry
from edgemem.inspect.script import Line, ScriptedCall

if TYPE_CHECKING:
    from edgemem.hooks.points import Hook, HookResult
    from edgemem.loop.toolbox import Tool
    from edgemem.memory import Memory

BAR_MS = 10.0
P95_BAR_MS = 25.0
"""With `--rows`."""
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
    *,
    facts: int = 10_000,
    turns: int = 10_000,
    asked: int = 100,
    beside: int = 1000,
    rows: int = 0,
    home: Path | None = None,
) -> dict[str, Any]:
    """Time all hooks of a turn with a tool call, at every point, beside a large memory: the default ones, and everything.

    Stored vectors are real ones of 300 sentences with seeded noise, because embedding 30,000 texts would take
    minutes; the time of a real query embedding is measured apart. What `everything` is: `edgemem.bench.everything`.

    Args:
        facts: stored before.
        turns: of two messages, stored before.
        asked: turns that are timed, of each setting; half of the default ones before and half after the others.
        beside: facts in each of the stores that are open beside the memory.
        rows: with so many in all instead: a tenth facts, a tenth episodes, the rest messages; the default hooks alone.
        home: where scratch files go; default: the temporary files.
    """
    embed_ms = _real_query_ms()
    embedder = NearlyReal()
    tokenizer = real_tokenizer()
    episodes = rows // 10
    if rows:
        facts, turns = min(rows // 10, len(known(rows))), (rows - 2 * (rows // 10)) // 2
    stored = known(facts)
    full: Asked | None = None
    with scratch(home) as folder:
        if not rows:
            fill(folder / "beside", stored[:beside], embedder=embedder)
        try:
            with edgemem.open(
                folder / "home",
                profile=_keeping(episodes) if rows else None,
                embedder=embedder,
                tokenizer=tokenizer,
                worker=False,
            ) as memory:
                say(f"storing {facts} facts, {episodes} episodes and {turns} turns …")
                store_facts(memory, stored)
                store_episodes(memory, episodes)
                store_turns(memory, turns)
                say("indexing …")
                memory.idle(IDLE_S)
                left = memory.pending()
                say("asking …")
                default = ask(memory, embedder, stored, asked - asked // 2)
                if not rows:
                    memory.reload.watcher.start()
                    with everything(memory, folder / "beside") as more:
                        full = ask(
                            *(memory, embedder, stored, asked),
                            session="more",
                            hooks=more.hooks,
                            tools=more.tools,
                        )
                default += ask(memory, embedder, stored, asked // 2)
                counts = _rows(memory)
        finally:
            tokenizer.close()
    base = default.figures()
    other = full.figures() if full is not None else {}
    limits = {"hooks_ms": BAR_MS} | ({"hooks_p95_ms": P95_BAR_MS} if rows else {})
    sides = {
        name: {
            "default": base[name],
            **({"everything": other[name]} if other else {}),
            "bar": limits.get(name),
        }
        for name in base
    }
    figures = {
        "side_by_side": sides,
        "facts": facts,
        "episodes": episodes,
        "turns": turns,
        "rows": counts,
        "beside": 0 if rows else beside,
        "not_indexed": left,
        "asked": asked,
        "query_embedding_ms": embed_ms,
        "with_query_embedding_ms": round(base["hooks_ms"] + embed_ms, 4),
        "vectors": "real vectors of 300 sentences with seeded noise",
    }
    bars: dict[str, Bar] = {name: at_most(base[name], limit) for name, limit in limits.items()}
    if other:
        bars["everything_hooks_ms"] = at_most(other["hooks_ms"], BAR_MS)
    return report("turn", figures, bars)


def _rows(memory: Memory) -> int:
    """Return how many facts, episodes and messages there are, so that nobody is told of rows that were trimmed away."""
    # A fact is what somebody said: that there was nothing before it, and what corrections left of it, are no further ones.
    tables = ("facts where id = origin and value is not null", "episodes", "messages")
    return sum(memory.database.query(f"select count(*) from {table}")[0][0] for table in tables)  # noqa: S608 - ours


def _keeping(episodes: int) -> Profile:
    """Return the default profile, which keeps so many episodes if that is more."""
    profile = Profile()
    most = max(profile.store.max_episodes, 2 * episodes)
    store = msgspec.structs.replace(profile.store, max_episodes=most)
    return msgspec.structs.replace(profile, store=store)


class Asked(NamedTuple):
    """What turns took: ms by point, and from the utterance to the model, of each turn."""

    spent: list[dict[str, float]]
    hot: list[float]

    def __add__(self, other: Asked) -> Asked:  # type: ignore[override]
        return Asked(self.spent + other.spent, self.hot + other.hot)

    def figures(self) -> dict[str, float]:
        """Return medians and the slowest of twenty, in ms."""
        totals = [sum(points.values()) for points in self.spent]
        by_point = {
            f"{point}_ms": median(points.get(point, 0.0) for points in self.spent) for point in self.spent[0]
        }
        return {
            "hooks_ms": median(totals),
            "hooks_p95_ms": percentile(totals, 0.95),
            "before_the_model_ms": median(self.hot),
            "before_the_model_p95_ms": percentile(self.hot, 0.95),
            **by_point,
        }


def ask(
    memory: Memory,
    embedder: NearlyReal | None,
    facts: Sequence[Known],
    asked: int,
    *,
    session: str = "now",
    hooks: Sequence[Hook] = (),
    tools: Sequence[Tool] = (),
) -> Asked:
    """Play turns that ask for facts, with what is given in addition to the default hooks, and time them."""
    timed = _Timed([*memory.hooks(session_id=session), *hooks])
    robot = Robot(timed, tools=[KEEP_PLAN, *tools])
    took = Asked([], [])
    for n, fact in enumerate(facts[i * len(facts) // asked] for i in range(asked)):
        call = ScriptedCall("keep_plan", {"text": f"plan {n}", "who": SPEAKER}, "kept")
        line = Line(fact.question, speaker=SPEAKER, reply=f"It is {fact.value}.", tools=(call,))
        # Making up a query's vector is no work of the memory's; what a real one takes is reported beside.
        timed.spent_ms, before = {}, embedder.query_ms if embedder else 0.0
        hooks_ms = robot.turn(line).hooks_ms
        vector_ms = embedder.query_ms - before if embedder else 0.0
        took.hot.append(hooks_ms - vector_ms)
        timed.spent_ms[BEFORE_LLM] -= vector_ms
        took.spent.append(timed.spent_ms)
        memory.idle(IDLE_S)
    robot.check()
    return took


def _real_query_ms() -> float:
    from edgemem.llama.embedder import LlamaEmbedder

    embedder = LlamaEmbedder(real_embedder())
    try:
        embedder.embed_query("Is somebody there?")  # loads the model
        return median(timed_ms(partial(embedder.embed_query, fact.question)) for fact in known(QUERIES))
    finally:
        embedder.close()
