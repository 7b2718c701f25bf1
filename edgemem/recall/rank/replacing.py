"""Replacing: which message gives a new value of the same thing as an older one.

For each of the best messages this module computes which newer message replaces it, or that none does: a softmax over the newer
messages and "none", by a few features of each pair. A message that replaces another with a chance over .5 is ranked above it where
the question asks for the present state; where it asks for a former one, the older one is ranked first. A replaced message loses
nothing but its place, so a question that has several answers keeps them all.

Learnt by `make lab ARGS=fit`; `make lab ARGS=judged` tells how often the newest value comes above the old one, and how often a
message that is only alike, such as another birthday, is mistaken for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from edgemem.recall.index.table import NOBODY
from edgemem.recall.rank.features import PLACES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.rank.models import Model

    Rows = NDArray[np.intp] | NDArray[np.bool_] | slice


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
