"""Chance that every Python from 3.10 on deals in the same way: only `random()` is promised to stay as it is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Dice:
    """Draws from a seed.

    Args:
        seed: a number or a text; the same one draws the same.
    """

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(str(seed))

    def chance(self, share: float) -> bool:
        """Return true so often."""
        return self._random.random() < share

    def below(self, most: int) -> int:
        """Return a whole number from 0 to less than `most`."""
        return int(self._random.random() * most)

    def between(self, least: int, most: int) -> int:
        """Return a whole number, both ends included."""
        return least + self.below(most - least + 1)

    def pick(self, items: Sequence[Item]) -> Item:
        """Return one of some items."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        """Return the items in another order."""
        keys = [self._random.random() for _ in items]
        return [items[i] for i in sorted(range(len(items)), key=keys.__getitem__)]
