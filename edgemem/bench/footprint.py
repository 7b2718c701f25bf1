"""Memory that a robot's process takes, and how long it takes to start, each time in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import edgemem
from edgemem.bench.corpus import known
from edgemem.bench.ground import NearlyReal, quiet, real_embedder, scratch, store_facts, store_turns
from edgemem.bench.report import at_most, median, report, say
from edgemem.errors import EdgememError
from edgemem.home import PROFILE_FILE

IDLE_S = 3600.0
PROCESS_S = 120.0

_PROGRAM = """
import json, sys
from time import perf_counter

def pss_mb():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) * 1024 / 1e6

started = perf_counter()
import edgemem
imported = perf_counter()
with edgemem.open(sys.argv[1]) as memory:
    opened = perf_counter()
    opened_mb = pss_mb()
    if memory.embedder is not None:
        memory.embedder.embed_query(sys.argv[2])  # without a deadline, so that the model is there
    found = memory.recall(sys.argv[2])
    print(json.dumps({
        "import_ms": (imported - started) * 1e3, "open_ms": (opened - imported) * 1e3,
        "opened_mb": opened_mb, "asked_mb": pss_mb(), "found": len(found)}))
"""


def run(*, records: int = 10_000, processes: int = 7, home: Path | None = None) -> dict[str, Any]:
    """Measure memory (proportional share) and start in fresh processes, on a home that remembers a lot.

    Args:
        records: half facts, half messages; vectors stand for real ones (`bench turn` tells how they are made).
        processes: how many times each; medians are reported.
        home: where scratch files go; default: the temporary files.
    """
    real_embedder()
    question = known(1)[0].question
    with scratch(home) as folder:
        say(f"filling two homes with {records} records …")
        words, vectors = folder / "words", folder / "vectors"
        _fill(words, records, embedder=False)
        _fill(vectors, records, embedder=True)
        say("starting processes …")
        without = [_measured(words, question) for _ in range(processes)]
        with_embedder = [_measured(vectors, question) for _ in range(processes)]
    plain, full = _medians(without), _medians(with_embedder)
    figures = {"records": records, "processes": processes, "words": plain, "embedder": full}
    bars = {
        "without_a_model_mb": at_most(plain["asked_mb"], 60),
        "with_the_embedder_mb": at_most(full["asked_mb"], 180),
        "import_ms": at_most(max(plain["import_ms"], full["import_ms"]), 150),
        "open_ms": at_most(max(plain["open_ms"], full["open_ms"]), 300),
    }
    return report("footprint", figures, bars)


def _fill(home: Path, records: int, *, embedder: bool) -> None:
    """Make a home with records, indexed."""
    profile = None if embedder else quiet()
    with edgemem.open(
        home, profile=profile, embedder=NearlyReal() if embedder else None, worker=False
    ) as memory:
        store_facts(memory, known(records // 2))
        store_turns(memory, records // 4)
        memory.idle(IDLE_S)
        left = memory.pending()
        if any(left.values()):
            raise AssertionError(f"not everything was indexed: {left}")
    if not embedder:
        (home / PROFILE_FILE).write_text('[llama]\nembedder = ""\n')


def _measured(home: Path, question: str) -> dict[str, float]:
    """Open a home in a fresh process, ask one thing, and return what that took."""
    package = str(Path(edgemem.__file__).parent.parent)
    path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    done = subprocess.run(  # noqa: S603 - this very Python, and a program of ours
        [sys.executable, "-c", _PROGRAM, str(home), question],
        capture_output=True,
        text=True,
        timeout=PROCESS_S,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    if done.returncode:
        raise EdgememError(f"A process that was to be measured failed: {done.stderr.strip()[-300:]}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def _medians(measured: list[dict[str, float]]) -> dict[str, float]:
    return {name: median(one[name] for one in measured) for name in measured[0]}
