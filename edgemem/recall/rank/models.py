"""The linear models: how likely each candidate answers, and how likely any memory helps with an utterance.

The log odds of candidates mean the same for texts and facts, so that both rank in one list. They are learnt on the corpus of
`tests/lab/weeks.py` by `make lab ARGS=fit`, which writes `ranking.toml`; each weight can be read, and changed.

Their order says which candidate answers best, even where none answers, or where nobody asked. So the gate comes first: by the words
and the meaning of an utterance it says how likely a memory is wanted, and by the evidence of the best candidates how likely the
memory holds it. The product is the chance. A candidate scores the chance times its share: 1 for the best, less the further
another one is behind. `make lab ARGS=gate` learns the gate on invented households and on the weeks, and writes `gate.toml`.
"""

from __future__ import annotations

from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from edgemem.preload import preloaded
from edgemem.recall.rank.features import FEATURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float32]


RANKING_FILE, GATE_FILE = "ranking.toml", "gate.toml"
_LEAST_REASON = 0.1
"""Log odds; a feature that adds less is no reason."""
_MOST_LOG_ODDS = 30.0
"""A probability is no nearer to 0 and 1."""
WANTS = ("word_odds", "vector_odds")
"""The features of whether a memory is wanted: its log odds by the words of the utterance, and by its vector."""
FITS = ("nearest", "nearest_45", "nearest_30", "best", "best_15", "known", "terms")
"""The features of how well the best candidates fit.

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
SCORE_ROOT = 2.0
"""A share is this root of the odds of a candidate relative to those of the best, so that scores fall slowly."""


class LinearModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The weights of features by their names; a feature without one weighs 0."""

    bias: float
    weights: dict[str, float]

    def odds(self, features: Numbers, names: Iterable[str] = FEATURES) -> Numbers:
        """Return log odds: the bias and the weighted sums over the last axis, whose features have these names.

        `einsum` in place of `@`: on one processor BLAS warned of NaN where there was none.
        """
        import numpy as np

        weights = np.array([self.weights.get(name, 0.0) for name in names], np.float32)
        log_odds: Numbers = np.einsum("...i,i->...", features, weights) + np.float32(self.bias)
        return log_odds

    def odds_of(self, features: Mapping[str, float]) -> float:
        """Return the log odds of one thing, given its features by name."""
        return self.bias + sum(self.weights.get(name, 0.0) * value for name, value in features.items())

    def chance(self, features: Mapping[str, float]) -> float:
        """Return the same as a probability, 0 to 1."""
        return 1 / (1 + exp(-max(-_MOST_LOG_ODDS, min(_MOST_LOG_ODDS, self.odds_of(features)))))

    def mix(self, other: LinearModel, share: float) -> LinearModel:
        """Return the model whose log odds are a mixture of both.

        Args:
            share: that of the other one, 0 to 1.
        """
        names = dict.fromkeys([*self.weights, *other.weights])
        return LinearModel(
            (1 - share) * self.bias + share * other.bias,
            {
                name: (1 - share) * self.weights.get(name, 0.0) + share * other.weights.get(name, 0.0)
                for name in names
            },
        )


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Weights of `FEATURES`, which tell what answers, and of `PAIR_FEATURES`, which tell what replaces an older message."""

    answers: LinearModel
    replaces: LinearModel = LinearModel(0.0, {})

    def reasons(self, features: Sequence[float], recent: float = 0.0) -> tuple[str, ...]:
        """Return why a candidate answers, the strongest reason first; `form` explains nothing and is never given.

        Args:
            features: its `FEATURES`.
            recent: what it has of its log odds for replacing an older message.
        """
        parts = dict.fromkeys(FEATURES.values(), 0.0) | {"recent": recent}
        for value, (name, reason) in zip(features, FEATURES.items(), strict=True):
            parts[reason] += self.answers.weights.get(name, 0.0) * value
        strong = [reason for reason, part in parts.items() if part >= _LEAST_REASON and reason != "form"]
        return tuple(sorted(strong, key=lambda reason: (-parts[reason], reason)))


class Models(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two models: one where question and candidate have vectors, one where either has none."""

    with_meaning: Model
    words_only: Model

    def for_meaning(self, meaning: float) -> Model:
        """Return the model whose log odds are a mixture of both: 0 is the one of words alone, 1 the one with meaning."""
        if meaning in (0, 1):
            return self.with_meaning if meaning else self.words_only
        words, both = self.words_only, self.with_meaning
        return Model(words.answers.mix(both.answers, meaning), words.replaces.mix(both.replaces, meaning))


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


class Evidence(NamedTuple):
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


class GateModels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Both models: whether a memory is wanted, and whether the candidates evidence."""

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

    words_only: GateModels
    """For utterances without a vector."""
    with_meaning: GateModels
    """For those with a vector of any embedder."""
    with_vector: GateModels
    """For those with a vector of the embedder that `vector_odds` knows."""
    direction: Direction
    vocabularies: dict[str, LinearModel]
    """By the code of a language, the weights of words, by which they tell whether an utterance wants a memory; a word counts once."""

    def features(self, utterance: Utterance, evidence: Evidence) -> dict[str, float]:
        """Return the features by name; `vector_odds` is 0 where the embedder is another."""
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
            "word_odds": words.odds_of(dict.fromkeys(utterance.words, 1.0)) if words is not None else 0.0,
            "vector_odds": self.direction.odds(vector) if vector is not None else 0.0,
        }

    def chance(self, utterance: Utterance, evidence: Evidence, *, meaning: float) -> float:
        """Return how likely a memory helps, 0 to 1.

        Args:
            meaning: the weight of meaning: 1, less where the embedder does not know the language, 0 without an embedder.
        """
        features = self.features(utterance, evidence)
        chance = (1 - meaning) * self.words_only.chance(features, asked=utterance.asked)
        if meaning:
            embedded = self.with_vector if self.direction.knows(utterance) else self.with_meaning
            chance += meaning * embedded.chance(features, asked=utterance.asked)
        return chance


@preloaded
def shipped_models() -> Models:
    """Return the models that come with the package."""
    text = Path(__file__).with_name(RANKING_FILE).read_text("utf-8")
    return msgspec.toml.decode(text, type=Models)


@preloaded
def shipped_gate() -> Gate:
    """Return the gate that comes with the package."""
    return msgspec.toml.decode(Path(__file__).with_name(GATE_FILE).read_text("utf-8"), type=Gate)
