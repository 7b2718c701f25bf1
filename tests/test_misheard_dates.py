"""Misheard months and weekdays are set right where the words around them tell that a date was said."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.misheard_dates import with_dates
from edgemem.recall.question import read_question, take_apart
from edgemem.recall.traits import traits_of

NOON = datetime(2025, 4, 1, 12, tzinfo=timezone.utc).timestamp()


@pytest.mark.parametrize(
    ("heard", "said"),
    [
        ("what broke on the ninth of apron", "what broke on the ninth of april"),
        ("what broke on the fifth of much?", "what broke on the fifth of march?"),
        ("the 3rd of Marsh", "the 3rd of march"),
        ("it is due on the first of a pill", "it is due on the first of april"),
        ("they come on wends day", "they come on wednesday"),
        ("they come on sun day at ten", "they come on sunday at ten"),
        ("closed since momday", "closed since monday"),
        ("the seventh of march on vriday", "the seventh of march on friday"),
    ],
)
def test_what_sounds_like_a_date_where_one_is_said_is_that_date(heard: str, said: str) -> None:
    """A month follows an ordinal and "of", a weekday "on" and the like."""
    assert with_dates(heard) == said


@pytest.mark.parametrize(
    "text",
    [
        "the second of my friends",
        "the first of them",
        "the first of its kind",
        "the third of May",
        "much ado about an apron",
        "on one day",
        "by some day",
        "on Fridays",
        "on holiday until midday",
        "from Vienna by train",
        "every fried egg",
        "in momday",
        "am neunten apron",
        "ngày chín tháng tư",
        "",
    ],
)
def test_everything_else_stays_as_it_was_written(text: str) -> None:
    """English words and function words are no weekdays, and no months where no ordinal stands before them."""
    assert with_dates(text) == text


@given(st.text(max_size=80))
def test_setting_dates_right_is_done_once(text: str) -> None:
    """What was set right is left alone, whatever the text is."""
    once = with_dates(text)
    assert with_dates(once) == once


def test_a_question_and_a_text_are_dated_by_what_was_meant() -> None:
    """The time of a misheard date is looked for, and noted of what is stored."""
    right = read_question(take_apart("what broke on the ninth of april", NOON))
    assert right.times
    assert read_question(take_apart("what broke on the ninth of apron", NOON)).times == right.times
    noted = traits_of("the boiler man comes on momday", NOON).times
    assert noted
    assert noted == traits_of("the boiler man comes on monday", NOON).times
