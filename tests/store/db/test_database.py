"""One SQLite file: its connections, its thread, its lock, and everything that can be wrong with it."""

import os
import sqlite3
from pathlib import Path

import pytest

from edgemem.clock import Clock
from edgemem.errors import BusyError, ClosedError, InvalidInputError, ReadOnlyError, StoreError
from edgemem.store.db.connection import Migration, Schema
from edgemem.store.db.database import Database
from edgemem.store.db.files import FileLock
from edgemem.store.kinds import open_truth
from support.loops import side_by_side
from support.refusals import refusal

NOTES = Schema((Migration("m001_notes", ("create table notes (text)",)),), {})


@pytest.fixture
def db(tmp_path):
    with Database(tmp_path / "x.db", schema=NOTES, busy_timeout_s=0.2) as database:
        yield database


def note(text):
    return lambda tx: tx.execute("insert into notes values (?)", (text,))


def notes(db):
    return [row[0] for row in db.query("select text from notes order by rowid")]


def test_a_write_is_a_transaction(db):
    """What work writes is visible once it returns; if it raises, nothing of it is, and the next one works."""
    assert db.write(lambda tx: (note("one")(tx), tx.changes)[1]) == 1

    def fails(tx):
        note("two")(tx)
        raise KeyError("on purpose")

    with pytest.raises(KeyError):
        db.write(fails)
    refusal(StoreError, db.write, lambda tx: tx.execute("select * from nowhere"), match="no such table")
    db.write(lambda tx: tx.executemany("insert into notes values (?)", [("three",), ("four",)]))
    assert notes(db) == ["one", "three", "four"]


def test_a_write_within_a_write_joins_it(db):
    """It neither waits for itself nor commits early, and if it fails only its own part is undone."""

    def outer(tx):
        db.write(note("inner"))
        with pytest.raises(KeyError):
            db.write(lambda tx: (note("undone")(tx), {}["missing"]))
        note("outer")(tx)
        assert notes(db) == []

    db.write(outer)
    assert notes(db) == ["inner", "outer"]


def test_a_transaction_ends_with_its_work(db):
    """A transaction that was carried out of its work refuses to write."""
    kept = []
    db.write(kept.append)
    refusal(StoreError, kept[0].execute, "select 1", match="has ended")


def test_waiting_for_oneself_is_refused(db):
    """A write that asks for its own end gets an error; what runs after a commit may write again."""
    for wait in (db.flush, db.checkpoint):
        refusal(StoreError, db.write, lambda tx, wait=wait: wait(), match="its own end")
    again = []
    db.submit(note("one")).add_done_callback(lambda _: again.append(db.write(note("two"))))
    db.flush()
    assert notes(db) == ["one", "two"]


def test_submitted_work_runs_in_order_and_flush_waits_for_it(db):
    """Nobody waits for a submit; commits keep their order, and each waits for the disk."""
    levels = [db.submit(lambda tx, n=n: (note(n)(tx), tx.execute("pragma synchronous"))[1]) for n in range(6)]
    db.flush()
    assert all(future.done() for future in levels)
    assert [future.result() for future in levels] == [[(2,)]] * 6
    assert notes(db) == list(range(6))


def test_reading_connections_cannot_write(db):
    """A query that would write is refused."""
    refusal(ReadOnlyError, db.query, "insert into notes values ('x')")


def test_every_thread_reads_what_is_committed(db):
    """Threads read side by side, and connections of threads that ended are closed."""
    db.write(note("one"))
    seen = []
    for _ in range(12):
        side_by_side(*[lambda: seen.append(notes(db))] * 4)
    assert seen == [["one"]] * 48
    assert notes(db) == ["one"]
    opened = [path.resolve() for path in Path("/proc/self/fd").iterdir()]
    # Those of two rounds, for the last of one may still stand when the next begins, and what SQLite closes a little later.
    assert opened.count(db.path.resolve()) <= 16


def test_a_closed_database_says_so(tmp_path):
    """close() runs what was submitted, may be called twice, and leaves one complete file."""
    db = Database(tmp_path / "x.db", schema=NOTES)
    last = [db.submit(note(str(n))) for n in range(20)]
    db.close()
    db.close()
    assert last[-1].done()
    for use in (lambda: db.query("select 1"), lambda: db.write(note("x")), db.flush, db.checkpoint, db.now):
        refusal(ClosedError, use, match="open it again")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.db", "x.db.lock"]
    plain = sqlite3.connect(tmp_path / "x.db")
    assert plain.execute("select count(*) from notes").fetchone() == (20,)
    plain.close()


def test_a_forgotten_close_is_a_warning(tmp_path):
    """A database that is dropped while open says so, and closes itself."""
    kept = [open_truth(tmp_path / "x.db")]
    with pytest.warns(ResourceWarning, match="was not closed"):
        kept.clear()
    with open_truth(tmp_path / "x.db") as db:
        assert db.quick_check() == []


def test_the_log_is_emptied_when_it_is_large_and_nobody_waits(tmp_path):
    """The log stays near its limit however much is written, and checkpoint() empties it at once."""
    with Database(tmp_path / "x.db", schema=NOTES, wal_limit_mb=0.1) as db:
        for _ in range(50):
            db.write(note("x" * 5000))
        db.flush()
        wal = tmp_path / "x.db-wal"
        assert wal.stat().st_size < 150_000
        db.write(note("y"))
        db.checkpoint()
        assert wal.stat().st_size == 0


def test_another_program_that_holds_the_lock_or_the_file_is_named(db):
    """Fault 15: a write waits as long as the profile says, and then tells; reading and later writing work."""
    lock = FileLock(db.path.with_name("x.db.lock"), timeout_s=0)
    with lock.hold(), pytest.raises(BusyError, match="Another process"):
        db.write(note("x"))
    lock.close()
    shell = sqlite3.connect(db.path, isolation_level=None)
    shell.execute("begin immediate")
    refusal(BusyError, db.write, note("x"), match="Another process")
    assert notes(db) == []
    shell.close()
    db.write(note("y"))
    assert notes(db) == ["y"]


def test_a_damaged_file_is_found_out(tmp_path):
    """quick_check tells about pages that were overwritten."""
    with Database(tmp_path / "x.db", schema=NOTES) as db:
        db.write(lambda tx: tx.executemany("insert into notes values (?)", [("x" * 900,)] * 100))
    with (tmp_path / "x.db").open("r+b") as file:
        file.seek(20 * 1024)
        file.write(b"\xff" * 20 * 1024)
    with Database(tmp_path / "x.db", schema=NOTES) as db:
        assert db.quick_check() != []


@pytest.mark.parametrize("path", ["", "file/below", "x" * 300, ":memory:"])
def test_an_impossible_path_is_one_sentence(tmp_path, path, monkeypatch):
    """A folder, a path below a file and a name that is too long are refused."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    refusal(InvalidInputError, open_truth, path if path == ":memory:" else tmp_path / path)


@pytest.mark.parametrize("value", ["half \ud800", 2**70])
def test_a_value_that_sqlite_cannot_hold_is_one_sentence(db, value):
    """Half characters and huge numbers raise InvalidInputError, in writing and in asking."""
    refusal(InvalidInputError, db.write, note(value), match="cannot be stored")
    refusal(InvalidInputError, db.query, "select ?", (value,), match="cannot be stored")


def test_a_forked_child_is_told_to_open_its_own(db):
    """A database does not work in a child process, and closing it there leaves the parent's alone."""
    db.write(note("one"))
    child = os.fork()
    if child == 0:
        try:
            db.query("select 1")
        except ClosedError as error:
            db.close()
            os._exit(0 if "forked" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    db.write(note("two"))
    assert notes(db) == ["one", "two"]


def remember(tx):
    row = "insert into episodes (id, kind, payload, outcome, level) values (?, 'k', '{}', 'ok', 0)"
    tx.execute(row, (tx.tick(),))
    return tx.newest


@pytest.mark.parametrize("jump", [-3600.0, -1.7e9, 86400.0, 40 * 365 * 86400.0], ids=str)
def test_recorded_order_survives_reboots_and_jumps(tmp_path, hand, jump):
    """However the wall jumps between two openings, later rows have later ticks, also after the way back."""
    ticks = []
    for wall in (hand.wall, hand.wall + jump, hand.wall):
        hand.wall = wall
        clock = Clock(wall=lambda: hand.wall, monotonic=lambda: hand.monotonic)
        with open_truth(tmp_path / "x.db", clock=clock) as db:
            ticks += [db.write(remember) for _ in range(3)]
            assert db.now() * 1e6 >= ticks[-1]
    assert ticks == sorted(set(ticks))


def test_ticks_of_other_processes_are_respected(tmp_path):
    """A second opener whose wall runs behind writes later ticks, and its now is not before the other's rows."""
    ahead, behind = Clock(wall=lambda: 1.8e9), Clock(wall=lambda: 1.79e9)
    with (
        open_truth(tmp_path / "x.db", clock=behind) as one,
        open_truth(tmp_path / "x.db", clock=ahead) as two,
    ):
        assert one.now() == 1.79e9
        first = two.write(remember)
        assert one.now() * 1e6 >= first
        assert one.write(remember) > first
        assert two.write(remember) > first + 1


def test_an_erased_newest_row_does_not_take_its_tick_along(tmp_path, hand):
    """The file keeps its newest tick even when the row that bore it is erased."""
    with open_truth(tmp_path / "x.db", clock=hand.clock) as db:
        tick = db.write(remember)
        db.write(lambda tx: tx.execute("delete from episodes"))
    hand.wall -= 3600
    clock = Clock(wall=lambda: hand.wall, monotonic=lambda: hand.monotonic)
    with open_truth(tmp_path / "x.db", clock=clock) as db:
        assert db.last_tick() > tick
        assert db.write(remember) > tick
