"""Words of a question are looked for with those that sound like them, at a lower weight."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.people.alike import ENGLISH, LIMIT, STRANGE, Alikes, spread
from edgemem.recall.people.phonetics import as_heard, distance, readings, skeleton, weight

if TYPE_CHECKING:
    from collections.abc import Iterable

TERMS = [
    "paper",
    "pepper",
    "orchard",
    "orchid",
    "cello",
    "bin",
    "ben",
    "kettl",
    "cattl",
    "plumber",
    "4291",
    "味噌",
    "ox",
]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
TERM_LISTS = st.lists(st.text(LETTERS, min_size=1, max_size=8), max_size=12, unique=True)


def made_of(terms: Iterable[str]) -> Alikes:
    """Return the terms of a small memory."""
    made = Alikes()
    for term in dict.fromkeys(terms):
        made.add(term)
    return made


@pytest.fixture
def alikes() -> Alikes:
    """Return the terms of a small memory."""
    return made_of(TERMS)


@pytest.mark.parametrize(
    ("term", "other"),
    [("pepper", "paper"), ("orchid", "orchard"), ("chelo", "cello"), ("been", "bin"), ("cattl", "kettl"), ("plummer", "plumber")],
)  # fmt: skip
def test_terms_that_sound_alike_are_near(alikes: Alikes, term: str, other: str) -> None:
    """What a recogniser takes for one another is found, whether the memory knows the word or not."""
    near = dict(alikes.near(term, wide=len(other) > 6))
    assert other in near
    assert near[other] <= LIMIT
    assert term not in near


@pytest.mark.parametrize(
    ("term", "other"),
    [("pluber", "plumber"), ("plumbler", "plumber"), ("pumber", "plumber"), ("orchad", "orchard"), ("nevel", "never")],
)  # fmt: skip
def test_what_can_only_be_a_mistake_is_looked_for_farther_away(term: str, other: str) -> None:
    """A consonant more, less or other is found where it is asked for."""
    alikes = made_of([*TERMS, "never"])
    assert other not in dict(alikes.near(term))
    far = dict(alikes.near(term, wide=True))[other]
    assert 0 < far <= LIMIT


def test_other_terms_are_not(alikes: Alikes) -> None:
    """Words that sound otherwise, numbers, short words and other scripts have nothing near them."""
    for wide in (False, True):
        assert "cello" not in dict(alikes.near("plumber", wide=wide))
        assert [alikes.near(term, wide=wide) for term in ("4291", "味噌", "ox", "", "zxqy")] == [()] * 5


def test_a_term_that_comes_later_is_near_as_well(alikes: Alikes) -> None:
    """What was found before is not what counts once a term has come that sounds so."""
    before = dict(alikes.near("paper"))
    alikes.add("papper")
    assert set(dict(alikes.near("paper"))) - set(before) == {"papper"}


@given(TERM_LISTS, st.text(LETTERS, max_size=8), st.integers(0, 12), st.integers(0, 12), st.booleans())
def test_it_does_not_matter_when_terms_come_and_go(
    terms: list[str], asked: str, cut: int, gone: int, wide: bool
) -> None:
    """Whatever was asked before terms came and went, the same is near as if only those had come that are there."""
    changed = made_of(terms[:cut])
    changed.near(asked, wide=wide)
    for term in terms[cut:]:
        changed.add(term)
    changed.near(asked, wide=wide)
    for term in terms[:gone]:
        changed.drop(term)
    assert changed.near(asked, wide=wide) == made_of(terms[gone:]).near(asked, wide=wide)


@given(TERM_LISTS, st.text(LETTERS, max_size=8))
def test_what_is_near_is_near(terms: list[str], asked: str) -> None:
    """No distance is less than that of the best way to lay two readings beside one another, and none of itself is 0."""
    found = dict(made_of(terms).near(asked, wide=True))
    assert set(found) <= set(terms) - {asked}
    for other, far in found.items():
        best = min(distance(one, reading) for one in as_heard(asked) for reading in as_heard(other))
        assert best - 0.001 <= far <= LIMIT
    for other in set(terms) - {asked}:
        if len(asked) > 2 < len(other) and as_heard(asked) & as_heard(other):
            assert found[other] == 0.0


@given(TERM_LISTS)
def test_of_a_term_that_went_nothing_is_left(terms: list[str]) -> None:
    """What was forgotten stands nowhere, also not among what was found for others."""
    alikes = made_of([*terms, "xylophon"])
    assert "xylophon" in str(vars(alikes))
    for asked in (*terms, "xylophone", "silofon"):
        alikes.near(asked, wide=True)
    alikes.near("xylophon")
    alikes.drop("xylophon")
    assert "xylophon" not in str(vars(alikes))


def test_what_was_asked_for_is_not_kept_for_ever() -> None:
    """Words of questions that nobody asks any more make room."""
    alikes = made_of(TERMS)
    sizes = []
    for n in range(3000):
        alikes.near(f"word{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}{chr(97 + n // 676)}")
        if n % 1000 == 999:
            sizes.append(len(pickle.dumps(alikes)))
    assert max(sizes) < 1.2 * sizes[0]


def test_what_was_said_counts_most() -> None:
    """What a word may have been counts less, the farther it is, and all of them tell apart as much as one word."""
    near = {"pepper": [("paper", 0.07), ("peper", 0.17)]}
    asked = spread(["pepper", "stove"], near, {"paper": 40, "peper": 1, "stove": 3}, set())
    weights = {term: each.weight for term, each in asked.items()}
    assert weights["pepper"] == weights["stove"] == 1.0
    assert 0 < weights["peper"] < weights["paper"] < ENGLISH
    assert len({asked[term].docs for term in ("pepper", "paper", "peper")}) == 1
    assert asked["stove"].docs == 3
    assert 1 < asked["pepper"].docs < 41


def test_a_word_that_means_nothing_was_surely_misheard() -> None:
    """Of words that stand nowhere an ordinary one may be what was said; one that is no word cannot."""
    near = {"chelo": [("cello", 0.0)], "jelli": [("cello", 0.0)]}
    strange = spread(["chelo"], near, {"cello": 4}, {"chelo"})
    ordinary = spread(["jelli"], near, {"cello": 4}, {"chelo"})
    assert {term: each.weight for term, each in strange.items()} == {"chelo": 1.0, "cello": STRANGE}
    assert {term: each.weight for term, each in ordinary.items()} == {"jelli": 1.0, "cello": ENGLISH}


def test_what_stands_nowhere_and_what_is_asked_for_anyway_is_not_added() -> None:
    """A term without a text, as one that was forgotten, and the question's own words are not looked for twice."""
    near = {"paper": [("pepper", 0.0), ("gone", 0.0)], "pepper": [("paper", 0.0)]}
    asked = spread(["paper", "pepper"], near, {"paper": 2, "pepper": 2, "gone": 0}, set())
    assert asked == {"paper": (1.0, 2), "pepper": (1.0, 2)}


def test_what_stands_everywhere_is_not_added() -> None:
    """Nobody looks through thousands of texts for what a word may have been."""
    assert list(spread(["paper"], {"paper": [("pepper", 0.0)]}, {"pepper": 2000}, set())) == ["paper"]


def test_an_empty_question_asks_for_nothing() -> None:
    """No words, no terms."""
    assert spread([], {}, {}, set()) == {}


@given(st.text(LETTERS, max_size=10))
def test_readings_are_made_of_known_sounds(word: str) -> None:
    """Whatever the letters, a reading has a weight and a skeleton, and all spellings are tried."""
    for reading in readings(word) | as_heard(word):
        assert weight(reading) > 0
        assert skeleton(reading)


@given(st.text(max_size=12))
def test_any_word_is_read_or_not(word: str) -> None:
    """Other scripts, digits and signs have no reading, and nothing fails."""
    assert all(readings(word))
    assert all(as_heard(word))
    assert readings("7up") == readings("味噌") == readings("a" * 30) == frozenset()


@pytest.mark.parametrize(
    ("name", "reading"),
    [("niamh", "NiV"), ("wojciech", "VoYCieK"), ("guillaume", "KiYoMe"), ("jorge", "HoRHe"), ("nguyen", "NuieN"), ("xiaoming", "XiaoMiNK"),
     ("giulia", "JuLia"), ("bjorn", "BYoRN"), ("lukasz", "LuKaX"), ("joao", "Joau")],
)  # fmt: skip
def test_names_are_read_by_the_rules_of_their_language(name: str, reading: str) -> None:
    """Some reading of a name is near to how its people say it."""
    assert min(distance(each, reading) for each in readings(name)) < 0.12


@given(st.text("BCDFKLMNRSTaeiou", max_size=7), st.text("BCDFKLMNRSTaeiou", max_size=7), st.floats(0.05, 1))
def test_a_limit_changes_no_distance_below_it(one: str, other: str, limit: float) -> None:
    """Looking no farther than is asked for gives the same distance, or says that it is more."""
    far, bounded = distance(one, other), distance(one, other, limit)
    assert bounded == far or (far > limit and bounded == 1.0)
