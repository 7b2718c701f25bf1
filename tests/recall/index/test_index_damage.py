"""Damage: a cell of the index file that holds what we never wrote costs no answer, and nothing of the truth."""

import shutil
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from edgemem.clock import Clock
from edgemem.recall.index.index import Index
from edgemem.recall.recall import Recall, Request
from edgemem.store.db.database import Database
from edgemem.store.kinds import open_truth
from edgemem.store.memory_store import SQLiteMemoryStore
from support.embedders import HashEmbedder
from support.homes import count_docs, say

WALL = 1_770_000_000.0
YEAR = 366 * 86400.0
HUGE = 2**63 - 1
BAD: tuple[Any, ...] = (None, "x\x00;é", "", HUGE, -HUGE - 1, 1.5, float("inf"), b"\x01\x02")
"""What a card may give back; SQLite stores no other float that is no number."""
QUESTIONS = ("answer 7", "where is the drawer?", "what was in the drawer before?", "")


class Home(NamedTuple):
    """A folder with a truth and its index, and the columns of the index."""

    folder: Path
    columns: list[tuple[str, str]]


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Home:
    """Return a home in which every table of the index holds something."""
    folder = tmp_path_factory.mktemp("damage")
    with opened(folder) as truth:
        for n in range(10):
            say(truth, n, f"question {n} about boats", f"answer {n}")
        store = SQLiteMemoryStore(truth)
        store.add_fact("gone.box", "nothing", scope="household")
        for value in ("spoons", "forks"):
            store.add_fact("kitchen.drawer", value, scope="household")
        with Index(folder / "index.db", truth, embedder=HashEmbedder()) as index:
            work(index)
            store.forget_fact("gone.box", scope="household")
            work(index)
    (folder / "index.db-wal").unlink(missing_ok=True)
    connection = sqlite3.connect(folder / "index.db")
    tables = connection.execute(
        "select name from sqlite_master where type = 'table' and sql not like 'create virtual%' and name not like 'sqlite_%'"
    ).fetchall()
    columns = [
        (table, column)
        for (table,) in tables
        for _, column, *_ in connection.execute(f"pragma table_info({table})").fetchall()
    ]
    connection.close()
    return Home(folder, columns)


def opened(folder: Path) -> Database:
    """Open the truth with a clock that stands still."""
    return open_truth(folder / "memory.db", clock=Clock(wall=lambda: WALL, monotonic=lambda: 1.0))


def work(index: Index) -> None:
    for _ in range(30):
        if not index.catch_up() + index.embed_pending():
            break


def spoil(path: Path, table: str, column: str, value: Any) -> None:
    """Put something into all cells of a column, or into one where they must differ; not where SQLite refuses it."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma ignore_check_constraints = on")
    for one in ("", f" where {column} is (select {column} from {table} limit 1)"):
        try:
            connection.execute(f"update {table} set {column} = ?{one}", (value,))
            break
        except sqlite3.Error:
            continue
    connection.close()


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10_000), st.sampled_from(BAD), st.booleans())
@example(("unembedded", "doc"), "", False)
@example(("docs", "ref"), "", True)
@example(("docs", "rules"), "", False)
@example(("vectors", "codes"), b"\x01\x02", True)
@example(("vectors", "past"), "", True)
@example(("vectors", "seq"), HUGE, True)
@example(("docs", "past"), HUGE, False)
@example(("docs", "id"), -HUGE - 1, False)
@example(("meta", "value"), "", True)
def test_a_cell_that_holds_what_we_never_wrote_costs_nothing(home, cell, value, live):
    """Found when it is opened or while it is used: nothing is raised, the index heals, and truth and clock stay as they are."""
    table, column = home.columns[cell % len(home.columns)] if isinstance(cell, int) else cell
    path = home.folder / "damaged.db"
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    shutil.copy(home.folder / "index.db", path)
    if not live:
        spoil(path, table, column, value)
    embedder = HashEmbedder()
    with opened(home.folder) as truth, Index(path, truth, embedder=embedder) as index:
        before = truth.query("select max(id), count(*) from messages")
        recall = Recall(truth, index, embedder=embedder)
        if live:
            recall.recall("answer 7", Request(reader=None))
            spoil(path, table, column, value)
        for _ in range(3):
            for question in QUESTIONS:
                recall.recall(question, Request(reader=None))
            index.pending()
            index.catch_up()
            index.embed_pending()
            index.warm()
        work(index)
        assert "answer 7" in [item.text for item in recall.recall("answer 7", Request(reader=None, k=3))]
        (fact,) = recall.recall("kitchen drawer", Request(reader=None, k=1, kinds={"fact"}))
        assert fact.value == "forks"
        assert truth.query("select max(id), count(*) from messages") == before
        assert truth.clock.now() < WALL + 86400


def test_only_a_derived_file_is_doubted(tmp_path):
    """A truth that is years ahead is taken at its word; an index that is years ahead of its truth is made again."""
    with opened(tmp_path) as truth:
        truth.clock.witness(int((WALL + 5 * YEAR) * 1e6))
        SQLiteMemoryStore(truth).add_fact("key", "value")
    with opened(tmp_path) as truth:
        assert truth.clock.now() > WALL + 4 * YEAR
        with Index(tmp_path / "index.db", truth) as index:
            work(index)
            file = index.path.stat().st_ino
        with Index(tmp_path / "index.db", truth) as index:
            assert index.path.stat().st_ino == file
    connection = sqlite3.connect(tmp_path / "index.db")
    connection.execute("insert into removals (seq, doc) values (?, 1)", (int((WALL + 8 * YEAR) * 1e6),))
    connection.commit()
    connection.close()
    with opened(tmp_path) as truth, Index(tmp_path / "index.db", truth) as index:
        work(index)
        assert count_docs(index) == 1
        assert truth.clock.now() < WALL + 6 * YEAR
