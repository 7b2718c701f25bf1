"""The search by words: finds the texts that hold the words of a question, and those that say them in another way.

BM25, by FTS5's formula, is computed of a message, of it with its two neighbours, and of a whole session, because an answer often
does not repeat the question's words. Scores are a share of the best that these could reach: 0 to 1 for any question.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, islice
from math import log
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.languages.words import all_words
from edgemem.preload import np
from edgemem.recall.index.sources import FACT, TURN
from edgemem.recall.index.table import NOBODY
from edgemem.recall.people.names import distinctive_stems, find_people, people_of
from edgemem.recall.people.phonetics import LEAST_LETTERS, MOST, split_compound, spread
from edgemem.recall.query import lacks_subject, parse_query, with_subjects
from edgemem.recall.text.analyse import terms
from edgemem.recall.times import on_dates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.recall.index.view import QueryView
    from edgemem.recall.people.phonetics import TermWeight

    Slots = NDArray[np.intp]
    Numbers = NDArray[np.float32]

    from edgemem.recall.people.phonetics import SimilarTerm
    from edgemem.recall.query import ParsedQuery, Question

K1, B = 1.2, 0.75
MAX_TERMS = 24
MAX_MATCHES = 1500
"""A question's commonest terms are left out while the others match so many texts: each costs time, and such terms tell little."""

_SMALL = 32
"""Texts of a memory that is too small to tell which words are rare: each is taken for as rare as among so many."""
_FEW = 3  # texts with a code that is asked for
_COMMON, _COMMON_SHARE = 3, 0.1  # texts, and their share, above which a word may be a particle
_CODE = 3  # least letters and digits of one
_TOPIC, _SAID_CHARS = 8, 400  # candidates by what was said before, and of each text the last characters
_AS_GOOD, _NEWEST = 0.7, 8
"""The share of the best score by words of the newest candidates, and how many these are."""


class Statistics(msgspec.Struct, frozen=True):
    """How common terms are, in the index and the unindexed docs together."""

    docs: int
    terms: int
    """Of all texts together."""
    counts: Mapping[str, int]
    """Texts with each term."""

    def idf(self, docs: float) -> float:
        """Return the inverse document frequency, as FTS5's, of a term in so many texts."""
        # With 1 in the logarithm it is never negative (Lucene's BM25Similarity): among two facts each word is common, yet tells.
        return log(1 + max(0.0, max(self.docs, _SMALL) - docs + 0.5) / (docs + 0.5))

    def best(self, docs: Iterable[float]) -> float:
        """Return the highest possible score, given each term's number of texts."""
        return sum(map(self.idf, docs)) * (K1 + 1)

    def informative(self, terms: Sequence[str]) -> list[str]:
        """Return the terms worth looking for, rarest first, those of no text last."""
        count = self.counts.get
        rare = sorted(terms, key=lambda term: (not count(term, 0), count(term, 0), term))
        total = list(accumulate(count(term, 0) for term in rare))
        chosen = [term for term, n in zip(rare, total, strict=True) if n <= max(MAX_MATCHES, total[0])]
        return chosen[:MAX_TERMS]


def score_bm25(
    view: QueryView,
    postings: Sequence[tuple[str, Slots, Numbers]],
    asked: Mapping[str, TermWeight],
    statistics: Statistics,
) -> tuple[Slots, Slots]:
    """Note the BM25 of texts, windows and sessions in the view; return the slots of texts and of windows that may score.

    `postings` are terms with their texts' slots and counts there, `asked` their weights.
    """
    rows, n = view.table.rows, view.n
    if not postings:
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    names = [name for name, _, _ in postings]
    term_weights = np.array([[asked[name].weight] for name in names], np.float32)
    weights = term_weights * np.array([[statistics.idf(asked[name].docs)] for name in names], np.float32)
    term = np.repeat(np.arange(len(names)), [len(slots) for _, slots, _ in postings])
    slots, times = (np.concatenate([posting[part] for posting in postings]) for part in (1, 2))
    may = view.findable[slots]
    term, slots, times = term[may], slots[may], times[may]
    average = max(1.0, statistics.terms / max(1, statistics.docs))

    texts = view.with_neighbours(slots, ())
    # Each term's count in each of these texts; 0 in the last row, which is no text.
    often = np.zeros((len(texts) + 1, len(names)), np.float32)
    place = np.full(n + 1, len(texts), np.int32)
    place[texts] = np.arange(len(texts))
    often[place[slots], term] = times
    alone = np.ascontiguousarray(often[:-1].T)
    view.words[texts] = (weights * _saturated(alone, rows["length"][texts], average)).sum(axis=0)

    around = view.with_neighbours(texts[rows["kind"][texts] == TURN], (-1, 1))
    before, after = view.neighbours(around, (-1, 1))
    lengths = rows["length"]
    long = lengths[around]
    # Picking rows takes a tenth of the time of picking from each column, and weighing columns less than weighing rows.
    together = often.take(place[around], axis=0)
    for neighbours in (before, after):
        together += often.take(place[neighbours], axis=0)
        long = long + np.where(neighbours >= 0, lengths[neighbours], 0)
    windows = np.ascontiguousarray(together.T)
    view.window[around] = (weights * _saturated(windows, long, 3 * average)).sum(axis=0)
    sessions = len(view.table.sessions)
    at = term * sessions + rows["session"][slots]
    in_sessions = np.bincount(at, times, len(names) * sessions).reshape(len(names), sessions)
    view.session = _of_sessions(view, in_sessions, term_weights)
    return texts, around


def _of_sessions(view: QueryView, often: NDArray[Any], term_weights: Numbers) -> Numbers:
    """Return the BM25 of sessions by code, from each term's count in each, and its weight, `float32[n, 1]`."""
    words_in = view.words_in_sessions()
    heard_of = max(1, int(np.count_nonzero(words_in[1:])))  # one of which nothing may be read is none
    average = max(1.0, float(words_in[1:].sum()) / heard_of)
    with_term = np.count_nonzero(often[:, 1:], axis=1)[:, None]
    rare = term_weights * np.log(1 + (np.maximum(heard_of - with_term, 0) + 0.5) / (with_term + 0.5))
    scores: Numbers = (rare * _saturated(often, words_in, average)).sum(axis=0).astype(np.float32)
    scores[NOBODY] = 0.0
    return scores


def _saturated(times: Any, lengths: Any, average: float) -> Any:
    """Return the part of BM25 for so many occurrences in texts of such lengths."""
    return times * (K1 + 1) / (times + K1 * (1 - B + B * lengths / average))


class WordSearch:
    """Finds the words of one question; the caller holds the lock of the table.

    `names` has the speaker that each further name means, `reader` the asker, if known; at most `candidates` are handed over.
    """

    def __init__(
        self, view: QueryView, *, names: Mapping[str, str], reader: str | None, candidates: int
    ) -> None:
        self._view = view
        self._names = names
        self._reader = reader
        self._candidates = candidates
        self._people = people_of({*names, *view.table.people()})
        self._size = view.size()

    def look_up(self, asked: Question) -> ParsedQuery:
        """Find a question's words, and return it with the memory's knowledge of it."""
        question = self._parsed(asked)
        stems, counts = question.stems, self.counts(question.terms)
        if asked.before and lacks_subject(question, self._reader, counts):
            question = self._parsed(with_subjects(asked))
            counts = self.counts(question.terms)
        docs, words = self._size
        statistics = Statistics(docs=docs, terms=words, counts=counts)
        if asked.before:
            self._note_topic(asked.before, stems, statistics)
        if question.period is not None and not question.period.more:
            question = msgspec.structs.replace(question, terms=())
        # Words of a time that no text has find nothing, and as the rarest would count most.
        needless = {term for term in question.date_terms if not counts.get(term)}
        if question.whole.language not in all_words():  # no list tells its empty words
            most = max(_COMMON, docs * _COMMON_SHARE)
            if any(0 < count <= most for count in counts.values()):
                needless |= {term for term, count in counts.items() if count > most}
        if rest := tuple([term for term in question.terms if term not in needless]):
            question = msgspec.structs.replace(question, terms=rest)
        self._find(question, statistics)
        self._note_mentions(question)
        return question

    def _parsed(self, asked: Question) -> ParsedQuery:
        view, people = self._view, self._people
        named = find_people(asked.text, people, self, names=people, dates=asked.dates)
        subjects = [
            name
            for name in named.whole
            if len(view.visible(view.table.fact_slots(" ".join(people[name].stems))))
        ]
        return parse_query(
            asked, named, people=people, subjects=subjects, called=self._names, reader=self._reader
        )

    def counts(self, terms: Iterable[str]) -> dict[str, int]:
        """Count the texts with each term; unreadable ones do not count, so no score tells of them."""
        counts = dict.fromkeys(terms, 0)
        for term, slots, _ in self._view.table.find(counts):
            counts[term] = int(np.count_nonzero(self._view.findable[slots]))
        return counts

    def sounding_like(self, sounds: Iterable[str]) -> list[str]:
        """Return names that readable texts tell, with a word of one of some skeletons."""
        return self._view.table.names.sounding_like(sounds, self._view.readable)

    def _compounds(self, term: str, counts: Mapping[str, int]) -> Sequence[SimilarTerm]:
        """Return the shortest known compounds that end with a term, and the term's parts, if it may be a compound."""
        longer = sorted(self._view.table.similar.ending_in(term), key=lambda other: (len(other), other))
        # Unreadable ones take nobody's place.
        readable = (other for other in longer if self.counts([other])[other])
        return split_compound(term, islice(readable, MOST), known=bool(counts.get(term)))

    def _find(self, question: ParsedQuery, statistics: Statistics) -> None:
        """Find the words of the question, and those that sound or end like them."""
        view, informative = self._view, statistics.informative(question.terms)
        # A word in some text was hardly misheard, and is better looked for alone.
        unknown = [
            term
            for term in informative
            if question.english and not statistics.counts.get(term) and len(term) >= LEAST_LETTERS
        ]
        near: dict[str, Sequence[SimilarTerm]] = {
            term: view.table.similar.similar_to(term, wide=term in question.unknown_words) for term in unknown
        }
        sure = question.unknown_words
        language = all_words().get(question.whole.language)
        if language is not None and language.compounds:
            near = {term: self._compounds(term, statistics.counts) for term in informative}
            sure = frozenset(informative)
        stems = dict.fromkeys([*informative, *(other for some in near.values() for other, _ in some)])
        postings = view.table.find(stems)
        readable = {term: int(np.count_nonzero(view.readable[slots])) for term, slots, _ in postings}
        asked = spread(informative, near, {**readable, **statistics.counts}, sure)
        scored = [posting for posting in postings if posting[0] in asked]
        texts, around = score_bm25(view, scored, asked, statistics)
        for term, slots, _ in postings:
            if _is_code(term, question) and np.count_nonzero(view.findable[slots]) <= _FEW:
                view.exact[slots] = True
        docs = [asked[term].docs for term in informative]
        best = statistics.best(docs) or 1.0
        view.known_share = (K1 + 1) * sum(statistics.idf(count) for count in docs if count) / best
        hits = texts[view.words[texts] > 0]
        view.words[hits] = np.minimum(view.words[hits] / np.float32(best), 1.0)
        self._choose(hits, view.words[hits])
        self._choose_newest(hits)
        self._choose(around, view.window[around])
        if question.times:
            dated = view.visible(on_dates(view.table, question)[: 4 * self._candidates])
            view.candidates[dated[: self._candidates // 2]] = True

    def _choose(self, slots: NDArray[np.intp], scores: NDArray[np.float32]) -> None:
        view = self._view
        rows, asked = view.table.rows, view.filter
        past = rows["past"][slots]
        if not asked.past or FACT in asked.kind_refs or not past.any():
            view.candidates[view.visible(_highest(slots, scores, self._candidates))] = True
            return
        # Facts that hold no more have places of their own: of one thing there may be thousands, in the same words.
        over = slots[past]
        view.candidates[view.visible(_highest(slots[~past], scores[~past], self._candidates))] = True
        view.candidates[view.visible(_highest(over, scores[past], self._candidates, rows["at"][over]))] = True

    def _choose_newest(self, slots: NDArray[np.intp]) -> None:
        """Make candidates of the newest of those that hold about as much of the question as the best: of readings, of thousands."""
        scores = self._view.words[slots]
        alike = slots[scores >= _AS_GOOD * scores.max(initial=0.0)]
        if len(alike) > _NEWEST:
            alike = alike[np.argpartition(self._view.table.rows["at"][alike], -_NEWEST)[-_NEWEST:]]
        self._view.candidates[self._view.visible(alike)] = True

    def _note_mentions(self, question: ParsedQuery) -> None:
        """Note the texts that speak of a person in the question, and not only to them."""
        view = self._view
        for name in question.people.values():
            if not name.stems:
                continue
            texts = {stem: self._having(stem) for stem in name.stems}
            named = np.logical_and.reduce(list(texts.values()))
            for stem in distinctive_stems(name, self._people) if question.english else ():
                named |= texts[stem]
            called, stems = view.table.called, frozenset(name.stems)
            slots = view.visible(np.flatnonzero(named)).tolist()
            view.mentions[[slot for slot in slots if not stems <= called.get(slot, frozenset())]] = True

    def _note_topic(self, before: Sequence[str], own: Collection[str], statistics: Statistics) -> None:
        """Note the idf in each text of the rarest words that were said before, and are not the question's own.

        The name of somebody counts for what they told of themselves, too.
        """
        view, rarest = self._view, statistics.idf(1)
        said = {term for text in before for term in terms(text[-_SAID_CHARS:])}.difference(own)
        found = {term: view.visible(slots) for term, slots, _ in view.table.find(said)}
        counts = {term: len(slots) for term, slots in found.items() if len(slots)}
        statistics = msgspec.structs.replace(statistics, counts=counts)
        weights = {term: statistics.idf(count) for term, count in counts.items()}
        for term in statistics.informative([*counts]):
            view.topic[found[term]] += weights[term]
        for name, known in self._people.items():
            named = said.intersection(known.stems)
            if named and (
                len(named) == len({*known.stems}) or named & distinctive_stems(known, self._people)
            ):
                own_texts = view.own([name, self._names.get(name, name)], slice(view.n))
                weight = max(weights.get(stem, rarest) for stem in named)
                view.topic[view.visible(np.flatnonzero(own_texts))] += weight
        view.candidates[_highest(np.arange(view.n), view.topic[: view.n], _TOPIC)] = True

    def _having(self, stem: str) -> NDArray[np.bool_]:
        here = np.zeros(self._view.n + 1, bool)
        for _, slots, _ in self._view.table.find([stem]):
            here[slots] = True
        return here[:-1]


def _is_code(term: str, question: ParsedQuery) -> bool:
    """Tell whether a term is a number, a code or a rare name, and so is meant as it is written."""
    if len(term) < _CODE or term in question.date_terms:
        return False
    return any(map(str.isdecimal, term)) or (question.english and term in question.unknown_words)


def _highest(
    slots: NDArray[np.intp], scores: NDArray[np.float32], most: int, at: NDArray[np.float64] | None = None
) -> NDArray[np.intp]:
    """Return at most `most` slots with the highest scores above 0; of equals the latest by `at`."""
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
