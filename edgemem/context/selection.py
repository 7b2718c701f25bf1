"""Selection: which of the lines that do not all fit are said, and at what length, so that the answer is among them.

More turns in fewer words, or fewer whole ones: each turn has a few excerpts, and those are taken together that are worth
most within the room. A line is worth the chance that the answer stands in it, times how much of the turn it still tells.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ENOUGH = 0.6
"""Share of a turn's content words with which most of it is told; with less, the answer is often not."""
_UNIT = re.compile(r"[^\W\d_]{1,8}|\d|[^\w ]")
_ASKED = 0.2
_TOO_LITTLE = 0.3
_MOST_TRIES = 4
_MOST_SHORT = 2
_SLACK = 4


class Length(NamedTuple):
    """One way to say an item."""

    text: str
    """Without what stands before all of them, such as who said it."""
    share: float = 1.0
    """Of the content words, 0 to 1."""
    asked: float = 1.0
    """The same, with those of the question counting more."""

    @property
    def worth(self) -> float:
        """Return how much of the item's worth is left, 0 to 1."""
        told = 0.9 + 0.1 * self.share if self.share >= ENOUGH else _TOO_LITTLE * self.share
        return (1.0 - _ASKED) * told + _ASKED * self.asked


class Choice(NamedTuple):
    """An item that may be said, at one of several lengths."""

    lead: str
    """What stands before it; items of the same group share one."""
    lengths: tuple[Length, ...]
    score: float
    group: str = ""
    """Items of a group stand in one line; empty: in a line of its own."""


class Taken(NamedTuple):
    """An item that is said, and how."""

    number: int
    length: Length


_Sum = tuple[int, float, tuple[Taken, ...]]
"""What some items take, what they are worth, and which they are."""


def units(text: str) -> int:
    """Return how many parts a text has, which take about as many tokens each: short words, parts of long ones, digits, signs."""
    return len(_UNIT.findall(text))


def chances(scores: Sequence[float]) -> list[float]:
    """Return how likely each item, best first, is the one that is asked for; only their proportions count.

    A score alone is too sure of what comes later: on LoCoMo's open half the second turn of a ranking is right a third as
    often as the first, and the third a fifth, though it scores 0.87 and 0.8 of it.
    """
    return [score / (n + 1) for n, score in enumerate(scores)]


def select(
    choices: Sequence[Choice], *, room: int, each: float, count: Callable[[Sequence[Taken]], int]
) -> list[Taken]:
    """Return what is said of several items, best first, in their order.

    Counting takes the better part of a millisecond for a block on one x86 core, more than everything here; so lengths are
    estimated by their words, and only what was chosen is counted, and chosen once more where the estimate was wrong.

    Args:
        room: tokens.
        each: tokens that one of the `units` of these items takes, about.
        count: tokens of what was taken, as it will be said.
    """
    options = [
        [(math.ceil(units(f"{choice.lead}{length.text}\n") * each), length) for length in choice.lengths]
        for choice in choices
    ]
    worths = chances([choice.score for choice in choices])
    best: list[Taken] = []
    most = 0.0
    aim, tried = room, list[list[Taken]]()
    while len(tried) < _MOST_TRIES:
        worth, taken = _best(options, worths, aim)
        if not taken or taken in tried:
            break
        tried.append(taken)
        left = room - count(taken)
        if left >= 0 and worth > most:
            best, most = taken, worth
        if 0 <= left < _SLACK:
            break
        aim += left
    return best or _shortest(choices, room, count)


def _shortest(choices: Sequence[Choice], room: int, count: Callable[[Sequence[Taken]], int]) -> list[Taken]:
    """Return the best item in its fewest words if that fits, or else the next one; an estimate may be too high."""
    for number, choice in enumerate(choices[:_MOST_SHORT]):
        one = [Taken(number, min(choice.lengths, key=lambda length: len(length.text)))]
        if count(one) <= room:
            return one
    return []


def _best(
    options: Sequence[Sequence[tuple[int, Length]]],
    worths: Sequence[float],
    room: int,
) -> tuple[float, list[Taken]]:
    """Return what is worth most within the room: all sums that no cheaper one reaches are kept, item by item."""
    sums: list[_Sum] = [(0, 0.0, ())]
    for number, ways in enumerate(options):
        grown = [
            (spent + cost, worth + worths[number] * length.worth, (*taken, Taken(number, length)))
            for cost, length in ways
            for spent, worth, taken in sums
            if spent + cost <= room
        ]
        sums = _undominated(sums + grown)
    _, worth, taken = sums[-1]
    return worth, list(taken)


def _undominated(sums: list[_Sum]) -> list[_Sum]:
    out: list[_Sum] = []
    for each in sorted(sums, key=lambda one: (one[0], -one[1])):
        if not out or each[1] > out[-1][1]:
            out.append(each)
    return out
