"""Disclaimers: what says that something is not known is told from whatever tells anything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.disclaimers import MOST_CHARS, disclaims


@pytest.mark.parametrize(
    "text",
    [
        "I don't know.",
        "I'm sorry, I don't know the garage code. Could you tell me?",
        "I don't have any information about when the pharmacy closes.",
        "Sorry, I can't find anything about spare keys.",
        "I am not sure how you get the garage open, as I do not have that in my memory.",
        "I'm sorry, but I don't have access to your personal information.",
        "As an AI, I don't have personal memories of that.",
        "I couldn't find any record of that in my memory, Anna.",
        "Nobody has told me that yet. Ask Ben.",
        "I'm afraid I don't know where your glasses are, but I can help you look for them.",
        "There is no mention of a party in my notes.",
        "Hmm, I don't think I know that one. What is it?",
        "I'm unable to recall that information.",
        "No idea, sorry!",
        "Not that I know of.",
        "I don’t remember. If you tell me, I’ll keep it.",
        "Das weiß ich leider nicht.",
        "Ich weiß nicht, wo dein Schlüssel ist. Kannst du es mir sagen?",
        "Tut mir leid, dazu habe ich keine Informationen.",
        "Lo siento, no lo sé.",
        "No tengo información sobre eso. ¿Me lo dices?",
        "Nadie me lo ha dicho todavía.",
        "Tôi không biết mã cửa gara.",
        "我不知道。",
        "抱歉，我没有关于这个的信息。",
    ],
)
def test_not_knowing_is_a_disclaimer(text):
    """However it is put, with an apology, a question back or an offer to keep it."""
    assert disclaims(text)
    assert disclaims(text.upper())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The garage code is 4711.",
        "I don't know the code, but Ben wrote it on the fridge: 4711.",
        "I don't know. 4711.",
        "I don't know Anna's new number. Her old one was 555 1234.",
        "Nobody told me about the change, so the alarm is still set for six.",
        "I'm not sure, but I think it is behind the boiler.",
        "Weevils, or nothing. Nobody has told me anything about it.",
        "I can't open the garage, the relay does not answer.",
        "I have no milk left in the fridge.",
        "I don't have the keys, Ben has them.",
        "I never told anybody about the tickets.",
        "You told me not to mention the party to Jonas.",
        "I remember that you don't like coffee.",
        "I will remember that you're allergic to peanuts.",
        "Could you tell me?",
        "I'm sorry.",
        "Das weiß ich: der Code ist 4711.",
        "No tengo leche, solo avena.",
        "Ich habe keine Milch mehr.",
    ],
)
def test_what_tells_anything_is_none(text):
    """A clause that says something beside it is kept, and so is not having, not being able to and not having done."""
    assert not disclaims(text)


def test_what_is_long_says_something():
    """Nobody reads a whole speech to see whether it says nothing."""
    assert disclaims("I don't know that. " * (MOST_CHARS // 20))
    assert not disclaims("I don't know that. " * MOST_CHARS)


@given(st.text(max_size=2 * MOST_CHARS))
def test_any_text_is_one_or_none(text):
    """Whatever is said, it is told without an error, and so is the same in capitals."""
    assert disclaims(text) in (True, False)


@given(
    st.sampled_from(["The key is red", "Ben has it", "It costs 4 euros", "Tuesday at nine"]), st.booleans()
)
def test_a_statement_beside_it_always_counts(statement, first):
    """Whether it comes before or after, what is told is not thrown away with what is not known."""
    parts = [statement, "I don't know more about that"]
    assert not disclaims(". ".join(parts if first else parts[::-1]) + ".")
