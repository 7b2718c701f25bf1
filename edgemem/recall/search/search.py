"""The search of one question, by words and by meaning, within a deadline.

Words, always quick, come first; then, under its own share of the deadline, the question's vector, and the docs near to it and to
the people it names; late steps are left out. At last the candidates are scored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from edgemem.errors import ClosedError, ModelError
from edgemem.preload import np
from edgemem.recall.index.file import FIRST_OTHER, State
from edgemem.recall.index.sources import FACT, TURN, Doc
from edgemem.recall.index.table import DocTable
from edgemem.recall.index.vectors import late_interaction
from edgemem.recall.index.view import QueryView
from edgemem.recall.search.gate import Utterance
from edgemem.recall.search.ranking import Ranking
from edgemem.recall.search.safety import SafetyDoc, safety_docs
from edgemem.recall.search.words import WordSearch
from edgemem.recall.text.analyse import embedder_weight, has_question, terms
from edgemem.store.db.transaction import bound, placeholders

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.llama.protocols import Embedder, Encoding
    from edgemem.recall.index.index import Index
    from edgemem.recall.index.vectors import Vector, Vectors
    from edgemem.recall.index.view import Filter, UnindexedDocs
    from edgemem.recall.query import ParsedQuery, Question

    Ids = NDArray[np.int64]
    Slots = NDArray[np.intp]

_NEWEST = 8  # messages, for a question that says nothing


class RecallStats(msgspec.Struct, frozen=True):
    """How one recall went."""

    embed_ms: float = 0.0
    search_ms: float = 0.0
    """Without the question's embedding."""
    signals: tuple[str, ...] = ()
    """In use: `words`, `meaning`."""
    late: bool = False
    """Whether the deadline cut off anything."""
    candidates: int = 0


class Limits(NamedTuple):
    """The bounds of one search."""

    candidates: int = 64
    """By words; half as many by meaning, since each costs more."""
    embed_s: float = 0.08
    deadline: float | None = None
    """Monotonic seconds; None: none."""
    asked: bool = True
    """Whether the memory is asked; else somebody speaks, and may want no memory."""
    safety: bool = False
    """Whether what may hurt somebody is looked for."""
    safety_keys: Collection[str] = ()
    """Further words of the keys of facts that concern somebody's safety."""


class Search:
    """One question's search; `state` tells how far the index is, None: do without it, `asked` which docs may be found."""

    def __init__(
        self,
        index: Index,
        state: State | None,
        embedder: Embedder | None,
        asked: Filter,
        limits: Limits,
        *,
        now: float,
    ) -> None:
        self._index = index
        self._state = state
        self._embedding = None if state is None or index.vectors(state) is None else index.embedding
        self._embedder = embedder
        self._filter = asked
        self._limits = limits
        self._now = now
        self._meaning = 0.0
        self._encoding: Encoding | None = None
        self._new: dict[int, Doc] = {}
        """Docs that the index lacks, by number."""
        self._weight = 1.0
        """The weight of meaning, if there is a vector."""
        self.signals: tuple[str, ...] = ()
        self.embed_s = 0.0
        self.late = False
        self.safety: list[SafetyDoc] = []
        """What may hurt somebody, where somebody speaks."""

    def run(self, question: ParsedQuery, view: QueryView) -> Ranking:
        """Add candidates near in meaning to those by words, and score all."""
        self._look_up_meaning(question, view)
        words, meaning = ("words",) if view.words.any() else (), ("meaning",) if self._meaning else ()
        self.signals = words + meaning
        vector, tokens = self._encoding or (None, None)
        with self._index.postings.lock:
            view.follow()
            if not view.candidates.any():
                view.candidates[_newest(view)] = True
            if self._limits.safety:
                self.safety = safety_docs(view, self._filter.reader, self._limits.safety_keys)
            return Ranking(
                view,
                question,
                utterance=Utterance(
                    frozenset(question.whole.words),
                    question.whole.language,
                    vector,
                    "" if self._embedder is None else self._embedder.fingerprint,
                    0 if tokens is None else len(tokens),
                    asks=self._limits.asked or has_question(question.whole.text),
                ),
                meaning=self._meaning,
                now=self._now,
                contents_of=self._contents_of,
                nearness_of=self._nearness_of,
            )

    def look_up_words(
        self, asked: Question, unindexed: UnindexedDocs, *, names: Mapping[str, str], reader: str | None
    ) -> tuple[ParsedQuery, QueryView]:
        """Find the words of a question; the caller holds the lock of the unindexed docs."""
        self._new = dict(unindexed.docs)
        postings = self._index.postings
        with postings.lock:
            if self._state is not None:
                stop = None if self._limits.deadline is None else self._must_embed
                self.late = not postings.follow(self._state, stop)
            table = DocTable() if self._state is None else postings.table
            unindexed.add_to(table)
            view = QueryView(table, self._filter)
            search = WordSearch(view, names=names, reader=reader, candidates=self._limits.candidates)
            question = search.look_up(asked)
        languages = self._embedder.languages if self._embedder is not None else ()  # none: it knows many
        if languages:
            self._weight = embedder_weight(question.whole.language, languages)
        return question, view

    def _look_up_meaning(self, question: ParsedQuery, view: QueryView) -> None:
        state, embedding, embedder = self._state, self._embedding, self._embedder
        if state is None or embedding is None or embedder is None or not question.terms or not self._weight:
            return
        encoding = self._embed(embedder, question.meaning)
        if encoding is None or self._is_late():
            return
        vectors, vector, self._encoding = embedding.vectors, encoding.vector, encoding
        vectors.follow(state)
        with self._index.postings.lock:
            view.follow()
            most = max(1, self._limits.candidates // 2)
            new = embedding.near_new(vector, self._new)
            among = None
            if self._filter.metadata:
                among = np.sort(view.table.rows["id"][: view.n][view.findable[: view.n]])
                new = {doc: new[doc] for doc in new.keys() & set(among.tolist())}
            find_near(view, vectors, vector, question, new=new, most=most, among=among)
            if self._filter.past and (self._filter.kinds is None or "fact" in self._filter.kinds):
                rows, n = view.table.rows, view.n
                held = rows["id"][:n][view.findable[:n] & rows["past"][:n]].tolist()
                every = FACT not in self._filter.kind_refs and among is None
                find_past(view, vectors, vector, None if every else held, most=most)
            self._meaning = self._weight

    def _contents_of(self, docs: Sequence[int]) -> dict[int, tuple[frozenset[str], Vector | None]]:
        """Return the stems and the vector of some docs."""
        known = [doc for doc in docs if doc not in self._new] if self._state is not None else []
        stems = {doc: frozenset(terms(self._new[doc].text)) for doc in docs if doc in self._new}
        sql = f"select id, terms from docs where id in ({placeholders(known)})"  # noqa: S608 - our own text
        rows = self._index.database.query(sql, bound(known)) if known else ()
        stems |= {doc: frozenset(text.split()) for doc, text in rows}
        vectors = self._embedding.vectors if self._embedding is not None and self._meaning else None
        read = vectors.text_vectors(known) if vectors is not None else {}
        return {doc: (found, read.get(doc)) for doc, found in stems.items()}

    def _nearness_of(self, docs: Sequence[int]) -> NDArray[np.float32]:
        """Return how near the tokens of some docs come to the question's, and how unevenly, `float32[n, 2]`; NaN: one has none."""
        nearness = np.full((len(docs), 2), np.nan, np.float32)
        asked = None if self._encoding is None else self._encoding.tokens
        if not docs or asked is None or self._embedding is None or not len(asked):
            return nearness
        new = {doc: self._new[doc] for doc in docs if doc in self._new}
        tokens = self._embedding.vectors.tokens(docs) | self._embedding.tokens_new(new)
        width = -(-asked.shape[1] // 4)  # bytes of a token; a row of another width is none
        read = [place for place, doc in enumerate(docs) if doc in tokens and not len(tokens[doc]) % width]
        if read:
            nearness[read] = late_interaction(asked, [tokens[docs[place]] for place in read])
        return nearness

    def _embed(self, embedder: Embedder, text: str) -> Encoding | None:
        begin = monotonic()
        timeout = None
        if self._limits.deadline is not None:
            timeout = min(self._limits.embed_s, self._limits.deadline - begin)
            if timeout <= 0:
                self.late = True
                return None
        try:
            encoding = embedder.encode_query(text, timeout_s=timeout)
        except (ModelError, ClosedError):
            return None  # `check` tells the model's fault; words still find
        finally:
            self.embed_s = monotonic() - begin
        self.late = self.late or encoding is None
        return encoding

    def _must_embed(self) -> bool:
        """Tell whether only the time for embedding the question is left."""
        deadline = self._limits.deadline
        return deadline is not None and monotonic() > deadline - self._limits.embed_s

    def _is_late(self) -> bool:
        over = self._limits.deadline is not None and monotonic() > self._limits.deadline
        self.late = self.late or over
        return over


def _newest(view: QueryView) -> Slots:
    """Return the slots of the newest messages that may be found: those that may not leave no gap."""
    ids = view.table.rows["id"][: view.n]
    slots = np.flatnonzero(view.findable[: view.n] & (ids < FIRST_OTHER))
    return slots[np.argsort(ids[slots])[-_NEWEST:]]


_FIRST = 8
"""Candidates by meaning whose neighbours are candidates too: an announcement comes before its content."""
_FEWEST = 8  # candidates by meaning left to a reader, below which more are looked for


def find_near(
    view: QueryView,
    vectors: Vectors,
    vector: Vector,
    question: ParsedQuery,
    *,
    new: Mapping[int, float],
    most: int,
    among: Ids | None = None,
) -> None:
    """Find the docs near to a question, `among` some or all (None), and the cosines of all candidates and their neighbours.

    `new` has the cosines of docs that the index lacks; `most` bounds candidates by meaning, twice as many about people it names.
    """
    _note_cosines(view, new.items())
    nearest = vectors.nearest(vector, most, among, rough=True)
    near = sorted([*nearest, *new.items()], key=lambda hit: -hit[1])[:most]
    first = near[:_FIRST]
    # Closed docs leave no trace: a cosine could be the best of all, or of its session.
    readable = _add_candidates(view, near)
    if len(near) == most and readable < _FEWEST:
        # Most near docs are somebody else's, or in the prompt already.
        _add_candidates(view, vectors.nearest(vector, 4 * most, among, rough=True))
    about = _people_slots(view, question)
    if len(about):
        theirs = vectors.nearest(vector, 2 * most, view.table.rows["id"][about], rough=True)
        first += theirs[:_FIRST]
        _add_candidates(view, theirs)
    slots = view.slots_of([doc for doc, _ in first])
    view.candidates[view.with_neighbours(slots[slots >= 0], (-1, 1, 2))] = True
    _estimate(view, vectors, vector, view.with_neighbours(np.flatnonzero(view.candidates), (-2, -1, 1)))


def find_past(
    view: QueryView, vectors: Vectors, vector: Vector, among: Sequence[int] | None, *, most: int
) -> None:
    """Find the nearest facts that no longer hold, `among` some docs or all (None), at most `most`."""
    # For a few named docs the search is exact: only then are the newest vectors read.
    _add_candidates(view, vectors.nearest(vector, most, among, rough=among is None, past=True))
    _estimate(view, vectors, vector, np.flatnonzero(view.candidates), past=True)


def _people_slots(view: QueryView, question: ParsedQuery) -> Slots:
    """Return the slots of messages in which somebody whom the question names speaks of themselves, or is spoken of."""
    if not question.people:
        return np.zeros(0, np.intp)
    messages = view.findable[: view.n] & (view.table.rows["kind"][: view.n] == TURN)
    return np.flatnonzero(messages & view.about_people(question.people, slice(view.n)))


def _add_candidates(view: QueryView, near: Iterable[tuple[int, float]]) -> int:
    """Make candidates of the near docs that may be found; return their number."""
    slots = _note_cosines(view, near)
    view.candidates[slots] = True
    return len(slots)


def _note_cosines(view: QueryView, near: Iterable[tuple[int, float]]) -> Slots:
    """Note cosines of docs; return the slots that may be found."""
    cosines = dict(near)
    slots = view.slots_of(list(cosines))
    here = slots >= 0
    slots = slots[here]
    view.cosines[slots] = np.fromiter(cosines.values(), np.float32, len(cosines))[here]
    view.has_cosine[slots] = True
    return slots


def _estimate(view: QueryView, vectors: Vectors, vector: Vector, slots: Slots, *, past: bool = False) -> None:
    slots = slots[~view.has_cosine[slots] & view.findable[slots]]
    docs = view.table.rows["id"][slots]
    order = np.argsort(docs, kind="stable")  # most are in order already
    slots, docs = slots[order], docs[order]
    ids, cosines = vectors.estimates(vector, docs, past=past)
    slots = slots[docs.searchsorted(ids)]
    view.cosines[slots] = cosines
    view.has_cosine[slots] = True
