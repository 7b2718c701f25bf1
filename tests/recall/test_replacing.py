"""Replacing: what was told anew comes before what it replaces, and nothing else does."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.rank.features import FEATURES
from edgemem.recall.rank.model import shipped_models
from edgemem.recall.rank.replacing import PAIR_FEATURES, Contents, Messages, Replacing
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


def messages_of(*rows, tense="now", texts=TEXTS[:3], at=(0, 20, 10), who=(1, 1, 1)):
    """Return messages by their features, with the days on which they were said."""
    features = np.array([[row.get(name, 0.0) for name in FEATURES] for row in rows], np.float32)
    stems, words = (
        np.array([frozenset(words_of(text)) for text in texts], object) for words_of in (terms, plain_words)
    )
    asked = frozenset(terms("where is the spare key"))
    spoken = Contents(np.array(who), np.zeros(len(rows), bool), stems, words, asked)
    return Messages(features, np.array(at, float) * DAY, tense, spoken)


def order(model, messages):
    """Return the messages, the best first."""
    return np.argsort(-model.odds(messages), kind="stable").tolist()


@both_models
@pytest.mark.parametrize(
    ("rows", "tense", "first"),
    [
        ((GOOD, FAIR, POOR), "now", [1, 0]),
        ((GOOD, FAIR, POOR), "past", [0, 1]),
        ((FAIR, GOOD, POOR), "past", [0, 1]),
        ((GOOD, FAIR, POOR), "", [0, 1]),
    ],
)
def test_the_newest_of_the_same_thing_holds_and_the_oldest_did_before(name, rows, tense, first):
    """That comes first which the question is about, though the other one may have more of its words."""
    assert order(getattr(shipped_models(), name), messages_of(*rows, tense=tense))[:2] == first


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
    messages = messages_of(*changed.pop("rows"), **changed)
    assert model.odds(messages).tolist() == model.own_odds(messages).tolist()
    learnt_nothing, messages = (
        msgspec.structs.replace(model, replacing=Replacing()),
        messages_of(GOOD, FAIR, POOR),
    )
    assert learnt_nothing.odds(messages).tolist() == model.own_odds(messages).tolist()


@both_models
def test_what_is_far_behind_is_not_compared(name):
    """Of ten thousand messages the worst change nothing, however new they are."""
    model = getattr(shipped_models(), name)
    rows = [{key: value * (1 - place / 10_000) for key, value in GOOD.items()} for place in range(10_000)]
    messages = messages_of(*rows, texts=TEXTS[:1] * 10_000, at=range(10_000), who=[1] * 10_000)
    before = model.odds(messages)
    messages.at[100:] = 1e9
    assert (model.odds(messages) == before).all()


@both_models
def test_shipped_weights_keep_their_signs(name):
    """Each weight is a finite number of a feature that there is, and speaks for or against as that may."""
    hits = getattr(shipped_models(), name).replacing
    assert hits.weights
    assert hits.weights.keys() <= set(PAIR_FEATURES)
    assert math.isfinite(hits.bias)
    for feature, weight in hits.weights.items():
        assert math.isfinite(weight)
        assert (weight <= 0) is (feature in AGAINST), feature


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
        beside = messages_of(*features, tense=tense, texts=texts, at=at, who=who)
        odds = model.odds(beside)
        assert (odds >= model.own_odds(beside)).all()
        assert model.odds(beside.some(shuffled)).tolist() == pytest.approx(odds[shuffled].tolist(), abs=1e-3)


PLUMBER, NUMBER = "the number of the plumber is oh one two", "what is the number of the plumber"
CUPS = ("cup 0 stands in the tall drawer", "cup 1 stands in the low drawer")


@both_models
@pytest.mark.parametrize(
    ("texts", "asked", "who", "first"),
    [
        (
            TEXTS[:2],
            "where is the spare key",
            (1, NOBODY, 1),
            0,
        ),  # what the robot repeats is newer, and no news
        (TEXTS[:2], "where is the spare key", (NOBODY, NOBODY, 1), 1),
        (CUPS, "where is cup 0", (1, 1, 1), 0),  # what has another number is another thing
        (CUPS, "where is the cup", (1, 1, 1), 1),
        ((PLUMBER, "the number of the dentist is oh four six"), NUMBER, (1, 1, 1), 0),
        ((PLUMBER, "the number of the plumber is oh four six"), NUMBER, (1, 1, 1), 1),
        ((PLUMBER, "he changed his number and the office says oh four six"), NUMBER, (1, 1, 1), 1),
    ],
)
def test_what_is_another_thing_or_the_robots_own_replaces_nothing(name, texts, asked, who, first):
    """The same told of the dentist does not replace the plumber's number; his new one does, in whichever words."""
    messages = messages_of(GOOD, FAIR, POOR, texts=(*texts, TEXTS[3]), who=who)
    messages = messages._replace(contents=messages.contents._replace(asked=frozenset(terms(asked))))
    assert order(getattr(shipped_models(), name), messages)[0] == first
