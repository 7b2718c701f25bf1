"""What runs on both sides, here and on the emulated aarch64: one question a call, the answer is a line of JSON.

python arm_probe.py embed          the vectors of some sentences, and the ground that they stand on
python arm_probe.py write HOME     remember facts without an end, and print each number that was acknowledged
python arm_probe.py count HOME     how many of those are there, found, and whether the file is whole
"""

import itertools
import json
import mmap
import platform
import sqlite3
import sys
from importlib.metadata import version
from typing import Any

import edgemem

SENTENCES = (
    "The tickets are in the blue flour tin.",
    "Oyelaran is allergic to hazelnuts, not peanuts.",
    "Dienstag um halb zehn muss Jonas zum Arzt.",
    "Bà ngoại thích trà sen không đường.",
    "set_oven(temperature=200)  # °C",
    "x",
    "kitchen " * 60,
)


def embed() -> dict[str, Any]:
    """Return a vector for each sentence by the default embedder, and versions."""
    from edgemem.llama.embedder import open_embedder
    from edgemem.llama.models.catalog import DEFAULT_EMBEDDER

    with open_embedder(DEFAULT_EMBEDDER) as embedder:
        vectors = embedder.embed_texts(SENTENCES).tolist()
    names = ("numpy", "sqlite-vec", "llama-cpp-python", "msgspec", "watchdog")
    return {
        "vectors": vectors,
        "machine": platform.machine(),
        "page": mmap.PAGESIZE,
        "versions": {
            "edgemem": edgemem.__version__,
            "Python": platform.python_version(),
            "SQLite": sqlite3.sqlite_version,
            **{name: version(name) for name in names},
        },
    }


def write(home: str) -> None:
    """Remember facts until somebody kills this process."""
    with edgemem.open(home) as memory:
        for n in itertools.count():
            memory.store.add_fact(f"shelf.{n}", f"jar number {n}")
            print(n, flush=True)


def count(home: str) -> dict[str, Any]:
    """Return how many facts there are, whether each is whole, and what is found."""
    with edgemem.open(home) as memory:
        facts = {fact.key: fact.value for fact in memory.store.facts()}
        found = memory.recall(f"What is on shelf {len(facts) - 1}?", k=3)
        states = {one.name: one.state for one in memory.check()}
    return {
        "facts": len(facts),
        "whole": facts == {f"shelf.{n}": f"jar number {n}" for n in range(len(facts))},
        "found": [one.text for one in found],
        "database": states["database"],
    }


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["embed"]:
            print(json.dumps(embed()))
        case ["write", home]:
            write(home)
        case ["count", home]:
            print(json.dumps(count(home)))
        case _:
            sys.exit(__doc__)
