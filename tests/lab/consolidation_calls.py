"""Random sets of episodes with the consolidations of each; run by Cognitia's own Python, it leaves there what came of them."""

from __future__ import annotations

import asyncio
import importlib
import json
import random
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

WORDS = ("deployed", "staging", "kitchen", "watered", "orchids", "boiler", "the", "lamp", "a", "Grüße", "世界", "2026")  # fmt: skip
TAGS, TOOLS = ("deploy", "night", "plants", "Deploy", "db", "it's", "世界"), ("sandbox", "web", "can", "arm")
OUTCOMES = ("success", "success", "success", "failure", "partial")


class Step(NamedTuple):
    """Episodes that are stored, and the consolidation after that."""

    stored: list[dict[str, Any]]
    window: dict[str, int]
    is_restart: bool  # by another pipeline
    least: int  # the extractor's min_frequency


def sets(count: int, seed: int) -> list[list[Step]]:
    """Return sets of up to five steps with up to 60 episodes, in random order."""
    chance = random.Random(seed)

    def episode(at: int) -> dict[str, Any]:
        pick = chance.choices if chance.random() < 0.02 else chance.sample  # at times one twice
        return {
            "id": f"e{at}",
            "summary": " ".join(chance.choices(WORDS, k=chance.randint(1, 5))),
            "key_decisions": tuple(chance.sample(WORDS, chance.choice([0, 0, 2]))),
            "tools_used": tuple(pick(TOOLS, k=chance.choice([0, 1, 1, 2]))),
            "tags": tuple(pick(TAGS, k=chance.choice([0, 1, 1, 2, 3]))),
            "outcome": chance.choice(OUTCOMES),
            "timestamp": datetime(2026, 3, 15, tzinfo=timezone.utc) + timedelta(seconds=at),
        }

    def step(least: int) -> Step:
        stored = [episode(chance.randrange(10**8)) for _ in range(chance.choice([0, 1, 3, 6, 12]))]
        window = {"min_episodes": chance.choice([0, 3, 3, 5]), "max_episodes": chance.choice([3, 10, 50])}
        return Step(stored, window, chance.random() < 0.2, least)

    leasts = [chance.choice([1, 2, 2, 2, 3]) for _ in range(count)]
    return [[step(least) for _ in range(chance.randint(1, 5))] for least in leasts]


def single(episode: dict[str, Any]) -> dict[str, Any]:
    """Return an episode with each tool and tag once."""
    return {**episode, **{name: tuple(dict.fromkeys(episode[name])) for name in ("tools_used", "tags")}}


async def play(drawn: Sequence[Sequence[Step]], names: Mapping[str, Any]) -> list[list[Any]]:
    """Return what came of each step: new facts, all that were found, and counts; and these of each tool and tag once an episode."""

    async def came(steps: Sequence[Step], change: Any) -> list[Any]:
        episodic, pipeline, results = names["InMemoryEpisodicMemory"](), None, []
        for step in steps:
            for episode in step.stored:
                await episodic.store(names["Episode"](**change(episode)))
            extractor = names["KeywordFactExtractor"](step.least)
            if pipeline is None or step.is_restart:
                pipeline = names["ConsolidationPipeline"](episodic, extractor=extractor)
            result = await pipeline.consolidate(**step.window)
            recent = await episodic.recall_recent(step.window["max_episodes"])
            found = await extractor.extract(recent) if len(recent) >= step.window["min_episodes"] else []
            counts = result.episodes_processed, result.clusters_found
            results.append([[*result.new_facts], found, *counts])
        return results

    return [[await came(steps, dict), await came(steps, single)] for steps in drawn]


if __name__ == "__main__":
    job = json.loads((Path(sys.argv[1]) / "job.json").read_text(encoding="utf-8"))
    theirs: dict[str, Any] = {}
    for module in ("consolidation", "episodic", "episodic_types"):
        theirs |= vars(importlib.import_module(f"swarmline.memory.{module}"))
    played = asyncio.run(play(sets(job["count"], job["seed"]), theirs))
    (Path(sys.argv[1]) / "came.json").write_text(json.dumps(played), encoding="utf-8")
