"""Slack between cells holds nothing of rows that went; a file of an older version is brought to the newest."""

import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import edgemem
from edgemem.errors import NewerSchemaError, StoreError
from edgemem.recall.index.file import SCHEMA
from edgemem.store.db.connection import Migration
from edgemem.store.db.database import Database
from edgemem.store.kinds import TRUTH, open_truth
from support.selection import LONG, cases


def slack_of(path: Path) -> int:
    """Count the bytes between the cells of all pages that are not zero, by the file format's own description."""
    data = path.read_bytes()
    size = int.from_bytes(data[16:18], "big")
    found = 0
    for at in range(size, len(data), size):
        page = data[at : at + size]
        if page[0] in (2, 5, 10, 13):
            begin = (12 if page[0] in (2, 5) else 8) + 2 * int.from_bytes(page[3:5], "big")
            end = int.from_bytes(page[5:7], "big") or 65536
            found += end - begin - page.count(0, begin, end)
    return found


def word(dice: random.Random) -> str:
    return "w" + "".join(dice.choice("bcdfghjklmnpqrstvz") for _ in range(10))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4 if LONG else 1))
def test_what_is_forgotten_in_any_order_is_in_no_page(tmp_path: Path, seed: int) -> None:
    """Facts and conversations that come and go in random order, with pages that are balanced all the while."""
    dice = random.Random(seed)
    path = tmp_path / "mind.db"
    facts: dict[str, str] = {}
    with edgemem.SQLiteMemoryStore(path) as store, edgemem.SQLiteSessionStore(store.database) as sessions:
        talks: dict[str, str] = {}
        for _ in range(cases(2000)):
            key, talk = word(dice), word(dice)
            facts[key] = word(dice) + " filler" * dice.randrange(20)
            store.add_fact(key, facts[key], scope=dice.choice(["global", "household"]))
            talks[talk] = word(dice) + " filler" * dice.randrange(40)
            sessions.save(talk, edgemem.Session([{"role": "user", "content": talks[talk]}]))
            if dice.random() < 0.4:
                key, talk = dice.choice(list(facts)), dice.choice(list(talks))
                gone = [key, facts.pop(key).split()[0], talk, talks.pop(talk).split()[0]]
                assert any(store.forget_fact(key, scope=scope) for scope in ("global", "household"))
                assert sessions.delete(talk)
                data = path.read_bytes() + path.with_name("mind.db-wal").read_bytes()
                assert not [each for each in gone if each.encode() in data]
                assert slack_of(path) == 0
        assert store.database.quick_check() == []
        assert {fact.key: fact.value for fact in store.facts()} == facts
        assert sorted(sessions.list_ids()) == sorted(talks)


def test_slack_does_not_come_back_with_a_page_that_was_in_memory(tmp_path: Path) -> None:
    """Neither this process nor another that has the file open writes a page as it had read it before."""
    dice = random.Random(1)
    with edgemem.SQLiteMemoryStore(tmp_path / "mind.db") as store, open_truth(store.database.path) as other:
        keys = [word(dice) for _ in range(200)]
        for key in keys:
            store.set_preference(key, word(dice) + " filler" * dice.randrange(20))
        for key in dice.sample(keys, 80):
            gone = ("delete from preferences where key = ?", (key,))
            store.database.write(lambda tx, gone=gone: tx.execute(*gone))
        store.database.checkpoint()
        assert slack_of(store.database.path) > 0
        for database in (store.database, other):  # has all pages in memory, with their slack
            database.write(lambda tx: tx.execute("select count(value), max(key) from preferences"))
        assert store.database.wipe()
        assert slack_of(store.database.path) == 0
        for database in (store.database, other):
            database.write(lambda tx: tx.execute("update preferences set recorded = recorded + 1"))
            database.checkpoint()
        assert slack_of(store.database.path) == 0
        assert store.database.quick_check() == []
        assert len(store.preferences()) == 120


def test_a_reader_and_a_stop_are_respected(tmp_path: Path) -> None:
    """With a snapshot held by somebody, or as soon as somebody speaks, nothing is touched and the answer says so."""
    with edgemem.SQLiteMemoryStore(tmp_path / "mind.db") as store:
        store.add_fact("tea", "green")
        with closing(sqlite3.connect(store.database.path, isolation_level=None)) as reader:
            reader.execute("begin")
            reader.execute("select * from facts").fetchall()
            store.add_fact("tea", "black")
            assert not store.database.wipe(wait_s=0.0)
        assert not store.database.wipe(stop=lambda: True)
        assert store.database.wipe()


WRITER = """
import sys
from edgemem import SQLiteMemoryStore
with SQLiteMemoryStore(sys.argv[1]) as store:
    for n in range(150):
        store.add_fact(f"key {n % 40}", f"{sys.argv[2]} {n} " + "filler " * (n % 30))
"""


def test_processes_that_write_meanwhile_lose_nothing(tmp_path: Path) -> None:
    """Two write while a third wipes again and again: every value is there, and the file is sound."""
    path = tmp_path / "mind.db"
    with edgemem.SQLiteMemoryStore(path) as store:
        writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in ("a", "b")]
        wiped = 0
        while any(writer.poll() is None for writer in writers):
            wiped += store.database.wipe()
        assert [writer.returncode for writer in writers] == [0, 0]
        assert wiped
        assert store.database.quick_check() == []
        said = [version.value for n in range(40) for version in store.fact_history(f"key {n}")]
        assert len({tuple(value.split()[:2]) for value in said}) == 300


def test_closing_one_of_two_in_a_process_keeps_the_locks_of_the_other(tmp_path: Path) -> None:
    """A foreign program that comes and goes does not take itself for the last one, which would delete the log."""
    path = tmp_path / "mind.db"
    with edgemem.SQLiteMemoryStore(path) as store:
        with edgemem.SQLiteMemoryStore(path) as beside:
            assert beside.database.wipe()
        store.add_fact("tea", "green")
        code = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('select * from facts').fetchall(); c.close()"
        subprocess.run([sys.executable, "-c", code, str(path)], check=True)
        assert path.with_name("mind.db-wal").exists()
        store.add_fact("tea", "black")
    with edgemem.SQLiteMemoryStore(path) as store:
        assert store.get_fact("tea") == "black"


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
    "older, of the same steps": (STEP % "v001_initial", StoreError, "lacks the table .*move it away"),
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
