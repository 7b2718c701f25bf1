"""The gate: how likely a memory helps with what somebody said, and each candidate's part in that.

A candidate's chance is how likely the answer is there, or further down where it is not: so the best one's is the chance that memory
helps at all. The best candidates' evidence tells that, and an utterance's words and vector: of what asks, whether people tell such
things at all; of what tells, whether it wants a memory. `make lab ARGS=gate` learns all this on households, and writes `gate.toml`.
"""

from __future__ import annotations

from math import exp, log1p
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from edgemem.preload import np, preloaded
from edgemem.recall.search.models import LinearModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float32]

GATE_FILE = "gate.toml"
FITS = ("nearest", "near", "best", "best_15", "lead", "uneven", "length", "known", "terms", "dated")
"""How well the best candidates fit.

nearest: the cosine of the nearest text or fact.
near: how near the best text comes to the tokens of the question, on average.
best: the log odds of the best text that is no question, or of the best fact or preference.
best_15: the same, at most -1.5. lead: how far it is above the second, at most `MOST_LEAD`.
uneven: the deviation of how near the best text comes to each token of the question: what tells of another thing has all but one.
length: tokens of the question, or its words where they are not known, at most `MOST_LENGTH`.
known: the share of the idf of the question's words that the memory holds anywhere, 0 to 1.
terms: its words that are looked for, at most `MOST_TERMS`.
dated: how sure a text or fact is about the time asked for, 0 to 1; 0 where none is asked for.
"""
NOTHING = -4.0
"""The lowest `best`, also without candidates: a home without facts is no less likely to hold the answer."""
MOST_TERMS, MOST_LENGTH, MOST_LEAD = 8, 16, 4.0
_MOST_LOG_ODDS = 30.0
"""A probability is no nearer to 0 and 1."""
_UNKNOWN_CHAT = -1.1
"""Log odds that what asks only chats, where neither words nor a vector tell: one in four. At even odds only an exact match was shown."""
NEARNESS, EVEN = 0.47, 0.17
"""What `near` and `uneven` are on average, also where no text was read by its tokens."""
MARGIN = "margin"
"""The weight of a candidate's log odds less `best`: the product is the logarithm of its share in the best one's chance."""


class Utterance(NamedTuple):
    """An utterance for the gate."""

    words: frozenset[str]
    """In small letters, without accents."""
    language: str
    vector: Numbers | None
    embedder: str
    """The fingerprint of its embedder."""
    tokens: int = 0
    """Of the embedder, with a letter or digit."""
    asks: bool = False
    """Whether it asks something, or the memory is asked."""


class Evidence(NamedTuple):
    """How well the best candidates fit; see `FITS`."""

    nearest: float
    best: float
    known: float
    terms: int
    dated: float = 0.0
    lead: float = 0.0
    near: float = NEARNESS
    uneven: float = EVEN


class Direction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An embedder's direction towards some utterances."""

    embedder: str
    """The beginning of its fingerprint."""
    bias: float
    weights: tuple[float, ...]

    def knows(self, utterance: Utterance) -> bool:
        """Tell whether an utterance's vector is that embedder's."""
        vector, same = utterance.vector, utterance.embedder.startswith(f"{self.embedder}:")
        return same and vector is not None and len(vector) == len(self.weights)

    def odds(self, vector: Numbers) -> float:
        """Return the log odds that a vector's utterance is one of these."""
        return self.bias + float((vector * np.array(self.weights, np.float32)).sum())


class GateModels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How likely a memory helps with what asks, and with what tells: most of that wants nothing."""

    asks: LinearModel
    tells: LinearModel


class MeaningModels(GateModels, frozen=True, forbid_unknown_fields=True):
    """The same with the vectors of one embedder."""

    told: Direction
    """Towards questions about what people tell."""
    wants: Direction
    """Towards what wants a memory though it does not ask."""
    chats: Direction
    """Towards small talk that asks."""


class Vocabulary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The words of a language, for the same as an embedder's directions; a word counts once."""

    told: LinearModel
    wants: LinearModel
    chats: LinearModel


class Gate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How likely a memory helps."""

    words_only: GateModels
    """Without a vector."""
    with_meaning: tuple[MeaningModels, ...]
    """By embedder; the first also serves one that nothing was learnt for."""
    vocabularies: dict[str, Vocabulary]
    """By language."""

    def models_of(self, utterance: Utterance) -> MeaningModels:
        """Return the models of an utterance's embedder."""
        known = (models for models in self.with_meaning if models.wants.knows(utterance))
        return next(known, self.with_meaning[0])

    def features(self, utterance: Utterance, evidence: Evidence) -> dict[str, float]:
        """Return the features by name.

        Of what asks, told_words and told_vector tell whether people tell such things, chat_words and chat_vector whether it only
        chats, no_chat the log of the chance that it does not; of what does not ask, want_words and want_vector tell whether it wants
        a memory. Odds by words are 0 in a language that was not learnt, those by vectors with another embedder; no_chat is then `_UNKNOWN_CHAT`'s.
        """
        known, models = self.vocabularies.get(utterance.language), self.models_of(utterance)
        vector = utterance.vector if models.wants.knows(utterance) else None
        words, asks = dict.fromkeys(utterance.words, 1.0), utterance.asks
        chat_words = known.chats.odds_of(words) if known and asks else 0.0
        chat_vector = models.chats.odds(vector) if vector is not None and asks else 0.0
        chats = chat_words if vector is None else chat_vector
        return {
            "nearest": evidence.nearest, "near": evidence.near, "best": evidence.best,
            "best_15": min(evidence.best, -1.5), "lead": min(evidence.lead, MOST_LEAD), "uneven": evidence.uneven,
            "length": float(min(utterance.tokens or len(utterance.words), MOST_LENGTH)), "known": evidence.known,
            "terms": float(min(evidence.terms, MOST_TERMS)), "dated": evidence.dated,
            "told_words": known.told.odds_of(words) if known and asks else 0.0,
            "told_vector": models.told.odds(vector) if vector is not None and asks else 0.0, "chat_words": chat_words,
            "chat_vector": chat_vector, "no_chat": -log1p(exp(min(chats or _UNKNOWN_CHAT, _MOST_LOG_ODDS))),
            "want_words": known.wants.odds_of(words) if known and not asks else 0.0,
            "want_vector": models.wants.odds(vector) if vector is not None and not asks else 0.0,
        }  # fmt: skip

    def chances(
        self, utterance: Utterance, evidence: Evidence, own: Numbers, *, meaning: float
    ) -> NDArray[np.float64]:
        """Return the chance of each candidate by its own log odds, in their order.

        `meaning`: 1 where the embedder knows the language; below it nothing was learnt of its vectors, and words alone tell.
        """
        models: GateModels = self.models_of(utterance)
        if meaning < 1:
            models, utterance = self.words_only, utterance._replace(vector=None)
        features = self.features(utterance, evidence)
        margin = np.minimum(own.astype(np.float64) - evidence.best, 0.0)
        model = models.asks if utterance.asks else models.tells
        odds = float(np.clip(model.odds_of(features), -_MOST_LOG_ODDS, _MOST_LOG_ODDS))
        chances: NDArray[np.float64] = np.exp(model.weights[MARGIN] * margin) / (1 + exp(-odds))
        return chances


@preloaded
def shipped_gate() -> Gate:
    """Read the package's gate."""
    return msgspec.toml.decode(Path(__file__).with_name(GATE_FILE).read_text("utf-8"), type=Gate)
