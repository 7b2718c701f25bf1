"""Scores: how much of what answers a question stands among the first that were found.

LongMemEval's are as its own scorer defines them: a session counts or does not, the gain of the second place is divided by
log2(2), which is 1, so that the first two places weigh the same, and the ideal is taken over all sessions of the haystack.
"""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

CUTS = (5, 10, 20)
SESSIONS = 5
"""Sessions that are looked at, as `Memory.recall_sessions` ranks them: by the noisy or of their messages."""


def recall_at(found: Sequence[str], evidence: Collection[str], k: int) -> float:
    """Return the share of the evidence among the first k."""
    return len(set(evidence).intersection(found[:k])) / len(set(evidence))


def reciprocal_rank(found: Sequence[str], evidence: Collection[str]) -> float:
    """Return 1 over the place of the first evidence; 0 if none was found."""
    return next((1.0 / place for place, one in enumerate(found, 1) if one in evidence), 0.0)


def turn_scores(
    found: Sequence[str],
    sessions: Sequence[str],
    *,
    evidence: Collection[str],
    right: Collection[str],
) -> dict[str, float]:
    """Return the scores of one question by messages.

    Args:
        found: messages, best first.
        sessions: sessions, best first, each once.
        evidence: the messages that answer.
        right: the sessions that do.
    """
    return {
        **{f"recall@{k}": recall_at(found, evidence, k) for k in CUTS},
        f"session_recall@{SESSIONS}": recall_at(sessions, right, SESSIONS),
        "mrr": reciprocal_rank(found, evidence),
    }


def session_scores(ranked: Sequence[str], right: Collection[str], *, of: int) -> dict[str, float]:
    """Return LongMemEval's official scores of one question, and the reciprocal rank.

    Args:
        ranked: sessions, best first, each once.
        right: the sessions that answer.
        of: how many sessions the haystack has.
    """
    scores: dict[str, float] = {}
    for k in (5, 10):
        first = set(ranked[:k])
        scores[f"recall_all@{k}"] = float(first.issuperset(right))
        scores[f"recall_any@{k}"] = float(not first.isdisjoint(right))
        scores[f"ndcg_any@{k}"] = ndcg([float(one in right) for one in ranked], len(set(right)), k, of=of)
    scores["mrr"] = reciprocal_rank(ranked, right)
    return scores


def ndcg(gains: Sequence[float], right: int, k: int, *, of: int) -> float:
    """Return the discounted gain of the first k places over the best one possible.

    Args:
        right: how many of all are right.
        of: how many there are in all.
    """
    ideal = _dcg([1.0] * min(right, of), k)
    return _dcg(gains, k) / ideal if ideal else 0.0


def _dcg(gains: Sequence[float], k: int) -> float:
    # The scorer's own: places 1 and 2 count in full.
    return sum(gain / log2(max(2, place)) for place, gain in enumerate(gains[:k], 1))


def in_order(names: Sequence[str]) -> list[str]:
    """Return names as they come first."""
    return list(dict.fromkeys(names))
