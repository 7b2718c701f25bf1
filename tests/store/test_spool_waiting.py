"""Turns that cannot be written wait, in order, and are written once: held by another program, on a full disk, killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem.errors import BusyError, DiskFullError, StoreError
from edgemem.memory import Memory
from edgemem.records import StoredMessage, Turn
from edgemem.session.stored import TURNS_WAIT
from edgemem.store.kinds import open_truth
from edgemem.store.sessions import SQLiteSessionStore
from edgemem.store.spool import read_foreign_spool, spool_paths
from support.disks import SQLITE, held, ordinary_user
from support.homes import told, turns_of
from support.loops import loop_of

PROFILE = '[store]\nbusy_timeout_s = {busy}\ncommit_wait_s = 1.0\n[llama]\nembedder = ""\n'


def home_in(folder: Path, *, busy: float = 0.05) -> Path:
    home = folder / "home"
    home.mkdir()
    (home / "edgemem.toml").write_text(PROFILE.format(busy=busy))
    return home


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with edgemem.open(home_in(tmp_path), worker=False) as opened:
        yield opened


def said(memory: Memory, session: str = "kitchen") -> list[str | None]:
    return [told(turn)[0][1] for turn in turns_of(memory, session)]


def pending(memory: Memory) -> list[Path]:
    return [path for path in spool_paths(memory.diagnostics.database.path) if read_foreign_spool(path)[0]]


def check_of(memory: Memory, name: str) -> Any:
    (found,) = [each for each in memory.check() if each.name == name]
    return found


def test_turns_wait_while_another_program_holds_the_database(memory: Memory) -> None:
    """Each is told and kept; the next turn that can be written brings them all, once and in order."""
    loop = loop_of(memory)
    loop.run("zero")
    with held(SQLITE, memory.diagnostics.database.path):
        for text in ("one", "a timer", "three"):
            assert loop.run(text).reply
        loop.interrupt("You said")
        assert said(memory) == ["zero"]
        assert len(pending(memory)) == 1
        (failure,) = [f for f in loop.hooks.failures() if f.hook == "session" and f.point == "on_run_end"]
        assert TURNS_WAIT in failure.message
        with pytest.raises(BusyError):
            memory.sessions.journal.settle()
        assert memory.sessions.journal.backlog().turns == 3
        assert check_of(memory, "unwritten turns").state == "warn"
    loop.run("four")
    memory.diagnostics.database.flush()
    assert said(memory) == ["zero", "one", "a timer", "three", "four"]
    assert [turn.n for turn in turns_of(memory)] == [0, 1, 2, 3, 4]
    assert [turn.state for turn in turns_of(memory)] == [*["complete"] * 3, "interrupted", "complete"]
    assert turns_of(memory)[3].messages[-1].unheard == ": three"
    assert len(memory.store.recent_episodes(kind="tool_call")) == 1
    assert pending(memory) == []
    assert check_of(memory, "unwritten turns").state == "ok"
    assert check_of(memory, "hooks").detail == "no failure on record"


def test_a_session_is_taken_up_while_nothing_can_be_written(memory: Memory) -> None:
    """A turn that a crash left open cannot be marked now; the history is there all the same."""
    journal = memory.sessions.journal
    said_ = (StoredMessage("user", "before"), StoredMessage("assistant", "Fine."))
    journal.commit(Turn("kitchen", 0, said_)).result(30)
    journal.accept(Turn("kitchen", 1, (StoredMessage("user", "cut off"),), "open")).result(30)
    loop = loop_of(memory)
    with held(SQLITE, memory.diagnostics.database.path):
        (handed,) = loop.run("and now?").handed
        asked = [message["content"] for message in handed if message["role"] == "user"]
        assert asked == ["before", "cut off", "and now?"]
    assert memory.idle(10)
    states = [(turn.n, turn.state) for turn in turns_of(memory)]
    assert states == [(0, "complete"), (1, "unfinished"), (2, "complete")]


def test_idle_time_writes_what_waits(memory: Memory) -> None:
    """No further turn is needed; while it is impossible, upkeep says so."""
    loop = loop_of(memory)
    with held(SQLITE, memory.diagnostics.database.path):
        loop.run("one")
        assert not memory.idle(5)
        assert "waiting turns" in {failure.step for failure in memory.diagnostics.upkeep.failures()}
    assert memory.idle(5)
    assert said(memory) == ["one"]


def test_what_waits_at_the_end_is_taken_in_at_the_next_opening(tmp_path: Path, caplog: Any) -> None:
    """Closing says once where the turns are; the next opening has each of them exactly once, and the ones after that too."""
    home = home_in(tmp_path)
    memory = edgemem.open(home, worker=False)
    loop = loop_of(memory)
    loop.run("zero")
    with held(SQLITE, home / "db" / "memory.db"):
        loop.run("one")
        loop.run("a timer")
        loop.interrupt("You")
        memory.close()
    (message,) = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert "2 turns could not be written" in message
    (path,) = pending(memory)
    assert path.stat().st_mode & 0o777 == 0o600
    copy = path.read_bytes()
    for _ in range(2):
        with edgemem.open(home, worker=False) as again:
            assert said(again) == ["zero", "one", "a timer"]
            assert turns_of(again)[2].state == "interrupted"
            assert len(again.store.recent_episodes(kind="tool_call")) == 1
            assert pending(again) == []
    # As if the plug had been pulled between the commit and the end of the file.
    path.write_bytes(copy)
    with edgemem.open(home, worker=False) as again:
        assert said(again) == ["zero", "one", "a timer"]
        assert pending(again) == []


def test_the_bound_is_kept_and_told(tmp_path: Path) -> None:
    """One turn more than may wait is refused; those before it are written."""
    with edgemem.open(home_in(tmp_path), worker=False) as memory:
        memory.sessions.journal.most = 2
        loop = loop_of(memory)
        with held(SQLITE, memory.diagnostics.database.path):
            for n in range(3):
                loop.run(f"number {n}")
                with pytest.raises(BusyError):
                    memory.sessions.journal.settle()
            assert any("is lost" in failure.message for failure in loop.hooks.failures())
        loop.run("number 3")
        memory.diagnostics.database.flush()
        assert said(memory) == ["number 0", "number 1", "number 3"]


def test_without_a_file_turns_wait_in_memory_and_closing_says_that_they_are_lost(tmp_path: Path) -> None:
    """Where neither the database nor a file can be written, close() raises, and everything is closed all the same."""
    folder = tmp_path / "db"
    with open_truth(folder / "x.db") as database:
        store = SQLiteSessionStore(database)
        pages = database.query("pragma page_count")[0][0]
        database.write(lambda tx: tx.execute(f"pragma max_page_count = {pages}"))
        folder.chmod(0o555)
        try:
            with ordinary_user():
                turn = Turn("hall", 0, (StoredMessage("user", "x" * 5000),))
                written = store.journal.commit(turn)
                with pytest.raises(DiskFullError):
                    store.journal.settle()
                assert not written.done()
                with pytest.raises(StoreError, match="are lost"):
                    store.close()
        finally:
            folder.chmod(0o700)
        assert spool_paths(database.path) == []


def test_two_processes_that_wait_leave_each_its_own(tmp_path: Path) -> None:
    """A file belongs to the process that is alive; an opening beside it does not take it."""
    home = home_in(tmp_path)
    with edgemem.open(home, worker=False) as memory:
        with held(SQLITE, home / "db" / "memory.db"):
            loop_of(memory).run("mine")
        with edgemem.open(home, worker=False) as beside:
            assert said(beside) == []
            loop_of(beside, session="hall").run("beside")
            with pytest.raises(BusyError, match="Another program has turns"):
                beside.forget(person="alice")
        assert len(pending(memory)) == 1
        assert memory.idle(5)
        assert (said(memory), said(memory, "hall")) == (["mine"], ["beside"])


def test_forgetting_comes_after_what_waits(memory: Memory) -> None:
    """A person is not forgotten while words of theirs still wait; once they are written, they are erased as well."""
    loop = loop_of(memory)
    with held(SQLITE, memory.diagnostics.database.path):
        loop.run("my zebra")
        with pytest.raises(StoreError):
            memory.forget(person="alice")
    memory.forget(person="alice")
    assert said(memory) == []
    assert b"zebra" not in b"".join(path.read_bytes() for path in (memory.home / "db").iterdir())
