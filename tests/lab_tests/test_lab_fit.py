"""Learning: weights that made the data are found again, a gate parts questions from small talk, intervals are as wide as they should."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from edgemem.recall.search.features import FEATURES
from edgemem.recall.search.models import Candidates, Evidence, Gate, Utterance
from edgemem.recall.text.analyse import plain_words
from lab import gate
from lab.bootstrap import interval
from lab.gate import Sample
from lab.learning import Asked, learnt

NAMES = list(FEATURES)
TRUE = {"words": 6.0, "meaning": 4.0, "window": 2.0, "asks": -3.0, "when": 2.0}


def asked(n, weights, *, seed=1, candidates=12, noise=1.0):
    """Return features of the candidates of n questions, and which one of each answers: one of the highest sums."""
    random = np.random.default_rng(seed)
    vector = np.array([weights.get(name, 0.0) for name in NAMES])
    features = [random.random((candidates, len(NAMES))).astype(np.float32) for _ in range(n)]
    # The best of sums with such noise is the one that softmax draws.
    right = [
        np.arange(candidates) == np.argmax(x @ vector + noise * random.gumbel(size=candidates))
        for x in features
    ]
    return features, right


def learnt_of(features, right, **options):
    """Return the weights that are learnt of questions which ask neither for what holds nor for what was."""
    rows = [Candidates(x, np.arange(len(x), dtype=float), "") for x in features]
    return learnt([Asked("", x, y, 1) for x, y in zip(rows, right, strict=True)], **options)


def test_weights_are_found_again():
    """Those that made the answers come out in their order and with their signs, about as large as they are."""
    found = learnt_of(*asked(1500, TRUE), l2=1e-4)
    order = sorted(found, key=lambda name: -abs(found[name]))
    assert order[:2] == ["words", "meaning"]
    assert set(order[:5]) == set(TRUE)
    for name, weight in TRUE.items():
        assert found[name] == pytest.approx(weight, abs=0.7), name
    assert all(abs(weight) < 0.7 for name, weight in found.items() if name not in TRUE)


ASKED = ("where is the cup", "when does the bus leave", "where did i put it", "who is she")
TALKED = ("good night", "play some music", "thanks a lot", "good morning")
MAKER = "mini:1:3"


def samples(*, embedded: bool) -> list[Sample]:
    """Return what is said in two English households and a German one: questions that are answered, and small talk."""
    dice = np.random.default_rng(1)
    rows = []
    for home, asked, talked in (
        ("en_one", ASKED, TALKED),
        ("en_two", ASKED[::-1], TALKED[::-1]),
        ("de_haus", ("wo ist die tasse", "wann kommt sie"), ("gute nacht", "danke")),
    ):
        if embedded and home == "de_haus":
            continue
        for kind, texts in (("answerable", asked), ("small talk", talked)):
            wants = kind == "answerable"
            for text in texts:
                vector = dice.normal(0, 0.1, 3).astype(np.float32) + np.float32([wants, not wants, 0])
                utterance = Utterance(
                    frozenset(plain_words(text)),
                    home[:2],
                    vector if embedded else None,
                    MAKER if embedded else "",
                )
                found = Evidence(0.6 if wants else 0.3, -2.0 + wants, float(wants), 2)
                rows.append(Sample(home, kind, 1.0, utterance, found))
    return rows


def test_questions_are_parted_from_small_talk() -> None:
    """By words and with vectors, also of a household that was not learnt on; the file says what was learnt."""
    embedded, by_words = samples(embedded=True), samples(embedded=False)
    learnt_gate, of_others = gate.learnt(embedded, by_words)
    assert learnt_gate.vocabularies.keys() == {"en", "de"}
    assert learnt_gate.direction.embedder == "mini"
    assert of_others.keys() == {"en_one", "en_two", "de_haus"}
    for meaning, some in ((1.0, embedded), (0.0, by_words)):
        for one in some:
            for each in (learnt_gate, of_others[one.home]):
                assert (each.chance(one.utterance, one.found, meaning=meaning) > 0.5) is one.helps, one
    assert msgspec.toml.decode(gate.file_of(learnt_gate), type=Gate) == learnt_gate


def test_interval_is_as_wide_as_theory_says() -> None:
    """Of 400 questions half of them answered: .5 with 1.96 times .025 to either side."""
    found = interval([0.0, 1.0] * 200)
    assert found.mean == 0.5
    assert found.low == pytest.approx(0.451, abs=0.006)
    assert found.high == pytest.approx(0.549, abs=0.006)
    assert interval([]).n == 0
