"""Every kind that is declared is known to each part that goes through all of them."""

from pathlib import Path

import pytest

from edgemem.errors import NewerSchemaError
from edgemem.store.db.database import Database
from edgemem.store.declaration import WORDS, Column, Kind
from edgemem.store.kinds import KINDS, open_truth, schema_of
from support.homes import opened, tell
from support.kinds import add_row

IN_DATABASE = '[bank]\nbackend = "database"\n'
PLACES = [(kind, column) for kind in KINDS for column in kind.columns_of(*WORDS)]


@pytest.mark.parametrize(
    ("kind", "column"), PLACES, ids=[f"{kind.table}.{column}" for kind, column in PLACES]
)
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
    later = Kind("marks", "mark", (Column("id", "integer primary key", "tick"),), step="v999_marks")
    open_truth(tmp_path / "x.db").close()
    with Database(tmp_path / "x.db", schema=schema_of((*KINDS, later))) as db:
        assert db.query("select * from marks") == []
        assert db.migrated == ("v999_marks",)
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
