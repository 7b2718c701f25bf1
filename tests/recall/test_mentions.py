"""A memory speaks of somebody by a part of the name that is nobody else's, and by what sounds the same."""

from __future__ import annotations

import pytest

from edgemem.recall.people.alike import Alikes
from edgemem.recall.people.names import LONG, Ways, people_heard, ways_of
from edgemem.recall.text.analyse import terms

PEOPLE = ["Nana Ruth", "Mrs Achterberg", "Dae-jung", "Jo", "Oleg"]


def ways(name: str, *memory: str, people: list[str] = PEOPLE, common: tuple[str, ...] = ()) -> Ways:
    """Return how a memory of some words speaks of somebody; those that are common stand in many texts."""
    alikes = Alikes()
    for word in memory:
        alikes.add(word)
    near = {stem: alikes.near(stem, wide=len(stem) >= LONG) for stem in terms(name)}
    return ways_of(name, people, near, lambda term: term not in common)


def test_one_word_of_a_name_is_enough_if_it_is_nobody_elses() -> None:
    """Ruth is Nana Ruth where no other Ruth is known."""
    assert ways("Nana Ruth").alone == {"nana", "ruth"}
    assert ways("Nana Ruth", people=["Nana Ruth", "Ruth Weber"]).alone == {"nana"}


def test_a_title_or_a_word_of_the_language_is_not_enough() -> None:
    """Every lady is called Mrs, and June is a month as well."""
    assert ways("Mrs Achterberg").alone == {"achterberg"}
    assert ways("June Wolski", people=["June Wolski"]).alone == {"wolski"}


def test_a_name_of_one_word_is_that_word() -> None:
    """Nothing of it stands for it."""
    assert ways("Oleg") == Ways.of(["oleg"])
    assert Ways.of(["oleg", "b"]).all() == {"oleg", "b"}


def test_what_is_no_english_word_and_sounds_like_a_part_of_a_name_stands_for_it() -> None:
    """So does by itself what stands for a part that is nobody else's; a long part may sound a little otherwise."""
    assert ways("Mrs Achterberg", "octaberg").alone == {"achterberg", "octaberg"}
    assert ways("Oleg", "oleck").all() == {"oleg", "oleck"}
    assert ways("Mrs Achterberg", "octaberg", common=("octaberg",)).alone == {"achterberg"}


def test_an_english_word_stands_for_a_part_of_a_name_but_not_for_a_whole_one() -> None:
    """Nana Root is Nana Ruth, a root alone is none; an hour is nobody's name."""
    found = ways("Nana Ruth", "root")
    assert found.parts[1] == {"ruth", "root"}
    assert found.alone == {"nana", "ruth"}
    assert ways("Rute", "root").all() == {"rute"}


def test_a_common_name_is_another_one_only_if_it_sounds_the_same_and_is_rare() -> None:
    """Joe is Jo where hardly anybody speaks of a Joe."""
    assert ways("Jo", "joe").all() == {"jo", "joe"}
    assert ways("Jo", "joe", common=("joe",)).all() == {"jo"}
    assert ways("Carl", "carla").all() == {"carl"}


def test_a_common_name_stands_for_a_part_of_a_name_but_not_by_itself() -> None:
    """A Carl alone is somebody else than Karl Wolski."""
    found = ways("Karl Wolski", "carl", people=["Karl Wolski"])
    assert "carl" in found.parts[0]
    assert found.alone == {"karl", "wolski"}


def test_who_is_known_is_nobody_else() -> None:
    """A Joe who speaks here is not Jo."""
    assert ways("Jo", "joe", people=["Jo", "Joe"]).all() == {"jo"}


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


def test_a_part_that_two_people_share_names_neither() -> None:
    """Nobody knows which Ruth was meant."""
    assert people_heard("what does ruth like", ["Nana Ruth", "Ruth Wolski"], ()) == set()


def test_a_name_that_was_understood_names_nobody_else() -> None:
    """Anna Ruth is not Nana Ruth if she is known herself."""
    known = [*PEOPLE, "Ruth"]
    assert people_heard("what does ruth like", known, ["Ruth"]) == set()
    assert people_heard("what does joe like", [*PEOPLE, "Joe"], ["Joe"]) == set()
