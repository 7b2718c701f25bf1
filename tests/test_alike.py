"""Words of a question are looked for with those that sound like them, at a lower weight."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.alike import ENGLISH, KNOWN, LIMIT, STRANGE, Alikes, spread
from edgemem.recall.readings import as_heard, distance, readings, skeleton, weight

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


@pytest.fixture
def alikes() -> Alikes:
    """Return the terms of a small memory."""
    made = Alikes()
    made.add(TERMS)
    return made


@pytest.mark.parametrize(
    ("term", "other"),
    [("pepper", "paper"), ("orchid", "orchard"), ("chelo", "cello"), ("been", "bin"), ("cattl", "kettl"), ("plummer", "plumber")],
)  # fmt: skip
def test_terms_that_sound_alike_are_near(alikes: Alikes, term: str, other: str) -> None:
    """What a recogniser takes for one another is found, whether the memory knows the word or not."""
    near = dict(alikes.near(term))
    assert other in near
    assert near[other] <= LIMIT
    assert term not in near


def test_other_terms_are_not(alikes: Alikes) -> None:
    """Words that sound otherwise, numbers, short words and other scripts have nothing near them."""
    assert "cello" not in dict(alikes.near("plumber"))
    assert [alikes.near(term) for term in ("4291", "味噌", "ox", "", "zxqy")] == [()] * 5


def test_a_term_that_comes_later_is_near_as_well(alikes: Alikes) -> None:
    """What was found before is kept, and compared with what has come since."""
    before = dict(alikes.near("paper"))
    alikes.add(["papper", "paper"])
    after = dict(alikes.near("paper"))
    assert set(after) - set(before) == {"papper"}
    assert len(alikes) == len(TERMS) + 1


def test_terms_can_be_prepared(alikes: Alikes) -> None:
    """Idle time may look before anybody asks, a few at a time, and finds the same."""
    done = []
    while n := alikes.prepare(5):
        done.append(n)
    assert done == [5, 5, 3]
    fresh = Alikes()
    fresh.add(TERMS)
    assert [alikes.near(term) for term in TERMS] == [fresh.near(term) for term in TERMS]
    alikes.add(["papper"])
    assert alikes.prepare(5) == 1


@given(st.lists(st.text(LETTERS, max_size=8), max_size=12), st.text(LETTERS, max_size=8), st.integers(0, 12))
def test_it_does_not_matter_when_terms_come(terms: list[str], asked: str, cut: int) -> None:
    """Asked before some of the terms are there and after, the same is near as if all had been there from the start."""
    early, late = Alikes(), Alikes()
    early.add(terms[:cut])
    early.near(asked)
    early.add(terms[cut:])
    late.add(terms)
    assert early.near(asked) == late.near(asked)
    for other, far in late.near(asked):
        assert other in terms
        assert far == min(
            distance(one, reading)
            for one in as_heard(asked)
            for reading in as_heard(other)
            if distance(one, reading) <= LIMIT
        )


def test_what_was_said_counts_most() -> None:
    """A known word keeps its weight; what it may have been has less, and least where it stands everywhere."""
    asked = spread(
        {"pepper": "pepper"},
        {"pepper": [("paper", 0.07), ("peper", 0.07)]},
        {"pepper": 3, "paper": 40, "peper": 1},
    )
    weights = {each.term: each.weight for each in asked}
    assert weights["pepper"] == 1.0
    assert weights["paper"] < weights["peper"] < KNOWN
    assert len({each.docs for each in asked}) == 1
    assert asked[0].docs > 3


def test_a_word_that_means_nothing_was_surely_misheard() -> None:
    """Of words that stand nowhere an ordinary one may be what was said; one that is no word cannot."""
    counts = {"cello": 4}
    strange = spread({"chelo": "chelo"}, {"chelo": [("cello", 0.0)]}, counts)
    ordinary = spread({"jelli": "jelly"}, {"jelli": [("cello", 0.0)]}, counts)
    assert {each.term: each.weight for each in strange} == {"chelo": 1.0, "cello": STRANGE}
    assert {each.term: each.weight for each in ordinary} == {"jelli": 1.0, "cello": ENGLISH}


def test_what_stands_nowhere_and_what_is_asked_for_anyway_is_not_added() -> None:
    """A term without a doc, as one that was forgotten, and the question's own words are not looked for twice."""
    near = {"paper": [("pepper", 0.0), ("gone", 0.0)], "pepper": [("paper", 0.0)]}
    asked = spread({"paper": "paper", "pepper": "pepper"}, near, {"paper": 2, "pepper": 2, "gone": 0})
    assert [(each.term, each.weight) for each in asked] == [("paper", 1.0), ("pepper", 1.0)]


def test_an_empty_question_asks_for_nothing() -> None:
    """No words, no terms."""
    assert spread({}, {}, {}) == []


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
