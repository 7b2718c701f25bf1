"""`JSONSessionStore` between two rewrites: a save adds one line to a file beside, and what is whole is one file again when it is quiet."""

from __future__ import annotations

import json
import logging
import random
import resource
from pathlib import Path
from typing import Any

import pytest
from counts import cases

from edgemem import AgentLoop, JSONSessionStore, PersistSessionHook
from edgemem.errors import StoreError
from edgemem.records import Reply, Session


def turn(n: int, *, words: int = 20) -> list[dict[str, Any]]:
    """Return what is said in one turn."""
    return [
        {"role": "user", "content": f"question {n} " + "word " * words},
        {"role": "assistant", "content": f"answer {n} " + "word " * words},
    ]


def whole(base: Path, name: str = "s") -> list[str]:
    """Return what stands in the file that everybody reads."""
    return [message["content"] for message in json.loads((base / f"{name}.json").read_text())["messages"]]


def lines(base: Path, name: str = "s") -> Path:
    """Return the file beside it."""
    return base / f"{name}.jsonl"


def said(session: Session | None) -> list[str]:
    """Return the texts of a session."""
    assert session is not None
    return [message["content"] for message in session.messages]


class Files:
    """The bytes that a folder's files have grown or were written anew by."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.seen: dict[str, tuple[int, int]] = {}
        self.written()

    def written(self) -> int:
        """Return how many bytes were written since the last call: whole new files, and what was added to old ones."""
        total = 0
        now = {path.name: (path.stat().st_ino, path.stat().st_size) for path in self.base.glob("*")}
        for name, (inode, size) in now.items():
            before = self.seen.get(name, (0, 0))
            total += size - before[1] if inode == before[0] and size >= before[1] else size
        self.seen = now
        return total


class Echo:
    """A model that says something new each time."""

    def complete(self, messages: Any, **_: Any) -> Reply:
        """Answer as long as the question."""
        return Reply(f"You said: {messages[-1]['content']}")

    def cut(self, heard_text: str) -> None:
        """Nothing to forget."""


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("private", [False, True])
def test_late_turns_write_no_more_than_early_ones(tmp_path: Path, private: bool) -> None:
    """The turns 201 to 300 write at most 1.5 times the bytes of the first 100, also where some of them are private."""
    base = tmp_path / "s"
    base.mkdir()
    files, costs = Files(base), []
    with JSONSessionStore(base) as store:
        loop = AgentLoop(Echo(), hooks=[PersistSessionHook(store, session_id="s")])
        for n in range(300):
            loop.run(f"question {n} about the cup", speaker="ann", private=private and n % 10 == 0)
            costs.append(files.written())
            if n % 50 == 49:
                loop.idle(60)
                files.written()
        assert loop.hooks.failures() == []
    assert sum(costs[200:]) <= 1.5 * sum(costs[:100])
    assert 0 < max(costs[200:]) < 1000


def test_the_file_is_whole_when_it_is_quiet(tmp_path: Path) -> None:
    """Idle time and closing write all of it into the file that a person and EdgeVox read, and the lines go."""
    base = tmp_path / "s"
    with JSONSessionStore(base) as store:
        loop = AgentLoop(Echo(), hooks=[PersistSessionHook(store, session_id="s")])
        for text in ("one", "two", "three"):
            loop.run(text)
        assert len(whole(base)) < 6
        assert len(said(store.load("s"))) == 6
        loop.idle(60)
        assert whole(base) == said(store.load("s"))
        assert not lines(base).exists()
        loop.run("four")
        assert len(whole(base)) == 6
        assert lines(base).stat().st_mode & 0o777 == 0o600
    assert len(whole(base)) == 8
    assert sorted(path.name for path in base.iterdir()) == [".lock", "s.json"]


def test_what_is_saved_is_there_without_closing(tmp_path: Path) -> None:
    """A process that dies leaves the file and the lines, which another takes up, and goes on with."""
    base = tmp_path / "s"
    store = JSONSessionStore(base)
    session = Session()
    for n in range(5):
        session.messages += turn(n)
        session.state["n"] = n
        store.save("s", session)
    again = JSONSessionStore(base)
    assert again.load("s") == session
    session.messages += turn(5)
    before = lines(base).stat().st_size
    again.save("s", session)
    assert lines(base).stat().st_size - before < 600
    assert store.load("s") == JSONSessionStore(base).load("s") == session


def test_a_change_before_the_end_writes_what_follows_anew(tmp_path: Path) -> None:
    """From the changed message on, not all of it; parts of the state that vanish or grow are told by name."""
    base = tmp_path / "s"
    store = JSONSessionStore(base)
    session = Session([message for n in range(100) for message in turn(n)], {"a": 1, "list": [1, 2]})
    store.save("s", session)
    before = Files(base)
    session.messages[190] = {"role": "user", "content": "something else"}
    del session.messages[195:]
    session.state = {"b": None, "list": [1, 2, 3]}
    store.save("s", session)
    assert 0 < before.written() < 2000
    assert JSONSessionStore(base).load("s") == session
    store.save("s", session)
    assert before.written() == 0
    session.state["list"] = [2]
    store.save("s", session)
    assert JSONSessionStore(base).load("s") == session


@pytest.mark.long
def test_a_file_that_is_cut_anywhere_loses_at_most_the_last_save(tmp_path: Path) -> None:
    """Half a line at the end was promised to nobody: what stands before it is loaded, without a word, and goes on."""
    dice = random.Random(14)
    base = tmp_path / "s"
    store, session = JSONSessionStore(base), Session()
    ends, versions = [], []
    for n in range(30):
        session.messages += turn(n, words=dice.randrange(20))
        if n % 7 == 6:
            del session.messages[-dice.randrange(1, 9) :]
        session.state = {"n": n} if n % 3 else {}
        store.save("s", session)
        ends.append(lines(base).stat().st_size if n else 0)
        versions.append(Session(list(session.messages), dict(session.state)))
    data = lines(base).read_bytes()
    for _ in range(cases(2000)):
        cut = dice.randrange(len(data) + 1)
        lines(base).write_bytes(data[:cut] + dice.choice([b"", bytes(dice.randrange(9))]) * (cut < len(data)))
        found = JSONSessionStore(base).load("s")
        kept = max(i for i, end in enumerate(ends) if end <= cut)
        assert found == versions[kept], cut
        if dice.random() < 0.2:
            found.messages += turn(99)
            JSONSessionStore(base).save("s", found)
            assert JSONSessionStore(base).load("s") == found
    assert not list(base.glob("*damaged*"))


@pytest.mark.parametrize("damage", [b"{}garbage{", b'{"after": 99}', b'{"after": "x"}', b"\xff\xfe", b"[1]"])
def test_lines_that_are_damaged_are_set_aside(tmp_path: Path, damage: bytes, caplog: Any) -> None:
    """What stands before the damage is loaded, every byte is kept under another name, and delete erases that too."""
    base = tmp_path / "s"
    store, session = JSONSessionStore(base), Session(turn(0))
    store.save("s", session)
    for n in range(1, 4):
        session.messages += turn(n)
        store.save("s", session)
    written = lines(base).read_bytes().splitlines(keepends=True)
    written[2] = damage + b"\n"
    lines(base).write_bytes(b"".join(written))
    with caplog.at_level(logging.WARNING):
        found = JSONSessionStore(base).load("s")
    assert said(found) == said(Session(turn(0) + turn(1)))
    assert "s.jsonl.damaged-1" in caplog.text
    assert (base / "s.jsonl.damaged-1").read_bytes() == b"".join(written)
    again = JSONSessionStore(base)
    assert again.load("s") == found
    found.messages += turn(7)
    again.save("s", found)
    assert JSONSessionStore(base).load("s") == found
    assert again.delete("s")
    assert [path.name for path in base.iterdir()] == [".lock"]


def test_a_kill_between_the_file_and_its_lines_changes_nothing(tmp_path: Path) -> None:
    """Lines that the whole file has already are not read again, wherever they would fit."""
    base = tmp_path / "s"
    store, session = JSONSessionStore(base), Session([*turn(0), *turn(1)])
    store.save("s", session)
    session.messages += turn(2)
    store.save("s", session)
    del session.messages[1:]
    session.messages += turn(3)
    store.save("s", session)
    old = lines(base).read_bytes()
    store.close()
    assert not lines(base).exists()
    lines(base).write_bytes(old)
    again = JSONSessionStore(base)
    assert again.load("s") == session
    session.messages += turn(4)
    again.save("s", session)
    assert JSONSessionStore(base).load("s") == session
    assert not list(base.glob("*damaged*"))


def test_a_file_of_another_hand_comes_before_lines_that_do_not_follow_it(tmp_path: Path, caplog: Any) -> None:
    """What EdgeVox wrote over the file is the session; lines of ours beside it are kept under another name."""
    base = tmp_path / "s"
    store, session = JSONSessionStore(base), Session(turn(0))
    store.save("s", session)
    session.messages += turn(1)
    store.save("s", session)
    theirs = {"messages": turn(8), "state": {}}
    (base / "s.json").write_text(json.dumps(theirs, indent=2))
    with caplog.at_level(logging.WARNING):
        found = store.load("s")
    assert found == Session(turn(8), {})
    assert "s.jsonl.damaged-1" in caplog.text
    found.messages += turn(9)
    store.save("s", found)
    assert JSONSessionStore(base).load("s") == found


def test_a_hand_that_edits_the_whole_file_is_heeded(tmp_path: Path) -> None:
    """An edit of an old message shows, and what the lines say behind it stands."""
    base = tmp_path / "s"
    store, session = JSONSessionStore(base), Session(turn(0))
    store.save("s", session)
    session.messages += turn(1)
    store.save("s", session)
    path = base / "s.json"
    path.write_text(path.read_text().replace("question 0", "riddle 0"))
    found = store.load("s")
    assert said(found)[0].startswith("riddle 0")
    assert said(found)[1:] == said(session)[1:]


def test_a_disk_that_takes_half_a_line_leaves_none(tmp_path: Path) -> None:
    """The error says so, what was there is intact, and the same save succeeds when there is room."""
    base = tmp_path / "s"
    store, session = JSONSessionStore(base), Session(turn(0))
    store.save("s", session)
    session.messages += turn(1)
    store.save("s", session)
    before = lines(base).read_bytes()
    saved = Session([*session.messages])
    session.messages += turn(2)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, hard))
    try:
        with pytest.raises(StoreError, match="too large"):
            store.save("s", session)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert lines(base).read_bytes() == before
    assert store.load("s") == saved
    store.save("s", session)
    assert JSONSessionStore(base).load("s") == session
