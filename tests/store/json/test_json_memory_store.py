"""`JSONMemoryStore`: one file that a person can read and edit; what every store does is in the contract suite."""

import json
import logging
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from edgemem.clock import Clock
from edgemem.errors import InvalidInputError, NewerSchemaError, StoreError
from edgemem.hooks import EpisodeLoggerHook, MemoryInjectionHook
from edgemem.loop.loop import AgentLoop
from edgemem.loop.memory_tools import memory_tools
from edgemem.records import Heard, Reply, ToolCall
from edgemem.session.tools import Tool
from edgemem.store.json.memory import JSONMemoryStore
from edgemem.store.json.sessions import JSONSessionStore
from support.kills import kill_after, start
from support.models import Model
from support.refusals import refusal


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory" / "kitchen.json"


def written(path):
    return json.loads(path.read_text())


def test_the_file_can_be_read_by_a_person(path, hand):
    """What was said stands there in order, with dates as dates and without what follows from the rest."""
    with JSONMemoryStore(path, clock=hand.clock) as store:
        store.add_fact("tea", "black", heard=Heard("alice"))
        hand.advance(60)
        store.add_fact("tea", "green ☕", valid_from=0.0, valid_to=86400.5, scope="user:alice")
        store.retract_fact("tea")
        store.set_preference("volume", "low")
        store.add_episode("tool_call", {"name": "oven"}, "ok")
    text = path.read_text()
    assert text.startswith('{\n  "about": "The memory of a robot')
    assert "☕" in text
    heard = {"trust": 2, "heard": {"speaker": "alice"}}
    while_true = {"valid_from": "1970-01-01T00:00:00Z", "valid_to": "1970-01-02T00:00:00.500000Z"}
    assert written(path)["facts"] == [
        {"key": "tea", "value": "black", "recorded_at": "2026-02-02T02:40:00Z", **heard},
        {
            "key": "tea", "value": "green ☕", "scope": "user:alice", "recorded_at": "2026-02-02T02:41:00Z",
            **while_true,
        },
        {"key": "tea", "value": None, "recorded_at": "2026-02-02T02:41:00.000001Z"},
    ]  # fmt: skip
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert sorted(each.name for each in path.parent.iterdir()) == ["kitchen.json"]


def test_hand_edits_are_taken_with_all_that_follows_from_them(path, hand):
    """A changed value, a copied entry, one with only a key and a value, and a removed one show after loading."""
    with JSONMemoryStore(path, clock=hand.clock) as store:
        for key in ("a", "b", "c"):
            store.add_fact(key, "old")
        file = written_after_flush(store)
    first, _, third = file["facts"]
    file["facts"] = [
        {"key": "typed", "value": "by hand"},
        {**first, "value": "mended"},
        {**third, "key": "copied"},
        third,
        {
            "key": "dated", "value": "x", "recorded_at": "2026-01-05T10:00:00+01:00",
            "valid_to": "2099-01-01 00:00",
        },
        {"key": "a", "value": "newer", "valid_from": "2026-02-02T02:40:00"},
    ]  # fmt: skip
    file["preferences"] = [{"key": "volume", "value": "low"}]
    file["episodes"] = [{"kind": "note", "payload": {}, "outcome": "ok"}]
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(file).encode())
    hand.advance(60)
    with JSONMemoryStore(path, clock=hand.clock) as store:
        assert {fact.key: fact.value for fact in store.facts()} == {
            "a": "newer", "typed": "by hand", "copied": "old", "c": "old", "dated": "x",
        }  # fmt: skip
        assert [fact.value for fact in store.fact_history("a")] == ["mended", "newer"]
        assert len({fact.id for fact in store.facts()}) == 5
        assert [wish.value for wish in store.preferences()] == ["low"]
        assert len(store.recent_episodes()) == 1
        assert store.fact_history("dated")[0].recorded_at == 1767603600.0
        assert store.fact_history("dated")[0].valid_to == 4070908800.0


def written_after_flush(store):
    store.flush()
    return written(store.path)


def test_what_is_broken_by_hand_while_the_store_is_open_costs_nothing(path, caplog):
    """A file that becomes unreadable between two writes is set aside, and written anew from what is known."""
    with JSONMemoryStore(path, flush_after_s=60) as store:
        store.add_fact("a", "red")
        store.flush()
        path.write_text("oops")
        store.add_fact("b", "blue")
        with caplog.at_level(logging.WARNING):
            store.flush()
        assert {entry["key"] for entry in written(path)["facts"]} == {"a", "b"}
        path.unlink()
        store.add_fact("c", "green")
    assert {entry["key"] for entry in written(path)["facts"]} == {"a", "b", "c"}
    assert path.with_name("kitchen.json.damaged-1").read_text() == "oops"
    assert "set aside" in caplog.text


TORN = (
    b"", b"{", b'{"facts": [{"key": "a", "val', b"\x00" * 100, b"[]", b'{"facts": {}}', b"\xff\xfe",
    b"[" * 10**6,
)  # fmt: skip


@pytest.mark.parametrize("damage", TORN)
def test_a_damaged_file_is_set_aside_and_never_overwritten(path, damage, caplog):
    """Fault 13: what cannot be read keeps every byte under another name, a warning tells it, and the store works."""
    path.parent.mkdir()
    for number in (1, 2):
        path.write_bytes(damage)
        os.utime(path, (1e9, 1e9))  # not a moment ago, which would mean that an editor is at it
        with caplog.at_level(logging.WARNING), JSONMemoryStore(path) as store:
            assert store.facts() == []
            store.add_fact("new", str(number))
        assert path.with_name(f"kitchen.json.damaged-{number}").read_bytes() == damage
        assert f"kitchen.json.damaged-{number}" in caplog.text
        assert written(path)["facts"][0]["value"] == str(number)


def test_one_bad_entry_spoils_only_itself(path, caplog):
    """The rest is remembered, a warning names the entry, and the file is copied before it is written anew."""
    path.parent.mkdir()
    facts = [
        {"key": "good", "value": "yes"}, {"key": 7, "value": "a number"}, {"value": "no key"}, "what?",
        {"key": "ends", "value": "early", "valid_from": 5.0, "valid_to": 4.0},
        {"key": "misspelt", "value": "kept", "valid_form": "2026-01-01T00:00:00Z"},
        {"key": "when", "value": "x", "recorded_at": 1e300},
        {"key": "slip", "value": "x", "recorded_at": "2926-01-01"},
        {"key": "day", "value": "x", "recorded_at": "monday"},
    ]  # fmt: skip
    others = {"episodes": [{"kind": ""}], "preferences": [{"key": "p", "value": "v"}]}
    original = json.dumps({"facts": facts, **others})
    path.write_text(original)
    with caplog.at_level(logging.WARNING), JSONMemoryStore(path) as store:
        assert {fact.key for fact in store.facts()} == {"good", "misspelt"}
        assert len(store.preferences()) == 1
        for words in ("fact 2", "fact 3", "fact 4", "fact 6 has 'valid_form'", "fact 7"):
            assert words in caplog.text
        store.add_fact("after", "x")
        assert store.facts()[0].recorded_at < 4e9, "the clock was not pushed by a slip of the hand"
        assert [each.name for each in path.parent.iterdir()] == ["kitchen.json"]
    assert path.with_name("kitchen.json.damaged-1").read_text() == original
    with JSONMemoryStore(path) as store:
        store.add_fact("newer", "x")
    assert not path.with_name("kitchen.json.damaged-2").exists()


def test_forgetting_reaches_what_was_set_aside(path, caplog):
    """A copy of ours that holds what is erased is erased with it, and a warning names the copy, not the fact."""
    path.parent.mkdir()
    for text in (
        '{"facts": [{"key": "user.pin", "value": "1234"',
        '{"facts": [{"value": "k\\u00f6nig"',
        '{"other',
    ):
        path.write_text(text)
        JSONMemoryStore(path).close()
    with JSONMemoryStore(path) as store:
        store.add_fact("user.pin", "1234")
        store.set_preference("title", "könig")
        with caplog.at_level(logging.WARNING):
            caplog.clear()
            assert store.forget_fact("user.pin")
            assert store.forget_preference("title")
    assert sorted(each.name for each in path.parent.glob("*damaged*")) == ["kitchen.json.damaged-3"]
    assert "kitchen.json.damaged-1" in caplog.text
    assert "pin" not in caplog.text.replace(str(path.parent), "")


def test_another_hand_is_seen_by_who_only_reads(path):
    """An edit, and what another process wrote, show with the next question, and what waits is not lost."""
    with JSONMemoryStore(path, flush_after_s=3600) as store:
        store.add_fact("a", "red")
        file = written_after_flush(store)
        before = store.facts_version()
        store.add_fact("waits", "x")
        file["facts"].append({"key": "b", "value": "by hand"})
        path.write_text(json.dumps(file))
        assert store.get_fact("b") == "by hand"
        assert store.facts_version() != before
        before = store.facts_version()
        file["facts"][0]["value"] = "green"
        path.write_text(json.dumps(file))
        assert store.facts_version() != before
        assert store.get_fact("a") == "green"
        assert {fact.key for fact in store.facts()} == {"a", "b", "waits"}
        with JSONMemoryStore(path, flush_after_s=0) as other:
            other.set_preference("volume", "low")
            assert [wish.value for wish in store.preferences()] == ["low"]
            assert other.get_fact("waits") is None
        store.flush()
    assert {entry["key"] for entry in written(path)["facts"]} == {"a", "b", "waits"}


def test_what_stands_beside_our_lists_is_kept(path):
    """A key at the top that means nothing here belongs to somebody else."""
    path.parent.mkdir()
    path.write_text(json.dumps({"facts": [], "owner": {"name": "Änne", "n": [1.5]}, "preferences": []}))
    with JSONMemoryStore(path) as store:
        store.add_fact("a", "red")
    assert written(path)["owner"] == {"name": "Änne", "n": [1.5]}
    assert written(path)["facts"][0]["value"] == "red"
    assert not list(path.parent.glob("*damaged*"))


def test_a_slow_editor_is_waited_for(path):
    """A file that was emptied a moment ago is read again before it is set aside."""
    with JSONMemoryStore(path) as store:
        store.add_fact("a", "red")
    whole = path.read_bytes()
    path.write_bytes(whole[:30])
    editor = threading.Timer(0.1, path.write_bytes, (whole,))
    editor.start()
    with JSONMemoryStore(path) as store:
        assert store.get_fact("a") == "red"
    editor.join()
    assert not list(path.parent.glob("*damaged*"))


def test_a_path_that_no_file_can_have_is_refused(tmp_path):
    """Half a character, NUL, a name of 300 letters, a path of thousands, and none."""
    for wrong in ("a\0b", "\ud800", tmp_path / ("x" * 300), "y/" * 3000, None):
        for kind in (JSONMemoryStore, JSONSessionStore):
            refusal(InvalidInputError, kind, wrong, match="cannot be at")


def test_a_newer_file_is_left_alone(path):
    """A file of a later format is not understood halfway: it is an error, and the file stays as it is."""
    path.parent.mkdir()
    path.write_text('{"format": 2, "facts": [{"key": "a", "value": "x"}]}')
    refusal(NewerSchemaError, JSONMemoryStore, path, match="update edgemem")
    assert written(path)["format"] == 2


def test_a_file_of_edgevox_is_taken_as_it_is(path, hand):
    """Facts with their history, preferences and episodes that EdgeVox 1.3.2 wrote are there, and what it forgot is not."""
    path.parent.mkdir()
    base = {"scope": "global", "source": "llm", "invalidated_at": None, "valid_to": None, "supersedes": None}
    facts = [
        {**base, "key": "mug", "value": "counter", "id": "f_1", "updated_at": 1e9 + 50, "valid_from": 1e9,
         "valid_to": 1e9 + 100, "invalidated_at": 1e9 + 100},
        {**base, "key": "mug", "value": "drawer", "id": "f_2", "updated_at": 1e9 + 100, "valid_from": 1e9 + 100,
         "supersedes": "f_1"},
        {**base, "key": "pin", "value": "1234", "id": "f_3", "updated_at": 1e9, "valid_from": 1e9,
         "valid_to": 1e9 + 7, "invalidated_at": 1e9 + 7},
        {"key": "old", "value": "legacy", "updated_at": 1e9, "source": ""},
    ]  # fmt: skip
    wishes = [{"key": "volume", "value": "low", "updated_at": 1e9}]
    lived = [{"kind": "skill", "payload": {"x": 1}, "outcome": "ok", "timestamp": 1e9, "agent": "pip"}]
    path.write_text(json.dumps({"facts": facts, "preferences": wishes, "episodes": lived}))
    for _ in range(2):
        with JSONMemoryStore(path, clock=hand.clock) as store:
            assert {fact.key: fact.value for fact in store.facts()} == {"mug": "drawer", "old": "legacy"}
            counter, drawer = store.fact_history("mug")
            assert (counter.valid_from, counter.valid_to) == (1e9, 1e9 + 100)
            assert counter.superseded_by == drawer.id
            assert (drawer.supersedes, drawer.source, drawer.is_active) == (counter.id, "llm", True)
            assert [fact.value for fact in store.facts_as_of(1e9 + 5, scope="global")][-1] == "counter"
            assert "pin" in {fact.key for fact in store.facts_as_of(1e9 + 5)}
            assert store.preferences()[0].updated_at == 1e9
            assert store.recent_episodes()[0].agent == "pip"


def test_nothing_new_writes_nothing(path):
    """Flushing, reading and saying what is known leave the file untouched."""
    with JSONMemoryStore(path) as store:
        store.add_fact("a", "red")
        store.flush()
        before = path.stat()
        store.add_fact("a", "red")
        store.facts()
        store.flush()
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


def test_a_process_that_forgets_to_close_loses_nothing(path):
    """At the end of the process the file is written all the same."""
    program = (
        "import sys; from edgemem.store.json.memory import JSONMemoryStore\n"
        "JSONMemoryStore(sys.argv[1], flush_after_s=0.2).add_fact('a', 'red')\n"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)
    assert written(path)["facts"][0]["value"] == "red"


def test_a_killed_process_leaves_a_whole_file(path):
    """Whenever the process dies, the file holds at least all that flush has returned for, and is not damaged."""
    program = (
        "import sys; from edgemem.store.json.memory import JSONMemoryStore\n"
        "store = JSONMemoryStore(sys.argv[1])\n"
        "for n in range(int(sys.argv[2]), 10**6):\n"
        "    store.add_fact(f'k{n}', 'x' * 500)\n"
        "    store.flush()\n"
        "    print(n, flush=True)\n"
    )
    done = 0
    for round_ in (3, 10, 25):
        done = int(kill_after(start(program, path, done), round_)[-1]) + 1
        with JSONMemoryStore(path) as store:
            assert {f"k{n}" for n in range(done)} <= {fact.key for fact in store.facts()}
    assert not [each for each in path.parent.iterdir() if "damaged" in each.name]


def test_without_autoload_nothing_is_lost(path):
    """A store that did not read the file starts empty, and still adds to what the file holds."""
    with JSONMemoryStore(path) as store:
        store.add_fact("a", "red")
    with JSONMemoryStore(path, autoload=False) as store:
        assert store.facts() == []
        store.add_fact("b", "blue")
    with JSONMemoryStore(path) as store:
        assert {fact.key for fact in store.facts()} == {"a", "b"}


def test_threads_may_share_a_store(path):
    """Writers, readers and flushes in several threads lose no change."""
    with JSONMemoryStore(path, flush_after_s=0.001, clock=Clock()) as store:

        def work(name):
            for n in range(40):
                store.add_fact(f"{name}.{n}", "x")
                store.add_episode(name, {"n": n}, "ok")
                store.facts()
                if n % 10 == 0:
                    store.flush()

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(work, "abc"))
        assert len(store.facts()) == 120
    assert (len(written(path)["facts"]), len(written(path)["episodes"])) == (120, 120)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("hook", [EpisodeLoggerHook, MemoryInjectionHook])
def test_a_turn_that_ends_is_in_the_file(path, hook):
    """Fault 13: a hook has the store write when the turn ends, with facts that tools added; memory's own tools do so at once."""
    store = JSONMemoryStore(path, flush_after_s=3600)

    def note():
        store.add_fact("a", "red")
        return "noted"

    remember = next(tool for tool in memory_tools(store) if tool.name == "remember_fact")
    remember.run(key="b", value="blue")
    assert written(path)["facts"][0]["value"] == "blue"
    loop = AgentLoop(
        Model(Reply("", (ToolCall("note", {}),))), hooks=[hook(store)], tools=[Tool("note", "", {}, note)]
    )
    loop.run("note it", speaker="alice", private=True)
    assert loop.hooks.failures() == []
    file = written(path)
    assert [entry["value"] for entry in file["facts"]] == ["blue", "red"]
    logged = [("private", "alice")] if hook is EpisodeLoggerHook else []
    assert [(entry["level"], entry["owner"]) for entry in file["episodes"]] == logged
    store.close()


def test_a_failed_write_loses_nothing(path, tmp_path):
    """What could not be written stays in memory, the error says why, and the next write has it."""
    store = JSONMemoryStore(path, flush_after_s=3600)
    store.add_fact("a", "red")
    path.parent.write_text("a file where a folder is needed")
    with pytest.raises((StoreError, InvalidInputError)):
        store.flush()
    with pytest.raises((StoreError, InvalidInputError)):
        store.close()
    assert store.get_fact("a") == "red"
    path.parent.unlink()
    store.close()
    assert written(path)["facts"][0]["value"] == "red"


def test_a_link_is_followed_and_a_folder_is_refused(path, tmp_path):
    """Writing through a link keeps the link; a folder is one clear error."""
    path.parent.mkdir()
    link = tmp_path / "link.json"
    link.symlink_to(path)
    with JSONMemoryStore(link) as store:
        store.add_fact("a", "red")
    assert link.is_symlink()
    assert written(path)["facts"][0]["value"] == "red"
    refusal(InvalidInputError, JSONMemoryStore, tmp_path, match="is a folder")
