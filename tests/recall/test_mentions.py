"""A memory speaks of somebody by a part of the name that is nobody else's, and by what sounds the same."""

from __future__ import annotations

import pytest

from edgemem.recall.people.names import LONG, Ways, people_heard, ways_of
from edgemem.recall.people.phonetics import Alikes
from edgemem.recall.text.analyse import terms

PEOPLE = ["Nana Ruth", "Mrs Achterberg", "Dae-jung", "Jo", "Oleg"]


def ways(name: str, *memory: str, people: list[str] = PEOPLE, common: tuple[str, ...] = ()) -> Ways:
    """Return how a memory of some words speaks of somebody; those that are common stand in many texts."""
    alikes = Alikes()
    for word in memory:
        alikes.add(word)
    near = {stem: alikes.near(stem, wide=len(stem) >= LONG) for stem in terms(name)}
    return ways_of(name, people, near, lambda term: term not in common)


RUTHS, JUNE, KARL = ["Nana Ruth", "Ruth Weber"], ["June Wolski"], ["Karl Wolski"]


@pytest.mark.parametrize(
    ("name", "memory", "more", "alone"),
    [
        ("Nana Ruth", (), {}, {"nana", "ruth"}),  # Ruth is Nana Ruth where no other Ruth is known
        ("Nana Ruth", (), {"people": RUTHS}, {"nana"}),
        ("Mrs Achterberg", (), {}, {"achterberg"}),  # every lady is called Mrs, and June is a month as well
        ("June Wolski", (), {"people": JUNE}, {"wolski"}),
        (
            "Mrs Achterberg",
            ("octaberg",),
            {},
            {"achterberg", "octaberg"},
        ),  # what sounds like a part stands for it
        ("Mrs Achterberg", ("octaberg",), {"common": ("octaberg",)}, {"achterberg"}),
        ("Nana Ruth", ("root",), {}, {"nana", "ruth"}),  # but no English word does alone
        ("Karl Wolski", ("carl",), {"people": KARL}, {"karl", "wolski"}),  # nor another common name
    ],
)
def test_what_speaks_of_somebody_by_itself(name, memory, more, alone) -> None:
    """A part of the name that is nobody else's, and what is no word of the language and sounds like it."""
    assert ways(name, *memory, **more).alone == alone


@pytest.mark.parametrize(
    ("name", "memory", "more", "stems"),
    [
        ("Oleg", ("oleck",), {}, {"oleg", "oleck"}),
        ("Rute", ("root",), {}, {"rute"}),  # an English word is nobody's whole name
        ("Nana Ruth", ("root",), {}, {"nana", "ruth", "root"}),
        (
            "Jo",
            ("joe",),
            {},
            {"jo", "joe"},
        ),  # a common name is another one only if it sounds the same and is rare
        ("Jo", ("joe",), {"common": ("joe",)}, {"jo"}),
        ("Jo", ("joe",), {"people": ["Jo", "Joe"]}, {"jo"}),  # who is known is nobody else
        ("Carl", ("carla",), {}, {"carl"}),
        ("Karl Wolski", ("carl",), {"people": KARL}, {"karl", "carl", "wolski"}),
    ],
)
def test_what_may_stand_for_a_name(name, memory, more, stems) -> None:
    """Each part of the name, and what a recogniser may have written for it."""
    assert ways(name, *memory, **more).all() == stems


@pytest.mark.parametrize(
    ("text", "people"),
    [
        ("what does ruth like", {"Nana Ruth"}),
        ("where is nana roof's book", {"Nana Ruth"}),
        ("when does joe get up", {"Jo"}),
        ("who is mrs okafor", set()),
        ("what shall i so", set()),
        ("", set()),
    ],
)
def test_a_question_names_somebody_by_the_same(text: str, people: set[str]) -> None:
    """A part of a name that is nobody else's names them, and what sounds the same as a name of one word."""
    assert people_heard(text, PEOPLE, ()) == people


def test_a_part_that_two_people_share_or_a_name_that_was_understood_names_nobody() -> None:
    """Nobody knows which Ruth was meant; and Anna Ruth is not Nana Ruth if she is known herself."""
    assert people_heard("what does ruth like", ["Nana Ruth", "Ruth Wolski"], ()) == set()
    assert people_heard("what does ruth like", [*PEOPLE, "Ruth"], ["Ruth"]) == set()
    assert people_heard("what does joe like", [*PEOPLE, "Joe"], ["Joe"]) == set()
