"""The second pass: a reranker reads the question together with the best candidates, and orders them again.

It says which come first, and never how many: the items that it read get the scores of the first pass in another order, so that
these mean the same, and every bound on them holds. No model is the scale of another, so both opinions, the log odds
of the first pass and the logit of the reranker, are told in their spread over these items, and mixed by a share; a
difference of less than one logit is not blown up. Messages and everything else keep to themselves, since their scores
are made in different ways. An item that is not read in time keeps its place.
"""

from __future__ import annotations

import math
from itertools import chain, zip_longest
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from edgemem.errors import ClosedError, ModelError
from edgemem.recall.rank.selection import name_of
from edgemem.recall.text.analyse import MAX_CHARS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from edgemem.llama.protocols import Reranker
    from edgemem.records import Recalled


_SURE = 1e-9  # a score is no nearer than this to 0 and 1
_LEAST_SPREAD = 1.0


SHARE = 0.5
"""The reranker's part in the order of what it has read."""
MOST = 16
"""Items that the reranker reads at most, the best first: one takes as long as embedding question and text together."""


class SecondPass(NamedTuple):
    """The result of a second pass."""

    groups: list[list[Recalled]]
    read: int = 0
    """The number of items that the reranker read."""
    late: bool = False
    """Whether time was too short for all of them."""
    seconds: float = 0.0
    fault: str = ""
    """The message of the reranker's error; empty: it works."""


def second_pass(
    reranker: Reranker,
    query: str,
    groups: Sequence[Sequence[Recalled]],
    *,
    seconds: float | None = None,
    known: Collection[str] = (),
    stop: Callable[[], bool] | None = None,
) -> SecondPass:
    """Order the items of each group again; without a working reranker they stay as they are.

    Args:
        groups: best first; the best of each are read first.
        seconds: how long it may take; None: the time it needs.
        known: items, as `kind:id`, that are not read, since their order does not matter.
        stop: the pass ends once this returns true.
    """
    begin = monotonic()
    unread = SecondPass([list(group) for group in groups])
    readable = [[item for item in group if name_of(item) not in known] for group in groups]
    first = (item for item in chain.from_iterable(zip_longest(*readable)) if item is not None)
    texts = {name_of(item): item.text for item, _ in zip(first, range(MOST))}  # noqa: B905 - whichever ends
    if len(texts) < 2 or (seconds is not None and seconds <= 0):
        return unread._replace(late=len(texts) > 1)
    try:
        scored = reranker.score(query[-MAX_CHARS:], list(texts.values()), timeout_s=seconds, stop=stop)
    except (ModelError, ClosedError) as error:
        return unread._replace(fault=str(error))  # `check` tells it
    read = {name: logit for name, logit in zip(texts, scored or ()) if math.isfinite(logit)}  # noqa: B905
    return SecondPass(
        [_reordered(group, read) for group in groups],
        len(read),
        len(scored or ()) < len(texts),
        monotonic() - begin,
    )


def _reordered(group: Sequence[Recalled], read: dict[str, float]) -> list[Recalled]:
    """Return a group in its new order: the scores stay in their places, and the items that were read change places."""
    reordered = list(group)
    for turns in (True, False):
        places = [
            place
            for place, item in enumerate(group)
            if name_of(item) in read and (item.kind == "turn") is turns
        ]
        some = [group[place] for place in places]
        if len(some) < 2:
            continue
        before = _spread([_log_odds(item.score) for item in some])
        after = _spread([read[name_of(item)] for item in some])
        mixed = [(1 - SHARE) * odds + SHARE * logit for odds, logit in zip(before, after, strict=True)]
        order = sorted(range(len(some)), key=mixed.__getitem__, reverse=True)
        for rank, (place, at) in enumerate(zip(places, order, strict=True)):
            why = some[at].why
            if after[at] > 0:
                why = ("reranker", *why) if rank < at else (*why, "reranker")
            reordered[place] = msgspec.structs.replace(some[at], score=group[place].score, why=why)
    return reordered


def _log_odds(score: float) -> float:
    score = min(max(score, _SURE), 1 - _SURE)
    return math.log(score / (1 - score))


def _spread(values: Sequence[float]) -> list[float]:
    """Return how far each value is from their mean, in standard deviations."""
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return [(value - mean) / max(deviation, _LEAST_SPREAD) for value in values]
