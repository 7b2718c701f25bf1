"""The versions of a fact, among which a question that names a time chooses: "what was the code in March?".

The time chooses among the versions of one key and changes no other candidate: "what did I say on Monday?" asks for messages,
and a fact of a later day may speak of that Monday too. Where the caller gives `valid_at`, nothing is chosen here.
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
    """Rank the values of each key that held at some times before its other values.

    They need not be candidates: of a key that was set three thousand times the words find any values, and hardly the one that
    is meant. So the values of then and of now join the candidates of each key, as far as the reader may read them.

    Args:
        now: seconds since the epoch.
        others: whether values that neither held then nor hold now stay candidates.
    """
    rows = {int(ranking.refs[row]): int(row) for row in (ranking.kinds == FACT).nonzero()[0]}
    by_thing: dict[int, list[int]] = defaultdict(list)
    for ref, thing in keys_of(truth, list(rows)).items():
        by_thing[thing].append(ref)
    held: dict[tuple[int, int], list[HeldWithin]] = defaultdict(list)
    for value in held_within(truth, by_thing, [*times, (now, nextafter(now, inf))], reader=reader):
        held[value.key, value.time].append(value)
    old, scores = ranking.scores, {}
    joining: dict[int, int] = {}
    for thing, refs in by_thing.items():
        best = max(refs, key=lambda ref: old[rows[ref]])
        present = {value.origin for value in held[thing, len(times)]}
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
    """Return the values of a key that a question for some time means, by their origin, with the share of the score that each keeps.

    Args:
        held: the values of the key within that time.
        length: of that time, in seconds.
    """
    if sum(value.seconds for value in held) < _LEAST_SHARE * length:
        return {}
    longest = max(value.seconds for value in held)
    # Of two that held about equally long the later one counts: on the day of a change, the new value was told.
    first = max(
        (value for value in held if value.seconds >= _AS_LONG * longest), key=lambda value: value.origin
    )
    more = [value for value in held if value.seconds >= _FOR_LONG * longest and value is not first]
    more.sort(key=lambda value: (-value.seconds, -value.origin))
    return {first.origin: 1.0, **dict.fromkeys((value.origin for value in more[:_MOST_MORE]), _ALSO)}
