"""The linear model: how likely a message answers, out of its signals, and why.

What an older message says may have been replaced since; see `replacing`.

Learnt on the corpus of `tests/lab/weeks.py`, by `make lab ARGS=fit`, which writes `ranking.toml` anew; so each weight
can be read, and changed. The sum of weighted signals is the logarithm of odds; how sure it is that any message answers is
looked at for the question as a whole (see `gate`), so scores mean the same for every question.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from edgemem.provisions import provided
from edgemem.recall.rank.fact_features import FactModels, weighed
from edgemem.recall.rank.features import SIGNALS
from edgemem.recall.rank.replacing import Replacing
from edgemem.recall.rank.replacing import mixed as mixed_replacing

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.rank.replacing import Said


FILE = "ranking.toml"
REASONS = (*dict.fromkeys(SIGNALS.values()), "recent")
"""What a signal may stand for in `Recalled.why`; `form` explains nothing and is not said."""
_MENTIONED = 0.1  # of the log odds: a signal that contributes less does not explain anything


class Messages(NamedTuple):
    """The messages that were found for a question."""

    signals: NDArray[np.float32]
    """One row each, `float32[n, len(SIGNALS)]`."""
    at: NDArray[np.float64]
    """When each was said, seconds since the epoch."""
    tense: Literal["now", "past", ""]
    """Whether the question is about what holds, or about what was; empty: about neither, as "what did she say?"."""

    said: Said | None = None
    """What is compared of them where the question has a tense; None: nothing."""

    def some(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Messages:
        """Return some of them."""
        said = None if self.said is None else self.said.some(rows)
        return self._replace(signals=self.signals[rows], at=self.at[rows], said=said)


class LinearModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Weights of signals; those that are not named weigh nothing."""

    bias: float
    scale: float
    """By which the sum is stretched, so that with the bias it is the logarithm of the odds of being right."""
    weights: dict[str, float]
    replacing: Replacing = Replacing()

    @classmethod
    def bare(cls, weights: dict[str, float]) -> LinearModel:
        """Return a model that knows the order of messages, and not how likely any of them is right."""
        return cls(0.0, 1.0, weights)

    def odds(self, messages: Messages) -> NDArray[np.float32]:
        """Return the logarithm of the odds that each of some messages is right."""
        return self.replacing.lifted(self.own_odds(messages), messages)

    def own_odds(self, messages: Messages) -> NDArray[np.float32]:
        """Return the same of each by itself, whatever replaces it."""
        import numpy as np

        found: NDArray[np.float32] = np.float32(self.scale) * self.sums(messages) + np.float32(self.bias)
        return found

    def sums(self, messages: Messages) -> NDArray[np.float32]:
        """Return the weighted signals of some messages, each by itself."""
        return weighed(messages.signals, self._column)

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

    def parts(self, messages: Messages) -> NDArray[np.float32]:
        """Return what each of `REASONS` adds to the log odds of some messages, `float32[n, len(REASONS)]`."""
        import numpy as np

        found: NDArray[np.float32] = np.einsum("ij,jk->ik", messages.signals, self._shares)
        found[:, REASONS.index("recent")] += self.odds(messages) - self.own_odds(messages)
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
        scale = sum(share * model.scale for model, share in both)
        return LinearModel(
            sum(share * model.bias for model, share in both),
            scale,
            {
                name: sum(share * model.scale * model.weights.get(name, 0.0) for model, share in both) / scale
                for name in SIGNALS
            },
            mixed_replacing([(model.replacing, share) for model, share in both]),
        )


@provided
def shipped_models() -> Models:
    """Return the models that come with the package."""
    text = Path(__file__).with_name(FILE).read_text("utf-8")
    return msgspec.toml.decode(text, type=Models)
