"""`JSONSessionStore`: one file a conversation; what every store does is in the contract suite."""

import json
import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from edgemem import JSONSessionStore
from edgemem.errors import StoreError
from edgemem.records import Session
from edgemem.store.db.files import look
from support.disks import no_file_larger_than


@pytest.fixture
def store(tmp_path, clock):
    return JSONSessionStore(tmp_path / "sessions", clock=clock)


SAID = [{"role": "user", "content": "grüezi"}, {"role": "assistant", "content": "ok"}]


def test_the_file_can_be_read_by_a_person(store):
    """A conversation stands under its own name, for its owner alone, with nothing else beside it."""
    store.save("kitchen", Session(SAID, {"mood": "fine"}))
    path = store.base / "kitchen.json"
    kept = {"messages": SAID, "state": {"mood": "fine"}, "id": "kitchen", "updated_at": 1_770_000_000.0}
    assert json.loads(path.read_text()) == kept
    assert "grüezi" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert store.base.stat().st_mode & 0o777 == 0o700
    assert sorted(each.name for each in store.base.iterdir()) == ["kitchen.json"]


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
    env = {**os.environ, "PYTHONPATH": str(path)}
    program = [sys.executable, "-c", EDGEVOX, str(base), command]
    return subprocess.run(program, env=env, capture_output=True, text=True, check=True).stdout


def test_the_real_edgevox_and_we_read_each_others_files(store, edgevox_path):
    """A session of EdgeVox opens and goes on here; what is whole again opens there, and what it has, is all of it."""
    edgevox(edgevox_path, store.base, "write")
    found = store.load("kitchen")
    assert (found.messages, found.state["n"]) == (SAID, 1)
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
    assert list(store.base.iterdir()) == []


def test_a_file_dated_in_the_future_does_not_move_the_clock(store, clock):
    """Whatever date a copied file has, the newest conversation stands first, and the robot's time stays right."""
    store.save("a", Session(SAID))
    os.utime(store.base / "a.json", (4e9, 4e9))
    store.save("b", Session(SAID))
    assert store.list_ids() == ["b", "a"]
    assert clock.now() < 2e9


def text(*words):
    return [{"role": "user", "content": word} for word in words]


def test_each_save_is_the_whole_file(store):
    """What was there is replaced in one step; a save that changes nothing leaves the file, and 1 is not 1.0 or true."""
    for version in (
        Session(text("one"), {"old": 1, "n": 1}),
        Session(text("one", "two", "three"), {"n": 1.0}),
        Session(text("one", "four"), {"n": True}),
    ):
        store.save("s", version)
        before = look(store.base / "s.json")
        store.save("s", version)
        assert look(store.base / "s.json") == before
        found = JSONSessionStore(store.base).load("s")
        read, saved = ([it.messages, sorted(it.state.items())] for it in (found, version))
        assert str(read) == str(saved)


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


def test_a_disk_that_takes_half_a_save_leaves_what_was(store):
    """The error says so, what was there is intact, and the same save succeeds when there is room."""
    store.save("s", Session(SAID))
    before = (store.base / "s.json").read_bytes()
    with no_file_larger_than(len(before) + 10), pytest.raises(StoreError, match="too large"):
        store.save("s", Session(SAID * 20))
    assert (store.base / "s.json").read_bytes() == before
    store.save("s", Session(SAID * 20))
    assert JSONSessionStore(store.base).load("s") == Session(SAID * 20)
