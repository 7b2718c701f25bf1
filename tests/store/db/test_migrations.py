"""The schema and its history."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from edgemem.errors import NewerSchemaError, StoreError
from edgemem.recall.index.file import SCHEMA
from edgemem.store.db.connection import Migration
from edgemem.store.db.database import Database
from edgemem.store.kinds import TRUTH, open_truth

MORE = Migration("v999_more", ("create table more (x)", "insert into more values (1)"))


@pytest.mark.parametrize("steps", [TRUTH, SCHEMA], ids=["truth", "index"])
def test_a_file_is_migrated_once(tmp_path, steps):
    """Every step runs in a new file, and none again when it is opened the second time."""
    for _ in range(2):
        with Database(tmp_path / "x.db", schema=steps) as db:
            run = db.query("select name from migrations order by name")
            assert run == sorted((step.name,) for step in steps.steps)
            assert db.quick_check() == []


STEP = "create table migrations (name text primary key, recorded integer not null); insert into migrations values ('%s', 1)"
FOREIGN = {
    "newer": (STEP % "v001_initial" + ", ('v999_more', 1)", NewerSchemaError, "update edgemem"),
    "older": (STEP % "m007_private_turns", StoreError, "move it away"),
    "another program's": ("create table facts (mine)", StoreError, "another program"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_whose_tables_are_not_ours_is_refused_and_left_alone(tmp_path, kind):
    """Of a newer edgemem, of one before the first release, of another program: the error says what to do."""
    script, error, advice = FOREIGN[kind]
    with closing(sqlite3.connect(tmp_path / "x.db")) as other:
        other.executescript(script)
    before = (tmp_path / "x.db").read_bytes()
    with pytest.raises(error, match=advice):
        open_truth(tmp_path / "x.db")
    assert (tmp_path / "x.db").read_bytes() == before


def test_a_step_is_added_to_a_file_with_rows_in_it(tmp_path):
    """A newer edgemem opens an older file, runs what is new, and keeps what is stored."""
    with open_truth(tmp_path / "x.db") as db:
        db.write(lambda tx: tx.execute("insert into meta values ('k', 1)"))
    with Database(tmp_path / "x.db", schema=TRUTH._replace(steps=(*TRUTH.steps, MORE))) as db:
        assert db.query("select value from meta") == [(1,)]
        assert db.query("select x from more") == [(1,)]


def test_a_step_that_fails_leaves_no_trace(tmp_path):
    """A step and the record that it ran are one transaction."""
    broken = Migration("v999_broken", ("create table half (x)", "create nonsense"))
    with pytest.raises(StoreError, match="nonsense"):
        Database(tmp_path / "x.db", schema=TRUTH._replace(steps=(*TRUTH.steps, broken)))
    with open_truth(tmp_path / "x.db") as db:
        assert db.query("select name from sqlite_master where name = 'half'") == []
