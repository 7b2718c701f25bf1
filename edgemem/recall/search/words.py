"""The search by words: finds the words of a question in memory, or in the file while memory does not hold them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from edgemem.errors import CorruptError
from edgemem.recall.index.sources import bound, in_batches, marks
from edgemem.recall.index.state import FIRST_OTHER, PRIVATE
from edgemem.recall.people.alike import LEAST_LETTERS, MOST, parted, spread
from edgemem.recall.people.names import LONG, Ways, people_heard, people_in, ways_of, with_names, with_people
from edgemem.recall.rank.period import in_period
from edgemem.recall.search.bm25 import K1, Occurrences, Statistics, bm25_scores, occurrences_of
from edgemem.recall.search.table import BESIDE, COLUMNS, DocTable, Row, sound_row
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
    from edgemem.recall.query import ParsedQuery
    from edgemem.recall.search.table import Filter
    from edgemem.recall.search.tail import Tail
    from edgemem.store.db.database import Database

    Docs = NDArray[np.int64]
    Posting = tuple[str, NDArray[np.intp], NDArray[np.float32]]


_FEW = 3  # texts that a misheard name may stand in
_WEEK_S = 7 * 86400.0
MOST_READ = 1500
"""Texts of a file that are read in, at most; each takes some 30 µs, with those beside it."""


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
        self._file: FileWords | None = None
        """The words of the file, where memory does not hold them."""

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
        if self._patient and self._state is not None:
            postings.warm(self._state)
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
        """Return the table as this question sees it: that of all docs, or an empty one where memory does not hold them."""
        postings, read = self._index.postings, None
        if self._state is not None and postings.follow(self._state):
            columns = postings.columns
        else:
            columns = DocTable()
            if self._state is not None:
                self._file, read = FileWords(self._index.database, self._only), self._rows_of
        self._tail.pour(columns)
        return View(columns, self._only, read)

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
        stems = {name: " ".join(terms(name)) for name in people}
        if not stems:
            return set()
        about = {number: doc.subject for number, doc in self._tail.docs.items() if doc.subject}
        slots = view.take_up(list(about)).tolist()
        known = {subject for subject, slot in zip(about.values(), slots, strict=True) if slot >= 0}
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
        """Return how common some terms are."""
        docs, words = view.size()
        if self._file is not None:
            more_docs, more_words = self._file.size()
            docs, words = docs + more_docs, words + more_words
        return Statistics(docs=docs, terms=words, counts=self._counts(view, asked))

    def _counts(self, view: View, asked: Iterable[str]) -> dict[str, int]:
        """Return in how many texts each term stands; what may not be read has no say, so that no score tells of it."""
        import numpy as np

        counts = dict.fromkeys(asked, 0)
        for term, slots, _ in view.columns.find(counts):
            counts[term] += int(np.count_nonzero(view.may[slots]))
        if self._file is not None:
            for term, count in self._file.counts(list(counts)).items():
                counts[term] += count
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
        occurrences, counts = self._occurrences(view, list(stems), statistics)
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

    def _occurrences(
        self, view: View, stems: list[str], statistics: Statistics
    ) -> tuple[Occurrences, dict[str, int]]:
        """Return where terms stand, and in how many texts, reading those in that memory does not hold, with their neighbours."""
        import numpy as np

        if self._file is None or self._state is None:
            occurrences = occurrences_of(view, view.columns.find(stems))
            return occurrences, occurrences.counts
        counts = {
            **statistics.counts,
            **self._file.counts([term for term in stems if term not in statistics.counts]),
        }
        idf = {term: statistics.idf(counts[term]) for term in stems}
        postings = self._file.find(stems, counts, idf)
        docs = np.unique(np.concatenate([np.zeros(0, np.int64), *(docs for docs, _ in postings.values())]))
        beside = [docs[docs < FIRST_OTHER] + step for step in BESIDE]
        last = self._state.last_message  # what was said since stands beside it
        view.read(np.unique(np.concatenate([docs, *beside, [last - 1, last]])).tolist())
        here: list[Posting] = []
        for term, (numbers, times) in postings.items():
            slots = view.columns.slots_of(numbers.tolist())
            here.append((term, slots[slots >= 0], times[slots >= 0]))
        occurrences = occurrences_of(view, [*here, *view.columns.find(stems)])
        return occurrences, {**occurrences.counts, **counts}

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
        if self._file is not None:
            here[view.columns.slots_of(self._file.having(stem).tolist())] = True
        return here[:-1]


class FileWords:
    """The words of an index file as one reader may know them, while memory does not hold them; made for one question.

    That is so between opening a file and the first idle moment, and after very much was written. It counts and weighs as
    memory does, what a reader may not read having no say; but of very many texts only those are looked at that have most
    of the question's words.

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
            counts = dict.fromkeys(terms, 0)
            sql = f"select term, doc from vocabulary where term in ({marks(terms)})"  # noqa: S608 - ours
            counts.update(self._database.query(sql, bound(terms)))
            return counts
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
        if len(numbers) <= MOST_READ:
            return postings
        worth = np.concatenate(
            [idf.get(term, 0.0) * times * (K1 + 1) / (times + K1) for term, (_, times) in postings.items()]
        )
        best = np.lexsort((-numbers, -np.bincount(place, worth)))[:MOST_READ]
        kept_docs = np.sort(numbers[best])
        return {
            term: (docs[here], times[here])
            for term, (docs, times) in postings.items()
            if (here := np.isin(docs, kept_docs)).any()
        }

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
