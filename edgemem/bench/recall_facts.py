"""Facts of our own corpus: which questions find the value that answers, and which find one though none does.

Asked are, among the messages of the same home and all other facts, the questions that ask for a value: what holds, what
held before, and what held at a time. Then, by the floors of the profile: what the floor of a question costs of them, and how
often a fact is found, or stands in the block of a turn, where nothing answers, and where nobody wants anything of a memory.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.bench.bootstrap import interval
from edgemem.bench.facts_told import ASKED_FOR, PREFERENCE, FactsTold
from edgemem.bench.recall_block import READER, Turns
from edgemem.bench.recall_home import IDLE_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from edgemem.bench.facts_told import FactAsked
    from edgemem.bench.recall_home import Filled
    from edgemem.records import Kind, Recalled

CUTS = (1, 5)
_DEPTH = 100
_VALUES: frozenset[Kind] = frozenset(("fact", "preference"))


def fact_figures(here: Filled, told: FactsTold, talk: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Store the facts of the weeks in a home that holds what was said, ask for them, and return what was found.

    Args:
        talk: who says what that needs nothing of a memory.
    """
    now = here.clock.at
    told.store(here.memory)
    here.memory.idle(IDLE_S)
    asked = list(told.asked())
    scores: dict[str, list[list[float]]] = {}
    kept, places = [], []
    for one in asked:
        here.clock.at = max(now, float(one.question.at))
        right = [_of(item) == one.right for item in _found(here, one, kinds=_VALUES)]
        scores.setdefault(one.category, []).append([float(any(right[:cut])) for cut in CUTS])
        if one.category in (*ASKED_FOR, PREFERENCE):
            least = here.memory.profile.injection.min_score
            kept.append(any(_of(item) == one.right for item in _found(here, one, kinds=_VALUES, least=least)))
            there = [_of(item) == one.right for item in _found(here, one, k=_DEPTH)]
            places.append(there.index(True) + 1 if any(there) else _DEPTH + 1)
    here.clock.at = now
    whole = [each[-1] for category in (*ASKED_FOR, PREFERENCE) for each in scores.get(category, [])]
    return {
        category: {"n": len(each)} | {f"found@{cut}": _share(one[n] for one in each) for n, cut in enumerate(CUTS)}
        for category, each in sorted(scores.items())
    } | {
        "at_the_floor": {
            "recall@5": _share(whole),
            "recall@5_min_score": _share(map(float, kept)),
            "cost_recall@5": round(_mean(whole) - _mean(kept), 4),
        },
        "among_all_kinds": {
            "first": _share(float(place == 1) for place in places),
            "among_5": _share(float(place <= CUTS[-1]) for place in places),
            "median_place": median(places) if places else None,
        },
        **_unasked_for(here, told, talk),
    }  # fmt: skip


def _unasked_for(here: Filled, told: FactsTold, talk: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return how often a fact is found, and put into a block, that nobody asks for."""
    turns, keys = Turns(here.memory), [f"{key}: " for key in told.keys]

    def told_in_block(text: str, speaker: str) -> float:
        lines = turns.block(text, speaker).lines()
        return float(any(key in line for line in lines for key in keys))

    def returned(text: str, speaker: str) -> float:
        least = here.memory.profile.injection.min_score
        return float(bool(here.memory.recall(text, speaker=speaker, kinds=_VALUES, min_score=least)))

    sorts = {
        "off_topic": [(one.asker, one.text) for one in told.off_topic()],
        "foreign": [(READER, text) for text in told.foreign()],
    }
    return {
        sort: {
            "n": len(questions),
            "found": _share(returned(text, speaker) for speaker, text in questions),
            "in_block": _share(told_in_block(text, speaker) for speaker, text in questions),
        }
        for sort, questions in sorts.items()
    } | {
        "small_talk": {
            "n": len(talk),
            "in_block": _share(told_in_block(text, speaker) for speaker, text in talk),
        }
    }


def _found(
    here: Filled,
    one: FactAsked,
    *,
    k: int = CUTS[-1],
    kinds: frozenset[Kind] | None = None,
    least: float = 0.0,
) -> list[Recalled]:
    return here.memory.recall(
        one.question.text,
        speaker=one.question.asker,
        k=k,
        kinds=kinds,
        valid_at=one.valid_at,
        min_score=least,
    )


def _of(item: Recalled) -> tuple[str | None, str | None]:
    return item.key, item.value


def _share(values: Iterable[float]) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.structs.asdict(interval(list(values)))
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
