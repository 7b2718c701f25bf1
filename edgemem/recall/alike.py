"""Alike: the words of the memory that a word of a question may have been, or may have been taken for.

A recogniser that mishears writes other words, and mostly real ones: the question says "paper" and the memory "pepper".
So each word is looked for together with those that sound like it, at a lower weight, by which it still loses to what
was said rightly. How much lower depends on how likely a mistake is: a word that stands nowhere and is no English one was
surely misheard; an ordinary one that stands nowhere, or one that is known, perhaps; and a rare word of the memory is
more likely a mistake than one that stands everywhere.

The figures were chosen on the `learnt` weeks with the noise of `edgemem.bench.noise`, by full text alone.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from edgemem.recall.english_words import is_english
from edgemem.recall.phonetic import sounds_near
from edgemem.recall.readings import as_heard, distance, skeleton, weight

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LIMIT = 0.3
"""The distance of two readings up to which one may be taken for the other."""
STRANGE, KNOWN, ENGLISH = 0.8, 0.5, 0.3
"""What a word that sounds the same is worth, for one that stands nowhere, for one that does, and for one that does
not, but is an ordinary English word."""
_FALL = 1.5  # how fast that falls with the distance
_RARE, _ALWAYS = 2.0, 0.5  # docs in which a word is half rare; what does not depend on that
_LEAST_WORTH, _MOST = 0.04, 8
_LEAST_LETTERS = 3
_LONG_KEY = 3  # consonants from which on one of them may have been misheard
_REMEMBERED = 4096  # words that were asked for, beside the terms of the memory


class Asked(NamedTuple):
    """A term to look for."""

    term: str
    weight: float
    """1 for what was said, less for what it may have been."""
    docs: float
    """In how many docs what was said may stand, whatever was written: all terms of one word tell apart as much."""


class Alikes:
    """The terms of a memory by how they sound; the caller holds a lock.

    What is found for a term is kept, and later only compared with terms that have come since.
    """

    def __init__(self) -> None:
        self._terms: dict[str, None] = {}
        self._by_key: dict[str, list[tuple[int, float, str, str]]] = {}
        self._found: dict[str, tuple[int, tuple[tuple[str, float], ...]]] = {}
        self._prepared = 0

    def __len__(self) -> int:
        return len(self._terms)

    def add(self, terms: Iterable[str]) -> None:
        """Take in terms that are new; numbers and words of other scripts have no sound."""
        for term in terms:
            if term not in self._terms:
                self._terms[term] = None
                if len(term) >= _LEAST_LETTERS:
                    for reading in as_heard(term):
                        entry = len(self._terms), weight(reading), reading, term
                        self._by_key.setdefault(skeleton(reading), []).append(entry)

    def near(self, term: str) -> tuple[tuple[str, float], ...]:
        """Return other terms that sound like one, the nearest first, with their distances."""
        since, known = self._found.get(term, (0, ()))
        if since == len(self._terms):
            return known
        found = dict(known)
        heard = [(one, weight(one)) for one in as_heard(term)] if len(term) >= _LEAST_LETTERS else []
        keys = {skeleton(one) for one, _ in heard}
        if heard and max(map(len, keys)) >= _LONG_KEY:
            keys |= sounds_near(term)
        for key in keys:
            for number, heavy, reading, other in reversed(self._by_key.get(key, ())):
                if number <= since:
                    break
                if other == term:
                    continue
                for one, own in heard:
                    # The distance is at least what one has more than the other: most are told apart by that.
                    if 2 * abs(own - heavy) <= LIMIT * (own + heavy):
                        far = distance(one, reading, LIMIT)
                        if far <= LIMIT:
                            found[other] = min(far, found.get(other, 1.0))
        best = tuple(sorted(found.items(), key=lambda each: (each[1], each[0])))[: 2 * _MOST]
        if len(self._found) >= _REMEMBERED + len(self._terms):
            self._found.clear()
        self._found[term] = len(self._terms), best
        return best

    def prepare(self, most: int) -> int:
        """Find what sounds like some of the terms before anybody asks for them; return of how many, 0 at the end."""
        some = list(islice(self._terms, self._prepared, self._prepared + most))
        for term in some:
            self.near(term)
        self._prepared += len(some)
        return len(some)


def spread(
    words: Mapping[str, str], near: Mapping[str, Sequence[tuple[str, float]]], counts: Mapping[str, int]
) -> list[Asked]:
    """Return the terms of a question with what each may have been.

    Args:
        words: as they were written, by their terms.
        near: terms that sound like each, with their distances: `Alikes.near`.
        counts: in how many docs each of all these stands.
    """
    asked: dict[str, Asked] = {}
    for term, word in words.items():
        count = counts.get(term, 0)
        base = KNOWN if count else ENGLISH if is_english(word) else STRANGE
        others = []
        for other, far in near.get(term, ()):
            docs = counts.get(other, 0)
            worth = base * max(0.0, 1 - _FALL * far)
            if count:
                worth *= _ALWAYS + (1 - _ALWAYS) * _RARE / (_RARE + docs)
            if docs and other not in words and worth >= _LEAST_WORTH:
                others.append((worth, other))
        kept = sorted(others, reverse=True)[:_MOST]
        group = count + sum(worth * counts[other] for worth, other in kept)
        asked[term] = Asked(term, 1.0, max(group, 0.5))
        for worth, other in kept:
            if other not in asked or asked[other].weight < worth:
                asked[other] = Asked(other, worth, max(group, 0.5))
    return list(asked.values())
