"""What concerns somebody's safety stands before the model when food or medicine comes up, for those who may read it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import HandClock

import edgemem
from edgemem.config import Profile
from edgemem.memory import Memory
from edgemem.records import Heard
from support.loops import block_before

OTHERS = {
    "alice.birthday": "4 May", "alice.bicycle": "a blue one", "ben.job": "teacher", "wifi.password": "turnip soup",
    "car.parking": "level two",
}  # fmt: skip


def patient(**recall: Any) -> Profile:
    """Return the default profile, with time for the embedder on a busy machine."""
    profile = Profile()
    settings = msgspec.structs.replace(
        profile.recall, deadline_ms=20_000.0, query_embed_ms=20_000.0, **recall
    )
    return msgspec.structs.replace(profile, recall=settings)


@pytest.fixture
def memory(tmp_path: Path, hand: HandClock, minilm: Path) -> Iterator[Memory]:
    """Return a memory with the shipped embedder that knows what hurts Alice and the dog, and much else."""
    with edgemem.open(tmp_path, profile=patient(), clock=hand.clock, worker=False) as memory:
        alice = Heard("alice")
        memory.store.add_fact("allergy", "hazelnuts", heard=alice, level="private")
        memory.store.add_fact("alice.intolerance", "lactose")
        memory.store.add_fact("rex.medication", "one tablet at breakfast")
        for key, value in OTHERS.items():
            memory.store.add_fact(key, value)
        memory.idle(60)
        yield memory


@pytest.mark.parametrize(
    ("spoken", "speaker", "values"),
    [
        *((spoken, "alice", {"hazelnuts"}) for spoken in ("Can I eat this cake?", "I'm baking brownies tonight.", "Would you order me a curry?")),
        *((spoken, "ben", {"lactose"}) for spoken in ("What can I cook for Alice?", "What would you cook for Alice?")),
        *((spoken, "alice", set()) for spoken in ("What's the weather like?", "Tell me a joke.", "Where did I park the car?", "Good night.")),
    ],
)  # fmt: skip
def test_an_allergy_is_told_with_food(memory: Memory, spoken: str, speaker: str, values: set[str]) -> None:
    """Whoever has it is asked or not, and in words that no fact has; elsewhere it would only be in the way."""
    block = block_before(memory, spoken, speaker)
    dangers = {value for value in ("hazelnuts", "lactose", "tablet") if value in block}
    assert dangers >= values if values else not dangers


def test_what_is_private_stays_so_and_two_lines_are_enough(memory: Memory) -> None:
    """No danger opens a private fact to others; a house full of allergies leaves room for what was asked for."""
    for spoken in ("Can I eat this cake?", "What can I cook for Alice?", "Has Alice an allergy?"):
        assert "hazelnuts" not in block_before(memory, spoken, "ben")
    for n, name in enumerate(("ada", "bo", "cy", "dee")):
        memory.store.add_fact(f"{name}.allergy", f"nut number {n}")
    memory.idle(60)
    assert block_before(memory, "I'm baking a cake tonight.", "ben").count("allergy") <= 2


def test_the_profile_adds_words(tmp_path: Path, hand: HandClock, minilm: Path) -> None:
    """What a robot's owner calls dangerous is told like the rest."""
    profile = patient(safety_keys={"pacemaker": "medicine"})
    with edgemem.open(tmp_path, profile=profile, clock=hand.clock, worker=False) as memory:
        memory.store.add_fact("grandpa.pacemaker", "keep magnets away")
        memory.store.add_fact("grandpa.chair", "the green one")
        memory.idle(60)
        assert "magnets" in block_before(memory, "I feel ill, something is wrong with my heart.", "grandpa")


def test_an_embedder_is_not_asked_in_a_foreign_language(
    tmp_path: Path, hand: HandClock, minilm: Path
) -> None:
    """To an English model all Spanish sentences are alike; an allergy would stand before each of them."""
    with edgemem.open(tmp_path, profile=patient(), clock=hand.clock, worker=False) as memory:
        memory.store.add_fact("ana.alergia", "nueces")
        memory.store.add_fact("ana.trabajo", "maestra")
        memory.idle(60)
        for spoken in ("¿Qué tiempo hace hoy?", "Cuéntame un chiste", "¿Dónde está el coche?"):
            assert "nueces" not in block_before(memory, spoken, "luis")
