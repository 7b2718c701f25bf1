"""Selection: which of the lines that do not all fit are said, and at what length, so that the answer is among them.

More turns in fewer words, or fewer whole ones: each turn has a few excerpts, and those are taken together that are worth
most within the room. A line is worth the chance that the answer stands in it, times how much of the turn it still tells.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ENOUGH = 0.6
"""Share of a turn's content words with which most of it is told; with less, the answer is often not."""
_ASKED = 0.3
_TOO_LITTLE = 0.3
_MOST_TRIES = 4
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


def chances(scores: Sequence[float]) -> list[float]:
    """Return how likely each item, best first, is the one that is asked for; only their proportions count.

    A score alone is too sure of what comes later: on LoCoMo's open half the second turn of a ranking is right a third as
    often as the first, and the third a fifth, though it scores 0.87 and 0.8 of it.
    """
    return [score / (n + 1) for n, score in enumerate(scores)]


def select(
    choices: Sequence[Choice], *, room: int, count: Callable[[str], int], say: Callable[[Sequence[Taken]], str]
) -> list[Taken]:
    """Return what is said of several items, best first, in their order.

    Args:
        room: tokens.
        count: tokens of a text.
        say: the text of what was taken, which is counted exactly.
    """
    options = [_options(choice, count) for choice in choices]
    worths = chances([choice.score for choice in choices])
    best: list[Taken] = []
    most = 0.0
    aim = room
    for _ in range(_MOST_TRIES):
        worth, taken = _best(options, worths, aim)
        if not taken:
            break
        used = count(say(taken))
        if used > room:
            aim -= used - room
            continue
        if worth > most:
            best, most = taken, worth
        # Lines that became one leave room.
        if room - used < _SLACK or worth <= most and taken != best:
            break
        aim += room - used
    return best


def _options(choice: Choice, count: Callable[[str], int]) -> list[tuple[int, Length]]:
    """Return the lengths of an item with what each takes, by the tokens of the longest one's characters."""
    longest = max(choice.lengths, key=lambda each: len(each.text))
    whole = f"{choice.lead}{longest.text}\n"
    each = count(whole) / len(whole)
    return [
        (math.ceil((len(choice.lead) + len(length.text) + 1) * each), length) for length in choice.lengths
    ]


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
