"""Fact scores: how likely a fact or a preference answers a question, and why.

A logistic model over a handful of clues, learnt on the corpus of `tests/lab/weeks.py` alone by `make lab ARGS=fit`, which
writes it into `ranking.toml`. Its odds mean the same as those of messages, so facts and messages stand in one list.
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


CLUES: dict[str, str] = {
    "words": "words", "meaning": "meaning", "named": "subject", "theirs": "person", "past": "past",
}  # fmt: skip
"""What is looked at, each with the reason that it stands for in `Recalled.why`; each can only speak for a fact.

words: how much of what the question's words tell apart is in the fact.
meaning: cosine; `ELSEWHERE` of it for a fact about something else, where the question names what others are about.
named: whether the question names the subject of the fact.
theirs: whether it is about who asks ("my"), or belongs to somebody whom the question names and says of nobody else.
past: whether it is what was before, where the question asks for that.
"""
MEANING = "meaning"
ELSEWHERE = 0.75
"""What meaning is still worth for a fact about another subject than the question names.

Not less, since the subject may be said in another word. Measured on 400 questions of `edgemem.bench.corpus` among 10,000
facts: without it .54 of the facts that answer come first and .87 are among the first five.
"""
_MENTIONED = 0.1  # of the log odds: a clue that contributes less does not explain anything
_PLACES = {name: place for place, name in enumerate(CLUES)}


class FactModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Weights of clues; those that are not named weigh nothing."""

    bias: float
    weights: dict[str, float]

    def odds(self, clues: Numbers) -> Numbers:
        """Return the logarithm of the odds that each fact answers, given `float32[n, len(CLUES)]`."""
        import numpy as np

        weights = np.array([self.weights.get(name, 0.0) for name in CLUES], np.float32)
        found: Numbers = weighed(clues, weights) + np.float32(self.bias)
        return found

    def parts(self, clues: Sequence[float]) -> dict[str, float]:
        """Return what each reason adds to the log odds of one fact."""
        return {
            reason: self.weights.get(name, 0.0) * value
            for (name, reason), value in zip(CLUES.items(), clues, strict=True)
        }


class FactModels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One model for questions that have a vector, one for those, and for facts, that have none."""

    with_meaning: FactModel
    words_only: FactModel

    def odds(self, clues: Numbers, meaning: float) -> Numbers:
        """Return the log odds of both models, mixed.

        Args:
            clues: `float32[n, len(CLUES)]`; the meaning of what waits for its vector is not a number.
            meaning: 0 takes words alone, 1 the model with meaning.
        """
        import numpy as np

        late = np.isnan(clues[:, _PLACES[MEANING]])
        clues = np.nan_to_num(clues)
        share = np.where(late, 0.0, meaning).astype(np.float32)
        return share * self.with_meaning.odds(clues) + (1 - share) * self.words_only.odds(clues)

    def reasons(self, clues: Sequence[float], meaning: float) -> tuple[str, ...]:
        """Return what speaks for one fact, strongest first."""
        share = 0.0 if isnan(clues[_PLACES[MEANING]]) else meaning
        known = [0.0 if isnan(value) else value for value in clues]
        both = self.with_meaning.parts(known), self.words_only.parts(known)
        parts = {reason: share * both[0][reason] + (1 - share) * both[1][reason] for reason in both[0]}
        said = [name for name, part in parts.items() if part >= _MENTIONED]
        return tuple(sorted(said, key=lambda name: (-parts[name], name)))


def weighed(rows: Numbers, weights: Numbers) -> Numbers:
    """Return the weighted sum of each row.

    Not by `@`: on one processor BLAS warned of values that are not numbers where all were.
    """
    import numpy as np

    found: Numbers = np.einsum("ij,j->i", rows, weights)
    return found


def clues_of(view: View, slots: Slots, question: ParsedQuery, past: NDArray[np.float64]) -> Numbers:
    """Return the clues of some facts, `float32[n, len(CLUES)]`.

    Args:
        past: how well each is what was before; 0 where the question does not ask for that.
    """
    import numpy as np

    found = np.zeros((len(slots), len(CLUES)), np.float32)
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
        found[:, place] = columns[name]
    return found


def _about(
    view: View, slots: Slots, question: ParsedQuery
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which facts are about what the question names, which about or of whom it means otherwise, which about another."""
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
