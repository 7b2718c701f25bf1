"""Search: one question on its way through the signals, within a deadline.

Words are looked up first, because that always takes little; then the question is embedded under its own share of
the deadline; what is late is left out. The best of both, with the messages beside them, are fused.
"""

from __future__ import annotations

from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.errors import ClosedError, ModelError
from edgemem.recall.candidates import COLUMNS, Candidate, Filter
from edgemem.recall.fusion import Signals, Weights, fact_meaning, own_score, score
from edgemem.recall.lexical import Statistics, count_docs, match
from edgemem.recall.question import Question, people_in, read_question
from edgemem.recall.sounds import with_names
from edgemem.recall.sources import TURN, Doc, bound, in_batches, marks
from edgemem.recall.state import FIRST_OTHER, State
from edgemem.recall.words import terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from edgemem.llama.protocols import Embedder
    from edgemem.recall.index import Index
    from edgemem.recall.tail import Tail

_HALF_LIFE_S = 30 * 86400.0
_FEWEST = 8  # candidates by meaning that a reader must be left with, before more are looked for


class RecallStats(msgspec.Struct, frozen=True):
    """How one recall went."""

    embed_ms: float = 0.0
    search_ms: float = 0.0
    """Everything but the embedding of the question, whole and without its subject."""
    signals: tuple[str, ...] = ()
    """What could be used: `words`, `meaning`."""
    late: bool = False
    """Whether the deadline cut something off."""
    candidates: int = 0


class Limits(NamedTuple):
    """How much one search may take."""

    candidates: int = 64
    """What the words hand over to the fusion; meaning hands over half, since each costs more."""
    embed_s: float = 0.08
    deadline: float | None = None
    """By the monotonic clock; None: take the time it needs."""


class Hit(NamedTuple):
    """A candidate with its score."""

    score: float
    signals: Signals
    candidate: Candidate


class Search:
    """One question; made anew for each.

    Args:
        state: how far the index has come; None: do without it.
        tail: what the index does not know yet.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        index: Index,
        state: State | None,
        embedder: Embedder | None,
        allowed: Filter,
        limits: Limits,
        weights: Weights,
        *,
        now: float,
    ) -> None:
        self._index = index
        self._state = state
        self._embedder = embedder
        self._allowed = allowed
        self._limits = limits
        self._weights = weights
        self._now = now
        self._tail: Mapping[int, Doc] = {}
        self._candidates: dict[int, Candidate] = {}
        self._words: dict[int, float] = {}
        self._meaning: dict[int, float] | None = None
        self._people: frozenset[str] = frozenset()
        self._resident = False
        """Whether memory holds the words of the index, as of the last count."""
        self.embed_s = 0.0
        self.late = False

    @property
    def signals(self) -> tuple[str, ...]:
        """Return what could be used."""
        return (("words",) if self._words else ()) + (("meaning",) if self._meaning is not None else ())

    @property
    def candidates(self) -> int:
        """Return how many candidates were fused."""
        return len(self._candidates)

    def look_up_words(
        self, query: str, tail: Tail, *, names: Mapping[str, str], reader: str | None
    ) -> Question:
        """Take the question apart and find its words; whoever calls holds the tail."""
        people = {*names, *tail.people()}
        if self._state is not None:
            people.update(name for (name,) in self._index.database.query("select name from people"))
        self._tail = {number: doc for number, doc in tail.docs.items() if self._allowed.allows(doc)}
        question = self._take_apart(query, people, reader)
        counts = self._count(question, tail)
        subjects = {doc.subject for doc in self._tail.values() if doc.subject}
        heard = with_names(
            query,
            [term for term in question.terms if not counts[term]],
            names={*names, *tail.people(), *subjects},
            database=self._index.database if self._state is not None else None,
        )
        if heard != query:
            question = self._take_apart(heard, people, reader)
            counts = self._count(question, tail)
        self._people = question.people.union(names[name] for name in question.people if name in names)
        if question.terms:
            self._words = self._match(question, tail, counts)
        return question

    def look_up_meaning(self, question: Question) -> None:
        """Embed the question, find what is near to it, and how near the words' finds are."""
        vectors = self._index.space(self._state) if self._state is not None else None
        if vectors is None or self._embedder is None or not question.meaning:
            return
        vector = self._embed(self._embedder, question.meaning)
        if vector is None or self._is_late():
            return
        wanted = max(1, self._limits.candidates // 2)
        near = dict(vectors.nearest(vector, wanted))
        readable = self._found_again(near)
        if len(near) == wanted and len(readable) < _FEWEST:
            # Most of what is near is somebody else's, or in the prompt already.
            near = dict(vectors.nearest(vector, 4 * wanted))
            readable = self._found_again(near)
        self._meaning = {number: near[number] for number in readable}
        self._meaning.update(vectors.cosines(vector, self._words.keys() - self._meaning.keys()))
        self._look_up_relations(question, self._embedder, self._meaning)

    def rank(self) -> list[Hit]:
        """Return the best candidates and the messages beside them, best first."""
        own = {number: self._own(number) for number in self._words.keys() | (self._meaning or {}).keys()}
        if not own:
            own = dict.fromkeys(self._newest(), 0.0)
        best = sorted(own, key=lambda number: (-own[number], number))[: self._limits.candidates]
        self._add_beside(best)
        hits = self._score(own)
        hits.sort(key=lambda hit: (-hit.score, -hit.candidate.at, -hit.candidate.ref))
        return hits

    def _subjects(self, people: Collection[str]) -> set[str]:
        """Return those people that facts are about."""
        stems = {name: " ".join(terms(name)) for name in people}
        if not stems:
            return set()
        known = {doc.subject for doc in self._tail.values()}
        if self._state is not None:
            asked = list(stems.values())
            rows = self._index.database.query(
                f"select distinct d.subject from docs d where d.subject in ({marks(asked)})"  # noqa: S608 - ours
                f" and {self._allowed.where}",
                {**bound(asked), **self._allowed.values},
            )
            known.update(subject for (subject,) in rows)
        return {name for name in people if stems[name] in known}

    def _take_apart(self, query: str, people: Collection[str], reader: str | None) -> Question:
        named = people_in(query, people)
        return read_question(query, people=named, subjects=self._subjects(named), reader=reader)

    def _count(self, question: Question, tail: Tail) -> dict[str, int]:
        """Return in how many texts each term stands."""
        counts = tail.counts(question.terms)
        if self._state is not None and question.terms:
            known = self._index.postings.counts(self._state, question.terms)
            self._resident = known is not None
            for term, count in (known or count_docs(self._index.database, question.terms)).items():
                counts[term] += count
        return counts

    def _match(self, question: Question, tail: Tail, counts: Mapping[str, int]) -> dict[int, float]:
        state, database = self._state, self._index.database
        statistics = Statistics(
            docs=(state.docs if state else 0) + len(tail.docs),
            terms=(state.terms if state else 0) + tail.terms,
            counts=counts,
        )
        asked = statistics.telling(question.terms)
        scores = {n: score for n, score in tail.match(asked, statistics).items() if n in self._tail}
        if self._resident:
            scores.update(self._match_in_memory(asked, statistics))
        elif state is not None:
            rows = match(
                database,
                asked,
                columns=COLUMNS,
                where=self._allowed.where,
                values=self._allowed.values,
                limit=self._limits.candidates,
                at_most=sum(counts[term] for term in asked),
            )
            for found, number, *columns in rows:
                self._candidates[number] = Candidate(*columns)
                scores[number] = found
        # Words that were written between counting and looking weigh nothing.
        best = statistics.best(asked) or 1.0
        return {number: min(1.0, max(0.0, found / best)) for number, found in scores.items()}

    def _match_in_memory(self, asked: Sequence[str], statistics: Statistics) -> dict[int, float]:
        """Return the scores of what may be found; memory knows the words, and the file who may read them."""
        limit = self._limits.candidates
        scores: dict[int, float] = {}
        # A few more than wanted nearly always leave enough that may be found; each costs a look-up in the file.
        for most in (limit + limit // 4, 4 * limit, statistics.docs):
            found = self._index.postings.best(asked, statistics, most)
            readable = self._read(number for number, _ in found)
            scores = dict(islice((one for one in found if one[0] in readable), limit))
            if len(scores) == limit or len(found) < most:
                break
        self._candidates.update((number, readable[number]) for number in scores)
        return scores

    def _look_up_relations(self, question: Question, embedder: Embedder, meaning: dict[int, float]) -> None:
        """Where the question names what a fact is about, see also how near the rest of both is."""
        facts = [
            (number, found.subject, found.relation)
            for number in meaning.keys() & self._candidates.keys()
            if (found := self._candidates[number]).subject and found.relation
        ]
        asked = question.without({subject for _, subject, _ in facts})
        vector = None if asked is None else self._embed(embedder, asked)
        if vector is None or self._is_late():
            return
        near = self._index.relation_cosines(vector, {relation for _, _, relation in facts})
        for number, subject, relation in facts:
            if relation in near:
                meaning[number] = fact_meaning(meaning[number], near[relation], named=question.names(subject))

    def _embed(self, embedder: Embedder, text: str) -> Any:
        begin = monotonic()
        timeout = None
        if self._limits.deadline is not None:
            timeout = min(self._limits.embed_s - self.embed_s, self._limits.deadline - begin)
            if timeout <= 0:
                self.late = True
                return None
        try:
            vector = embedder.embed_query(text, timeout_s=timeout)
        except (ModelError, ClosedError):
            return None  # `check` says what is wrong with the model; words still find
        finally:
            self.embed_s += monotonic() - begin
        self.late = self.late or vector is None
        return vector

    def _add_beside(self, best: Sequence[int]) -> None:
        """Keep the best as candidates, those in memory too, with the messages before and after the first of them."""
        upper = [number for number in best[: self._limits.candidates // 2] if number < FIRST_OTHER]
        wanted = {*best, *(number + step for number in upper for step in (-1, 1))}
        found = {number: self._candidates[number] for number in wanted & self._candidates.keys()}
        for number in wanted & self._tail.keys():
            doc = self._tail[number]
            found[number] = Candidate(
                doc.kind, doc.ref, doc.who, doc.session_id, doc.at, doc.subject, doc.relation
            )
        if self._state is not None and not self._is_late():
            found.update(self._read(wanted - found.keys()))
        self._candidates = found

    def _found_again(self, near: Mapping[int, float]) -> set[int]:
        """Take up as candidates what may be found of docs that are near; return the numbers of those."""
        self._candidates.update(self._read(near.keys() - self._candidates.keys()))
        return near.keys() & self._candidates.keys()

    def _read(self, numbers: Iterable[int]) -> dict[int, Candidate]:
        """Return what may be found of some docs."""
        found: dict[int, Candidate] = {}
        for ids in in_batches(list(numbers)):
            rows = self._index.database.query(
                f"select {COLUMNS} from docs d where d.id in ({marks(ids)}) and {self._allowed.where}",  # noqa: S608 - ours
                {**bound(ids), **self._allowed.values},
            )
            found.update((row[0], Candidate(*row[1:])) for row in rows)
        return found

    def _own(self, number: int) -> float:
        meaning = None if self._meaning is None else self._meaning.get(number, 0.0)
        return own_score(self._words.get(number, 0.0), meaning, self._weights)

    def _score(self, own: Mapping[int, float]) -> list[Hit]:
        """Score all candidates, given their own scores; a hundred at each question, so nothing is looked up twice."""
        words, meaning, people, weights = self._words, self._meaning, self._people, self._weights
        candidates, now = self._candidates, self._now

        def beside(number: int, session_id: int | None) -> float:
            known = own.get(number, 0.0)
            if not known:
                return 0.0
            other = candidates.get(number)
            return known if other is not None and other.session_id == session_id else 0.0

        hits = []
        for number, candidate in candidates.items():
            is_turn, session_id = candidate.kind == TURN, candidate.session_id
            signals = Signals(
                words.get(number, 0.0),
                None if meaning is None else meaning.get(number, 0.0),
                beside(number - 1, session_id) if is_turn else 0.0,
                beside(number + 1, session_id) if is_turn else 0.0,
                1.0 if candidate.who in people else 0.0,
                0.5 ** max(0.0, (now - candidate.at) / _HALF_LIFE_S),
            )
            # What stands beside a find and was not found itself has no words and no meaning of the question.
            hits.append(Hit(score(signals, weights, own=own.get(number, 0.0)), signals, candidate))
        return hits

    def _newest(self) -> list[int]:
        """Return the numbers of the last few messages, for a question that says nothing."""
        last = self._state.last_message if self._state else 0
        tail = sorted(number for number in self._tail if number < FIRST_OTHER)[-_FEWEST:]
        return [*range(max(1, last - _FEWEST + 1), last + 1), *tail]

    def _is_late(self) -> bool:
        over = self._limits.deadline is not None and monotonic() > self._limits.deadline
        self.late = self.late or over
        return over
