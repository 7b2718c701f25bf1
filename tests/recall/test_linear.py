"""The linear models: odds that can be explained, and weights in a form that can be trusted."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.index.sources import FACT
from edgemem.recall.index.state import FIRST_OTHER
from edgemem.recall.query import ParsedQuery
from edgemem.recall.rank.features import FACT_FEATURES, FEATURES, MEANING, fact_features_of
from edgemem.recall.rank.model import FactModel, FactModels, LinearModel, Models, reasons, shipped_models
from edgemem.recall.rank.replacing import Messages
from edgemem.recall.search.table import DocTable, Row
from edgemem.recall.search.view import Filter, View
from lab.learning import AGAINST

MODEL = LinearModel(bias=-2.0, scale=0.5, weights={"words": 4.0, "meaning": 2.0, "asks": -1.0, "when": 3.0})
FACTS = FactModels(
    FactModel(-4.0, {"words": 4.0, "meaning": 6.0, "named": 1.0}), FactModel(-3.0, {"words": 9.0})
)
TENSE = st.sampled_from(["now", "past", ""])
SHARE = st.floats(0, 1, width=32)
ROW = st.fixed_dictionaries({name: st.floats(0, 2, width=32) for name in FEATURES})
FACT_ROW = st.fixed_dictionaries(dict.fromkeys(FACT_FEATURES, SHARE))
both_models = pytest.mark.parametrize("name", ["with_meaning", "words_only"])


def matrix(names, *rows):
    """Return features by name as the rows of a matrix."""
    values = np.array([[row.get(name, 0.0) for name in names] for row in rows], np.float32)
    return values.reshape(len(rows), len(names))


def messages(*rows, at=None, tense=""):
    """Return messages by their features, each said later than the one before it where nothing else is said."""
    times = np.array(range(len(rows)) if at is None else at, float)
    return Messages(matrix(FEATURES, *rows), times, tense)


def why(row, weights, scale=1.0):
    """Return the reasons of one message."""
    return reasons(LinearModel(0.0, scale, weights).parts([row.get(name, 0.0) for name in FEATURES]))


def test_the_logarithm_of_odds_is_the_weighted_sum():
    """Scale and bias are applied to the sum; a feature without a weight counts for nothing."""
    rows = messages({}, {"words": 1.0}, {"words": 0.5, "meaning": 1.0, "asks": 1.0}, {"date_said": 1.0})
    odds = MODEL.odds(rows)
    assert odds.dtype == np.float32
    assert odds.tolist() == pytest.approx([-2, 0, -0.5, -2], abs=1e-5)
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
        pairs = [(low, high) for low in range(len(rows)) for high in range(len(rows))]
        assert all(odds[low] <= odds[high] for low, high in pairs if sums[low] < sums[high] - 1e-3)


@pytest.mark.parametrize(
    ("row", "weights", "scale", "names"),
    [
        ({"words": 1, "meaning": 1, "meaning_share": 1, "asks": 1, "date": 1}, {}, 1.0, ("meaning", "words")),
        ({"words": 1, "meaning": 1, "asks": 1, "date": 1}, {}, 1.0, ("words", "meaning")),
        ({"words": 1, "meaning": 1, "meaning_share": 1}, {}, 0.1, ("meaning", "words")),
        ({"words": 1, "meaning": 1, "meaning_share": 1}, {}, 0.01, ()),
        ({"words": 0.09}, {}, 1.0, ()),
        ({"words": 0.11}, {}, 1.0, ("words",)),
        ({"words": 1, "meaning": 2}, {}, 1.0, ("meaning", "words")),
        ({"words": 1, "meaning": 1, "date": 1}, {"meaning": 1.0, "date": 1.0}, 1.0, ("date", "meaning", "words")),
    ],
)  # fmt: skip
def test_reasons_are_what_speaks_for_it_strongest_first(row, weights, scale, names):
    """Features of one reason are added up; what speaks against it, or hardly for it, explains nothing, nor does form.

    Equal reasons stand in the order of the alphabet.
    """
    usual = {"words": 1.0, "meaning": 0.5, "meaning_share": 1.0, "asks": 3.0, "date": -1.0}
    assert why(row, {**usual, **weights}, scale) == names


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


@given(SHARE, ROW, FACT_ROW)
def test_a_mixed_model_has_the_mixed_log_odds(meaning, row, fact):
    """At 0 and 1 it is one of both, to the bit; between them its log odds are those of both, in these shares."""
    models = shipped_models()
    assert models.at(0) is models.words_only
    assert models.at(1.0) is models.with_meaning
    rows = messages(row)
    parts = [float(model.odds(rows)[0]) for model in (models.with_meaning, models.words_only)]
    aim = meaning * parts[0] + (1 - meaning) * parts[1]
    assert float(models.at(meaning).odds(rows)[0]) == pytest.approx(aim, abs=2e-3)
    parts = [
        float(model.odds(matrix(FACT_FEATURES, fact))[0]) for model in (FACTS.with_meaning, FACTS.words_only)
    ]
    (odds,) = FACTS.odds(matrix(FACT_FEATURES, fact), meaning).tolist()
    assert odds == pytest.approx(meaning * parts[0] + (1 - meaning) * parts[1], abs=1e-4)


# Facts and preferences


def view_of(*facts):
    """Return a view of facts: subject (or None), whose they are, words, cosine (None: not known yet)."""
    columns = DocTable()
    for n, (subject, who, *_) in enumerate(facts):
        columns.append(
            Row(FIRST_OTHER + n, FACT, n + 1, 0, None, who, None, None, 0.0, 0, subject, subject and "size", 0, None, None, 3)
        )  # fmt: skip
    view = View(columns, Filter(None))
    for n, (_, _, words, cosine) in enumerate(facts):
        view.words[n], view.cosines[n], view.near[n] = words, cosine or 0, cosine is not None
    return view


NAMED: Any = (("wifi", "ann", 0, 0), ("spare key", "ann", 0, 0), ("ann", "bob", 0, 0), (None, "ann", 0, 0))
ELSEWHERE: Any = (("wifi", "ann", 0, 0.8), ("door", "ann", 0, 0.8), (None, "ann", 0, 0.8))
THEIRS: Any = (("ann", "bob", 0, 0), ("bob", "ann", 0, 0), (None, "ann", 0, 0), (None, "bob", 0, 0))


@pytest.mark.parametrize(
    ("facts", "stems", "people", "name", "values"),
    [
        (NAMED, ("wifi", "key"), (), "named", [1, 0, 0, 0]),  # only where the whole subject stands in the question
        (NAMED, ("spare", "key"), (), "named", [0, 1, 0, 0]),
        (ELSEWHERE, ("wifi",), (), MEANING, [0.8, 0.6, 0.8]),  # what is about another subject means less
        (ELSEWHERE, ("cup",), (), MEANING, [0.8, 0.8, 0.8]),
        (THEIRS, ("size",), ("Ann", "ann"), "theirs", [1, 0, 1, 0]),  # not what they told of others
        (THEIRS, ("size",), (), "theirs", [0, 0, 0, 0]),
        ([(None, None, 0.25, 0.5)], ("cup",), (), "words", [0.25]),
    ],
)  # fmt: skip
def test_clues_of_facts(facts, stems, people, name, values):
    """Words, meaning, the subject that is named, and what is known of whom the question means."""
    view = view_of(*facts)
    question = ParsedQuery(terms=stems, people=frozenset(people), stems=frozenset(stems))
    features = fact_features_of(view, np.arange(view.n), question, np.zeros(view.n))
    assert features[:, list(FACT_FEATURES).index(name)].tolist() == pytest.approx(values)


@given(FACT_ROW, st.sampled_from(list(FACT_FEATURES)), SHARE, SHARE)
def test_no_clue_of_a_fact_does_harm(row, name, more, meaning):
    """A feature that grows never lowers the odds, by the weights that are shipped."""
    better = {**row, name: max(row[name], more)}
    before, after = shipped_models().facts.odds(matrix(FACT_FEATURES, row, better), meaning).tolist()
    assert after >= before - 1e-4


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
