"""Every kind that is declared is known to each part that goes through all of them."""

import json
from pathlib import Path

import pytest

from edgemem.errors import NewerSchemaError
from edgemem.store.db.database import Database
from edgemem.store.declaration import WORDS, Column, Kind
from edgemem.store.kinds import KINDS, open_truth, schema_of
from support.homes import opened, tell
from support.kinds import add_row
from support.loops import python

WITH_A_TOY_KIND = """
import json, pathlib, sys, types, typing

import edgemem.records
edgemem.records.Kind = typing.Literal[(*typing.get_args(edgemem.records.Kind), "plan")]

# The kinds are declared before any part of the store reads them.
sys.modules["edgemem.store"] = package = types.ModuleType("edgemem.store")
package.__path__ = [edgemem.__path__[0] + "/store"]
from edgemem.store import kinds
from edgemem.store.declaration import Column, Kind

PLANS = Kind(
    "plans", "plan",
    (
        Column("id", "integer primary key", "tick"), Column("words", "text not null", "text"),
        Column("level", "integer not null", "level"),
        Column("owner", "text", "person"), Column("speaker", "text", "person"),
    ),
    line="plan", doc="plan", found_by=("words",), counted="plans",
)
kinds.KINDS += (PLANS,)
kinds.TRUTH = kinds.schema_of(kinds.KINDS)
del sys.modules["edgemem.store"]

import edgemem
from edgemem.memory.stats import gather
from edgemem.store.rights import spell

sys.path.append("tests")
from support.homes import opened

first, second = map(pathlib.Path, sys.argv[1:])

def add(tx, words, level, owner, speaker):
    row = (tx.tick(), words, level, owner and spell(tx, owner), speaker and spell(tx, speaker))
    tx.execute("insert into plans (id, words, level, owner, speaker) values (?, ?, ?, ?, ?)", row)

def plans(lines):
    return [row["words"] for row in map(json.loads, lines) if row["record"] == "plan"]

def found(memory, query, speaker=None):
    return [item.text for item in memory.recall(query, speaker=speaker) if item.kind == "plan"]

with opened(first) as memory, opened(second) as other:
    database = memory.diagnostics.database
    database.write(lambda tx: add(tx, "Ask Zora about the kiln.", 0, None, "Bo"))
    database.write(lambda tx: add(tx, "Ann's own plan.", 2, "Ann", "Ann"))
    memory.idle(seconds=5)
    lines = list(memory.export())
    told = {"exported": plans(lines), "hers": plans(memory.export(speaker="Ann"))}
    data = [line.encode() for line in lines]
    told |= {"imported": other.import_lines(data).added, "known": other.import_lines(data).known}
    told["found"] = found(other, "Who knows about the kiln?", "Bo")
    told["closed"] = found(memory, "Ann's own plan", "Bo")
    told["counted"] = gather(memory.diagnostics).counts["plans"]
    told["mentions"] = [[m.kind, m.text, m.by] for m in memory.forget(person="Zora").mentions.quoted]
    told["erased"] = memory.forget(person="Ann").erased
    told["left"] = plans(memory.export())
    told["bytes"] = b"own plan" in (memory.home / "db" / "memory.db").read_bytes()
print(json.dumps(told))
"""
IN_DATABASE = '[bank]\nbackend = "database"\n'
PLACES = [(kind, column) for kind in KINDS for column in kind.columns_of(*WORDS)]


@pytest.mark.parametrize(("kind", "column"), PLACES, ids=[f"{kind.table}.{name}" for kind, name in PLACES])
def test_a_name_in_the_words_of_any_kind_is_told(tmp_path: Path, kind: Kind, column: str) -> None:
    """What others said of a forgotten person stays, and the answer counts it, whatever kind of record it is in."""
    words = '["Ask Zora Quist."]' if column in kind.columns_of("json") else "Ask Zora Quist."
    with opened(tmp_path / "home", IN_DATABASE) as memory:
        memory.diagnostics.database.write(lambda tx: add_row(tx, kind, **{column: words}))
        mentions = memory.forget(person="Zora Quist").mentions
    assert mentions.count == 1
    assert "Zora Quist" in mentions.quoted[0].text


OWNED = [kind for kind in KINDS if kind.goes == "row" and kind.of_person()]


@pytest.mark.parametrize("kind", OWNED, ids=[kind.table for kind in OWNED])
def test_rows_of_any_kind_go_with_their_person(tmp_path: Path, kind: Kind) -> None:
    """Whatever kind of record is a person's, forgetting them erases it, and their name is in no row any more."""
    column = next(iter(kind.columns_of("person", "scope")))
    name = "user:Zora" if column == "scope" else "Zora"
    with opened(tmp_path / "home", IN_DATABASE) as memory:
        database = memory.diagnostics.database
        database.write(lambda tx: tx.execute("insert into names values ('zora', 'Zora')"))
        database.write(lambda tx: add_row(tx, kind, **{column: name}))
        assert memory.forget(person="zora").erased == {kind.plural: 1}
        assert database.query(f"select * from {kind.table}") == []
        assert database.query("select * from names where key = 'zora'") == []


def test_a_kind_of_a_later_release_has_its_table_in_a_truth_of_before(tmp_path: Path) -> None:
    """A file of this release gets the table when a later one opens it; then this release refuses the file."""
    later = Kind("visits", "visit", (Column("id", "integer primary key", "tick"),), step="v999_visits")
    open_truth(tmp_path / "x.db").close()
    with Database(tmp_path / "x.db", schema=schema_of((*KINDS, later))) as db:
        assert db.query("select * from visits") == []
        assert db.migrated == ("v999_visits",)
    with pytest.raises(NewerSchemaError):
        open_truth(tmp_path / "x.db")


FROM_TURNS = [kind for kind in KINDS if {"session", "turn"}.issubset(kind.names)]


@pytest.mark.parametrize("kind", FROM_TURNS, ids=[kind.table for kind in FROM_TURNS])
def test_rows_of_any_kind_go_with_their_turn(tmp_path: Path, kind: Kind) -> None:
    """What was made of a conversation goes with it, or stays and does not tell of it any more."""
    with opened(tmp_path / "home", IN_DATABASE) as memory:
        database = memory.diagnostics.database
        tell(memory, "the canoe leaks", "kitchen")
        database.write(lambda tx: add_row(tx, kind, session="kitchen", turn=0))
        assert memory.forget(session="kitchen")
        rows = database.query(f"select session, turn from {kind.table}")
        assert rows == ([(None, None)] if kind.blanks else [])


def test_a_kind_that_is_added_is_exported_found_counted_mentioned_and_erased(tmp_path: Path) -> None:
    """A declaration is all that the rest of the store needs of a kind that stands by itself."""
    out, _ = python(WITH_A_TOY_KIND, tmp_path / "one", tmp_path / "two").communicate(timeout=60)
    assert json.loads(out) == {
        "exported": ["Ask Zora about the kiln.", "Ann's own plan."], "hers": ["Ann's own plan."],
        "imported": {"plans": 2}, "known": {"plans": 2}, "found": ["Ask Zora about the kiln."], "closed": [],
        "counted": 2, "mentions": [["plan", "Ask Zora about the kiln.", "Bo"]], "erased": {"plans": 1},
        "left": ["Ask Zora about the kiln."], "bytes": False,
    }  # fmt: skip
