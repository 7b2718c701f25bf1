"""Accepted turns: in a file beside the truth until they are written, whoever is killed, forgets or writes meanwhile."""

import signal
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import pytest

import edgemem
from edgemem.clock import Clock
from edgemem.errors import StoreError
from edgemem.memory import Memory
from edgemem.records import StoredMessage, Turn
from edgemem.store.db.database import Database
from edgemem.store.journal import TurnJournal
from edgemem.store.kinds import open_truth
from edgemem.store.spool import HEAD_BYTES, read_foreign_spool, spool_paths
from edgemem.store.turn_steps import CountOutcome
from support.disks import ordinary_user
from support.homes import home_with, told, turns_of
from support.loops import loop_of, start_in_a_tool

Talking = Callable[[Path], "subprocess.Popen[str]"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "db" / "x.db"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    with open_truth(path) as opened:
        yield opened


@pytest.fixture
def journal(database: Database) -> Iterator[TurnJournal]:
    opened = TurnJournal(database)
    yield opened
    opened.close()


@pytest.fixture
def talking() -> Iterator[Talking]:
    """Return what starts a robot in a home, and waits until it stands in its tool."""
    started: list[subprocess.Popen[str]] = []

    def start(home: Path) -> subprocess.Popen[str]:
        started.append(start_in_a_tool(home))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def turn(text: str, *, session: str = "kitchen", n: int = 0) -> Turn:
    return Turn(session, n, (StoredMessage("user", text),), "open")


def whole(text: str, *, session: str = "kitchen", n: int = 0) -> Turn:
    return Turn(session, n, (StoredMessage("user", text), StoredMessage("assistant", "Fine.")))


def heard(path: Path, session: str = "kitchen") -> list[tuple[str, str | None]]:
    """Open a truth once more, and return the state and the utterance of each turn."""
    with open_truth(path) as database:
        journal = TurnJournal(database)
        turns = journal.read_turns(session)
        numbers = [each.n for each in turns]
        assert numbers == sorted(set(numbers))
        assert waiting(path) == []
        journal.close()
        return [(each.state, told(each)[0][1]) for each in turns]


def waiting(path: Path) -> list[bytes]:
    return [text for spool in spool_paths(path) for text in read_foreign_spool(spool)[0]]


def held(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in sorted(folder.iterdir()))


def commits(path: Path) -> int:
    log = path.with_name(f"{path.name}-wal").read_bytes()
    (size,) = struct.unpack(">I", log[8:12])
    frames = range(32, len(log), size + 24)
    return sum(struct.unpack(">I", log[frame + 4 : frame + 8])[0] > 0 for frame in frames)


def test_the_database_sees_nothing_but_the_commit(journal: TurnJournal, path: Path) -> None:
    """An accepted turn is in the file alone, for its owner alone; its commit is one transaction and takes it out."""
    before = commits(path)
    accepted = journal.accept(turn("a timer, zebra"))
    accepted.result(30)
    assert commits(path) == before
    (file,) = spool_paths(path)
    assert b"zebra" in file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    assert journal.commit(whole("a timer, zebra"), accepted=accepted).result(30) == 0
    journal.database.enqueue(lambda: None).result(30)
    assert commits(path) == before + 1
    assert b"zebra" not in file.read_bytes()


def test_closing_puts_an_open_turn_into_the_database(database: Database, path: Path) -> None:
    """A memory that is closed in the middle of a turn leaves no file."""
    journal = TurnJournal(database)
    journal.commit(whole("zero"))
    journal.accept(turn("one", n=1))
    journal.close()
    journal.close()
    assert waiting(path) == []
    assert heard(path) == [("complete", "zero"), ("unfinished", "one")]


@pytest.mark.parametrize("stored", [False, True])
def test_a_turn_that_is_written_does_not_come_again(path: Path, stored: bool) -> None:
    """A kill, or a pulled plug, between the commit and the blank leaves the turn in the file too."""
    with open_truth(path) as database:
        journal = TurnJournal(database)
        accepted = journal.accept(turn("one"))
        accepted.result(30)
        (file,) = spool_paths(path)
        copy = file.read_bytes()
        if stored:
            assert journal.mark_unfinished("kitchen") == 1
        journal.commit(whole("one"), accepted=accepted).result(30)
        journal.close()
    for _ in range(2):
        file.write_bytes(copy)
        assert heard(path) == [("complete", "one")]


def damaged(record: bytes) -> dict[str, bytes]:
    """Return a record in ways in which it cannot be read."""
    return {
        "empty": b"", "cut": record[: len(record) // 2], "cut at its end": record[:-2],
        "a bit": record.replace(b"one", b"onf") + b"\0", "its beginning": bytes(20) + record[20:],
        "garbage": b"\xff garbage\n\0", "of a newer version": b"%08x %s\n\0" % (crc32(b"{}"), b"{}"),
    }  # fmt: skip


@pytest.mark.parametrize("kind", damaged(b""))
def test_a_torn_or_damaged_record_costs_no_other(path: Path, kind: str) -> None:
    """What is whole in the same file is kept; what was cut was promised to nobody; the rest is put aside for a person."""
    with open_truth(path) as database:
        journal = TurnJournal(database)
        journal.commit(whole("zero"))
        for text in ("one", "two"):
            journal.accept(turn(text, session=text)).result(30)
        (file,) = spool_paths(path)
        head, one, two, *_ = file.read_bytes().split(b"\0")
        journal.close()
        database.write(lambda tx: tx.execute("delete from turns where state = 3"))
    file.write_bytes(b"\0".join([head, damaged(one + b"\0")[kind] + bytes(7) + two, bytes(90)]))
    assert heard(path, "two") == [("unfinished", "two")]
    assert heard(path) == [("complete", "zero")]
    assert heard(path, "one") == []
    aside = list(path.parent.glob("*.damaged-*"))
    assert len(aside) == (kind in ("a bit", "its beginning", "garbage", "of a newer version"))


@pytest.mark.usefixtures("patient")
def test_what_a_tool_forgets_is_not_in_the_file_either(memory: Memory) -> None:
    """What memory shows is kept with no open turn, so nothing of it waits; and the turn's commit brings nothing back."""
    memory.store.add_fact("timer.code", "zebra", scope="user:alice")
    folder = memory.home / "db"
    seen: list[bool] = []

    def run(minutes: int) -> str:
        memory.diagnostics.database.enqueue(lambda: None).result(30)
        seen.append(any(b"zebra" in text for text in waiting(memory.diagnostics.database.path)))
        memory.forget("timer.code", scope="user:alice")
        seen.append(b"zebra" in held(folder))
        return "set"

    loop = loop_of(memory, run=run)
    assert "zebra" in str(loop.run("what is the code of my timer?").handed[0])
    assert seen == [False, False]
    (kept,) = turns_of(memory)
    assert (kept.state, kept.block, len(kept.messages)) == ("complete", "", 4)
    assert b"zebra" not in held(folder)
    assert loop.hooks.failures() == []


def test_a_person_is_forgotten_in_the_turn_of_a_dead_process_too(tmp_path: Path, talking: Talking) -> None:
    """Who forgets takes over first what was left, although it was open before the other died."""
    home = home_with(tmp_path / "home", wait=60)
    with edgemem.open(home, worker=False) as memory:
        process = talking(home)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert b"zebra" in held(home / "db")
        assert memory.forget(person="alice").erased["turns"] == 2
        assert waiting(memory.diagnostics.database.path) == []
        assert b"zebra" not in held(home / "db")


@pytest.mark.parametrize("killed", [False, True])
def test_forgetting_beside_a_turn_of_another_process(
    tmp_path: Path, killed: bool, talking: Talking, caplog: pytest.LogCaptureFixture
) -> None:
    """It does not wait for that turn, which is not written: not by its commit either."""
    home = home_with(tmp_path / "home", wait=60)
    process = talking(home)
    with edgemem.open(home, worker=False) as memory:
        assert memory.forget(person="alice").erased["turns"] == 1
    if killed:
        process.send_signal(signal.SIGKILL)
    process.communicate("go\ngo\n")
    assert heard(home / "db" / "memory.db") == []
    assert ("is left out" in caplog.text) == killed
    if killed:
        assert b"zebra" not in held(home / "db")


def test_a_turn_that_is_thrown_away_leaves_no_trace(journal: TurnJournal, path: Path) -> None:
    """Neither in the file nor in the database, whether or not that knew it."""
    for stored in (False, True):
        accepted = journal.accept(turn("zebra"))
        accepted.result(30)
        if stored:
            assert journal.mark_unfinished("kitchen") == 1
        assert journal.discard("kitchen", accepted).result(30)
        assert not journal.discard("kitchen", accepted).result(30)
        journal.database.checkpoint()
        assert b"zebra" not in held(path.parent)
        assert journal.read_turns("kitchen") == []


def test_a_turn_whose_commit_is_refused_keeps_what_was_accepted(journal: TurnJournal) -> None:
    """A write that a hook adds may be wrong for ever; what was said is not lost with it."""
    accepted = journal.accept(turn("one"))
    bad = journal.commit(whole("one"), [CountOutcome(0, success=True)], accepted=accepted)
    assert "must be text" in str(bad.exception(30))
    assert journal.commit(whole("two", n=1)).result(30) == 1
    kept = [(each.state, told(each)[0][1]) for each in journal.read_turns("kitchen")]
    assert kept == [("unfinished", "one"), ("complete", "two")]


def test_where_no_file_can_be_made_the_turn_is_committed_all_the_same(database: Database, path: Path) -> None:
    """Accepting says what is wrong; nothing else depends on it."""
    journal = TurnJournal(database)
    path.parent.chmod(0o555)
    try:
        with ordinary_user():
            accepted = journal.accept(turn("one"))
            assert isinstance(accepted.exception(30), StoreError)
            assert journal.commit(whole("one"), accepted=accepted).result(30) == 0
    finally:
        path.parent.chmod(0o700)
    journal.close()
    assert heard(path) == [("complete", "one")]


def test_a_kill_between_two_records_of_one_turn_brings_the_newer(path: Path) -> None:
    """The newer record is written before the older one goes, so both may be found."""
    with open_truth(path) as database:
        journal = TurnJournal(database)
        first = journal.accept(turn("what can I"))
        first.result(30)
        (file,) = spool_paths(path)
        older = waiting(path)[0]
        journal.accept(whole("what can I cook?"), replaces=first).result(30)
        newer = waiting(path)[0]
        journal.close()
        database.write(lambda tx: [tx.execute(f"delete from {table}") for table in ("messages", "turns")])
    for texts in ((older, newer), (newer, older)):
        records = b"".join(b"%08x %s\n\0" % (crc32(text), text) for text in texts)
        file.write_bytes(bytes(HEAD_BYTES) + records + bytes(500))
        assert heard(path) == [("unfinished", "what can I cook?")]
        with open_truth(path) as database:
            database.write(lambda tx: [tx.execute(f"delete from {table}") for table in ("messages", "turns")])


@pytest.mark.parametrize("stored", [False, True])
def test_what_replaces_a_turn_taken_up_elsewhere_is_written(journal: TurnJournal, stored: bool) -> None:
    """Whether the database has the open turn or not, its newest words are those that are written, and erased when thrown away."""
    first = journal.accept(turn("what can I"))
    if stored:
        journal.settle()
    again = journal.accept(turn("what can I cook?"), replaces=first)
    again.result(30)
    assert journal.mark_unfinished("kitchen") == 1
    assert [told(each)[0][1] for each in journal.read_turns("kitchen")] == ["what can I cook?"]
    assert journal.discard("kitchen", again).result(30)
    assert journal.read_turns("kitchen") == []


def test_two_processes_at_one_tick_keep_their_turns_apart(path: Path) -> None:
    """Whose wall clocks stand may count from the same tick; neither takes the other's turn for its own, after a crash too."""
    clocks = [Clock(wall=lambda: 0.0, monotonic=lambda: 0.0) for _ in range(2)]
    with open_truth(path, clock=clocks[0]) as one, open_truth(path, clock=clocks[1]) as other:
        journals = [TurnJournal(database) for database in (one, other)]
        for clock in clocks:
            clock.witness(max(clock.tick() for clock in clocks))
        ticks = {journal.accept(turn("good morning")).result(30) for journal in journals}
        assert len(ticks) == 2
        copies = {file: file.read_bytes() for file in spool_paths(path)}
        for journal in journals:
            journal.close()
    for file, data in copies.items():
        file.write_bytes(data)
    assert heard(path) == [("unfinished", "good morning")] * 2
