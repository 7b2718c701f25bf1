"""Whom a statement is about, learnt: who says it, somebody else who is named, or neither.

What people say, and what a small model keeps of it, is told by two hands, `statements.toml` and `statements_2.toml`, in five
languages. Each tenth is read by what was learnt on all else, and each hand by what was learnt on the other.
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
OTHERS = Path(__file__).with_name("statements_2.toml")
PARTS = 10
_PENALTY = 0.002  # of half the square of a weight; three times as much or as little finds no more
ABOUT = ("speaker", "other")

Rows = list[tuple[str, dict[str, bool], str]]


def run(*, write: Path | None = None) -> dict[str, Any]:
    """Learn it, and print how often that is right on what was left out.

    Args:
        write: keep what was learnt in this file.
    """
    hands = _read()
    rows = [row for hand in hands for row in hand]
    right: Counter[str] = Counter()
    for part in range(PARTS):
        weights = learnt([[row for n, row in enumerate(hand) if n % PARTS != part] for hand in hands])
        for hand in hands:
            for about, features, kind in hand[part::PARTS]:
                right[kind] += answer(weights, features) == about
    across: Counter[str] = Counter()
    for n, hand in enumerate(hands):
        weights = learnt(hands[:n] + hands[n + 1 :])
        for about, features, kind in hand:
            across[kind] += answer(weights, features) == about
    if write is not None:
        lines = [
            "# Learnt by `make lab ARGS=statements`: log odds of whom a statement is about. See recall/people/names.py."
        ]
        for about, each in learnt(hands).items():
            lines += ["", f"[{about}]", *(f'"{name}" = {weight:.2f}' for name, weight in each.items())]
        write.write_text("\n".join(lines) + "\n", "utf-8")
    counts = Counter(kind for _, _, kind in rows)
    shares = {kind: [round(found[kind] / n, 3) for found in (right, across)] for kind, n in counts.items()}
    return report("statements", {"right, tenths left out and the hand": shares}, {})


def _read() -> list[Rows]:
    said = msgspec.toml.decode(TOLD.read_bytes(), type=dict[str, dict[str, list[list[str]]]])
    first = [
        (about, row, f"{language}, {about}")
        for language, kinds in said.items()
        for about, each in kinds.items()
        for row in each
    ]
    others = msgspec.toml.decode(OTHERS.read_bytes(), type=dict[str, list[dict[str, str]]])["said"]
    second = [
        (
            row["about"],
            [row["text"], row["key"], row["value"]],
            f"{row['language']}, {row['about']}, second hand",
        )
        for row in others
    ]
    return [
        [
            (about, statement_features(text, without_speaker(key), value), kind)
            for about, (text, key, value, *_), kind in hand
        ]
        for hand in (first, second)
    ]


def answer(weights: dict[str, dict[str, float]], features: dict[str, bool]) -> str:
    odds = {about: sum(each[name] for name in each if features[name]) for about, each in weights.items()}
    best = max(odds, key=odds.__getitem__)
    return best if odds[best] > 0 else "household"


def learnt(hands: Sequence[Rows]) -> dict[str, dict[str, float]]:
    """Return the weight of each feature for each of `ABOUT`; each hand weighs as much as another."""
    import numpy as np

    rows = [row for hand in hands for row in hand]
    each = np.array([len(rows) / len(hands) / len(hand) for hand in hands for _ in hand])
    names = [name for name in rows[0][1] if name != "bias"]
    of = np.array([[float(features[name]) for name in names] for _, features, _ in rows])
    found = {}
    for about in ABOUT:
        good = np.array([row[0] == about for row in rows])
        bias, weights = logistic(of, good, each, penalty=_PENALTY, prior=0.0, least=None)
        found[about] = {"bias": bias, **dict(zip(names, weights.tolist(), strict=True))}
    return found
