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
from edgemem.errors import InvalidInputError
from edgemem.inspect.replay import cache_folder
from lab.cognitia_calls import PROTOCOLS, Call, play, sequences
from lab.peers import PEERS, call_peer, python_of

TABLES = Path(__file__).parent.parent / "data"
SCRIPT = str(Path(__file__).with_name("cognitia_calls.py"))
RUN_S = 3600.0
_COUNTS = ("success_count", "failure_count")
_MOST = 4096
_TOO_LONG = "a value of JSON over 4 kB is refused"


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
            output = call_peer([str(python), "-B", SCRIPT, str(job)], peer, "it failed", RUN_S)
            theirs = msgspec.json.decode(output.strip().splitlines()[-1])
            figures[name] = compared(played, asyncio.run(_ours(job, played)), theirs)
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
    for calls, mine, others in zip(played, ours, theirs, strict=True):
        for n, (call, result, other) in enumerate(zip(calls, mine, others, strict=True)):
            if reason := "same" if result == other else reason_of(calls[: n + 1], result, other):
                reasons[reason] += 1
            else:
                unexplained.append([call, result, other, calls[:n]])
    return {"same": reasons.pop("same", 0), "reasons": dict(reasons), "unexplained": unexplained}


def reason_of(calls: list[Call], ours: Any, theirs: Any) -> str:
    """Return why a call came to something else; empty if nobody knows.

    Args:
        calls: those of its sequence up to it.
    """
    _, method, arguments, _ = calls[-1]
    earlier = [call for call in calls if call[2][:1] == arguments[:1]]
    if method in ("save_summary", "get_summary"):
        empty = any(call[1] == "save_summary" and call[2][1:3] == [arguments[1], ""] for call in earlier)
        return "an empty summary is refused" if empty else ""
    if method in ("upsert_fact", "get_facts"):
        return _of_facts(earlier, ours, theirs)
    if method == "get_messages" and arguments[-1] == -1 and ours == []:
        return "a negative limit asks for nothing, and not for everything"
    if method == "get_user_profile":
        if ours["facts"] == theirs["facts"]:
            return "a profile says since when there is the user"
        return _of_facts(earlier, ours["facts"], theirs["facts"])
    if method == "get_session_state" and theirs == {**ours, "title": None}:
        return "a state has no title, which nothing sets"
    if method == "recall_by_tag" and sorted(map(str, ours)) == sorted(map(str, theirs)):
        return "episodes of a tag come newest first, and not as they were stored"
    if method == "recall_recent" and [e["timestamp"] for e in ours] == [e["timestamp"] for e in theirs]:
        return "of episodes of the same moment, the one that was stored last comes first"
    if method == "record_outcome" and theirs is None:
        return "whether there is such a procedure is told"
    again = sum(call[1] == "store" and call[2][0]["id"] == arguments[0] for call in calls if call[2]) > 1
    if method == "get" and again and {**ours, **{name: theirs[name] for name in _COUNTS}} == theirs:
        return "storing a procedure again does not take its outcomes back"
    return ""


def _of_facts(earlier: list[Call], ours: Any, theirs: Any) -> str:
    upserts = [call for call in earlier if call[1] == "upsert_fact"]
    if ours == {"raised": "InvalidInputError"}:
        return _TOO_LONG if _is_long(upserts[-1]) else ""
    reasons = set()
    for key in {key for key in {**ours, **theirs} if ours.get(key, ...) != theirs.get(key, ...)}:
        of_key = [call for call in upserts if call[2][1] == key]
        sources = {call[3].get("source") for call in of_key}
        tools = "mcp is trusted as all tools are" if "mcp" in sources and sources & {"import", ""} else ""
        reasons.add(_TOO_LONG if any(map(_is_long, of_key)) else tools)
    return "" if "" in reasons else "; ".join(sorted(reasons))


def _is_long(upsert: Call) -> bool:
    return len(str(upsert[2][2])) > _MOST
