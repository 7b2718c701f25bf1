"""What was lived through, from the command line: episodes, procedures, and how tools have done."""

import json
from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem.records import Heard, Procedure, ProcedureStep
from edgemem.store.episodes import TOOL_CALL
from support.cli import refused, run
from support.homes import opened

GRIP = ProcedureStep("grip", {"what": "red cup"})
FETCH = Procedure("fetch-cup", "Fetch", "", "bring me the red cup", (GRIP,), success_count=1)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home that loads no model, with two episodes and a tool's calls."""
    home = tmp_path / "home"
    with opened(home) as memory:
        add = memory.store.add_episode
        mara = Heard(speaker="Mara")
        add("task", {}, "success", summary="Watered the tulips.", tags=["garden"], heard=mara)
        add("task", {}, "failure", summary="Could not reach the red cup.", session="hall", tools=["grip"])
    return home


def told(home: Path, *args: str) -> Any:
    result = run(*args, "--json", "--home", home)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((), ["Could not reach the red cup.", "Watered the tulips."]), (("cup",), ["Could not reach the red cup."]),
        (("the", "red", "cup", "--outcome", "success"), []),
        (("tulips", "--tag", "garden"), ["Watered the tulips."]),
        (("--person", "mara", "--since", "2000-01-01"), ["Watered the tulips."]),
        (("--session", "hall", "--limit", "1"), ["Could not reach the red cup."]),
        (("--speaker", "Ben", "--tag", "garden"), ["Watered the tulips."]),
    ],
)  # fmt: skip
def test_episodes_are_listed_and_found(home: Path, args: tuple[str, ...], expected: list[str]) -> None:
    """Newest first, or what fits the query, each with its fields."""
    assert [episode["summary"] for episode in told(home, "episodes", *args)] == expected


def test_they_are_shown_as_people_read_them(home: Path) -> None:
    """With the id by which one is forgotten, and a sentence where there are none."""
    text = run("episodes", "--home", home).stdout
    assert "Could not reach the red cup. [grip]" in " ".join(text.split())
    number = told(home, "episodes", "cup")[0]["id"]
    assert "red cup" in run("forget", "--episode", number, "--yes", "--home", home).stdout
    assert "no episodes" in run("episodes", "cup", "--home", home).stdout


def test_a_procedure_is_listed_shown_found_and_forgotten(home: Path) -> None:
    """With its steps, and how often it worked."""
    with edgemem.open(home, worker=False) as memory:
        memory.procedures.store(FETCH)
    assert told(home, "procedures", "fetch-cup")["success_count"] == 1
    assert [each["id"] for each in told(home, "procedures", "suggest", "the", "red", "cup")] == ["fetch-cup"]
    assert "1 of 1" in run("procedures", "--home", home).stdout
    assert '{"what":"red cup"}' in run("procedures", "show", "fetch-cup", "--home", home).stdout
    assert "Erased" in run("procedures", "forget", "fetch-cup", "--yes", "--home", home).stdout
    assert "no procedures" in run("procedures", "--home", home).stdout


def test_an_unknown_procedure_is_told(home: Path) -> None:
    """Whatever shall be done with it."""
    for args in (("show", "x"), ("forget", "x")):
        assert "no procedure 'x'" in refused(run("procedures", *args, "--home", home))


def test_tools_are_counted(home: Path) -> None:
    """As a table, and as JSON."""
    with edgemem.open(home, worker=False) as memory:
        memory.store.add_episode(TOOL_CALL, {"name": "grip"}, "failed", latency_ms=12.4)
    (grip,) = told(home, "stats", "tools")
    assert grip == {
        "tool": "grip", "calls": 1, "failures": 1, "failure_rate": 1.0, "p50_ms": 12.4, "p90_ms": 12.4, "p99_ms": 12.4,
    }  # fmt: skip
    assert "1 (100%)" in run("stats", "tools", "--home", home).stdout
