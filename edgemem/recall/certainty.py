"""Certainty: how sure it is that anything which was found answers a question at all.

The order of messages says which of them answers best, also where none does. What tells that some answer is there is how
far the best stands out from the rest, how near it is in meaning, and whether anybody ever used the words of the question.
A score is this certainty times the share of a message: 1 for the best, less the further it is behind.
"""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING

import msgspec

from edgemem.recall.signals import SIGNALS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float32]

CLUES = ("best", "above_fifth", "above_usual", "nearest", "nearest_about", "known")
"""What is looked at, in this order; each can only speak for an answer."""

_FIFTH = 4
_USUAL = 20
"""A small memory is filled up to so many with messages such as stand in the middle elsewhere, so that its only one may
stand out, too."""
_SLOWLY = 2.0
"""A score tells whether there is an answer more than which message it is: the square root of how much less likely a message is
than the best. On two seeds of our corpus that nothing was learnt on, the floor .1 costs .048 of recall@5 with 1, .019 with
2, .014 with 3 and .011 with 4, and a third of the off-topic questions find nothing with each;
with 3 turns crowd out what tools did from a block."""
_SURE = 30.0
_NEEDED = frozenset({"meaning", "about"})


class Certainty(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Weights of clues; those that are not named weigh nothing."""

    bias: float
    usual: float
    """The odds of the message in the middle, for most questions."""
    weights: dict[str, float]

    def of(self, clues: Numbers) -> float:
        """Return how sure it is, 0 to 1, that something answers: as if every second question had no answer."""
        odds = self.bias + sum(
            self.weights.get(name, 0.0) * value for name, value in zip(CLUES, clues.tolist(), strict=True)
        )
        return 1 / (1 + exp(-max(-_SURE, min(_SURE, odds))))


def mixed(shares: Sequence[tuple[Certainty, float]]) -> Certainty:
    """Return the certainty whose log odds are those of several, each times its share."""
    return Certainty(
        sum(share * each.bias for each, share in shares),
        sum(share * each.usual for each, share in shares),
        {name: sum(share * each.weights.get(name, 0.0) for each, share in shares) for name in CLUES},
    )


def clues_of(odds: Numbers, signals: Numbers, known: float, *, usual: float) -> Numbers:
    """Return the clues of one question, `float32[len(CLUES)]`.

    Args:
        odds: the logarithm of the odds of each message, at least one.
        signals: of the same messages, `float32[n, len(SIGNALS)]`.
        known: how much of what the words of the question tell apart stands anywhere, 0 to 1.
        usual: the odds of a message as there are many in a large memory.
    """
    import numpy as np

    ranked = np.sort(np.append(odds, np.full(max(0, _USUAL - len(odds)), usual, odds.dtype)))[::-1]
    best = ranked[0]
    columns = {name: signals[:, place] for place, name in enumerate(SIGNALS) if name in _NEEDED}
    nearest = about = columns["meaning"].max()
    theirs = columns["about"] > 0  # of whoever is named
    if theirs.any():
        about = columns["meaning"][theirs].max()
    middle = (ranked[(len(ranked) - 1) // 2] + ranked[len(ranked) // 2]) / 2  # np.median would sort once more
    found = [best, best - ranked[_FIFTH], best - middle, nearest, about, known]
    return np.array(found, np.float32)


def shares(odds: Numbers) -> Numbers:
    """Return the share of each message by its odds: 1 for the best one."""
    import numpy as np

    found: Numbers = np.exp((odds - odds.max()) / np.float32(_SLOWLY))
    return found
