"""What was lived through, from the command line: episodes, procedures, and how tools have done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import refused, run

import edgemem
from edgemem.records import Heard
from edgemem.store.tool_events import TOOL_CALL

FETCH = {
    "id": "fetch-cup",
    "name": "Fetch",
    "description": "",
    "trigger": "bring me the red cup",
    "steps": [{"tool_name": "grip", "args_template": {"what": "red cup"}}],
    "tags": ["cup"],
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home that loads no model, with two episodes and a tool's calls."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "edgemem.toml").write_text('[llama]\nembedder = ""\n', encoding="utf-8")
    with edgemem.open(home, worker=False) as memory:
        add = memory.store.add_episode
        add(
            "task", {}, "success", summary="Watered the tulips.", tags=["garden"], heard=Heard(speaker="Mara")
        )
        add("task", {}, "failure", summary="Could not reach the red cup.", session="hall", tools=["grip"])
    return home


def told(home: Path, *args: str) -> Any:
    """Return the JSON that a command prints."""
    result = run(*args, "--json", "--home", home)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((), ["Could not reach the red cup.", "Watered the tulips."]),
        (("cup",), ["Could not reach the red cup."]),
        (("the", "red", "cup", "--outcome", "success"), []),
        (("tulips", "--tag", "garden"), ["Watered the tulips."]),
        (("--person", "mara"), ["Watered the tulips."]),
        (("--session", "hall"), ["Could not reach the red cup."]),
        (("--since", "2200-01-01"), []),
        (("--limit", "1"), ["Could not reach the red cup."]),
        (("--speaker", "Ben", "--tag", "garden"), ["Watered the tulips."]),
    ],
)
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


def test_a_procedure_is_added_found_counted_and_forgotten(home: Path, tmp_path: Path) -> None:
    """From a file, which `procedures ID --json` prints as well."""
    path = tmp_path / "cup.json"
    path.write_text(json.dumps(FETCH))
    assert told(home, "procedures", "add", str(path)) == ["fetch-cup"]
    assert told(home, "procedures", "outcome", "fetch-cup", "success")["success_count"] == 1
    path.write_text(json.dumps([told(home, "procedures", "fetch-cup")]))
    assert run("procedures", "add", path, "--home", home).stdout == "Stored 1 procedure: fetch-cup.\n"
    assert [each["id"] for each in told(home, "procedures", "suggest", "the", "red", "cup")] == ["fetch-cup"]
    assert "1 of 1" in run("procedures", "--home", home).stdout
    assert '{"what":"red cup"}' in run("procedures", "show", "fetch-cup", "--home", home).stdout
    assert "Erased" in run("procedures", "forget", "fetch-cup", "--yes", "--home", home).stdout
    assert "no procedures" in run("procedures", "--home", home).stdout


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "holds no procedure"),
        ('{"id": "p"}', "missing"),
        (json.dumps({**FETCH, "step": 1}), "has no 'step'"),
    ],
)
def test_a_file_that_holds_none_is_refused(home: Path, tmp_path: Path, text: str, sentence: str) -> None:
    """The sentence says what is wrong with it."""
    path = tmp_path / "p.json"
    path.write_text(text)
    assert sentence in refused(run("procedures", "add", path, "--home", home))


def test_an_unknown_procedure_is_told(home: Path) -> None:
    """Whatever shall be done with it."""
    for args in (("show", "x"), ("outcome", "x", "failure"), ("forget", "x")):
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
