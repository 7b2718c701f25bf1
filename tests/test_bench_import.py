"""The bench of the move from EdgeVox: what it writes is EdgeVox's, and a row that went wrong is seen."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import edgemem
from edgemem.bench.ground import quiet
from edgemem.edgevox import import_edgevox
from lab import import_
from lab.edgevox_home import edgevox_home

SIZES = {"facts": 60, "episodes": 30, "sessions": 12}


def test_a_home_is_taken_over_exactly_and_twice_is_once(tmp_path: Path) -> None:
    """Every row of both forms is compared, none differs, and the second import changes nothing."""
    figures = import_.run(**SIZES, times=1, home=tmp_path)
    assert figures["bench"] == "import"
    for form in ("json", "sqlite"):
        assert figures[form]["rows_different"] == []
        assert figures[form]["changed_by_the_second"] == []
        compared = figures[form]["rows_compared"]
        assert compared["fact"] == figures["edgevox"]["fact_rows"] > SIZES["facts"]
        assert (compared["episode"], compared["session"]) == (30, 12)
        assert set(figures["bars"]) > {f"{form}_first_s", f"{form}_second_s"}
    assert list(tmp_path.iterdir()) == []


def test_both_forms_hold_the_same_rows(tmp_path: Path) -> None:
    """What stands in the JSON files stands in the databases, which any SQLite opens."""
    old = edgevox_home(**SIZES)
    old.write_json(tmp_path / "json")
    old.write_sqlite(tmp_path / "sqlite")
    data = json.loads((tmp_path / "json" / "kitchen.json").read_text())
    with closing(sqlite3.connect(tmp_path / "sqlite" / "kitchen.db")) as db:
        db.row_factory = sqlite3.Row
        assert [dict(row) for row in db.execute("select * from facts order by rowid")] == data["facts"]
        payloads = [json.loads(row[0]) for row in db.execute("select payload_json from episodes order by id")]
        assert payloads == [row["payload"] for row in data["episodes"]]
        tables = {row[0] for row in db.execute("select name from sqlite_master where type = 'table'")}
    assert tables == {"facts", "preferences", "episodes", "sqlite_sequence"}
    assert any(row["supersedes"] for row in data["facts"])
    assert any(call for name in old.sessions.values() for call in name["messages"] if call.get("tool_calls"))


def test_a_row_that_went_wrong_is_told(tmp_path: Path) -> None:
    """A changed value, a missing episode and a changed message are three differences, and digests tell them too."""
    old = edgevox_home(**SIZES)
    old.write_json(tmp_path / "json")
    with edgemem.open(tmp_path / "home", profile=quiet(), worker=False) as memory:
        import_edgevox(memory.database, memory.sessions, memory.notes, tmp_path / "json")
        assert import_._compare(memory, old)[1] == []
        before = import_._digests(memory)
        newest = max(episode.id for episode in memory.store.recent_episodes(1))

        def spoil(tx):
            tx.execute("update messages set content = 'else' where id = (select max(id) from messages)")
            tx.execute("update preferences set value = 'else' where key = 'tone'")
            tx.execute("delete from episodes where id = ?", (int(newest),))

        memory.database.write(spoil)
        different = import_._compare(memory, old)[1]
        after = import_._digests(memory)
    assert sorted({text.split()[0] for text in different}) == ["episode", "preference", "session"]
    assert {name for name in before if before[name] != after[name]} == {"messages", "preferences", "episodes"}
