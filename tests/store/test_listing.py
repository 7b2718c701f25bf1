"""Listing: the injection hook over stores that no recall looks through, with the arguments of EdgeVox."""

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgemem
from edgemem.errors import InvalidInputError
from edgemem.records import Heard
from support.embedders import HashEmbedder
from support.models import Listener


class Watching:
    points = frozenset({"before_llm"})
    priority = -5

    def __init__(self, look: Any) -> None:
        self.look = look

    def __call__(self, point: str, ctx: Any, payload: Any) -> None:
        self.look()


def loop_with(*hooks: Any) -> tuple[edgemem.AgentLoop, Listener]:
    return edgemem.AgentLoop(model := Listener(), hooks=list(hooks)), model


@pytest.fixture(params=["json", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    kinds = {"json": edgemem.JSONMemoryStore, "sqlite": edgemem.SQLiteMemoryStore}
    with kinds[request.param](tmp_path / "memory") as opened:
        yield opened


def test_the_caps_of_the_seed_hold(store: Any) -> None:
    """Without recall no budget of tokens cuts what the caps let pass: 12 short facts are 12 lines, 25 are 20."""
    for n in range(12):
        store.add_fact(f"shelf.{n}", f"box {n}")
    agent, model = loop_with(edgemem.MemoryInjectionHook(store))
    agent.run("hello")
    assert model.newest.count("- shelf.") == 12
    for n in range(12, 25):
        store.add_fact(f"shelf.{n}", f"box {n}")
    for hook, most in (
        (edgemem.MemoryInjectionHook(store), 20),
        (edgemem.MemoryInjectionHook(store, max_facts=3), 3),
    ):
        agent, model = loop_with(hook)
        agent.run("hello")
        assert model.newest.count("- shelf.") == most
    agent, model = loop_with(edgemem.MemoryInjectionHook(store, max_chars=40))
    agent.run("hello")
    assert model.newest.count("- shelf.") == 2


def test_preferences_are_listed_and_told_when_they_change(store: Any) -> None:
    """As the seed's prompt has them; a key that is a fact as well is not mixed up with it."""
    store.set_preference("units", "metric")
    store.add_fact("units", "two")
    agent, model = loop_with(edgemem.MemoryInjectionHook(store))
    agent.run("hello")
    assert model.newest == "<memory>\n- units: two\n- units: metric\n</memory>\nhello"
    store.set_preference("units", "imperial")
    agent.run("hello again")
    assert model.newest == "<memory>units: now imperial</memory>\nhello again"
    store.forget_preference("units")
    agent.run("and now")
    assert model.newest == "<memory>units is no longer known</memory>\nand now"
    agent.run("and now?")
    assert model.newest == "and now?"


def test_a_store_that_finds_by_meaning_ranks_what_is_listed(tmp_path: Path, monkeypatch: Any) -> None:
    """The hook asks it for what is near, embeds no stored text before the model is called, and some of it after."""
    monkeypatch.setattr("edgemem.session.memory_block.KEEP_UP_S", 60.0)  # on a busy machine too
    calls: list[str] = []

    def embed(text: str) -> list[float]:
        calls.append(text)
        return [1.0, 0.0] if "peanuts" in text or "eat" in text else [0.0, 1.0]

    with edgemem.VectorMemoryStore(tmp_path / "v.db", embed_fn=embed, embedding_dim=2) as store:
        store.add_fact("user.allergies", "peanuts")
        for n in range(30):
            store.add_fact(f"shelf.{n}", "screws")
        agent, model = loop_with(edgemem.MemoryInjectionHook(store, max_facts=3))
        calls.clear()
        before: list[str] = []
        agent.hooks.register(Watching(lambda: before.extend(calls)))
        agent.run("what must I not eat?")
        assert set(before) <= {"what must I not eat?"}
        assert len(calls) > len(before)
        assert "peanuts" not in model.newest
        while store.embed_pending():
            pass
        calls.clear()
        agent, model = loop_with(edgemem.MemoryInjectionHook(store, max_facts=3))
        agent.run("what must I not eat?")
        assert model.newest.splitlines()[1] == "- user.allergies: peanuts"
        assert model.newest.count("- ") == 3


def test_a_function_that_takes_too_long_does_not_hold_a_turn_up(tmp_path: Path) -> None:
    """Words find what meaning was too late for, and nobody waits for the function twice."""
    slow = False

    def embed(text: str) -> list[float]:
        if slow:
            time.sleep(0.5)
        return [1.0, float(len(text))]

    with edgemem.VectorMemoryStore(tmp_path / "v.db", embed_fn=embed, embedding_dim=2) as store:
        store.add_fact("tea", "black")
        store.embed_pending()
        slow = True
        assert [fact.key for fact in store.recall_facts("which tea?", deadline_s=0.02)] == ["tea"]
        assert [fact.key for fact in store.recall_facts("which tea?", deadline_s=0.02)] == ["tea"]


def test_what_is_stored_by_hand_without_a_speaker_is_shared(store: Any, tmp_path: Path) -> None:
    """An unknown voice reads it, as it reads facts; what a recognised speaker caused is the household's."""
    notes = edgemem.NotesFile(tmp_path / "notes.md")
    notes.append("The oven runs hot.")
    store.add_episode("tool_call", {"name": "bell"}, "ok")
    store.add_episode("tool_call", {"name": "safe"}, "ok", heard=Heard("alice"))
    agent, model = loop_with(edgemem.MemoryInjectionHook(store), edgemem.NotesInjectorHook(notes))
    agent.run("hello")
    assert ("oven" in model.newest, "bell" in model.newest, "safe" in model.newest) == (True, True, False)
    assert agent.hooks.failures() == []


def test_closed_notes_are_left_out_for_an_unknown_voice(tmp_path: Path, caplog: Any) -> None:
    """Whoever wonders finds it in the log, once."""
    notes = edgemem.NotesFile(tmp_path / "notes.md", level="household")
    notes.append("The oven runs hot.")
    agent, model = loop_with(edgemem.NotesInjectorHook(notes))
    for _ in range(2):
        agent.run("hello")
        assert model.newest == "hello"
    (record,) = caplog.records
    assert "notes.md is for recognised speakers and was left out" in record.message
    agent.run("hello", speaker="alice")
    assert "oven" in model.newest
    with pytest.raises(InvalidInputError, match="use shared or household"):
        edgemem.NotesFile(tmp_path / "notes.md", level="private")


def test_distances_are_those_of_directions(tmp_path: Path) -> None:
    """Fault 9: a function that gives vectors of any length gets the order and the distances of their cosines."""
    embedder = HashEmbedder(64, name="one")

    def function(text: str) -> list[float]:
        return list(len(text) * embedder.embed_texts([text])[0])

    texts = {"tea": "green", "teapot": "green tea stands on the shelf beside the stove", "boat": "red"}
    with edgemem.VectorMemoryStore(tmp_path / "x.db", embed_fn=function) as store:
        for key, value in texts.items():
            store.add_fact(key, value)
        found = store.search_facts("green tea", k=3)
    query = np.array(function("green tea"))
    wanted = {}
    for key, value in texts.items():
        vector = np.array(function(f"{key}: {value}"))
        cosine = float(vector @ query / np.linalg.norm(vector) / np.linalg.norm(query))
        wanted[key] = math.sqrt(max(0.0, 2 - 2 * cosine))
    assert {fact.key: distance for fact, distance in found} == pytest.approx(wanted, abs=0.05)
    assert [fact.key for fact, _ in found] == sorted(wanted, key=lambda key: wanted[key])
