"""Words of a question are looked for with those that sound like them, at a lower weight."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.people.phonetics import LIMIT, Alikes

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
    built = Alikes()
    for term in dict.fromkeys(terms):
        built.add(term)
    return built


@pytest.mark.parametrize(
    "pair", ["pepper/paper", "orchid/orchard", "chelo/cello", "been/bin", "cattl/kettl", "plummer/plumber"]
)
def test_terms_that_sound_alike_are_near(pair: str) -> None:
    """What a recogniser takes for one another is found, whether the memory knows the word or not."""
    term, other = pair.split("/")
    near = dict(made_of(TERMS).near(term, wide=len(other) > 6))
    assert near[other] <= LIMIT
    assert term not in near


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
