"""Selection: what is worth most within the room."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.context.selection import ENOUGH, Choice, Length, Taken, chances, select, units

CHOICES = st.lists(
    st.builds(
        lambda sizes, score: Choice(
            "ann: ", tuple(Length("w " * size, size / max(sizes), size / max(sizes)) for size in sizes), score
        ),
        st.lists(st.integers(1, 12), min_size=1, max_size=3, unique=True),
        st.floats(0.01, 1.0),
    ),
    max_size=4,
)


def size_of(choices: Sequence[Choice], taken: Sequence[Taken]) -> int:
    """Count as exactly as the estimate does."""
    return sum(units(f"{choices[each.number].lead}{each.length.text}\n") for each in taken)


def chosen(choices: Sequence[Choice], room: int) -> list[Taken]:
    return select(choices, room=room, count=lambda taken: size_of(choices, taken))


@given(CHOICES, st.integers(0, 50))
def test_nothing_worth_more_fits(choices: list[Choice], room: int) -> None:
    """Where the estimate is exact, the choice is worth as much as the best of all that fit, found by trying all."""
    likely = chances([choice.score for choice in choices])

    def worth(taken: Sequence[Taken]) -> float:
        return sum(likely[each.number] * each.length.worth for each in taken)

    best = 0.0
    for ways in product(*[(None, *choice.lengths) for choice in choices]):
        taken = [Taken(number, length) for number, length in enumerate(ways) if length is not None]
        if size_of(choices, taken) <= room:
            best = max(best, worth(taken))
    taken = chosen(choices, room)
    assert size_of(choices, taken) <= room
    assert worth(taken) >= best - 1e-9, "more could be said"
    assert [each.number for each in taken] == sorted({each.number for each in taken})


@given(CHOICES, st.integers(0, 50), st.floats(0.2, 3.0))
def test_a_wrong_estimate_never_breaks_the_budget(choices: list[Choice], room: int, each: float) -> None:
    """What is chosen is counted: it fits, however wrong the estimate was."""
    wrong = [choice._replace(each=each) for choice in choices]
    taken = select(wrong, room=room, count=lambda some: size_of(choices, some))
    assert size_of(choices, taken) <= room


def test_two_shortened_are_worth_more_than_one_whole() -> None:
    """Where most of two turns fits, both are told; where it does not, one is."""
    ways = (Length("w " * 6, ENOUGH, ENOUGH), Length("w " * 12))
    two = [Choice("", ways, 0.5), Choice("", ways, 0.45)]
    assert [len(each.length.text) for each in chosen(two, 15)] == [12, 12]
    assert [len(each.length.text) for each in chosen(two, 12)] == [24] or len(chosen(two, 12)) == 1


def test_what_tells_little_of_a_turn_is_worth_little() -> None:
    """An excerpt under most of its turn is worth less than its share."""
    assert Length("", ENOUGH, ENOUGH).worth > 2 * Length("", ENOUGH - 0.01, ENOUGH - 0.01).worth


def test_an_estimate_that_is_too_high_hides_nothing() -> None:
    """Where nothing seems to fit, the best item in its fewest words is counted all the same."""
    two = [
        Choice("", (Length("one two"), Length("one", 0.5)), 0.5, each=50.0),
        Choice("", (Length("three"),), 0.4, each=50.0),
    ]
    taken = select(two, room=2, count=lambda some: sum(len(each.length.text.split()) for each in some))
    assert taken == [Taken(0, Length("one", 0.5))]


def test_a_count_that_never_fits_gives_nothing() -> None:
    """What always takes more than there is ends after a few tries."""
    counted = []

    def count(taken: Sequence[Taken]) -> int:
        counted.append(taken)
        return 1000

    assert select([Choice("", (Length("one two"),), 0.5)], room=10, count=count) == []
    assert len(counted) <= 6


@pytest.mark.parametrize(("lead", "group", "label", "least"), [
    ("bob 7 may: ", "bob", "7 may: ", 18),
    ("ann 8 may: ", "ann", "8 may: ", 17),
    ("ann 7 may: ", "ann", "7 may: ", 14),
])  # fmt: skip
def test_what_stands_behind_others_costs_less(lead: str, group: str, label: str, least: int) -> None:
    """Where one of somebody else is too long, an item of the same person is not, and one of the same day still less."""
    ways = (Length("w w w w"),)
    two = [Choice("ann 7 may: ", ways, 0.9, "ann", "7 may: "), Choice(lead, ways, 0.5, group, label)]

    def count(taken: Sequence[Taken]) -> int:
        return len(taken) and (units(f"{two[0].lead}w w w w") if len(taken) == 1 else least)

    assert len(select(two, room=least, count=count)) == 2
    # The estimate alone decides: what is too long by more than it may be wrong is not even counted.
    assert len(select(two, room=math.ceil(least / 1.2) - 1, count=lambda taken: 0)) == 1


def test_a_better_choice_is_looked_for_where_the_estimate_was_too_high() -> None:
    """Room that is left once everything is counted is used, up to a fifth more than was estimated."""
    two = [Choice("", (Length("w " * 10),), 0.9, each=1.1), Choice("", (Length("w " * 8),), 0.5, each=1.1)]
    assert len(select(two, room=20, count=lambda taken: size_of(two, taken))) == 2
