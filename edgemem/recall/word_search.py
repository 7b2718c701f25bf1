"""Word search: a question taken apart, and its words found in memory, in the file and in the tail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.errors import CorruptError
from edgemem.recall.alike import spread
from edgemem.recall.columns import COLUMNS, Columns, Row, sound_row
from edgemem.recall.common_words import COMMON_NAMES
from edgemem.recall.english_words import is_english
from edgemem.recall.lexical import K1, Statistics, count_docs, match
from edgemem.recall.matching import matched, stands_of
from edgemem.recall.question import Question, people_in, read_question
from edgemem.recall.signals import on_dates
from edgemem.recall.sounds import with_names, with_people
from edgemem.recall.sources import bound, in_batches, marks
from edgemem.recall.state import FIRST_OTHER
from edgemem.recall.view import View
from edgemem.recall.words import terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.alike import Alike
    from edgemem.recall.candidates import Filter
    from edgemem.recall.index import Index
    from edgemem.recall.state import State
    from edgemem.recall.tail import Tail

_FEW = 3  # texts that a misheard name may stand in
_SAME = 0.12  # how far from a name what was heard of it may be


class WordSearch:
    """Finds the words of one question; whoever calls holds the tail.

    Args:
        state: how far the index has come; None: do without it.
        tail: what the index does not know yet.
        only: what may be found.
        candidates: how many the words hand over.
        now: seconds since the epoch.
    """

    def __init__(
        self, index: Index, state: State | None, tail: Tail, only: Filter, *, candidates: int, now: float
    ) -> None:
        self._index = index
        self._state = state
        self._tail = tail
        self._only = only
        self._candidates = candidates
        self._now = now
        self._resident = False
        """Whether memory holds the words of the index."""

    def look_up(self, query: str, *, names: Mapping[str, str], reader: str | None) -> tuple[Question, View]:
        """Take a question apart and find its words.

        Args:
            names: further names of people who speak here, each with the speaker that it means.
            reader: who asks, if known.
        """
        people = {*names, *self._tail.people, *self._people()}
        query = with_people(query, people)
        question = self._take_apart(query, people, reader)
        postings = self._index.postings
        with postings.lock:
            self._resident = self._state is not None and postings.follow(self._state)
            columns = postings.columns if self._resident else Columns()
            self._tail.pour(columns)
            in_file = self._state is not None and not self._resident
            view = View(columns, self._only, self._read if in_file else None)
            statistics = self._statistics(view, question.terms)
            heard = self._heard(query, question, statistics, names, people)
            if heard != query:
                question = self._take_apart(heard, people, reader)
                statistics = self._statistics(view, question.terms)
            question = question.of(question.people.union(names[n] for n in question.people if n in names))
            self._find(view, question, statistics)
            return question, view

    def _people(self) -> list[str]:
        if self._state is None:
            return []
        rows = self._index.database.query("select name from people")
        return [name for (name,) in rows if isinstance(name, str)]

    def _take_apart(self, query: str, people: Collection[str], reader: str | None) -> Question:
        named = people_in(query, people)
        return read_question(
            query, people=named, subjects=self._subjects(named), reader=reader, now=self._now
        )

    def _subjects(self, people: Collection[str]) -> set[str]:
        """Return those people that facts are about."""
        stems = {name: " ".join(terms(name)) for name in people}
        if not stems:
            return set()
        known = {doc.subject for doc in self._tail.docs.values() if self._only.allows(doc)}
        if self._state is not None:
            asked = list(stems.values())
            rows = self._index.database.query(
                f"select distinct d.subject from docs d where d.subject in ({marks(asked)})"  # noqa: S608 - ours
                f" and {self._only.where}",
                {**bound(asked), **self._only.values},
            )
            known.update(subject for (subject,) in rows)
        return {name for name in people if stems[name] in known}

    def _heard(
        self,
        query: str,
        question: Question,
        statistics: Statistics,
        names: Mapping[str, str],
        people: Collection[str],
    ) -> str:
        """Return a question with what may be misheard names set right."""
        often = statistics.counts.get
        few = max(_FEW, statistics.docs // 100)
        rare = {term for term in question.strange if often(term, 0) <= few}
        if rare:
            query = with_people(query, people, rare)
        unknown = [term for term in question.terms if not often(term)]
        if not unknown:
            return query
        return with_names(
            query,
            unknown,
            names={*names, *self._tail.people, *self._tail.subjects},
            database=self._index.database if self._state is not None else None,
        )

    def _statistics(self, view: View, asked: Sequence[str]) -> Statistics:
        """Return how common some terms are.

        What may not be read has no say, so that no score tells of it; but for what is looked up in the file.
        """
        late = self._tail.find(asked, view.columns)
        counts = stands_of(view, late).counts
        if self._resident:
            postings = self._index.postings
            counts = {term: counts.get(term, 0) + postings.count(term, view) for term in asked}
        if self._state is None or self._resident:
            docs, words = view.columns.size(self._only)
        else:
            docs, words = self._state.docs + len(self._tail.docs), self._state.terms + self._tail.terms
            for term, count in (count_docs(self._index.database, asked) if asked else {}).items():
                counts[term] = counts.get(term, 0) + count
        return Statistics(docs=docs, terms=words, counts=counts)

    def _standing(self, view: View, asked: Iterable[str]) -> list[tuple[str, Any, Any]]:
        """Return where terms stand in memory and in the tail, and how often."""
        wanted = list(asked)
        late = self._tail.find(wanted, view.columns)
        return [*self._index.postings.find(wanted), *late] if self._resident else late

    def _near(self, term: str, *, wide: bool) -> list[Alike]:
        """Return the terms of the memory and of the tail that sound like one."""
        found = {
            **dict(self._index.postings.alikes.near(term, wide=wide)),
            **dict(self._tail.alikes.near(term, wide=wide)),
        }
        return list(found.items())

    def _find(self, view: View, question: Question, statistics: Statistics) -> None:
        """Find the words of the question, and those that sound like them, in memory, in the file and in the tail."""
        import numpy as np

        said = statistics.telling(question.terms)
        # What stands somewhere was hardly misheard, and is better looked for alone.
        unknown = [term for term in said if question.english and not statistics.counts.get(term)]
        near = {term: self._near(term, wide=term in question.strange) for term in unknown}
        wanted = dict.fromkeys([*said, *(other for some in near.values() for other, _ in some)])
        stands = stands_of(view, self._standing(view, wanted))
        asked = spread(said, near, {**stands.counts, **statistics.counts}, question.strange)
        stands = stands.of(asked)
        if self._state is not None and not self._resident:
            self._find_in_file(view, said, sum(statistics.counts.get(term, 0) for term in said))
        found = matched(view, stands, asked, statistics)
        view.words += found.own
        view.window += found.window
        view.session += found.session
        docs = [asked[term].docs for term in said]
        best = statistics.best(docs) or 1.0
        view.known = (K1 + 1) * sum(statistics.rarity(count) for count in docs if count) / best
        hits = np.flatnonzero(view.words > 0)
        view.words[hits] = np.minimum(view.words[hits] / np.float32(best), 1.0)
        for scores in (view.words, view.window):
            view.chosen[view.seen(_highest(scores, self._candidates))] = True
        dated = view.seen(on_dates(view.columns, question)[: 4 * self._candidates])
        view.chosen[dated[: self._candidates // 2]] = True
        self._note_mentions(view, question)

    def _find_in_file(self, view: View, asked: Sequence[str], at_most: int) -> None:
        """Find words by FTS5, where memory does not hold them: the best only, and what stands beside them."""
        import numpy as np

        columns = view.columns
        rows = match(
            self._index.database,
            asked,
            columns=COLUMNS,
            where=self._only.where,
            values=self._only.values,
            limit=self._candidates,
            at_most=at_most,
        )
        scores = {columns.append(row): found[0] for found, row in zip(rows, self._rows(rows, 1), strict=True)}
        first = [int(columns.rows["id"][slot]) for slot in list(scores)[: self._candidates // 2]]
        view.read([doc + step for doc in first if doc < FIRST_OTHER for step in (-2, -1, 1)])
        view.grow()
        view.words[list(scores)] = list(scores.values())
        view.window[:] = view.words
        for step in (-1, 1):
            view.window[:-1] += view.words[view.beside(np.arange(view.n), step)] * 0.5

    def _read(self, numbers: Sequence[int]) -> list[Row]:
        """Read what may be found of some docs."""
        found: list[Row] = []
        for ids in in_batches(numbers):
            rows = self._index.database.query(
                f"select {COLUMNS} from docs d where d.id in ({marks(ids)}) and {self._only.where}",  # noqa: S608 - ours
                {**bound(ids), **self._only.values},
            )
            found += self._rows(rows)
        return found

    def _rows(self, rows: Iterable[tuple[Any, ...]], first: int = 0) -> list[Row]:
        try:
            return [sound_row(row[first:]) for row in rows]
        except ValueError as error:
            raise CorruptError(
                f"{self._index.path} is damaged: a row cannot be ({error}); it is made again by itself."
            ) from error

    def _note_mentions(self, view: View, question: Question) -> None:
        """Note which texts speak of somebody whom the question names, and not only to them."""
        import numpy as np

        columns = view.columns
        for name in question.people:
            stems = terms(name)
            if not stems:
                continue
            named = np.ones(columns.n, bool)
            for stem in stems:
                ways = [stem, *self._misheard(stem, alone=len(stems) == 1)]
                late = columns.slots_of({doc for way in ways for doc in self._tail.having(way)})
                there = [self._index.postings.having(way) for way in ways] if self._resident else []
                found = np.concatenate([late, *there])
                here = np.zeros(columns.n, bool)
                here[found[found >= 0]] = True
                named &= here
            slots = view.seen(np.flatnonzero(named))
            view.mentioned[slots[~_addressed(columns, slots, stems)]] = True

    def _misheard(self, stem: str, *, alone: bool) -> list[str]:
        """Return what the stem of a name may have been taken for; of one that stands alone, no English words."""
        return [
            other
            for other, far in self._near(stem, wide=False)
            if far <= _SAME and not (alone and (is_english(other) or other in COMMON_NAMES))
        ]


def _addressed(columns: Columns, slots: NDArray[np.intp], stems: Collection[str]) -> NDArray[np.bool_]:
    """Tell which texts speak to somebody of this name."""
    import numpy as np

    wanted = [stands.issuperset(stems) for stands in columns.callings]
    found: NDArray[np.bool_] = np.array(wanted)[columns.rows["called"][slots]]
    return found


def _highest(scores: NDArray[np.float32], most: int) -> NDArray[np.intp]:
    """Return the slots of the highest scores above 0."""
    import numpy as np

    found = np.flatnonzero(scores > 0)
    if len(found) > most:
        found = found[np.argpartition(-scores[found], most)[:most]]
    return found
