"""The schema and its history."""

from __future__ import annotations

import sqlite3
import threading

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


def test_a_step_is_added_to_a_file_with_rows_in_it(tmp_path):
    """A newer edgemem opens an older file, runs what is new, and keeps what is stored."""
    with Database(tmp_path / "x.db") as db:
        db.write(lambda tx: tx.execute("insert into meta values ('k', 1)"))
    with Database(tmp_path / "x.db", migrations=(*TRUTH, MORE)) as db:
        assert db.query("select value from meta") == [(1,)]
        assert db.query("select x from more") == [(1,)]


def test_a_file_from_a_newer_edgemem_is_refused_and_left_alone(tmp_path):
    """An unknown step means that the file is newer: the error says so, and nothing is lost."""
    with Database(tmp_path / "x.db", migrations=(*TRUTH, MORE)) as db:
        db.write(lambda tx: tx.execute("insert into meta values ('k', 1)"))
    before = (tmp_path / "x.db").read_bytes()
    with pytest.raises(NewerSchemaError, match="update edgemem"):
        Database(tmp_path / "x.db")
    assert (tmp_path / "x.db").read_bytes() == before


def test_a_file_from_before_the_first_step_is_refused_and_left_alone(tmp_path):
    """Its tables are others than the first step makes: the error says how what it holds can be moved."""
    with sqlite3.connect(tmp_path / "x.db") as early:
        early.execute("create table migrations (name text primary key, recorded integer not null)")
        early.execute("insert into migrations values ('m001_truth', 1)")
    early.close()
    before = (tmp_path / "x.db").read_bytes()
    with pytest.raises(StoreError, match="export it there"):
        Database(tmp_path / "x.db")
    assert (tmp_path / "x.db").read_bytes() == before


def test_a_step_that_fails_leaves_no_trace(tmp_path):
    """A step and the record that it ran are one transaction."""
    broken = Migration("m999_broken", ("create table half (x)", "create nonsense"))
    with pytest.raises(StoreError, match="nonsense"):
        Database(tmp_path / "x.db", migrations=(*TRUTH, broken))
    with Database(tmp_path / "x.db") as db:
        assert db.query("select name from sqlite_master where name = 'half'") == []


def test_two_that_open_a_new_file_at_the_same_time_both_succeed(tmp_path):
    """The lock lets one of them make the tables, and the other one find them."""
    opened, barrier = [], threading.Barrier(4)

    def open_it():
        barrier.wait()
        opened.append(Database(tmp_path / "x.db"))

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 4
    for db in opened:
        assert db.query("select count(*) from migrations") == [(len(TRUTH),)]
        db.close()


def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path):
    """Tables without our record of steps belong to somebody else."""
    other = sqlite3.connect(tmp_path / "x.db")
    other.execute("create table facts (mine)")
    other.close()
    before = (tmp_path / "x.db").read_bytes()
    with pytest.raises(StoreError, match="another program"):
        Database(tmp_path / "x.db")
    assert (tmp_path / "x.db").read_bytes() == before
