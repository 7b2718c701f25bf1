"""The search by words: finds the words of a question in memory, in the file and in the tail."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from edgemem.errors import CorruptError
from edgemem.recall.index.sources import bound, in_batches, marks
from edgemem.recall.index.state import FIRST_OTHER
from edgemem.recall.people.alike import LEAST_LETTERS, MOST, parted, spread
from edgemem.recall.people.names import LONG, Ways, people_heard, people_in, ways_of, with_names, with_people
from edgemem.recall.query import ParsedQuery
from edgemem.recall.rank.period import in_period
from edgemem.recall.search.bm25 import K1, Statistics, bm25_scores, occurrences_of
from edgemem.recall.search.file_words import FileWords
from edgemem.recall.search.table import BESIDE, COLUMNS, Columns, Row, sound_row
from edgemem.recall.search.view import View
from edgemem.recall.text.analyse import terms
from edgemem.recall.times import on_dates, on_days, spoken_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.index.index import Index
    from edgemem.recall.index.state import State
    from edgemem.recall.people.alike import Alike
    from edgemem.recall.search.table import Filter
    from edgemem.recall.search.tail import Tail


_FEW = 3  # texts that a misheard name may stand in
_WEEK_S = 7 * 86400.0
_SOON_READ = 20_000
"""The number of texts that a patient caller reads into memory: half a second."""


class WordSearch:
    """Finds the words of one question; whoever calls holds the tail.

    Args:
        state: how far the index has come; None: do without it.
        tail: what the index does not know yet.
        only: what may be found.
        candidates: how many the words hand over.
        patient: whether it may take as long as it needs.
    """

    def __init__(
        self,
        index: Index,
        state: State | None,
        tail: Tail,
        only: Filter,
        *,
        candidates: int,
        patient: bool = False,
    ) -> None:
        self._index = index
        self._state = state
        self._tail = tail
        self._only = only
        self._candidates = candidates
        self._patient = patient
        self._resident = False
        """Whether memory holds the words of the index."""
        self._file: FileWords | None = None
        """The words of the file, where it does not."""

    def look_up(
        self, asked: ParsedQuery, *, names: Mapping[str, str], reader: str | None
    ) -> tuple[ParsedQuery, View]:
        """Find the words of a question.

        Args:
            names: further names of people who speak here, each with the speaker that it means.
            reader: who asks, if known.
        """
        people = {*names, *self._tail.people, *self._people()}
        query = with_people(asked.text, people)
        question = self._read(asked, query, people, reader)
        postings = self._index.postings
        state = self._state
        if self._patient and state is not None and state.docs <= _SOON_READ:
            postings.warm(state)
        with postings.lock:
            self._resident = self._state is not None and postings.follow(self._state)
            columns = postings.columns if self._resident else Columns()
            self._tail.pour(columns)
            if self._state is not None and not self._resident:
                self._file = FileWords(self._index.database, self._only)
            view = View(columns, self._only, self._rows_of if self._file is not None else None)
            statistics = self._statistics(view, question.terms)
            heard = query
            if question.alone is None or question.alone.left:  # else no word is left that may be a name
                heard = self._heard(query, question, statistics, names, people)
            if heard != query:
                question = self._read(asked, heard, people, reader)
                statistics = self._statistics(view, question.terms)
            if question.english:
                question = question.of(
                    question.people | people_heard(question.meaning, people, question.people)
                )
            question = question.of(question.people.union(names[n] for n in question.people if n in names))
            question = question.but([term for term in question.dates if not statistics.counts.get(term)])
            if question.alone is not None:
                question = question.settled(alone=self._is_alone(view, question))
            self._find(view, question, statistics, people)
            return question, view

    def _is_alone(self, view: View, question: ParsedQuery) -> bool:
        """Tell whether the period of a question ranks its answers alone, as no text of it holds the one word that is left, if any.

        Where the period is longer than a week, no text at all may hold it: in spring somebody spoke of the shovel for winter.
        """
        import numpy as np

        alone = question.alone
        if alone is None:
            return False
        if self._file is not None and self._patient:
            view.read(self._file.of_times(question.times, alone.talk))
        if not alone.left:
            return True
        of_then = in_period(view, question, question.at) | (spoken_of(view.columns, question)[: view.n] > 0)
        having = view.may[: view.n].copy()
        for stems in alone.left:
            having &= np.logical_or.reduce([self._having(view.columns, stem)[: view.n] for stem in stems])
        if all(end - begin <= _WEEK_S for begin, end, _ in question.times):
            having &= of_then
        return bool((of_then & view.may[: view.n]).any() and not having.any())

    def _people(self) -> list[str]:
        if self._state is None:
            return []
        rows = self._index.database.query("select name from people")
        return [name for (name,) in rows if isinstance(name, str)]

    def _read(
        self, asked: ParsedQuery, text: str, people: Collection[str], reader: str | None
    ) -> ParsedQuery:
        named = people_in(text, people)
        return asked.resolved(text, people=named, subjects=self._subjects(named), reader=reader)

    def _subjects(self, people: Collection[str]) -> set[str]:
        """Return the people whom facts are about."""
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
        question: ParsedQuery,
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

        What may not be read has no say, so that no score tells of it.
        """
        late = self._tail.find(asked, view.columns)
        counts = occurrences_of(view, late).counts
        if self._resident:
            postings = self._index.postings
            counts = {term: counts.get(term, 0) + postings.count(term, view) for term in asked}
        docs, words = view.columns.size(self._only)
        if self._file is not None:
            more_docs, more_words = self._file.size()
            docs, words = docs + more_docs, words + more_words
            for term, count in self._file.counts(asked).items():
                counts[term] = counts.get(term, 0) + count
        return Statistics(docs=docs, terms=words, counts=counts)

    def _occurrences(self, view: View, asked: Iterable[str]) -> list[tuple[str, Any, Any]]:
        """Return the postings of terms in memory and in the tail: each with its slots, and how often it stands there."""
        stems = list(asked)
        late = self._tail.find(stems, view.columns)
        return [*self._index.postings.find(stems), *late] if self._resident else late

    def _near(self, term: str, *, wide: bool) -> list[Alike]:
        """Return the terms of the memory and of the tail that sound like a term."""
        alikes: Sequence[Alike] = ()
        if self._file is None:
            alikes = self._index.postings.alikes.near(term, wide=wide)
        elif self._patient:
            alikes = self._file.near(term, wide=wide)
        return list({**dict(alikes), **dict(self._tail.alikes.near(term, wide=wide))}.items())

    def _parted(self, view: View, term: str, *, known: bool) -> list[Alike]:
        """Return the shortest known compounds that end with a term, and the parts of the term, if it may be a compound."""
        compounds = self._index.postings.alikes.ending_in(term) if self._resident else ()
        longer = sorted(sorted({*compounds, *self._tail.alikes.ending_in(term)}), key=len)
        # What may not be read takes nobody's place.
        readable = (other for other in longer if self._statistics(view, [other]).counts.get(other))
        return parted(term, islice(readable, MOST), known=known)

    def _find(
        self, view: View, question: ParsedQuery, statistics: Statistics, people: Collection[str]
    ) -> None:
        """Find the words of the question, and those that sound or end like them, in memory, in the file and in the tail."""
        import numpy as np

        informative = statistics.informative(question.terms)
        # What stands somewhere was hardly misheard, and is better looked for alone.
        unknown = [
            term
            for term in informative
            if question.english and not statistics.counts.get(term) and len(term) >= LEAST_LETTERS
        ]
        near = {term: self._near(term, wide=term in question.strange) for term in unknown}
        sure = question.strange
        if question.language == "de":
            near = {
                term: self._parted(view, term, known=bool(statistics.counts.get(term)))
                for term in informative
            }
            sure = frozenset(informative)
        stems = dict.fromkeys([*informative, *(other for some in near.values() for other, _ in some)])
        in_file = self._find_in_file(view, list(stems), statistics)
        if self._file is not None and self._patient:
            view.read(self._file.about(question.people, question.times))
        occurrences = occurrences_of(view, [*in_file, *self._occurrences(view, stems)])
        counts = occurrences.counts
        if self._file is not None:
            counts = counts | self._file.counts([term for term in stems if term not in informative])
        asked = spread(informative, near, {**counts, **statistics.counts}, sure)
        occurrences = occurrences.of(asked)
        scores = bm25_scores(view, occurrences, asked, statistics)
        view.words, view.window, view.session = scores.own, scores.window, scores.session
        docs = [asked[term].docs for term in informative]
        best = statistics.best(docs) or 1.0
        view.known = (K1 + 1) * sum(statistics.idf(count) for count in docs if count) / best
        hits = scores.texts[scores.own[scores.texts] > 0]
        view.words[hits] = np.minimum(view.words[hits] / np.float32(best), 1.0)
        self._choose(view, hits, view.words[hits])
        self._choose(view, scores.around, view.window[scores.around])
        dated = view.seen(on_dates(view.columns, question)[: 4 * self._candidates])
        view.chosen[dated[: self._candidates // 2]] = True
        if question.times and not len(hits):  # "what did we do yesterday?": there is nothing else to go by
            then = view.seen(on_days(view.columns, question))
            view.chosen[then[-self._candidates :]] = True
        self._note_mentions(view, question, people)

    def _choose(self, view: View, slots: NDArray[np.intp], scores: NDArray[np.float32]) -> None:
        """Make candidates of the slots with the highest scores."""
        rows = view.columns.rows
        past = rows["past"][slots]
        if not self._only.past or self._only.held is not None or not past.any():
            view.chosen[view.seen(_highest(slots, scores, self._candidates))] = True
            return
        # What does not hold any more has places of its own: of one thing there may be thousands, which all say the same words.
        over = slots[past]
        view.chosen[view.seen(_highest(slots[~past], scores[~past], self._candidates))] = True
        view.chosen[view.seen(_highest(over, scores[past], self._candidates, rows["at"][over]))] = True

    def _find_in_file(
        self, view: View, stems: Sequence[str], statistics: Statistics
    ) -> list[tuple[str, Any, Any]]:
        """Read in the texts that terms stand in, and their neighbours, where memory does not hold them; return the postings."""
        if self._file is None or self._state is None:
            return []
        import numpy as np

        others = [term for term in stems if term not in statistics.counts]
        counts = {**statistics.counts, **self._file.counts(others)}
        idf = {term: statistics.idf(counts[term]) for term in stems}
        postings = self._file.find(stems, counts, idf)
        docs = np.unique(np.concatenate([np.zeros(0, np.int64), *(docs for docs, _ in postings.values())]))
        beside = [docs[docs < FIRST_OTHER] + step for step in BESIDE]
        last = self._state.last_message  # what was said since stands beside it
        view.read(np.unique(np.concatenate([docs, *beside, [last - 1, last]])).tolist())
        occurrences = []
        for term, (at, times) in postings.items():
            slots = view.columns.slots_of(at.tolist())
            occurrences.append((term, slots[slots >= 0], times[slots >= 0]))
        return occurrences

    def _rows_of(self, numbers: Sequence[int]) -> list[Row]:
        """Read the rows of those docs that may be found."""
        rows: list[Row] = []
        for ids in in_batches(numbers):
            batch = self._index.database.query(
                f"select {COLUMNS} from docs d where d.id in ({marks(ids)}) and {self._only.where}",  # noqa: S608 - ours
                {**bound(ids), **self._only.values},
            )
            rows += self._rows(batch)
        return rows

    def _rows(self, rows: Iterable[tuple[Any, ...]]) -> list[Row]:
        try:
            return [sound_row(row) for row in rows]
        except ValueError as error:
            raise CorruptError(
                f"{self._index.path} is damaged: a row cannot be ({error}); it is made again by itself."
            ) from error

    def _note_mentions(self, view: View, question: ParsedQuery, people: Collection[str]) -> None:
        """Note the texts that speak of a person whom the question names, and not only to them."""
        import numpy as np

        columns = view.columns
        for name in question.people:
            stems = terms(name)
            if not stems:
                continue
            ways = self._ways(view, name, people) if question.english else Ways.of(stems)
            texts = {stem: self._having(columns, stem) for stem in ways.all()}
            named = np.ones(columns.n, bool)
            for part in ways.parts:
                named &= np.logical_or.reduce([texts[stem] for stem in part])
            for stem in ways.alone:
                named |= texts[stem]
            slots = view.seen(np.flatnonzero(named))
            view.mentioned[slots[~_addressed(columns, slots, stems)]] = True

    def _ways(self, view: View, name: str, people: Collection[str]) -> Ways:
        """Return by which stems the memory speaks of somebody."""
        few = max(_FEW, view.columns.size(self._only)[0] // 100)

        def is_rare(term: str) -> bool:
            return self._statistics(view, [term]).counts.get(term, 0) <= few

        near = {stem: self._near(stem, wide=len(stem) >= LONG) for stem in terms(name)}
        return ways_of(name, people, near, is_rare)

    def _having(self, columns: Columns, stem: str) -> NDArray[np.bool_]:
        """Tell which texts a stem stands in."""
        import numpy as np

        here = np.zeros(columns.n, bool)
        late = columns.slots_of(self._tail.having(stem))
        here[late[late >= 0]] = True
        if self._resident:
            here[self._index.postings.having(stem)] = True
        elif self._file is not None:
            slots = columns.slots_of(self._file.having(stem).tolist())
            here[slots[slots >= 0]] = True
        return here


def _addressed(columns: Columns, slots: NDArray[np.intp], stems: Collection[str]) -> NDArray[np.bool_]:
    """Tell which texts address somebody of this name."""
    import numpy as np

    addressed, codes = np.zeros(len(slots), np.bool_), columns.rows["called"][slots]
    called = np.flatnonzero(codes)  # most speak to nobody
    addressed[called] = [columns.callings[code].issuperset(stems) for code in codes[called].tolist()]
    return addressed


def _highest(
    slots: NDArray[np.intp],
    scores: NDArray[np.float32],
    most: int,
    at: NDArray[np.float64] | None = None,
) -> NDArray[np.intp]:
    """Return the slots with the highest scores above 0, at most `most`.

    Args:
        at: when each was; of equals, the latest are taken.
    """
    import numpy as np

    best = np.flatnonzero(scores > 0)
    if len(best) > most:
        values = scores[best]
        if at is None:
            best = best[np.argpartition(-values, most)[:most]]
        else:
            least = np.partition(values, -most)[-most]
            more, even = best[values > least], best[values == least]
            left = most - len(more)
            best = np.concatenate([more, even[np.argpartition(-at[even], left - 1)[:left]]])
    highest: NDArray[np.intp] = slots[best]
    return highest
