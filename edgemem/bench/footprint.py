"""Memory that a robot's process takes, and how long it takes to start, each time in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import edgemem
from edgemem.bench.corpus import known
from edgemem.bench.everything import fill
from edgemem.bench.ground import (
    NearlyReal,
    in_process,
    quiet,
    real_embedder,
    scratch,
    store_facts,
    store_turns,
)
from edgemem.bench.report import at_most, median, report, say
from edgemem.memory.home import PROFILE_FILE

IDLE_S = 3600.0
PROCESS_S = 120.0
MEMORY_MB = {"words": 60.0, "embedder": 180.0}
"""What a process may take without a model, and with the embedder."""

LIMITS = {"import_ms": 150.0, "open_ms": 300.0}
"""What a start may take; with everything, `open_ms` counts until the last of it is open."""

_PROGRAM = """
import json, pathlib, sys
from contextlib import nullcontext
from time import perf_counter

def pss_mb():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) * 1024 / 1e6

home, question, beside = sys.argv[1:]
started = perf_counter()
import edgemem
imported = perf_counter()
with edgemem.open(home) as memory:
    opened = perf_counter()
    if beside:
        from edgemem.bench.everything import await_watcher, everything
        extra = everything(memory, pathlib.Path(beside))
    else:
        extra = nullcontext()
    with extra as more:
        if more:
            tools = memory.tools()
            opened = perf_counter()
            await_watcher(memory)
            hooks = memory.hooks() + more[1]
        opened_mb = pss_mb()
        if memory.diagnostics.embedder is not None:
            memory.diagnostics.embedder.embed_query(question)  # without a deadline, so that the model is there
        found = memory.recall(question)
        if more:
            near = more[0].vectors.search_facts(question)
        print(json.dumps({
            "import_ms": (imported - started) * 1e3, "open_ms": (opened - imported) * 1e3,
            "opened_mb": opened_mb, "asked_mb": pss_mb(), "found": len(found)}))
"""


def run(
    *, records: int = 10_000, processes: int = 7, beside: int = 1000, home: Path | None = None
) -> dict[str, Any]:
    """Measure memory (proportional share) and start in fresh processes, on a home that remembers a lot.

    Each time a memory as it is opened by default, and one with everything (`edgemem.bench.everything`) open and
    asked; in turn, so that both see the machine alike.

    Args:
        records: half facts, half messages; vectors stand for real ones (`bench turn` tells how they are made).
        processes: how many times each; medians are reported.
        beside: facts in each of the stores that are open beside the memory.
        home: where scratch files go; default: the temporary files.
    """
    real_embedder()
    facts = known(records // 2)
    sides: dict[str, dict[str, Any]] = {}
    bars = {}
    with scratch(home) as folder:
        for kind, limit in MEMORY_MB.items():
            say(f"filling a home with {records} records …")
            embedder = NearlyReal() if kind == "embedder" else None
            place, stores = folder / kind, folder / f"{kind} beside"
            _fill(place, records, embedder=embedder)
            fill(stores, facts[:beside], embedder=embedder)
            say("starting processes …")
            measured(place, facts[0].question, beside=stores)  # compiles
            both = [
                (measured(place, facts[0].question), measured(place, facts[0].question, beside=stores))
                for _ in range(processes)
            ]
            default, full = (_medians(list(some)) for some in zip(*both, strict=True))
            limits = {**LIMITS, "asked_mb": limit}
            for name in default:
                sides[f"{kind}.{name}"] = {
                    "default": default[name],
                    "everything": full[name],
                    "bar": limits.get(name),
                }
            for name, most in limits.items():
                bars[f"{kind}_{name}"] = at_most(default[name], most)
                bars[f"{kind}_everything_{name}"] = at_most(full[name], most)
    return report(
        "footprint",
        {"side_by_side": sides, "records": records, "processes": processes, "beside": beside},
        bars,
    )


def _fill(home: Path, records: int, *, embedder: NearlyReal | None) -> None:
    """Make a home with records, indexed."""
    with edgemem.open(home, profile=None if embedder else quiet(), embedder=embedder, worker=False) as memory:
        store_facts(memory.diagnostics.database, known(records // 2))
        store_turns(memory.diagnostics.database, records // 4)
        memory.idle(IDLE_S)
        left = memory.diagnostics.search.pending()
        if any(left.values()):
            raise AssertionError(f"not everything was indexed: {left}")
    if embedder is None:
        (home / PROFILE_FILE).write_text('[llama]\nembedder = ""\n')


def measured(home: Path, question: str, *, beside: Path | None = None) -> dict[str, float]:
    """Open a home in a fresh process, with the stores in `beside` if given, ask one thing, and return what that took.

    The first process also compiles.
    """
    return in_process(
        _PROGRAM,
        *(home, question, beside or ""),
        timeout_s=PROCESS_S,
        advice="let the machine do less beside it",
        # A robot's Python compiles a module once. Where that is forbidden, compiling would be most of what is measured.
        PYTHONDONTWRITEBYTECODE="",
        PYTHONPYCACHEPREFIX=str(home.parent / "compiled"),
    )


def _medians(measured: list[dict[str, float]]) -> dict[str, float]:
    return {name: median(figures[name] for figures in measured) for name in measured[0]}
