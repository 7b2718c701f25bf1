"""Tool events: counted by tool with their latencies, bounded, and written by hand too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgemem.errors import InvalidInputError
from edgemem.records import Heard, Reader
from edgemem.store.db.database import Database
from edgemem.store.tool_events import MOST, ToolStats, append_tool_event, tool_stats
from edgemem.store.transfer.export import export_lines


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return an empty truth."""
    with Database(tmp_path / "memory.db") as opened:
        yield opened


def keep(database: Database, tool: str, **more: Any) -> None:
    """Keep one call of a tool."""
    database.write(lambda tx: append_tool_event(tx, tool, **more))


def test_each_tool_has_its_calls_failures_and_percentiles(database: Database) -> None:
    """The most called first; of one that nobody measured there are no latencies."""

    def work(tx: Any) -> None:
        for n in range(100):
            append_tool_event(tx, "grip", ok=n % 4 > 0, latency_ms=float(n + 1))
        append_tool_event(tx, "sing")

    database.write(work)
    assert tool_stats(database) == [
        ToolStats("grip", 100, 25, 0.25, 50.0, 90.0, 99.0),
        ToolStats("sing", 1, 0, 0.0, None, None, None),
    ]


def test_they_are_counted_by_whom_they_may_be_read(database: Database) -> None:
    """A speaker's by the household, what is private by its owner."""
    mara = Heard(speaker="Mara")
    keep(database, "grip")
    keep(database, "grip", heard=mara)
    keep(database, "grip", heard=mara, level="private")
    counts = [
        sum(of.calls for of in tool_stats(database, reader=reader))
        for reader in (Reader(), Reader("Ben"), Reader("mara"), None)
    ]
    assert counts == [1, 2, 3, 3]


def test_the_newest_are_kept(database: Database) -> None:
    """The oldest go a tenth at a time, so there are never more than that beyond the bound."""

    def work(tx: Any) -> None:
        for n in range(MOST + MOST // 10 + 1):
            append_tool_event(tx, "old" if n < 200 else "new")

    database.write(work)
    assert [(of.tool, of.calls) for of in tool_stats(database)] == [("new", MOST)]


def test_what_a_tool_was_given_and_answered_is_kept_where_a_program_says_it(database: Database) -> None:
    """It is in an export, whole and of the speaker."""
    keep(
        database,
        "grip",
        input='{"what":"cup"}',
        output="ok",
        session="hall",
        turn=3,
        heard=Heard(speaker="Mara"),
    )
    for speaker in (None, "MARA"):
        lines = map(json.loads, export_lines(database, speaker=speaker))
        (event,) = [line for line in lines if line["record"] == "toolevent"]
        assert (event["tool"], event["input"], event["output"]) == ("grip", '{"what":"cup"}', "ok")
        assert (event["session"], event["turn"], event["speaker"]) == ("hall", 3, "Mara")


@pytest.mark.parametrize(
    ("tool", "more"),
    [
        ("", {}),
        ("grip", {"latency_ms": -1}),
        ("grip", {"latency_ms": float("nan")}),
        ("grip", {"input": "x" * 20_000}),
    ],
)
def test_what_is_no_event_is_refused(database: Database, tool: str, more: dict[str, Any]) -> None:
    """In one sentence, and nothing is kept."""
    with pytest.raises(InvalidInputError):
        keep(database, tool, **more)
    assert tool_stats(database) == []
