"""How long it takes to find what was lived through: procedures for a task, episodes by words and by tag, in one home."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec

import edgemem
from edgemem.bench.corpus import SPEAKER, sentences
from edgemem.bench.ground import at_most, median, percentile, quiet, report, scratch
from edgemem.records import Episode, Procedure, ProcedureStep, Reader
from edgemem.store.episodes import append_episode
from edgemem.store.procedures import put_procedure

if TYPE_CHECKING:
    from edgemem.store.db.transaction import Transaction

LIMIT_MS = 5.0
TAGS = 100


def run(
    *, procedures: int = 10_000, episodes: int = 50_000, questions: int = 100, home: Path | None = None
) -> dict[str, Any]:
    """Ask for procedures and for episodes among many of both, all indexed, by words: no query is embedded."""
    chance = random.Random(1)
    texts = sentences(procedures + episodes, seed=9)
    profile = quiet()
    store = msgspec.structs.replace(profile.store, max_episodes=2 * episodes)

    def fill(tx: Transaction) -> None:
        for n, text in enumerate(texts[:procedures]):
            counts = chance.randrange(9), chance.randrange(9)
            put_procedure(tx, Procedure(f"p{n}", f"way {n}", "", text, (ProcedureStep("drive"),), *counts))
        for n, text in enumerate(texts[procedures:]):
            append_episode(tx, Episode("task", {}, "ok", summary=text, tags=(f"t{n % TAGS}",)), keep=0)

    with (
        scratch(home) as folder,
        edgemem.open(
            folder / "home", profile=msgspec.structs.replace(profile, store=store), worker=False
        ) as memory,
    ):
        memory.diagnostics.database.write(fill)
        while memory.diagnostics.index.catch_up():
            pass
        asked = [" ".join(text.split()[:6]) for text in chance.sample(texts, questions + 20)]
        reader = Reader(SPEAKER)
        ways: dict[str, Callable[[str], object]] = {
            "suggest": lambda text: memory.procedures.suggest(text, reader=reader),
            "episodes": lambda text: memory.recall(text, speaker=SPEAKER, kinds={"episode"}),
            "by_tag": lambda _: memory.store.episodes(tag=f"t{chance.randrange(TAGS)}", reader=reader),
        }
        taken = {way: [_ms(find, text) for text in asked][20:] for way, find in ways.items()}
    sides = {f"{way}_p95_ms": percentile(ms, 0.95) for way, ms in taken.items()}
    bars = {f"{way}_ms": at_most(median(ms), LIMIT_MS) for way, ms in taken.items()}
    return report("lived", {"procedures": procedures, "episodes": episodes, **sides}, bars)


def _ms(find: Callable[[str], object], text: str) -> float:
    begun = perf_counter()
    find(text)
    return (perf_counter() - begun) * 1e3
