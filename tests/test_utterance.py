"""Utterances: what two ways of writing a sentence have in common."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.utterance import Said, as_said, goes_on, with_ending


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Can I eat this cake?", "can i  eat this cake ?"),
        ("No, Alice, the RED one!", "no alice the red one."),
        ("»Wer kommt?«", "wer kommt?"),
        ("Straße.", "STRASSE."),
        ("Cafe\u0301.", "café."),
    ],
)
def test_writing_does_not_tell_sentences_apart(one: str, other: str) -> None:
    """Case, white space, commas and ways to write a letter are no difference."""
    assert as_said(one) == as_said(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("You eat cake?", "You eat cake."),
        ("You eat cake?", "You eat cake"),
        ("You eat cake.", "You eat cake..."),
        ("It costs 5 €.", "It costs 5."),
        ("की", "का"),
        ("re cover", "recover"),
    ],
)
def test_what_is_said_tells_sentences_apart(one: str, other: str) -> None:
    """Words, signs that are spoken, marks that are parts of letters, and whether it is a question, are a difference."""
    assert as_said(one) != as_said(other)


@given(st.text(max_size=60), st.sampled_from(["", "?", "."]))
def test_an_ending_changes_no_word(text: str, ending: str) -> None:
    """What is written as if it ended here is the same words, with that ending."""
    whole = as_said(with_ending(text, ending))
    assert whole.words == as_said(text).words
    if ending:
        assert whole.ending == ending


@given(st.text(max_size=60))
def test_said_again_is_the_same(text: str) -> None:
    """What is left of a sentence is left of that once more."""
    words = as_said(text).words
    assert as_said(words) == Said(words, "")


def test_some_words_end_no_sentence() -> None:
    """After an article or a conjunction more is to come; a preposition may be the last word."""
    assert goes_on(as_said("Where is the"))
    assert goes_on(as_said("tea, AND"))
    assert not goes_on(as_said("what is it made of"))
    assert not goes_on(as_said("the cake"))
    assert not goes_on(as_said(""))
