"""The linear model: a score between 0 and 1 out of the signals of a message, and why.

Learnt on the corpus of `edgemem.bench.weeks` alone, by `edgemem bench fit`, which writes `ranking.toml` anew; so each weight
can be read, and changed. The sum of weighted signals is the logarithm of odds; how sure it is that any message answers is
looked at for the question as a whole (see `certainty`), so scores mean the same for every question.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgemem.provisions import provided
from edgemem.recall.certainty import Certainty, clues_of, mixed, shares
from edgemem.recall.fact_scores import FactModels, weighed
from edgemem.recall.signals import SIGNALS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

FILE = "ranking.toml"
REASONS = tuple(dict.fromkeys(SIGNALS.values()))
"""What a signal may stand for in `Recalled.why`; `form` explains nothing and is not said."""
_MENTIONED = 0.1  # of the log odds: a signal that contributes less does not explain anything


class LinearModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Weights of signals; those that are not named weigh nothing."""

    bias: float
    scale: float
    """By which the sum is stretched, so that with the bias it is the logarithm of the odds of being right."""
    weights: dict[str, float]
    certainty: Certainty

    def odds(self, signals: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the logarithm of the odds that each of some messages is right, given `float32[n, len(SIGNALS)]`."""
        import numpy as np

        summed = weighed(signals, self._column)
        found: NDArray[np.float32] = np.float32(self.scale) * summed + np.float32(self.bias)
        return found

    @functools.cached_property
    def _column(self) -> NDArray[np.float32]:
        """Return the weights in the order of the signals."""
        import numpy as np

        return np.array([self.weights.get(name, 0.0) for name in SIGNALS], np.float32)

    @functools.cached_property
    def _shares(self) -> NDArray[np.float32]:
        """Return what each signal adds to which reason, `float32[len(SIGNALS), len(REASONS)]`."""
        import numpy as np

        share = np.zeros((len(SIGNALS), len(REASONS)), np.float32)
        for row, (name, reason) in enumerate(SIGNALS.items()):
            share[row, REASONS.index(reason)] = self.scale * self.weights.get(name, 0.0)
        return share

    def scores(self, signals: NDArray[np.float32], known: float) -> NDArray[np.float32]:
        """Return the scores of all messages that were found for a question, 0 to 1.

        Args:
            signals: `float32[n, len(SIGNALS)]`.
            known: how much of what the words of the question tell apart stands anywhere, 0 to 1.
        """
        import numpy as np

        odds = self.odds(signals)
        if not len(odds):
            return odds
        certainty = self.certainty
        sure = certainty.of(clues_of(odds, signals, known, usual=certainty.usual))
        found: NDArray[np.float32] = np.float32(sure) * shares(odds)
        return found

    def parts(self, signals: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return what each of `REASONS` adds to the log odds of some messages, `float32[n, len(REASONS)]`."""
        import numpy as np

        found: NDArray[np.float32] = np.einsum("ij,jk->ik", signals, self._shares)
        return found


def reasons(parts: Sequence[float]) -> tuple[str, ...]:
    """Return what speaks for a message, strongest first, given its row of `LinearModel.parts`."""
    said = [(-part, reason) for part, reason in zip(parts, REASONS, strict=True) if part >= _MENTIONED]
    return tuple(reason for _, reason in sorted(said) if reason != "form")


class Models(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One model for questions that have a vector, one for those that have none."""

    with_meaning: LinearModel
    words_only: LinearModel
    facts: FactModels
    """The same of facts and preferences."""

    def at(self, meaning: float) -> LinearModel:
        """Return the model whose log odds are those of both, mixed: 0 takes words alone, 1 the one with meaning."""
        if meaning in (0, 1):
            return self.with_meaning if meaning else self.words_only
        both = ((self.with_meaning, meaning), (self.words_only, 1 - meaning))
        return LinearModel(
            sum(share * model.bias for model, share in both),
            1.0,
            {
                name: sum(share * model.scale * model.weights.get(name, 0.0) for model, share in both)
                for name in SIGNALS
            },
            mixed([(model.certainty, share) for model, share in both]),
        )


@provided
def shipped_models() -> Models:
    """Return the models that come with the package."""
    text = Path(__file__).with_name(FILE).read_text("utf-8")
    return msgspec.toml.decode(text, type=Models)
