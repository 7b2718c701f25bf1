"""Similar terms: the terms of a memory that a misheard word of a question may stand for.

A recogniser that mishears writes other words, and mostly real ones: the question says "paper" and the memory "pepper".
So a word that no text has is looked for by those that sound like it, at a lower weight. How much lower depends on how likely a
mistake is: one that is no English word was surely misheard, an ordinary one perhaps. A word that some text has is looked for alone.
A German word may be a part of a longer one: who asks for the Tonne may mean the Papiertonne.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from edgemem.recall.people.phonetics import LONG_KEY, as_heard, distance, near_skeletons, skeleton

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

LIMIT = 0.3
"""The distance of two readings up to which one may be taken for the other."""
UNKNOWN, ENGLISH = 0.8, 0.3
"""The weight of a term that sounds the same, for a word that is not English, and for an English one."""
_FALL = 1.5  # how fast that falls with the distance
_LEAST_WEIGHT, MOST = 0.04, 8
_LEAST_DOCS, _MOST_DOCS = 0.5, 1500  # of a word together with those that sound like it; of one of these
_LEAST_HEAD, _LEAST_TAIL = 3, 4  # letters of the two parts of a compound: there is no Nat in Monat
LEAST_LETTERS, _LEAST_ASKED = 3, 2
"""Of a term that is found; of one that something else may be taken for."""
_MOST_COMPARED = 300  # terms of one skeleton; more are met in no household
_REMEMBERED = 1000  # words that were asked for

SimilarTerm = tuple[str, float]
"""A term and its distance."""


class TermWeight(NamedTuple):
    """The weight of a term that is looked for."""

    weight: float
    """1 for the term that was said, less for one that it may have been."""
    docs: float
    """How many texts may mean the term that was said, however it is written there."""


class SimilarTerms:
    """The terms of a memory by how they sound and by how they end; the caller holds a lock."""

    def __init__(self) -> None:
        self._by_skeleton: dict[str, list[str]] = {}
        """Terms with a reading of that skeleton, each before that reading."""
        self._by_end: dict[str, list[str]] = {}
        self._cache: dict[tuple[str, bool], tuple[SimilarTerm, ...]] = {}

    def add(self, term: str) -> None:
        """Add a new term; numbers, short terms and words of other scripts have no sound, and are left out."""
        for key, entry in _entries(term):
            self._by_skeleton.setdefault(key, []).append(entry)
        if len(term) >= _LEAST_HEAD + _LEAST_TAIL and term.isalpha():
            self._by_end.setdefault(term[-_LEAST_TAIL:], []).append(term)
        self._cache.clear()

    def drop(self, term: str) -> None:
        """Remove a term."""
        for key, entry in _entries(term):
            _remove(self._by_skeleton, key, entry)
        _remove(self._by_end, term[-_LEAST_TAIL:], term)
        self._cache.clear()

    def similar_to(self, term: str, *, wide: bool = False) -> tuple[SimilarTerm, ...]:
        """Return the other terms that sound like a term, the nearest first, with their distances.

        Args:
            wide: also terms that have a consonant more, less or other, for what can only be a mistake; it takes longer.
        """
        if (term, wide) not in self._cache:
            if len(self._cache) >= _REMEMBERED:
                self._cache.clear()
            self._cache[term, wide] = self._near(term, wide=wide)
        return self._cache[term, wide]

    def _near(self, term: str, *, wide: bool) -> tuple[SimilarTerm, ...]:
        distances: dict[str, float] = {}
        for reading in sorted(as_heard(term)) if len(term) >= _LEAST_ASKED else ():
            key = skeleton(reading)
            keys = {key, *near_skeletons(key)} if wide and len(key) >= LONG_KEY else {key}
            for entry in (
                entry for key in keys for entry in self._by_skeleton.get(key, ())[-_MOST_COMPARED:]
            ):
                other, _, spoken = entry.partition(" ")
                far = distance(reading, spoken, LIMIT)
                if far <= LIMIT and far < distances.get(other, 1.0):
                    distances[other] = far
        distances.pop(term, None)
        return tuple(sorted(distances.items(), key=lambda hit: (hit[1], hit[0]))[: 2 * MOST])

    def ending_in(self, term: str) -> list[str]:
        """Return the terms that may be compounds ending with a term."""
        candidates = self._by_end.get(term[-_LEAST_TAIL:], ())
        return [
            other for other in candidates if other.endswith(term) and len(other) >= len(term) + _LEAST_HEAD
        ]


def _entries(term: str) -> list[tuple[str, str]]:
    """Return the skeletons of a term, each with the term and its reading."""
    readings = sorted(as_heard(term)) if len(term) >= LEAST_LETTERS else ()
    return [(skeleton(reading), f"{term} {reading}") for reading in readings]


def _remove(table: dict[str, list[str]], key: str, entry: str) -> None:
    kept = [other for other in table.pop(key, ()) if other != entry]
    if kept:
        table[key] = kept


def split_compound(term: str, compounds: Iterable[str], *, known: bool) -> list[SimilarTerm]:
    """Return the compounds of a term, and what it may be one of itself; the longer the part between, the farther they are.

    Args:
        known: whether any text has it, so that it need not be taken apart.
    """
    longer = [(other, LIMIT * (1 - len(term) / len(other))) for other in compounds]
    if known or not term.isalpha():
        return longer
    ends = range(_LEAST_HEAD, len(term) - _LEAST_TAIL + 1)
    return longer + [(term[at:], LIMIT * at / len(term)) for at in ends]


def spread(
    asked: Iterable[str],
    near: Mapping[str, Sequence[SimilarTerm]],
    counts: Mapping[str, int],
    unknown: Collection[str],
) -> dict[str, TermWeight]:
    """Return the terms of a question and those that they may stand for, with their weights.

    Args:
        near: terms that sound like each, with their distances: `SimilarTerms.similar_to`.
        counts: how many readable texts hold each of all these.
        unknown: those that are no English words.
    """
    asked_terms = dict.fromkeys(asked)
    weights: dict[str, TermWeight] = {}
    for term in asked_terms:
        base = UNKNOWN if term in unknown else ENGLISH
        others = []
        for other, far in near.get(term, ()):
            weight = base * max(0.0, 1 - _FALL * far)
            if (
                0 < counts.get(other, 0) <= _MOST_DOCS
                and other not in asked_terms
                and weight >= _LEAST_WEIGHT
            ):
                others.append((weight, other))
        kept = sorted(others, reverse=True)[:MOST]
        # All of them together tell apart as much as the one word that was said.
        group = counts.get(term, 0) + sum(weight * counts[other] for weight, other in kept)
        weights[term] = TermWeight(1.0, max(group, _LEAST_DOCS) if kept else group)
        for weight, other in kept:
            if other not in weights or weights[other].weight < weight:
                weights[other] = TermWeight(weight, max(group, _LEAST_DOCS))
    return weights
