"""Replacing: what was told anew comes before what it replaces, and nothing else does."""

from __future__ import annotations

import numpy as np
import pytest

from edgemem.recall.index.table import NOBODY
from edgemem.recall.search.features import FEATURES
from edgemem.recall.search.models import Candidates, Contents, odds_of, shipped_models
from edgemem.recall.text.analyse import plain_words, terms

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
    return Candidates(features, np.array(at, float) * DAY, tense, spoken)


def order(model, messages):
    """Return the messages, the best first."""
    return np.argsort(-odds_of(messages, model)[0], kind="stable").tolist()


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
