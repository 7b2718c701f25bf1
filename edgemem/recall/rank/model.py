"""The linear models, which tell from the features of a text or a fact how likely it answers, and why.

Learnt on the corpus of `tests/lab/weeks.py`, by `make lab ARGS=fit`, which writes `ranking.toml` anew; so each weight
can be read, and changed. The sum of weighted features is the logarithm of odds, which mean the same for messages and facts, so
that both rank in one list; how sure it is that anything answers is looked at for the question as a whole (see `gate`).
"""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgemem.preload import preloaded
from edgemem.recall.rank.features import FACT_FEATURES, FEATURES, MEANING
from edgemem.recall.rank.replacing import Replacing
from edgemem.recall.rank.replacing import mixed as mixed_replacing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.rank.replacing import Messages

    Numbers = NDArray[np.float32]


FILE = "ranking.toml"
_MENTIONED = 0.1  # of the log odds: a feature that adds less is no reason
_MEANING = list(FACT_FEATURES).index(MEANING)


class LinearModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Weights of the features of texts; a feature without one weighs 0."""

    bias: float
    scale: float
    """The factor that, with the bias, makes of the weighted sum the log odds of being right."""
    weights: dict[str, float]
    replacing: Replacing = Replacing()

    @classmethod
    def bare(cls, weights: dict[str, float]) -> LinearModel:
        """Return a model that orders messages, before it is calibrated: it cannot tell how likely any of them is right."""
        return cls(0.0, 1.0, weights)

    def odds(self, messages: Messages) -> Numbers:
        """Return the log odds that each message is right, where newer messages replace older ones."""
        return self.replacing.lifted(self.own_odds(messages), messages)

    def own_odds(self, messages: Messages) -> Numbers:
        """Return the log odds that each message is right, whatever replaces it."""
        import numpy as np

        log_odds: Numbers = np.float32(self.scale) * self.sums(messages) + np.float32(self.bias)
        return log_odds

    def sums(self, messages: Messages) -> Numbers:
        """Return the weighted sum of the features of each message."""
        return _sums(messages.features, self.weights, FEATURES)

    def parts(self, features: Sequence[float]) -> dict[str, float]:
        """Return what each reason adds to the log odds of one text, whatever replaces it."""
        parts = _parts(features, FEATURES, self.weights)
        return {reason: self.scale * part for reason, part in parts.items()}


class FactModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A bias and weights of the features of facts; a feature without one weighs 0."""

    bias: float
    weights: dict[str, float]

    def odds(self, features: Numbers) -> Numbers:
        """Return the log odds that each fact answers, given the features of each, `float32[n, len(FACT_FEATURES)]`."""
        import numpy as np

        log_odds: Numbers = _sums(features, self.weights, FACT_FEATURES) + np.float32(self.bias)
        return log_odds


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

        late = np.isnan(features[:, _MEANING])
        features = np.nan_to_num(features)
        share = np.where(late, 0.0, meaning).astype(np.float32)
        return share * self.with_meaning.odds(features) + (1 - share) * self.words_only.odds(features)

    def parts(self, features: Sequence[float], meaning: float) -> dict[str, float]:
        """Return what each reason adds to the log odds of one fact."""
        share = 0.0 if isnan(features[_MEANING]) else meaning
        known = [0.0 if isnan(value) else value for value in features]
        weights = {
            name: share * self.with_meaning.weights.get(name, 0.0)
            + (1 - share) * self.words_only.weights.get(name, 0.0)
            for name in FACT_FEATURES
        }
        return _parts(known, FACT_FEATURES, weights)


def reasons(parts: Mapping[str, float]) -> tuple[str, ...]:
    """Return the reasons for an item, the strongest first, given what each adds; `form` explains nothing and is never given."""
    strong = [reason for reason, part in parts.items() if part >= _MENTIONED and reason != "form"]
    return tuple(sorted(strong, key=lambda reason: (-parts[reason], reason)))


def _parts(
    features: Sequence[float], reasons_of: Mapping[str, str], weights: Mapping[str, float]
) -> dict[str, float]:
    parts = dict.fromkeys(reasons_of.values(), 0.0)
    for value, (name, reason) in zip(features, reasons_of.items(), strict=True):
        parts[reason] += weights.get(name, 0.0) * value
    return parts


def _sums(rows: Numbers, weights: Mapping[str, float], names: Iterable[str]) -> Numbers:
    """Return the weighted sum of each row.

    `einsum` stands for `@`: on one processor BLAS warned of NaN where there was none.
    """
    import numpy as np

    column = np.array([weights.get(name, 0.0) for name in names], np.float32)
    sums: Numbers = np.einsum("ij,j->i", rows, column)
    return sums


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


@preloaded
def shipped_models() -> Models:
    """Return the models that come with the package."""
    text = Path(__file__).with_name(FILE).read_text("utf-8")
    return msgspec.toml.decode(text, type=Models)
