"""What a thousand turns write to the card, and whether the last one costs more than the first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import edgemem
from edgemem.bench.corpus import conversation, own_words
from edgemem.bench.ground import KEEP_PLAN, Robot, bytes_written, quiet, refuse_tmpfs, scratch
from edgemem.bench.report import at_least, at_most, median, report, say, timed_ms
from edgemem.config import Profile
from edgemem.records import Message, Session
from edgemem.store.sessions import SQLiteSessionStore

SESSION = "bench"
IDLE_S = 30.0
"""More than upkeep ever needs after one turn: it ends when nothing is left."""
WINDOW = 20
MB = 1e6


def run(*, turns: int = 1000, home: Path | None = None, vectors: bool = False) -> dict[str, Any]:
    """Count the bytes that turns write, through all default hooks, and time saving at 100, 500, 1,000 turns.

    Upkeep runs after every turn, as the worker does while the robot speaks. The last checkpoint is included.

    Args:
        turns: of 4 messages, one durable commit each.
        home: a folder on the disk to measure; default: the temporary files.
        vectors: run again with the embedder, and report what vectors add.
    """
    with scratch(home) as folder:
        refuse_tmpfs(folder)
        say(f"{turns} turns through all default hooks …")
        played = _play(folder / "text", turns, quiet())
        say("saving the whole list after each turn …")
        saves, text = _save(folder / "save.db", turns)
        figures: dict[str, Any] = {
            "turns": turns,
            "text_mb": round(text / MB, 3),
            **played,
            "save_ms": _at_marks(saves, turns),
            "save_growth": _growth(saves),
        }
        if vectors:
            say("the same with the embedder …")
            with_vectors = _play(folder / "vectors", turns, Profile())
            figures["vectors_mb"] = round(with_vectors["written_mb"] - played["written_mb"], 3)
    bars = {
        "written_mb": at_most(figures["written_mb"], 20.0 * turns / 1000),
        "found_at_once": at_least(figures["found_at_once"], 1.0),
        "commit_growth": at_most(figures["commit_growth"], 1.2),
        "save_growth": at_most(figures["save_growth"], 1.2),
    }
    return report("session", figures, bars)


def _play(home: Path, turns: int, profile: Profile) -> dict[str, Any]:
    """Play all turns; return bytes, where they went, times, and what was found."""
    before = bytes_written()
    hooks_ms: list[float] = []
    commits_ms: list[float] = []
    asked = found = 0
    logs = _Logs(home / "db")
    with edgemem.open(home, profile=profile, worker=False) as memory:
        robot = Robot(memory.hooks(session_id=SESSION), tools=[KEEP_PLAN])
        for n, line in enumerate(conversation(turns)):
            result = robot.turn(line)
            hooks_ms.append(result.hooks_ms)
            commits_ms.append(result.commit_ms)
            logs.look()
            if (n + 1) % max(1, turns // 10) == 0:
                # A tool's call and result are found as the episode that they were.
                hits = [any(word in item.text for item in memory.recall(word)) for word in own_words(n)]
                asked += len(hits)
                found += sum(hits)
            memory.idle(IDLE_S)
            logs.look()
        robot.check()
        failures = [failure.message for failure in memory.idle_failures()]
    written = bytes_written() - before
    return {
        "written_mb": round(written / MB, 3),
        "logs_mb": logs.figures(),
        "files_mb": {
            file.name: round(file.stat().st_size / MB, 3) for file in sorted((home / "db").iterdir())
        },
        "found_at_once": round(found / max(1, asked), 4),
        "hooks_ms": _at_marks(hooks_ms, turns),
        "commit_ms": _at_marks(commits_ms, turns),
        "commit_growth": _growth(commits_ms),
        "idle_failures": failures,
    }


class _Logs:
    """Adds up how much was appended to the logs of the databases; the rest of the bytes is checkpoints."""

    def __init__(self, folder: Path) -> None:
        self._paths = [folder / "memory.db-wal", folder / "index.db-wal"]
        self._sizes = [0, 0]
        self._sums = [0, 0]

    def look(self) -> None:
        """Compare the sizes with those of the last look."""
        for i, path in enumerate(self._paths):
            size = path.stat().st_size if path.exists() else 0
            self._sums[i] += size - self._sizes[i] if size >= self._sizes[i] else size
            self._sizes[i] = size

    def figures(self) -> dict[str, float]:
        """Return megabytes by file."""
        return {path.name: round(n / MB, 3) for path, n in zip(self._paths, self._sums, strict=True)}


def _save(path: Path, turns: int) -> tuple[list[float], int]:
    """Save the whole list after each turn; return ms of each save, and the bytes of the text."""
    messages: list[Message] = []
    times = []
    text = 0
    with SQLiteSessionStore(path) as store:
        for line in conversation(turns):
            call = line.tools[0]
            function = {"name": call.name, "arguments": str(call.arguments)}
            said: Sequence[Message] = (
                {"role": "user", "content": line.say},
                {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": function}]},
                {"role": "tool", "tool_call_id": "1", "name": call.name, "content": call.result},
                {"role": "assistant", "content": line.reply},
            )
            messages.extend(said)
            text += len((line.say + str(call.arguments) + str(call.result) + line.reply).encode())
            times.append(timed_ms(partial(store.save, SESSION, Session(messages))))
    return times, text


def _at_marks(times: Sequence[float], turns: int) -> dict[str, float]:
    return {f"turn_{mark}": _around(times, mark) for mark in _marks(turns)}


def _marks(turns: int) -> tuple[int, int, int]:
    return max(1, turns // 10), max(1, turns // 2), turns


def _around(times: Sequence[float], mark: int) -> float:
    """Return the median of the 20 turns around one."""
    begin = max(0, min(mark - WINDOW // 2, len(times) - WINDOW))
    return median(times[begin : begin + WINDOW])


def _growth(times: Sequence[float]) -> float:
    first, _, last = _marks(len(times))
    return round(_around(times, last) / _around(times, first), 3)
