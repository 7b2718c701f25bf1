"""How sure a mean over questions is: bootstrap intervals from a seed, and two runs, kept in files, compared question by question."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from edgemem.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    Scores = Mapping[str, Mapping[str, float]]  # of each question, by name

TIMES = 2000
"""Samples of a bootstrap; an interval of 760 questions moves by less than .002 from seed to seed."""

FLIPS = 10_000  # random exchanges of a permutation test


class Interval(msgspec.Struct, frozen=True):
    """A mean with the range that holds it in 95 of 100 draws of as many questions."""

    mean: float
    low: float
    high: float
    n: int


class Paired(msgspec.Struct, frozen=True):
    """How far a run is above another on the same questions."""

    difference: float
    low: float
    high: float
    p: float  # of a permutation test: how often chance alone would part the two runs so far
    better: int
    worse: int
    sign_p: float  # of a sign test, which counts questions and not by how much they differ
    n: int


def interval(values: Sequence[float], *, seed: int = 1) -> Interval:
    """Return the mean of some values with its 95 % interval."""
    import numpy as np
    from scipy.stats import bootstrap

    if len(values) == 0:
        return Interval(0.0, 0.0, 0.0, 0)
    mean = _round(float(np.mean(values)))
    if np.ptp(values) == 0:
        return Interval(mean, mean, mean, len(values))
    drawn = bootstrap(
        (np.asarray(values, np.float64),),
        np.mean,
        n_resamples=TIMES,
        method="percentile",
        random_state=np.random.default_rng(seed),
    ).confidence_interval
    return Interval(mean, _round(drawn.low), _round(drawn.high), len(values))


def paired(before: Sequence[float], after: Sequence[float], *, seed: int = 1) -> Paired:
    """Return how far `after` is above `before`, value by value."""
    import numpy as np
    from scipy.stats import binomtest

    gains = np.asarray(after, np.float64) - np.asarray(before, np.float64)
    mean = interval(gains.tolist(), seed=seed)
    better, worse = int((gains > 0).sum()), int((gains < 0).sum())
    if better + worse == 0:
        return Paired(0.0, 0.0, 0.0, 1.0, 0, 0, 1.0, len(gains))
    # By hand: scipy's permutation test overflows from some hundred questions on. A batch at a time, for memory's sake.
    apart = gains[gains != 0]
    rng, as_far = np.random.default_rng(seed), 1
    for _ in range(0, FLIPS, 500):
        signs = rng.integers(0, 2, (500, len(apart))) * 2 - 1
        as_far += int((np.abs(signs @ apart) >= abs(apart.sum()) - 1e-9).sum())
    sign = binomtest(better, better + worse).pvalue
    return Paired(
        mean.mean, mean.low, mean.high, _round(as_far / (FLIPS + 1)), better, worse, _round(sign), len(gains)
    )


def write_scores(path: Path, scores: Scores) -> None:
    path.write_bytes(msgspec.json.encode(scores))


def read_scores(path: Path) -> dict[str, dict[str, float]]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, float]])
    except (OSError, msgspec.MsgspecError) as error:
        raise InvalidInputError(
            f"{path} holds no scores of another run ({error}); give what a run wrote."
        ) from error


def gains(before: Scores, after: Scores) -> dict[str, Paired]:
    """Return how far a run is above another, score by score, on the questions that both have."""
    both = [name for name in after if name in before]
    if not both:
        raise InvalidInputError("The two runs have no question in common; compare runs of the same corpus.")
    out = {}
    for score in dict.fromkeys(score for name in both for score in after[name]):
        pairs = [(before[name][score], after[name][score]) for name in both
                 if score in before[name] and score in after[name]]  # fmt: skip
        if pairs:
            out[score] = paired(*zip(*pairs, strict=True))
    return out


def _round(value: float) -> float:
    return round(float(value), 4)
