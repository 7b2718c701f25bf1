"""Repeated: who says once more what was said before is told nothing by it; what goes on from there is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.context.repeated import adds

SOCKS = "Why do socks vanish in the wash?"


@pytest.mark.parametrize(
    ("said", "utterance"),
    [
        (SOCKS, SOCKS),
        ("Thanks, Pip.", "thanks pip"),
        (f"{SOCKS} You should have been there.", SOCKS),
        (f"{SOCKS} And nobody says a thing.", f"{SOCKS} It made my day."),
        (f"Good morning! {SOCKS}", SOCKS),
        ("The tram was full again. It's the same every day.", "The tram was full again. I'm tired."),
        ("the tram was full again and nobody said sorry", "the tram was full again"),
        (f"{SOCKS} Where does the wind go?", SOCKS),
        ("Warum ist der Keller nass?", "warum ist der Keller nass"),
        (
            "Can you believe that Ann has never seen the sea? I need a nap.",
            "Can you believe that Jo has never seen the sea?",
        ),
    ],
)
def test_what_only_repeats_tells_nothing(said: str, utterance: str) -> None:
    """Neither the same words, nor the same with a phrase or another question behind."""
    assert not adds(said, utterance)


@pytest.mark.parametrize(
    ("said", "utterance"),
    [
        ("What is the wifi password? It's sunflower.", "What is the wifi password?"),
        (f"{SOCKS} The socks hide behind the drum of the machine.", f"{SOCKS} I miss my blue socks."),
        ("I am not tired at all.", "I am tired at all."),
        ("Jo snores, I heard it through the wall.", "Ann snores, I heard it through the wall."),
        ("The key hangs in the shed.", "Where does the key hang?"),
        ("Hello.", "Good morning."),
        ("我明天去上海。", "我明天去哪里？"),
        ("", "Where is it?"),
    ],
)
def test_what_says_anything_else_does(said: str, utterance: str) -> None:
    """An answer behind the same question, another person, a negation, and whatever was not said just now."""
    assert adds(said, utterance)


@given(st.text(max_size=200), st.text(max_size=200))
def test_anything_may_be_said(said: str, utterance: str) -> None:
    """Whatever both are, there is an answer, and the same words never add anything."""
    assert adds(said, utterance) in {True, False}
    assert not adds(said, said)
