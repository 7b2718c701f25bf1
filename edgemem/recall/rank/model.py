"""The linear model, which tells from the features of a candidate how likely it answers, and why.

Learnt on the corpus of `tests/lab/weeks.py`, by `make lab ARGS=fit`, which writes `ranking.toml` anew; so each weight
can be read, and changed. The log odds mean the same for texts and facts, so that both rank in one list; how sure it is that
anything answers is looked at for the question as a whole (see `gate`).
"""

from __future__ import annotations

from math import exp
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgemem.preload import preloaded
from edgemem.recall.rank.features import FEATURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float32]


FILE = "ranking.toml"
_MENTIONED = 0.1  # of the log odds: a feature that adds less is no reason
_SURE = 30.0  # log odds: a probability is no nearer to 0 and 1


class LinearModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The weights of features by their names; a feature without one weighs 0."""

    bias: float
    weights: dict[str, float]

    def odds(self, features: Numbers, names: Iterable[str] = FEATURES) -> Numbers:
        """Return log odds: the bias and the weighted sums over the last axis, whose features have these names.

        `einsum` stands for `@`: on one processor BLAS warned of NaN where there was none.
        """
        import numpy as np

        weights = np.array([self.weights.get(name, 0.0) for name in names], np.float32)
        log_odds: Numbers = np.einsum("...i,i->...", features, weights) + np.float32(self.bias)
        return log_odds

    def odds_of(self, features: Mapping[str, float]) -> float:
        """Return the log odds of one thing, given its features by name."""
        return self.bias + sum(self.weights.get(name, 0.0) * value for name, value in features.items())

    def chance(self, features: Mapping[str, float]) -> float:
        """Return the same as a probability, 0 to 1."""
        return 1 / (1 + exp(-max(-_SURE, min(_SURE, self.odds_of(features)))))

    def mixed(self, other: LinearModel, share: float) -> LinearModel:
        """Return the model whose log odds are a mixture of both.

        Args:
            share: that of the other one, 0 to 1.
        """
        names = dict.fromkeys([*self.weights, *other.weights])
        return LinearModel(
            (1 - share) * self.bias + share * other.bias,
            {
                name: (1 - share) * self.weights.get(name, 0.0) + share * other.weights.get(name, 0.0)
                for name in names
            },
        )


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Weights of `FEATURES`, which tell what answers, and of `PAIR_FEATURES`, which tell what replaces an older message."""

    answers: LinearModel
    replaces: LinearModel = LinearModel(0.0, {})

    def reasons(self, features: Sequence[float], recent: float = 0.0) -> tuple[str, ...]:
        """Return why a candidate answers, the strongest reason first; `form` explains nothing and is never given.

        Args:
            features: its `FEATURES`.
            recent: what it has of its log odds for replacing an older message.
        """
        parts = dict.fromkeys(FEATURES.values(), 0.0) | {"recent": recent}
        for value, (name, reason) in zip(features, FEATURES.items(), strict=True):
            parts[reason] += self.answers.weights.get(name, 0.0) * value
        strong = [reason for reason, part in parts.items() if part >= _MENTIONED and reason != "form"]
        return tuple(sorted(strong, key=lambda reason: (-parts[reason], reason)))


class Models(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two models: one where question and candidate have vectors, one where either has none."""

    with_meaning: Model
    words_only: Model

    def at(self, meaning: float) -> Model:
        """Return the model whose log odds are a mixture of both: 0 is the one of words alone, 1 the one with meaning."""
        if meaning in (0, 1):
            return self.with_meaning if meaning else self.words_only
        words, both = self.words_only, self.with_meaning
        return Model(words.answers.mixed(both.answers, meaning), words.replaces.mixed(both.replaces, meaning))


@preloaded
def shipped_models() -> Models:
    """Return the models that come with the package."""
    text = Path(__file__).with_name(FILE).read_text("utf-8")
    return msgspec.toml.decode(text, type=Models)
