"""Full text: how common words are, and what each is worth to BM25.

Scores are given as a share of the best that the question's words could reach, so that they lie between 0 and 1 and
mean the same from one question to the next. The formula is FTS5's own.
"""

from __future__ import annotations

from itertools import accumulate
from math import log
from typing import TYPE_CHECKING

import msgspec

from edgemem.recall.index.sources import bound, marks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from edgemem.store.database import Database

K1, B = 1.2, 0.75
MAX_TERMS = 24
MAX_MATCHES = 1500
"""The commonest terms of a question are left out while the others alone match this many texts: each text costs
time to score, and such a term tells little apart."""


class Statistics(msgspec.Struct, frozen=True):
    """How common words are: FTS5's figures and those of the tail, together."""

    docs: int
    terms: int
    """How many they have together."""
    counts: Mapping[str, int]
    """In how many texts a term stands."""

    def rarity(self, docs: float) -> float:
        """Return how much a term tells apart that stands in so many texts: its inverse document frequency, as FTS5 has it."""
        # With 1 inside of the logarithm it is never negative (Lucene's BM25Similarity): in a memory of two facts each
        # word is common, and still tells more than nothing.
        return log(1 + max(0.0, self.docs - docs + 0.5) / (docs + 0.5))

    def best(self, docs: Iterable[float]) -> float:
        """Return a score that no text can exceed in which terms stand that stand in so many texts each."""
        return sum(map(self.rarity, docs)) * (K1 + 1)

    def telling(self, terms: Sequence[str]) -> list[str]:
        """Return the terms worth looking for: the rarest first, those that stand nowhere last."""
        count = self.counts.get
        rare = sorted(terms, key=lambda term: (not count(term, 0), count(term, 0), term))
        total = list(accumulate(count(term, 0) for term in rare))
        return [term for term, n in zip(rare, total, strict=True) if n <= max(MAX_MATCHES, total[0])][
            :MAX_TERMS
        ]


def count_docs(database: Database, terms: Sequence[str]) -> dict[str, int]:
    """Return in how many indexed texts each term stands."""
    counts = dict.fromkeys(terms, 0)
    found = database.query(f"select term, doc from vocabulary where term in ({marks(terms)})", bound(terms))  # noqa: S608 - ours
    counts.update(found)
    return counts
