"""Word search: a question taken apart, and its words found in memory, in the file and in the tail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.errors import CorruptError
from edgemem.recall.columns import COLUMNS, Columns, Row, sound_row
from edgemem.recall.lexical import Statistics, count_docs, match
from edgemem.recall.matching import matched
from edgemem.recall.question import Question, people_in, read_question
from edgemem.recall.signals import on_dates
from edgemem.recall.sounds import called_in, with_names
from edgemem.recall.sources import bound, in_batches, marks
from edgemem.recall.state import FIRST_OTHER
from edgemem.recall.view import View
from edgemem.recall.words import terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.candidates import Filter
    from edgemem.recall.index import Index
    from edgemem.recall.state import State
    from edgemem.recall.tail import Tail


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

    def look_up(self, query: str, *, names: Mapping[str, str], reader: str | None) -> tuple[Question, View]:
        """Take a question apart and find its words.

        Args:
            names: further names of people who speak here, each with the speaker that it means.
            reader: who asks, if known.
        """
        people = {*names, *self._tail.people, *self._people()}
        question = self._take_apart(query, people, reader)
        with self._index.postings.lock:
            counts, resident = self._count(question)
            heard = self._heard(query, [term for term in question.terms if not counts[term]], names)
            if heard != query:
                question = self._take_apart(heard, people, reader)
                counts, resident = self._count(question)
            question = question.of(question.people.union(names[n] for n in question.people if n in names))
            return question, self._find(question, counts, resident=resident)

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

    def _heard(self, query: str, unknown: Collection[str], names: Mapping[str, str]) -> str:
        """Return a question with what may be misheard names set right; `unknown` stems stand nowhere."""
        if not unknown:
            return query
        subjects = {called_in(doc.text, doc.subject) for doc in self._tail.docs.values() if doc.subject}
        return with_names(
            query,
            unknown,
            names={*names, *self._tail.people, *subjects},
            database=self._index.database if self._state is not None else None,
        )

    def _count(self, question: Question) -> tuple[dict[str, int], bool]:
        """Return in how many texts each term stands, and whether memory holds the words of the index."""
        counts = self._tail.counts(question.terms)
        if self._state is None:
            return counts, False
        known = self._index.postings.counts(self._state, question.terms)
        if known is None:
            found = count_docs(self._index.database, question.terms) if question.terms else {}
        else:
            found = known
        for term, count in found.items():
            counts[term] += count
        return counts, known is not None

    def _find(self, question: Question, counts: Mapping[str, int], *, resident: bool) -> View:
        """Find the words of the question in memory, in the file and in the tail."""
        import numpy as np

        state, tail, postings = self._state, self._tail, self._index.postings
        statistics = Statistics(
            docs=(state.docs if state else 0) + len(tail.docs),
            terms=(state.terms if state else 0) + tail.terms,
            counts=counts,
        )
        asked = statistics.telling(question.terms)
        columns = postings.columns if resident else Columns()
        tail.pour(columns)
        late = tail.find(asked, columns)
        if resident:
            view = View(columns, self._only)
            stands = [*postings.find(asked), *late]
            there = {term for term, slots, _ in stands if view.may[slots].any()}
            view.words, view.window, view.session = matched(view, stands, statistics)
        else:
            view = View(columns, self._only, None if state is None else self._read)
            there = {term for term, slots, _ in late if view.may[slots].any()}
            if state is not None:
                there |= self._in_file(term for term in asked if counts[term] and term not in there)
                self._find_in_file(view, asked, sum(counts[term] for term in asked))
            newest = matched(view, late, statistics)
            view.words += newest.own
            view.window += newest.window
            view.session += newest.session
        view.known = _known(asked, there, statistics)
        best = statistics.best(asked) or 1.0
        # Words that were written between counting and looking weigh nothing.
        view.words = np.clip(view.words / np.float32(best), 0.0, 1.0)
        for scores in (view.words, view.window):
            view.chosen[view.seen(_highest(scores, self._candidates))] = True
        dated = view.seen(on_dates(columns, question)[: 4 * self._candidates])
        view.chosen[dated[: self._candidates // 2]] = True
        self._note_mentions(view, question, resident=resident)
        return view

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

    def _in_file(self, terms: Iterable[str]) -> set[str]:
        """Return those terms that stand in any text of the file which may be found."""
        sql = f"""
            select 1 from words w join docs d on d.id = w.rowid
            where words match :asked and {self._only.where} limit 1
        """  # noqa: S608 - our own text
        query = self._index.database.query
        return {term for term in terms if query(sql, {**self._only.values, "asked": f'"{term}"'})}

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

    def _note_mentions(self, view: View, question: Question, *, resident: bool) -> None:
        """Note which texts speak of somebody whom the question names, and not only to them."""
        import numpy as np

        columns = view.columns
        for name in question.people:
            stems = terms(name)
            if not stems:
                continue
            late = set.intersection(*(self._tail.having(stem) for stem in stems))
            slots = columns.slots_of(list(late))
            if resident:
                slots = np.concatenate([slots, self._index.postings.having_all(stems)])
            slots = view.seen(slots[slots >= 0])
            view.mentioned[slots[~_addressed(columns, slots, stems)]] = True


def _known(asked: Sequence[str], there: Collection[str], statistics: Statistics) -> float:
    """Return how much of what the terms of a question tell apart is `there`; what nobody may read counts as said nowhere."""
    nowhere = statistics.weight("")  # as of any term that stands in no text
    weights = [(statistics.weight(term) if term in there else nowhere, term in there) for term in asked]
    total = sum(weight for weight, _ in weights)
    return sum(weight for weight, known in weights if known) / total if total else 0.0


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
