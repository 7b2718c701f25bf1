"""The features of facts and preferences, and the model that makes of them how likely each one answers a question.

The model is logistic. `make lab ARGS=fit` learns it on the corpus of `tests/lab/weeks.py` and writes it into `ranking.toml`.
Its odds mean the same as those of messages, so that facts and messages rank in one list.
"""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.recall.text.analyse import terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.query import ParsedQuery
    from edgemem.recall.search.view import View

    Numbers = NDArray[np.float32]
    Slots = NDArray[np.intp]


FACT_FEATURES: dict[str, str] = {
    "words": "words", "meaning": "meaning", "named": "subject", "theirs": "person", "past": "past",
}  # fmt: skip
"""The features in the order of the columns, each with its reason in `Recalled.why`. None can speak against a fact.

words: the share of the idf of the question's words that the fact has.
meaning: the cosine, times `ELSEWHERE` where the question names the subject of another fact.
named: whether the question names the subject of the fact.
theirs: whether it is about the asker ("my"), or belongs to somebody whom the question names, and has no other subject.
past: whether it held before the present value, where the question asks for that.
"""
MEANING = "meaning"
ELSEWHERE = 0.75
"""The factor of a cosine, where the question names a subject and the fact has another one.

It is not lower, since the subject may be said in another word. Measured on 400 questions of `edgemem.bench.corpus` among 10,000
facts: without it .54 of the facts that answer come first and .87 are among the first five.
"""
_MENTIONED = 0.1  # of the log odds: a feature that adds less is no reason
_PLACES = {name: place for place, name in enumerate(FACT_FEATURES)}


class FactModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A bias and weights of features; a feature without one weighs 0."""

    bias: float
    weights: dict[str, float]

    def odds(self, features: Numbers) -> Numbers:
        """Return the log odds that each fact answers, given the features of each, `float32[n, len(FACT_FEATURES)]`."""
        import numpy as np

        weights = np.array([self.weights.get(name, 0.0) for name in FACT_FEATURES], np.float32)
        log_odds: Numbers = weighed(features, weights) + np.float32(self.bias)
        return log_odds

    def parts(self, features: Sequence[float]) -> dict[str, float]:
        """Return what each reason adds to the log odds of one fact."""
        return {
            reason: self.weights.get(name, 0.0) * value
            for (name, reason), value in zip(FACT_FEATURES.items(), features, strict=True)
        }


class FactModels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two models: one where question and fact have vectors, one where either has none."""

    with_meaning: FactModel
    words_only: FactModel

    def odds(self, features: Numbers, meaning: float) -> Numbers:
        """Return the log odds of both models, mixed.

        Args:
            features: `float32[n, len(FACT_FEATURES)]`; the meaning of a fact that has no vector yet is NaN.
            meaning: 0 takes words alone, 1 the model with meaning.
        """
        import numpy as np

        late = np.isnan(features[:, _PLACES[MEANING]])
        features = np.nan_to_num(features)
        share = np.where(late, 0.0, meaning).astype(np.float32)
        return share * self.with_meaning.odds(features) + (1 - share) * self.words_only.odds(features)

    def reasons(self, features: Sequence[float], meaning: float) -> tuple[str, ...]:
        """Return the reasons for one fact, the strongest first."""
        share = 0.0 if isnan(features[_PLACES[MEANING]]) else meaning
        known = [0.0 if isnan(value) else value for value in features]
        both = self.with_meaning.parts(known), self.words_only.parts(known)
        parts = {reason: share * both[0][reason] + (1 - share) * both[1][reason] for reason in both[0]}
        strong = [name for name, part in parts.items() if part >= _MENTIONED]
        return tuple(sorted(strong, key=lambda name: (-parts[name], name)))


def weighed(rows: Numbers, weights: Numbers) -> Numbers:
    """Return the weighted sum of each row.

    `einsum` stands for `@`: on one processor BLAS warned of NaN where there was none.
    """
    import numpy as np

    sums: Numbers = np.einsum("ij,j->i", rows, weights)
    return sums


def fact_features_of(view: View, slots: Slots, question: ParsedQuery, past: NDArray[np.float64]) -> Numbers:
    """Return the features of some facts, `float32[n, len(FACT_FEATURES)]`.

    Args:
        past: 0 to 1, how well each is the earlier value that is asked for; 0 where the question asks for none.
    """
    import numpy as np

    features = np.zeros((len(slots), len(FACT_FEATURES)), np.float32)
    named, theirs, elsewhere = _about(view, slots, question)
    cosines = np.clip(view.cosines[slots], 0.0, 1.0) * np.where(elsewhere & named.any(), ELSEWHERE, 1.0)
    columns: dict[str, Any] = {
        "words": np.minimum(view.words[slots], 1.0),
        MEANING: np.where(view.near[slots], cosines, np.float32("nan")),
        "named": named,
        "theirs": theirs,
        "past": past,
    }
    for name, place in _PLACES.items():
        features[:, place] = columns[name]
    return features


def _about(
    view: View, slots: Slots, question: ParsedQuery
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return three masks: facts about a named subject, facts that are `theirs`, and facts about another subject."""
    import numpy as np

    who, facts = view.columns.rows["who"], view.columns.facts
    people = {" ".join(terms(name)) for name in question.people}
    codes = {view.columns.code(name) for name in question.people}
    named, theirs, elsewhere = np.zeros((3, len(slots)), bool)
    for place, slot in enumerate(slots.tolist()):
        subject = facts.get(slot, (None, None))[0]
        if subject is None:
            theirs[place] = int(who[slot]) in codes
        elif question.names(subject):
            named[place] = True
        else:
            theirs[place], elsewhere[place] = subject in people, True
    return named, theirs, elsewhere
