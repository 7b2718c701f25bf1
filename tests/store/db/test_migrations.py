"""The schema and its history."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from edgemem.errors import NewerSchemaError, StoreError
from edgemem.recall.index.file import SCHEMA
from edgemem.store.db.database import Database
from edgemem.store.db.schema import TRUTH, Migration

MORE = Migration("m999_more", ("create table more (x)", "insert into more values (1)"))


@pytest.mark.parametrize("steps", [TRUTH, SCHEMA], ids=["truth", "index"])
def test_a_file_is_migrated_once(tmp_path, steps):
    """Every step runs in a new file, and none again when it is opened the second time."""
    for _ in range(2):
        with Database(tmp_path / "x.db", migrations=steps) as db:
            assert db.query("select name from migrations order by name") == sorted((s.name,) for s in steps)
            assert db.quick_check() == []


def test_a_home_of_before_there_was_trust_learns_who_said_what(tmp_path):
    """A fact is trusted by who said it: a speaker about themselves, another one, the operator, an unknown voice."""
    before = [step for step in TRUTH if not step.name.startswith("m010")]
    insert = """
      insert into facts (id, key_id, value, valid_from, recorded, version, origin, level, source, owner, speaker, room)
      values (:id, :id, 'x', 0.0, :id, 1, :id, 0, :source, :owner, :speaker, :room)
    """
    rows = [
        (3, "user:alice", "", "alice", "alice", None), (3, "global", "", "alice", "alice", None),
        (2, "user:bob", "", "bob", "alice", None), (2, "household", "llm", None, "alice", None),
        (3, "global", "", None, None, None), (0, "global", "llm", None, None, None), (0, "global", "", None, None, "hall"),
    ]  # fmt: skip
    with Database(tmp_path / "x.db", migrations=before) as db:
        for n, (_, scope, source, owner, speaker, room) in enumerate(rows, start=1):
            row = {"id": n, "source": source, "owner": owner, "speaker": speaker, "room": room}
            db.write(
                lambda tx, n=n, scope=scope: tx.execute(
                    "insert into fact_keys values (?, ?, ?)", (n, scope, f"k{n}")
                )
            )
            db.write(lambda tx, row=row: tx.execute(insert, row))
    with Database(tmp_path / "x.db") as db:
        assert [trust for (trust,) in db.query("select trust from facts order by id")] == [
            row[0] for row in rows
        ]
        assert db.query("select value, json, topic from facts join fact_keys k on k.id = key_id limit 1") == [
            ("x", None, None)
        ]


STEP = "create table migrations (name text primary key, recorded integer not null); insert into migrations values ('%s', 1)"
FOREIGN = {
    "newer": (STEP % "m007_private_turns" + ", ('m999_more', 1)", NewerSchemaError, "update edgemem"),
    "early": (STEP % "m001_truth", StoreError, "export it there"),
    "another program's": ("create table facts (mine)", StoreError, "another program"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_whose_tables_are_not_ours_is_refused_and_left_alone(tmp_path, kind):
    """Of a newer edgemem, of one before the first step, of another program: the error says what to do."""
    script, error, advice = FOREIGN[kind]
    with closing(sqlite3.connect(tmp_path / "x.db")) as other:
        other.executescript(script)
    before = (tmp_path / "x.db").read_bytes()
    with pytest.raises(error, match=advice):
        Database(tmp_path / "x.db")
    assert (tmp_path / "x.db").read_bytes() == before


def test_a_step_is_added_to_a_file_with_rows_in_it(tmp_path):
    """A newer edgemem opens an older file, runs what is new, and keeps what is stored."""
    with Database(tmp_path / "x.db") as db:
        db.write(lambda tx: tx.execute("insert into meta values ('k', 1)"))
    with Database(tmp_path / "x.db", migrations=(*TRUTH, MORE)) as db:
        assert db.query("select value from meta") == [(1,)]
        assert db.query("select x from more") == [(1,)]


def test_a_step_that_fails_leaves_no_trace(tmp_path):
    """A step and the record that it ran are one transaction."""
    broken = Migration("m999_broken", ("create table half (x)", "create nonsense"))
    with pytest.raises(StoreError, match="nonsense"):
        Database(tmp_path / "x.db", migrations=(*TRUTH, broken))
    with Database(tmp_path / "x.db") as db:
        assert db.query("select name from sqlite_master where name = 'half'") == []
