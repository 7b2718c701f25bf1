"""The gate: how likely it is that something remembered helps, by what was found and by what was said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from conftest import HandClock
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import edgemem
from edgemem.config import LlamaSettings, Profile
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.recall.rank.gate import (
    FITS,
    WANTS,
    Both,
    Direction,
    Fit,
    Gate,
    Utterance,
    Vocabulary,
    Weighed,
    shipped_gate,
)
from edgemem.recall.text.analyse import plain_words
from edgemem.records import Reply
from lab.languages import LANGUAGES

number = st.floats(-1e6, 1e6)
share = st.floats(0, 1)
NOTHING_FOUND = Fit(nearest=0.0, best=-99.0, known=0.0, terms=0)
BY_ALL = Both(Weighed(0.0, dict.fromkeys(WANTS, 1.0)), Weighed(0.0, dict.fromkeys(FITS, 1.0)))
EVEN = Weighed(0.0, {})
GATE = Gate(
    words_only=Both(Weighed(-1.0, {"said": 1.0}), EVEN),
    with_meaning=Both(Weighed(-2.0, {"said": 1.0}), EVEN),
    with_vector=Both(Weighed(-3.0, {"said": 1.0, "meant": 1.0}), EVEN),
    meant=Direction("mini", 0.5, (1.0, -1.0)),
    vocabularies={"en": Vocabulary(-0.5, (("where", 2.0), ("hello", -2.0)))},
)


def spoken(
    text: str = "hello", *, language: str = "en", vector=None, embedder: str = "mini:1:2"
) -> Utterance:
    """Return an utterance."""
    return Utterance(
        frozenset(plain_words(text)),
        language,
        None if vector is None else np.array(vector, np.float32),
        embedder,
    )


@given(
    st.text(max_size=30),
    st.sampled_from([*LANGUAGES, "xx"]),
    arrays(np.float32, 384, elements=st.floats(-1, 1, width=32)),
    st.builds(Fit, number, number, number, st.integers(0, 10**6)),
    share,
)
def test_the_chance_lies_between_0_and_1(text, language, vector, hits, meaning) -> None:
    """Whatever was said and found, with whatever weights."""
    utterance = Utterance(frozenset(plain_words(text)), language, vector, "all-minilm-l6-v2:1:384")
    wild = msgspec.structs.replace(shipped_gate(), words_only=BY_ALL, with_meaning=BY_ALL, with_vector=BY_ALL)
    for gate in (shipped_gate(), wild):
        assert 0 < gate.chance(utterance, hits, meaning=meaning) < 1
        assert set(gate.features(utterance, hits)) == {*WANTS, *FITS}
        assert all(np.isfinite(value) for value in gate.features(utterance, hits).values())


@given(
    share, st.floats(-10, 10), share, st.integers(0, 10), st.sampled_from(["said", "meant"]), st.floats(0, 9)
)
def test_what_wants_more_never_makes_it_less_likely(nearest, best, known, terms, feature, more) -> None:
    """By the shipped weights, whatever was found."""
    features = shipped_gate().features(spoken(), Fit(nearest, best, known, terms))
    for weighed in (shipped_gate().words_only, shipped_gate().with_meaning, shipped_gate().with_vector):
        assert weighed.chance({**features, feature: features[feature] + more}) >= weighed.chance(features)


@given(share, st.floats(-10, 10), st.floats(0, 9), share)
def test_a_likelier_candidate_never_makes_it_less_likely(nearest, best, more, meaning) -> None:
    """By the shipped weights, whatever else was found."""
    low, high = (
        shipped_gate().chance(spoken("it"), Fit(nearest, good, 0.5, 2), meaning=meaning)
        for good in (best, best + more)
    )
    assert high >= low


@pytest.mark.parametrize(
    ("utterance", "feature", "odds", "chance"),
    [
        # A word that is said again, or in capitals, tells no more; a language or a word that nobody knows nothing.
        (spoken("Where?"), "said", 1.5, None),
        (spoken("where, WHERE is it"), "said", 1.5, None),
        (spoken("hello"), "said", -2.5, None),
        (spoken("it is"), "said", -0.5, None),
        (spoken("where", language="xx"), "said", 0, None),
        # Only vectors of the embedder that it knows are read.
        (spoken(vector=(1.0, 0.0)), "meant", 1.5, 4.0),
        (spoken(), "meant", 0, 4.5),
        (spoken(vector=(1.0, 0.0), embedder="minix:1:2"), "meant", 0, 4.5),
        (spoken(vector=(1.0, 0.0), embedder="other"), "meant", 0, 4.5),
        (spoken(vector=(1.0, 0.0, 0.0)), "meant", 0, 4.5),
    ],
)
def test_what_wants_a_memory(utterance, feature, odds, chance) -> None:
    """Words in their language, and what is meant as far as the embedder is known; else the model without it decides."""
    assert GATE.features(utterance, NOTHING_FOUND)[feature] == odds
    if chance is not None:
        assert GATE.chance(utterance, NOTHING_FOUND, meaning=1.0) == pytest.approx(0.5 / (1 + np.exp(chance)))


@given(share)
def test_without_meaning_words_alone_decide(meaning: float) -> None:
    """At 0 no vector is read; between, the chances of both are mixed in these shares; a poor fact is as good as none."""
    chance = GATE.chance(spoken(vector=(1.0, 0.0)), NOTHING_FOUND, meaning=meaning)
    by_words, by_vector = (0.5 / (1 + np.exp(odds)) for odds in (3.5, 4.0))
    assert chance == pytest.approx((1 - meaning) * by_words + meaning * by_vector)
    assert GATE.features(spoken(), NOTHING_FOUND._replace(best=-20.0)) == GATE.features(
        spoken(), NOTHING_FOUND
    )


def test_the_shipped_file_names_what_there_is() -> None:
    """It has the words of five languages, the direction of the shipped embedder, and finite weights of features that there are."""
    gate = shipped_gate()
    assert gate.vocabularies.keys() == set(LANGUAGES)
    assert (gate.meant.embedder, len(gate.meant.weights)) == (Profile().llama.embedder, 384)
    for both in (gate.words_only, gate.with_meaning, gate.with_vector):
        for weighed, names in ((both.wants, WANTS), (both.fits, FITS)):
            assert weighed.weights.keys() <= set(names)
            assert np.isfinite([weighed.bias, *weighed.weights.values()]).all()
    assert not [feature for feature in gate.words_only.fits.weights if feature.startswith("nearest")]
    assert "meant" not in gate.with_meaning.wants.weights
    for words in gate.vocabularies.values():
        assert np.isfinite([words.bias, *(weight for _, weight in words.weights)]).all()
    with pytest.raises(msgspec.ValidationError, match="bais"):  # a mistake of whoever edits the file
        msgspec.convert({"bias": 0.0, "weights": {}, "bais": 1.0}, Weighed)


# Through the front door


class Nodding:
    """A model that says little."""

    def complete(self, *_, **__) -> Reply:
        return Reply("All right.")

    def cut(self, heard_text: str) -> None:
        """Do nothing."""


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
        for key, value in (
            ("attic.key", "under the cactus"),
            ("piano.tuner", "Mrs Oduya"),
            ("mia.shoe_size", "thirty-four"),
        ):
            memory.store.add_fact(key, value)
        loop = AgentLoop(Nodding(), hooks=memory.hooks(session_id="old", speaker="mia"), speaker="mia")
        loop.run("We hung the canoe under the roof of the barn.")
        loop.run("Grandpa's train arrives on Saturday at noon.")
        memory.idle(60)
        yield memory


def shown(memory: Memory, text: str) -> str:
    """Return what memory puts before what Mia says in a new session."""
    hooks = memory.hooks(session_id=f"new {text}", speaker="mia")
    loop = AgentLoop(Nodding(), hooks=hooks, speaker="mia")
    content: str = loop.prepare(text).handed[0][-1]["content"]
    loop.abort()
    assert loop.hooks.failures() == []
    return content.removesuffix(text)


def test_small_talk_and_orders_get_no_block(memory: Memory) -> None:
    """Nobody wants anything of the memory."""
    for text in (
        "Hi there!", "Good evening, robot.", "Thanks, that was nice of you.", "Switch the radio off.", "Stop there.",
        "Sing me a lullaby.", "I am so tired of this rain.", "Ha, you are funny!",
    ):  # fmt: skip
        assert shown(memory, text) == ""


def test_what_is_asked_for_is_told(memory: Memory) -> None:
    """A fact, or what was said where no fact tells it; a note counts like what was said."""
    for text, answer in (
        ("Where is the key of the attic?", "under the cactus"),
        ("Who is the piano tuner?", "Mrs Oduya"),
        ("What is Mia's shoe size?", "thirty-four"),
        ("Where did we hang the canoe?", "under the roof of the barn"),
        ("When does Grandpa's train arrive?", "Saturday at noon"),
    ):
        assert answer in shown(memory, text)
    memory.notes.append("The spare fuse is in the blue drawer.")
    memory.idle(60)
    (note, *_) = memory.recall("Where is the spare fuse?", speaker="mia")
    assert note.kind == "note"
    assert note.score >= memory.profile.injection.min_score
