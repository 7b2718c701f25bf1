"""Whom a statement is about, learnt: who says it, somebody else who is named, or neither.

What people say, and the keys that a small model keeps it under, stand in `statements.toml`, in five languages. Each tenth is read
by what was learnt on all else.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.bench.ground import report
from edgemem.recall.people.names import statement_features, without_speaker
from lab.learning import logistic

if TYPE_CHECKING:
    from collections.abc import Sequence

TOLD = Path(__file__).with_name("statements.toml")
PARTS = 10
_PENALTY = 0.002  # of half the square of a weight; three times as much or as little finds no more
ABOUT = ("speaker", "other")


def run(*, write: Path | None = None) -> dict[str, Any]:
    """Learn it, and print how often that is right on what was left out.

    Args:
        write: keep what was learnt in this file.
    """
    said = msgspec.toml.decode(TOLD.read_bytes(), type=dict[str, dict[str, list[list[str]]]])
    rows = [
        (about, statement_features(text, without_speaker(key)), f"{language}, {about}")
        for language, kinds in said.items()
        for about, each in kinds.items()
        for text, key, *_ in each
    ]
    right: Counter[str] = Counter()
    for part in range(PARTS):
        weights = learnt([row for n, row in enumerate(rows) if n % PARTS != part])
        for about, features, kind in rows[part::PARTS]:
            right[kind] += answer(weights, features) == about
    if write is not None:
        lines = [
            "# Learnt by `make lab ARGS=statements`: log odds of whom a statement is about. See recall/people/names.py."
        ]
        for about, each in learnt(rows).items():
            lines += ["", f"[{about}]", *(f'"{name}" = {weight:.2f}' for name, weight in each.items())]
        write.write_text("\n".join(lines) + "\n", "utf-8")
    counts = Counter(kind for _, _, kind in rows)
    return report(
        "statements", {"right": {kind: round(right[kind] / n, 3) for kind, n in counts.items()}}, {}
    )


def answer(weights: dict[str, dict[str, float]], features: dict[str, bool]) -> str:
    odds = {about: sum(each[name] for name in each if features[name]) for about, each in weights.items()}
    best = max(odds, key=odds.__getitem__)
    return best if odds[best] > 0 else "household"


def learnt(rows: Sequence[tuple[str, dict[str, bool], str]]) -> dict[str, dict[str, float]]:
    """Return the weight of each feature for each of `ABOUT`."""
    import numpy as np

    names = [name for name in rows[0][1] if name != "bias"]
    of = np.array([[float(features[name]) for name in names] for _, features, _ in rows])
    found = {}
    for about in ABOUT:
        good = np.array([row[0] == about for row in rows])
        bias, weights = logistic(of, good, np.ones(len(rows)), penalty=_PENALTY, prior=0.0, least=None)
        found[about] = {"bias": bias, **dict(zip(names, weights.tolist(), strict=True))}
    return found
