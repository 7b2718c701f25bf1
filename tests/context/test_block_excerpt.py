"""Excerpts: fewer sentences, each of them whole, from the one that has the question on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.context.block.excerpt import GAP, MOST_CHARS, excerpt, tells
from edgemem.recall.text.analyse import terms

_SOME = """
the a really so and but if because not never I we she Ann 7 1,200 yesterday went garden code is was which it's don't wow, Hey
really, — ; . ! ? … 日本。 für "quoted" (aside) [x] peanuts tea 2,5 twice day
"""
WORDS = st.sampled_from([*_SOME.split(), "\n"])
TEXTS = st.lists(WORDS, max_size=60).map(" ".join) | st.text(max_size=300)
WIFI = (
    "The guest wifi has changed since yesterday, because somebody was leeching. It is purple giraffe eleven."
)


def shortened(text: str, question: str) -> str:
    """Return the sentence that answers a question."""
    return excerpt(text, frozenset(terms(question))).text


@given(TEXTS, st.lists(WORDS, max_size=4))
def test_an_excerpt_is_a_part_of_the_text(text: str, asked: list[str]) -> None:
    """It is what stands there, byte for byte, and grows until it is the whole text."""
    part = excerpt(text, frozenset(terms(" ".join(asked))))
    while not part.whole:
        assert GAP in part.text
        assert part.text.removeprefix(GAP).removesuffix(GAP) in text
        part = next(part.longer())
    assert part.text == text[:MOST_CHARS]
    assert not list(part.longer())


@pytest.mark.parametrize(
    "said",
    [
        "We will go to the lake on Sunday if Tom repairs the car. Bring the big towels and the dog.",
        "I like the green sofa from the market, but Anna finds it ugly and cheap. We bought the red one.",
        "I said that Tom broke the vase and that Mia saw nothing. The glue is in the drawer.",
        "I booked the flight to Rome on Monday and cancelled it on Friday evening. We take the train.",
        "The boat is stuck between the old harbour and the new bridge. Nobody was hurt.",
        "Ich habe an der Tür so lange auf den Mann gewartet. Der Schlüssel liegt jetzt unter dem Topf.",
    ],
)
def test_nothing_is_cut_out_of_a_sentence(said: str) -> None:
    """What turns a statement round, frames or completes it stands with it, in whatever language."""
    first, _, second = said.partition(". ")
    assert shortened(said, first) == f"{first}.{GAP}"
    assert shortened(said, second) == f"{GAP}{second}"


def test_a_sentence_without_an_end_is_told_in_part() -> None:
    """Recognisers may write no full stop: what has the question is told, and not the beginning."""
    said = (
        "and then we walked along the river and talked about old films " * 8
        + "and the cellar key hangs behind the boiler"
    )
    told = shortened(said, "where does the cellar key hang")
    assert "hangs behind the boiler" in told
    assert len(told) <= 100


@pytest.mark.parametrize(
    ("said", "more"),
    [
        ("That's so great!", False),
        ("Sounds good.", False),
        ("The key is red.", True),
        ("我明天去上海。", True),
        ("", False),
    ],
)
def test_small_talk_tells_nothing(said: str, more: bool) -> None:
    """Praise is not missed; whatever has two content words is, and a sentence without spaces."""
    assert tells(said) is more


def test_a_huge_text_is_looked_at_in_part() -> None:
    """A text without an end costs no more than a long one."""
    part = excerpt("We planted 12 trees behind the house. " * 50_000, frozenset(terms("trees")))
    while not part.whole:
        assert len(part.text) <= MOST_CHARS
        part = next(part.longer())
    assert len(part.text) <= MOST_CHARS
