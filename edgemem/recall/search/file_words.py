"""The words of an index file, searched there while memory does not hold them.

That is so between opening a file and the first idle moment, in a memory of many thousand texts, and for whoever asks once
and goes. It counts and weighs as memory does, what a reader may not read having no say; but of very many texts
only those are looked at that have most of the question's words.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.recall.index.sources import TURN, bound, marks
from edgemem.recall.index.state import PRIVATE
from edgemem.recall.people.alike import Alikes
from edgemem.recall.search.bm25 import K1, count_docs
from edgemem.recall.traits import SAYS_I

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.people.alike import Alike
    from edgemem.recall.search.table import Filter
    from edgemem.store.db.database import Database

    Docs = NDArray[np.int64]


MOST = 1500
"""The number of texts that are read in, at most; each takes some 30 µs, with those beside it."""
_BEGINNINGS = ("bp", "dt", "fvpw", "ckqgxszjt", "mnkg", "lrw", "aeiouhwy")
"""First letters of words that may sound alike; to compare all words of a memory takes a second."""


class FileWords:
    """The words of an index file as one reader may know them; made anew for each question.

    Args:
        only: what may be found.
    """

    def __init__(self, database: Database, only: Filter) -> None:
        self._database = database
        self._only = only
        self._values: Mapping[str, Any] | None = only.values if "known" in only.values else None
        self._few: tuple[Docs, bool] | None = None

    def size(self) -> tuple[int, int]:
        """Return how many texts may be read, of any kind, and how many words they have."""
        rule, values = "1", {}
        if self._values is not None:
            rule = "level = 0 or (level = 1 and :known) or (level = 2 and owner = :speaker and :alone)"
            values = {name: self._values[name] for name in ("known", "speaker", "alone")}
        sql = f"select coalesce(sum(docs), 0), coalesce(sum(terms), 0) from sizes where {rule}"  # noqa: S608 - ours
        docs, words = self._database.query(sql, values)[0]
        return int(docs), int(words)

    def counts(self, terms: Sequence[str]) -> dict[str, int]:
        """Return in how many texts that may be read each term stands."""
        if not terms:
            return {}
        docs, hidden = self._apart()
        if hidden and not len(docs):
            return count_docs(self._database, terms)
        return {term: len(self._readable(self.having(term))) for term in terms}

    def having(self, stem: str) -> Docs:
        """Return the numbers of the texts that a stem stands in, readable or not."""
        import numpy as np

        rows = self._database.query("select rowid from words where words match ?", (f'"{stem}"',))
        return np.fromiter((doc for (doc,) in rows), np.int64, len(rows))

    def find(
        self, terms: Iterable[str], counts: Mapping[str, int], idf: Mapping[str, float]
    ) -> dict[str, tuple[Docs, NDArray[np.float32]]]:
        """Return by term the readable texts that it stands in, and how often; of very many texts the best alone.

        Args:
            counts: by term, the number of texts that it stands in; a term that stands nowhere is not looked up.
            idf: by term, its inverse document frequency.
        """
        import numpy as np

        postings: dict[str, tuple[Docs, NDArray[np.float32]]] = {}
        for term in terms:
            if not counts.get(term):
                continue
            rows = self._database.query(
                "select doc, count(*) from occurrences where term = ? group by doc", (term,)
            )
            docs, times = np.array(rows, np.int64).reshape(-1, 2).T
            kept = np.isin(docs, self._readable(docs))
            postings[term] = docs[kept], times[kept].astype(np.float32)
        if not postings:
            return postings
        docs = np.concatenate([docs for docs, _ in postings.values()])
        numbers, place = np.unique(docs, return_inverse=True)
        if len(numbers) <= MOST:
            return postings
        worth = np.concatenate(
            [idf.get(term, 0.0) * times * (K1 + 1) / (times + K1) for term, (_, times) in postings.items()]
        )
        best = np.lexsort((-numbers, -np.bincount(place, worth)))[:MOST]
        kept_docs = np.sort(numbers[best])
        return {
            term: (docs[here], times[here])
            for term, (docs, times) in postings.items()
            if (here := np.isin(docs, kept_docs)).any()
        }

    def near(self, term: str, *, wide: bool) -> list[Alike]:
        """Return terms that sound like a term, of those that begin alike."""
        alikes = Alikes()
        letters = {letter for some in _BEGINNINGS if term[:1] in some for letter in some}
        for letter in sorted(letters):
            rows = self._database.query(
                "select term from vocabulary where term >= ? and term < ?", (letter, chr(ord(letter) + 1))
            )
            for (other,) in rows:
                alikes.add(other)
        return list(alikes.near(term, wide=wide))

    def of_times(self, times: Sequence[tuple[float, float, float]], talk: str | None) -> list[int]:
        """Return the docs of some times, the newest first; or the first or last messages, where a conversation is asked for."""
        sql = f"select d.id from docs d where {self._only.where}"  # noqa: S608 - our own text
        if talk is not None:
            order = "asc" if talk == "first" else "desc"
            rows = self._database.query(
                f"{sql} and d.kind = {TURN:d} order by d.id {order} limit {MOST:d}", self._only.values
            )
            return [doc for (doc,) in rows]
        docs: list[int] = []
        for begin, end, _ in times:
            rows = self._database.query(
                f"{sql} and d.at >= :begin and d.at < :end order by d.id desc limit {MOST:d}",
                {"begin": begin, "end": end, **self._only.values},
            )
            docs += [doc for (doc,) in rows]
        return docs

    def about(self, people: Collection[str], times: Sequence[tuple[float, float, float]]) -> list[int]:
        """Return the newest texts in which some people speak of themselves, and those that speak of some times.

        All docs are looked at, which takes 50 ms for 100,000.
        """
        docs: list[int] = []
        if people:
            names = list(people)
            rows = self._database.query(
                f"select d.id from docs d where d.who in ({marks(names)}) and d.marks & {SAYS_I:d}"  # noqa: S608 - ours
                f" and {self._only.where} order by d.id desc limit {MOST:d}",
                {**bound(names), **self._only.values},
            )
            docs += [doc for (doc,) in rows]
        if times:
            rows = self._database.query(
                f"select d.id, d.times from docs d where d.times is not null and {self._only.where} order by d.id desc",  # noqa: S608 - ours
                self._only.values,
            )
            dated = (doc for doc, dates in rows if _meets(dates, times))
            docs += islice(dated, MOST)
        return docs

    def _readable(self, docs: Docs) -> Docs:
        """Return the readable ones of some docs."""
        import numpy as np

        few, hidden = self._apart()
        return docs[np.isin(docs, few, invert=hidden)]

    def _apart(self) -> tuple[Docs, bool]:
        """Return the few docs that may not be read, and True; or the few that may be, and False."""
        import numpy as np

        if self._few is None:
            rows: list[tuple[Any, ...]] = []
            hidden = self._values is None or bool(self._values["known"])
            if self._values is not None:
                where = "level = 0"
                if hidden:
                    where = f"level = {PRIVATE:d} and not (:alone and owner is :speaker)"
                values = {name: self._values[name] for name in ("speaker", "alone")} if hidden else {}
                # All docs are looked at for that, 12 ms of 100,000; a few sums tell where it is for nothing.
                if self._database.query(f"select 1 from sizes where {where} limit 1", values):  # noqa: S608 - ours
                    rows = self._database.query(f"select id from docs where {where}", values)  # noqa: S608 - ours
            self._few = np.fromiter((doc for (doc,) in rows), np.int64, len(rows)), hidden
        return self._few


def _meets(dates: str, times: Sequence[tuple[float, float, float]]) -> bool:
    """Tell whether a text speaks of one of some times.

    Args:
        dates: the times that it speaks of, as JSON.
        times: begin, end and how sure, of each.
    """
    spans = msgspec.json.decode(dates, type=list[tuple[float, float, float]])
    return any(begin < to and since < end for since, to, _ in spans for begin, end, _ in times)
