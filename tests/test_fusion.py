"""Fusion: one score and its reasons."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.fusion import Signals, Weights, own_score, reasons, scores_of

share = st.floats(0, 1)
any_number = st.floats(allow_nan=False, allow_infinity=False, width=32)
signals = st.builds(
    Signals,
    words=share,
    meaning=st.none() | share,
    person=share,
    recent=share,
)
weights = st.builds(
    Weights,
    words=st.floats(0, 2),
    meaning=st.floats(0, 2),
    person=share,
    recent=share,
)


def score(some, w):
    """Return the score of one candidate."""
    words, meaning, *more = ([float("nan") if each is None else each] for each in some)
    (found,) = scores_of(words, meaning, *more, w)
    return float(found)


@given(
    st.builds(
        Signals,
        any_number,
        st.none() | any_number,
        any_number,
        any_number,
    ),
    weights,
)
def test_a_score_is_a_share(some, w):
    """Whatever the signals are, also out of their range, the score lies between 0 and 1."""
    assert 0.0 <= score(some, w) <= 1.0


@given(signals, weights, st.sampled_from(Signals._fields), share)
def test_no_signal_does_harm(some, w, name, more):
    """A signal that grows never lowers the score."""
    now = getattr(some, name)
    if now is None:
        return
    better = some._replace(**{name: max(now, more)})
    assert score(better, w) >= score(some, w) - 1e-12


@given(share, weights)
def test_words_alone_count_in_full_without_a_vector(words, w):
    """Where the question has no vector, a perfect match of words is still a perfect match."""
    assert own_score(words, None, w) == words


@given(signals, weights)
def test_reasons_are_those_that_contribute(some, w):
    """Each reason is a signal that is not zero, named once."""
    found = reasons(some, w)
    assert len(set(found)) == len(found)
    parts = {"words": some.words, "meaning": some.meaning or 0}
    parts |= {"person": some.person, "recent": some.recent}
    assert all(parts[name] > 0 for name in found)


@given(st.lists(signals, max_size=5), weights)
def test_candidates_are_scored_alike_together(some, w):
    """What a candidate is worth does not depend on the others, and its own score is that of `own_score`."""
    columns = [
        [float("nan") if each is None else each for each in column] for column in zip(*some, strict=True)
    ]
    found = scores_of(*(columns or [[]] * 4), w)
    assert found.tolist() == [score(each, w) for each in some]
    alone = msgspec.structs.replace(w, person=0.0, recent=0.0)
    for each in some:
        own = own_score(each.words, each.meaning, alone)
        assert score(each, alone) == pytest.approx(own, abs=1e-12)


def test_reasons_come_strongest_first():
    """What did most for the score stands first; what did next to nothing is not mentioned."""
    some = Signals(words=0.2, meaning=0.9, person=1.0, recent=0.1)
    assert reasons(some, Weights()) == ("meaning", "words", "person")


def test_nothing_scores_nothing():
    """Without any signal the score is 0 and there is no reason."""
    assert score(Signals(), Weights()) == 0.0
    assert reasons(Signals(), Weights()) == ()
