"""Search: one question on its way through the signals, within a deadline.

Words are looked up first, because that always takes little; then the question is embedded under its own share of
the deadline; what is late is left out. Messages are then scored by a linear model, facts and the like by `fusion`.
"""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.errors import ClosedError, ModelError
from edgemem.recall.candidates import Candidate, Filter
from edgemem.recall.columns import COLUMNS, Columns, Row
from edgemem.recall.fusion import Signals, Weights, fact_meaning, own_score, reasons, score
from edgemem.recall.lexical import Statistics, count_docs, match
from edgemem.recall.linear import LinearModel, Models
from edgemem.recall.matching import matched
from edgemem.recall.question import Question, people_in, read_question
from edgemem.recall.signals import SIGNALS, Field, on_dates, signals_of
from edgemem.recall.sounds import called_in, with_names
from edgemem.recall.sources import TURN, bound, in_batches, marks
from edgemem.recall.state import FIRST_OTHER, State
from edgemem.recall.traits import SAYS_I
from edgemem.recall.words import terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.llama.protocols import Embedder
    from edgemem.recall.index import Index
    from edgemem.recall.tail import Tail
    from edgemem.recall.vectors import Vector, VectorIndex

_HALF_LIFE_S = 30 * 86400.0
_FEWEST = 8  # candidates by meaning that a reader must be left with, before more are looked for


class RecallStats(msgspec.Struct, frozen=True):
    """How one recall went."""

    embed_ms: float = 0.0
    search_ms: float = 0.0
    """Everything but the models: that of the question, whole and without its subject, and the second pass."""
    rerank_ms: float = 0.0
    """The second pass."""
    signals: tuple[str, ...] = ()
    """What could be used: `words`, `meaning`, `reranker`."""
    late: bool = False
    """Whether the deadline cut something off, other than the second pass."""
    rerank_late: bool = False
    """Whether time was too short for the second pass, or for all of it."""
    candidates: int = 0
    reranked: int = 0
    """Items that the second pass has read."""


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
    signals: Signals | NDArray[np.float32]
    """Of a message its row of `signals_of`."""
    candidate: Candidate


class Search:
    """One question; made anew for each.

    Args:
        state: how far the index has come; None: do without it.
        tail: what the index does not know yet.
        models: how messages are scored.
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
        models: Models,
        *,
        now: float,
    ) -> None:
        import numpy as np

        self._index = index
        self._state = state
        self._embedder = embedder
        self._allowed = allowed
        self._limits = limits
        self._weights = weights
        self._models = models
        self._now = now
        self._columns = Columns()
        self._slots: set[int] = set()
        self._words = self._window = self._session = np.zeros(0, np.float32)
        self._near: dict[int, float] | None = None
        self._question: Question | None = None
        self._mentioned: NDArray[np.bool_] = np.zeros(1, bool)
        self.embed_s = 0.0
        self.late = False

    @property
    def signals(self) -> tuple[str, ...]:
        """Return what could be used."""
        words = ("words",) if self._words.any() else ()
        return words + (("meaning",) if self._near is not None else ())

    @property
    def candidates(self) -> int:
        """Return how many candidates were scored."""
        return len(self._slots)

    def look_up_words(
        self, query: str, tail: Tail, *, names: Mapping[str, str], reader: str | None
    ) -> Question:
        """Take the question apart and find its words; whoever calls holds the tail."""
        people = {*names, *tail.people()}
        if self._state is not None:
            people.update(name for (name,) in self._index.database.query("select name from people"))
        question = self._take_apart(query, people, reader, tail)
        with self._index.postings.lock:
            counts, resident = self._count(question, tail)
            subjects = {called_in(doc.text, doc.subject) for doc in tail.docs.values() if doc.subject}
            heard = with_names(
                query,
                [term for term in question.terms if not counts[term]],
                names={*names, *tail.people(), *subjects},
                database=self._index.database if self._state is not None else None,
            )
            if heard != query:
                question = self._take_apart(heard, people, reader, tail)
                counts, resident = self._count(question, tail)
            question = question.of(question.people.union(names[n] for n in question.people if n in names))
            self._match(question, tail, counts, resident=resident)
        self._question = question
        return question

    def look_up_meaning(self, question: Question) -> None:
        """Embed the question and find what is near to it."""
        vectors = self._index.space(self._state) if self._state is not None else None
        if vectors is None or self._embedder is None or not question.terms:
            return
        vector = self._embed(self._embedder, question.meaning)
        if vector is None or self._is_late():
            return
        with self._index.postings.lock:
            self._find_near(vectors, vector, question)
        self._look_up_relations(question, self._embedder)

    def _find_near(self, vectors: VectorIndex, vector: Vector, question: Question) -> None:
        """Find what is near to a question, also among what is about the people whom it names."""
        wanted = max(1, self._limits.candidates // 2)
        near = dict(vectors.nearest(vector, wanted, about=True))
        readable = self._take_up(near)
        if len(near) == wanted and len(readable) < _FEWEST:
            # Most of what is near is somebody else's, or in the prompt already.
            near = dict(vectors.nearest(vector, 4 * wanted, about=True))
            readable = self._take_up(near)
        self._slots |= readable
        docs = self._columns.rows["id"]
        # What may not be read leaves no trace: its cosine would be the best of all, or of its session.
        near = {int(docs[slot]): near[int(docs[slot])] for slot in readable}
        about = self._about(question)
        if len(about):
            theirs = vectors.nearest(vector, wanted, docs[about].tolist(), about=True)
            near.update(theirs)
            self._slots |= self._take_up(doc for doc, _ in theirs)
        known = {int(self._columns.rows["id"][slot]) for slot in self._with_neighbours()}
        self._near = {**vectors.estimates(vector, known - near.keys()), **near}

    def rank(self) -> list[Hit]:
        """Return the best candidates, best first."""
        import numpy as np

        with self._index.postings.lock:
            if not self._slots:
                self._slots = self._take_up(self._newest())
            slots = self._may(np.array(sorted(self._slots), np.intp))
            kinds = self._columns.rows["kind"][slots]
            hits = self._score_turns(slots[kinds == TURN]) + self._score_others(slots[kinds != TURN])
        hits.sort(key=lambda hit: (-hit.score, -hit.candidate.at, -hit.candidate.ref))
        return hits

    def table(self, rows: Sequence[Any]) -> NDArray[np.float32]:
        """Return the signals of some messages, one row each."""
        import numpy as np

        return np.array(rows, np.float32).reshape(len(rows), len(SIGNALS))

    def why(self, hit: Hit) -> tuple[str, ...]:
        """Return the signals that made a score, strongest first."""
        if isinstance(hit.signals, Signals):
            return reasons(hit.signals, self._weights)
        return self._model().reasons(hit.signals)

    def _model(self) -> LinearModel:
        return self._models.words_only if self._near is None else self._models.with_meaning

    def _subjects(self, people: Collection[str], tail: Tail) -> set[str]:
        """Return those people that facts are about."""
        stems = {name: " ".join(terms(name)) for name in people}
        if not stems:
            return set()
        known = {doc.subject for doc in tail.docs.values() if self._allowed.allows(doc)}
        if self._state is not None:
            asked = list(stems.values())
            rows = self._index.database.query(
                f"select distinct d.subject from docs d where d.subject in ({marks(asked)})"  # noqa: S608 - ours
                f" and {self._allowed.where}",
                {**bound(asked), **self._allowed.values},
            )
            known.update(subject for (subject,) in rows)
        return {name for name in people if stems[name] in known}

    def _take_apart(self, query: str, people: Collection[str], reader: str | None, tail: Tail) -> Question:
        named = people_in(query, people)
        subjects = self._subjects(named, tail)
        return read_question(query, people=named, subjects=subjects, reader=reader, now=self._now)

    def _count(self, question: Question, tail: Tail) -> tuple[dict[str, int], bool]:
        """Return in how many texts each term stands, and whether memory holds the words of the index."""
        counts = tail.counts(question.terms)
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

    def _match(self, question: Question, tail: Tail, counts: Mapping[str, int], *, resident: bool) -> None:
        """Find the words of the question in memory, in the file and in the tail."""
        import numpy as np

        state = self._state
        statistics = Statistics(
            docs=(state.docs if state else 0) + len(tail.docs),
            terms=(state.terms if state else 0) + tail.terms,
            counts=counts,
        )
        asked = statistics.telling(question.terms)
        if resident:
            self._columns = self._index.postings.columns
        tail.pour(self._columns)
        late = tail.find(asked, self._columns)
        if resident or state is None:
            there = self._index.postings.find(asked) if resident else ()
            self._words, self._window, self._session = matched(
                self._columns, [*there, *late], statistics, self._allowed
            )
        else:
            self._match_in_file(asked, statistics, counts)
            newest = matched(self._columns, late, statistics, self._allowed)
            self._words += newest.own
            self._window += newest.window
            self._session += newest.session
        best = statistics.best(asked) or 1.0
        # Words that were written between counting and looking weigh nothing.
        self._words = np.clip(self._words / best, 0.0, 1.0)
        limit = self._limits.candidates
        for scores in (self._words, self._window):
            self._slots.update(self._may(_highest(scores, limit)).tolist())
        self._slots.update(self._may(on_dates(self._columns, question)[: 4 * limit])[: limit // 2].tolist())
        self._mentioned = self._mentions(question, tail, resident=resident)

    def _match_in_file(self, asked: Sequence[str], statistics: Statistics, counts: Mapping[str, int]) -> None:
        """Find words by FTS5, where memory does not hold them: the best only, and what stands beside them."""
        import numpy as np

        rows = [] if self._state is None else match(
            self._index.database,
            asked,
            columns=COLUMNS,
            where=self._allowed.where,
            values=self._allowed.values,
            limit=self._limits.candidates,
            at_most=sum(counts[term] for term in asked),
        )  # fmt: skip
        scores = {self._columns.append(Row(*columns)): found for found, *columns in rows}
        first = [int(self._columns.rows["id"][slot]) for slot in list(scores)[: self._limits.candidates // 2]]
        self._read(doc + step for doc in first if doc < FIRST_OTHER for step in (-2, -1, 1))
        n = self._columns.n
        self._words, self._session = np.zeros(n, np.float32), np.zeros(self._columns.sessions, np.float32)
        self._words[list(scores)] = list(scores.values())
        self._window = self._words.copy()
        for step in (-1, 1):
            beside = self._columns.beside(np.arange(n), step)
            self._window += np.append(self._words, 0)[beside] * 0.5

    def _mentions(self, question: Question, tail: Tail, *, resident: bool) -> NDArray[np.bool_]:
        """Return by slot whether a text speaks of somebody whom the question names, and not only to them."""
        import numpy as np

        columns = self._columns
        found = np.zeros(len(self._words) + 1, bool)
        for name in question.people:
            stems = terms(name)
            if not stems:
                continue
            late = [set(tail.having(stem)) for stem in stems]
            slots = list(columns.slots(set.intersection(*late)).values())
            if resident:
                sets = [set(self._index.postings.having(stem).tolist()) for stem in stems]
                slots += set.intersection(*sets)
            called = columns.called
            spoken_of = [slot for slot in slots if not called.get(slot, frozenset()).issuperset(stems)]
            found[self._may(np.array(spoken_of, np.intp))] = True
        return found

    def _about(self, question: Question) -> NDArray[np.intp]:
        """Return the slots of messages in which somebody whom the question names speaks of themselves, or is spoken of."""
        import numpy as np

        n = len(self._words)
        rows = self._columns.rows[:n]
        codes = [code for name in question.people if (code := self._columns.code(name)) is not None]
        about = self._mentioned[:n].copy()
        if codes:
            about |= np.isin(rows["who"], codes) & ((rows["marks"] & SAYS_I) > 0)
        return self._may(np.flatnonzero(about & (rows["kind"] == TURN)))

    def _may(self, slots: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return those of some slots that may be found."""
        slots = slots[slots < len(self._words)]
        return slots[self._columns.allowed(slots, self._allowed)]

    def _take_up(self, docs: Iterable[int]) -> set[int]:
        """Return the slots of those docs that may be found, read in where memory does not hold them."""
        import numpy as np

        wanted = list(docs)
        missing = [doc for doc in wanted if not self._columns.slots((doc,))]
        if missing and self._columns is not self._index.postings.columns:
            self._read(missing)
            self._grow()
        slots = np.fromiter(self._columns.slots(wanted).values(), np.intp)
        return set(self._may(slots).tolist())

    def _grow(self) -> None:
        """Make room in what is known by slot."""
        import numpy as np

        more, columns = self._columns.n - len(self._words), self._columns
        self._words, self._window = (
            np.append(x, np.zeros(more, np.float32)) for x in (self._words, self._window)
        )
        self._session = np.append(self._session, np.zeros(columns.sessions - len(self._session), np.float32))
        self._mentioned = np.append(self._mentioned, np.zeros(more, bool))

    def _read(self, numbers: Iterable[int]) -> None:
        """Read in what may be found of some docs that memory does not hold."""
        known = self._columns.slots
        for ids in in_batches([number for number in dict.fromkeys(numbers) if not known((number,))]):
            rows = self._index.database.query(
                f"select {COLUMNS} from docs d where d.id in ({marks(ids)}) and {self._allowed.where}",  # noqa: S608 - ours
                {**bound(ids), **self._allowed.values},
            )
            for row in rows:
                self._columns.append(Row(*row))

    def _with_neighbours(self) -> set[int]:
        """Return the slots of the candidates and of the messages beside them."""
        import numpy as np

        slots = np.array(sorted(self._slots), np.intp)
        found = self._slots.copy()
        for step in (-2, -1, 1):
            found.update(self._columns.beside(slots, step).tolist())
        beside = np.array([slot for slot in found if slot >= 0], np.intp)
        return set(self._may(beside).tolist())

    def _look_up_relations(self, question: Question, embedder: Embedder) -> None:
        """Where the question names what a fact is about, see also how near the rest of both is."""
        columns, near = self._columns, self._near or {}
        facts = [
            (int(columns.rows["id"][slot]), *columns.facts[slot])
            for slot in self._slots
            if slot in columns.facts and all(columns.facts[slot])
        ]
        asked = question.without({str(subject) for _, subject, _ in facts})
        vector = None if asked is None else self._embed(embedder, asked)
        if vector is None or self._is_late():
            return
        known = self._index.relation_cosines(vector, {str(relation) for _, _, relation in facts})
        for number, subject, relation in facts:
            if relation in known and number in near:
                near[number] = fact_meaning(near[number], known[relation], named=question.names(str(subject)))

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

    def _score_turns(self, slots: NDArray[np.intp]) -> list[Hit]:
        import numpy as np

        if not len(slots) or self._question is None:
            return []
        columns, n = self._columns, len(self._words)
        near = self._near or {}
        known = {slot: max(0.0, near[doc]) for doc, slot in columns.slots(near).items() if slot < n}
        meaning = np.zeros(n + 1, np.float32)
        meaning[list(known)] = list(known.values())
        if known:
            # What waits for its vector is taken to be as near as others are, and nearer the more of the words it has.
            usual, best = float(np.median(list(known.values()))), max(known.values())
            late = np.array([slot for slot in slots.tolist() if slot not in known], np.intp)
            meaning[late] = usual + (best - usual) * self._words[late]
        field = Field(columns, np.append(self._words, 0), np.append(self._window, 0), self._session, meaning)
        signals = signals_of(
            field, slots, self._question, self._mentioned, partial(columns.allowed, only=self._allowed)
        )
        scores = self._model().scores(signals).tolist()
        return list(map(Hit, scores, signals, columns.candidates(slots)))

    def _score_others(self, slots: NDArray[np.intp]) -> list[Hit]:
        people = self._question.people if self._question else frozenset()
        hits = []
        for slot, candidate in zip(slots.tolist(), self._columns.candidates(slots), strict=True):
            number, words = int(self._columns.rows["id"][slot]), float(self._words[slot])
            meaning = None if self._near is None else self._near.get(number)
            signals = Signals(
                words,
                meaning,
                person=1.0 if candidate.who in people else 0.0,
                recent=0.5 ** max(0.0, (self._now - candidate.at) / _HALF_LIFE_S),
            )
            own = own_score(words, meaning, self._weights)
            hits.append(Hit(score(signals, self._weights, own=own), signals, candidate))
        return hits

    def _newest(self) -> list[int]:
        """Return the numbers of the last few messages, for a question that says nothing."""
        last = self._state.last_message if self._state else 0
        late = sorted(int(doc) for doc in self._columns.rows["id"] if last < doc < FIRST_OTHER)[-_FEWEST:]
        return [*range(max(1, last - _FEWEST + 1), last + 1), *late]

    def _is_late(self) -> bool:
        over = self._limits.deadline is not None and monotonic() > self._limits.deadline
        self.late = self.late or over
        return over


def _highest(scores: NDArray[np.float32], most: int) -> NDArray[np.intp]:
    """Return the slots of the highest scores above 0."""
    import numpy as np

    found = np.flatnonzero(scores)
    if len(found) > most:
        found = found[np.argpartition(-scores[found], most)[:most]]
    return found
