"""`JSONSessionStore`: one file a conversation; what every store does is in the contract suite."""

from __future__ import annotations

import json
import logging
import os
import resource
import subprocess
import sys

import pytest

from edgemem.errors import StoreError
from edgemem.records import Session
from edgemem.store.json.sessions import JSONSessionStore


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


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    """Where no folder can be, the error names the place."""
    (tmp_path / "file").write_text("")
    with pytest.raises((StoreError, ValueError), match="file"):
        JSONSessionStore(tmp_path / "file" / "sessions").save("a", Session(SAID))


def test_the_same_once_more_writes_nothing(store):
    """Saving what is saved spares the card."""
    store.save("a", Session(SAID))
    before = (store.base / "a.json").stat()
    store.save("a", Session(list(SAID)))
    after = (store.base / "a.json").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def text(*words):
    """Return messages of a user."""
    return [{"role": "user", "content": word} for word in words]


LINES = [
    {"follows": 5.0},
    {"after": 1, "messages": text("two", "three"), "state": {"n": 1}},
    {"after": 3, "messages": text("four"), "longer": {"list": [2]}, "gone": ["old"]},
    {"after": 2, "messages": text("five"), "state": {"n": 2}},
]
VERSIONS = [
    Session(text("one"), {"old": 1, "list": [1]}),
    Session(text("one", "two", "three"), {"old": 1, "list": [1], "n": 1}),
    Session(text("one", "two", "three", "four"), {"list": [1, 2], "n": 1}),
    Session(text("one", "two", "five"), {"list": [1, 2], "n": 2}),
]
"""What the file and the first lines say together, from no line on."""


@pytest.fixture
def lines(store):
    """Return the file of lines that an earlier edgemem left beside a conversation `s`."""
    store.base.mkdir()
    whole = {"messages": text("one"), "state": {"old": 1, "list": [1]}, "id": "s", "updated_at": 5.0}
    (store.base / "s.json").write_text(json.dumps(whole))
    path = store.base / "s.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return path


@pytest.mark.parametrize("first", ["load", "save", "delete"])
def test_lines_of_an_earlier_edgemem_are_folded_once(store, lines, first):
    """The first call reads the lines and removes them; the date of the conversation stays, and deleting erases both."""
    os.utime(store.base / "s.json", (7, 7))
    if first == "delete":
        assert store.delete("s")
        assert [path.name for path in store.base.iterdir()] == [".lock"]
        return
    if first == "load":
        assert store.load("s") == VERSIONS[-1]
    else:
        store.save("s", VERSIONS[-1])
    assert (store.base / "s.json").stat().st_mtime == 7
    assert sorted(path.name for path in store.base.iterdir()) == [".lock", "s.json"]
    assert JSONSessionStore(store.base).load("s") == VERSIONS[-1]


def test_lines_that_were_cut_anywhere_lose_at_most_the_last_save(store, lines):
    """Half a line at the end was promised to nobody: what stands before it is loaded, without a copy set aside."""
    data, whole = lines.read_bytes(), (store.base / "s.json").read_bytes()
    for cut in range(len(data) + 1):
        lines.write_bytes(data[:cut])
        (store.base / "s.json").write_bytes(whole)
        assert store.load("s") == VERSIONS[max(0, data[:cut].count(b"\n") - 1)], cut
    assert sorted(path.name for path in store.base.iterdir()) == [".lock", "s.json"]


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


@pytest.mark.parametrize(
    ("updated_at", "copies"), [(6.0, []), (4.0, ["s.jsonl.damaged-1"]), (None, ["s.jsonl.damaged-1"])]
)
def test_lines_that_follow_another_writing_are_not_read(store, lines, updated_at, copies):
    """A later file has them already; beside one of another hand, they are kept under another name."""
    theirs = {"messages": SAID, "state": {}} | ({} if updated_at is None else {"updated_at": updated_at})
    (store.base / "s.json").write_text(json.dumps(theirs))
    assert store.load("s") == Session(SAID)
    assert [path.name for path in store.base.glob("*.jsonl*")] == copies


def test_a_disk_that_takes_half_a_save_leaves_what_was(store):
    """The error says so, what was there is intact, and the same save succeeds when there is room."""
    store.save("s", Session(SAID))
    before = (store.base / "s.json").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, hard))
    try:
        with pytest.raises(StoreError, match="too large"):
            store.save("s", Session(SAID * 2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (store.base / "s.json").read_bytes() == before
    store.save("s", Session(SAID * 2))
    assert JSONSessionStore(store.base).load("s") == Session(SAID * 2)
