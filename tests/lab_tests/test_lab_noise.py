"""A recogniser's mistakes: as many as asked for, and nothing but what people said."""

from __future__ import annotations

import pytest

from lab.noise import noisy, spoken, word_errors
from lab.weeks import weeks
from lab.weeks_world import FormSet


def said(text: str) -> list[str]:
    return [each.word for each in spoken(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Where's Dae-jung's PIN? It's 4291!", "where's dae jung's pin it's four two nine one"),
        ("At 7:30, 21 people; at 19:05 one.", "at seven thirty twenty one people at nineteen oh five one"),
        ("At 7:00", "at seven o'clock"), ("the 3rd, the 21st", "the third the twenty first"),
        ("305 g of rye, 1,200 m, 2.5 %", "three hundred and five g of rye one thousand two hundred m two point five percent"),
        ("1234567890", "one two three four five six seven eight nine zero"), ("007", "zero zero seven"),
        ("20° & 5€", "twenty degrees and five euros"), ("Aoife’s “Ölkanne”", "aoife's ölkanne"), ("", ""),
    ],
)  # fmt: skip
def test_what_is_read_aloud(text: str, words: str) -> None:
    """Small letters, no punctuation but the apostrophe within a word, and numbers as people read them."""
    assert said(text) == words.split()


@pytest.mark.parametrize(("forms", "rate"), [("learnt", 0.1), ("unseen", 0.2)])
def test_as_many_mistakes_as_asked_for(forms: FormSet, rate: float) -> None:
    """The Levenshtein distance over the words of what was told, and of what is asked, is within .01 of the rate."""
    clean = weeks(1, forms)
    wrong = noisy(clean, rate, seed=1)
    told = [
        (one.text, other.text)
        for one, other in zip(clean.turns, wrong.turns, strict=True)
        if one.role == "user"
    ]
    asked = [(one.text, other.text) for one, other in zip(clean.questions, wrong.questions, strict=True)]
    for both in (told, asked):
        errors = sum(word_errors(said(one), other.split()) for one, other in both)
        assert errors / sum(len(said(one)) for one, _ in both) == pytest.approx(rate, abs=0.01)
