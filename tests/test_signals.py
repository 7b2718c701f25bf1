"""Signals: what each message shows of an answer, in numbers that mean the same for every question."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.columns import Columns, Row
from edgemem.recall.question import Question
from edgemem.recall.signals import SIGNALS, Field, signals_of
from edgemem.recall.sources import TURN
from edgemem.recall.traits import ASKS, CHANGES, COUNTS, NAMES, SAYS_I, SAYS_YOU

DAY = 86400.0


def asking(**more):
    """Return a question of nobody and no time."""
    return Question(terms=("cup",), meaning="the cup", people=more.pop("people", frozenset()), **more)


def row(number, **more):
    """Return a message of ann."""
    plain = Row(number, TURN, number, 0, None, "ann", 1, 1, 0.0, 0, None, None, 0, None, None, 3)
    return plain._replace(**more)


def looked_at(rows, question=None, *, slots=None, mentioned=(), texts=(), **scores):
    """Return the signals of messages by name; scores of words, windows and meaning by slot, of sessions by code."""
    columns = Columns()
    for number, each in enumerate(rows):
        columns.append(each, texts[number].split() if texts else None)
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
        padded("related", n + 1),
        known=scores.get("known", True),
    )
    spoken_of = np.isin(np.arange(n + 1), list(mentioned))
    found = signals_of(
        field,
        np.arange(n) if slots is None else np.array(slots, np.intp),
        question or asking(),
        spoken_of,
        everything,
    )
    assert found.dtype == np.float32
    assert found.shape == (n if slots is None else len(slots), len(SIGNALS))
    return dict(zip(SIGNALS, found.T.tolist(), strict=True))


def everything(slots):
    """Allow all slots."""
    return np.ones(len(slots), bool)


def times(*spans):
    """Return times as the file has them."""
    return "[" + ",".join(f"[{begin},{end},{sure}]" for begin, end, sure in spans) + "]"


def test_each_signal_stands_for_a_reason():
    """All reasons are those that results may give."""
    assert set(SIGNALS.values()) == {
        "words", "meaning", "neighbour", "session", "person", "date", "kind", "form", "recent", "related",
    }  # fmt: skip


def test_words_are_shares_of_the_best():
    """The best text, window and session of a question are worth 1, whatever BM25 says, and nothing is worth 0."""
    found = looked_at(
        [row(1), row(2), row(3, session_id=2)],
        words=(0.5, 0.25, 0),
        window=(8, 2, 4),
        session=(0, 3, 6),
        related=(0, 0.125, 0.5),
    )
    assert found["words"] == [1, 0.5, 0]
    assert found["related"] == [0, 0.25, 1]
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


def test_neighbours_lend_what_they_are_worth():
    """A message is worth more for the one before it, in its session only."""
    rows = [row(1), row(2), row(3), row(4, session_id=2)]
    found = looked_at(rows, words=(1, 0.5, 0.25, 0), meaning=(0.8, 0.4, 0.2, 0))
    assert found["words_before"] == [0, 1, 0.5, 0]
    assert found["meaning_before"] == pytest.approx([0, 0.8, 0.4, 0])


def test_who_said_it():
    """Somebody whom the question names says something, and says it of themselves; nobody named, nobody counts."""
    rows = [row(1, marks=SAYS_I), row(2), row(3, who="bob", marks=SAYS_I), row(4, who=None)]
    named = looked_at(rows, asking(people=frozenset({"ann", "zoe"})))
    assert named["speaker"] == [1, 1, 0, 0]
    assert named["other_speaker"] == [0, 0, 1, 1]
    assert named["speaker_says_i"] == [1, 0, 0, 0]
    unnamed = looked_at(rows)
    assert [unnamed[name] for name in ("speaker", "other_speaker", "speaker_says_i")] == [[0] * 4] * 3
    unknown = looked_at(rows, asking(people=frozenset({"zoe"})))
    assert unknown["speaker"] == [0] * 4
    assert unknown["other_speaker"] == [1] * 4


def test_whom_it_is_about():
    """It is about a person who is spoken of or speaks of themselves; beside such a message another may be it, too."""
    rows = [
        row(1, who="bob", marks=NAMES),
        row(2, marks=SAYS_I),
        row(3, who="bob"),
        row(4, who="bob", marks=NAMES),
        row(5, who="bob", session_id=2, marks=NAMES),
    ]
    found = looked_at(rows, asking(people=frozenset({"ann"})), mentioned=[3])
    assert found["mentioned"] == [0, 0, 0, 1, 0]
    assert found["about"] == [0, 1, 0, 1, 0]
    assert found["about_beside"] == [1, 0, 1, 0, 0]
    assert found["other_mentioned"] == [1, 0, 0, 0, 1]
    assert looked_at(rows)["other_mentioned"] == [0] * 5


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


def test_what_was_asked_before_makes_an_answer():
    """The words of a question count for what another one says next."""
    rows = [row(1, marks=ASKS), row(2, who="bob"), row(3, who=None, marks=ASKS), row(4, marks=ASKS), row(5)]
    found = looked_at(rows, words=(1, 0.5, 0.25, 0.75, 0))
    assert found["words_asked"] == [0, 1, 0, 0.25, 0]


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


def test_who_tells_something_says_a_rare_word():
    """Texts are worth what their words are, those of the question apart where it is said."""
    rows = [row(1), row(2), row(3), row(4)]
    found = looked_at(rows, texts=("cup shelf", "cup shelf", "cup attic", "cup"))
    assert found["single"] == [0.5, 0.5, 1, 0]
    assert found["rarest"][2] == pytest.approx(1)
    assert found["rarest"][3] < found["rarest"][0] == found["rarest"][1] < 1
    assert found["rare_words"][3] < found["rare_words"][0] < found["rare_words"][2] < 1
    strangers = looked_at([row(1), row(2, level=1)], texts=("shelf", "shelf"), known=False)
    assert strangers["single"][0] == 1


def test_what_changed_counts_where_it_is_asked_how_it_is():
    """It counts apart where a question says so, and not at all where it asks for what was."""
    rows = [row(1, marks=CHANGES), row(2)]
    plain, now, past = (
        looked_at(rows),
        looked_at(rows, asking(asks_now=True)),
        looked_at(rows, asking(in_past=True)),
    )
    assert [each["change"] for each in (plain, now, past)] == [[0, 0], [1, 0], [0, 0]]
    assert [each["change_present"] for each in (plain, now, past)] == [[1, 0], [0, 0], [0, 0]]


def test_what_was_said_later_may_have_changed_it():
    """Of what may answer, each has against it as much as was said after it; only where it is asked how it is now."""
    rows = [row(1, at=5.0), row(2, at=9.0), row(3, at=1.0), row(4, at=9.0)]
    later = looked_at(rows, asking(asks_now=True), meaning=(0.8, 0.8, 0.8, 0))["later"]
    assert later[1] == later[3] == pytest.approx(0)
    assert later[0] == pytest.approx((1 + np.exp(-4)) / (3 + np.exp(-4)))
    assert later[2] == pytest.approx((2 + np.exp(-4)) / (3 + np.exp(-4)))
    assert looked_at(rows, meaning=(0.8, 0.8, 0.8, 0))["later"] == [0] * 4


def test_what_was_said_before_is_what_was():
    """Of what may answer, each has against it as much as was said before it; only where it is asked how it was."""
    rows = [row(1, at=5.0), row(2, at=9.0), row(3, at=1.0), row(4, at=9.0)]
    earlier = looked_at(rows, asking(asks_past=True), meaning=(0.8, 0.8, 0.8, 0))["earlier"]
    assert earlier[2] == 0
    assert earlier[0] == pytest.approx(1 / (3 + np.exp(-4)))
    assert earlier[1] == earlier[3] == pytest.approx(2 / (3 + np.exp(-4)))
    assert looked_at(rows, asking(asks_now=True), meaning=(0.8, 0.8, 0.8, 0))["earlier"] == [0] * 4
    assert looked_at(rows[:0], asking(asks_past=True, asks_now=True))["earlier"] == []


def test_kinds_of_answers():
    """A number counts where a number is asked for, a name where a name is, a time where it is asked when."""
    rows = [row(1, marks=COUNTS), row(2, marks=NAMES), row(3, times=times((0, 9, 1)))]
    every = asking(asks_number=True, asks_name=True, asks_when=True)
    for question, value in ((every, 1), (asking(), 0)):
        found = looked_at(rows, question)
        assert found["number"] == [value, 0, 0]
        assert found["name"] == [0, value, 0]
        assert found["when"] == [0, 0, value]


def test_the_form_of_a_text():
    """Questions, "I" and "you" are marked, and length tells less and less."""
    rows = [row(1, marks=ASKS, length=1), row(2, marks=SAYS_I, length=10), row(3, marks=SAYS_YOU, length=999)]
    found = looked_at([*rows, row(4, length=60), row(5, length=0)])
    assert found["asks"] == [1, 0, 0, 0, 0]
    assert found["says_i"] == [0, 1, 0, 0, 0]
    assert found["says_you"] == [0, 0, 1, 0, 0]
    one, ten, endless, long, none = found["length"]
    assert none == 0 < one < ten < long == endless <= 1.1


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
        *(np.array(each, np.float32) for each in ([1, 0, 0], [1, 0, 0], [0, 1], [0.5, 0, 0], [0, 1, 0])),
    )
    question, slots = asking(people=frozenset({"ann"})), np.arange(2)
    before = signals_of(field, slots, question, np.zeros(3, bool), everything)
    columns.append(row(3, marks=SAYS_I, session_id=1))
    columns.append(row(4, marks=SAYS_I, session_id=9, times=times((0, 9, 1))))
    after = signals_of(field, slots, question, np.zeros(3, bool), everything)
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
        asks_number=st.booleans(),
        asks_name=st.booleans(),
        asks_now=st.booleans(),
        in_past=st.booleans(),
    ),
)
def test_signals_are_small_numbers(rows, words, window, meaning, question):
    """Whatever is said and asked, each signal lies between 0 and a little over 1, so that a weight means the same for all."""
    n = len(rows)
    found = looked_at(
        rows, question, words=words[:n], window=window[:n], meaning=meaning[:n], mentioned=range(0, n, 2)
    )
    for name, values in found.items():
        assert all(0 <= value <= (1.1 if name == "length" else 1.0001) for value in values), name
