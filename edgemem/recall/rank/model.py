"""The linear model, which tells from the features of a message how likely it answers, and why.

Learnt on the corpus of `tests/lab/weeks.py`, by `make lab ARGS=fit`, which writes `ranking.toml` anew; so each weight
can be read, and changed. The sum of weighted features is the logarithm of odds; how sure it is that any message answers is
looked at for the question as a whole (see `gate`), so scores mean the same for every question.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgemem.provisions import provided
from edgemem.recall.rank.fact_features import FactModels, weighed
from edgemem.recall.rank.features import FEATURES
from edgemem.recall.rank.replacing import Replacing
from edgemem.recall.rank.replacing import mixed as mixed_replacing

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.rank.replacing import Messages


FILE = "ranking.toml"
REASONS = (*dict.fromkeys(FEATURES.values()), "recent")
"""The reasons in `Recalled.why` that features may have; `form` explains nothing and is never given."""
_MENTIONED = 0.1  # of the log odds: a feature that adds less is no reason


class LinearModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Weights of features; a feature without one weighs 0."""

    bias: float
    scale: float
    """The factor that, with the bias, makes of the weighted sum the log odds of being right."""
    weights: dict[str, float]
    replacing: Replacing = Replacing()

    @classmethod
    def bare(cls, weights: dict[str, float]) -> LinearModel:
        """Return a model that orders messages, before it is calibrated: it cannot tell how likely any of them is right."""
        return cls(0.0, 1.0, weights)

    def odds(self, messages: Messages) -> NDArray[np.float32]:
        """Return the log odds that each message is right, where newer messages replace older ones."""
        return self.replacing.lifted(self.own_odds(messages), messages)

    def own_odds(self, messages: Messages) -> NDArray[np.float32]:
        """Return the log odds that each message is right, whatever replaces it."""
        import numpy as np

        log_odds: NDArray[np.float32] = np.float32(self.scale) * self.sums(messages) + np.float32(self.bias)
        return log_odds

    def sums(self, messages: Messages) -> NDArray[np.float32]:
        """Return the weighted sum of the features of each message."""
        return weighed(messages.features, self._column)

    @functools.cached_property
    def _column(self) -> NDArray[np.float32]:
        """Return the weights in the order of the features."""
        import numpy as np

        return np.array([self.weights.get(name, 0.0) for name in FEATURES], np.float32)

    @functools.cached_property
    def _shares(self) -> NDArray[np.float32]:
        """Return what each feature adds to which reason, `float32[len(FEATURES), len(REASONS)]`."""
        import numpy as np

        share = np.zeros((len(FEATURES), len(REASONS)), np.float32)
        for row, (name, reason) in enumerate(FEATURES.items()):
            share[row, REASONS.index(reason)] = self.scale * self.weights.get(name, 0.0)
        return share

    def parts(self, messages: Messages) -> NDArray[np.float32]:
        """Return what each of `REASONS` adds to the log odds of some messages, `float32[n, len(REASONS)]`."""
        import numpy as np

        parts: NDArray[np.float32] = np.einsum("ij,jk->ik", messages.features, self._shares)
        parts[:, REASONS.index("recent")] += self.odds(messages) - self.own_odds(messages)
        return parts


def reasons(parts: Sequence[float]) -> tuple[str, ...]:
    """Return the reasons for a message, the strongest first, given its row of `LinearModel.parts`."""
    mentioned = [(-part, reason) for part, reason in zip(parts, REASONS, strict=True) if part >= _MENTIONED]
    return tuple(reason for _, reason in sorted(mentioned) if reason != "form")


class Models(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two models: one for questions with a vector, one for those without."""

    with_meaning: LinearModel
    words_only: LinearModel
    facts: FactModels
    """The same of facts and preferences."""

    def at(self, meaning: float) -> LinearModel:
        """Return the model whose log odds are a mixture of both: 0 is the one of words alone, 1 the one with meaning."""
        if meaning in (0, 1):
            return self.with_meaning if meaning else self.words_only
        both = ((self.with_meaning, meaning), (self.words_only, 1 - meaning))
        scale = sum(share * model.scale for model, share in both)
        return LinearModel(
            sum(share * model.bias for model, share in both),
            scale,
            {
                name: sum(share * model.scale * model.weights.get(name, 0.0) for model, share in both) / scale
                for name in FEATURES
            },
            mixed_replacing([(model.replacing, share) for model, share in both]),
        )


@provided
def shipped_models() -> Models:
    """Return the models that come with the package."""
    text = Path(__file__).with_name(FILE).read_text("utf-8")
    return msgspec.toml.decode(text, type=Models)
