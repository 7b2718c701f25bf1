"""Tool events: the calls of tools are counted by tool with their latencies, for whoever may read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgemem import SQLiteMemoryStore
from edgemem.errors import InvalidInputError
from edgemem.store.episodes import TOOL_CALL, ToolStats, call_record, tool_stats


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteMemoryStore]:
    with SQLiteMemoryStore(tmp_path / "memory.db", max_episodes=300) as opened:
        yield opened


def call(store: SQLiteMemoryStore, tool: str, *, ok: bool = True, **more: Any) -> None:
    store.add_episode(TOOL_CALL, {"name": tool}, "ok" if ok else "failed", **more)


def test_each_tool_has_its_calls_failures_and_percentiles(store: SQLiteMemoryStore) -> None:
    """The most called first; of one that nobody measured there are no latencies, and what is no call counts for none."""
    for n in range(100):
        call(store, "grip", ok=n % 4 > 0, latency_ms=float(n + 1))
    call(store, "sing")
    store.add_episode("walk", {"name": "grip"}, "ok")
    assert tool_stats(store.database) == [
        ToolStats("grip", 100, 25, 0.25, 50.0, 90.0, 99.0),
        ToolStats("sing", 1, 0, 0.0, None, None, None),
    ]


@pytest.mark.parametrize("latency_ms", [-1, float("nan"), float("inf"), "fast"])
def test_what_is_no_latency_is_refused(store: SQLiteMemoryStore, latency_ms: Any) -> None:
    """In one sentence, and nothing is kept."""
    with pytest.raises(InvalidInputError):
        call(store, "grip", latency_ms=latency_ms)
    assert tool_stats(store.database) == []


@pytest.mark.parametrize(
    ("output", "outcome"),
    [(None, "ok"), ({"files": []}, "ok"), ({"error": "offline"}, "failed"), ({"status": "error"}, "failed")],
)
def test_an_answer_tells_whether_it_is_an_error(output: Any, outcome: str) -> None:
    """As Cognitia's tools tell it."""
    assert call_record("web", None, output)[1] == outcome
