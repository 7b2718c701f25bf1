"""Learning: weights that made the data are found again, and intervals are as wide as they should."""

from __future__ import annotations

import numpy as np
import pytest

from edgemem.recall.search.features import FEATURES
from edgemem.recall.search.models import Candidates
from lab.bootstrap import interval
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


def test_interval_is_as_wide_as_theory_says() -> None:
    """Of 400 questions half of them answered: .5 with 1.96 times .025 to either side."""
    found = interval([0.0, 1.0] * 200)
    assert found.mean == 0.5
    assert found.low == pytest.approx(0.451, abs=0.006)
    assert found.high == pytest.approx(0.549, abs=0.006)
    assert interval([]).n == 0
