"""Intervals hold the mean, the same seed gives the same, and two runs that differ by chance alone are not told apart."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.bootstrap import interval, paired

shares = st.lists(st.floats(0, 1), min_size=1, max_size=60)


@given(shares)
def test_interval_holds_its_mean(values: list[float]) -> None:
    """The mean lies within, and within what was drawn from."""
    found = interval(values)
    assert min(values) - 1e-3 <= found.low <= found.mean + 1e-3
    assert found.mean - 1e-3 <= found.high <= max(values) + 1e-3
    assert found == interval(values)


def test_interval_is_as_wide_as_theory_says() -> None:
    """Of 400 questions half of them answered: .5 with 1.96 times .025 to either side."""
    found = interval([0.0, 1.0] * 200)
    assert found.mean == 0.5
    assert found.low == pytest.approx(0.451, abs=0.006)
    assert found.high == pytest.approx(0.549, abs=0.006)
    assert interval([]).n == 0


def test_equal_runs_do_not_differ() -> None:
    """No difference, and no reason to believe in one."""
    same = paired([0.2, 1.0, 0.0], [0.2, 1.0, 0.0])
    assert (same.difference, same.p, same.sign_p, same.better, same.worse) == (0.0, 1.0, 1.0, 0, 0)


def test_better_run_is_told_from_chance() -> None:
    """Twenty questions better and one worse is no chance; ten and nine may well be."""
    before, after = [0.0] * 20 + [1.0] + [0.5] * 79, [1.0] * 20 + [0.0] + [0.5] * 79
    clear = paired(before, after)
    assert clear.difference == 0.19
    assert clear.low > 0
    assert clear.p < 0.001
    assert (clear.better, clear.worse, clear.n) == (20, 1, 100)
    unclear = paired([0.0] * 10 + [1.0] * 9, [1.0] * 10 + [0.0] * 9)
    assert unclear.low < 0 < unclear.high
    assert unclear.p > 0.5
    back = paired(after, before)
    assert back.difference == -clear.difference


def test_permutation_agrees_with_the_sign_test_where_all_differences_are_as_large() -> None:
    """Both then count the same questions."""
    before, after = [0.0] * 14 + [1.0] * 5, [1.0] * 14 + [0.0] * 5
    found = paired(before, after)
    assert found.p == pytest.approx(found.sign_p, abs=0.015)


def test_sign_test_is_the_binomial() -> None:
    """Five of five heads or tails: 2/32; also of thousands, whose powers are no floats."""
    for better, worse, p in ((5, 0, 2 / 32), (1, 3, 2 * 5 / 16), (1500, 1500, 1.0), (1000, 2000, 0.0)):
        compared = paired([0.0] * better + [1.0] * worse, [1.0] * better + [0.0] * worse)
        assert compared.sign_p == pytest.approx(p, abs=1e-4)


def test_p_of_nothing_is_seldom_small() -> None:
    """Of a hundred pairs of equal runs about five have a p below .05."""
    dice = random.Random(4)
    small = 0
    for n in range(100):
        pairs = [(dice.random(), dice.random()) for _ in range(40)]
        small += paired([a for a, _ in pairs], [b for _, b in pairs], seed=n).p < 0.05
    assert small <= 12
