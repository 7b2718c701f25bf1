"""What every session store must do, whatever it keeps conversations in."""

import copy
import datetime
import logging
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemem.clock import Clock
from edgemem.errors import InvalidInputError
from edgemem.hooks import MemoryInjectionHook, PersistSessionHook
from edgemem.loop.loop import AgentLoop
from edgemem.records import Session
from edgemem.store import SessionStore, SQLiteMemoryStore
from edgemem.store.json.sessions import JSONSessionStore
from edgemem.store.sessions import SQLiteSessionStore
from support.homes import conversation
from support.models import Model
from support.refusals import refusal

STORES = {"sqlite": SQLiteSessionStore, "json": JSONSessionStore}


@pytest.fixture(params=STORES)
def make(request, tmp_path):
    return lambda **options: STORES[request.param](tmp_path / "sessions", **options)


@pytest.fixture
def store(make, clock):
    with make(clock=clock) as opened:
        yield opened


def test_it_is_what_a_hook_needs(store):
    """Each store fulfils the protocol, and is empty before anything is saved."""
    assert isinstance(store, SessionStore)
    assert store.list_ids() == []
    assert store.load("a") is None
    assert not store.delete("a")


def test_a_session_comes_back(make):
    """Messages and state survive closing, which may be done twice; a session without messages is one too."""
    state = {"mood": "fine", "n": 2**60, "list": [1.5, None, {"x": True}]}
    with make() as store:
        store.save("a", Session(conversation(3), dict(state)))
        store.save("empty", Session())
        store.close()
        store.close()
    with make() as store:
        found = store.load("a")
        assert found == Session(conversation(3), state)
        assert store.load("empty") == Session()
        found.messages.append({"role": "user", "content": "more"})
        assert store.load("a") == Session(conversation(3), found.state), "what is loaded is the caller's own"


class Odd:
    """A value that JSON cannot hold, and that cannot say what it is either."""

    def __str__(self):
        raise RuntimeError("no words")


def test_names_of_the_state_need_not_be_text(store, caplog):
    """Fault 16: other keys become text, and private ones are dropped, which nobody need hear of."""
    with caplog.at_level(logging.WARNING):
        state = {7: {"x": (1, 2), "__y": 1}, None: 1, "__z": object(), "t": "\ud800"}
        store.save("a", Session(conversation(1), state))
    assert store.load("a") == Session(conversation(1), {"7": {"x": [1, 2]}, "None": 1, "t": "\ufffd"})
    assert caplog.text == ""


def test_what_json_cannot_hold_of_a_state_becomes_text(make, caplog):
    """Fault 16: as EdgeVox writes it; the session is saved each time, and one warning names each key once."""
    when, circle = datetime.date(2026, 11, 2), []
    circle.append(circle)
    state = {"day": when, "deep": {"in": [1, {"a lock": threading.Lock()}]}, "odd": Odd(), "circle": circle}
    with caplog.at_level(logging.WARNING), make() as store:
        for turns in range(1, 4):
            state["n"] = turns
            store.save("a", Session(conversation(turns), state))
            store.save("b", Session(conversation(turns), {"day": when}))
        loaded = store.load("a")
    assert loaded.messages == conversation(3)
    assert loaded.state["n"] == 3
    assert loaded.state["day"] == "2026-11-02"
    assert loaded.state["deep"]["in"][0] == 1
    assert "lock" in loaded.state["deep"]["in"][1]["a lock"]
    assert "Odd" in loaded.state["odd"]
    assert isinstance(loaded.state["circle"], str)
    (warning,) = caplog.records
    assert all(f"{key!r}" in warning.getMessage() for key in ("day", "deep", "odd", "circle"))


NAMES = (
    "../../etc/passwd|..|.|/etc/passwd|.hidden|a/b|a\\b|a%2Fb|%~|~|x.json|'; drop table sessions; --|客厅"
    "| a|a.json.damaged-1|-rf *|C:"
)


@pytest.mark.parametrize("name", [*NAMES.split("|"), "x" * 256, "語" * 256])
def test_any_visible_name_is_a_session_of_its_own(make, tmp_path, name):
    """Fault 16: no id reaches a file outside, and none is mistaken for another."""
    others = ["a", "x", name + "x" if len(name) < 256 else "y" + name[1:], "etc/passwd"]
    with make() as store:
        for each in (*others, name):
            store.save(each, Session([{"role": "user", "content": each}]))
        for each in (*others, name):
            assert store.load(each).messages[0]["content"] == each
    with make() as store:
        assert store.list_ids() == [name, *reversed(others)]
        assert store.delete(name)
        assert store.load(name) is None
        assert store.list_ids() == list(reversed(others))
    inside = {"sessions", "sessions-wal", "sessions-shm", "sessions.lock"}
    assert {path.name for path in tmp_path.iterdir()} <= inside | {".sessions.lock"}


@pytest.mark.parametrize("name", ["", " ", "a\x00b", "a\n", "\ud800", "x" * 257, 7, None])
def test_other_ids_are_refused(store, name):
    """Empty, unprintable and endless ids are one clear error."""
    refusal(InvalidInputError, store.save, name, Session(conversation(1)), match="session id")
    assert store.list_ids() == []


@pytest.mark.parametrize(
    "bad", ["hello", {"content": "no role"}, {"role": 3}, {"role": "user", "x": object()}, None]
)
def test_a_message_that_cannot_be_saved_is_refused(store, bad):
    """The error says what is wrong; what was stored before stays whole, and the next save works."""
    session = Session(conversation(1))
    store.save("a", session)
    before = list(session.messages)
    session.messages += [{"role": "user", "content": "fine"}, bad]
    refusal(InvalidInputError, store.save, "a", session, match="message")
    assert store.load("a") == Session(before)
    session.messages.pop()
    store.save("a", session)
    assert store.load("a") == session


def test_odd_messages_come_back(store):
    """Parts, names, numbers that JSON lacks, half characters and a megabyte of text are kept as well as they can be."""
    parts = [{"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": {"url": "data:…"}}]
    whole = [{"role": "user", "content": parts, "name": "alice"}, {"role": "user", "content": "x" * 2**20}]
    odd = {"role": "assistant", "content": "caf\ud83d\x00é", "score": float("nan"), 3: (1, 2)}
    store.save("a", Session([*whole, odd]))
    mended = {"role": "assistant", "content": "caf\ufffdé", "score": None, "3": [1, 2]}
    assert store.load("a").messages == [*whole, mended]


def test_a_message_that_was_changed_in_place_is_saved(make):
    """Between two saves, its text, a part of it, or what another process reads; the same once more costs nothing."""
    with make() as store:
        session = Session(conversation(2))
        store.save("s", session)
        session.messages[-1]["content"] = "a longer answer"
        session.messages[3]["note"] = ["x"]
        store.save("s", session)
        assert store.load("s").messages[-1]["content"] == "a longer answer"
        assert store.load("s").messages[3]["note"] == ["x"]
        session.messages[3]["note"].append("y")
        store.save("s", session)
        loaded = store.load("s")
        loaded.messages[2]["tool_calls"][0]["function"]["name"] = "listen"
        assert store.load("s").messages[2]["tool_calls"][0]["function"]["name"] == "look"
        store.save("s", loaded)
    with make() as store:
        messages = store.load("s").messages
        assert messages[2]["tool_calls"][0]["function"]["name"] == "listen"
        assert messages[3]["note"] == ["x", "y"]
        assert len(messages) == len(conversation(2))


def test_what_is_no_session_is_refused(store):
    """None, a list and a session without messages are refused in words, and nothing is stored."""
    for wrong in (None, [], Session(messages=None), Session(state=None)):
        refusal(InvalidInputError, store.save, "s", wrong, match="A session must be")
    assert store.list_ids() == []


def test_ids_come_newest_first(make, hand):
    """The conversation that was spoken in last stands first, after reopening and although the clock went wrong."""
    sessions = {name: Session(conversation(1)) for name in "abc"}
    with make(clock=hand.clock) as store:
        for name, session in sessions.items():
            store.save(name, session)
        hand.wall -= 86400 * 300
        sessions["a"].messages.append({"role": "user", "content": "still there?"})
        store.save("a", sessions["a"])
        assert store.list_ids() == ["a", "c", "b"]
    with make(clock=Clock(wall=lambda: 0.0)) as store:
        sessions["b"].messages.append({"role": "user", "content": "and now?"})
        store.save("b", sessions["b"])
        assert store.list_ids() == ["b", "a", "c"]
        store.save("c", sessions["c"])
        assert store.list_ids() == ["b", "a", "c"], "nothing was said in c"


def test_sessions_since_a_time(make, hand):
    """Those that were spoken in then or later, newest first, in the robot's own time and after reopening."""
    with make(clock=hand.clock) as store:
        times = {}
        for name in "abc":
            store.save(name, Session(conversation(1)))
            times[name] = hand.clock.now()
            hand.advance(60)
        assert store.list_ids(since=0) == store.list_ids() == ["c", "b", "a"]
        assert store.list_ids(since=times["b"] - 30) == ["c", "b"]
        assert store.list_ids(since=times["c"] + 30) == []
        again = store.load("a")
        again.messages.append({"role": "user", "content": "still there?"})
        store.save("a", again)
        store.load("b")
        store.save("b", Session(conversation(1)))
    with make(clock=hand.clock) as store:
        assert store.list_ids(since=times["c"] + 30) == ["a"]
        assert store.list_ids(since=times["c"] - 30) == ["a", "c"]
        store.save("empty", Session())
        assert store.list_ids(since=times["c"] + 30) == ["empty", "a"]
        for wrong in (float("nan"), "today"):
            refusal(InvalidInputError, store.list_ids, match="since", since=wrong)


def test_delete_leaves_no_byte(make, tmp_path):
    """Nothing of a deleted conversation is left on the disk, nor of what it once was; others stay."""
    with make() as store:
        store.save("secret talk", Session([{"role": "user", "content": "xyzzy"}], {"x": "plugh"}))
        store.save("secret talk", Session([{"role": "user", "content": "forget xyzzy"}]))
        store.save("b", Session(conversation(1)))
        assert store.delete("secret talk")
        assert not store.delete("secret talk")
        assert store.load("secret talk") is None
        for path in tmp_path.rglob("*"):
            content = b"" if path.is_dir() else path.read_bytes()
            assert b"secret" not in content + path.name.encode()
            assert not any(word in content for word in (b"xyzzy", b"plugh"))
        assert store.load("b") == Session(conversation(1))


def test_two_open_stores_see_each_other(make):
    """What another process saved meanwhile is what is loaded."""
    with make() as one, make() as two:
        one.save("a", Session(conversation(1)))
        theirs = two.load("a")
        theirs.messages.append({"role": "user", "content": "more"})
        two.save("a", theirs)
        assert one.load("a") == theirs
        two.delete("a")
        assert one.load("a") is None


@pytest.mark.usefixtures("patient")
def test_what_is_loaded_is_what_was_said(make, tmp_path):
    """Fault 26: what memory put before the model is in no session; the next process resumes after the last word."""
    with SQLiteMemoryStore(tmp_path / "memory.db") as memory, make() as store:
        memory.add_fact("tea", "black")
        hooks = [PersistSessionHook(store, session_id="kitchen"), MemoryInjectionHook(memory)]
        loop = AgentLoop(Model(), hooks=hooks, instructions="You are Pip.")
        loop.run("tea?", speaker="alice")
        loop.interrupt("o")
    with make() as store:
        assert [message["content"] for message in store.load("kitchen").messages] == ["tea?", "o"]
        loop = AgentLoop(Model(), hooks=[PersistSessionHook(store, session_id="kitchen")])
        loop.run("still there?", speaker="alice")
        said = [message["content"] for message in store.load("kitchen").messages]
        assert said == ["tea?", "o", "still there?", "ok"]


@pytest.mark.usefixtures("patient")
def test_after_a_restart_a_private_turn_is_still_its_owners(make):
    """Fault 35: who may read a turn survives with it, whatever else the state holds, and nobody sees how it is kept."""
    with make() as store:
        loop = AgentLoop(Model(), hooks=[PersistSessionHook(store, session_id="s")])
        loop.session.state["mood"] = "fine"
        loop.run("hello", speaker="bob")
        loop.run("my PIN is 1234", speaker="alice", private=True)
        loop.run("thanks", speaker="bob")
        assert [m["content"] for m in store.load("s").messages][2] == "my PIN is 1234"
    for speaker, sees in (("bob", False), ("alice", True), ("bob", False)):
        with make() as store:
            hooks = [PersistSessionHook(store, session_id="s")]
            loop = AgentLoop(Model(), hooks=hooks)
            loop.run("and now?", speaker=speaker)
            assert ("1234" in str(loop.model.handed)) == sees
            assert "thanks" in str(loop.model.handed)
            assert loop.session.state["mood"] == "fine"
            assert {key for key in loop.session.state if key[:2] != "__"} == {"mood"}
            assert loop.hooks.failures() == []


edits = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(["user", "assistant", "tool", "system"])),
    st.tuples(st.just("cut"), st.integers(0, 6)),
    st.tuples(st.just("change"), st.integers(0, 6)),
    st.tuples(st.sampled_from(["copy", "load", "state", "delete"]), st.integers(0, 3)),
)


@pytest.fixture(scope="module", params=STORES)
def lasting(request, tmp_path_factory):
    with STORES[request.param](tmp_path_factory.mktemp("sessions") / "sessions") as store:
        yield store


@settings(max_examples=15, deadline=None)
@given(st.lists(edits, max_size=12))
def test_what_was_saved_last_is_what_is_loaded(lasting, steps):
    """Whatever a loop does to its list between saves, the store gives exactly the newest list."""
    lasting.delete("s")
    session = Session()
    for number, (what, how) in enumerate(steps):
        if what == "add":
            session.messages.append({"role": how, "content": f"{number}"})
        elif what == "cut":
            del session.messages[how:]
        elif what == "change" and how < len(session.messages):
            session.messages[how] = {**session.messages[how], "content": f"changed {number}"}
        elif what == "copy":
            session = copy.deepcopy(session)
        elif what == "load":
            session = lasting.load("s") or session
        elif what == "state":
            session.state["n"] = how
        elif what == "delete":
            lasting.delete("s")
        lasting.save("s", session)
        assert lasting.load("s") == session
