"""A home of an older edgemem, which took two spellings of a name for two people, and any scope for the household's."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

import edgemem
from edgemem.cli import main
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.records import Heard, Reader
from support.homes import BY_WORDS
from support.models import Listener

pytestmark = pytest.mark.usefixtures("patient")

_COLUMNS = {
    "facts": ("owner", "speaker"),
    "doubts": ("owner", "speaker"),
    "episodes": ("owner", "speaker"),
    "turns": ("owner", "speaker"),
    "preferences": ("owner",),
}


def aged(home: Path, spellings: Mapping[str, str], scopes: Mapping[str, str] | None = None) -> None:
    """Make a home what an older edgemem left: with other spellings, other scopes, and no table of names."""
    with closing(sqlite3.connect(home / "db" / "memory.db")) as file, file:
        (trigger,) = file.execute("select sql from sqlite_master where name = 'facts_only_closed'").fetchone()
        file.execute("drop trigger facts_only_closed")
        for old, new in spellings.items():
            for table, columns in _COLUMNS.items():
                for column in columns:
                    file.execute(f"update {table} set {column} = ? where {column} = ?", (new, old))
            for table in ("fact_keys", "preferences"):
                file.execute(
                    f"update {table} set scope = 'user:' || ? where scope = 'user:' || ?", (new, old)
                )
        for old, new in (scopes or {}).items():
            for table in ("fact_keys", "preferences"):
                file.execute(f"update {table} set scope = ? where scope = ?", (new, old))
        file.execute(trigger)
        file.execute("drop table names")
        file.execute("delete from migrations where name = 'm008_names'")
    with closing(sqlite3.connect(home / "db" / "index.db")) as file, file:
        for old, new in spellings.items():
            for table, column in (("docs", "owner"), ("docs", "who"), ("people", "name")):
                file.execute(f"update or ignore {table} set {column} = ? where {column} = ?", (new, old))


def told(memory: Memory, name: str) -> dict[str, set[str]]:
    """Return what is known to one who speaks, by key."""
    found: dict[str, set[str]] = {}
    for fact in memory.store.facts(reader=Reader(name)):
        found.setdefault(fact.key, set()).add(fact.value)
    return found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home in which `Alice` and `alice` were two people; the second is written `alice2` until it is aged."""
    home = tmp_path / "home"
    with edgemem.open(home, worker=False) as memory:
        store = memory.store
        store.add_fact("tea", "black", scope="user:Alice", heard=Heard("Alice"))
        store.add_fact("tea", "green", scope="user:alice2", heard=Heard("alice2"))
        store.add_fact("tea", "white", scope="user:Alice")
        store.add_fact("bus", "line 7", scope="user:alice2")
        store.add_fact("pin", "1", scope="user:alice2")
        store.add_fact("pin", "2", scope="user:Alice")
        store.retract_fact("pin", scope="user:Alice")
        store.add_fact("door", "code 9", scope="user:Ben")
        store.set_preference("light", "dim", scope="user:Alice")
        store.set_preference("light", "off", scope="user:alice2")
        store.set_preference("sound", "loud", scope="user:alice2")
        store.add_episode("said", {"text": "psst"}, "ok", heard=Heard("alice2"), level="private")
        loop = AgentLoop(Listener(), hooks=memory.hooks(session_id="hall"))
        loop.run("My locker is 4711.", speaker="alice2", private=True)
        loop.run("My locker was 815.", speaker="Alice", private=True)
        memory.idle(seconds=20)
    aged(home, {"alice2": "alice"})
    return home


def test_two_spellings_become_one_person(home: Path) -> None:
    """Facts are believed in the order in which they were recorded, and preferences, turns and episodes are one person's."""
    with edgemem.open(home, worker=False) as memory:
        for name in ("Alice", "alice", "ALICE"):
            assert told(memory, name) == {"tea": {"white"}, "bus": {"line 7"}}
            assert {p.key: p.value for p in memory.store.preferences(reader=Reader(name))} == {
                "light": "off",
                "sound": "loud",
            }
            assert len(memory.sessions.journal.read_turns("hall", reader=Reader(name))) == 2
            found = {item.text for item in memory.recall("number of my locker", speaker=name, k=9)}
            assert {"My locker is 4711.", "My locker was 815."} <= found
        history = memory.store.fact_history("tea", scope="user:alice")
        assert [fact.value for fact in history] == ["black", "green", "white"]
        assert [fact.superseded_by for fact in history] == [history[1].id, history[2].id, None]
        assert {fact.scope for fact in memory.store.facts()} == {"user:Alice", "user:Ben"}
        (episode,) = memory.store.recent_episodes(reader=Reader("ALICE"))
        assert episode.owner == "Alice"
        assert told(memory, "Ben") == {"door": {"code 9"}}
        before = history[1].recorded_at
        (tea,) = (f for f in memory.store.facts_as_of(before, known_at=before) if f.key == "tea")
        assert tea.value == "green"


def test_what_became_one_is_named_and_the_home_was_backed_up(home: Path) -> None:
    """The command that migrates names each pair on its standard error, and check does so from then on."""
    first = CliRunner().invoke(main, ["facts", "--home", str(home), "--speaker", "alice"])
    assert "alice and Alice are one person now" in first.output
    assert list((home / "backups").glob("memory-*.db"))
    second = CliRunner().invoke(main, ["facts", "--home", str(home), "--speaker", "alice"])
    assert "one person" not in second.output
    with edgemem.open(home, worker=False) as memory:
        (names,) = (check for check in memory.check() if check.name == "people")
    assert names.state == "ok"
    assert "alice and Alice" in names.detail


def test_two_people_are_kept_apart_by_the_profile(home: Path) -> None:
    """Whom [speakers] knows under another name keeps what was stored under exactly that spelling."""
    (home / "edgemem.toml").write_text('[speakers]\n"Alice Kurz" = ["alice"]\n', encoding="utf-8")
    with edgemem.open(home, worker=False) as memory:
        assert told(memory, "Alice") == {"tea": {"white"}}
        assert told(memory, "Alice Kurz") == {"tea": {"green"}, "bus": {"line 7"}, "pin": {"1"}}
        assert told(memory, "ALICE") == told(memory, "alice") == told(memory, "Alice")
        (turn,) = memory.sessions.journal.read_turns("hall", reader=Reader("alice kurz"))
        assert turn.messages[0].content == "My locker is 4711."
        (names,) = (check for check in memory.check() if check.name == "people")
    assert "alice" not in names.detail


def test_what_was_heard_badly_stays_a_doubt(tmp_path: Path) -> None:
    """Joined histories follow the rule of add_fact: what was heard badly replaces nothing that was heard well."""
    home = tmp_path / "home"
    with edgemem.open(home, profile=BY_WORDS, worker=False) as memory:
        memory.store.add_fact("tea", "black", scope="user:Alice", heard=Heard("Alice", asr_confidence=0.9))
        memory.store.add_fact("tea", "slack", scope="user:alice2", heard=Heard("alice2", asr_confidence=0.2))
    aged(home, {"alice2": "alice"})
    with edgemem.open(home, profile=BY_WORDS, worker=False) as memory:
        assert told(memory, "alice") == {"tea": {"black"}}
        assert [doubt.value for doubt in memory.store.doubts(reader=Reader("alice"))] == ["slack"]


def test_a_name_with_spaces_finds_its_person(tmp_path: Path) -> None:
    """What stands under "user: Mara", which nobody could read, is Mara's."""
    home = tmp_path / "home"
    with edgemem.open(home, profile=BY_WORDS, worker=False) as memory:
        memory.store.add_fact("pin", "4711", scope="user:Mara2")
    aged(home, {"Mara2": " Mara"})
    with edgemem.open(home, profile=BY_WORDS, worker=False) as memory:
        assert told(memory, "mara") == {"pin": {"4711"}}
        assert {fact.scope for fact in memory.store.facts()} == {"user:Mara"}


def test_scopes_of_unknown_forms_are_closed_listed_and_moved(tmp_path: Path) -> None:
    """What the household could read under a mistyped scope is the operator's, until a command moves it."""
    home = tmp_path / "home"
    with edgemem.open(home, worker=False) as memory:
        memory.store.add_fact("pin", "1", scope="user:Mara")
        memory.store.add_fact("pin", "2", scope="household")
        memory.store.add_fact("shoes", "39", scope="household")
        memory.store.set_preference("light", "dim", scope="household")
        memory.store.add_fact("wifi", "quokka", scope="env:kitchen")
    aged(home, {}, {"household": "User:Mara", "env:kitchen": "env: kitchen"})
    with edgemem.open(home, worker=False) as memory:
        assert told(memory, "Ben") == {"wifi": {"quokka"}}
        assert told(memory, "Mara") == {"pin": {"1"}, "wifi": {"quokka"}}
        assert memory.store.preferences(reader=Reader("Mara")) == []
        found = memory.recall("size of the shoes", speaker="Mara", k=9)
        assert not any("39" in item.text for item in found)
        assert {f.value for f in memory.store.facts(scope="User:Mara")} == {"2", "39"}
        assert {f.scope for f in memory.store.facts()} == {"user:Mara", "User:Mara", "env:kitchen"}
        (names,) = (check for check in memory.check() if check.name == "people")
        assert (names.state, "User:Mara (3)" in names.detail) == ("warn", True)
        assert "edgemem facts move User:Mara user:Mara" in names.advice
    for scope, to in (("User:Mara", "Users:Mara"), ("user:Mara", "household"), ("Nobody:x", "global")):
        refused = CliRunner().invoke(main, ["facts", "move", scope, to, "--home", str(home)])
        assert (refused.exit_code, refused.output.count("\n")) == (1, 1)
    moved = CliRunner().invoke(main, ["facts", "move", "User:Mara", "user:mara", "--home", str(home)])
    assert moved.output == "Moved 2 facts and 1 preference from User:Mara to user:Mara; read by Mara alone.\n"
    with edgemem.open(home, worker=False) as memory:
        assert told(memory, "Mara") == {"pin": {"2"}, "shoes": {"39"}, "wifi": {"quokka"}}
        assert [f.value for f in memory.store.fact_history("pin", scope="user:Mara")] == ["1", "2"]
        assert [p.value for p in memory.store.preferences(reader=Reader("MARA"))] == ["dim"]
        assert told(memory, "Ben") == {"wifi": {"quokka"}}
        assert "39" in memory.recall("size of the shoes", speaker="Mara", kinds={"fact"})[0].text
        (names,) = (check for check in memory.check() if check.name == "people")
        assert names.state == "ok"


def test_a_store_opened_by_path_is_migrated_too(tmp_path: Path) -> None:
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
        assert [f.value for f in store.fact_history("tea", scope="user:ALICE")] == ["black", "green"]
