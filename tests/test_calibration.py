"""Calibration: odds say how often messages are right, and coefficients keep their bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemem.recall.linear import Messages
from edgemem.recall.signals import SIGNALS
from lab.learning import calibrated, logistic

NAMES = list(SIGNALS)
TRUE = {"words": 6.0, "meaning": 4.0, "window": 2.0, "asks": -3.0, "when": -2.0}


def asked(n, weights, *, seed=1, candidates=12, noise=1.0):
    """Return the candidates of n questions, and which one of each answers: one of the highest sums."""
    random = np.random.default_rng(seed)
    vector = np.array([weights.get(name, 0.0) for name in NAMES])
    signals = [random.random((candidates, len(NAMES))).astype(np.float32) for _ in range(n)]
    right = [
        np.arange(candidates) == np.argmax(x @ vector + noise * random.gumbel(size=candidates))
        for x in signals
    ]
    return messages(signals), right


def messages(signals):
    """Return the candidates of each question."""
    return [Messages(x, np.arange(len(x), dtype=float), "") for x in signals]


def best_five(model, candidates, right):
    """Return how likely the five best candidates of each question are right by their odds, and which are."""
    shares, good = [], []
    for one, y in zip(candidates, right, strict=True):
        own = model.odds(one)
        best = np.argsort(-own, kind="stable")[:5]
        shares.append(1 / (1 + np.exp(-np.clip(own[best], -50, 50))))
        good.append(y[best])
    return np.concatenate(shares), np.concatenate(good)


def test_odds_are_the_share_of_right_ones():
    """Of candidates with about the same odds, about that share is right; also on other questions, some unanswerable."""
    candidates, right = asked(800, TRUE, noise=2.0)
    for at in range(0, 800, 4):
        right[at] = np.zeros(len(right[at]), bool)
    model = calibrated(TRUE, candidates[:400], right[:400])
    assert model.scale > 0
    assert model.weights == TRUE
    shares, good = best_five(model, candidates[400:], right[400:])
    assert shares.mean() == pytest.approx(good.mean(), abs=0.03)
    for low, high in ((0.0, 0.05), (0.05, 0.2), (0.2, 0.5), (0.5, 1.0)):
        some = (shares >= low) & (shares < high)
        if some.sum() >= 60:
            assert shares[some].mean() == pytest.approx(good[some].mean(), abs=0.1), (low, high)
    assert shares.max() > 2 * shares.mean()


def test_weights_that_tell_nothing_make_odds_that_do_not_differ():
    """Every candidate then has the share of right ones."""
    candidates, right = asked(400, {})
    model = calibrated({"words": 1.0}, candidates, right)
    shares, good = best_five(model, candidates, right)
    assert shares.std() < 0.05
    assert shares.mean() == pytest.approx(good.mean(), abs=0.01)


@pytest.mark.parametrize("always", [False, True])
def test_data_that_leaves_no_doubt_makes_a_finite_model(always):
    """Where every candidate is right, or none, or a line parts them, numbers stay numbers."""
    candidates, _ = asked(50, {})
    sums = [one.signals[:, NAMES.index("words")] for one in candidates]
    for right in (
        [np.full(len(each), always) for each in sums],
        [(each > 0.9) == always for each in sums],
    ):
        model = calibrated({"words": 5.0}, candidates, right)
        assert np.isfinite([model.bias, model.scale]).all()
        shares, good = best_five(model, candidates, right)
        # What speaks for a message never speaks against it: there, hardly anything is left to tell them apart.
        assert not always or good.mean() == pytest.approx(shares.mean(), abs=0.05)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 99), st.sampled_from([0.0, -np.inf]))
def test_coefficients_keep_their_bound(seed, least):
    """What speaks against weighs nothing where a coefficient may not be negative, and is found again where it may."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(600, 2))
    y = random.random(600) < 1 / (1 + np.exp(-(3 * x[:, 0] - 2 * x[:, 1])))
    bias, (good, bad) = logistic(x, y, np.ones(600), penalty=1e-3, prior=0.0, least=least)
    assert np.isfinite(bias)
    assert good > 1
    assert bad == 0 if least == 0 else bad < -1
