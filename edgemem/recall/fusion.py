"""Fusion: one score between 0 and 1 for an episode, a note or a summary, out of what each signal says, and why.

The own score is the weighted mean of words and meaning. Everything else can only add to it, as independent pieces of
evidence do: each takes away a share of the doubt that is left. So scores are bounded, never fall when a signal grows, do
not depend on the order of candidates, and mean the same from one question to the next. Messages are scored by `linear`,
facts and preferences by `fact_scores`: our own corpus has neither episodes nor notes that could be learnt from.

The constants are few and round; nothing was fitted. `recent` only orders what is otherwise equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


class Weights(msgspec.Struct, frozen=True):
    """How much each signal counts."""

    words: float = 0.6
    meaning: float = 0.4
    person: float = 0.1
    recent: float = 0.02
    summary: float = 0.5
    """What the score of a summary is worth beside others: what it says, the turns that it was made from say too."""


class Signals(NamedTuple):
    """What is known about one candidate, each from 0 to 1."""

    words: float = 0.0
    """How much of what the question's words can tell apart is in the text: BM25 over the best BM25 possible."""
    meaning: float | None = 0.0
    """Cosine of question and text; None where the question has no vector."""
    person: float = 0.0
    """1 if the question names who said it or whom it belongs to."""
    recent: float = 0.0
    """1 for now, halved with each half-life."""


_MENTIONED = 0.01  # a signal that contributes less does not explain anything


def own_score(words: float, meaning: float | None, weights: Weights) -> float:
    """Return how well a text answers by itself; words alone count where there is no vector of the question."""
    if meaning is None:
        return _clip(words)
    total = weights.words + weights.meaning
    if total <= 0:
        return 0.0
    # A cosine may be negative, and rounding takes it above 1.
    meaning = 0.0 if meaning < 0.0 else min(meaning, 1.0)
    return _clip((weights.words * words + weights.meaning * meaning) / total)


def scores_of(
    words: ArrayLike,
    meaning: ArrayLike,
    person: ArrayLike,
    recent: ArrayLike,
    weights: Weights,
) -> NDArray[np.float64]:
    """Return the scores of candidates, given their signals one array each; where meaning is not known, it is not a number."""
    import numpy as np

    words, meaning, person, recent = (
        np.asarray(each, np.float64) for each in (words, meaning, person, recent)
    )
    total = weights.words + weights.meaning
    both = (
        (weights.words * words + weights.meaning * np.clip(meaning, 0.0, 1.0)) / total
        if total > 0
        else 0.0 * meaning
    )
    own = np.clip(np.where(np.isnan(meaning), words, both), 0.0, 1.0)
    doubt = (1.0 - own) * (1.0 - weights.person * person) * (1.0 - weights.recent * recent)
    scores: NDArray[np.float64] = np.clip(1.0 - doubt, 0.0, 1.0)
    return scores


def reasons(signals: Signals, weights: Weights) -> tuple[str, ...]:
    """Return the signals that made a score, strongest first."""
    words = own_score(signals.words, None if signals.meaning is None else 0.0, weights)
    parts = {
        "words": words,
        "meaning": own_score(signals.words, signals.meaning, weights) - words,
        "person": weights.person * _clip(signals.person),
        "recent": weights.recent * _clip(signals.recent),
    }
    said = [name for name, part in parts.items() if part >= _MENTIONED]
    return tuple(sorted(said, key=lambda name: (-parts[name], name)))


def _clip(value: float) -> float:
    return 0.0 if value < 0.0 else min(value, 1.0)
