"""Words of a question are looked for with those that sound like them, at a lower weight."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.people.phonetics import ENGLISH, LIMIT, UNKNOWN, SimilarTerms, spread

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


def made_of(terms: Iterable[str]) -> SimilarTerms:
    """Return the terms of a small memory."""
    built = SimilarTerms()
    for term in dict.fromkeys(terms):
        built.add(term)
    return built


@pytest.mark.parametrize(
    "pair", ["pepper/paper", "orchid/orchard", "chelo/cello", "been/bin", "cattl/kettl", "plummer/plumber"]
)
def test_terms_that_sound_alike_are_near(pair: str) -> None:
    """What a recogniser takes for one another is found, whether the memory knows the word or not."""
    term, other = pair.split("/")
    near = dict(made_of(TERMS).similar_to(term, wide=len(other) > 6))
    assert near[other] <= LIMIT
    assert term not in near


@given(TERM_LISTS, st.text(LETTERS, max_size=8), st.integers(0, 12), st.integers(0, 12), st.booleans())
def test_it_does_not_matter_when_terms_come_and_go(
    terms: list[str], asked: str, cut: int, gone: int, wide: bool
) -> None:
    """Whatever was asked before terms came and went, the same is near as if only those had come that are there."""
    changed = made_of(terms[:cut])
    changed.similar_to(asked, wide=wide)
    for term in terms[cut:]:
        changed.add(term)
    changed.similar_to(asked, wide=wide)
    for term in terms[:gone]:
        changed.drop(term)
    assert changed.similar_to(asked, wide=wide) == made_of(terms[gone:]).similar_to(asked, wide=wide)


@given(TERM_LISTS)
def test_of_a_term_that_went_nothing_is_left(terms: list[str]) -> None:
    """What was forgotten stands nowhere, also not among what was found for others."""
    similar = made_of([*terms, "xylophon"])
    assert "xylophon" in str(vars(similar))
    for asked in (*terms, "xylophone", "silofon"):
        similar.similar_to(asked, wide=True)
    similar.similar_to("xylophon")
    similar.drop("xylophon")
    assert "xylophon" not in str(vars(similar))


def test_what_was_asked_for_is_not_kept_for_ever() -> None:
    """Words of questions that nobody asks any more make room."""
    similar = made_of(TERMS)
    sizes = []
    for n in range(3000):
        similar.similar_to(f"word{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}{chr(97 + n // 676)}")
        if n % 1000 == 999:
            sizes.append(len(pickle.dumps(similar)))
    assert max(sizes) < 1.2 * sizes[0]


def test_what_was_said_counts_most() -> None:
    """What a word may have been counts less, the farther it is, and all of them tell apart as much as one word."""
    near = {"pepper": [("paper", 0.07), ("peper", 0.17)]}
    asked = spread(["pepper", "stove"], near, {"paper": 40, "peper": 1, "stove": 3}, set())
    weights = {term: known.weight for term, known in asked.items()}
    assert weights["pepper"] == weights["stove"] == 1.0
    assert 0 < weights["peper"] < weights["paper"] < ENGLISH
    assert len({asked[term].docs for term in ("pepper", "paper", "peper")}) == 1
    assert asked["stove"].docs == 3
    assert 1 < asked["pepper"].docs < 41


@pytest.mark.parametrize(
    ("asked", "near", "counts", "strange", "weights"),
    [
        (["chelo"], {"chelo": [("cello", 0.0)]}, {"cello": 4}, {"chelo"}, {"chelo": 1.0, "cello": UNKNOWN}),
        (["jelli"], {"jelli": [("cello", 0.0)]}, {"cello": 4}, {"chelo"}, {"jelli": 1.0, "cello": ENGLISH}),
        (["paper", "pepper"], {"paper": [("pepper", 0.0), ("gone", 0.0)], "pepper": [("paper", 0.0)]},
         {"paper": 2, "pepper": 2, "gone": 0}, (), {"paper": 1.0, "pepper": 1.0}),
        (["paper"], {"paper": [("pepper", 0.0)]}, {"pepper": 2000}, (), {"paper": 1.0}),
        ([], {}, {}, (), {}),
    ],
)  # fmt: skip
def test_what_is_looked_for_besides(asked, near, counts, strange, weights) -> None:
    """A word that means nothing was surely misheard; what stands nowhere, everywhere, or is asked for anyway is not added."""
    spreading = spread(asked, near, counts, set(strange))
    assert {term: known.weight for term, known in spreading.items()} == weights
