"""The spool: records of one process, its room, who takes it over; turns that cannot be written wait in order and come once."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import edgemem
from edgemem.config import Profile, StoreSettings, ToolSettings
from edgemem.errors import BusyError, DiskFullError, InvalidInputError, StoreError
from edgemem.hooks import EpisodeLoggerHook, MemoryInjectionHook
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.records import Reply, StoredMessage, ToolCall, Turn
from edgemem.session.stored import TURNS_WAIT
from edgemem.session.tools import Tool
from edgemem.store.json.memory import JSONMemoryStore
from edgemem.store.kinds import open_truth
from edgemem.store.memory_store import SQLiteMemoryStore
from edgemem.store.sessions import SQLiteSessionStore
from edgemem.store.spool import ROOM, DeferredWrites, Record, Spool, read_foreign_spool, spool_paths
from support.disks import LOCK, SQLITE, held, no_file_larger_than, ordinary_user
from support.homes import check_of, home_of, told, turns_of
from support.loops import loop_of
from support.models import Listener
from support.refusals import refusal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.db"


@pytest.fixture
def spool(path: Path) -> Iterator[Spool]:
    opened = Spool.create(path)
    yield opened
    opened.close()


orders = st.lists(st.one_of(st.binary(min_size=1, max_size=9).map(bytes.hex), st.integers(0, 9)), max_size=30)


@given(orders)
def test_records_come_and_go_in_any_order(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    """The file holds what was put and not erased, no record runs into another, and its size stays."""
    spool = Spool.create(tmp_path_factory.getbasetemp() / "records.db")
    records: list[Record] = []
    try:
        for step in steps:
            if isinstance(step, str):
                records.append(spool.put(step.encode()))
            elif records:
                spool.erase(records.pop(step % len(records)))
            expected = sorted(record.text for record in records)
            assert sorted(record.text for record in spool.read()) == expected
            assert sorted(read_foreign_spool(spool.path)[0]) == expected
            assert spool.empty == (not records)
            assert spool.path.stat().st_size == ROOM
        assert not spool.damaged
    finally:
        spool.path.unlink()
        spool.close()


def test_a_file_is_one_process_s_until_it_is_closed(path: Path) -> None:
    """Nobody else takes it over before; afterwards one does, once, with what stands in it."""
    spool = Spool.create(path)
    assert spool.path.stat().st_blocks * 512 >= ROOM, "the room is taken from the disk at once"
    spool.put(b"one")
    assert spool.path.stat().st_mode & 0o777 == 0o600
    assert Spool.abandoned(path) == []
    spool.close()
    spool.close()
    (taken,) = Spool.abandoned(path)
    assert Spool.abandoned(path) == []
    assert [record.text for record in taken.read()] == [b"one"]
    second = Spool.create(path)
    assert spool_paths(path) == [taken.path, second.path]
    for each in (taken, second):
        each.close()


def test_a_file_of_zeros_is_empty(path: Path) -> None:
    """What a pulled plug leaves of a file that was just made is taken over like any other."""
    path.with_name("x.db.spool-1").write_bytes(bytes(ROOM))
    (taken,) = Spool.abandoned(path)
    assert taken.read() == []
    assert not taken.damaged
    taken.put(b"one")
    assert read_foreign_spool(taken.path) == ([b"one"], 0)
    taken.close()


def test_what_does_not_fit_leaves_the_rest_as_it_was(spool: Spool) -> None:
    """A write that a full disk cuts off takes nothing from the records before, nor from the room."""
    spool.put(b"one")
    with no_file_larger_than(ROOM):
        with pytest.raises(OSError, match="too large"):
            spool.put(b"x" * (ROOM + 1))
        spool.put(b"y" * 1000)
    assert read_foreign_spool(spool.path)[0] == [b"one", b"y" * 1000]
    assert spool.path.stat().st_size == ROOM
    assert b"x" not in spool.path.read_bytes()


def test_a_file_that_grew_for_a_very_long_turn_is_cut_once_it_is_empty(spool: Spool) -> None:
    """It does not stay as large as the longest turn that ever was."""
    spool.erase(spool.put(b"x" * 2 * ROOM))
    assert spool.path.stat().st_size == ROOM
    assert b"x" not in spool.path.read_bytes()


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_a_file_that_cannot_be_written_is_left_alone(path: Path, code: int, monkeypatch: Any) -> None:
    """On a disk that is mounted read-only nothing is taken over, and nothing fails; what waits there can be counted."""
    spool = Spool.create(path)
    spool.put(b"one")
    spool.close()
    plain = os.open

    def read_only(name: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY):
            raise OSError(code, os.strerror(code), str(name))
        return plain(name, flags, *rest, **more)

    monkeypatch.setattr(os, "open", read_only)
    assert Spool.abandoned(path) == []
    assert read_foreign_spool(spool.path) == ([b"one"], 0)
    with pytest.raises(OSError, match=os.strerror(code)):
        Spool.create(path)


LONG_S = 20.0  # a turn that waited for the lock would not end before it is let go


def test_an_episode_is_tried_again_after_the_database_gave_up(tmp_path: Path) -> None:
    """A lock that lasts longer than the database waits costs no episode either, also if nothing more happens."""
    with open_truth(tmp_path / "m.db", busy_timeout_s=0.05) as database:
        later = DeferredWrites(store := SQLiteMemoryStore(database))
        with held(SQLITE, tmp_path / "m.db"):
            written = [later.write(lambda n=n: store.add_episode("x", {"n": n}, "ok")) for n in range(3)]
            refusal(BusyError, database.write, lambda tx: tx.execute("select 1"))
        for each in written:
            each.result(timeout=LONG_S)
        assert [episode.payload["n"] for episode in store.recent_episodes()] == [0, 1, 2]


def test_what_is_wrong_is_refused_and_holds_up_nothing(tmp_path: Path) -> None:
    """A write that can never succeed is no reason to keep the others waiting."""
    with SQLiteMemoryStore(tmp_path / "m.db") as store:
        later = DeferredWrites(store)
        wrong = later.write(lambda: store.add_fact("", "x"))
        right = later.write(lambda: store.add_fact("tea", "green"))
        refusal(InvalidInputError, wrong.result, timeout=LONG_S)
        right.result(timeout=LONG_S)
        assert store.get_fact("tea") == "green"


def test_a_json_file_that_is_held_keeps_no_turn_waiting(tmp_path: Path) -> None:
    """The turn's end asks for the file to be written, and does not wait for whoever holds it."""
    path, model = tmp_path / "m.json", Listener()
    with JSONMemoryStore(path, flush_after_s=LONG_S) as store:
        store.add_fact("a", "b")
        store.flush()
        light = Tool("light", "", {"type": "object", "properties": {}}, lambda: "on")
        hooks = [MemoryInjectionHook(store), EpisodeLoggerHook(store)]
        loop = AgentLoop(model, hooks=hooks, tools=[light])
        with held(LOCK, tmp_path / ".m.json.lock"):
            model.replies = [Reply("", (ToolCall("light", {}),))]
            assert loop.run("light, please", speaker="ann").reply
            assert "light" not in path.read_text()
    assert "light" in path.read_text()


def test_a_tool_says_that_it_is_not_kept_yet(tmp_path: Path) -> None:
    """A home that another program holds: each turn ends, no answer promises too much, and all of it is kept in the end."""
    store = StoreSettings(busy_timeout_s=LONG_S, commit_wait_s=0.01)
    profile = Profile(store=store, tools=ToolSettings(write_wait_s=0.01))
    with edgemem.open(tmp_path / "home", profile=profile, worker=False) as memory:
        model = Listener()
        loop = AgentLoop(model, hooks=memory.hooks(session_id="s"), tools=memory.tools())
        memory.store.add_fact("tea", "green", scope="household")
        with held(SQLITE, tmp_path / "home" / "db" / "memory.db"):
            model.replies = [Reply("", (ToolCall("remember_fact", {"key": "pin", "value": "4711"}),))]
            (told,) = loop.run("keep my pin", speaker="ann").tools
            assert told.ok
            assert told.result.startswith("Heard, but not kept yet")
            for say in ("forget my tea", "yes"):
                model.replies = [Reply("", (ToolCall("forget_fact", {"key": "tea"}),))]
                (refused,) = loop.run(say, speaker="ann").tools
            assert "nothing was done" in str(refused.error)
        memory.diagnostics.database.flush()
        assert memory.store.get_fact("ann.pin", scope="household") == "4711"
        assert memory.store.get_fact("tea", scope="household") == "green"
        said = memory.sessions.load("s")
        asked = [m["content"] for m in said.messages if m["role"] == "user"]
        assert asked == ["keep my pin", "forget my tea", "yes"]


PROFILE = (
    '[store]\nbusy_timeout_s = {busy}\ncommit_wait_s = 1.0\n[llama]\nembedder = ""\n[time]\nline = false\n'
)


def home_in(folder: Path, *, busy: float = 0.05) -> Path:
    return home_of(folder / "home", PROFILE.format(busy=busy))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with edgemem.open(home_in(tmp_path), worker=False) as opened:
        yield opened


def said(memory: Memory, session: str = "kitchen") -> list[str | None]:
    return [told(turn)[0][1] for turn in turns_of(memory, session)]


def pending(memory: Memory) -> list[Path]:
    return [path for path in spool_paths(memory.diagnostics.database.path) if read_foreign_spool(path)[0]]


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
        refusal(BusyError, memory.sessions.journal.settle)
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
    """A turn that another loop left open cannot be written now, and is later; the history is there all the same."""
    journal = memory.sessions.journal
    said_ = (StoredMessage("user", "before"), StoredMessage("assistant", "Fine."))
    journal.commit(Turn("kitchen", 0, said_)).result(30)
    journal.accept(Turn("kitchen", 1, (StoredMessage("user", "cut off"),), "open")).result(30)
    loop = loop_of(memory)
    with held(SQLITE, memory.diagnostics.database.path):
        (handed,) = loop.run("and now?").handed
        asked = [message["content"] for message in handed if message["role"] == "user"]
        assert asked == ["before", "and now?"]
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
                refusal(BusyError, memory.sessions.journal.settle)
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
                refusal(DiskFullError, store.journal.settle)
                assert not written.done()
                refusal(StoreError, store.close, match="are lost")
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
            refusal(BusyError, beside.forget, match="Another program has turns", person="alice")
        assert len(pending(memory)) == 1
        assert memory.idle(5)
        assert (said(memory), said(memory, "hall")) == (["mine"], ["beside"])


def test_forgetting_comes_after_what_waits(memory: Memory) -> None:
    """A person is not forgotten while words of theirs still wait; once they are written, they are erased as well."""
    loop = loop_of(memory)
    with held(SQLITE, memory.diagnostics.database.path):
        loop.run("my zebra")
        refusal(StoreError, memory.forget, person="alice")
    memory.forget(person="alice")
    assert said(memory) == []
    assert b"zebra" not in b"".join(path.read_bytes() for path in (memory.home / "db").iterdir())
