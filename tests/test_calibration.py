"""Calibration: odds say how often messages are right, and certainty tells questions that nothing answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemem.bench.calibration import COST, LEVEL, calibrated
from edgemem.recall.certainty import CLUES, clues_of
from edgemem.recall.linear import Messages
from edgemem.recall.signals import SIGNALS

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
    """Return the candidates of each question, of which all words were said."""
    return [Messages(x, np.arange(len(x), dtype=float), "", 1.0) for x in signals]


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
        certainty = model.certainty
        assert np.isfinite([model.bias, model.scale, certainty.bias, *certainty.weights.values()]).all()
        shares, good = best_five(model, candidates, right)
        # What speaks for a message never speaks against it: there, hardly anything is left to tell them apart.
        assert not always or good.mean() == pytest.approx(shares.mean(), abs=0.05)


def some_off_topic(n, *, seed):
    """Return questions of which every third has no answer: nothing is near, and half of its words were never said."""
    candidates, right = asked(n, TRUE, seed=seed, noise=0.5)
    for at in range(0, n, 3):
        candidates[at].signals[:, NAMES.index("meaning")] *= 0.6
        right[at][:] = False
        candidates[at] = candidates[at]._replace(known=0.5)
    return candidates, right


def test_certainty_tells_questions_that_nothing_answers():
    """On other questions, it is high where an answer is there and low where none is."""
    model = calibrated(TRUE, *some_off_topic(600, seed=1))
    candidates, right = some_off_topic(300, seed=2)
    sure = np.array([float(model.scores(one).max()) for one in candidates])
    answered = np.array([y.any() for y in right])
    assert sure[answered].mean() > 10 * sure[~answered].mean()
    assert np.quantile(sure[answered], 0.1) > np.quantile(sure[~answered], 0.9)
    assert model.certainty.weights["known"] > 0
    assert "nearest" in model.certainty.weights


def test_right_messages_reach_the_level_of_scores():
    """Of the right messages among the first, all but the share that a floor may cost score as much as the floor."""
    candidates, right = some_off_topic(600, seed=1)
    model = calibrated(TRUE, candidates, right)
    scores = []
    for one, y in zip(candidates, right, strict=True):
        first = np.argsort(-model.odds(one), kind="stable")[:5]
        scores += model.scores(one)[first][y[first]].tolist()
    assert np.mean(np.array(scores) >= LEVEL - 1e-6) == pytest.approx(1 - COST, abs=0.01)


def test_what_was_not_found_teaches_nothing_of_certainty():
    """A question whose answer stands behind the first five looks like either sort."""
    candidates, right = some_off_topic(300, seed=1)
    plain = calibrated(TRUE, candidates, right)
    missed, last = [], []
    for one in asked(60, TRUE, seed=5)[0]:
        odds = plain.odds(one)
        missed.append(one._replace(known=0.1))
        last.append(odds == odds.min())
    more = calibrated(TRUE, [*candidates, *missed], [*right, *last])
    # The odds themselves are those of more questions.
    assert more.certainty.weights["known"] == pytest.approx(plain.certainty.weights["known"], rel=0.2)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 99), st.sampled_from(NAMES))
def test_no_clue_speaks_against_an_answer(seed, name):
    """Whatever made the data, weights of clues are not negative, and a lucky question is never less sure."""
    candidates, right = asked(60, {name: 5.0}, seed=seed, candidates=8)
    for at in range(0, 60, 2):
        right[at][:] = False
        candidates[at].signals[:] += 1  # what nothing answers shows more of everything
    model = calibrated({"words": 3.0}, candidates, right)
    assert all(weight > 0 for weight in model.certainty.weights.values())
    some = candidates[0]
    clues = clues_of(model.odds(some), some.signals, 0.5, usual=model.certainty.usual)
    for at in range(len(CLUES)):
        more = clues.copy()
        more[at] += 1
        assert model.certainty.of(more) >= model.certainty.of(clues)
