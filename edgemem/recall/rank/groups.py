"""Groups: the best of each group of kinds, read from the truth until there are enough; echoes stand behind them, copies count once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from edgemem.languages.words import comes_up_with
from edgemem.recall.index.sources import KINDS
from edgemem.recall.rank.rerank import name_of
from edgemem.store.episodes import spell_out

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from edgemem.recall.rank.echoes import Echoes
    from edgemem.recall.rank.ranking import Hit, Ranking
    from edgemem.records import Kind, Recalled

    Ref = tuple[int, int]
    """A kind, and an id of that kind."""


SAFETY = 2
"""Facts at most that are found because they concern somebody's safety, and in no word of the question: a household has many."""
_LEAST, _MORE = 10, 4
"""How many items are looked at for echoes and copies at least, and how many times as many where too few of them may be told."""


class Rows:
    """What one recall reads from the truth, each row once, however many groups ask for it.

    Args:
        fetch: reads rows; what is gone, or closed to the reader, is not among what it returns.
    """

    def __init__(self, fetch: Callable[[Sequence[Ref]], dict[Ref, Recalled]]) -> None:
        self._fetch = fetch
        self._read: dict[Ref, Recalled | None] = {}

    def of(self, refs: Sequence[Ref]) -> dict[Ref, Recalled]:
        """Return what there is of some rows."""
        new = [ref for ref in refs if ref not in self._read]
        if new:
            found = self._fetch(new)
            self._read.update((ref, found.get(ref)) for ref in new)
        return {ref: item for ref in refs if (item := self._read[ref]) is not None}


class Wanted(NamedTuple):
    """Which items of a group are wanted."""

    k: int
    """So many, besides those that are known."""
    echoes: Echoes | None
    """Which messages only ask the same once more; None: these and copies are wanted like any other."""
    least: float = 0.0
    """The score that they reach."""
    exclude: frozenset[str] = frozenset()
    """Items to leave out, as `kind:id`."""
    known: Collection[str] = ()
    """Items that take nobody's place."""
    safety_keys: Mapping[str, str] = {}
    """Further words of keys that concern somebody's safety, each with its kind."""

    def concerns_safety(self, item: Recalled) -> bool:
        """Tell whether an item is a fact that concerns somebody's safety."""
        if item.kind not in ("fact", "preference") or item.key is None:
            return False
        return bool(comes_up_with(spell_out(item.key), self.safety_keys))


def best_of_groups(
    ranking: Ranking, groups: Sequence[Iterable[Kind]], rows: Rows, wanted: Wanted
) -> list[list[Recalled]]:
    """Return the best items of each group; that with messages is looked at first, since an echo has no say in any score."""
    chosen = [frozenset(group) for group in groups]
    found = {
        group: _best_of_group(ranking, group, rows, wanted)
        for group in sorted(set(chosen), key=lambda group: "turn" not in group)
    }
    return [found[group] for group in chosen]


def _best_of_group(ranking: Ranking, chosen: frozenset[Kind], rows: Rows, wanted: Wanted) -> list[Recalled]:
    """Return the best items of some kinds; echoes and older copies have no say in the scores of the rest."""
    numbers = [number for number, kind in KINDS.items() if kind in chosen]
    echoing = wanted.echoes if "turn" in chosen else None
    far = wanted.k if echoing is None else max(wanted.k, _LEAST)
    while True:
        hits = ranking.best(numbers, least=wanted.least)
        if wanted.exclude:
            hits = (hit for hit in hits if hit.name not in wanted.exclude)
        found = _read(hits, rows, far, wanted.known)
        echoes, copies = [], []
        if echoing is not None:
            echoes = _refs(echoing.among(item for hit, item in found if hit.score > 0))
            copies = _refs(echoing.copies(item for _, item in found))
        if echoes or copies:
            ranking.leave_out(echoes, copies)  # others take their places among as many
            continue
        told = _told(ranking, found, wanted)
        if len(told) >= min(wanted.k, len(found)) or len(found) < far:
            return told
        far *= _MORE


def _told(ranking: Ranking, found: Iterable[tuple[Hit, Recalled]], wanted: Wanted) -> list[Recalled]:
    """Return as many as are wanted, with reasons: most of what is read for the sake of echoes is given to nobody."""
    told: list[Recalled] = []
    left, unasked = wanted.k, SAFETY
    for hit, item in found:
        if left <= 0:
            break
        safety = wanted.concerns_safety(item)
        # Whoever orders a curry wants nothing of a memory, and is told all the same.
        score = max(hit.score, ranking.likely(hit)) if safety else hit.score
        if score < wanted.least:
            continue
        why = ranking.why(hit)
        if safety and "words" not in why:
            unasked -= 1
            if unasked < 0:
                continue
        left -= hit.name not in wanted.known
        told.append(msgspec.structs.replace(item, score=score, why=why, safety=safety))
    return told


def first_of(group: Iterable[Recalled], k: int, known: Collection[str]) -> Iterator[Recalled]:
    """Yield the first k items of a group, and those between them that are known."""
    for item in group:
        if k <= 0:
            return
        k -= name_of(item) not in known
        yield item


def _read(hits: Iterator[Hit], rows: Rows, k: int, known: Collection[str]) -> list[tuple[Hit, Recalled]]:
    """Read the best from the truth, and go on to the next ones where something is gone."""
    found: list[tuple[Hit, Recalled]] = []
    left = k
    while left > 0 and (some := _take(hits, left, known)):
        items = rows.of([(hit.kind, hit.ref) for hit in some])
        for hit in some:
            item = items.get((hit.kind, hit.ref))
            if item is not None:
                left -= hit.name not in known
                found.append((hit, item))
    return found


def _take(hits: Iterator[Hit], wanted: int, known: Collection[str]) -> list[Hit]:
    """Return the next hits, up to so many that are not known."""
    some: list[Hit] = []
    for hit in hits:
        some.append(hit)
        wanted -= hit.name not in known
        if not wanted:
            break
    return some


def _refs(messages: Iterable[Recalled]) -> list[int]:
    return [int(item.id) for item in messages]
