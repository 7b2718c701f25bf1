"""Learning: weights that made the data are found again, and signs hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemem.recall.linear import Messages
from edgemem.recall.signals import SIGNALS
from lab.learning import AGAINST, learnt

NAMES = list(SIGNALS)
TRUE = {"words": 6.0, "meaning": 4.0, "window": 2.0, "asks": -3.0, "when": 2.0}


def asked(n, weights, *, seed=1, candidates=12, noise=1.0):
    """Return signals of the candidates of n questions, and which one of each answers: one of the highest sums."""
    random = np.random.default_rng(seed)
    vector = np.array([weights.get(name, 0.0) for name in NAMES])
    signals = [random.random((candidates, len(NAMES))).astype(np.float32) for _ in range(n)]
    # The best of sums with such noise is the one that softmax draws.
    right = [
        np.arange(candidates) == np.argmax(x @ vector + noise * random.gumbel(size=candidates))
        for x in signals
    ]
    return signals, right


def messages(signals, *, tense=""):
    """Return the candidates of each question, each said later than the one before it."""
    return [Messages(x, np.arange(len(x), dtype=float), tense) for x in signals]


def learnt_of(signals, right, **options):
    """Return the weights that are learnt of questions which ask neither for what holds nor for what was."""
    return learnt(messages(signals), right, **options)


def loss(weights, signals, right, l2):
    """Return what `learnt` makes small: after its docstring, in plain Python."""
    some = [(x.astype(float), y / y.sum()) for x, y in zip(signals, right, strict=True) if y.any()]
    spread = np.concatenate([x for x, _ in some]).std(axis=0) + 1e-6
    vector = np.array([weights.get(name, 0.0) for name in NAMES])
    total = 0.0
    for x, target in some:
        sums = x @ vector
        total -= float(target @ (sums - np.log(np.exp(sums - sums.max()).sum()) - sums.max()))
    return total / len(some) + l2 / 2 * float(((vector * spread) ** 2).sum())


def test_weights_are_found_again():
    """Those that made the answers come out in their order and with their signs, about as large as they are."""
    found = learnt_of(*asked(1500, TRUE), l2=1e-4)
    order = sorted(found, key=lambda name: -abs(found[name]))
    assert order[:2] == ["words", "meaning"]
    assert set(order[:5]) == set(TRUE)
    for name, weight in TRUE.items():
        assert found[name] == pytest.approx(weight, abs=0.7), name
    assert all(abs(weight) < 0.7 for name, weight in found.items() if name not in TRUE)


@settings(max_examples=15)
@given(
    st.dictionaries(st.sampled_from(NAMES), st.floats(-5, 5), max_size=8),
    st.integers(0, 99),
    st.sampled_from([1e-3, 0.05, 0.5]),
)
def test_no_better_weights_are_near(weights, seed, l2):
    """Whatever made the data, each signal keeps the sign that it may have, and no small step that keeps it does better."""
    signals, right = asked(60, weights, seed=seed, candidates=8)
    found = learnt_of(signals, right, l2=l2)
    best = loss(found, signals, right, l2)
    for name in NAMES:
        weight = found.get(name, 0.0)
        sign = -1 if name in AGAINST else 1
        assert weight * sign >= 0, name
        for step in (-0.02, 0.02):
            if (weight + step) * sign >= 0:
                assert loss({**found, name: weight + step}, signals, right, l2) >= best - 2e-5, name


def test_what_can_only_speak_for_a_candidate_is_left_out_where_it_speaks_against():
    """A weight of the wrong sign is 0, and is not in the file."""
    found = learnt_of(*asked(300, {"words": 4.0, "about": -4.0, "asks": 4.0}), l2=1e-3)
    assert not {"about", "asks"} & found.keys()
    assert found["words"] > 2


def test_a_larger_penalty_makes_smaller_weights():
    """The order stays, and the size goes down."""
    data = asked(300, TRUE)
    free, bound = learnt_of(*data, l2=1e-4), learnt_of(*data, l2=1.0)
    assert 0 < bound["words"] < 0.7 * free["words"]
    assert bound["words"] > bound["window"]


def test_signals_can_be_left_out():
    """What is not used has no weight."""
    data = asked(200, TRUE)
    found = learnt_of(*data, l2=1e-3, without={"words", "asks"})
    assert not {"words", "asks"} & found.keys()
    assert found["meaning"] > 1
    assert learnt_of(*data, l2=1e-3, without=NAMES) == {}


def test_questions_without_an_answer_teach_nothing():
    """Weights are the same with and without them, also where they have no candidates at all."""
    signals, right = asked(100, TRUE)
    more, _ = asked(30, {"date": 5.0}, seed=7)
    more.append(np.zeros((0, len(NAMES)), np.float32))
    nothing = [np.zeros(len(x), bool) for x in more]
    assert learnt_of([*more, *signals], [*nothing, *right], l2=0.01) == pytest.approx(
        learnt_of(signals, right, l2=0.01)
    )


def test_a_signal_that_is_always_the_same_weighs_nothing():
    """It tells no candidates apart."""
    signals, right = asked(100, TRUE)
    for each in signals:
        each[:, NAMES.index("date")] = 0.25
    assert abs(learnt_of(signals, right, l2=0.01).get("date", 0.0)) < 1e-6


def test_several_answers_share():
    """Where two candidates answer alike, the data says the same as two questions with one each."""
    signals, right = asked(80, TRUE)
    second = [np.roll(y, 1) for y in right]
    together = learnt_of(signals, [a | b for a, b in zip(right, second, strict=True)], l2=0.01)
    apart = learnt_of([*signals, *signals], [*right, *second], l2=0.01)
    assert together == pytest.approx(apart, abs=0.02)
