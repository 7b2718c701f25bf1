"""Past words: who asks for what was, in five languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.past_words import asks_first, asks_past

PAST = [
    "What did Mara drink before?",
    "where did the ladder use to be",
    "Where did Oleg used to live?",
    "What was the old code of the safe?",
    "Who was our previous dentist?",
    "What does Mara not drink any more?",
    "what doesn't she eat anymore",
    "What did we call the cat in the beginning?",
    "Was hat Mara früher getrunken?",
    "Wo war die Leiter vorher?",
    "Wie lautete die alte Nummer?",
    "Was isst Jo nicht mehr?",
    "¿Qué bebía Mara antes?",
    "¿Dónde solía vivir?",
    "¿Cuál era la vieja contraseña?",
    "Trước đây Mara uống gì?",
    "Số cũ đã là bao nhiêu?",
    "Mara 以前喝什么?",
    "密码原来是什么",
]
PRESENT = [
    "",
    "What does Mara drink?",
    "What must I do before the trip?",
    "What do I use to clean the oven?",
    "Is there any more milk?",
    "How old is Jo?",
    "When did Mara call?",
    "What did I say about the holidays?",
    "Was trinkt Mara?",
    "Was mache ich zuerst?",
    "Wie alt ist Jo?",
    "¿Qué hago antes de cenar?",
    "¿Qué bebe Mara?",
    "Mara uống gì?",
    "Mara 喝什么?",
]


@pytest.mark.parametrize("text", PAST)
def test_a_question_about_the_past_is_known(text):
    """It asks for what is not any more."""
    assert asks_past(text)
    assert asks_past(text.lower())


@pytest.mark.parametrize("text", PRESENT)
def test_another_question_is_not_taken_for_one(text):
    """Neither "before" in a plan, nor a verb in the past alone."""
    assert not asks_past(text)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("What was it at first?", True),
        ("Wie hieß es ursprünglich?", True),
        ("¿Cómo se llamaba al principio?", True),
        ("ban đầu là gì", True),
        ("最初是什么", True),
        ("What was it before?", False),
        ("Was war es vorher?", False),
    ],
)
def test_what_was_first_is_told_from_what_was_last(text, first):
    """One word says which of several values is meant."""
    assert asks_first(text) is first


@given(st.text(max_size=300))
def test_any_text_is_one_or_the_other(text):
    """Whatever is said, there is an answer."""
    assert asks_past(text) in (True, False)


@pytest.mark.parametrize("piece", ["n't ", "did ", "a", "not ", "who xed", "ía "])
def test_it_is_read_in_linear_time(piece):
    """A text that is made to trouble patterns takes no longer than another."""
    assert asks_past(piece * 100_000 + "?") in (True, False)
