"""Cognitia: the same random calls through the real package and through ours; what differs, and why.

The package's providers are its SQLite one, with the tables that its statements ask for, the in-memory ones of episodes and
procedures, since its full-text search corrupts its own index, and its bank of files.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

import edgemem.aio
from edgemem.bench.ground import scratch
from edgemem.bench.report import at_most, report, say
from edgemem.cli.demo import cache_folder
from edgemem.errors import InvalidInputError
from lab.cognitia_calls import PROTOCOLS, Call, play, sequences
from lab.peers import PEERS, call_peer, python_of

TABLES = Path(__file__).parent.parent / "data" / "write_swarmline.py"
RUN_S = 3600.0
_UNKNOWN = ("mcp", "import", "")


def run(
    *, count: int = 2000, only: str = "", seed: int = 1, python: Path | None = None, home: Path | None = None
) -> dict[str, Any]:
    """Play random sequences through both, and compare what came of each call.

    Args:
        count: of sequences over each protocol.
        only: one of them.
        python: one that has the package; default: an environment in the cache, made by pip.
        home: where scratch files go; default: the temporary files.
    """
    if only and only not in PROTOCOLS:
        raise InvalidInputError(f"There is no protocol {only!r}; say one of: {', '.join(PROTOCOLS)}.")
    peer = PEERS["swarmline"]
    python = python or python_of(peer, cache_folder() / "peers")
    figures: dict[str, Any] = {}
    with scratch(home) as folder:
        for name in [only] if only else PROTOCOLS:
            say(f"{name}: {count} sequences …")
            job = folder / name
            job.mkdir()
            played = sequences(name, count, seed)
            (job / "calls.json").write_bytes(
                msgspec.json.encode({"sequences": played, "tables": str(TABLES)})
            )
            script = Path(__file__).with_name("cognitia_calls.py")
            told = call_peer([str(python), "-B", str(script), str(job)], peer, "it failed", RUN_S)
            theirs = msgspec.json.decode(told.strip().splitlines()[-1])
            ours = asyncio.run(_ours(job, played))
            figures[name] = compared(played, ours, theirs)
    unexplained = sum(len(figure["unexplained"]) for figure in figures.values())
    return report("cognitia", figures, {"unexplained": at_most(unexplained, 0)})


async def _ours(folder: Path, played: list[list[Call]]) -> list[list[Any]]:
    names = vars(edgemem.aio)
    config = edgemem.aio.MemoryBankConfig(enabled=True, root_path=folder / "ours")
    async with (
        edgemem.aio.SQLiteMemoryProvider(folder / "ours.db") as memory,
        edgemem.aio.SqliteEpisodicMemory(folder / "episodes.db") as episodes,
        edgemem.aio.SqliteProceduralMemory(folder / "procedures.db") as procedures,
    ):
        once = {"memory": memory, "episodes": episodes, "procedures": procedures}

        def make(kind: str, n: int) -> Any:
            return once.get(kind) or edgemem.aio.FilesystemMemoryBankProvider(config, f"u{n}", "t")

        return await play(played, make, names)


def compared(played: list[list[Call]], ours: list[list[Any]], theirs: list[list[Any]]) -> dict[str, Any]:
    """Return how many calls came to the same, and of the others how many for each reason; the first ones without one in full."""
    reasons: Counter[str] = Counter()
    unexplained: list[Any] = []
    same = 0
    for calls, mine, others in zip(played, ours, theirs, strict=True):
        for n, (call, one, other) in enumerate(zip(calls, mine, others, strict=True)):
            if one == other:
                same += 1
            elif reason := reason_of(calls[: n + 1], one, other):
                reasons[reason] += 1
            else:
                unexplained.append([call, one, other, calls[:n]])
    return {"same": same, "reasons": dict(reasons), "unexplained": unexplained}


def reason_of(calls: list[Call], ours: Any, theirs: Any) -> str:
    """Return why a call came to something else; empty if nobody knows.

    Args:
        calls: those of its sequence up to it.
    """
    return ""
