"""The search by words: finds the texts that hold the words of a question, and those that say them in another way."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from edgemem.recall.people.alike import LEAST_LETTERS, MOST, parted, spread
from edgemem.recall.people.names import LONG, Ways, people_heard, people_in, ways_of, with_names, with_people
from edgemem.recall.rank.period import in_period
from edgemem.recall.search.bm25 import K1, Statistics, bm25_scores, occurrences_of
from edgemem.recall.search.table import DocTable
from edgemem.recall.search.view import View
from edgemem.recall.text.analyse import terms
from edgemem.recall.times import on_dates, on_days, spoken_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.index.index import Index
    from edgemem.recall.index.state import State
    from edgemem.recall.people.alike import Alike
    from edgemem.recall.query import ParsedQuery
    from edgemem.recall.search.table import Filter
    from edgemem.recall.search.tail import Tail


_FEW = 3  # texts that a misheard name may stand in
_WEEK_S = 7 * 86400.0


class WordSearch:
    """Finds the words of one question; whoever calls holds the tail.

    Args:
        state: how far the index has come; None: do without it.
        tail: what the index does not know yet.
        only: what may be found.
        candidates: how many the words hand over.
        stop: asked while texts of the index are read into memory; None: all are.
    """

    def __init__(
        self,
        index: Index,
        state: State | None,
        tail: Tail,
        only: Filter,
        *,
        candidates: int,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        self._index = index
        self._state = state
        self._tail = tail
        self._only = only
        self._candidates = candidates
        self._stop = stop
        self.late = False
        """Whether memory does not hold all texts of the index, as there was no time to read them."""

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
        postings = self._index.postings
        with postings.lock:
            view = self._view()
            question = self._read(view, asked, query, people, reader)
            statistics = self._statistics(view, question.terms)
            heard = query
            if question.alone is None or question.alone.left:  # else no word is left that may be a name
                heard = self._heard(query, question, statistics, names, people)
            if heard != query:
                question = self._read(view, asked, heard, people, reader)
                statistics = self._statistics(view, question.terms)
            if question.english:
                question = question.of(
                    question.people | people_heard(question.meaning, people, question.people)
                )
            question = question.of(question.people.union(names[n] for n in question.people if n in names))
            question = question.but([term for term in question.dates if not statistics.counts.get(term)])
            if question.alone is not None:
                question = question.settled(alone=self._is_alone(view, question))
            self._find(view, question, statistics)
            self._note_mentions(view, question, statistics, people)
            return question, view

    def _view(self) -> View:
        """Return the table as this question sees it."""
        columns = DocTable()
        if self._state is not None:
            self.late = not self._index.postings.follow(self._state, self._stop)
            columns = self._index.postings.columns
        self._tail.pour(columns)
        return View(columns, self._only)

    def _is_alone(self, view: View, question: ParsedQuery) -> bool:
        """Tell whether the period of a question ranks its answers alone, as no text of it holds the one word that is left, if any.

        Where the period is longer than a week, no text at all may hold it: in spring somebody spoke of the shovel for winter.
        """
        import numpy as np

        alone = question.alone
        if alone is None:
            return False
        if not alone.left:
            return True
        of_then = in_period(view, question, question.at) | (spoken_of(view.columns, question)[: view.n] > 0)
        having = view.may[: view.n].copy()
        for stems in alone.left:
            having &= np.logical_or.reduce([self._having(view, stem) for stem in stems])
        if all(end - begin <= _WEEK_S for begin, end, _ in question.times):
            having &= of_then
        return bool((of_then & view.may[: view.n]).any() and not having.any())

    def _people(self) -> list[str]:
        if self._state is None:
            return []
        rows = self._index.database.query("select name from people")
        return [name for (name,) in rows if isinstance(name, str)]

    def _read(
        self, view: View, asked: ParsedQuery, text: str, people: Collection[str], reader: str | None
    ) -> ParsedQuery:
        named = people_in(text, people)
        return asked.resolved(text, people=named, subjects=self._subjects(view, named), reader=reader)

    def _subjects(self, view: View, people: Collection[str]) -> set[str]:
        """Return the people whom facts are about."""
        return {name for name in people if len(view.seen(view.columns.about(" ".join(terms(name)))))}

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
        """Return how common some terms are."""
        docs, words = view.size()
        return Statistics(docs=docs, terms=words, counts=self._counts(view, asked))

    def _counts(self, view: View, asked: Iterable[str]) -> dict[str, int]:
        """Return in how many texts each term stands; what may not be read has no say, so that no score tells of it."""
        import numpy as np

        counts = dict.fromkeys(asked, 0)
        for term, slots, _ in view.columns.find(counts):
            counts[term] += int(np.count_nonzero(view.may[slots]))
        return counts

    def _parted(self, view: View, term: str, *, known: bool) -> list[Alike]:
        """Return the shortest known compounds that end with a term, and the parts of the term, if it may be a compound."""
        longer = sorted(sorted(view.columns.ending_in(term)), key=len)
        # What may not be read takes nobody's place.
        readable = (other for other in longer if self._counts(view, [other])[other])
        return parted(term, islice(readable, MOST), known=known)

    def _find(self, view: View, question: ParsedQuery, statistics: Statistics) -> None:
        """Find the words of the question, and those that sound or end like them."""
        import numpy as np

        informative = statistics.informative(question.terms)
        # What stands somewhere was hardly misheard, and is better looked for alone.
        unknown = [
            term
            for term in informative
            if question.english and not statistics.counts.get(term) and len(term) >= LEAST_LETTERS
        ]
        near = {term: view.columns.near(term, wide=term in question.strange) for term in unknown}
        sure = question.strange
        if question.language == "de":
            near = {
                term: self._parted(view, term, known=bool(statistics.counts.get(term)))
                for term in informative
            }
            sure = frozenset(informative)
        stems = dict.fromkeys([*informative, *(other for some in near.values() for other, _ in some)])
        occurrences = occurrences_of(view, view.columns.find(stems))
        asked = spread(informative, near, {**occurrences.counts, **statistics.counts}, sure)
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

    def _note_mentions(
        self, view: View, question: ParsedQuery, statistics: Statistics, people: Collection[str]
    ) -> None:
        """Note the texts that speak of a person whom the question names, and not only to them."""
        import numpy as np

        for name in question.people:
            stems = terms(name)
            if not stems:
                continue
            ways = self._ways(view, name, statistics, people) if question.english else Ways.of(stems)
            texts = {stem: self._having(view, stem) for stem in ways.all()}
            named = np.ones(view.n, bool)
            for part in ways.parts:
                named &= np.logical_or.reduce([texts[stem] for stem in part])
            for stem in ways.alone:
                named |= texts[stem]
            slots = view.seen(np.flatnonzero(named))
            view.mentioned[slots[~_addressed(view.columns, slots, stems)]] = True

    def _ways(self, view: View, name: str, statistics: Statistics, people: Collection[str]) -> Ways:
        """Return by which stems the memory speaks of somebody."""
        few = max(_FEW, statistics.docs // 100)

        def is_rare(term: str) -> bool:
            return self._counts(view, [term])[term] <= few

        near = {stem: view.columns.near(stem, wide=len(stem) >= LONG) for stem in terms(name)}
        return ways_of(name, people, near, is_rare)

    def _having(self, view: View, stem: str) -> NDArray[np.bool_]:
        """Tell which of the slots that a question sees hold a stem."""
        import numpy as np

        here = np.zeros(view.n + 1, bool)
        for _, slots, _ in view.columns.find([stem]):
            here[slots] = True
        return here[:-1]


def _addressed(columns: DocTable, slots: NDArray[np.intp], stems: Collection[str]) -> NDArray[np.bool_]:
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
