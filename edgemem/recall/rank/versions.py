"""Then: which version of a fact is meant by a question that names a time: "what was the code in March?".

The date chooses among the versions of one thing and leaves everything else alone: "what did I say on Monday?" asks for what
was said, and a fact that was told later may speak of that Monday all the same. A `valid_at` that is given says more,
and then nobody asks here.
"""

from __future__ import annotations

from collections import defaultdict
from math import inf, nextafter
from typing import TYPE_CHECKING

from edgemem.recall.index.sources import FACT
from edgemem.store.fact_queries import held_within, keys_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from edgemem.recall.rank.ranking import Ranking
    from edgemem.records import Reader
    from edgemem.store.db.database import Database
    from edgemem.store.fact_queries import HeldWithin

    Times = Sequence[tuple[float, float]]


_ALSO, _NOW, _OTHER = 0.97, 0.95, 0.7
"""What is left of the score of a thing's versions that are not meant first: of what held then as well, of what holds now,
which is often told, too, and of what neither holds nor held then."""
_LEAST_SHARE = 0.05  # of the time that is asked for: a value that came in its last hours did not hold then
_AS_LONG, _FOR_LONG = 0.8, 0.2
"""Of the time for which the one held that held longest: what is as good, and what is worth telling as well."""
_MOST_MORE = 3


def choose_versions(
    ranking: Ranking, truth: Database, times: Times, *, reader: Reader | None, now: float, others: bool
) -> None:
    """Put the values of a thing that held in some times before its other ones.

    They need not be candidates: of a thing that was set three thousand times the words find any, and hardly the one that
    is meant. Whatever thing is found, what held then and what holds now joins, as far as the reader may read it.

    Args:
        now: seconds since the epoch.
        others: whether values that held neither then nor hold now are wanted, too.
    """
    rows = {int(ranking.refs[row]): int(row) for row in (ranking.kinds == FACT).nonzero()[0]}
    said: dict[int, list[int]] = defaultdict(list)
    for ref, thing in keys_of(truth, list(rows)).items():
        said[thing].append(ref)
    held: dict[tuple[int, int], list[HeldWithin]] = defaultdict(list)
    for one in held_within(truth, said, [*times, (now, nextafter(now, inf))], reader=reader):
        held[one.key, one.time].append(one)
    old, scores = ranking.scores, {}
    joining: dict[int, int] = {}
    for thing, refs in said.items():
        best = max(refs, key=lambda ref: old[rows[ref]])
        present = {one.origin for one in held[thing, len(times)]}
        meant: dict[int, float] = {}
        for n, (begin, end) in enumerate(times):
            for ref, worth in values_meant(held[thing, n], end - begin).items():
                meant[ref] = max(worth, meant.get(ref, 0.0))
        for ref in {*refs, *meant, *present}:
            if ref not in rows:
                joining[ref] = rows[best]
            if ref in meant:
                scores[ref] = meant[ref] * old[rows[best]]
            elif ref in present or others:
                left = 1.0 if not meant else _NOW if ref in present else _OTHER
                scores[ref] = left * old[rows.get(ref, rows[best])]
            else:
                scores[ref] = -1.0  # it was looked at only because it might have held then
    ranking.join(list(joining), list(joining.values()))
    rows |= {ref: len(old) + n for n, ref in enumerate(joining)}
    new = ranking.scores.copy()
    new[[rows[ref] for ref in scores]] = list(scores.values())
    ranking.rescore(new)


def values_meant(held: Collection[HeldWithin], length: float) -> dict[int, float]:
    """Return what a question for some time means of a thing, by what was said, and what of its score each keeps.

    Args:
        held: its values within that time.
        length: of that time, in seconds.
    """
    if sum(one.seconds for one in held) < _LEAST_SHARE * length:
        return {}
    longest = max(one.seconds for one in held)
    # Of two that held about equally long the later one counts: on the day of a change, the new value was told.
    first = max((one for one in held if one.seconds >= _AS_LONG * longest), key=lambda one: one.origin)
    more = [one for one in held if one.seconds >= _FOR_LONG * longest and one is not first]
    more.sort(key=lambda one: (-one.seconds, -one.origin))
    return {first.origin: 1.0, **dict.fromkeys((one.origin for one in more[:_MOST_MORE]), _ALSO)}
