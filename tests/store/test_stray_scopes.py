"""Scopes of unknown forms, and spellings of one name, in what comes from elsewhere."""

from __future__ import annotations

from pathlib import Path

import edgemem
from edgemem.memory import Memory
from edgemem.records import Reader
from support.cli import refused, run


def values(memory: Memory, name: str) -> dict[str, str]:
    return {fact.key: fact.value for fact in memory.store.facts(reader=Reader(name))}


def test_scopes_of_unknown_forms_are_closed_listed_and_moved(tmp_path: Path) -> None:
    """What another program stored under a mistyped scope is the operator's, until a command moves it."""
    home = tmp_path / "home"
    with edgemem.open(home, worker=False) as memory:
        memory.store.add_fact("tea", "green", scope="user:Mara")
        other = edgemem.SQLiteMemoryStore(memory.diagnostics.database)
        other.add_fact("pin", "1", scope="robot:7")
        other.add_fact("pin", "2", scope="robot:7")
        other.add_fact("tea", "black", scope="robot:8")
        other.add_fact("shoes", "39", scope="robot:7")
        other.set_preference("light", "dim", scope="robot:7")
        assert values(memory, "Ben") == {}
        assert values(memory, "Mara") == {"tea": "green"}
        assert memory.store.preferences(reader=Reader("Mara")) == []
        assert not any("39" in item.text for item in memory.recall("size of the shoes", speaker="Mara", k=9))
        assert {fact.value for fact in memory.store.facts(scope="robot:7")} == {"2", "39"}
        (names,) = (check for check in memory.check() if check.name == "people")
        assert (names.state, "robot:7 (3)" in names.detail) == ("warn", True)
        assert "edgemem facts move robot:7 user:NAME" in names.advice
    wrong = (
        ("robot:7", "Users:Mara"),
        ("user:Mara", "household"),
        ("Nobody:x", "global"),
        ("robot:8", "user:Mara"),
    )
    for scope, to in wrong:
        assert refused(run("facts", "move", scope, to, "--home", home))
    moved = run("facts", "move", "robot:7", "user:mara", "--home", home)
    assert moved.output == "Moved 2 facts and 1 preference from robot:7 to user:Mara; read by Mara alone.\n"
    with edgemem.open(home, worker=False) as memory:
        assert values(memory, "Mara") == {"pin": "2", "shoes": "39", "tea": "green"}
        assert [fact.value for fact in memory.store.fact_history("pin", scope="user:Mara")] == ["1", "2"]
        assert [wish.value for wish in memory.store.preferences(reader=Reader("MARA"))] == ["dim"]
        assert "39" in memory.recall("size of the shoes", speaker="Mara", kinds={"fact"})[0].text


def test_a_file_with_two_spellings_is_one_person_s(tmp_path: Path) -> None:
    """A JSON file that holds both spellings, or a mistyped scope, is read as one person's, and closed."""
    file = tmp_path / "memory.json"
    file.write_text(
        """{"format": 1, "facts": [
        {"key": "tea", "value": "black", "scope": "user:Alice", "recorded_at": "2026-01-01T10:00Z"},
        {"key": "tea", "value": "green", "scope": "user:alice", "recorded_at": "2026-01-02T10:00Z"},
        {"key": "pin", "value": "4711", "scope": "User:Alice", "recorded_at": "2026-01-03T10:00Z"}]}""",
        encoding="utf-8",
    )
    with edgemem.JSONMemoryStore(file) as store:
        assert {fact.value for fact in store.facts(reader=Reader("ALICE"))} == {"green"}
        assert {fact.value for fact in store.facts()} == {"green", "4711"}
        assert [fact.value for fact in store.fact_history("tea", scope="user:ALICE")] == ["black", "green"]
