"""The linear models: odds that can be explained, and weights in a form that can be trusted."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from edgemem.recall.rank.features import FACT_FEATURES, FEATURES, MEANING
from edgemem.recall.rank.model import FactModel, FactModels, LinearModel, Models, reasons, shipped_models
from edgemem.recall.rank.replacing import Messages
from lab.learning import AGAINST

FACTS = FactModels(
    FactModel(-4.0, {"words": 4.0, "meaning": 6.0, "named": 1.0}), FactModel(-3.0, {"words": 9.0})
)
both_models = pytest.mark.parametrize("name", ["with_meaning", "words_only"])


def matrix(names, *rows):
    """Return features by name as the rows of a matrix."""
    values = np.array([[row.get(name, 0.0) for name in names] for row in rows], np.float32)
    return values.reshape(len(rows), len(names))


def messages(*rows, at=None, tense=""):
    """Return messages by their features, each said later than the one before it where nothing else is said."""
    times = np.array(range(len(rows)) if at is None else at, float)
    return Messages(matrix(FEATURES, *rows), times, tense)


@both_models
def test_shipped_weights_are_of_signals_and_keep_their_signs(name):
    """Each weight is a finite number of a feature that there is; what shows nothing is hardly an answer, what shows all may be."""
    model = getattr(shipped_models(), name)
    assert model.weights
    assert model.weights.keys() <= FEATURES.keys()
    assert all(math.isfinite(weight) for weight in (model.bias, model.scale, *model.weights.values()))
    assert model.scale > 0 > model.bias
    assert all(
        (weight <= 0) if feature in AGAINST else (weight >= 0) for feature, weight in model.weights.items()
    )
    showing = {"words", "meaning", "neighbour", "session"}
    best = {feature: 1.0 for feature, reason in FEATURES.items() if reason in showing}
    nothing, everything = model.odds(messages({}, best)).tolist()
    assert nothing < -2 < -1 < everything
    facts = getattr(shipped_models().facts, name)
    assert facts.weights.keys() <= FACT_FEATURES.keys()
    assert all(0 < weight < 50 for weight in facts.weights.values())
    assert facts.odds(matrix(FACT_FEATURES, {}))[0] < -2
    assert (MEANING in facts.weights) == (name == "with_meaning")


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (LinearModel, {"bias": 0.0, "scale": 1.0, "weights": {}, "bais": 1.0}),
        (FactModel, {"bias": 0.0, "weights": {}, "bais": 1.0}),
        (Models, {"with_meaning": {"bias": 0.0, "scale": 1.0, "weights": {}}}),
    ],
)
def test_a_wrong_name_in_the_file_is_refused(kind, content):
    """A key that nobody knows, or that lacks, is a mistake of whoever edits the file, and is told."""
    with pytest.raises(msgspec.ValidationError, match="bais" if "bais" in content else "words_only"):
        msgspec.convert(content, kind)


# Facts and preferences


def test_what_waits_for_its_vector_is_scored_by_its_words():
    """Its odds are those of a question without a vector, beside facts that have theirs; its reasons too."""
    late, known = {"words": 0.5, MEANING: math.nan}, {"words": 0.5, MEANING: 0.5}
    odds = FACTS.odds(matrix(FACT_FEATURES, late, known), 1.0).tolist()
    assert odds == pytest.approx([1.5, 1.0])
    for row, names in (
        (late, ("words",)),
        ({"words": 0.2, "meaning": 0.5, "named": 1.0, "past": 1.0}, ("meaning", "subject", "words")),
        ({"words": 0.01}, ()),
    ):
        assert reasons(FACTS.parts(matrix(FACT_FEATURES, row)[0].tolist(), 1.0)) == names
