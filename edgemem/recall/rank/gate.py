"""The gate: how likely it is that any memory helps with what somebody said.

The order of candidates says which one answers best, even where none answers, or where nobody asked. So two logistic models
come first. One tells by its words and its meaning how likely the utterance wants a memory; the other tells by how well the
best candidates fit how likely the memory holds it. The product of both is the chance. A candidate scores the chance times
its share: 1 for the best, less the further another one is behind. `make lab ARGS=gate` learns both models together, on
invented households and on the weeks, and writes `gate.toml`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from edgemem.preload import preloaded
from edgemem.recall.rank.model import LinearModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float32]


FILE = "gate.toml"
WANTS = ("said", "meant")
"""The features that tell whether a memory is wanted: its log odds by the words of the utterance, and by its meaning."""
FITS = ("nearest", "nearest_45", "nearest_30", "best", "best_15", "known", "terms")
"""The features that tell how well the best candidates fit.

nearest: the cosine of the nearest text or fact.
nearest_45, nearest_30: the same, at most .45 or .30: that nothing is near tells more than how near something is.
best: the log odds of the best text that is no question, or of the best fact or preference.
best_15: the same, at most -1.5.
known: the share of the idf of the question's words that the memory holds anywhere, 0 to 1.
terms: the number of its words that are looked for, at most `MOST_TERMS`.
"""
NOTHING = -4.0
"""The lowest `best`, also where there is no candidate: a home without facts is no less likely to hold the answer."""
MOST_TERMS = 8
SLOWLY = 2.0
"""A share is this root of the odds of a candidate relative to those of the best, so that scores fall slowly."""


class Utterance(NamedTuple):
    """An utterance, as the gate needs it."""

    words: frozenset[str]
    """In small letters, without accents."""
    language: str
    vector: Numbers | None
    """None where it was not embedded."""
    embedder: str
    """The fingerprint of the embedder that made the vector."""
    asked: bool = False
    """Whether the memory is asked, so that it is wanted for sure."""


class Fit(NamedTuple):
    """How well the best candidates fit an utterance; see `FITS`."""

    nearest: float
    best: float
    known: float
    terms: int


class Direction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The direction in which an embedder puts utterances that want a memory."""

    embedder: str
    """The beginning of its fingerprint."""
    bias: float
    weights: tuple[float, ...]

    def knows(self, utterance: Utterance) -> bool:
        """Tell whether the vector of an utterance is that embedder's."""
        vector = utterance.vector
        return (
            vector is not None
            and len(vector) == len(self.weights)
            and utterance.embedder.startswith(f"{self.embedder}:")
        )

    def odds(self, vector: Numbers) -> float:
        """Return the log odds that an utterance with this vector wants a memory."""
        import numpy as np

        return self.bias + float((vector * np.array(self.weights, np.float32)).sum())


class Both(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Both models: whether a memory is wanted, and whether the candidates fit."""

    wants: LinearModel
    fits: LinearModel

    def chance(self, features: Mapping[str, float], *, asked: bool = False) -> float:
        """Return the probability of both, 0 to 1.

        Args:
            asked: whether the memory is asked, so that it is wanted for sure.
        """
        return self.fits.chance(features) * (1.0 if asked else self.wants.chance(features))


class Gate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How likely it is that a memory helps."""

    words_only: Both
    """For utterances without a vector."""
    with_meaning: Both
    """For those with a vector of any embedder."""
    with_vector: Both
    """For those with a vector of the embedder that `meant` knows."""
    meant: Direction
    vocabularies: dict[str, LinearModel]
    """By the code of a language, the weights of words, by which they tell whether an utterance wants a memory; a word counts once."""

    def features(self, utterance: Utterance, fit: Fit) -> dict[str, float]:
        """Return the features by name; `meant` is 0 where the embedder is another."""
        words = self.vocabularies.get(utterance.language)
        best = max(fit.best, NOTHING)
        vector = utterance.vector if self.meant.knows(utterance) else None
        return {
            "nearest": fit.nearest,
            "nearest_45": min(fit.nearest, 0.45),
            "nearest_30": min(fit.nearest, 0.30),
            "best": best,
            "best_15": min(best, -1.5),
            "known": fit.known,
            "terms": float(min(fit.terms, MOST_TERMS)),
            "said": words.odds_of(dict.fromkeys(utterance.words, 1.0)) if words is not None else 0.0,
            "meant": self.meant.odds(vector) if vector is not None else 0.0,
        }

    def chance(self, utterance: Utterance, fit: Fit, *, meaning: float) -> float:
        """Return how likely a memory helps, 0 to 1.

        Args:
            meaning: the weight of meaning: 1, less where the embedder does not know the language, 0 without an embedder.
        """
        features = self.features(utterance, fit)
        chance = (1 - meaning) * self.words_only.chance(features, asked=utterance.asked)
        if meaning:
            embedded = self.with_vector if self.meant.knows(utterance) else self.with_meaning
            chance += meaning * embedded.chance(features, asked=utterance.asked)
        return chance


@preloaded
def shipped_gate() -> Gate:
    """Return the gate that comes with the package."""
    return msgspec.toml.decode(Path(__file__).with_name(FILE).read_text("utf-8"), type=Gate)
