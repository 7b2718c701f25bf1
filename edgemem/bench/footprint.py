"""Memory that a robot's process takes, and how long it takes to start, each time in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import edgemem
from edgemem.bench import ground
from edgemem.bench.corpus import household_facts
from edgemem.memory.home import PROFILE_FILE

IDLE_S = 3600.0
PROCESS_S = 120.0
MEMORY_MB = {"words": 60.0, "embedder": 180.0}
LIMITS = {"import_ms": 150.0, "open_ms": 300.0}

_PROGRAM = """
import json, sys
from time import perf_counter

def pss_mb():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) * 1024 / 1e6

home, question = sys.argv[1:]
started = perf_counter()
import edgemem
imported = perf_counter()
with edgemem.open(home) as memory:
    opened = perf_counter()
    opened_mb = pss_mb()
    if memory.diagnostics.embedder is not None:
        memory.diagnostics.embedder.embed_query(question)  # without a deadline, so that the model is there
    found = memory.recall(question)
    print(json.dumps({
        "import_ms": (imported - started) * 1e3, "open_ms": (opened - imported) * 1e3,
        "opened_mb": opened_mb, "asked_mb": pss_mb(), "found": len(found)}))
"""


def run(*, records: int = 10_000, processes: int = 7, home: Path | None = None) -> dict[str, Any]:
    """Measure memory (proportional share) and start in fresh processes, on a home that remembers a lot.

    Half of the records are facts, half messages, with vectors as in `bench turn`; figures are medians.
    """
    ground.real_embedder()
    question = household_facts(1)[0].question
    sides: dict[str, dict[str, Any]] = {}
    bars = {}
    with ground.scratch(home) as folder:
        for kind, limit in MEMORY_MB.items():
            ground.say(f"filling a home with {records} records …")
            place = folder / kind
            _fill(place, records, embedder=ground.NearlyReal() if kind == "embedder" else None)
            ground.say("starting processes …")
            measured(place, question)  # compiles
            started = [measured(place, question) for _ in range(processes)]
            limits = {**LIMITS, "asked_mb": limit}
            for name in started[0]:
                figure = ground.median(process[name] for process in started)
                sides[f"{kind}.{name}"] = {"default": figure, "bar": limits.get(name)}
                if name in limits:
                    bars[f"{kind}_{name}"] = ground.at_most(figure, limits[name])
    return ground.report(
        "footprint", {"side_by_side": sides, "records": records, "processes": processes}, bars
    )


def _fill(home: Path, records: int, *, embedder: ground.NearlyReal | None) -> None:
    with edgemem.open(
        home, profile=None if embedder else ground.quiet(), embedder=embedder, worker=False
    ) as memory:
        ground.store_facts(memory.diagnostics.database, household_facts(records // 2))
        ground.store_turns(memory.diagnostics.database, records // 4)
        memory.idle(IDLE_S)
    if embedder is None:
        (home / PROFILE_FILE).write_text('[llama]\nembedder = ""\n')


def measured(home: Path, question: str) -> dict[str, float]:
    """Open a home in a fresh process, ask a question, and return the figures; the first process also compiles."""
    return ground.in_process(
        _PROGRAM,
        *(home, question),
        timeout_s=PROCESS_S,
        advice="let the machine do less beside it",
        # A robot's Python compiles a module once; compiling each time would be most of the figure.
        PYTHONDONTWRITEBYTECODE="",
        PYTHONPYCACHEPREFIX=str(home.parent / "compiled"),
    )
