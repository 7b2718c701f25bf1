"""Support: whether each clause of a summary stands on a clause that was said.

A clause that tells about a thing what was said of another one, or its opposite, is made of the source's own words, so
looking for unknown words finds nothing. Here each clause is laid beside the clauses that were said: its numbers and days
must stand where something else of it stands, and where all that is nearest to it denies, it must deny as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgemem.context.check_source import Clause, Source, clauses_of, plain_words
from edgemem.context.check_words import SMALL, TELLING
from edgemem.context.numbers import is_date, is_number
from edgemem.recall.common_words import COMMON_WORDS
from edgemem.recall.stemmer import stem

_COMMON_STEMS = frozenset(map(stem, COMMON_WORDS))
_ENGLISH = frozenset(("the", "is", "and", "was", "are", "his", "her", "has", "their", "that"))
_NEAR = 2
"""Things that two clauses must have in common before one is held against the other."""


def swapped(summary: str, source: Source) -> str:
    """Return what is told with a number or a day that was said of something else; empty if nothing is."""
    said = source.clauses
    for clause in clauses_of(summary):
        for value in sorted(clause.exact):
            where = [n for n, one in enumerate(said) if value in one.exact]
            # "At twelve." is said of what stands before and behind it.
            around = [one.about | _beside(said, n, of=one) for n, one in ((n, said[n]) for n in where)]
            if where and clause.about and not any(clause.about & about for about in around):
                return f"{value} was said of something else: “{clause.text.strip()}”."
    return ""


def reversed_(summary: str, source: Source) -> str:
    """Return what is denied though it was said, or said though it was denied; empty if nothing is."""
    said = source.clauses
    for clause in clauses_of(summary):
        common = [len((clause.about | clause.exact) & (one.about | one.exact)) for one in said]
        most = max(common, default=0)
        nearest = [one for n, one in zip(common, said, strict=True) if n == most]
        if most >= _NEAR and all(one.denies != clause.denies for one in nearest):
            told = "denied" if nearest[0].denies else "said"
            return f"The opposite was {told}: “{clause.text.strip()}”."
    return ""


def invented(summary: str, source: Source) -> str:
    """Return the words of a clause, in English, that nobody said and that not everybody uses; empty if there are none."""
    if len(_ENGLISH & set(source.text.split())) < 2:
        return ""
    for clause in clauses_of(summary):
        told = [
            word
            for word in plain_words(clause.text)
            if word not in SMALL and word not in TELLING and not is_number(word) and not is_date(word)
        ]
        new = [word for word in told if not source.means(word)]
        rare = [word for word in new if word not in COMMON_WORDS and stem(word) not in _COMMON_STEMS]
        if rare:
            return f"Nobody said {rare[0]}."
        if len(new) > max(1, len(told) // 3):
            return f"It is not made of what was said: {', '.join(new[:3])}."
    return ""


def _beside(said: Sequence[Clause], n: int, *, of: Clause) -> frozenset[str]:
    """Return what the clauses beside a short one are about."""
    if len(of.about) > 1:
        return frozenset()
    return frozenset().union(*(one.about for one in said[max(0, n - 1) : n + 2]))
