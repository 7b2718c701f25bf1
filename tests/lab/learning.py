"""Learning weights: a linear model that puts the right candidates of each question first, and what its sums mean.

The loss is that of ListNet (Z. Cao et al., "Learning to Rank: From Pairwise Approach to Listwise Approach", 2007), with a
penalty on large weights; a feature that can only speak for or against a candidate keeps its sign. Sums become
probabilities as J. Platt's ("Probabilistic outputs for support vector machines", 1999).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.recall.search.features import FEATURES
from edgemem.recall.search.models import LinearModel

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.search.models import Candidates

    Matrix = NDArray[np.float32]
    Truth = NDArray[np.bool_]
    Wide = NDArray[np.float64]

MEANING = frozenset(
    {"meaning", "meaning_share", "session_meaning", "about_meaning", "fact_meaning", "tokens"}
)
"""Features that a question without a vector does not have."""
AGAINST = frozenset({"asks", "supposes"})
"""What speaks against a candidate; all else speaks for it."""
FIRST = 5  # messages of each question that a calibration looks at: what stands behind them is seldom told
_WEAK = 1e-6  # what the squares of coefficients cost, beside the mean loss
_ENOUGH = {"maxiter": 10_000, "maxfun": 10_000, "ftol": 1e-14, "gtol": 1e-8}


class Asked(NamedTuple):
    category: str
    candidates: Candidates
    right: Truth
    evidence: int  # how many answer it, whether they are candidates or not
    others: Truth | None = None  # which of them tell another version of the same; None: none


def by_words(asked: Iterable[Asked]) -> list[Asked]:
    """Return the same questions, asked without a vector."""
    import numpy as np

    words = np.array([name not in MEANING for name in FEATURES], np.float32)
    return [
        one._replace(candidates=one.candidates._replace(features=one.candidates.features * words))
        for one in asked
    ]


def learnt(asked: Sequence[Asked], *, l2: float, without: Collection[str] = ()) -> dict[str, float]:
    """Return weights by feature, as `weights_of` does; those that are 0 are left out."""
    features, right = [one.candidates.features for one in asked], [one.right for one in asked]
    return weights_of(features, right, list(FEATURES), l2=l2, without=without)


def weights_of(
    features: Sequence[Matrix],
    right: Sequence[NDArray[Any]],
    names: list[str],
    *,
    l2: float,
    without: Collection[str] = (),
) -> dict[str, float]:
    """Return weights by name; those that are 0 are left out.

    Args:
        features: of the candidates of each question, `float32[n, len(names)]`.
        right: which of them answer it; questions without any teach nothing.
        l2: half of it times the square of each weight, by the feature's standard deviation, is the penalty.
        without: features that are not used.
    """
    import numpy as np
    from scipy.optimize import minimize

    some = [(x, y) for x, y in zip(features, right, strict=True) if y.any()]
    x = np.concatenate([x for x, _ in some]).astype(np.float64)
    target = np.concatenate([y / y.sum() for _, y in some])
    starts = np.cumsum([0, *(len(x) for x, _ in some)])[:-1]
    group = np.repeat(np.arange(len(some)), [len(x) for x, _ in some])
    spread = x.std(axis=0) + 1e-6
    x = (x - x.mean(axis=0)) / spread

    def loss(weights: Any) -> tuple[float, Any]:
        sums = x @ weights
        top = np.maximum.reduceat(sums, starts)
        shares = np.exp(sums - top[group])
        total = np.add.reduceat(shares, starts)
        value = float((np.log(total) + top).sum() - (target * sums).sum()) / len(some)
        slope = x.T @ (shares / total[group] - target) / len(some) + l2 * weights
        return value + l2 / 2 * float(weights @ weights), slope

    bounds = [(0, 0) if n in without else (None, 0) if n in AGAINST else (0, None) for n in names]
    weights = minimize(
        loss, np.zeros(len(names)), jac=True, bounds=bounds, method="L-BFGS-B", options=_ENOUGH
    ).x
    return {name: float(weight) for name, weight in zip(names, weights / spread, strict=True) if weight != 0}


def calibrated(weights: dict[str, float], asked: Sequence[Asked]) -> LinearModel:
    """Return the model that knows how likely its first candidates are right; each question has at least one."""
    import numpy as np

    bare = LinearModel(0.0, weights)
    sums = [bare.odds(one.candidates.features) for one in asked]
    first = [np.argsort(-own, kind="stable")[:FIRST] for own in sums]
    of = np.concatenate([own[best] for own, best in zip(sums, first, strict=True)])
    good = np.concatenate([one.right[best] for one, best in zip(asked, first, strict=True)])
    # A weak prior at 1 keeps the scale finite where a line parts right from wrong.
    bias, (scale,) = logistic(of[:, None], good, np.ones(len(of)), penalty=_WEAK, prior=1.0)
    return LinearModel(bias, {name: float(scale * weight) for name, weight in weights.items()})


def logistic(
    x: Wide, y: Truth | Wide, each: Wide, *, penalty: float, prior: float, least: float | None = 0.0
) -> tuple[float, Wide]:
    """Return the bias and the coefficients of a logistic regression.

    Args:
        y: whether each row is one of those that are told apart, or how likely.
        each: how much each row weighs.
        least: the smallest coefficient; None: any.
        penalty: half of it times the square of a coefficient's distance from `prior`, and of the bias, is added to the mean loss.
    """
    import numpy as np
    from scipy.optimize import minimize
    from scipy.special import expit

    of = np.column_stack([x, np.ones(len(x))]).astype(np.float64)
    good = y.astype(np.float64)
    aim = np.append(np.full(x.shape[1], prior), 0.0)
    costs = np.append(np.full(x.shape[1], penalty), _WEAK)
    bounds = [(least, None)] * x.shape[1] + [(None, None)]

    def loss(weights: Any) -> tuple[float, Any]:
        sums, off = of @ weights, weights - aim
        value = float((each * (np.logaddexp(0, sums) - good * sums)).mean() + (costs * off**2).sum() / 2)
        return value, of.T @ (each * (expit(sums) - good)) / len(good) + costs * off

    weights = minimize(loss, aim, jac=True, bounds=bounds, method="L-BFGS-B", options=_ENOUGH).x
    return float(weights[-1]), weights[:-1]
