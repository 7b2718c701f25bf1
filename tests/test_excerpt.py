"""Excerpts: fewer words, the same meaning."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.context.excerpt import GAP, SHARES, excerpts, tells
from edgemem.recall.words import terms

_SOME = """
the a really so and but if because not never I we she Ann 7 1,200 yesterday went garden code is was which it's don't wow, Hey
really, — ; . ! ? … 日本 für "quoted" (aside) [x] peanuts tea 2,5 twice day
"""
WORDS = st.sampled_from([*_SOME.split(), "\n"])
TEXTS = st.lists(WORDS, max_size=60).map(" ".join) | st.text(max_size=300)


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def is_part(short: list[str], long: list[str]) -> bool:
    """Tell whether words stand in others in the same order."""
    rest = iter(long)
    return all(word in rest for word in short)


@given(TEXTS, st.lists(WORDS, max_size=4))
def test_an_excerpt_only_leaves_words_out(text: str, asked: list[str]) -> None:
    """No word is added, changed or moved, whatever the text."""
    for each in excerpts(text, frozenset(terms(" ".join(asked)))):
        assert is_part(words(each.text), words(text))
        assert len(each.text) <= len(text) + len(GAP) + 2


# The language is told by the whole text, so a sentence of another one has other stems when it is looked at alone.
@given(TEXTS.filter(lambda text: "für" not in text))
def test_shares_are_what_the_words_say(text: str) -> None:
    """Each excerpt holds the share of the content words that it says, the fullest first or last, and one holds most."""
    made = excerpts(text)
    stems = set(terms(text))
    for each in made:
        assert 0.0 <= each.share <= 1.0
        assert 0.0 <= each.asked <= 1.0
        if stems:
            assert each.share == pytest.approx(len(stems & set(terms(each.text))) / len(stems))
    assert 1 <= len(made) <= len(SHARES)


def shortest(text: str, asked: str = "") -> str:
    return min((each.text for each in excerpts(text, frozenset(terms(asked)))), key=len)


def fullest(text: str) -> str:
    return max((each.text for each in excerpts(text)), key=len)


def test_greetings_names_and_articles_go_first() -> None:
    """The fullest excerpt has all that is told, without what only greets."""
    said = "Hey Bob! Wow, thanks so much! I put the spare key under the blue flowerpot yesterday, Bob!"
    assert fullest(said) == "I put spare key under blue flowerpot yesterday!"


@pytest.mark.parametrize(
    "said",
    [
        "I take a few pills twice a day.",
        "The gardener comes twice a fortnight.",
        "She is not really happy with the new one, it costs 4 euros a month.",
        "The concert in The Hague was so long that we left.",
        "Take vitamin A from the top shelf.",
    ],
)
def test_little_words_that_mean_something_stay(said: str) -> None:
    """What an article or a filler would take along stays: numbers a day, names, a weakened denial."""
    for kept in (
        "a few pills twice a day",
        "twice a fortnight",
        "not really",
        "4 euros a month",
        "in The Hague",
        "so long that",
        "vitamin A",
    ):
        if kept in said:
            assert kept in fullest(said)


@pytest.mark.parametrize(
    ("said", "whole"),
    [
        ("We will go to the lake on Sunday if Tom repairs the car.", "if Tom"),
        ("I like the green sofa from the market, but Anna finds it ugly and cheap.", "but Anna"),
        ("The code of the shed is 4711. No, that is wrong, it is 4712 now.", "wrong"),
        ("I sold the piano to Marta last week. Just kidding!", "kidding"),
        ("The dentist moved to Elm Street, I think, beside the old bakery.", "I think"),
        ("I said that Tom broke the vase and that Mia saw nothing.", "nothing"),
    ],
)
def test_what_turns_a_statement_round_stays_with_it(said: str, whole: str) -> None:
    """A condition, an objection, a denial and a doubt are never left out where the rest is kept."""
    statement = words(said)[3]
    for each in excerpts(said):
        if statement in words(each.text):
            assert whole in each.text, each.text


@pytest.mark.parametrize(
    "said",
    [
        "I booked the flight to Rome on Monday and cancelled it on Friday evening.",
        "I put the blue pills in the cupboard and moved them to the drawer yesterday.",
        "Turn the big oven to 200 degrees and turn it off after an hour.",
        "Ann drove the red car to work, and my brother sold it to a neighbour.",
        "I did not take the red car to work and drive to the lake afterwards.",
        "The boat is stuck between the old harbour and the new bridge.",
        "We need two and a half cups of flour for the cake.",
        "The cooker costs us 200 and the dishwasher 900 euros.",
    ],
)
def test_what_undoes_or_completes_the_first_half_stays_with_it(said: str) -> None:
    """A second verb goes alone only if the first holds without it: nothing is undone, denied or said of both."""
    for asked in ("", said.partition(" and ")[0]):
        assert words(shortest(f"{said} We went home by train.", asked))[-1:] in (
            words(said)[-1:],
            ["train"],
        )
        assert GAP not in shortest(said, asked)


def test_a_second_verb_may_go_but_not_stand_alone() -> None:
    """What somebody did besides is left out where there is no room; without the first verb nobody knows who did it."""
    said = "My brother painted the fence green last week and went to the lake with his wife."
    assert shortest(said, "who painted the fence") == f"My brother painted fence green last week{GAP}"
    for each in excerpts(said, frozenset(terms("who went to the lake with his wife"))):
        assert each.text.startswith("My brother painted")


def test_only_a_name_goes_with_a_greeting() -> None:
    """A word that is no name is not taken for whom the greeting is for."""
    assert fullest("Great cellar! It is dry and the wine stays cool.").startswith("Great cellar!")
    assert fullest("Great, Emil! It is dry and the wine stays cool.").startswith("It is dry")


def test_a_clause_is_not_cut_out_of_what_frames_it() -> None:
    """What was wished, dreamt or told by somebody else is never said as if it were so."""
    for said in (
        "I dreamt that we lived in Norway, and we had seven horses and a red barn.",
        "Tom told me about his plans, and he sells the old bakery in March.",
    ):
        for each in excerpts(said, frozenset(terms("horses barn bakery March"))):
            assert each.text.startswith(said[:10]), each.text


def test_what_is_asked_for_stays_longest() -> None:
    """Of two sentences that tell as much, the one that shares words with the question is kept."""
    said = (
        "I bought green paint at Miller's shop on Friday. The orchard gate needs another hinge from Hansen."
    )
    assert "paint" in shortest(said, "where did she buy the green paint")
    assert "hinge" in shortest(said, "what does the orchard gate need")


def test_a_gap_tells_that_there_was_more() -> None:
    """Where something that told anything is missing, a mark stands; where a greeting is missing, none does."""
    said = "Hi Ann! I bought green paint at Miller's shop on Friday. The orchard gate needs another hinge from Hansen."
    assert shortest(said, "green paint Friday").endswith(f"Friday{GAP}")
    assert shortest(said, "orchard gate hinge Hansen").startswith(GAP)
    assert GAP not in fullest(said)


def test_quotes_and_asides_stay_whole() -> None:
    """Nothing is cut within quotes or brackets, where it would be somebody else's word."""
    said = 'Tom wrote "I sell the boat, and I keep the house near the lake" on the big door.'
    for each in excerpts(said, frozenset(terms("house lake"))):
        assert 'wrote "I sell' in each.text


def test_other_languages_lose_sentences_only() -> None:
    """Little words of English are words of another language: within a sentence everything stays."""
    said = (
        "Ich habe an der Tür so lange auf den Mann gewartet. Der Schlüssel liegt jetzt unter dem blauen Topf."
    )
    sentences = said.split(". ")
    for each in excerpts(said, frozenset(terms("Schlüssel"))):
        assert any(sentence.strip(".") in each.text for sentence in sentences)
    assert "Schlüssel liegt jetzt unter dem blauen Topf" in shortest(said, "Schlüssel Topf")


def test_a_huge_text_is_looked_at_in_part() -> None:
    """A text without an end costs no more than a long one."""
    assert len(fullest("We planted 12 trees behind the house. " * 50_000)) <= 2000


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
