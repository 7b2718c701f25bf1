"""Stats: how much there is, what it takes, how fast it grows, what waits, how the newest turn went; no word of any record."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgemem.recall.index.sources import SOURCES
from edgemem.session.figures import TurnFigures
from edgemem.session.points import HookFailure
from edgemem.store.kinds import KINDS

if TYPE_CHECKING:
    from edgemem.memory.opened import Home

DAY = 86400.0
WEEK = 7 * DAY

COUNTS = {
    kind.counted: f"select count(*) from {kind.table} r where {kind.texts or '1'}"  # noqa: S608 - our own constants
    for kind in KINDS
    if kind.counted
}
# The absence of a value is no version of it.
COUNTS["fact_versions"] += " and r.value is not null"
"""Counts of the truth; a count alone reads no text."""

SINCE = {
    "fact_rows": "select count(*), min(id) from facts where id > ?",
    "episodes": "select count(*), min(id) from episodes where id > ?",
    "messages": "select count(*), min(id) from messages where id > ?",
}
"""Rows since a tick: ids are the microseconds at which rows were written."""


class Stats(msgspec.Struct, frozen=True):
    """One look at a memory."""

    home: str
    at: float
    """When it was looked, in seconds since the epoch."""
    counts: dict[str, int]
    disk_bytes: dict[str, int]
    per_day: dict[str, float]
    """What came in each day, over the last week or since the beginning, at least over one day."""
    waiting: dict[str, int]
    """What idle time has still to do: rows to index, changes, texts to embed."""
    lag_s: float
    """For how long the oldest row has waited for the index; it is searched directly meanwhile."""
    clock_trusted: bool
    failures: list[HookFailure]
    """Messages of failures are left out: they may quote an utterance."""
    last_turn: TurnFigures | None = None


def gather(home: Home) -> Stats:
    """Look at everything; nothing is written."""
    now = home.clock.now()
    counts = {name: home.database.query(sql)[0][0] for name, sql in COUNTS.items()}
    counts["notes"] = sum(bool(line.strip()) for line in home.notes.read().splitlines())
    counts["bank_files"] = len(home.bank.files())
    disk = _disk(home.path)
    return Stats(
        os.fsencode(home.path).decode(errors="replace"),
        now,
        counts,
        disk,
        _per_day(home, now, disk["truth"]),
        home.search.pending(),
        _lag(home, now),
        home.clock.trust().trusted,
        [msgspec.structs.replace(failure, message="") for failure in home.failures.read()],
        home.figures.read(),
    )


def _per_day(home: Home, now: float, truth_bytes: int) -> dict[str, float]:
    """Return the growth in rows, and in bytes as these rows' share of the file."""
    query = home.database.query
    since = now - WEEK
    new = {name: query(sql, (int(since * 1e6),))[0] for name, sql in SINCE.items()}
    first = [query(sql, (0,))[0] for sql in SINCE.values()]
    begun = min((oldest / 1e6 for _, oldest in first if oldest is not None), default=now)
    days = max(1.0, (now - max(begun, since)) / DAY)
    per_day = {name: rows / days for name, (rows, _) in new.items()}
    everything = sum(rows for rows, _ in first)
    share = sum(rows for rows, _ in new.values()) / everything if everything else 0.0
    per_day["bytes"] = truth_bytes * share / days
    return {name: round(value, 2) for name, value in per_day.items()}


def _lag(home: Home, now: float) -> float:
    state = home.index.state()
    oldest: list[int | None] = []
    for source in SOURCES:
        sql = f"select min(id) from {source.table} where id > ?"  # noqa: S608 - our own constants
        oldest += home.database.query(sql, (state.reached(source.table),))[0]
    return max((max(0.0, round(now - tick / 1e6, 3)) for tick in oldest if tick is not None), default=0.0)


def _disk(home: Path) -> dict[str, int]:
    patterns = {"truth": "db/memory.db*", "index": "db/index.db*", "notes": "NOTES.md"}
    patterns |= {folder: f"{folder}/**/*" for folder in ("bank", "models", "backups")}
    sizes = dict.fromkeys(patterns, 0)
    for name, pattern in patterns.items():
        for path in home.glob(pattern):
            # The robot may empty and remove a log at any moment.
            with suppress(FileNotFoundError):
                sizes[name] += path.stat().st_size if path.is_file() else 0
    return sizes
