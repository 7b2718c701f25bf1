"""Fact scores: features that can be named, odds on the scale of messages, and reasons for them."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.index.sources import FACT
from edgemem.recall.index.state import FIRST_OTHER
from edgemem.recall.query import ParsedQuery
from edgemem.recall.rank.fact_features import FACT_FEATURES, MEANING, FactModel, FactModels, fact_features_of
from edgemem.recall.rank.model import shipped_models
from edgemem.recall.search.table import Columns, Row, make_filter
from edgemem.recall.search.view import View

NAMES = list(FACT_FEATURES)
share = st.floats(0, 1, width=32)
row = st.fixed_dictionaries(dict.fromkeys(FACT_FEATURES, share))
MODELS = FactModels(
    FactModel(-4.0, {"words": 4.0, "meaning": 6.0, "named": 1.0}), FactModel(-3.0, {"words": 9.0})
)


def features(*rows):
    """Return features by name as the rows of a matrix."""
    return np.array([[each.get(name, 0.0) for name in NAMES] for each in rows], np.float32).reshape(
        len(rows), len(NAMES)
    )


def seen(*facts):
    """Return a view of facts: subject (or None), whose they are, words, cosine (None: not known yet)."""
    columns = Columns()
    for n, (subject, who, *_) in enumerate(facts):
        columns.append(
            Row(FIRST_OTHER + n, FACT, n + 1, 0, None, who, None, None, 0.0, 0, subject, subject and "size", 0, None, None, 3)
        )  # fmt: skip
    view = View(columns, make_filter(None))
    for n, (_, _, words, cosine) in enumerate(facts):
        view.words[n], view.cosines[n], view.near[n] = words, cosine or 0, cosine is not None
    return view


def asked(*stems, people=()):
    """Return a question of these stems that means these people."""
    return ParsedQuery(terms=stems, meaning=" ".join(stems), people=frozenset(people), stems=frozenset(stems))


def column(view, question, name):
    """Return one clue of all facts of a view."""
    slots = np.arange(view.n)
    return fact_features_of(view, slots, question, np.zeros(view.n))[:, NAMES.index(name)].tolist()


def test_the_subject_that_is_named_is_a_clue():
    """Only a fact whose whole subject stands in the question is named by it."""
    view = seen(
        ("wifi", "ann", 0, 0),
        ("spare key", "ann", 0, 0),
        ("ann", "bob", 0, 0),
        (None, "ann", 0, 0),
    )
    assert column(view, asked("wifi", "key"), "named") == [1, 0, 0, 0]
    assert column(view, asked("spare", "key"), "named") == [0, 1, 0, 0]


def test_what_is_about_another_means_less():
    """Where a question names what a fact is about, facts about others are worth less of their cosine; else none is."""
    view = seen(("wifi", "ann", 0, 0.8), ("door", "ann", 0, 0.8), (None, "ann", 0, 0.8))
    assert column(view, asked("wifi"), MEANING) == pytest.approx([0.8, 0.6, 0.8])
    assert column(view, asked("cup"), MEANING) == pytest.approx([0.8, 0.8, 0.8])


def test_what_is_mine_is_a_clue():
    """Who says "my" means what is known of them, and what is theirs and tells of nobody else; not what they told of others."""
    view = seen(("ann", "bob", 0, 0), ("bob", "ann", 0, 0), (None, "ann", 0, 0), (None, "bob", 0, 0))
    assert column(view, asked("size", people={"Ann", "ann"}), "theirs") == [1, 0, 1, 0]
    assert column(view, asked("size"), "theirs") == [0, 0, 0, 0]


def test_words_are_a_clue():
    """It is the share of the question that stands in the fact."""
    assert column(seen((None, None, 0.25, 0.5)), asked("cup"), "words") == [0.25]


@given(row, st.sampled_from(NAMES), share, share)
def test_no_clue_does_harm(some, name, more, meaning):
    """A clue that grows never lowers the odds, by the weights that are shipped."""
    models = shipped_models().facts
    better = {**some, name: max(some[name], more)}
    before, after = models.odds(features(some, better), meaning).tolist()
    assert after >= before - 1e-4


def test_what_waits_for_its_vector_is_scored_by_its_words():
    """Its odds are those of a question without a vector, beside facts that have theirs."""
    late, known = {"words": 0.5, MEANING: math.nan}, {"words": 0.5, MEANING: 0.5}
    found = MODELS.odds(features(late, known), 1.0).tolist()
    assert found == pytest.approx([1.5, 1.0])
    assert MODELS.reasons(features(late)[0].tolist(), 1.0) == ("words",)


@given(row, share)
def test_both_models_are_mixed_by_the_share_of_meaning(some, meaning):
    """The log odds are those of both, in these shares."""
    (found,) = MODELS.odds(features(some), meaning).tolist()
    both = [float(each.odds(features(some))[0]) for each in (MODELS.with_meaning, MODELS.words_only)]
    assert found == pytest.approx(meaning * both[0] + (1 - meaning) * both[1], abs=1e-4)


def test_reasons_come_strongest_first():
    """What did most for the score stands first; what did next to nothing is not mentioned."""
    some = features({"words": 0.2, "meaning": 0.5, "named": 1.0, "past": 1.0})[0].tolist()
    assert MODELS.reasons(some, 1.0) == ("meaning", "subject", "words")
    assert MODELS.reasons(features({"words": 0.01})[0].tolist(), 1.0) == ()


@pytest.mark.parametrize("name", ["with_meaning", "words_only"])
def test_shipped_weights_are_of_clues(name):
    """Each is a positive number of a clue that there is; what shows nothing of an answer is hardly one."""
    model = getattr(shipped_models().facts, name)
    assert model.weights.keys() <= FACT_FEATURES.keys()
    assert all(0 < weight < 50 for weight in model.weights.values())
    assert model.odds(features({}))[0] < -2
    assert (MEANING in model.weights) == (name == "with_meaning")


def test_a_wrong_name_in_the_file_is_refused():
    """A key that nobody knows is a mistake of whoever edits the file, and is said."""
    with pytest.raises(msgspec.ValidationError, match="bais"):
        msgspec.convert({"bias": 0.0, "weights": {}, "bais": 1.0}, FactModel)
