"""The gate: how likely it is that something remembered helps with what somebody said.

The order of candidates says which of them answers best, also where none does, or where nobody asked. So it is asked first how
likely the utterance wants something of a memory, by its words and its meaning, and how likely that is there, by how well the
best candidates fit: two logistic models, and the product of both is the chance. `make lab ARGS=gate` learns them together, on
invented households and on the weeks, and writes `gate.toml`. A candidate scores the chance times its share: 1 for the best of
all, less the further it is behind.
"""

from __future__ import annotations

from functools import cached_property
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from edgemem.provisions import provided

if TYPE_CHECKING:
    from collections.abc import Collection

    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float32]


FILE = "gate.toml"
WANTS = ("said", "meant")
"""What tells that something of a memory is wanted: the log odds of that by the words, and by the meaning, of the utterance."""
THERE = ("nearest", "nearest_45", "nearest_30", "best", "best_15", "known", "terms")
"""What tells that it is there.

nearest: the cosine of the text, or fact, that is nearest in meaning.
nearest_45, nearest_30: the same, or .45 or .30 where it is more: that nothing is near tells more than how near something is.
best: the logarithm of the odds of the best text that does not only ask, or of the best fact or preference.
best_15: the same, or -1.5 where it is more.
known: how much of what the words of the question tell apart stands anywhere, 0 to 1.
terms: how many of its words are looked for, `MOST_TERMS` at most.
"""
NOTHING = -4.0
"""The log odds where there is none, or a worse one: a home in which nobody stored a fact is not less likely to hold the answer."""
MOST_TERMS = 8
SLOWLY = 2.0
"""A share is the square root of how much less likely a candidate is than the best: the chance tells whether there is an answer
more than the share tells which it is."""
_SURE = 30.0


class Utterance(NamedTuple):
    """What somebody said."""

    words: frozenset[str]
    """Plain."""
    language: str
    vector: Numbers | None
    """None where nothing embedded it."""
    embedder: str
    """The fingerprint of what made the vector."""
    asked: bool = False
    """Whether the memory is asked, so that something of it is wanted for sure."""


class Found(NamedTuple):
    """What was found for it."""

    nearest: float
    best: float
    known: float
    terms: int


class Vocabulary(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The words of one language that tell what somebody wants."""

    bias: float
    weights: tuple[tuple[str, float], ...]

    @cached_property
    def _by_word(self) -> dict[str, float]:
        return dict(self.weights)

    def odds(self, words: Collection[str]) -> float:
        """Return the log odds that what has these words wants something of a memory; each counts once."""
        return self.bias + sum(self._by_word.get(word, 0.0) for word in words)


class Direction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The direction in which an embedder puts what wants something of a memory."""

    embedder: str
    """What its fingerprint begins with."""
    bias: float
    weights: tuple[float, ...]

    @cached_property
    def _column(self) -> Numbers:
        import numpy as np

        return np.array(self.weights, np.float32)

    def knows(self, utterance: Utterance) -> bool:
        """Tell whether a vector is one of that embedder's."""
        vector = utterance.vector
        return (
            vector is not None
            and len(vector) == len(self.weights)
            and utterance.embedder.startswith(f"{self.embedder}:")
        )

    def odds(self, vector: Numbers) -> float:
        """Return the log odds that something with such a vector wants something of a memory."""
        return self.bias + float((vector * self._column).sum())


class Weighed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Weights of clues; those that are not named weigh nothing."""

    bias: float
    weights: dict[str, float]

    def chance(self, clues: dict[str, float]) -> float:
        """Return how likely it is, 0 to 1."""
        odds = self.bias + sum(weight * clues[name] for name, weight in self.weights.items())
        return 1 / (1 + exp(-max(-_SURE, min(_SURE, odds))))


class Both(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether something of a memory is wanted, and whether it is there."""

    wants: Weighed
    there: Weighed

    def chance(self, clues: dict[str, float], *, asked: bool = False) -> float:
        """Return how likely both are; what the memory is asked is wanted."""
        return self.there.chance(clues) * (1.0 if asked else self.wants.chance(clues))


class Gate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How likely it is that something remembered helps."""

    words_only: Both
    """For what was not embedded."""
    with_meaning: Both
    """For what was embedded by whatever embeds."""
    with_vector: Both
    """For what was embedded by the embedder whose direction is known."""
    meant: Direction
    said: dict[str, Vocabulary]
    """By the code of a language."""

    def clues(self, utterance: Utterance, found: Found) -> dict[str, float]:
        """Return the clues by their names; `meant` is 0 where nothing is known of the embedder."""
        words = self.said.get(utterance.language)
        best = max(found.best, NOTHING)
        vector = utterance.vector if self.meant.knows(utterance) else None
        return {
            "nearest": found.nearest,
            "nearest_45": min(found.nearest, 0.45),
            "nearest_30": min(found.nearest, 0.30),
            "best": best,
            "best_15": min(best, -1.5),
            "known": found.known,
            "terms": float(min(found.terms, MOST_TERMS)),
            "said": words.odds(utterance.words) if words is not None else 0.0,
            "meant": self.meant.odds(vector) if vector is not None else 0.0,
        }

    def chance(self, utterance: Utterance, found: Found, *, meaning: float) -> float:
        """Return how likely it is, 0 to 1, that something remembered helps.

        Args:
            meaning: how much meaning counts: less than 1 where the embedder does not know the language, and 0 without one.
        """
        clues = self.clues(utterance, found)
        chance = (1 - meaning) * self.words_only.chance(clues, asked=utterance.asked)
        if meaning:
            embedded = self.with_vector if self.meant.knows(utterance) else self.with_meaning
            chance += meaning * embedded.chance(clues, asked=utterance.asked)
        return chance


@provided
def shipped_gate() -> Gate:
    """Return the gate that comes with the package."""
    return msgspec.toml.decode(Path(__file__).with_name(FILE).read_text("utf-8"), type=Gate)
