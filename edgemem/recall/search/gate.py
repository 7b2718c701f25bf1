"""The gate: how likely any memory helps with what somebody said.

The gate comes before the order of the candidates, which is there even where none answers or nobody asked: an utterance's words and
meaning say how likely a memory is wanted, the best candidates' evidence how likely it is there. `make lab ARGS=gate` learns it on
invented households and on the weeks, and writes `gate.toml`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from edgemem.preload import preloaded
from edgemem.recall.search.models import LinearModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float32]


GATE_FILE = "gate.toml"
WANTS = ("word_odds", "vector_odds")
"""Whether a memory is wanted: log odds by an utterance's words, and by its vector."""
FITS = ("nearest", "nearest_45", "nearest_30", "best", "best_15", "known", "terms", "dated")
"""How well the best candidates fit.

nearest: the cosine of the nearest text or fact.
nearest_45, nearest_30: the same, at most .45 or .30: nothing near tells more than how near.
best: the log odds of the best text that is no question, or of the best fact or preference.
best_15: the same, at most -1.5.
known: the share of the idf of the question's words that the memory holds anywhere, 0 to 1.
terms: its words that are looked for, at most `MOST_TERMS`.
dated: how sure a text or fact is about the time asked for, 0 to 1; 0 where none is asked for.
"""
NOTHING = -4.0
"""The lowest `best`, also without candidates: a home without facts is no less likely to hold the answer."""
MOST_TERMS = 8


class Utterance(NamedTuple):
    """An utterance for the gate."""

    words: frozenset[str]
    """In small letters, without accents."""
    language: str
    vector: Numbers | None
    embedder: str
    """The fingerprint of its embedder."""
    asked: bool = False
    """Whether the memory is asked, and so wanted for sure."""


class Evidence(NamedTuple):
    """How well the best candidates fit; see `FITS`."""

    nearest: float
    best: float
    known: float
    terms: int
    dated: float = 0.0


class Direction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An embedder's direction towards utterances that want a memory."""

    embedder: str
    """The beginning of its fingerprint."""
    bias: float
    weights: tuple[float, ...]

    def knows(self, utterance: Utterance) -> bool:
        """Tell whether an utterance's vector is that embedder's."""
        vector = utterance.vector
        return (
            vector is not None
            and len(vector) == len(self.weights)
            and utterance.embedder.startswith(f"{self.embedder}:")
        )

    def odds(self, vector: Numbers) -> float:
        """Return the log odds that a vector's utterance wants a memory."""
        import numpy as np

        return self.bias + float((vector * np.array(self.weights, np.float32)).sum())


class GateModels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether a memory is wanted, and whether the candidates are evidence."""

    wants: LinearModel
    fits: LinearModel

    def chance(self, features: Mapping[str, float], *, asked: bool = False) -> float:
        """Return the probability of both; `asked`: the memory is wanted for sure."""
        return self.fits.chance(features) * (1.0 if asked else self.wants.chance(features))


class Gate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How likely a memory helps."""

    words_only: GateModels
    """Without a vector."""
    with_meaning: GateModels
    """With any embedder's vector."""
    with_vector: GateModels
    """With a vector that `vector_odds` knows."""
    direction: Direction
    vocabularies: dict[str, LinearModel]
    """By language, the weights of words for wanting a memory; a word counts once."""

    def features(self, utterance: Utterance, evidence: Evidence) -> dict[str, float]:
        """Return the features by name; `vector_odds` is 0 with another embedder."""
        words = self.vocabularies.get(utterance.language)
        best = max(evidence.best, NOTHING)
        vector = utterance.vector if self.direction.knows(utterance) else None
        return {
            "nearest": evidence.nearest,
            "nearest_45": min(evidence.nearest, 0.45),
            "nearest_30": min(evidence.nearest, 0.30),
            "best": best,
            "best_15": min(best, -1.5),
            "known": evidence.known,
            "terms": float(min(evidence.terms, MOST_TERMS)),
            "dated": evidence.dated,
            "word_odds": words.odds_of(dict.fromkeys(utterance.words, 1.0)) if words is not None else 0.0,
            "vector_odds": self.direction.odds(vector) if vector is not None else 0.0,
        }

    def chance(self, utterance: Utterance, evidence: Evidence, *, meaning: float) -> float:
        """Return how likely a memory helps; `meaning` weighs the vector: below 1 in a foreign language, 0 without an embedder."""
        features = self.features(utterance, evidence)
        chance = (1 - meaning) * self.words_only.chance(features, asked=utterance.asked)
        if meaning:
            embedded = self.with_vector if self.direction.knows(utterance) else self.with_meaning
            chance += meaning * embedded.chance(features, asked=utterance.asked)
        return chance


@preloaded
def shipped_gate() -> Gate:
    """Read the package's gate."""
    return msgspec.toml.decode(Path(__file__).with_name(GATE_FILE).read_text("utf-8"), type=Gate)
