"""The linear models: how likely each candidate answers, and which newer message replaces an older one.

Candidates' log odds mean the same for texts and facts. `make lab ARGS=fit` learns them on `tests/lab/weeks.py` and writes
`ranking.toml`; each weight can be read, and changed. What a candidate scores by its log odds is told by the gate (`gate.py`).

Another model says which newer message, if any, replaces each of the best: a softmax over the newer ones and "none", by features
of each pair. With a chance over .5 the new one ranks above where the question asks for the present state, and below where it asks
for a former one. The replaced one loses only its place, so a question with several answers keeps them all.
"""

from __future__ import annotations

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


RANKING_FILE = "ranking.toml"
_LEAST_REASON = 0.1
"""Log odds; a feature that adds less is no reason."""
PAIR_FEATURES = (
    "old_share", "new_share", "same_speaker", "days", "numbers_alike", "old_length", "new_length", "asked_of_both", "alike",
)  # fmt: skip
"""Whether a message replaces an older one, in the order of the columns.

share: the logarithm of the softmax share among compared ones. days: between them, by logarithm, as each one's number of stems.
numbers_alike: both hold a number, or none. asked_of_both: the share of the question's words in both. alike: the cosine of their
words, which weigh the more, the fewer of the compared have them.
"""
COMPARED = 6
"""Top messages compared pairwise."""
_LIKELY = 0.5
_MARGIN, _OWN = 0.2, 0.01  # of the log odds
_DAY_S = 86400.0
_SHORT = 6  # stems: a shorter text is no likelier to be replaced
_ALIKE = 0.5  # the share of two messages' words in both
_OF_WHOM = [PLACES[name] for name in ("mentioned", "about")]


class LinearModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The weights of features by name; others weigh 0."""

    bias: float
    weights: dict[str, float]

    def odds(self, features: Numbers, names: Iterable[str] = FEATURES) -> Numbers:
        """Return log odds: bias plus weighted sums over the last axis, which has these features.

        `einsum` in place of `@`: on one processor BLAS warned of NaN where there was none.
        """
        import numpy as np

        weights = np.array([self.weights.get(name, 0.0) for name in names], np.float32)
        log_odds: Numbers = np.einsum("...i,i->...", features, weights) + np.float32(self.bias)
        return log_odds

    def odds_of(self, features: Mapping[str, float]) -> float:
        """Return the log odds of one thing by its named features."""
        return self.bias + sum(self.weights.get(name, 0.0) * value for name, value in features.items())

    def mix(self, other: LinearModel, share: float) -> LinearModel:
        """Return the model whose log odds are a mixture with a `share`, 0 to 1, of the other's."""
        names = dict.fromkeys([*self.weights, *other.weights])
        return LinearModel(
            (1 - share) * self.bias + share * other.bias,
            {
                name: (1 - share) * self.weights.get(name, 0.0) + share * other.weights.get(name, 0.0)
                for name in names
            },
        )


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Weights of `FEATURES`, for answers, and of `PAIR_FEATURES`, for replacing an older message."""

    answers: LinearModel
    replaces: LinearModel = LinearModel(0.0, {})

    def reasons(self, features: Sequence[float], recent: float = 0.0) -> tuple[str, ...]:
        """Return why a candidate answers, strongest first; `form` explains nothing and is never given.

        `recent` is the part of its log odds for replacing an older message.
        """
        parts = {"recent": recent}
        for value, (name, reason) in zip(features, FEATURES.items(), strict=True):
            if value and reason != "form":
                parts[reason] = parts.get(reason, 0.0) + self.answers.weights.get(name, 0.0) * value
        strong = [reason for reason, part in parts.items() if part >= _LEAST_REASON]
        return tuple(sorted(strong, key=lambda reason: (-parts[reason], reason)))


class Models(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One model where question and candidate have vectors, one where either has none."""

    with_meaning: Model
    words_only: Model

    def for_meaning(self, meaning: float) -> Model:
        """Mix the log odds of both: 0 is words alone, 1 is with meaning."""
        if meaning in (0, 1):
            return self.with_meaning if meaning else self.words_only
        words, both = self.words_only, self.with_meaning
        return Model(words.answers.mix(both.answers, meaning), words.replaces.mix(both.replaces, meaning))


@preloaded
def shipped_models() -> Models:
    """Read the package's models."""
    text = Path(__file__).with_name(RANKING_FILE).read_text("utf-8")
    return msgspec.toml.decode(text, type=Models)


class Contents(NamedTuple):
    """The contents of candidates, one entry each."""

    who: NDArray[np.integer]
    """The speaker's code; `NOBODY` is the robot, or an unknown voice."""
    numbers: NDArray[np.bool_]
    stems: NDArray[np.object_]
    """A `frozenset[str]` each, for messages that rank high enough to be compared; else empty."""
    words: NDArray[np.object_]
    """All words, "the" and "is" too."""
    asked: frozenset[str]
    """Stems of the question."""

    def subset(self, rows: Rows) -> Contents:
        """Return the contents of some rows."""
        return Contents(self.who[rows], self.numbers[rows], self.stems[rows], self.words[rows], self.asked)


class Candidates(NamedTuple):
    """The candidates of a question."""

    features: NDArray[np.float32]
    """`float32[n, len(FEATURES)]`."""
    at: NDArray[np.float64]
    """When each was said, seconds since the epoch."""
    tense: Literal["now", "past", ""]
    """The question's; empty: neither, as "what did she say?"."""
    contents: Contents | None = None
    """For a question with a tense; None: none replaces another."""

    def subset(self, rows: Rows) -> Candidates:
        """Return the candidates of some rows."""
        contents = None if self.contents is None else self.contents.subset(rows)
        return self._replace(features=self.features[rows], at=self.at[rows], contents=contents)


class Pairs(NamedTuple):
    """A question's top messages, compared pairwise."""

    rows: NDArray[np.intp]
    """Among the candidates."""
    features: NDArray[np.float32]
    """By old, new and `PAIR_FEATURES`."""
    allowed: NDArray[np.bool_]
    """By old and new: whether the new message may replace the old one.

    It must be newer, both must answer something themselves, and they must share a word. It may not replace a message
    - of another person that tells more about the people in the question ("I" means the speaker alone);
    - that has a number of the question which it lacks: cup 1 is not cup 0;
    - that has a word of the question which it lacks in much the same words: the dentist's number is not the plumber's;
    - of a person, if the robot said the new one.
    """


def compare(odds: NDArray[np.float32], candidates: Candidates, contents: Contents) -> Pairs:
    """Compare the top messages pairwise, by each candidate's log odds of answering."""
    import numpy as np

    rows = np.flatnonzero(contents.stems)
    # Among many that answer alike, the one to come first must be compared.
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
    """Return each candidate's log odds of answering, and their part for replacing an older message."""
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
        # Of several older ones the best answer is the former state.
        fits = np.where(likely, first[:, None], -np.inf)
        likely = (likely & (fits == fits.max(axis=0))).T
    above = likely.any(axis=0)
    own = first[above]
    best = np.where(likely[:, above], first[:, None], -np.inf).max(axis=0)
    # Of several before the same one, the better is the first.
    lifts[pairs.rows[above]] = np.maximum(best + _MARGIN + _OWN * (own - best) - own, 0.0)
    return odds + lifts, lifts
