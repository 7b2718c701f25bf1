"""The linear model: odds that can be explained, and weights in a form that can be trusted."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from edgemem.recall.search.features import FEATURES
from edgemem.recall.search.models import PAIR_FEATURES, LinearModel, Model, Models, shipped_models
from lab.learning import AGAINST, MEANING

both_models = pytest.mark.parametrize("name", ["with_meaning", "words_only"])


def matrix(*rows):
    """Return features by name as the rows of a matrix."""
    return np.array([[row.get(name, 0.0) for name in FEATURES] for row in rows], np.float32)


@both_models
def test_shipped_weights_are_of_signals_and_keep_their_signs(name):
    """Each weight is a finite number of a feature that there is; what shows nothing is hardly an answer, what shows all may be."""
    model = getattr(shipped_models(), name)
    answers, replaces = model.answers, model.replaces
    assert answers.weights
    assert answers.weights.keys() <= FEATURES.keys()
    assert replaces.weights.keys() <= set(PAIR_FEATURES)
    assert np.isfinite(
        [answers.bias, *answers.weights.values(), replaces.bias, *replaces.weights.values()]
    ).all()
    weights = {feature: weight for feature, weight in answers.weights.items() if feature != "fact"}
    assert all(
        (weight <= 0) if feature in AGAINST else (0 <= weight < 50) for feature, weight in weights.items()
    )
    assert MEANING.isdisjoint(weights) == (name == "words_only")
    showing = {"words", "meaning", "neighbour", "session"}
    of_texts = {
        feature: 1.0 for feature, reason in FEATURES.items() if reason in showing and "fact" not in feature
    }
    of_facts = {"fact": 1.0, "fact_words": 1.0, "fact_meaning": 1.0}
    for nothing, everything in (({}, of_texts), ({"fact": 1.0}, of_facts)):
        least, most = answers.odds(matrix(nothing, everything)).tolist()
        assert least < -2 < -1 < most


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (LinearModel, {"bias": 0.0, "weights": {}, "bais": 1.0}),
        (Models, {"with_meaning": {"answers": {"bias": 0.0, "weights": {}}}}),
    ],
)
def test_a_wrong_name_in_the_file_is_refused(kind, content):
    """A key that nobody knows, or that lacks, is a mistake of whoever edits the file, and is told."""
    with pytest.raises(msgspec.ValidationError, match="bais" if "bais" in content else "words_only"):
        msgspec.convert(content, kind)


def test_a_mixture_gives_odds_between_those_of_both_models():
    """A question in a language that the embedder hardly knows is ranked mostly by words."""
    words, meaning = LinearModel(-3.0, {"words": 9.0}), LinearModel(-4.0, {"words": 4.0, "meaning": 6.0})
    row = matrix({"words": 0.5, "meaning": 0.5})
    assert words.odds(row)[0] == 1.5
    assert meaning.odds(row)[0] == 1.0
    assert words.mix(meaning, 0.2).odds(row)[0] == pytest.approx(1.4)


def test_reasons_are_what_adds_to_the_odds():
    """The strongest comes first; what adds next to nothing, or speaks against it, is no reason."""
    weights = {"fact": 1.0, "fact_words": 4.0, "fact_meaning": 6.0, "named": 1.0, "asks": -1.0}
    model = Model(LinearModel(-4.0, weights))
    for row, names in (
        (
            {"fact": 1.0, "fact_words": 0.2, "fact_meaning": 0.5, "named": 1.0, "past": 1.0},
            ("meaning", "subject", "words"),
        ),
        ({"fact_words": 0.01, "asks": 1.0}, ()),
    ):
        assert model.reasons(matrix(row)[0].tolist()) == names
