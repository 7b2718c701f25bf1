"""Whom a statement is about, learnt: who says it, somebody else who is named, or neither.

What people say, and what a small model keeps of it, is told by three hands, `statements.toml` and so on, in five languages. Each
tenth is read by what was learnt on all else, and each hand by what was learnt on the others.
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
    from collections.abc import Mapping

HANDS = {"statements": 1.0, "statements_2": 1.0, "statements_3": 0.3}
"""Hands with their weights. The third tells hard cases alone: where it weighs as much as the others, 15 in 100 of their household
statements are split, at 0.3 12, without it 8, and those of people meet less; what may be one's own from log odds of -0.4 on, 8."""
PARTS = 10
_PENALTY = 0.002  # of half the square of a weight; three times as much or as little finds no more
ABOUT = ("speaker", "other")

Rows = list[tuple[str, dict[str, bool], str]]


def run(*, write: Path | None = None) -> dict[str, Any]:
    """Learn it, and print how often that is right on what was left out: each tenth, and each hand.

    Args:
        write: keep what was learnt in this file.
    """
    hands = {hand: _rows(hand) for hand in HANDS}
    tenths, across = Counter[str](), Counter[str]()
    for part in range(PARTS):
        rest = {
            hand: [row for n, row in enumerate(rows) if n % PARTS != part] for hand, rows in hands.items()
        }
        tenths += _right(learnt(rest), [row for rows in hands.values() for row in rows[part::PARTS]])
    for hand, rows in hands.items():
        across += _right(learnt({other: hands[other] for other in hands if other != hand}), rows)
    if write is not None:
        lines = [
            "# Learnt by `make lab ARGS=statements`: log odds of whom a statement is about. See recall/people/names.py."
        ]
        for about, each in learnt(hands).items():
            lines += ["", f"[{about}]", *(f'"{name}" = {weight:.2f}' for name, weight in each.items())]
        write.write_text("\n".join(lines) + "\n", "utf-8")
    counts = Counter(kind for rows in hands.values() for _, _, kind in rows)
    shares = {kind: [round(found[kind] / n, 3) for found in (tenths, across)] for kind, n in counts.items()}
    return report("statements", {"right, of tenths and of hands": shares}, {})


def _rows(hand: str) -> Rows:
    file = Path(__file__).with_name(f"{hand}.toml")
    said = msgspec.toml.decode(file.read_bytes(), type=dict[str, dict[str, list[list[str]]]])
    return [
        (about, statement_features(text, without_speaker(key), value), f"{hand}, {language}, {about}")
        for language, kinds in said.items()
        for about, each in kinds.items()
        for text, key, value, *_ in each
    ]


def _right(weights: dict[str, dict[str, float]], rows: Rows) -> Counter[str]:
    return Counter(kind for about, features, kind in rows if answer(weights, features) == about)


def answer(weights: dict[str, dict[str, float]], features: dict[str, bool]) -> str:
    odds = {about: sum(each[name] for name in each if features[name]) for about, each in weights.items()}
    best = max(odds, key=odds.__getitem__)
    return best if odds[best] > 0 else "household"


def learnt(hands: Mapping[str, Rows]) -> dict[str, dict[str, float]]:
    """Return the weight of each feature for each of `ABOUT`, of hands that weigh as `HANDS` says, however many rows they have."""
    import numpy as np

    rows = [row for hand in hands.values() for row in hand]
    share = len(rows) / sum(HANDS[hand] for hand in hands)
    each = np.array([HANDS[hand] * share / len(hands[hand]) for hand in hands for _ in hands[hand]])
    names = [name for name in rows[0][1] if name != "bias"]
    of = np.array([[float(features[name]) for name in names] for _, features, _ in rows])
    found = {}
    for about in ABOUT:
        good = np.array([row[0] == about for row in rows])
        bias, weights = logistic(of, good, each, penalty=_PENALTY, prior=0.0, least=None)
        found[about] = {"bias": bias, **dict(zip(names, weights.tolist(), strict=True))}
    return found
