"""Features: what each message shows of an answer, in numbers that mean the same for every question."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.index.sources import TURN
from edgemem.recall.query import ParsedQuery
from edgemem.recall.rank.features import FEATURES, Field, features_of
from edgemem.recall.search.table import Columns, Row
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
    columns = Columns()
    for each in rows:
        columns.append(each)
    n = columns.n

    def padded(name, length):
        given = scores.get(name, ())
        return np.array([*given, *[0.0] * (length - len(given))], np.float32)

    field = Field(
        columns,
        padded("words", n + 1),
        padded("window", n + 1),
        padded("session", columns.sessions),
        padded("meaning", n + 1),
    )
    spoken_of = np.isin(np.arange(n + 1), list(mentioned))
    found = features_of(
        field,
        np.arange(n) if slots is None else np.array(slots, np.intp),
        question or asking(),
        spoken_of,
        everything,
    )
    assert found.dtype == np.float32
    assert found.shape == (n if slots is None else len(slots), len(FEATURES))
    return dict(zip(FEATURES, found.T.tolist(), strict=True))


def everything(slots):
    """Allow all slots."""
    return np.ones(len(slots), bool)


def times(*spans):
    """Return times as the file has them."""
    return "[" + ",".join(f"[{begin},{end},{sure}]" for begin, end, sure in spans) + "]"


def test_each_feature_stands_for_a_reason():
    """All reasons are those that results may give."""
    assert set(FEATURES.values()) == {
        "words", "meaning", "neighbour", "session", "person", "date", "form",
    }  # fmt: skip


def test_words_are_shares_of_the_best():
    """The best text, window and session of a question are worth 1, whatever BM25 says, and nothing is worth 0."""
    found = looked_at(
        [row(1), row(2), row(3, session_id=2)],
        words=(0.5, 0.25, 0),
        window=(8, 2, 4),
        session=(0, 3, 6),
    )
    assert found["words"] == [1, 0.5, 0]
    assert found["window"] == [1, 0.25, 0.5]
    assert found["session_words"] == [0.5, 0.5, 1]
    nothing = looked_at([row(1)])
    assert [nothing[name] for name in ("words", "window", "session_words", "meaning_share")] == [[0]] * 4


def test_shares_are_of_the_best_in_the_memory():
    """Which candidates are looked at does not change what each is worth."""
    rows = [row(1), row(2), row(3)]
    scores = {"words": (0.2, 0.4, 0.8), "window": (1, 2, 3), "session": (0, 1), "meaning": (0.9, 0.3, 0.6)}
    whole = looked_at(rows, **scores)
    part = looked_at(rows, slots=[2, 0], **scores)
    assert {name: [values[2], values[0]] for name, values in whole.items()} == part


def test_meaning_is_given_as_it_is_and_as_a_share():
    """The best cosine is a share of 1; where nothing is near, nothing is the best."""
    found = looked_at([row(1), row(2), row(3, session_id=2)], meaning=(0.2, 0.8, 0.4))
    assert found["meaning"] == pytest.approx([0.2, 0.8, 0.4])
    assert found["meaning_share"] == pytest.approx([0.25, 1, 0.5])
    assert found["session_meaning"] == pytest.approx([0.8, 0.8, 0.4])
    assert looked_at([row(1)], meaning=(0.01,))["meaning_share"] == pytest.approx([0.04])


def test_whom_it_is_about():
    """It is about a person who is spoken of, or speaks of themselves."""
    rows = [row(1, who="bob"), row(2, marks=SAYS_I), row(3, who="bob"), row(4, who="bob")]
    found = looked_at(rows, asking(people=frozenset({"ann"})), mentioned=[3])
    assert found["mentioned"] == [0, 0, 0, 1]
    assert found["about"] == [0, 1, 0, 1]


def test_what_somebody_said_before_leads_to_what_they_say_now():
    """The words of what the same person said last count, also across one message of another, and of nobody else's."""
    rows = [
        row(1),
        row(2),
        row(3, who="bob"),
        row(4),
        row(5, session_id=2),
        row(6, who=None, session_id=2),
        row(7, who=None, session_id=2),
    ]
    found = looked_at(rows, words=(1, 0.5, 0.25, 0, 0, 0.5, 0))
    assert found["words_led"] == [0, 1, 0, 0.5, 0, 0, 0]


def test_the_best_windows_are_told_apart_by_their_rank():
    """The best of all counts whole, equals count the same, the next ones less, and what is worth nothing not at all."""
    rows = [row(1), row(2), row(3), row(4), row(5)]
    assert looked_at(rows, window=(2, 9, 2, 0, 1))["window_rank"] == pytest.approx([2 / 3, 1, 2 / 3, 0, 0.4])


def test_sessions_are_told_apart_by_their_rank():
    """Each message counts as much as the place of its session by the words of all that was said there."""
    rows = [row(1), row(2, session_id=2), row(3, session_id=2), row(4, session_id=3), row(5, session_id=4)]
    found = looked_at(rows, session=(0, 5, 9, 5, 0))
    assert found["session_rank"] == pytest.approx([2 / 3, 1, 1, 2 / 3, 0])


def test_the_nearest_of_what_is_about_somebody():
    """What is about whom the question names is a share of the nearest of it, and nothing else counts."""
    rows = [row(1, marks=SAYS_I), row(2, who="bob"), row(3, who="bob"), row(4, marks=SAYS_I)]
    asked = asking(people=frozenset({"ann"}))
    found = looked_at(rows, asked, mentioned=[2], meaning=(0.6, 0.9, 0.3, 0))
    assert found["about_meaning"] == pytest.approx([1, 0, 0.5, 0])
    faint = looked_at(rows, asked, mentioned=[2], meaning=(0.1, 0.9, 0, 0))
    assert faint["about_meaning"] == pytest.approx([0.4, 0, 0, 0])


def test_what_asks_when():
    """A text that speaks of a time counts where it is asked when; a text that asks is marked."""
    rows = [row(1, times=times((0, 9, 1))), row(2, marks=ASKS)]
    assert looked_at(rows, asking(asks_when=True))["when"] == [1, 0]
    assert looked_at(rows)["when"] == [0, 0]
    assert looked_at(rows)["asks"] == [0, 1]


def test_a_text_that_speaks_of_the_time_in_question():
    """The more of both times is common, and the surer both are, the more it is worth; the best of several counts."""
    asked = asking(times=((10 * DAY, 20 * DAY, 1.0),))
    rows = [
        row(1, times=times((10 * DAY, 20 * DAY, 1))),
        row(2, times=times((15 * DAY, 25 * DAY, 1))),
        row(3, times=times((12 * DAY, 13 * DAY, 0.5))),
        row(4, times=times((20 * DAY, 30 * DAY, 1))),
        row(5, times=times((0, 1, 1), (10 * DAY, 15 * DAY, 1), (19 * DAY, 20 * DAY, 1))),
        row(6),
    ]
    assert looked_at(rows, asked)["date"] == pytest.approx([1, 0.5, 0.05, 0, 0.5, 0])
    unsure = asking(times=((10 * DAY, 20 * DAY, 0.5),))
    assert looked_at(rows, unsure)["date"] == pytest.approx([0.5, 0.25, 0.025, 0, 0.25, 0])
    assert looked_at(rows)["date"] == [0] * 6


def test_what_was_said_at_the_time_in_question():
    """What was said then counts by how sure the time is, whether anybody speaks of a time or not."""
    rows = [row(1, at=9.99 * DAY), row(2, at=10 * DAY)]
    asked = asking(times=((10 * DAY, 11 * DAY, 0.7),))
    assert looked_at(rows, asked)["date_said"] == pytest.approx([0, 0.7])
    assert looked_at(rows)["date_said"] == [0, 0]


def test_what_came_after_the_question_counts_for_nothing():
    """A message that another thread has read in since is beside none."""
    columns = Columns()
    for number in (1, 2):
        columns.append(row(number))
    field = Field(
        columns,
        *(np.array(each, np.float32) for each in ([1, 0, 0], [1, 0, 0], [0, 1], [0.5, 0, 0])),
    )
    question, slots = asking(people=frozenset({"ann"})), np.arange(2)
    before = features_of(field, slots, question, np.zeros(3, bool), everything)
    columns.append(row(3, marks=SAYS_I, session_id=1))
    columns.append(row(4, marks=SAYS_I, session_id=9, times=times((0, 9, 1))))
    after = features_of(field, slots, question, np.zeros(3, bool), everything)
    assert (before == after).all()


numbers = st.lists(st.floats(0, 1, width=32), min_size=5, max_size=5)
spans = st.tuples(st.floats(-1e12, 1e12), st.floats(0, 1e12), st.floats(0.1, 1)).map(
    lambda each: (each[0], each[0] + each[1], each[2])
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
    found = looked_at(
        rows, question, words=words[:n], window=window[:n], meaning=meaning[:n], mentioned=range(0, n, 2)
    )
    for name, values in found.items():
        assert all(0 <= value <= 1.0001 for value in values), name
