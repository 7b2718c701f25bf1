"""The linear model: odds that can be explained, and weights in a form that can be trusted."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.rank.features import FEATURES
from edgemem.recall.rank.model import LinearModel, Models, reasons, shipped_models
from edgemem.recall.rank.replacing import PAIR_FEATURES, Messages
from lab.fit import MEANING
from lab.learning import AGAINST

MODEL = LinearModel(
    bias=-2.0,
    scale=0.5,
    weights={"words": 4.0, "meaning": 2.0, "asks": -1.0, "when": 3.0},
)


both_models = pytest.mark.parametrize("name", ["with_meaning", "words_only"])
TENSE = st.sampled_from(["now", "past", ""])
ROW = st.fixed_dictionaries({name: st.floats(0, 2, width=32) for name in FEATURES})


def messages(*rows, at=None, tense="", said=None):
    """Return messages by their features, each said later than the one before it where nothing else is said."""
    features = np.array([[row.get(name, 0.0) for name in FEATURES] for row in rows], np.float32)
    times = np.array(range(len(rows)) if at is None else at, float)
    return Messages(features.reshape(len(rows), len(FEATURES)), times, tense, said)


def test_the_logarithm_of_odds_is_the_weighted_sum():
    """Scale and bias are applied to the sum; a feature without a weight counts for nothing."""
    rows = messages({}, {"words": 1.0}, {"words": 0.5, "meaning": 1.0, "asks": 1.0}, {"date_said": 1.0})
    found = MODEL.odds(rows)
    assert found.dtype == np.float32
    assert found.tolist() == pytest.approx([-2, 0, -0.5, -2], abs=1e-5)
    assert MODEL.odds(messages()).tolist() == []


@given(st.lists(ROW, max_size=4), TENSE)
def test_odds_are_finite_and_keep_the_order(rows, tense):
    """Whatever the features are, and a larger sum never has lower odds where age tells nothing.

    The model adds up 32-bit floats: two sums that are closer than their rounding have no order.
    """
    for model in (MODEL, shipped_models().with_meaning, shipped_models().words_only):
        assert np.isfinite(model.odds(messages(*rows, tense=tense))).all()
        odds = model.odds(messages(*rows)).tolist()
        sums = [sum(model.weights.get(name, 0) * value for name, value in row.items()) for row in rows]
        assert all(
            odds[low] <= odds[high]
            for low in range(len(rows))
            for high in range(len(rows))
            if sums[low] < sums[high] - 1e-3
        )


def said(model, row):
    """Return the reasons of one message."""
    return reasons(model.parts(messages(row))[0].tolist())


def test_reasons_are_what_speaks_for_it_strongest_first():
    """Features of one reason are added up; what speaks against it, or hardly for it, explains nothing, nor does form."""
    model = LinearModel(
        bias=0.0,
        scale=1.0,
        weights={"words": 1.0, "meaning": 0.5, "meaning_share": 1.0, "asks": 3.0, "date": -1.0},
    )
    row = {"words": 1.0, "meaning": 1.0, "meaning_share": 1.0, "asks": 1.0, "date": 1.0}
    assert said(model, row) == ("meaning", "words")
    assert said(model, {**row, "meaning_share": 0.0}) == ("words", "meaning")
    assert said(model, {"words": 0.09}) == ()
    assert said(model, {"words": 0.11}) == ("words",)
    assert said(msgspec.structs.replace(model, scale=0.1), row) == ("meaning", "words")
    assert said(msgspec.structs.replace(model, scale=0.01), row) == ()
    assert said(model, {"words": 1.0, "meaning": 2.0}) == ("meaning", "words")


def test_equal_reasons_stand_in_the_order_of_the_alphabet():
    """Explanations do not change from one run to the next."""
    model = LinearModel(bias=0.0, scale=1.0, weights={"words": 1.0, "meaning": 1.0, "date": 1.0})
    assert said(model, {"words": 1.0, "meaning": 1.0, "date": 1.0}) == (
        "date",
        "meaning",
        "words",
    )


@both_models
def test_shipped_weights_are_of_signals_and_keep_their_signs(name):
    """Each weight is a finite number of a feature that there is, and speaks for or against it as that may."""
    model = getattr(shipped_models(), name)
    assert model.weights.keys() <= FEATURES.keys()
    assert model.weights, "a model that weighs nothing finds nothing"
    assert all(math.isfinite(each) for each in (model.bias, model.scale, *model.weights.values()))
    assert model.scale > 0
    assert model.bias < 0, "what shows nothing is no answer"
    for feature, weight in model.weights.items():
        if feature in AGAINST:
            assert weight <= 0, feature
        else:
            assert weight >= 0, feature


def test_without_a_vector_meaning_weighs_nothing():
    """The model for words alone names no signal that such a question does not have."""
    model = shipped_models().words_only
    assert not model.weights.keys() & MEANING


def test_features_and_their_groups_are_known():
    """Whatever is said of features by name is said of some that there are, and of each once."""
    assert FEATURES.keys() | set(PAIR_FEATURES) >= AGAINST | MEANING
    assert not FEATURES.keys() & set(PAIR_FEATURES)


@both_models
def test_shipped_odds_tell_all_from_nothing(name):
    """A message that shows nothing of an answer is hardly one, and the only one that has all words and meaning may well be."""
    model = getattr(shipped_models(), name)
    best = {
        feature: 1.0
        for feature, reason in FEATURES.items()
        if reason in {"words", "meaning", "neighbour", "session"}
    }
    nothing, everything = model.odds(messages({}, best)).tolist()
    assert nothing < -2
    assert everything > -1


def test_a_wrong_name_in_the_file_is_refused():
    """A key that nobody knows is a mistake of whoever edits the file, and is said."""
    with pytest.raises(msgspec.ValidationError, match="bais"):
        msgspec.convert(
            {
                "bias": 0.0,
                "scale": 1.0,
                "weights": {},
                "bais": 1.0,
            },
            LinearModel,
        )
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"with_meaning": {"bias": 0.0, "scale": 1.0, "weights": {}}}, Models)


@given(st.floats(0, 1), st.fixed_dictionaries({name: st.floats(0, 1, width=32) for name in FEATURES}))
def test_a_mixed_model_has_the_mixed_log_odds(meaning, row):
    """At 0 and 1 it is one of both, to the bit; between them its log odds are those of both, in these shares."""
    models = shipped_models()
    assert models.at(0) is models.words_only
    assert models.at(1.0) is models.with_meaning
    rows = messages(row)
    parts = [float(model.odds(rows)[0]) for model in (models.with_meaning, models.words_only)]
    mixed = models.at(meaning)
    aim = meaning * parts[0] + (1 - meaning) * parts[1]
    assert float(mixed.odds(rows)[0]) == pytest.approx(aim, abs=1e-3)


@given(st.lists(ROW, min_size=2, max_size=4), TENSE)
def test_hardly_mixed_models_are_hardly_different(rows, tense):
    """Where nearly all weight is one model's, the odds of messages beside each other are nearly those of that model."""
    models, beside = shipped_models(), messages(*rows, tense=tense)
    for meaning, model in ((1e-5, models.words_only), (1 - 1e-5, models.with_meaning)):
        assert models.at(meaning).odds(beside).tolist() == pytest.approx(
            model.odds(beside).tolist(), abs=1e-2
        )


@given(st.lists(st.tuples(ROW, st.integers(0, 5)), max_size=8), TENSE, st.randoms())
def test_the_order_of_messages_does_not_matter(rows, tense, random):
    """Each message has the same odds and says the same wherever it stands among the others, also where two were said at once."""
    mixed = random.sample(range(len(rows)), len(rows))
    for model in (shipped_models().with_meaning, shipped_models().words_only):
        there = messages(*(row for row, _ in rows), at=[at for _, at in rows], tense=tense)
        here = there.some(np.array(mixed, np.intp))
        assert model.odds(here).tolist() == pytest.approx(model.odds(there)[mixed].tolist(), abs=1e-4)
        parts, others = model.parts(here), model.parts(there)[mixed]
        assert parts.ravel().tolist() == pytest.approx(others.ravel().tolist(), abs=1e-4)
