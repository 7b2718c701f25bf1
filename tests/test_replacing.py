"""Replacing: what was told anew comes before what it replaces, and nothing else does."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.rank.features import FEATURES
from edgemem.recall.rank.model import reasons, shipped_models
from edgemem.recall.rank.replacing import PAIR_FEATURES, Contents, Messages, Replacing, mixed
from edgemem.recall.search.table import NOBODY
from edgemem.recall.text.analyse import plain_words, terms
from lab.learning import AGAINST

DAY = 86400.0
TEXTS = (
    "the spare key hangs on the hook behind the shed",
    "I put the spare key under the blue flower pot",
    "the dentist sees me on friday at three",
    "lottie has a cold and stays in bed",
)
GOOD = {"words": 0.9, "window": 0.9, "meaning": 0.6, "meaning_share": 1.0, "session_meaning": 0.6}
FAIR = {"words": 0.7, "window": 0.7, "meaning": 0.5, "meaning_share": 0.8, "session_meaning": 0.5}
POOR = {"words": 0.05, "meaning": 0.1, "meaning_share": 0.1, "session_meaning": 0.1}
both_models = pytest.mark.parametrize("name", ["with_meaning", "words_only"])


def told(*rows, tense="now", texts=TEXTS[:3], at=(0, 20, 10), who=(1, 1, 1)):
    """Return messages by their features, with the days on which they were said."""
    features = np.array([[row.get(name, 0.0) for name in FEATURES] for row in rows], np.float32)
    stems, words = (tuple(frozenset(words_of(text)) for text in texts) for words_of in (terms, plain_words))
    asked = frozenset(terms("where is the spare key"))
    said = Contents(np.array(who), np.zeros(len(rows), bool), stems, words, asked)
    return Messages(features, np.array(at, float) * DAY, tense, said)


def order(model, messages):
    """Return the messages, the best first."""
    return np.argsort(-model.odds(messages), kind="stable").tolist()


@both_models
@pytest.mark.parametrize(("tense", "first"), [("now", [1, 0]), ("past", [0, 1]), ("", [0, 1])])
def test_the_newest_of_the_same_thing_holds(name, tense, first):
    """It comes first where the question is about what holds, though the older one has more of its words."""
    model = getattr(shipped_models(), name)
    assert order(model, told(GOOD, FAIR, POOR, tense=tense))[:2] == first


@both_models
def test_the_oldest_comes_first_where_it_is_asked_what_was(name):
    """A newer one that has more of the words of the question stands behind it."""
    model = getattr(shipped_models(), name)
    assert order(model, told(FAIR, GOOD, POOR, tense="past"))[:2] == [0, 1]


@both_models
def test_what_was_replaced_is_as_likely_as_before(name):
    """Only what replaces it is lifted, and says that it is recent."""
    model = getattr(shipped_models(), name)
    messages = told(GOOD, FAIR, POOR)
    odds, alone = model.odds(messages), model.own_odds(messages)
    assert (odds == alone).tolist() == [True, False, True]
    assert odds[1] > odds[0]
    said = [reasons(row) for row in model.parts(messages).tolist()]
    assert ["recent" in each for each in said] == [False, True, False]


@both_models
@pytest.mark.parametrize(
    "changed",
    [
        {"rows": (GOOD, FAIR | {"asks": 1.0}, POOR)},
        {"rows": (GOOD | {"asks": 1.0}, FAIR, POOR)},
        {"rows": (GOOD, POOR, POOR), "texts": (TEXTS[0], TEXTS[2], TEXTS[3])},
        {"at": (5, 5, 5)},
    ],
)
def test_what_asks_or_answers_nothing_or_was_said_at_once_replaces_nothing(name, changed):
    """All keep the odds that each has by itself."""
    model = getattr(shipped_models(), name)
    changed = {"rows": (GOOD, FAIR, POOR), **changed}
    messages = told(*changed.pop("rows"), **changed)
    assert model.odds(messages).tolist() == model.own_odds(messages).tolist()


@both_models
def test_what_is_far_behind_is_not_compared(name):
    """Of ten thousand messages the worst change nothing, however new they are."""
    model = getattr(shipped_models(), name)
    rows = [{key: value * (1 - place / 10_000) for key, value in GOOD.items()} for place in range(10_000)]
    messages = told(*rows, texts=TEXTS[:1] * 10_000, at=range(10_000), who=[1] * 10_000)
    before = model.odds(messages)
    messages.at[100:] = 1e9
    assert (model.odds(messages) == before).all()


@both_models
def test_shipped_weights_keep_their_signs(name):
    """Each is a finite number of a clue that there is, and speaks for or against as that may."""
    found = getattr(shipped_models(), name).replacing
    assert found.weights
    assert found.weights.keys() <= set(PAIR_FEATURES)
    assert math.isfinite(found.bias)
    for feature, weight in found.weights.items():
        assert math.isfinite(weight)
        assert (weight <= 0) is (feature in AGAINST), feature


def test_without_weights_nothing_is_replaced():
    """A model that learnt nothing of it looks at each message by itself."""
    model = msgspec.structs.replace(shipped_models().with_meaning, replacing=Replacing())
    messages = told(GOOD, FAIR, POOR)
    assert model.odds(messages).tolist() == model.own_odds(messages).tolist()


def test_a_mixture_has_the_share_of_each():
    """Bias and weights are those of both, in these shares; a weight that one has not is 0 there."""
    both = mixed([(Replacing(1.0, {"days": 2.0}), 0.25), (Replacing(3.0, {"alike": 4.0}), 0.75)])
    assert both.bias == 2.5
    assert {name: weight for name, weight in both.weights.items() if weight} == {"days": 0.5, "alike": 3.0}


@given(
    st.lists(
        st.tuples(
            st.fixed_dictionaries({name: st.floats(0, 2, width=32) for name in FEATURES}),
            st.integers(0, 5),
            st.sampled_from(TEXTS),
            st.integers(0, 1),
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(["now", "past", ""]),
    st.randoms(),
)
def test_the_order_of_messages_does_not_matter(rows, tense, random):
    """Each scores the same wherever it stands among the others, and no less than by itself."""
    shuffled = np.array(random.sample(range(len(rows)), len(rows)), np.intp)
    features, at, texts, who = zip(*rows, strict=True)
    for model in (shipped_models().with_meaning, shipped_models().words_only):
        there = told(*features, tense=tense, texts=texts, at=at, who=who)
        odds = model.odds(there)
        assert (odds >= model.own_odds(there)).all()
        assert model.odds(there.some(shuffled)).tolist() == pytest.approx(odds[shuffled].tolist(), abs=1e-3)


@both_models
def test_the_robot_replaces_nothing_that_people_told_it(name):
    """What it repeats of them is newer, and no news; it replaces what it said itself."""
    model = getattr(shipped_models(), name)
    assert order(model, told(GOOD, FAIR, POOR, who=(1, NOBODY, 1)))[0] == 0
    assert order(model, told(GOOD, FAIR, POOR, who=(NOBODY, NOBODY, 1)))[0] == 1


@both_models
def test_what_has_a_number_of_the_question_is_another_thing_than_what_has_not(name):
    """Cup 1 is told of later than cup 0, and does not replace it."""
    model = getattr(shipped_models(), name)
    cups = ("cup 0 stands in the tall drawer", "cup 1 stands in the low drawer", TEXTS[3])
    said = told(GOOD, FAIR, POOR, texts=cups)
    for asked, first in (("where is cup 0", 0), ("where is the cup", 1)):
        messages = said._replace(contents=said.contents._replace(asked=frozenset(terms(asked))))
        assert order(model, messages)[0] == first


@both_models
@pytest.mark.parametrize(
    ("asked", "later", "first"),
    [
        ("what is the number of the plumber", "the number of the dentist is oh four six", 0),
        ("what is the number of the plumber", "the number of the plumber is oh four six", 1),
        ("what is the number of the plumber", "he changed his number and the office says oh four six", 1),
    ],
)
def test_what_exchanges_a_word_of_the_question_is_another_thing(name, asked, later, first):
    """The same said of the dentist does not replace the plumber's number; his new one does, in whichever words."""
    model = getattr(shipped_models(), name)
    messages = told(GOOD, FAIR, POOR, texts=("the number of the plumber is oh one two", later, TEXTS[3]))
    messages = messages._replace(contents=messages.contents._replace(asked=frozenset(terms(asked))))
    assert order(model, messages)[0] == first
