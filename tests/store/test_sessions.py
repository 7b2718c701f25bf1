"""Sessions: whole conversations of which each save writes only what is new; messages of any provider as they are kept."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgemem.clock import Clock
from edgemem.records import Heard, Reader, Session, StoredMessage, Turn
from edgemem.store.messages import stored_message, without_thoughts
from edgemem.store.sessions import SINCE, SQLiteSessionStore
from edgemem.store.turns import commit_turn, read_turns
from support.homes import conversation

BLOCK = "<memory>\n- Alice is allergic to nuts\n</memory>\n"


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[SQLiteSessionStore]:
    with SQLiteSessionStore(tmp_path / "sessions.db", clock=clock) as sessions:
        yield sessions


def rows(store: SQLiteSessionStore) -> int:
    """Return how many message rows the file holds, dropped ones too."""
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
    assert found[1].heard == heard
    assert found[1].block == BLOCK
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
