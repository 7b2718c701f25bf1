"""Certainty: what stands out, is near and was spoken of is surer to answer, and scores keep the order of messages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.certainty import CLUES, Certainty, clues_of, shares
from edgemem.recall.signals import SIGNALS

USUAL = -6.0


def signals(*rows):
    """Return signals by name as the rows of a matrix."""
    return np.array([[row.get(name, 0.0) for name in SIGNALS] for row in rows], np.float32)


def clues(odds, rows=None, known=1.0):
    """Return the clues by name."""
    odds = np.array(odds, np.float32)
    found = clues_of(odds, signals(*(rows or [{}] * len(odds))), known, usual=USUAL)
    assert found.dtype == np.float32
    return dict(zip(CLUES, found.tolist(), strict=True))


def test_how_far_the_best_stands_out():
    """By how much it is above the fifth, and above the middle one, whatever their order."""
    odds = [float(-n) for n in range(21)]
    found = clues(odds[::-1])
    assert (found["best"], found["above_fifth"], found["above_usual"]) == (0.0, 4.0, 10.0)
    assert clues([2.0] + [0.0] * 30)["above_usual"] == 2.0


def test_the_only_message_of_a_small_memory_stands_out():
    """What is not there is as usual, so a good message is as sure as among many that are not."""
    alone, many = clues([1.0]), clues([1.0] + [USUAL] * 40)
    assert alone == many
    assert alone["above_fifth"] == alone["above_usual"] == 1.0 - USUAL


def test_how_near_the_nearest_is():
    """The best cosine of all, whoever said it, where nobody is named."""
    found = clues([1.0, 0.0], [{"meaning": 0.25}, {"meaning": 0.5}])
    assert found["nearest"] == found["nearest_about"] == 0.5


def test_who_is_named_is_best_spoken_of():
    """The nearest among what is about them; of all, where nothing is."""
    rows = [{"meaning": 0.75}, {"meaning": 0.5}]
    found = clues([1.0, 0.0], rows)
    assert (found["nearest"], found["nearest_about"]) == (0.75, 0.75)
    rows[1]["about"] = 1.0
    assert clues([1.0, 0.0], rows)["nearest_about"] == 0.5


def test_known_words_are_a_clue():
    """They are handed through."""
    assert clues([1.0], known=0.25)["known"] == 0.25


def test_certainty_is_a_chance():
    """The logarithm of its odds is the weighted sum of the clues; clues without a weight count for nothing."""
    found = clues_of(np.array([1.0], np.float32), signals({"meaning": 0.5}), 0.5, usual=USUAL)
    assert Certainty(bias=0.0, usual=0.0, weights={}).of(found) == 0.5
    sure = Certainty(bias=-1.0, usual=0.0, weights={"best": 2.0, "known": 4.0}).of(found)
    assert np.log(sure / (1 - sure)) == pytest.approx(-1 + 2 * 1.0 + 4 * 0.5)
    assert Certainty(bias=1e9, usual=0.0, weights={}).of(found) == pytest.approx(1)
    assert Certainty(bias=-1e9, usual=0.0, weights={}).of(found) == pytest.approx(0)


@given(st.lists(st.floats(-40, 40, width=32), min_size=1, max_size=9))
def test_shares_keep_the_order(odds):
    """The best has all of it, and a larger sum never has less."""
    found = shares(np.array(odds, np.float32))
    assert found.max() == 1
    assert found.min() >= 0
    order = np.argsort(odds, kind="stable")
    assert (np.diff(found[order]) >= 0).all()
