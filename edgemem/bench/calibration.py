"""Calibration: what sums of signals mean: how likely each message is right, and how sure it is that any of them is.

Both are logistic regressions. That of a message is J. Platt's ("Probabilistic outputs for support vector machines", 1999),
on the sum alone; that of a question looks at the clues of `edgemem.recall.certainty`, each of which keeps its sign.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.recall.certainty import CLUES, Certainty, clues_of, shares
from edgemem.recall.linear import LinearModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.linear import Messages

    Truth = NDArray[np.bool_]
    Wide = NDArray[np.float64]

FIRST = 5
"""Messages of each question that are looked at: what stands behind them is seldom told."""
_WEAK, _PENALTY = 1e-6, 0.01
"""What the squares of coefficients cost, beside the mean loss of a question."""
_ROUNDS = 60
LEVEL, COST = 0.1, 0.04
"""A score that all but so many of the right messages among the first reach, with any model: so one floor
(`[injection] min_turn_score`) costs the same with an embedder and without one, which is less sure of anything."""


def calibrated(weights: dict[str, float], asked: Sequence[Messages], right: Sequence[Truth]) -> LinearModel:
    """Return the model that knows how likely its first messages are right, and whether any of them is.

    Args:
        asked: the candidates of each question, at least one.
        right: which of them answer it; none where nothing does.
    """
    import numpy as np

    bare = LinearModel.bare(weights)
    sums = [bare.odds(one) for one in asked]
    first = [np.argsort(-own, kind="stable")[:FIRST] for own in sums]
    of = np.concatenate([own[best] for own, best in zip(sums, first, strict=True)])
    good = np.concatenate([y[best] for y, best in zip(right, first, strict=True)])
    # A weak prior at 1 keeps the scale finite where a line parts right from wrong.
    bias, scale = logistic(of[:, None], good, np.ones(len(of)), penalty=_WEAK, prior=1.0)
    model = msgspec.structs.replace(bare, bias=bias, scale=float(scale[0]))
    certainty = _certainty(model, asked, right)
    return msgspec.structs.replace(model, certainty=_levelled(certainty, model, asked, right))


def _certainty(model: LinearModel, asked: Sequence[Messages], right: Sequence[Truth]) -> Certainty:
    """Return what tells a question whose answer is among the first messages from one that nothing answers.

    Questions whose answer is there and was not found teach nothing: they look like either. Both sorts weigh the same.
    """
    import numpy as np

    clues, answered = [], []
    sums = [model.odds(one) for one in asked]
    usual = float(np.mean([np.median(odds) for odds in sums]))
    for odds, one, y in zip(sums, asked, right, strict=True):
        found = bool(y[np.argsort(-odds, kind="stable")[:FIRST]].any())
        if found or not y.any():
            clues.append(clues_of(odds, one.signals, one.known, usual=usual))
            answered.append(found)
    of, good = np.stack(clues).astype(np.float64), np.array(answered)
    middle, spread = of.mean(axis=0), of.std(axis=0) + _WEAK
    each = np.where(good, 1 / max(1, good.sum()), 1 / max(1, (~good).sum())) * len(good) / 2
    bias, found_weights = logistic((of - middle) / spread, good, each, penalty=_PENALTY, prior=0.0)
    raw = found_weights / spread
    named = {name: float(weight) for name, weight in zip(CLUES, raw, strict=True) if weight > 0}
    return Certainty(bias=bias - float(middle @ raw), usual=usual, weights=named)


def _levelled(
    certainty: Certainty,
    model: LinearModel,
    asked: Sequence[Messages],
    right: Sequence[Truth],
) -> Certainty:
    """Return the certainty with a bias by which all but `COST` of the right messages score `LEVEL` or more."""
    import numpy as np

    weights = np.array([certainty.weights.get(name, 0.0) for name in CLUES])
    needed = []
    for one, y in zip(asked, right, strict=True):
        odds = model.odds(one)
        first = np.argsort(-odds, kind="stable")[:FIRST]
        of = np.maximum(shares(odds)[first][y[first]].astype(np.float64), 2 * LEVEL)
        sum_of = float(weights @ clues_of(odds, one.signals, one.known, usual=certainty.usual))
        # sure * share = LEVEL, solved for the bias; one whose share is too small for any bias needs much.
        needed += (np.log(LEVEL / (of - LEVEL)) - sum_of).tolist()
    return msgspec.structs.replace(
        certainty, bias=float(np.quantile(needed, 1 - COST)) if needed else certainty.bias
    )


def logistic(x: Wide, y: Truth, each: Wide, *, penalty: float, prior: float) -> tuple[float, Wide]:
    """Return the bias, and coefficients that are not negative, by Newton's method; steps are halved until they help.

    Args:
        each: how much each row weighs.
        penalty: half of it times the square of a coefficient's distance from `prior`, and of the bias, is added to the mean loss.
    """
    import numpy as np

    of = np.column_stack([x, np.ones(len(x))]).astype(np.float64)
    good = y.astype(np.float64)
    aim = np.append(np.full(x.shape[1], prior), 0.0)
    costs = np.append(np.full(x.shape[1], penalty), _WEAK)
    least = np.append(np.zeros(x.shape[1]), -np.inf)
    found = aim.copy()

    def loss(found: Any) -> float:
        sums = of @ found
        return float(
            (each * (np.logaddexp(0, sums) - good * sums)).mean() + (costs * (found - aim) ** 2).sum() / 2
        )

    for _ in range(_ROUNDS):
        p = 1 / (1 + np.exp(-np.clip(of @ found, -50, 50)))
        slope = of.T @ (each * (p - good)) / len(good) + costs * (found - aim)
        free = (found > least) | (slope < 0)
        part = of[:, free]
        curve = (part * (each * p * (1 - p))[:, None]).T @ part / len(good) + np.diag(costs[free])
        step = np.zeros(len(found))
        step[free] = np.linalg.solve(curve, slope[free])
        length, before = 1.0, loss(found)
        while length > _WEAK and loss(np.maximum(found - length * step, least)) > before:
            length /= 2
        after = np.maximum(found - length * step, least)
        moved = float(np.abs(after - found).max())
        found = after
        if moved < _WEAK:
            break
    return float(found[-1]), found[:-1]
