"""Recall: what is remembered about something, best first, within a deadline.

Words are looked up first, because that always takes little; then the question is embedded under its own share of
the deadline; whatever is late is left out. What the index does not know yet is found in the tail.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.clock import Clock
from edgemem.config import RecallSettings
from edgemem.errors import ClosedError, ModelError, StoreError
from edgemem.recall.docs import FIRST_OTHER, State
from edgemem.recall.found import fetch
from edgemem.recall.fusion import Signals, Weights, fuse, own_score
from edgemem.recall.lexical import Statistics, count_docs, match
from edgemem.recall.question import Question, read_question
from edgemem.recall.sources import KINDS, TURN, Doc, bound, marks
from edgemem.recall.tail import Tail
from edgemem.store.reading import reading_rule

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from edgemem.llama.protocols import Embedder
    from edgemem.recall.index import Index
    from edgemem.records import Kind, Reader, Recalled
    from edgemem.store.database import Database
    from edgemem.store.notes import NotesFile

_COLUMNS = "d.id, d.kind, d.ref, d.who, d.session_id, d.at"
_HALF_LIFE_S = 30 * 86400.0
_FEWEST = 8  # candidates by meaning that a reader must be left with, before more are looked for


class RecallStats(msgspec.Struct, frozen=True):
    """How one recall went."""

    embed_ms: float = 0.0
    search_ms: float = 0.0
    """Everything but the embedding of the question."""
    signals: tuple[str, ...] = ()
    """What could be used: `words`, `meaning`."""
    late: bool = False
    """Whether the deadline cut something off."""
    candidates: int = 0


class _Candidate(NamedTuple):
    kind: int
    ref: int
    who: str | None
    session_id: int | None
    at: float


class _Filter(NamedTuple):
    """Which docs may be found: a condition in SQL on `docs d`, and the same for those in memory."""

    where: str
    values: dict[str, Any]
    kinds: frozenset[int]
    session_id: int | None
    turns: frozenset[int]
    past: bool

    def allows(self, doc: Doc) -> bool:
        if doc.kind not in self.kinds or (doc.past and not self.past):
            return False
        if doc.session_id is not None and doc.session_id == self.session_id and doc.turn in self.turns:
            return False
        if doc.level == 0 or "known" not in self.values:
            return True
        if doc.level == 1:
            return bool(self.values["known"])
        return bool(self.values["alone"]) and doc.owner == self.values["speaker"]


class Recall:
    """Finds facts, episodes, messages and notes; safe to use from several threads.

    Args:
        truth: what is remembered; every result is read from there.
        index: what makes it quick; recall works without its help, too.
        embedder: for meaning; None: words only.
        notes: the file whose lines are recalled.
        settings: how much of everything.
    """

    def __init__(
        self,
        truth: Database,
        index: Index,
        *,
        embedder: Embedder | None = None,
        notes: NotesFile | None = None,
        clock: Clock | None = None,
        settings: RecallSettings | None = None,
    ) -> None:
        self._truth = truth
        self._index = index
        self._embedder = embedder
        self._notes = notes
        self._clock = clock or truth.clock
        self._settings = settings or RecallSettings()
        self._weights = Weights(
            words=self._settings.words_weight,
            meaning=self._settings.meaning_weight,
            neighbour=self._settings.neighbour_weight,
        )
        self._tail = Tail(truth, index, notes)
        self._tail_lock = threading.Lock()
        self.last = RecallStats()
        """How the newest recall of any thread went."""

    def pending(self) -> dict[str, int]:
        """Return how many rows and docs wait for idle time."""
        return self._index.pending()

    def recall(
        self,
        query: str,
        *,
        reader: Reader | None,
        k: int = 5,
        kinds: Collection[Kind] | None = None,
        min_score: float = 0.0,
        deadline_s: float | None = None,
        exclude: Collection[str] = (),
        skip_turns: tuple[str, Collection[int]] | None = None,
        names: Collection[str] = (),
        include_past: bool = False,
    ) -> list[Recalled]:
        """Return at most k items, best first.

        Args:
            query: anything that somebody said or asked.
            reader: who is going to hear it; None is the operator, who reads everything.
            kinds: only these.
            min_score: only what reaches this, 0 to 1.
            deadline_s: answer after this many seconds with what there is; None: take the time it needs.
            exclude: items to leave out, as `kind:id`.
            skip_turns: a session, and turns of it that the reader's prompt holds anyway.
            names: further names of people who speak here.
            include_past: also facts that do not hold any more.
        """
        begin = monotonic()
        search = _Search(self, begin, None if deadline_s is None else begin + deadline_s)
        wanted = {kind for kind, name in KINDS.items() if kinds is None or name in kinds}
        allowed = self._filter(reader, frozenset(wanted), skip_turns, past=include_past)
        try:
            scored = search.run(query, reader, allowed, names, self._index.state())
        except (StoreError, ClosedError) as error:
            # The index can be made again, and a reply must not wait for that; a broken truth raises once more.
            self._index.report_damage(error)
            scored = search.run(query, reader, allowed, names, None)
        found = self._fetch(scored, reader, k, min_score, frozenset(exclude), past=include_past)
        self.last = search.stats()
        return found

    def _filter(
        self,
        reader: Reader | None,
        kinds: frozenset[int],
        skip: tuple[str, Collection[int]] | None,
        *,
        past: bool,
    ) -> _Filter:
        rule, values = reading_rule(reader, "d.")
        where = rule if past else f"{rule} and d.past = 0"
        if len(kinds) < len(KINDS):
            where += f" and d.kind in ({','.join(map(str, sorted(kinds))) or 'null'})"
        session_id, turns = None, frozenset(skip[1]) if skip else frozenset()
        if skip and turns:
            row = self._truth.query("select id from sessions where name = ?", (skip[0],))
            session_id = row[0][0] if row else None
        if session_id is not None:
            ranges = " or ".join(f"d.turn between {first:d} and {last:d}" for first, last in _ranges(turns))
            where += f" and (d.session_id is null or d.session_id <> :skipped or not ({ranges}))"
            values["skipped"] = session_id
        return _Filter(where, values, kinds, session_id, turns, past)

    def _fetch(
        self,
        scored: list[tuple[float, tuple[str, ...], _Candidate]],
        reader: Reader | None,
        k: int,
        min_score: float,
        exclude: frozenset[str],
        *,
        past: bool,
    ) -> list[Recalled]:
        """Read the best from the truth, and go on to the next ones where something is gone."""
        found: list[Recalled] = []
        good = [
            one
            for one in scored
            if one[0] >= min_score and f"{KINDS[one[2].kind]}:{one[2].ref}" not in exclude
        ]
        now = self._clock.now()
        for start in range(0, len(good), k + 4):
            some = good[start : start + k + 4]
            refs = [(candidate.kind, candidate.ref) for _, _, candidate in some]
            there = fetch(self._truth, self._notes, refs, reader=reader, now=now, include_past=past)
            for score, why, candidate in some:
                item = there.get((candidate.kind, candidate.ref))
                if item is not None and len(found) < k:
                    found.append(msgspec.structs.replace(item, score=score, why=why))
            if len(found) >= k:
                break
        return found


class _Search:
    """One question on its way through the signals."""

    def __init__(self, recall: Recall, begin: float, deadline: float | None) -> None:
        self._recall = recall
        self._begin = begin
        self._deadline = deadline
        self._embed_s = 0.0
        self._signals: list[str] = []
        self._late = False
        self._candidates: dict[int, _Candidate] = {}

    def stats(self) -> RecallStats:
        """Return how it went."""
        total = monotonic() - self._begin
        return RecallStats(
            embed_ms=self._embed_s * 1e3,
            search_ms=(total - self._embed_s) * 1e3,
            signals=tuple(self._signals),
            late=self._late,
            candidates=len(self._candidates),
        )

    def run(
        self, query: str, reader: Reader | None, allowed: _Filter, names: Collection[str], state: State | None
    ) -> list[tuple[float, tuple[str, ...], _Candidate]]:
        """Return score, reason and place of all candidates, best first; without `state`, of the tail alone."""
        recall = self._recall
        self._candidates = {}
        self._signals = []
        people = set(names)
        if state is not None:
            people.update(name for (name,) in recall._index.database.query("select name from people"))
        with recall._tail_lock:
            recall._tail.refresh(state or State())
            people |= recall._tail.people()
            question = read_question(query, people=people, reader=reader.speaker if reader else None)
            words = self._words(question, allowed, state)
            tail = {number: doc for number, doc in recall._tail.docs.items() if allowed.allows(doc)}
        meaning = self._meaning(question, allowed, state, words)
        if not question.terms and meaning is None:
            words.update(dict.fromkeys(_newest(state, tail), 0.0))
        self._look_up(words.keys() | (meaning or {}).keys(), allowed, state, tail)
        return self._fuse(question, words, meaning)

    def _words(self, question: Question, allowed: _Filter, state: State | None) -> dict[int, float]:
        """Return how much of the question's words each text has, by number; the caller holds the tail."""
        recall, tail = self._recall, self._recall._tail
        if not question.terms:
            return {}
        self._signals.append("words")
        counts = tail.counts(question.terms)
        if state is not None:
            for term, count in count_docs(recall._index.database, question.terms).items():
                counts[term] += count
        statistics = Statistics(
            docs=(state.docs if state else 0) + len(tail.docs),
            terms=(state.terms if state else 0) + tail.terms,
            counts=counts,
        )
        asked = statistics.telling(question.terms)
        scores = {
            number: score
            for number, score in tail.match(asked, statistics).items()
            if allowed.allows(tail.docs[number])
        }
        if state is not None:
            for score, *row in match(
                recall._index.database,
                asked,
                columns=_COLUMNS,
                where=allowed.where,
                values=allowed.values,
                limit=recall._settings.candidates,
            ):
                self._candidates[row[0]] = _Candidate(*row[1:])
                scores[row[0]] = score
        best = statistics.best(asked)
        return {number: min(1.0, max(0.0, score / best)) for number, score in scores.items()}

    def _meaning(
        self, question: Question, allowed: _Filter, state: State | None, words: Mapping[int, float]
    ) -> dict[int, float] | None:
        """Return the cosines of what is near in meaning, and of what the words found."""
        recall = self._recall
        vectors = recall._index.space(state) if state is not None else None
        if vectors is None or recall._embedder is None or not question.meaning:
            return None
        vector = self._embed(recall._embedder, question.meaning)
        if vector is None or self._is_late():
            return None
        wanted = recall._settings.candidates
        near = dict(vectors.nearest(vector, wanted))
        readable = self._read(near, allowed)
        if len(near) == wanted and len(readable) < _FEWEST:
            # Most of what is near is somebody else's, or in the prompt already.
            near = dict(vectors.nearest(vector, 4 * wanted))
            readable = self._read(near, allowed)
        self._candidates.update(readable)
        self._signals.append("meaning")
        cosines = {number: near[number] for number in readable}
        cosines.update(vectors.cosines(vector, words.keys() - cosines.keys()))
        return cosines

    def _embed(self, embedder: Embedder, text: str) -> Any:
        begin = monotonic()
        timeout = None
        if self._deadline is not None:
            timeout = min(self._recall._settings.query_embed_ms / 1e3, self._deadline - begin)
            if timeout <= 0:
                self._late = True
                return None
        try:
            vector = embedder.embed_query(text, timeout_s=timeout)
        except (ModelError, ClosedError):
            return None  # `check` says what is wrong with the model; words still find
        finally:
            self._embed_s = monotonic() - begin
        self._late = self._late or vector is None
        return vector

    def _look_up(
        self, numbers: Iterable[int], allowed: _Filter, state: State | None, tail: Mapping[int, Doc]
    ) -> None:
        """Make candidates of what was found and of the messages beside it."""
        wanted = set(numbers)
        beside = {number + step for number in wanted if number < FIRST_OTHER for step in (-1, 1)}
        wanted |= beside
        for number in wanted & tail.keys():
            doc = tail[number]
            self._candidates[number] = _Candidate(doc.kind, doc.ref, doc.who, doc.session_id, doc.at)
        if state is not None and not self._is_late():
            self._candidates.update(self._read(wanted - self._candidates.keys() - tail.keys(), allowed))

    def _read(self, numbers: Iterable[int], allowed: _Filter) -> dict[int, _Candidate]:
        ids = list(numbers)
        if not ids:
            return {}
        rows = self._recall._index.database.query(
            f"select {_COLUMNS} from docs d where d.id in ({marks(ids)}) and {allowed.where}",  # noqa: S608 - ours
            {**bound(ids), **allowed.values},
        )
        return {row[0]: _Candidate(*row[1:]) for row in rows}

    def _fuse(
        self, question: Question, words: Mapping[int, float], meaning: Mapping[int, float] | None
    ) -> list[tuple[float, tuple[str, ...], _Candidate]]:
        weights, there = self._recall._weights, self._candidates
        own = {
            number: own_score(
                words.get(number, 0.0), None if meaning is None else meaning.get(number, 0.0), weights
            )
            for number in there
        }
        now = self._recall._clock.now()
        scored = []
        for number, candidate in there.items():
            beside = [0.0, 0.0]
            if candidate.kind == TURN:
                for at, other in enumerate((number - 1, number + 1)):
                    if other in there and there[other].session_id == candidate.session_id:
                        beside[at] = own[other]
            signals = Signals(
                words=words.get(number, 0.0),
                meaning=None if meaning is None else meaning.get(number, 0.0),
                before=beside[0],
                after=beside[1],
                person=float(candidate.who in question.people),
                recent=0.5 ** max(0.0, (now - candidate.at) / _HALF_LIFE_S),
            )
            scored.append((*fuse(signals, weights), candidate))
        scored.sort(key=lambda one: (-one[0], -one[2].at, -one[2].ref))
        return scored

    def _is_late(self) -> bool:
        if self._deadline is not None and monotonic() > self._deadline:
            self._late = True
        return self._late


def _newest(state: State | None, tail: Mapping[int, Doc]) -> list[int]:
    """Return the numbers of the last few messages, for a question that says nothing."""
    last = state.last_message if state else 0
    return [
        *range(max(1, last - _FEWEST + 1), last + 1),
        *sorted(n for n in tail if n < FIRST_OTHER)[-_FEWEST:],
    ]


def _ranges(turns: Collection[int]) -> list[tuple[int, int]]:
    """Return the first and last of each run of consecutive numbers."""
    runs: list[tuple[int, int]] = []
    for n in sorted(turns):
        if runs and n == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], n)
        else:
            runs.append((n, n))
    return runs
