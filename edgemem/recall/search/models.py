"""The linear models: how likely each candidate answers, and how likely any memory helps with an utterance.

The log odds of candidates mean the same for texts and facts, so that both rank in one list. They are learnt on the corpus of
`tests/lab/weeks.py` by `make lab ARGS=fit`, which writes `ranking.toml`; each weight can be read, and changed.

Their order says which candidate answers best, even where none answers, or where nobody asked. So the gate comes first: by the words
and the meaning of an utterance it says how likely a memory is wanted, and by the evidence of the best candidates how likely the
memory holds it. The product is the chance. A candidate scores the chance times its share: 1 for the best, less the further
another one is behind. `make lab ARGS=gate` learns the gate on invented households and on the weeks, and writes `gate.toml`.

For each of the best messages a third model says which newer message replaces it, or that none does: a softmax over the newer
messages and "none", by a few features of each pair. A message that replaces another with a chance over .5 is ranked above it where
the question asks for the present state; where it asks for a former one, the older one is ranked first. A replaced message loses
nothing but its place, so a question that has several answers keeps them all.
"""

from __future__ import annotations

from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from edgemem.preload import preloaded
from edgemem.recall.index.table import NOBODY
from edgemem.recall.search.features import FEATURES, PLACES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float32]
    Rows = NDArray[np.intp] | NDArray[np.bool_] | slice


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
PAIR_FEATURES = (
    "old_share", "new_share", "same_speaker", "days", "numbers_alike", "old_length", "new_length", "asked_of_both", "alike",
)  # fmt: skip
"""The features of whether a message replaces an older one, in the order of the columns.

share: the logarithm of the softmax share of each among those that are compared. days: between them, by logarithm,
as is how many stems each has. numbers_alike: both hold a number, or none does. asked_of_both: how much of the words of the question
both have. alike: the cosine of their words. Words weigh the more, the fewer of those that are compared have them.
"""
COMPARED = 6
"""Number of top messages compared pairwise."""
_LIKELY = 0.5
_MARGIN, _OWN = 0.2, 0.01  # of the log odds
_DAY_S = 86400.0
_SHORT = 6  # stems: a text that has fewer is no likelier to be replaced
_ALIKE = 0.5  # of the words of two messages, those that both have
_OF_WHOM = [PLACES[name] for name in ("mentioned", "about")]


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
        parts = {"recent": recent}
        for value, (name, reason) in zip(features, FEATURES.items(), strict=True):
            if value and reason != "form":
                parts[reason] = parts.get(reason, 0.0) + self.answers.weights.get(name, 0.0) * value
        strong = [reason for reason, part in parts.items() if part >= _LEAST_REASON]
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


class Contents(NamedTuple):
    """The contents of candidates, one entry for each."""

    who: NDArray[np.integer]
    """The code of the speaker; `NOBODY` is the robot, or an unknown voice."""
    numbers: NDArray[np.bool_]
    """Whether it holds a number."""
    stems: NDArray[np.object_]
    """A `frozenset[str]` each; empty for all but messages that rank high enough to be compared."""
    words: NDArray[np.object_]
    """All its words, "the" and "is" too."""
    asked: frozenset[str]
    """Stems of the question."""

    def subset(self, rows: Rows) -> Contents:
        """Return the contents of some candidates, by their rows."""
        return Contents(self.who[rows], self.numbers[rows], self.stems[rows], self.words[rows], self.asked)


class Candidates(NamedTuple):
    """The candidates of a question."""

    features: NDArray[np.float32]
    """One row each, `float32[n, len(FEATURES)]`."""
    at: NDArray[np.float64]
    """When each was said, seconds since the epoch."""
    tense: Literal["now", "past", ""]
    """Whether the question is about a present or a former state; empty: about neither, as "what did she say?"."""
    contents: Contents | None = None
    """Their contents, where the question has a tense; None: none replaces another."""

    def subset(self, rows: Rows) -> Candidates:
        """Return some of the candidates, by their rows."""
        contents = None if self.contents is None else self.contents.subset(rows)
        return self._replace(features=self.features[rows], at=self.at[rows], contents=contents)


class Pairs(NamedTuple):
    """The top messages of a question, compared pairwise."""

    rows: NDArray[np.intp]
    """Their rows among the candidates."""
    features: NDArray[np.float32]
    """By old, new and `PAIR_FEATURES`."""
    allowed: NDArray[np.bool_]
    """By old and new: whether the new message may replace the old one.

    It must be newer, both must answer something themselves, and they must have a word in common. It may not replace a message
    - of another person that tells more about the people whom the question names ("I" means the speaker alone);
    - that has a number of the question which the new one lacks: cup 1 is not cup 0;
    - that has a word of the question which the new one lacks in otherwise much the same words: the dentist's number is not the plumber's;
    - of a person, if the robot said the new one.
    """


def compare(odds: NDArray[np.float32], candidates: Candidates, contents: Contents) -> Pairs:
    """Compare the top messages pairwise.

    Args:
        odds: the log odds that each candidate answers.
        contents: of the same candidates.
    """
    import numpy as np

    rows = np.flatnonzero(contents.stems)
    # Of many that answer alike, the one that shall come first must be among those that are compared.
    at = candidates.at[rows]
    rows = rows[np.lexsort((at if candidates.tense == "past" else -at, -odds[rows]))[:COMPARED]]
    at, features, contents = candidates.at[rows], candidates.features[rows], contents.subset(rows)
    own = odds[rows].astype(np.float64)
    shares = own - own.max()
    shares -= np.log(np.exp(shares).sum())
    places: dict[str, int] = {}
    having = [[places.setdefault(word, len(places)) for word in stems] for stems in contents.stems]
    presence = np.zeros((len(rows), len(places)))
    for row, columns in enumerate(having):
        presence[row, columns] = 1.0
    often = presence.sum(axis=0)
    idf = np.log(1 + (len(rows) - often + 0.5) / (often + 0.5))
    weighed = presence * idf
    weighed /= np.sqrt((weighed**2).sum(axis=1, keepdims=True)) + 1e-6
    asked = [places[word] for word in contents.asked if word in places]
    weights = idf[asked]
    both = (presence[:, asked] * weights) @ presence[:, asked].T / max(float(weights.sum()), 1e-6)
    length = np.log(np.maximum([len(stems) for stems in contents.stems], _SHORT))
    alike = weighed @ weighed.T
    same_speaker = contents.who[:, None] == contents.who
    ones = np.ones((len(rows), len(rows)))
    pair_features = np.stack(
        [
            shares[:, None] * ones,
            shares * ones,
            same_speaker,
            np.log1p(np.abs(at[:, None] - at) / _DAY_S),
            contents.numbers[:, None] == contents.numbers,
            length[:, None] * ones,
            length * ones,
            both,
            alike,
        ],
        axis=-1,
    )
    tells = ((features[:, PLACES["words"]] > 0) | (features[:, PLACES["meaning"]] > 0)) & (
        features[:, PLACES["asks"]] <= 0
    )
    of_whom = features[:, _OF_WHOM].max(axis=1)
    allowed = (at > at[:, None]) & tells & tells[:, None] & (alike > 0)
    allowed &= same_speaker | (of_whom >= of_whom[:, None])
    numbers = presence[:, [places[word] for word in contents.asked if word in places and not word.isalpha()]]
    allowed &= ~(numbers[:, None] > numbers).any(axis=-1)
    allowed &= (contents.who != NOBODY) | (contents.who == NOBODY)[:, None]
    lacks = (presence[:, asked][:, None] > presence[:, asked]).any(axis=-1)
    for old, new in np.argwhere(allowed & lacks).tolist():
        older, newer = contents.words[old], contents.words[new]
        allowed[old, new] = len(older & newer) < _ALIKE * (len(older) + len(newer)) / 2
    return Pairs(rows, pair_features.astype(np.float32), allowed)


def odds_of(candidates: Candidates, model: Model) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the log odds that each candidate answers, and their part for replacing an older message."""
    import numpy as np

    odds = model.answers.odds(candidates.features)
    lifts, contents = np.zeros_like(odds), candidates.contents
    if not model.replaces.weights or contents is None or np.count_nonzero(contents.stems) < 2:
        return odds, lifts
    pairs = compare(odds, candidates, contents)
    sums = np.where(pairs.allowed, model.replaces.odds(pairs.features, PAIR_FEATURES), -np.inf)
    top = np.maximum(sums.max(axis=1, keepdims=True), 0.0)
    shares = np.exp(sums - top)
    likely = shares > _LIKELY * (shares.sum(axis=1, keepdims=True) + np.exp(-top))
    first = odds[pairs.rows]
    if candidates.tense == "past":
        # Many may be older: the one that answers best is the former state.
        fits = np.where(likely, first[:, None], -np.inf)
        likely = (likely & (fits == fits.max(axis=0))).T
    above = likely.any(axis=0)
    own = first[above]
    best = np.where(likely[:, above], first[:, None], -np.inf).max(axis=0)
    # Of several that come before the same one, the better is the first.
    lifts[pairs.rows[above]] = np.maximum(best + _MARGIN + _OWN * (own - best) - own, 0.0)
    return odds + lifts, lifts
