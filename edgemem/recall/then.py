"""Then: which version of a fact is meant by a question that names a time: "what was the code in March?".

The date chooses among the versions of one thing and leaves everything else alone: "what did I say on Monday?" asks for what
was said, and a fact that was told later may speak of that Monday all the same. A `valid_at` that is given says more,
and then nobody asks here.
"""

from __future__ import annotations

from collections import defaultdict
from math import inf, nextafter
from typing import TYPE_CHECKING

from edgemem.recall.date_ranges import EVER
from edgemem.recall.dates import MAX_CHARS, times_in
from edgemem.recall.sources import FACT
from edgemem.recall.traits import zone_at
from edgemem.store.beliefs import held_within, keys_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from edgemem.recall.scoring import Ranking
    from edgemem.store.database import Database

    Times = Sequence[tuple[float, float]]

_SURE = 0.5  # a time that is less sure than this is one of several readings
_NOW, _OTHER = 0.95, 0.7
"""What is left of the score of a thing's versions that are not meant: of what holds now, which is often told as well,
and of what neither holds nor held then."""
_DAY_S = 86400.0
_LEAST_SHARE = 0.05  # of the time that is asked for: a value that came in its last hours did not hold then


def past_times(query: str, now: float) -> list[tuple[float, float]]:
    """Return begin and end of the times that a question speaks of, where they are over; the likeliest reading of each."""
    likeliest = {span.said: span for span in reversed(times_in(query[-MAX_CHARS:], now, zone_at(now)))}
    over = [span for span in likeliest.values() if span.sure >= _SURE and span.end <= now]
    # Of all that was before a day, what held last.
    return sorted((span.end - _DAY_S if span.begin == EVER else span.begin, span.end) for span in over)


def choose_versions(ranking: Ranking, truth: Database, times: Times, *, others: bool) -> None:
    """Put the version of a thing that held longest in some times before its other ones.

    Args:
        others: whether values that hold neither then nor now are wanted, too.
    """
    rows = {int(ranking.refs[row]): int(row) for row in (ranking.kinds == FACT).nonzero()[0]}
    things = keys_of(truth, list(rows))
    keys, now = set(things.values()), truth.clock.now()
    held: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for ref, since, to in (each for begin, end in times for each in held_within(truth, keys, begin, end)):
        held[ref].append((since, to))
    present = {ref for ref, _, _ in held_within(truth, keys, now, nextafter(now, inf))}
    by_thing: dict[int, list[int]] = defaultdict(list)
    for ref, thing in things.items():
        by_thing[thing].append(ref)
    scores = ranking.scores.copy()
    for refs in by_thing.values():
        shares = {ref: share_of(set(held[ref]), times) for ref in refs}
        # Of two that held equally long the later one counts: on the day of a change, the new value was told.
        meant = max(refs, key=lambda ref: (round(shares[ref], 1), ref))
        found = shares[meant] >= _LEAST_SHARE
        best = max(scores[rows[ref]] for ref in refs)
        for ref in refs:
            if found and ref == meant:
                scores[rows[ref]] = best
            elif not others and ref not in present:
                scores[rows[ref]] = -1.0  # it was looked at only because it might have held then
            elif found:
                scores[rows[ref]] *= _NOW if ref in present else _OTHER
    ranking.rescore(scores)


def share_of(intervals: Iterable[tuple[float, float]], times: Times) -> float:
    """Return in which share of some times something held, 0 to 1."""
    whole = sum(end - begin for begin, end in times)
    common = sum(
        max(0.0, min(to, end) - max(since, begin)) for since, to in intervals for begin, end in times
    )
    return min(1.0, common / whole) if whole > 0 else 0.0
