"""The linear model: a score between 0 and 1 out of the signals of a message, and why.

Learnt on the corpus of `edgemem.bench.weeks` alone, by `edgemem bench fit`, which writes `ranking.toml` anew; so each weight
can be read, and changed. The sum of weighted signals is the logarithm of odds: scores mean the same for every question.
"""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec

from edgemem.recall.signals import SIGNALS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FILE = "ranking.toml"
_SURE = 30.0  # log odds beyond which a score is 0 or 1
_MENTIONED = 0.1  # of the log odds: a signal that contributes less does not explain anything


class LinearModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Weights of signals; those that are not named weigh nothing."""

    bias: float
    scale: float
    """By which the sum is stretched, so that scores are the share of right answers."""
    weights: dict[str, float]

    def scores(self, signals: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the scores of some messages, given `float32[n, len(SIGNALS)]`."""
        import numpy as np

        sums = signals @ np.array([self.weights.get(name, 0.0) for name in SIGNALS], np.float32)
        odds = np.clip(self.scale * sums + self.bias, -_SURE, _SURE)
        found: NDArray[np.float32] = 1 / (1 + np.exp(-odds))
        return found

    def reasons(self, signals: NDArray[np.float32]) -> tuple[str, ...]:
        """Return what speaks for one message, strongest first."""
        parts: dict[str, float] = {}
        for (name, reason), value in zip(SIGNALS.items(), signals.tolist(), strict=True):
            if value:
                parts[reason] = parts.get(reason, 0.0) + self.scale * self.weights.get(name, 0.0) * value
        said = [reason for reason, part in parts.items() if part >= _MENTIONED and reason != "form"]
        return tuple(sorted(said, key=lambda reason: (-parts[reason], reason)))


class Models(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One model for questions that have a vector, one for those that have none."""

    with_meaning: LinearModel
    words_only: LinearModel

    def at(self, meaning: float) -> LinearModel:
        """Return the model whose log odds are those of both, mixed: 0 takes words alone, 1 the one with meaning."""
        if meaning in (0, 1):
            return self.with_meaning if meaning else self.words_only
        shares = ((self.with_meaning, meaning), (self.words_only, 1 - meaning))
        return LinearModel(
            sum(share * model.bias for model, share in shares),
            1.0,
            {
                name: sum(share * model.scale * model.weights.get(name, 0.0) for model, share in shares)
                for name in SIGNALS
            },
        )


@functools.cache
def shipped_models() -> Models:
    """Return the models that come with the package."""
    text = files("edgemem.recall").joinpath(FILE).read_text("utf-8")
    return msgspec.toml.decode(text, type=Models)
