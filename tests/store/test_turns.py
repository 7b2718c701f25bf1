"""Turns and epochs, and sessions of them: one transaction a turn, only what is new written, durable when it says so."""

import copy
import itertools
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem.clock import Clock
from edgemem.errors import InvalidInputError
from edgemem.memory import Memory
from edgemem.records import Epoch, Heard, Reader, Session, StoredMessage, Turn, TurnState
from edgemem.store import turns
from edgemem.store.db.database import Database
from edgemem.store.db.transaction import Transaction
from edgemem.store.messages import stored_message, without_thoughts
from edgemem.store.sessions import SINCE, SQLiteSessionStore
from edgemem.store.turns import commit_turn, read_turns
from support.homes import conversation, home_with, told, turns_of
from support.loops import loop_of, python, robot
from support.refusals import refusal


def turn(n: int, *, reply: str = "Hello.", state: TurnState = "complete", **more: Any) -> Turn:
    answer = StoredMessage("assistant", reply, tokens=(1, 2, 2**31 - 1))
    said = (StoredMessage("user", f"utterance {n}"), answer)
    return Turn("kitchen", n, said, state, **more)


def test_a_turn_is_written_once(truth: Database) -> None:
    """A number that is taken, an empty turn and bad token ids are refused, and nothing is lost."""
    truth.write(lambda tx: turns.commit_turn(tx, turn(0)))
    truth.write(lambda tx: turns.commit_turn(tx, turn(1)))
    for wrong in (turn(1, reply="other"), turn(0), Turn("kitchen", 2, ()), turn(2, state="open")):
        refusal(InvalidInputError, truth.write, lambda tx, wrong=wrong: turns.commit_turn(tx, wrong))
    bad = Turn("kitchen", 2, (StoredMessage("assistant", "x", tokens=(2**40,)),))
    refusal(InvalidInputError, truth.write, lambda tx: turns.commit_turn(tx, bad), match="Token ids")
    assert [t.n for t in turns.read_turns(truth, "kitchen")] == [0, 1]
    assert (turns.last_number(truth, "kitchen"), turns.last_number(truth, "nobody")) == (1, -1)
    assert turns.read_turns(truth, "nobody") == []


def test_nothing_is_scanned(truth: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every statement of turns, epochs and sessions finds its rows through a key; only names are all listed."""
    run: list[tuple[str, Any]] = []
    execute, query, many = Transaction.execute, Database.query, Transaction.executemany

    def note_many(tx: Transaction, sql: str, rows: Any) -> None:
        rows = list(rows)
        run.extend((sql, row) for row in rows[:1])
        many(tx, sql, rows)

    monkeypatch.setattr(
        Transaction, "execute", lambda tx, sql, p=(): (run.append((sql, p)), execute(tx, sql, p))[1]
    )
    monkeypatch.setattr(Transaction, "executemany", note_many)
    monkeypatch.setattr(Database, "query", lambda d, sql, p=(): (run.append((sql, p)), query(d, sql, p))[1])
    truth.write(lambda tx: turns.commit_turn(tx, turn(0, reply="x")))
    truth.write(lambda tx: turns.amend_turn(tx, "kitchen", 0, ["H"]))
    truth.write(lambda tx: turns.commit_turn(tx, turn(1)))
    truth.write(lambda tx: turns.erase_turn(tx, "kitchen", 1))
    turns.last_number(truth, "kitchen")
    turns.read_turns(truth, "kitchen", from_n=1, reader=Reader("alice"))
    turns.read_words(truth, "kitchen", most=3, since=0.0, reader=Reader("alice"))
    truth.write(lambda tx: turns.append_epoch(tx, Epoch("kitchen", 0)))
    turns.latest_epoch(truth, "kitchen")
    store = SQLiteSessionStore(truth)
    session = store.load("kitchen")
    store.save("kitchen", Session([session.messages[0], {"role": "user", "content": "new"}], {"a": 1}))
    store.save("kitchen", Session([session.messages[0]]))
    monkeypatch.undo()
    store.delete("kitchen")  # forgetting looks at the blocks of all turns, and waits for nobody
    with sqlite3.connect(f"file:{truth.path}?mode=ro", uri=True) as plans:
        for sql, values in run:
            if sql.startswith(("savepoint", "release", "rollback", "pragma")):
                continue
            for *_, step in plans.execute(f"explain query plan {sql}", values):
                assert "SCAN" not in step.removeprefix("SCAN s").removeprefix("SCAN CONSTANT"), (sql, step)
    plans.close()
    assert len(run) > 30


@pytest.fixture
def hurried(tmp_path: Path) -> Iterator[Memory]:
    with edgemem.open(home_with(tmp_path / "hurried", wait=0), worker=False) as opened:
        yield opened


class SlowDisk:
    def __init__(self, memory: Memory) -> None:
        self._written = threading.Event()
        self._future = memory.diagnostics.database.submit(lambda tx: self._written.wait(60))

    def goes_on(self) -> None:
        self._written.set()
        assert self._future.result()


WHOLE = [("user", "a timer"), ("assistant", "One moment."), ("tool", "set"), ("assistant", "You said: set")]


def test_closing_writes_what_the_disk_owes(hurried: Memory) -> None:
    """A memory that is closed while writes wait loses none of them, a barge-in included."""
    disk = SlowDisk(hurried)
    loop = loop_of(hurried)
    loop.run("a timer")
    loop.interrupt("You said")
    threading.Timer(0.1, disk.goes_on).start()
    hurried.close()
    with edgemem.open(hurried.home, worker=False) as again:
        (turn,) = turns_of(again)
        assert turn.state == "interrupted"
        assert told(turn) == [*WHOLE[:3], ("assistant", "You said")]
        assert turn.messages[-1].unheard == ": set"


def test_a_write_that_fails_is_told(hurried: Memory) -> None:
    """A commit that fails behind the talk is counted as a failure of its hook, and the talk goes on."""
    loop = loop_of(hurried)
    loop.run("one")
    hurried.diagnostics.database.flush()
    stuck = "create trigger stuck before insert on turns begin select raise(abort, 'worn out'); end"
    hurried.diagnostics.database.write(lambda tx: tx.execute(stuck))
    for text in ("two", "three"):
        assert loop.run(text).reply == f"You said: {text}"
    hurried.diagnostics.database.write(lambda tx: tx.execute("drop trigger stuck"))
    assert loop.run("four").reply == "You said: four"
    hurried.diagnostics.database.flush()
    assert [told(turn)[0][1] for turn in turns_of(hurried)] == ["one", "four"]
    assert {(f.hook, "worn out" in f.message) for f in loop.hooks.failures()} == {("session", True)}


def test_two_processes_in_one_session_lose_nothing(tmp_path: Path) -> None:
    """Where both want a number one gets the next; every turn is there once, with its own barge-in."""
    home = home_with(tmp_path / "home", wait=60)
    talk = robot(
        """
        loop = loop_of(memory)
        loop.run(f"{sys.argv[2]} begins")
        for n in range(30):
            if n % 5 == 0:
                print("ready", flush=True)
                sys.stdin.readline()
            loop.run(f"{sys.argv[2]} {n}" + (" timer" if n % 2 else ""))
            if n % 5 == 0:
                loop.interrupt("You said")
        print(loop.hooks.failures())
        """
    )
    talks = [python(talk, home, name) for name in ("anna", "bert")]
    for _ in range(6):  # neither is done before the other begins, however the processor is shared
        for talk_ in talks:
            assert talk_.stdout.readline() == "ready\n"
        for talk_ in talks:
            talk_.stdin.write("go\n")
            talk_.stdin.flush()
    assert [talk_.communicate(timeout=60)[0] for talk_ in talks] == ["[]\n"] * 2
    with edgemem.open(home, worker=False) as memory:
        assert memory.diagnostics.database.quick_check() == []
        turns = turns_of(memory)
        assert len(turns) == 62
        assert all(a.n < b.n for a, b in itertools.pairwise(turns))
        assert all(a.messages[-1].id < b.messages[0].id for a, b in itertools.pairwise(turns))
        for name in ("anna", "bert"):
            mine = [turn for turn in turns if str(turn.messages[0].content).startswith(name)]
            said = [f"{name} {n}" + (" timer" if n % 2 else "") for n in range(30)]
            assert [turn.messages[0].content for turn in mine] == [f"{name} begins", *said]
            for n, turn in enumerate(mine[1:]):
                assert len(turn.messages) == (4 if n % 2 else 2)
                reply = turn.messages[-1]
                if n % 5:
                    assert (turn.state, reply.unheard) == ("complete", None)
                else:
                    assert (turn.state, reply.content) == ("interrupted", "You said")
                    assert reply.unheard == (": set" if n % 2 else f": {name} {n}")
        names = [str(turn.messages[0].content)[:4] for turn in turns]
        assert sum(a != b for a, b in itertools.pairwise(names)) > 4, "they did not talk at the same time"
        assert memory.diagnostics.database.query("select count(*) from messages") == [(2 * 62 + 2 * 30,)]


BLOCK = "<memory>\n- Alice is allergic to nuts\n</memory>\n"


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[SQLiteSessionStore]:
    with SQLiteSessionStore(tmp_path / "sessions.db", clock=clock) as sessions:
        yield sessions


def rows(store: SQLiteSessionStore) -> int:
    return int(store.database.query("select count(*) from messages")[0][0])


def test_a_save_writes_only_what_is_new(store: SQLiteSessionStore) -> None:
    """One more turn adds its own rows and touches no other; saving again adds nothing."""
    session = Session(conversation(50))
    store.save("a", session)
    newest = store.database.last_tick()
    store.save("a", session)
    assert store.database.last_tick() == newest, "nothing new opens no transaction"
    session.messages += conversation(1)[1:]
    store.save("a", session)
    assert rows(store) == 51 * 4 + 1
    assert store.database.query("select count(*) from messages where id > ?", (newest,)) == [(4,)]
    assert store.database.query("select count(*) from turns where recorded > ?", (newest,)) == [(1,)]
    assert store.database.query("select count(*) from index_queue") == [(0,)]


def test_a_copied_list_is_recognised_by_content(store: SQLiteSessionStore, tmp_path: Path) -> None:
    """After a restart, or from a loop that copies its messages, what is stored is found by what it says."""
    store.save("a", Session(conversation(4)))
    store.save("a", Session(copy.deepcopy(conversation(4))))
    store.close()
    with SQLiteSessionStore(tmp_path / "sessions.db") as again:
        again.save("a", Session(conversation(5)))
        assert rows(again) == 5 * 4 + 1
    with SQLiteSessionStore(tmp_path / "sessions.db") as again:
        session = again.load("a")
        session.messages.append({"role": "user", "content": "more"})
        again.save("a", session)
        assert rows(again) == 5 * 4 + 2


def test_a_change_before_the_end_writes_a_new_version(store: SQLiteSessionStore) -> None:
    """From the change on messages are written anew; the old ones stay as dropped, and the index hears of them."""
    session = Session(conversation(3))
    store.save("a", session)
    session.messages[5] = {"role": "user", "content": "question 1, corrected"}
    store.save("a", session)
    assert store.load("a") == session
    assert rows(store) == 13 + 8
    assert store.database.query("select count(*) from messages where dropped is not null") == [(8,)]
    assert store.database.query("select count(*) from index_queue") == [(8,)]
    assert [turn.n for turn in read_turns(store.database, "a")] == [0, 1, 2]
    del session.messages[3:]
    store.save("a", session)
    assert store.load("a") == session
    session.messages.clear()
    store.save("a", session)
    assert store.load("a") == Session()
    assert read_turns(store.database, "a") == []


def test_a_rewrite_keeps_who_may_read_what(store: SQLiteSessionStore) -> None:
    """When a loop trims its list, turns that move keep level and speaker; a summary of private ones is private."""
    secret = (StoredMessage("user", "my PIN is 1234"), StoredMessage("assistant", "I keep it to myself."))
    heard = Heard(speaker="alice")
    turns = (
        Turn("a", 0, (StoredMessage("user", "hello"), StoredMessage("assistant", "hi")), level="shared"),
        Turn("a", 1, secret, level="private", owner="alice", heard=heard, block=BLOCK),
        Turn("a", 2, (StoredMessage("user", "any milk?"), StoredMessage("assistant", "yes"))),
    )
    for turn in turns:
        store.database.write(lambda tx, turn=turn: commit_turn(tx, turn))
    session = store.load("a")
    session.messages[0:2] = [{"role": "user", "content": "summary: alice's PIN is 1234"}]
    store.save("a", session)
    found = read_turns(store.database, "a")
    assert [(turn.level, turn.owner) for turn in found] == [("private", "alice")] * 2 + [("household", None)]
    assert (found[1].heard, found[1].block) == (heard, BLOCK)
    assert [turn.n for turn in read_turns(store.database, "a", reader=Reader("bob"))] == [2]


def test_blocks_are_kept_apart_from_what_was_said(store: SQLiteSessionStore) -> None:
    """A block that we issued is split off by its bytes; text that only looks like one is what was said."""
    alike = "<memory>\n- not ours\n</memory>\nhello"
    said = (StoredMessage("user", "what can I eat?"), StoredMessage("assistant", BLOCK))
    store.database.write(lambda tx: commit_turn(tx, Turn("a", 0, said, block=BLOCK)))
    texts = (BLOCK + "what can I eat?", BLOCK, alike)
    roles = ("user", "assistant", "user")
    listed = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
    store.save("a", Session(listed))
    assert rows(store) == 3
    found = store.load("a")
    assert [message["content"] for message in found.messages] == ["what can I eat?", BLOCK, alike]
    assert [turn.block for turn in read_turns(store.database, "a")] == [BLOCK, ""]


def test_sessions_since_a_time_are_found_by_the_order_of_ids(store: SQLiteSessionStore) -> None:
    """Neither the messages nor the sessions from before are looked at."""
    for n in range(30):
        store.save(f"s{n}", Session(conversation(3)))
    plan = [str(row[3]) for row in store.database.query(f"explain query plan {SINCE}", {"since": 1})]
    assert any("SEARCH messages USING INTEGER PRIMARY KEY (rowid>" in step for step in plan)
    assert not [step for step in plan if step.startswith("SCAN") and "messages" in step]
    assert any(step.startswith("SEARCH s USING INTEGER PRIMARY KEY (rowid=") for step in plan), plan


DATA = "QUJD" * 100_000
PNG = {"type": "base64", "media_type": "image/png", "data": DATA}


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (
            {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{DATA}"}},
            "(image/jpeg, 300 kB)",
        ),
        ({"type": "image", "source": PNG}, "(image/png, 300 kB)"),
        ({"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}}, "(wav, 300 kB)"),
        ({"inline_data": {"mime_type": "image/webp", "data": DATA}}, "(image/webp, 300 kB)"),
        ({"type": "image", "image": b"A" * 300_000}, "(image, 300 kB)"),
    ],
)
def test_bytes_are_kept_as_their_type_and_size(part: dict[str, Any], words: str) -> None:
    """An image stands in no database, and its words are not what somebody said."""
    stored = stored_message({"role": "user", "content": [part, {"type": "text", "text": "What is it?"}]})
    assert stored.content == "What is it?"
    assert stored.extra["content"] == [{"type": "text", "text": text} for text in (words, "What is it?")]


def test_an_address_is_kept() -> None:
    """A part without bytes is kept as it is."""
    part = {"type": "image_url", "image_url": {"url": "file:cup.png"}}
    assert stored_message({"role": "user", "content": [part]}).extra["content"] == [part]


def test_what_people_say_is_kept_as_said() -> None:
    """Only a model thinks aloud."""
    message = {"role": "user", "content": "What does <think> mean? </think>"}
    assert without_thoughts(message) is message
    assert stored_message({"role": "assistant", "content": "Fine."}, [1]).tokens == (1,)
