"""Past times: what a question that names a time asks for, by the words around it."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.past_times import past_times
from edgemem.recall.question import take_apart


def at(text: str) -> float:
    """Return a moment of the local calendar, given as 2026-03-14."""
    return datetime.strptime(text, "%Y-%m-%d").astimezone().timestamp()


NOW = at("2026-11-20")


def days(text: str) -> list[tuple[str, str]]:
    """Return first and last day, the latter not included, of the times of a question."""
    return [
        tuple(datetime.fromtimestamp(each).astimezone().strftime("%Y-%m-%d") for each in time)
        for time in past_times(take_apart(text, NOW), NOW)
    ]


@pytest.mark.parametrize(
    ("query", "begin", "end"),
    [
        ("What was the code in March?", "2026-03-01", "2026-04-01"),
        ("What was the code before March?", "2026-02-28", "2026-03-01"),
        ("What was the code until the third of March?", "2026-03-02", "2026-03-03"),
        ("What has the code been since March?", "2026-03-01", "2026-11-20"),
        ("What was the code after March?", "2026-04-01", "2026-11-20"),
        ("What was the code from April to July?", "2026-04-01", "2026-08-01"),
        ("What was it from the third of April until the fifth of July?", "2026-04-03", "2026-07-06"),
        ("What was the code the day before yesterday?", "2026-11-18", "2026-11-19"),
        ("Which codes did we have this year?", "2026-01-01", "2026-11-20"),
        ("Was war der Code vor dem dritten April?", "2026-04-02", "2026-04-03"),
        ("Was war der Code zwischen April und Juli?", "2026-04-01", "2026-08-01"),
        ("Was war der Code seit März?", "2026-03-01", "2026-11-20"),
        ("¿Cuál era el código antes de marzo?", "2026-02-28", "2026-03-01"),
        ("2026年3月之前的密码是什么?", "2026-02-28", "2026-03-01"),
        ("Mã cửa trước tháng 3 năm 2026 là gì?", "2026-02-28", "2026-03-01"),
    ],
)
def test_the_words_around_a_time_tell_what_is_meant(query, begin, end):
    """Before it, since it, after it and from one to another, in five languages."""
    assert days(query) == [(begin, end)]


def test_two_times_are_two():
    """What is asked of each of them is asked apart."""
    assert days("What was it in April and in July?") == [
        ("2026-04-01", "2026-05-01"),
        ("2026-07-01", "2026-08-01"),
    ]


@pytest.mark.parametrize(
    "query",
    ["What is the code next March?", "What is the code this year?", "What is the code today?", "the code"],
)
def test_what_is_asked_of_now_or_later_has_none(query):
    """A time that goes on is over as far as now where the question speaks of the past, and not at all else."""
    assert not days(query)


words = st.sampled_from(
    [
        "before",
        "since",
        "from",
        "to",
        "between",
        "and",
        "March",
        "2025",
        "yesterday",
        "April 3rd",
        "bis",
        "was",
        "之前",
    ]
)


@given(st.one_of(st.text(max_size=200), st.lists(words, max_size=12).map(" ".join)))
def test_any_text_has_times_that_are_over_or_none(text):
    """Whatever is asked, every time lies before now."""
    assert all(begin < end <= NOW for begin, end in past_times(take_apart(text, NOW), NOW))
