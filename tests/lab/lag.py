"""How late an event loop is while memory works beside it: the same async voice loop without memory and with it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import edgemem.aio
from edgemem.aio import AsyncConversation, AsyncMemory, AsyncTurn
from edgemem.bench.corpus import SPEAKER, household_facts, sentences
from edgemem.bench.ground import (
    at_most,
    median,
    percentile,
    quiet,
    real_embedder,
    report,
    say,
    scratch,
    store_facts,
    store_turns,
)
from edgemem.config import Profile
from edgemem.memory.stats import gather
from support.loops import Loop

LIMIT_MS = 20.0
TICK_S = 0.005
WORD_S = 0.05
TOKENS = 8
TOKEN_S = 0.02
QUIET_S = 0.3
WAYS: dict[str, Callable[[], Profile] | None] = {"without": None, "words": quiet, "embedder": Profile}


def run(
    *, seconds: float = 10.0, rounds: int = 4, messages: int = 3000, home: Path | None = None
) -> dict[str, Any]:
    """Tick every 5 ms on a loop that hears, answers and calls tools, without memory, with one that finds by words, and by meaning.

    Beside the turns others recall and store facts, and upkeep goes on whenever nobody speaks: each round begins with a home
    of which nothing is indexed or embedded.
    """
    real_embedder()
    late: dict[str, list[float]] = {way: [] for way in WAYS}
    done: dict[str, Counter[str]] = {way: Counter() for way in WAYS}
    for n, way in itertools.product(range(rounds), WAYS):
        say(f"round {n + 1}, {way} …")
        with scratch(home) as folder:
            asyncio.run(_way(way, folder, seconds, messages, late[way], done[way]))
    return _figures(late, done)


def _figures(late: dict[str, list[float]], done: dict[str, Counter[str]]) -> dict[str, Any]:
    sides: dict[str, dict[str, Any]] = {
        "late_p50_ms": {way: median(ms) for way, ms in late.items()},
        "late_p99_ms": {way: percentile(ms, 0.99) for way, ms in late.items()},
        "late_max_ms": {way: round(max(ms), 4) for way, ms in late.items()},
        "ticks": {way: len(ms) for way, ms in late.items()},
        **{
            what: {way: done[way][what] for way in WAYS}
            for what in ("turns", "tools", "recalls", "facts", "indexed", "not_embedded")
        },
    }
    p99 = sides["late_p99_ms"]
    bars = {
        f"added_p99_{way}_ms": at_most(p99[way] - p99["without"], LIMIT_MS)
        for way in WAYS
        if way != "without"
    }
    return report("lag", {"side_by_side": sides}, bars)


async def _way(
    way: str, folder: Path, seconds: float, messages: int, late: list[float], done: Counter[str]
) -> None:
    """Live for so long in one way."""
    async with contextlib.AsyncExitStack() as opened:
        memory, talk, beside = None, _Talk(None), list[Any]()
        if (profile := WAYS[way]) is not None:
            memory = await opened.enter_async_context(edgemem.aio.open(folder / "home", profile=profile()))
            database = memory.diagnostics.database
            await asyncio.to_thread(store_turns, database, messages // 2)
            await asyncio.to_thread(store_facts, database, household_facts(200))
            tools = await memory.tools(speaker=SPEAKER)
            talk = _Talk(await memory.session("talk", speaker=SPEAKER, tools=tools))
            beside = talk.beside(memory, done)
        tasks = [asyncio.create_task(task) for task in (_tick(late), talk.speak(done), *beside)]
        await asyncio.sleep(seconds)
        if memory is not None:
            stats = await asyncio.to_thread(gather, memory.diagnostics)
            rows = sum(stats.counts[kind] for kind in ("facts", "messages", "episodes"))
            done["indexed"] += rows - stats.waiting["text"]
            done["not_embedded"] += stats.waiting["vectors"]
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if not isinstance(outcome, asyncio.CancelledError):
                raise outcome or AssertionError("a task ended too early")


async def _tick(late: list[float]) -> None:
    """Note how late each tick comes, in ms."""
    while True:
        due = perf_counter() + TICK_S
        await asyncio.sleep(TICK_S)
        late.append((perf_counter() - due) * 1e3)


class _Talk(Loop):
    speaker = SPEAKER

    def __init__(self, door: AsyncConversation | None) -> None:
        super().__init__(door)
        self.questions = itertools.cycle(
            [fact.question for fact in household_facts(200)] + sentences(200, seed=77)
        )

    def beside(self, memory: AsyncMemory, done: Counter[str]) -> list[Any]:
        numbers = itertools.count()

        async def forever(what: str, pause_s: float, work: Callable[[], Awaitable[object]]) -> None:
            while True:
                await work()
                done[what] += 1
                await asyncio.sleep(pause_s)

        return [
            forever("recalls", 0.1, lambda: memory.recall(next(self.questions), speaker=SPEAKER)),
            forever("facts", 0.1, lambda: memory.store.add_fact(f"key {next(numbers)}", "something new")),
            forever("idle", 0.01, lambda: memory.idle(1.0)),
        ]

    async def speak(self, done: Counter[str]) -> None:
        """Hear a sentence word by word, answer it, with a tool every third time, and be quiet for a while."""
        for n in itertools.count():
            words = next(self.questions).split()
            if self.door is not None:
                await self.door.speech_start()
            for heard in itertools.accumulate(words, "{} {}".format):
                await asyncio.sleep(WORD_S)
                if self.door is not None:
                    await self.door.partial(heard)
            tool = n % 3 == 0 and self.door is not None
            await self.turn(" ".join(words), tool=tool)
            done["tools"] += tool
            done["turns"] += 1
            await asyncio.sleep(QUIET_S)

    async def ask(self, turn: AsyncTurn | None) -> None:
        """Wait for the memory, then for a model."""
        await super().ask(turn)
        for _ in range(TOKENS):
            await asyncio.sleep(TOKEN_S)
