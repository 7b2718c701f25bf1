"""The gate: how likely it is that something remembered helps, by what was found and by what was said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from conftest import HandClock

import edgemem
from edgemem.config import LlamaSettings, Profile
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.recall.search.models import FITS, WANTS, Gate, shipped_gate
from lab.languages import LANGUAGES
from support.loops import block_before
from support.models import Listener


def test_the_shipped_file_names_what_there_is() -> None:
    """It has the words of five languages, the direction of the shipped embedder, and finite weights of features that there are."""
    gate = shipped_gate()
    assert gate.vocabularies.keys() == set(LANGUAGES)
    assert (gate.direction.embedder, len(gate.direction.weights)) == (Profile().llama.embedder, 384)
    for both in (gate.words_only, gate.with_meaning, gate.with_vector):
        for weighed, names in ((both.wants, WANTS), (both.fits, FITS)):
            assert weighed.weights.keys() <= set(names)
            assert np.isfinite([weighed.bias, *weighed.weights.values()]).all()
    assert not [feature for feature in gate.words_only.fits.weights if feature.startswith("nearest")]
    assert "vector_odds" not in gate.with_meaning.wants.weights
    for words in gate.vocabularies.values():
        assert np.isfinite([words.bias, *words.weights.values()]).all()
    with pytest.raises(msgspec.ValidationError, match="bais"):  # a mistake of whoever edits the file
        msgspec.convert({**msgspec.to_builtins(gate), "bais": 1.0}, Gate)


@pytest.fixture(params=["words", "meaning"])
def memory(request: pytest.FixtureRequest, tmp_path: Path, hand: HandClock, minilm: Path) -> Iterator[Memory]:
    """Return a home that was told a few things, by words alone and with the shipped embedder."""
    profile = Profile()
    profile = msgspec.structs.replace(
        profile,
        llama=LlamaSettings(embedder=str(minilm) if request.param == "meaning" else ""),
        recall=msgspec.structs.replace(profile.recall, deadline_ms=20_000.0, query_embed_ms=20_000.0),
    )
    with edgemem.open(tmp_path, profile=profile, clock=hand.clock, worker=False) as memory:
        memory.store.add_fact("attic.key", "under the cactus")
        memory.store.add_fact("piano.tuner", "Mrs Oduya")
        memory.store.add_fact("mia.shoe_size", "thirty-four")
        loop = AgentLoop(Listener(), hooks=memory.hooks(session_id="old", speaker="mia"), speaker="mia")
        loop.run("We hung the canoe under the roof of the barn.")
        loop.run("Grandpa's train arrives on Saturday at noon.")
        memory.idle(60)
        yield memory


def test_small_talk_and_orders_get_no_block(memory: Memory) -> None:
    """Nobody wants anything of the memory."""
    for text in (
        "Hi there!", "Good evening, robot.", "Thanks, that was nice of you.", "Switch the radio off.", "Stop there.",
        "Sing me a lullaby.", "I am so tired of this rain.", "Ha, you are funny!",
    ):  # fmt: skip
        assert block_before(memory, text, "mia") == ""


def test_what_is_asked_for_is_told(memory: Memory) -> None:
    """A fact, or what was said where no fact tells it; a note counts like what was said."""
    for text, answer in (
        ("Where is the key of the attic?", "under the cactus"),
        ("Who is the piano tuner?", "Mrs Oduya"),
        ("What is Mia's shoe size?", "thirty-four"),
        ("Where did we hang the canoe?", "under the roof of the barn"),
        ("When does Grandpa's train arrive?", "Saturday at noon"),
    ):
        assert answer in block_before(memory, text, "mia")
    memory.notes.append("The spare fuse is in the blue drawer.")
    memory.idle(60)
    (note, *_) = memory.recall("Where is the spare fuse?", speaker="mia")
    assert note.kind == "note"
    assert note.score >= memory.profile.injection.min_score
