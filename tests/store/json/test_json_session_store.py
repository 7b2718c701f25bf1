"""`JSONSessionStore`: one file a conversation; what every store does is in the contract suite."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from edgemem import AgentLoop, JSONSessionStore, PersistSessionHook
from edgemem.errors import StoreError
from edgemem.records import Session
from support.disks import no_file_larger_than
from support.models import Caller


@pytest.fixture
def store(tmp_path, clock):
    """Return an empty store."""
    return JSONSessionStore(tmp_path / "sessions", clock=clock)


SAID = [{"role": "user", "content": "grüezi"}, {"role": "assistant", "content": "ok"}]


def test_the_file_can_be_read_by_a_person(store):
    """A conversation stands under its own name, for its owner alone, with nothing else beside it but a lock."""
    store.save("kitchen", Session(SAID, {"mood": "fine"}))
    path = store.base / "kitchen.json"
    assert json.loads(path.read_text()) == {
        "messages": SAID,
        "state": {"mood": "fine"},
        "id": "kitchen",
        "updated_at": 1_770_000_000.0,
    }
    assert "grüezi" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert store.base.stat().st_mode & 0o777 == 0o700
    assert sorted(each.name for each in store.base.iterdir()) == [".lock", "kitchen.json"]


def test_sessions_of_edgevox_are_taken_as_they_are(store):
    """A folder that EdgeVox 1.3.2 wrote is listed and loaded under the names of its files."""
    store.base.mkdir()
    for n, name in enumerate(("user-42", "user:1~2")):
        path = store.base / f"{name}.json"
        path.write_text(json.dumps({"messages": SAID, "state": {"x": n}}, indent=2))
        os.utime(path, (n, n))
    assert store.list_ids() == ["user:1~2", "user-42"]
    assert store.load("user-42") == Session(SAID, {"x": 0})
    assert store.load("user:1~2") == Session(SAID, {"x": 1})
    store.save("user-42", Session([*SAID, *SAID], {"x": 0}))
    assert store.list_ids() == ["user-42", "user:1~2"]


def test_what_python_writes_and_json_does_not_know_is_taken_too(store):
    """Half a character of a stream and a number that is none, as EdgeVox's writer leaves them, spoil no session."""
    said = [*SAID, {"role": "assistant", "content": "caf\ud83d", "score": float("nan")}]
    store.base.mkdir()
    (store.base / "a.json").write_text(json.dumps({"messages": said, "state": {}}, indent=2, default=str))
    assert store.load("a") == Session([*SAID, {"role": "assistant", "content": "caf\ufffd", "score": None}])
    assert [path.name for path in store.base.iterdir()] == ["a.json"]


EDGEVOX = """
import json, sys, threading
from edgevox.agents.base import Session
from edgevox.agents.memory import JSONSessionStore
base, command = sys.argv[1:]
store = JSONSessionStore(base)
if command == "write":
    said = [{"role": "user", "content": "grüezi"}, {"role": "assistant", "content": "ok"}]
    store.save("kitchen", Session(messages=said, state={"lock": threading.Lock(), "n": 1, "__private": 1}))
else:
    print(json.dumps([store.list_ids(), store.load("kitchen").messages]))
"""


def edgevox(path, base, command):
    """Have the real EdgeVox do something in a process of its own; return what it prints."""
    env = {**os.environ, "PYTHONPATH": str(path)}
    return subprocess.run(
        [sys.executable, "-c", EDGEVOX, str(base), command],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_the_real_edgevox_and_we_read_each_others_files(store, edgevox_path):
    """A session of EdgeVox opens and goes on here; what is whole again opens there, and what it has, is all of it."""
    edgevox(edgevox_path, store.base, "write")
    found = store.load("kitchen")
    assert found.messages == SAID
    assert found.state["n"] == 1
    assert set(found.state) == {"n", "lock"}
    for text in ("more", "and more"):
        found.messages.append({"role": "user", "content": text})
        store.save("kitchen", found)
    store.close()
    assert json.loads(edgevox(edgevox_path, store.base, "read")) == [["kitchen"], found.messages]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"messages": "hello"}', b"\x00\xff"])
def test_a_damaged_session_is_set_aside_and_never_overwritten(store, damage, caplog):
    """What cannot be read keeps every byte under another name; the session begins anew, and delete erases all."""
    store.base.mkdir()
    (store.base / "a.json").write_bytes(damage)
    with caplog.at_level(logging.WARNING):
        assert store.load("a") is None
    assert "a.json.damaged-1" in caplog.text
    (store.base / "a.json").write_bytes(damage)
    store.save("a", Session(SAID))
    assert store.list_ids() == ["a"]
    assert [(store.base / f"a.json.damaged-{n}").read_bytes() for n in (1, 2)] == [damage] * 2
    assert store.delete("a")
    assert [each.name for each in store.base.iterdir()] == [".lock"]


def test_a_file_dated_in_the_future_does_not_move_the_clock(store, clock):
    """Whatever date a copied file has, the newest conversation stands first, and the robot's time stays right."""
    store.save("a", Session(SAID))
    os.utime(store.base / "a.json", (4e9, 4e9))
    store.save("b", Session(SAID))
    assert store.list_ids() == ["b", "a"]
    assert clock.now() < 2e9


def text(*words):
    """Return messages of a user."""
    return [{"role": "user", "content": word} for word in words]


class Written:
    """Counts the bytes by which the files of a folder grow, or are written anew."""

    def __init__(self, base):
        self.base, self.sizes = base, {}
        self.count()

    def count(self):
        """Return how many bytes were written since the last call."""
        before, self.sizes = self.sizes, {}
        for path in self.base.glob("*.json*"):
            stat = path.stat()
            self.sizes[path.name, stat.st_ino] = stat.st_size
        return sum(size - before.get(file, 0) for file, size in self.sizes.items())


@pytest.mark.usefixtures("patient")
def test_late_turns_write_no_more_than_early_ones(store):
    """The turns 101 to 150 write at most 1.5 times the bytes of the first 50, although the state grows by private ones."""
    written, costs = Written(store.base), []
    loop = AgentLoop(Caller(), hooks=[PersistSessionHook(store, session_id="s")])
    for n in range(150):
        loop.run(f"question {n} about the cup", speaker="ann", private=n % 10 == 0)
        costs.append(written.count())
        if n % 25 == 24:
            loop.idle(60)
            assert not (store.base / "s.jsonl").exists()
            written.count()
    assert loop.hooks.failures() == []
    assert 0 < sum(costs[100:]) <= 1.5 * sum(costs[:50])
    loop.run("the last one")
    assert (store.base / "s.jsonl").stat().st_mode & 0o777 == 0o600
    saved = JSONSessionStore(store.base).load("s")
    assert len(saved.messages) == 302
    store.close()
    assert json.loads((store.base / "s.json").read_text())["messages"] == saved.messages
    assert sorted(path.name for path in store.base.iterdir()) == [".lock", "s.json"]


VERSIONS = [
    Session(text("one"), {"old": 1, "list": [1]}),
    Session(text("one", "two", "three"), {"old": 1, "list": [1], "n": 1}),
    Session(text("one", "two", "three", "four"), {"list": [1, 2], "n": 1.0}),
    Session(text("one", "two", "five"), {"list": [1], "n": True}),
]


def as_json(session):
    """Return what tells 1 from 1.0 and from true."""
    return json.dumps([session.messages, session.state], sort_keys=True)


@pytest.fixture
def lines(store):
    """Return the file of lines beside a conversation `s` that was saved in all versions."""
    for version in VERSIONS:
        store.save("s", version)
    return store.base / "s.jsonl"


def test_a_save_cut_off_in_its_line_loses_at_most_itself(store, lines):
    """Wherever a process dies, what it had saved is loaded, without a copy set aside, and the next save goes on from there."""
    data = lines.read_bytes()
    whole = (store.base / "s.json").read_bytes()
    for cut in range(len(data) + 1):
        lines.write_bytes(data[:cut])
        (store.base / "s.json").write_bytes(whole)
        found = JSONSessionStore(store.base).load("s")
        assert as_json(found) == as_json(VERSIONS[max(0, data[:cut].count(b"\n") - 1)]), cut
        if cut % 10 == 0:
            again = JSONSessionStore(store.base)
            for word in ("six", "seven"):
                found.messages += text(word)
                again.save("s", found)
                assert JSONSessionStore(store.base).load("s") == found
    assert sorted(path.name for path in store.base.iterdir()) == [".lock", "s.json", "s.jsonl"]


def test_two_stores_write_one_conversation(store, lines):
    """Each reads what the other wrote; a file that is older than its lines is not read with them twice."""
    other = JSONSessionStore(store.base)
    old = lines.read_bytes()
    found = other.load("s")
    for n in range(3):
        for each in (other, store):
            found.messages += text(f"more {n}")
            each.save("s", found)
            assert other.load("s") == store.load("s") == found
    other.flush()
    assert not lines.exists()
    lines.write_bytes(old)  # it died before it removed them
    assert store.load("s") == found
    found.messages += text("the end")
    store.save("s", found)
    assert JSONSessionStore(store.base).load("s") == found
    assert store.delete("s")
    assert [path.name for path in store.base.iterdir()] == [".lock"]


def test_two_savers_of_one_session_leave_a_whole_file(tmp_path):
    """Fault 16: savers that come at the same moment do not write into each other's file."""

    def save(n):
        with JSONSessionStore(tmp_path / "s") as store:
            store.save("talk", Session(text(f"{n} " * 5000)))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(save, range(24)))
    (message,) = JSONSessionStore(tmp_path / "s").load("talk").messages
    assert len(set(message["content"].split())) == 1
    assert not list((tmp_path / "s").glob("*damaged*"))


@pytest.mark.parametrize("damage", [b"{}garbage{", b'{"after": 99}', b'{"after": "x"}', b"\xff\xfe", b"[1]"])
def test_damaged_lines_are_set_aside(store, lines, damage, caplog):
    """What stands before the damage is loaded, every byte is kept under another name, and delete erases that too."""
    written = lines.read_bytes().splitlines(keepends=True)
    written[2] = damage + b"\n"
    lines.write_bytes(b"".join(written))
    with caplog.at_level(logging.WARNING):
        assert store.load("s") == VERSIONS[1]
    assert "s.jsonl.damaged-1" in caplog.text
    assert (store.base / "s.jsonl.damaged-1").read_bytes() == b"".join(written)
    assert JSONSessionStore(store.base).load("s") == VERSIONS[1]
    assert store.delete("s")
    assert [path.name for path in store.base.iterdir()] == [".lock"]


def test_lines_beside_a_file_of_another_hand_are_not_read(store, lines):
    """What EdgeVox wrote over it is the conversation; a copy of the lines is kept. An edit that left the date leaves them."""
    path = store.base / "s.json"
    path.write_text(path.read_text().replace("one", "eins"))
    assert [message["content"] for message in store.load("s").messages] == ["eins", "two", "five"]
    path.write_text(json.dumps({"messages": SAID, "state": {}}))
    assert store.load("s") == Session(SAID)
    assert [path.name for path in store.base.glob("*.jsonl*")] == ["s.jsonl.damaged-1"]


@pytest.mark.parametrize("saves", [1, 2])
def test_a_disk_that_takes_half_a_save_leaves_what_was(store, saves):
    """The error says so, what was there is intact, and the same save succeeds when there is room."""
    for version in VERSIONS[:saves]:
        store.save("s", version)
    files = list(store.base.glob("s.json*"))
    before = [path.read_bytes() for path in files]
    with no_file_larger_than(max(map(len, before)) + 10), pytest.raises(StoreError, match="too large"):
        store.save("s", Session(SAID * 20))
    assert [path.read_bytes() for path in files] == before
    assert store.load("s") == VERSIONS[saves - 1]
    store.save("s", Session(SAID * 20))
    assert JSONSessionStore(store.base).load("s") == Session(SAID * 20)
