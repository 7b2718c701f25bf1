"""Words that sound alike: the terms of the memory that a misheard word of a question may stand for.

A recogniser that mishears writes other words, and mostly real ones: the question says "paper" and the memory "pepper".
So a word that stands nowhere is looked for by those that sound like it, at a lower weight. How much lower depends on how
likely a mistake is: one that is no English word was surely misheard, an ordinary one perhaps. What stands somewhere is
looked for alone. A German word may be a part of a longer one: who asks for the Tonne may mean the Papiertonne.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from edgemem.recall.people.phonetics import COSTS, LOSSES, SOUND_CLASSES, as_heard, cost, frame, weight

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence


LIMIT = 0.3
"""The distance of two readings up to which one may be taken for the other."""
STRANGE, ENGLISH = 0.8, 0.3
"""The weight of a term that sounds the same, for a word that is not English, and for an English one."""
_FALL = 1.5  # how fast that falls with the distance
_LEAST_WORTH, MOST = 0.04, 8
_LEAST_DOCS, _MOST_DOCS = 0.5, 1500  # of a word together with those that sound like it; of one of these
_LEAST_HEAD, _LEAST_TAIL = 3, 4  # letters of the two parts of a compound: there is no Nat in Monat
LEAST_LETTERS, _LEAST_ASKED = 3, 2
"""Of a term that is found; of one that something else may be taken for."""
_LONG_KEY = 3  # consonants from which on one of them may have been misheard
_MOST_COMPARED = 300  # terms of one skeleton; more are met in no household
_MOST_GAPS = 500  # ways to fill a gap that are known; there are some hundred
_REMEMBERED = 1000  # words that were asked for

Alike = tuple[str, float]
"""A term and its distance."""


class TermWeight(NamedTuple):
    """The weight of a term that is looked for."""

    weight: float
    """1 for what was said, less for what it may have been."""
    docs: float
    """In how many texts what was said may stand, whatever was written."""


class _Way(NamedTuple):
    """A key under which terms that sound like a word are stored, and what to compare there; see `phonetics.frame`."""

    key: str
    firm: str
    gaps: tuple[str, ...]
    paid: float = 0.0
    """The cost of the key, where it differs from the word's own."""
    more: int | None = None
    """The place of the consonant that terms there have more."""


class Alikes:
    """The terms of a memory by how they sound and by how they end; the caller holds a lock.

    A term stands under the classes of its consonants (see `phonetics.frame`), so that few must be compared, and those sound
    by sound, without looking for the best way to lay them beside one another. What is found for a term is kept until a term
    comes or goes that stands where it was looked for.
    """

    def __init__(self) -> None:
        self._by_key: dict[str, list[str]] = {}
        self._by_end: dict[str, list[str]] = {}
        self._cache: dict[tuple[str, bool], tuple[Alike, ...]] = {}
        self._askers: dict[str, set[tuple[str, bool]]] = {}

    def add(self, term: str) -> None:
        """Add a new term; numbers, short terms and words of other scripts have no sound, and are left out."""
        for key, firm, gaps in _frames(term):
            entry = f"{term} {firm} {':'.join(gaps)} {_weight(firm, gaps):.3f}"
            self._by_key.setdefault(key, []).append(entry)
            self._outdate(key)
        if len(term) >= _LEAST_HEAD + _LEAST_TAIL and term.isalpha():
            self._by_end.setdefault(term[-_LEAST_TAIL:], []).append(term)

    def drop(self, term: str) -> None:
        """Remove a term."""
        for key, _, _ in _frames(term):
            kept = [entry for entry in self._by_key.pop(key, ()) if entry.partition(" ")[0] != term]
            if kept:
                self._by_key[key] = kept
        ending = [other for other in self._by_end.pop(term[-_LEAST_TAIL:], ()) if other != term]
        if ending:
            self._by_end[term[-_LEAST_TAIL:]] = ending
        # It may have been asked for as well.
        self._cache.clear()
        self._askers.clear()

    def near(self, term: str, *, wide: bool = False) -> tuple[Alike, ...]:
        """Return the other terms that sound like a term, the nearest first, with their distances.

        Args:
            wide: also terms that have a consonant more, less or other, for what can only be a mistake; it takes longer.
        """
        known = self._cache.get((term, wide))
        if known is not None:
            return known
        distances: dict[str, float] = {}
        keys = set()
        for key, firm, gaps in _frames(term, _LEAST_ASKED):
            ways = [_Way(key, firm, gaps)]
            if wide and len(key) >= _LONG_KEY:
                ways += _wide_ways(*ways[0])
            for way in ways:
                keys.add(way.key)
                self._compare(way, _weight(firm, gaps), distances)
        distances.pop(term, None)
        best = tuple(sorted(distances.items(), key=lambda hit: (hit[1], hit[0]))[: 2 * MOST])
        self._remember((term, wide), keys, best)
        return best

    def ending_in(self, term: str) -> list[str]:
        """Return the terms that may be compounds ending with a term."""
        candidates = self._by_end.get(term[-_LEAST_TAIL:], ())
        return [
            other for other in candidates if other.endswith(term) and len(other) >= len(term) + _LEAST_HEAD
        ]

    def _compare(self, way: _Way, whole: float, distances: dict[str, float]) -> None:
        """Add the near terms under a key to `distances`, given the weight of the whole word."""
        costs = [_BETWEEN[gap] for gap in way.gaps]
        for entry in self._by_key.get(way.key, ())[-_MOST_COMPARED:]:
            term, firm, between, heavy = entry.split(" ")
            gaps = between.split(":")
            far, n = way.paid, way.more
            if n is not None:
                far += LOSSES[firm[n]]
                firm = firm[:n] + firm[n + 1 :]
                gaps[n : n + 2] = [gaps[n] + gaps[n + 1]]
            for cost_of, gap in zip(costs, gaps):  # noqa: B905 - as long as one another
                far += cost_of[gap]
            if firm != way.firm:
                far += sum(COSTS[sound][other] for sound, other in zip(way.firm, firm))  # noqa: B905
            share = 2 * far / ((whole + float(heavy)) or 1.0)
            if share <= LIMIT and share < distances.get(term, 1.0):
                distances[term] = share

    def _remember(self, asked: tuple[str, bool], keys: Iterable[str], best: tuple[Alike, ...]) -> None:
        if len(self._cache) >= _REMEMBERED:
            self._cache.clear()
            self._askers.clear()
        self._cache[asked] = best
        for key in keys:
            self._askers.setdefault(key, set()).add(asked)

    def _outdate(self, key: str) -> None:
        """Drop the cached answers of a key whose terms changed."""
        for asked in self._askers.pop(key, ()):
            self._cache.pop(asked, None)


def parted(term: str, compounds: Iterable[str], *, known: bool) -> list[Alike]:
    """Return the compounds of a term, and what it may be one of itself; the longer the part between, the farther they are.

    Args:
        known: whether it stands somewhere, so that it need not be taken apart.
    """
    longer = [(other, LIMIT * (1 - len(term) / len(other))) for other in compounds]
    if known or not term.isalpha():
        return longer
    ends = range(_LEAST_HEAD, len(term) - _LEAST_TAIL + 1)
    return longer + [(term[at:], LIMIT * at / len(term)) for at in ends]


def _wide_ways(key: str, firm: str, gaps: tuple[str, ...], *_: object) -> Iterator[_Way]:
    """Yield where terms stand that have one consonant less, other or more."""
    for n, sound in enumerate(firm):
        around = (*gaps[:n], gaps[n] + gaps[n + 1], *gaps[n + 2 :])
        yield _Way(key[:n] + key[n + 1 :], firm[:n] + firm[n + 1 :], around, LOSSES[sound])
        for other in SOUND_CLASSES.replace(key[n], ""):
            yield _Way(key[:n] + other + key[n + 1 :], firm, gaps)
    for n in range(len(firm) + 1):
        for other in SOUND_CLASSES:
            yield _Way(key[:n] + other + key[n:], firm, gaps, more=n)


def _frames(term: str, least: int = LEAST_LETTERS) -> list[tuple[str, str, tuple[str, ...]]]:
    return [frame(reading) for reading in sorted(as_heard(term))] if len(term) >= least else []


def _weight(firm: str, gaps: tuple[str, ...]) -> float:
    return weight(firm) + sum(map(weight, gaps))


class _Costs(dict[str, float]):
    """What it costs to take something for what stands between two consonants, by what is heard."""

    def __init__(self, heard: str) -> None:
        self._heard = heard

    def __missing__(self, gap: str) -> float:
        total = cost(self._heard, gap)
        if len(self) < _MOST_GAPS:
            self[gap] = total
        return total


class _Between(dict[str, _Costs]):
    def __missing__(self, gap: str) -> _Costs:
        costs = _Costs(gap)
        if len(self) < _MOST_GAPS:
            self[gap] = costs
        return costs


_BETWEEN = _Between()


def spread(
    asked: Iterable[str],
    near: Mapping[str, Sequence[Alike]],
    counts: Mapping[str, int],
    strange: Collection[str],
) -> dict[str, TermWeight]:
    """Return the terms of a question and those that they may stand for, with their weights.

    Args:
        near: terms that sound like each, with their distances: `Alikes.near`.
        counts: in how many texts each of all these stands, as far as they may be read.
        strange: those that are no English words.
    """
    asked_terms = dict.fromkeys(asked)
    weights: dict[str, TermWeight] = {}
    for term in asked_terms:
        base = STRANGE if term in strange else ENGLISH
        others = []
        for other, far in near.get(term, ()):
            worth = base * max(0.0, 1 - _FALL * far)
            if 0 < counts.get(other, 0) <= _MOST_DOCS and other not in asked_terms and worth >= _LEAST_WORTH:
                others.append((worth, other))
        kept = sorted(others, reverse=True)[:MOST]
        # All of them together tell apart as much as the one word that was said.
        group = counts.get(term, 0) + sum(worth * counts[other] for worth, other in kept)
        weights[term] = TermWeight(1.0, max(group, _LEAST_DOCS) if kept else group)
        for worth, other in kept:
            if other not in weights or weights[other].weight < worth:
                weights[other] = TermWeight(worth, max(group, _LEAST_DOCS))
    return weights
