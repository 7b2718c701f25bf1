"""Learning weights: a linear model that puts the right candidates of each question first.

The weights maximise the logarithm of the share that softmax gives to the right candidates of each question (ListNet of
Z. Cao et al., "Learning to Rank: From Pairwise Approach to Listwise Approach", 2007), with a penalty on large weights, by
Newton's method. A signal that can only speak for a candidate, or against it, keeps its sign: without that, weights learnt
on our household carry over to other talk worse (recall@5 on LoCoMo .016 to .03 lower).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.recall.signals import SIGNALS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.linear import Messages

    Matrix = NDArray[np.float32]

REPLACED = "replaced"
"""That a message was replaced at all, by whichever; it may speak for that or against it."""
AGAINST = frozenset({"asks", "old_length", "new_length"})
"""What speaks against a candidate; all else speaks for it."""
_ROUNDS = 60


def learnt(
    asked: Sequence[Messages], right: Sequence[NDArray[Any]], *, l2: float, without: Collection[str] = ()
) -> dict[str, float]:
    """Return weights by signal; those that are 0 are left out.

    Args:
        asked: the candidates of each question.
        right: which of them answer it; questions without any teach nothing.
        l2: half of it times the square of each weight, by the signal's standard deviation, is the penalty.
        without: signals that are not used.
    """
    return weights_of([one.signals for one in asked], right, list(SIGNALS), l2=l2, without=without)


def weights_of(
    signals: Sequence[Matrix],
    right: Sequence[NDArray[Any]],
    names: list[str],
    *,
    l2: float,
    without: Collection[str] = (),
) -> dict[str, float]:
    """Return weights by name; those that are 0 are left out.

    Args:
        signals: of the candidates of each question, `float32[n, len(names)]`.
        right: which of them answer it; questions without any teach nothing.
        l2: half of it times the square of each weight, by the signal's standard deviation, is the penalty.
        without: signals that are not used.
    """
    import numpy as np

    some = [(x, y) for x, y in zip(signals, right, strict=True) if y.any()]
    x = np.concatenate([x for x, _ in some]).astype(np.float64)
    target = np.concatenate([y / y.sum() for _, y in some])
    starts = np.cumsum([0, *(len(x) for x, _ in some)])[:-1]
    group = np.repeat(np.arange(len(some)), [len(x) for x, _ in some])
    spread = x.std(axis=0) + 1e-6
    x = (x - x.mean(axis=0)) / spread
    sign = np.array([0 if n == REPLACED else -1 if n in AGAINST else 1 for n in names])
    used = np.array([name not in without for name in names])
    weights = np.zeros(len(names))

    def loss(weights: Any) -> tuple[float, Any]:
        sums = x @ weights
        top = np.maximum.reduceat(sums, starts)
        shares = np.exp(sums - top[group])
        total = np.add.reduceat(shares, starts)
        value = float((np.log(total) + top).sum() - (target * sums).sum()) / len(some)
        return value + l2 / 2 * float(weights @ weights), shares / total[group]

    value, shares = loss(weights)
    for _ in range(_ROUNDS):
        slope = x.T @ (shares - target) / len(some) + l2 * weights
        free = used & ~((weights == 0) & (sign != 0) & (slope * sign > 0))
        if not free.any():
            break
        part = x[:, free]
        means = np.add.reduceat(part * shares[:, None], starts, axis=0)
        curve = ((part * shares[:, None]).T @ part - means.T @ means) / len(some)
        step = np.zeros(len(names))
        step[free] = np.linalg.solve(curve + l2 * np.eye(int(free.sum())), slope[free])
        before = value
        length = 1.0
        while length > 1e-4:
            tried = weights - length * step
            tried = np.where(tried * sign < 0, 0.0, tried)
            value, shares = loss(tried)
            if value <= before:
                weights = tried
                break
            length /= 2
        else:
            break
        if before - value < 1e-8:
            break
    return {name: float(weight) for name, weight in zip(names, weights / spread, strict=True) if weight != 0}
