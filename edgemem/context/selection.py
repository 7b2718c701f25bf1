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
_MOST_TRIES = 5
_MOST_SHORT = 2
_SLACK = 2
_WRONG = 1.2
"""By how much an estimate may be too high."""
ASIDE = " / "
"""Between things that one person said."""


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
    """What stands before it where it begins a line."""
    lengths: tuple[Length, ...]
    score: float
    group: str = ""
    """Items of a group stand in one line; empty: in a line of its own."""
    label: str = ""
    """What stands before it behind others of its group; those of the same label share one."""
    each: float = 1.0
    """Tokens that one of its `units` takes, about."""

    def cost(self, text: str) -> float:
        """Estimate the tokens of a text of this item."""
        return units(text) * self.each


class Taken(NamedTuple):
    """An item that is said, and how."""

    number: int
    length: Length


_Sum = tuple[float, float, int, tuple[Taken, ...]]
"""What some items take, what they are worth, which they are as bits, and how they are said."""


def units(text: str) -> int:
    """Return how many parts a text has, which take about as many tokens each: short words, parts of long ones, digits, signs."""
    return len(_UNIT.findall(text))


def chances(scores: Sequence[float]) -> list[float]:
    """Return how likely each item, best first, is the one that is asked for; only their proportions count.

    A score alone is too sure of what comes later: on LoCoMo's open half the second turn of a ranking is right 0.44 times as
    often as the first, and the third 0.24 times; and of those in one place, one that scores 0.4 of the best is right 0.6
    times as often as one that scores 0.8.
    """
    return [math.sqrt(max(score, 0.0)) / (n + 1) for n, score in enumerate(scores)]


def select(
    choices: Sequence[Choice], *, room: int, count: Callable[[Sequence[Taken]], int], spent: int = 0
) -> list[Taken]:
    """Return what is said of several items, best first, in their order.

    Counting each length of each item would take longer than everything here; so lengths are estimated by their words, and
    only what was chosen is counted, and chosen once more where the estimate was wrong.

    Args:
        room: tokens.
        count: tokens of what was taken, as it will be said, with all that stands beside it.
        spent: tokens of that.
    """
    sums = _sums(choices, (room - spent) * _WRONG)
    # What fits for sure, and what does not; where nothing is known, what was estimated tells where to look.
    fits, over, error = 0, len(sums), float(spent)
    for _ in range(_MOST_TRIES):
        guess = max((n for n, each in enumerate(sums) if each[0] + error <= room), default=0)
        place = min(max(guess, fits + 1), over - 1)
        if place <= fits:
            break
        estimate, _, _, taken = sums[place]
        size = count(taken)
        fits, over = (place, over) if size <= room else (fits, place)
        error = size - estimate
        if 0 <= room - size < _SLACK:
            break
    return list(sums[fits][3]) or _shortest(choices, room, count)


def _shortest(choices: Sequence[Choice], room: int, count: Callable[[Sequence[Taken]], int]) -> list[Taken]:
    """Return the best item in its fewest words if that fits, or else the next one; an estimate may be too high."""
    for number, choice in enumerate(choices[:_MOST_SHORT]):
        one = [Taken(number, min(choice.lengths, key=lambda length: len(length.text)))]
        if count(one) <= room:
            return one
    return []


class _Ways(NamedTuple):
    """What an item takes, about, at each of its lengths."""

    first: float
    """More than the text itself, where it begins a line."""
    behind: float
    """The same, where it stands behind others of its group."""
    beside: float
    """The same, where one of the same label is among them."""
    lengths: tuple[tuple[float, Length], ...]


def _ways(choice: Choice) -> _Ways:
    return _Ways(
        choice.cost(f"{choice.lead}\n"),
        choice.cost(f"{ASIDE}{choice.label}"),
        choice.cost(ASIDE),
        tuple((choice.cost(length.text), length) for length in choice.lengths),
    )


def _sums(choices: Sequence[Choice], room: float) -> list[_Sum]:
    """Return all choices within the room that are worth more than every cheaper one, found item by item; cheapest first."""
    worths = chances([choice.score for choice in choices])
    sums: list[_Sum] = [(0.0, 0.0, 0, ())]
    for number, choice in enumerate(choices):
        way, worth_of = _ways(choice), worths[number]
        ways = [(cost, worth_of * length.worth, Taken(number, length)) for cost, length in way.lengths]
        # Which of the items before it begin its line, and name its day, as bits.
        group = _bits(choices[:number], lambda other: bool(other.group) and other.group == choice.group)  # noqa: B023
        beside = group & _bits(choices[:number], lambda other: other.label == choice.label)  # noqa: B023
        grown = []
        for spent, worth, held, taken in sums:
            before = spent + (way.beside if held & beside else way.behind if held & group else way.first)
            grown += [
                (before + cost, worth + more, held | 1 << number, (*taken, one))
                for cost, more, one in ways
                if before + cost <= room
            ]
        sums = _undominated(sums + grown)
    return sums


def _bits(choices: Sequence[Choice], is_one: Callable[[Choice], bool]) -> int:
    return sum(1 << number for number, choice in enumerate(choices) if is_one(choice))


def _undominated(sums: list[_Sum]) -> list[_Sum]:
    out: list[_Sum] = []
    for each in sorted(sums, key=lambda one: (one[0], -one[1])):
        if not out or each[1] > out[-1][1]:
            out.append(each)
    return out
