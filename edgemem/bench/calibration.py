"""Calibration: what sums of signals mean: how likely each message is right.

A logistic regression on the sum alone, as J. Platt's ("Probabilistic outputs for support vector machines", 1999).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

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
_WEAK = 1e-6
"""What the squares of coefficients cost, beside the mean loss."""
_ROUNDS = 60


def calibrated(weights: dict[str, float], asked: Sequence[Messages], right: Sequence[Truth]) -> LinearModel:
    """Return the model that knows how likely its first messages are right.

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
    return msgspec.structs.replace(bare, bias=bias, scale=float(scale[0]))


def logistic(
    x: Wide, y: Truth | Wide, each: Wide, *, penalty: float, prior: float, least: float = 0.0
) -> tuple[float, Wide]:
    """Return the bias and the coefficients of a logistic regression, by Newton's method; steps are halved until they help.

    Args:
        y: whether each row is one of those that are told apart, or how likely.
        each: how much each row weighs.
        least: the smallest coefficient.
        penalty: half of it times the square of a coefficient's distance from `prior`, and of the bias, is added to the mean loss.
    """
    import numpy as np

    of = np.column_stack([x, np.ones(len(x))]).astype(np.float64)
    good = y.astype(np.float64)
    aim = np.append(np.full(x.shape[1], prior), 0.0)
    costs = np.append(np.full(x.shape[1], penalty), _WEAK)
    bounds = np.append(np.full(x.shape[1], least), -np.inf)
    found = aim.copy()

    def loss(found: Any) -> float:
        sums = of @ found
        return float(
            (each * (np.logaddexp(0, sums) - good * sums)).mean() + (costs * (found - aim) ** 2).sum() / 2
        )

    for _ in range(_ROUNDS):
        p = 1 / (1 + np.exp(-np.clip(of @ found, -50, 50)))
        slope = of.T @ (each * (p - good)) / len(good) + costs * (found - aim)
        free = (found > bounds) | (slope < 0)
        part = of[:, free]
        curve = (part * (each * p * (1 - p))[:, None]).T @ part / len(good) + np.diag(costs[free])
        step = np.zeros(len(found))
        step[free] = np.linalg.solve(curve, slope[free])
        length, before = 1.0, loss(found)
        while length > _WEAK and loss(np.maximum(found - length * step, bounds)) > before:
            length /= 2
        after = np.maximum(found - length * step, bounds)
        moved = float(np.abs(after - found).max())
        found = after
        if moved < _WEAK:
            break
    return float(found[-1]), found[:-1]
