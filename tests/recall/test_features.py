"""Features: what each message shows of an answer, in numbers that mean the same for every question."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.index.sources import TURN
from edgemem.recall.query import ParsedQuery
from edgemem.recall.rank.features import FEATURES, features_of
from edgemem.recall.search.table import DocTable, Row
from edgemem.recall.search.view import Filter, View
from edgemem.recall.traits import ASKS, SAYS_I

DAY = 86400.0


def asking(**more):
    """Return a question of nobody and no time."""
    return ParsedQuery(terms=("cup",), meaning="the cup", people=more.pop("people", frozenset()), **more)


def row(number, **more):
    """Return a message of ann."""
    plain = Row(number, TURN, number, 0, None, "ann", 1, 1, 0.0, 0, None, None, 0, None, None, 3)
    return plain._replace(**more)


def looked_at(rows, question=None, *, slots=None, mentioned=(), **scores):
    """Return the features of messages by name; scores of words, windows and meaning by slot, of sessions by code."""
    columns = DocTable()
    for member in rows:
        columns.append(member)
    hits = features_of(
        view_of(columns, mentioned, **scores),
        np.arange(columns.n) if slots is None else np.array(slots, np.intp),
        question or asking(),
    )
    assert hits.dtype == np.float32
    assert hits.shape == (columns.n if slots is None else len(slots), len(FEATURES))
    return dict(zip(FEATURES, hits.T.tolist(), strict=True))


def view_of(columns, mentioned=(), *, words=(), window=(), session=(), meaning=()):
    """Return what the operator sees of a table, with scores."""
    view = View(columns, Filter(None))
    view.words[: len(words)], view.window[: len(window)], view.session[: len(session)] = (
        words,
        window,
        session,
    )
    view.cosines[: len(meaning)], view.near[: len(meaning)] = meaning, True
    view.mentioned[list(mentioned)] = True
    return view


def times(*spans):
    """Return times as the file has them."""
    return "[" + ",".join(f"[{begin},{end},{sure}]" for begin, end, sure in spans) + "]"


PLAIN, TWO_TALKS = (row(1), row(2), row(3)), (row(1), row(2), row(3, session_id=2))
ABOUT_ANN = asking(people=frozenset({"ann"}))
OF_TIMES = (
    row(1, times=times((10 * DAY, 20 * DAY, 1))),
    row(2, times=times((15 * DAY, 25 * DAY, 1))),
    row(3, times=times((12 * DAY, 13 * DAY, 0.5))),
    row(4, times=times((20 * DAY, 30 * DAY, 1))),
    row(5, times=times((0, 1, 1), (10 * DAY, 15 * DAY, 1), (19 * DAY, 20 * DAY, 1))),
    row(6),
)
SAME_SPEAKER = (
    row(1), row(2), row(3, who="bob"), row(4), row(5, session_id=2), row(6, who=None, session_id=2), row(7, who=None, session_id=2),
)  # fmt: skip
NEAREST = (row(1, marks=SAYS_I), row(2, who="bob"), row(3, who="bob"), row(4, marks=SAYS_I))


@pytest.mark.parametrize(
    ("rows", "question", "scores", "features"),
    [
        # The best text, window and session of a question are worth 1, whatever BM25 says, and nothing is worth 0.
        (TWO_TALKS, None, {"words": (0.5, 0.25, 0), "window": (8, 2, 4), "session": (0, 3, 6)},
         {"words": [1, 0.5, 0], "window": [1, 0.25, 0.5], "session_words": [0.5, 0.5, 1]}),
        ([row(1)], None, {}, {"words": [0], "window": [0], "session_words": [0], "meaning_share": [0]}),
        # The best cosine is a share of 1; where nothing is near, nothing is the best.
        (TWO_TALKS, None, {"meaning": (0.2, 0.8, 0.4)},
         {"meaning": [0.2, 0.8, 0.4], "meaning_share": [0.25, 1, 0.5], "session_meaning": [0.8, 0.8, 0.4]}),
        ([row(1)], None, {"meaning": (0.01,)}, {"meaning_share": [0.04]}),
        # It is about a person who is spoken of, or speaks of themselves; the nearest of that counts most.
        ([row(1, who="bob"), row(2, marks=SAYS_I), row(3, who="bob"), row(4, who="bob")], ABOUT_ANN, {"mentioned": [3]},
         {"mentioned": [0, 0, 0, 1], "about": [0, 1, 0, 1]}),
        (NEAREST, ABOUT_ANN, {"mentioned": [2], "meaning": (0.6, 0.9, 0.3, 0)}, {"about_meaning": [1, 0, 0.5, 0]}),
        (NEAREST, ABOUT_ANN, {"mentioned": [2], "meaning": (0.1, 0.9, 0, 0)}, {"about_meaning": [0.4, 0, 0, 0]}),
        # The words of what the same person told before count, also across one message of another, and of nobody else's.
        (SAME_SPEAKER, None, {"words": (1, 0.5, 0.25, 0, 0, 0.5, 0)}, {"words_led": [0, 1, 0, 0.5, 0, 0, 0]}),
        # Of ranks the best counts whole, equals count the same, the next ones less, and what is worth nothing not at all.
        ([row(n) for n in range(1, 6)], None, {"window": (2, 9, 2, 0, 1)}, {"window_rank": [2 / 3, 1, 2 / 3, 0, 0.4]}),
        ([row(1), row(2, session_id=2), row(3, session_id=2), row(4, session_id=3), row(5, session_id=4)], None,
         {"session": (0, 5, 9, 5, 0)}, {"session_rank": [2 / 3, 1, 1, 2 / 3, 0]}),
        # A text that speaks of a time counts where it is asked when; a text that asks is marked.
        ([row(1, times=times((0, 9, 1))), row(2, marks=ASKS)], asking(asks_when=True), {}, {"when": [1, 0], "asks": [0, 1]}),
        ([row(1, times=times((0, 9, 1))), row(2, marks=ASKS)], None, {}, {"when": [0, 0], "asks": [0, 1]}),
        # The more of both times is common, and the surer both are, the more it is worth; the best of several counts.
        (OF_TIMES, asking(times=((10 * DAY, 20 * DAY, 1.0),)), {}, {"date": [1, 0.5, 0.05, 0, 0.5, 0]}),
        (OF_TIMES, asking(times=((10 * DAY, 20 * DAY, 0.5),)), {}, {"date": [0.5, 0.25, 0.025, 0, 0.25, 0]}),
        (OF_TIMES, None, {}, {"date": [0] * 6}),
        # What was told then counts by how sure the time is, whether anybody speaks of a time or not.
        ([row(1, at=9.99 * DAY), row(2, at=10 * DAY)], asking(times=((10 * DAY, 11 * DAY, 0.7),)), {}, {"date_said": [0, 0.7]}),
        ([row(1, at=9.99 * DAY), row(2, at=10 * DAY)], None, {}, {"date_said": [0, 0]}),
    ],
)  # fmt: skip
def test_each_feature_by_itself(rows, question, scores, features):
    """Each tells its own of an answer, and has a reason that results may give."""
    table = looked_at(rows, question, **scores)
    assert {name: table[name] for name in features} == {
        name: pytest.approx(values) for name, values in features.items()
    }
    assert set(FEATURES.values()) == {"words", "meaning", "neighbour", "session", "person", "date", "form"}


def test_shares_are_of_the_best_in_the_memory():
    """Which candidates are looked at does not change what each is worth."""
    scores = {"words": (0.2, 0.4, 0.8), "window": (1, 2, 3), "session": (0, 1), "meaning": (0.9, 0.3, 0.6)}
    whole = looked_at(PLAIN, **scores)
    part = looked_at(PLAIN, slots=[2, 0], **scores)
    assert {name: [values[2], values[0]] for name, values in whole.items()} == part


def test_what_came_after_the_question_counts_for_nothing():
    """A message that another thread has read in since is beside none."""
    columns = DocTable()
    for number in (1, 2):
        columns.append(row(number))
    view = view_of(columns, words=(1, 0), window=(1, 0), session=(0, 1), meaning=(0.5, 0))
    question, slots = asking(people=frozenset({"ann"})), np.arange(2)
    before = features_of(view, slots, question)
    columns.append(row(3, marks=SAYS_I, session_id=1))
    assert (before == features_of(view, slots, question)).all()


numbers = st.lists(st.floats(0, 1, width=32), min_size=5, max_size=5)
spans = st.tuples(st.floats(-1e12, 1e12), st.floats(0, 1e12), st.floats(0.1, 1)).map(
    lambda member: (member[0], member[0] + member[1], member[2])
)


@given(
    st.lists(
        st.builds(
            row,
            st.integers(1, 5),
            who=st.sampled_from([None, "ann", "bob"]),
            session_id=st.integers(1, 3),
            at=st.floats(-1e12, 1e12),
            marks=st.integers(0, 63),
            length=st.integers(0, 10**6),
            times=st.one_of(st.none(), spans.map(times)),
        ),
        max_size=5,
    ),
    numbers,
    numbers,
    numbers,
    st.builds(
        asking,
        people=st.frozensets(st.sampled_from(["ann", "zoe"])),
        times=st.lists(spans, max_size=2).map(tuple),
        asks_when=st.booleans(),
    ),
)
def test_features_are_small_numbers(rows, words, window, meaning, question):
    """Whatever is said and asked, each feature lies between 0 and a little over 1, so that a weight means the same for all."""
    n = len(rows)
    hits = looked_at(
        rows, question, words=words[:n], window=window[:n], meaning=meaning[:n], mentioned=range(0, n, 2)
    )
    for name, values in hits.items():
        assert all(0 <= value <= 1.0001 for value in values), name
