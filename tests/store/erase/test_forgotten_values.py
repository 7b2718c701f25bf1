"""Forgotten values: what was erased is told to no model again, and stands in no file (law 8)."""

import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import edgemem
from edgemem.context.block.delta import ERASED
from edgemem.fence import fence
from edgemem.memory import Memory
from edgemem.records import Heard, Reply, StoredMessage, ToolCall, Turn
from edgemem.session.tools import Tool
from edgemem.store.pending_erasures import last_forgotten
from support.homes import BY_WORDS, files_with
from support.models import Listener
from support.selection import LONG


def forget_from_another_process(memory: edgemem.Memory) -> None:
    with edgemem.open(memory.home, profile=BY_WORDS, worker=False) as other:
        other.forget("gate.code")


def talking(memory: edgemem.Memory) -> tuple[edgemem.AgentLoop, Listener]:
    hooks = memory.hooks(session_id="k", speaker="alice")
    return edgemem.AgentLoop(model := Listener(), hooks=hooks), model


WAYS: dict[str, Callable[[edgemem.Memory], object]] = {
    "memory": lambda memory: memory.forget("gate.code"),
    "store": lambda memory: memory.store.forget_fact("gate.code"),
    "another process": forget_from_another_process,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_forgotten_value_is_told_to_no_model_and_stands_in_no_file(tmp_path: Path, way: str) -> None:
    """The model is asked not to use what it has read, without the value; that line is stored nowhere either."""
    for run in range(2):
        with edgemem.open(tmp_path, profile=BY_WORDS, worker=False) as memory:
            agent, model = talking(memory)
            if run == 0:
                memory.store.add_fact("gate.code", "YETI4711")
                agent.run("what is the gate code?")
                assert "gate.code: YETI4711" in model.newest
                WAYS[way](memory)
                agent.run("thanks")
                assert model.newest == "<memory>gate.code is no longer known</memory>\nthanks"
                agent.run("and now?")
            else:
                agent.run("what is the gate code?")
                assert "gate.code" not in model.prompt
            assert "YETI4711" not in model.newest
            assert agent.hooks.failures() == []
        assert files_with(tmp_path, "YETI4711") == []


def test_of_what_was_private_not_even_the_key_is_said(tmp_path: Path) -> None:
    """Its owner's model is told that a value above is gone, and nobody else's; a forgotten person's turns leave the prompt."""
    with edgemem.open(tmp_path, profile=BY_WORDS, worker=False) as memory:
        agent = edgemem.AgentLoop(model := Listener(), hooks=memory.hooks(session_id="k"))
        for key in ("diet", "shoes"):
            memory.store.add_fact(key, "VEGANX", scope="user:alice")
            agent.run(f"what about my {key}?", speaker="alice")
            assert "VEGANX" in model.newest
        for key in ("diet", "shoes"):
            memory.forget(key, scope="user:alice")
        for speaker, block in (("bob", ""), ("alice", fence([ERASED])), ("alice", ""), ("bob", "")):
            agent.run("hello", speaker=speaker)
            assert model.newest == block + "hello"
        memory.forget(person="alice")
        agent.run("hello", speaker="alice")
        assert ("what about" in model.prompt, model.newest) == (False, "hello")
        assert files_with(tmp_path, ERASED) == []
    assert files_with(tmp_path, "VEGANX") == []


@pytest.mark.usefixtures("patient")
def test_what_somebody_said_goes_from_the_blocks_of_others_too(tmp_path: Path) -> None:
    """A block quotes turns; it is erased with the conversation, or the person, that it quotes."""
    for way in ("person", "session"):
        home = tmp_path / way
        with edgemem.open(home, profile=BY_WORDS, worker=False) as memory:
            kitchen = edgemem.AgentLoop(Listener(), hooks=memory.hooks(session_id="kitchen"))
            kitchen.run("we hid the ZEBRA9 tickets in the flour tin", speaker="alice")
            hall = edgemem.AgentLoop(model := Listener(), hooks=memory.hooks(session_id="hall"))
            hall.run("who hid the tickets in the flour tin?", speaker="bob")
            assert "ZEBRA9" in model.newest
            if way == "person":
                memory.forget(person="alice")
            else:
                memory.forget(session="kitchen")
            assert memory.diagnostics.database.query("select block, shown from turns") == [(None, None)]
        assert files_with(home, "ZEBRA9") == []


def test_a_value_that_comes_after_an_erased_one_is_told_without_it(tmp_path: Path) -> None:
    """The value before is history only where it was not erased."""
    with edgemem.open(tmp_path, profile=BY_WORDS, worker=False) as memory:
        agent, model = talking(memory)
        for kind in ("fact", "preference"):
            put = memory.store.add_fact if kind == "fact" else memory.store.set_preference
            forget = memory.store.forget_fact if kind == "fact" else memory.store.forget_preference
            put(f"{kind}.code", "OLDX77")
            agent.run(f"what is the {kind} code?")
            assert "OLDX77" in model.newest
            forget(f"{kind}.code")
            put(f"{kind}.code", "new")
            agent.run("thanks")
            assert f"{kind}.code: now new<" in model.newest
    assert files_with(tmp_path, "OLDX77") == []


@pytest.mark.parametrize("stores", ["json", "two files"])
def test_stores_by_hand_forget_as_well(tmp_path: Path, stores: str) -> None:
    """Also where the blocks stand in another file than the facts: the next turn takes them out there."""
    if stores == "json":
        store, sessions = (
            edgemem.JSONMemoryStore(tmp_path / "m.json"),
            edgemem.JSONSessionStore(tmp_path / "s"),
        )
    else:
        store = edgemem.SQLiteMemoryStore(tmp_path / "m.db")
        sessions = edgemem.SQLiteSessionStore(tmp_path / "s.db")
    with store, sessions:
        persist = edgemem.PersistSessionHook(session_store=sessions, session_id="k")
        hooks = [edgemem.MemoryInjectionHook(store), persist]
        agent = edgemem.AgentLoop(model := Listener(), hooks=hooks)
        store.add_fact("gate.code", "JAM4711")
        agent.run("gate code?")
        assert "JAM4711" in model.newest
        store.forget_fact("gate.code")
        agent.run("thanks")
        assert model.newest == "<memory>gate.code is no longer known</memory>\nthanks"
        agent.run("once more")
        assert agent.hooks.failures() == []
    if stores == "two files":
        with edgemem.SQLiteSessionStore(tmp_path / "s.db") as again:
            again.database.checkpoint()
    assert files_with(tmp_path, "JAM4711") == []


def test_what_is_forgotten_while_a_turn_is_written_is_not_written_with_it(memory: Memory) -> None:
    """The transaction of the turn looks once more, since another process may have been quicker."""
    memory.store.add_fact("gate.code", "YETI4711")
    before = last_forgotten(memory.diagnostics.database)
    said = (StoredMessage("user", "the gate code?"), StoredMessage("assistant", "Well."))
    turn = Turn("k", 0, said, block="<memory>YETI4711</memory>", shown=("fact:1",))
    memory.forget("gate.code")
    memory.sessions.journal.commit(turn, forgotten=(before, before)).result()
    later = msgspec.structs.replace(turn, n=1, block="<memory>tea</memory>")
    now = last_forgotten(memory.diagnostics.database)
    memory.sessions.journal.commit(later, forgotten=(now, now)).result()
    kept = memory.diagnostics.database.query("select block from turns order by n")
    assert kept == [(None,), ("<memory>tea</memory>",)]


def test_a_doubt_goes_with_its_fact(tmp_path: Path) -> None:
    """What was perhaps misheard stands in blocks of its own, and is erased there too."""
    with edgemem.open(tmp_path, profile=BY_WORDS, worker=False) as memory:
        agent, model = talking(memory)
        memory.store.add_fact("gate.code", "WELLX1", heard=Heard("alice", asr_confidence=0.9))
        memory.store.add_fact("gate.code", "BADX2", heard=Heard("alice", asr_confidence=0.1))
        agent.run("what is the gate code?")
        assert "BADX2" in model.newest
        memory.forget("gate.code")
        agent.run("thanks")
    assert (files_with(tmp_path, "WELLX1"), files_with(tmp_path, "BADX2")) == ([], [])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6 if LONG else 2))
def test_whatever_happens_a_forgotten_value_stands_nowhere(tmp_path: Path, seed: int) -> None:
    """Facts and preferences, told, changed, forgotten and taken up again in any order."""
    chance, given = random.Random(seed), 0
    keys = ("gate.code", "cellar.code")
    live: dict[tuple[str, str], set[str]] = {}
    gone: set[str] = set()
    memory = edgemem.open(tmp_path, worker=False)
    agent: edgemem.AgentLoop | None = None
    model = Listener()

    def forget_one() -> str:
        kind, key = chance.choice(("fact", "preference")), chance.choice(keys)
        (memory.store.forget_fact if kind == "fact" else memory.store.forget_preference)(key)
        gone.update(live.pop((kind, key), set()))
        return "done"

    tool = Tool("forget_one", "Forget.", {}, forget_one)
    try:
        for _ in range(40):
            act = chance.choice(("add", "add", "ask", "ask", "talk", "forget", "within", "restart", "idle"))
            if agent is None:
                hooks = memory.hooks(session_id="k", speaker="alice")
                agent = edgemem.AgentLoop(model, hooks=hooks, tools=[tool])
            if act == "add":
                given, kind, key = given + 1, chance.choice(("fact", "preference")), chance.choice(keys)
                put = memory.store.add_fact if kind == "fact" else memory.store.set_preference
                put(key, f"VALUEX{given}Y")
                live.setdefault((kind, key), set()).add(f"VALUEX{given}Y")
            elif act == "forget":
                forget_one()
            elif act == "restart":
                memory.close()
                memory, agent = edgemem.open(tmp_path, worker=False), None
            elif act == "idle":
                memory.idle(seconds=1)
            else:
                model.replies = [Reply("", (ToolCall("forget_one", {}),))] if act == "within" else []
                before = set(gone)
                asked = f"what is the {chance.choice(keys).replace('.', ' ')}?"
                agent.run("thanks" if act == "talk" else asked)
                assert agent.hooks.failures() == []
                assert [value for value in before if value in model.newest] == []
        for kind, key in list(live):
            (memory.store.forget_fact if kind == "fact" else memory.store.forget_preference)(key)
        assert memory.idle(seconds=20)  # backups are looked after by upkeep
    finally:
        memory.close()
    assert given
    assert files_with(tmp_path, "VALUEX") == []
