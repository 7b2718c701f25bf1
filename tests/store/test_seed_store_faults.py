"""Faults of EdgeVox's memory stores (research/edgevox.md, section 3.1, 1 to 9) that must not be found here, by number."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import HandClock

from edgemem import AgentLoop, JSONMemoryStore, MemoryInjectionHook, SQLiteMemoryStore, VectorMemoryStore
from edgemem.inspect.replay import ScriptedModel
from edgemem.records import Fact
from support.embedders import HashEmbedder

ROOT = Path(__file__).parents[2]

Store = SQLiteMemoryStore | JSONMemoryStore
Make = Callable[..., Store]

STORES: dict[str, Make] = {
    "SQLiteMemoryStore": SQLiteMemoryStore,
    "JSONMemoryStore": JSONMemoryStore,
    "VectorMemoryStore": lambda path, **options: VectorMemoryStore(path, embed_fn=HashEmbedder(), **options),
}


@pytest.fixture(params=STORES)
def kind(request: pytest.FixtureRequest) -> str:
    """Return the name of each store."""
    return str(request.param)


@pytest.fixture
def make(kind: str, tmp_path: Path) -> Make:
    """Return what opens a store of this kind, the same file each time."""
    return lambda **options: STORES[kind](tmp_path / "memory.db", **options)


@pytest.fixture
def store(make: Make, hand: HandClock) -> Iterator[Store]:
    """Return an empty store with a clock that is moved by hand."""
    with make(clock=hand.clock) as opened:
        yield opened


class Embedding:
    """A plain function from text to numbers of any length, which remembers what it was asked."""

    def __init__(self, name: str, dimensions: int = 64) -> None:
        self.embedder = HashEmbedder(dimensions, name=name)
        self.texts: list[str] = []

    def __call__(self, text: str) -> list[float]:
        self.texts.append(text)
        vector: list[float] = (len(text) * self.embedder.embed_texts([text])[0]).tolist()
        return vector


def keys(found: list[tuple[Fact, float]]) -> list[str]:
    return [fact.key for fact, _ in found]


def test_01_what_is_asked_about_reaches_the_prompt(store: Store, hand: HandClock) -> None:
    """The oldest of 25 facts is before the model when it is what somebody asks about, however few have room."""
    store.add_fact("ladder", "leans in the garage")
    for n in range(24):
        hand.advance(1)
        store.add_fact(f"cup {n}", f"on shelf {n}")
    loop = AgentLoop(ScriptedModel(), hooks=[MemoryInjectionHook(store, max_facts=3)])
    asked = ("what is new?", "where is the ladder?")
    new, ladder = (str(loop.run(question, speaker="alice").handed[0][-1]) for question in asked)
    assert loop.hooks.failures() == []
    assert "on shelf 23" in new
    assert "leans in the garage" not in new
    assert "leans in the garage" in ladder


def test_09_distances_are_those_of_directions(tmp_path: Path) -> None:
    """A function that gives vectors of any length gets the order and the distances of their cosines."""
    function = Embedding("one")
    texts = {"tea": "green", "teapot": "green tea stands on the shelf beside the stove", "boat": "red"}
    with VectorMemoryStore(tmp_path / "x.db", embed_fn=function) as store:
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
    assert keys(found) == sorted(wanted, key=lambda key: wanted[key])
