"""Recall: the memories about something, best first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.config import Settings
from edgemem.errors import ClosedError, StoreError
from edgemem.recall.index.docs import only_greets, safety_odds
from edgemem.recall.index.sources import FACT, KINDS, NUMBERS, THOUGHT, TURN, BankSections, written
from edgemem.recall.index.view import Filter, UnindexedDocs
from edgemem.recall.query import read_question
from edgemem.recall.results import FactTimes, Rows
from edgemem.recall.search.ranking import choose_versions
from edgemem.recall.search.safety import with_safety
from edgemem.recall.search.search import Limits, RecallStats, Search
from edgemem.recall.search.selection import Echoes, Selection, best_of_groups, with_linked
from edgemem.recall.text.analyse import analyse, asks, plain_words, terms
from edgemem.recall.times import checked_when, past_times, times_within
from edgemem.records import CutOff, Kind, Reader
from edgemem.store.episodes import row_number
from edgemem.store.fact_queries import held_at
from edgemem.store.rights import reading_rule, spellings, with_stored_spelling
from edgemem.store.thoughts import ended_rows
from edgemem.store.turns import read_words

if TYPE_CHECKING:
    from edgemem.llama.protocols import Embedder
    from edgemem.recall.index.index import Index
    from edgemem.recall.query import ParsedQuery, Question
    from edgemem.recall.search.ranking import Ranking
    from edgemem.recall.text.calendar import Range
    from edgemem.recall.times import When
    from edgemem.records import Recalled
    from edgemem.store.db.database import Database
    from edgemem.store.notes import NotesFile
    from edgemem.thoughts import Filters

_EXCHANGES, _EXCHANGES_S = 3, 600.0
"""So many exchanges of the last ten minutes tell the subject of an utterance that names none."""
_PLANS: frozenset[Kind] = frozenset(("fact", "goal"))
_PROCEDURES: tuple[Kind, ...] = ("procedure",)
_TURNS: tuple[Kind, ...] = ("turn",)
_OF_A_TIME = {
    FACT: "select origin from facts where known_to is null and value is not null",
    THOUGHT: "select id from stored_thoughts where 1",
}
"""Rows that have valid times, by kind."""
_SHARE = 0.05  # of the least score that helps, down to which others are told beside one that reaches it
_STEMS = 2  # of a word, in its language and in English
_PART = 5  # letters of a word that is looked for within longer ones; a shorter one begins a word


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A recall's conditions beside the question."""

    reader: Reader | None
    """The hearer; None is the operator, who reads everything."""
    k: int = 5
    kinds: Collection[Kind] | None = None
    apart: Sequence[Collection[Kind]] = ()
    """Groups of kinds that compete only among themselves: turns are many, and would leave facts no place."""
    min_score: float = 0.0
    """Least score, 0 to 1."""
    deadline_s: float | None = None
    """Seconds for an answer with what there is; None: no limit."""
    exclude: Collection[str] = ()
    """Without these, as `kind:id`."""
    known: Collection[str] = ()
    """Items that the reader has: returned, beside the k others."""
    session: str = ""
    """The conversation in which it is said: its last exchanges tell who "she" is."""
    skip_turns: Collection[int] | None = None
    """Turns of that session that the reader's prompt holds anyway; None: those exchanges."""
    called: Mapping[str, str] = {}
    """The speaker that each further name means."""
    include_past: bool | None = None
    """Also facts that hold no more, or not yet; None: those that once held, for a question about the past or a past time."""
    valid_at: float | None = None
    """Facts as they held then, not now or at `known_at`; seconds since the epoch. Words and deeds are true of no time, and found
    anyway. None: the version that held at a past time in the question comes first."""
    known_at: float | None = None
    """Only knowledge of then: facts as believed, and words, deeds and notes up to then."""
    repeated: bool = False
    """With copies, and echoes with scores: for when something was talked about."""
    asked: bool = True
    """Whether the memory is asked; else the query is speech, which may want nothing, and then scores less."""
    safety: bool = False
    """Whether it is asked what may hurt anybody; where somebody speaks, that is found unasked."""
    refs: Collection[int] | None = None
    """Only rows with these ids, where `kinds` names one kind; None: all."""
    include_archived: bool = False
    """Whether archived thoughts are found too."""
    filters: Filters = ()
    """Only records with such metadata."""
    validity: tuple[str, Mapping[str, Any]] | None = None
    """Of kinds that have valid times only what holds then, as `validity_rule` tells it; with `include_past`."""
    noted: bool = True
    """Whether `last` records it."""


class Recall:
    """Finds facts, preferences, episodes, messages, notes and summaries; safe to use from several threads.

    Args:
        truth: all memories; every result is read from there.
        index: makes it quick; a broken one is done without.
        embedder: for meaning; None: words only.
        notes: recalled by the line.
        sections: of the bank.
    """

    def __init__(
        self,
        truth: Database,
        index: Index,
        *,
        embedder: Embedder | None = None,
        notes: NotesFile | None = None,
        sections: BankSections | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._truth = truth
        self._index = index
        self._embedder = embedder
        self._notes, self._sections = notes, sections
        self._clock = truth.clock
        self._settings = settings or Settings()
        self._unindexed = UnindexedDocs(truth, index, written(notes, sections))
        self._tail_lock = threading.Lock()
        self.last = RecallStats()
        """Of any thread's newest recall."""

    def embed_new(self, limit: int, *, stop: Callable[[], bool] | None = None) -> int:
        """Make vectors of texts too new for the index, newest first; return of how many."""
        with self._tail_lock:
            self._unindexed.refresh(self._index.state())
            docs = list(reversed(self._unindexed.docs.values()))
        return self._index.embed_new(docs, limit, stop=stop)

    def may_hold(self, table: str) -> bool:
        """Tell whether any thread's newest search saw a row in a table of the truth; asks nothing."""
        tables = self._unindexed.tables
        return tables is None or table in tables

    def pending(self) -> dict[str, int]:
        """Return how many rows and docs wait for idle time."""
        return self._index.pending()

    def recall(self, query: str, request: Request) -> list[Recalled]:
        """Return at most k items, best first; with `apart`, at most k of each group, group after group.

        A message that only asks the same scores 0, and copies are returned once; see `Echoes`. Where nobody asks the memory, a
        greeting or thanks finds nothing. Where somebody speaks, what may hurt them comes before all else, beside the k items.
        """
        begin, settings = monotonic(), self._settings.now.recall
        reader = with_stored_spelling(self._truth, request.reader)
        when = checked_when(request.valid_at, request.known_at)
        asked_text, turns = self._read(query, request.session, reader)
        tense = asked_text.tense
        spans = past_times(asked_text, asked_text.at) if when is None and request.include_past is None else []
        wants_past = (tense.past or tense.all) if request.include_past is None else request.include_past
        past = wants_past or bool(spans)
        limits = Limits(
            candidates=settings.candidates,
            embed_s=settings.query_embed_ms / 1e3,
            deadline=None if request.deadline_s is None else begin + request.deadline_s,
            asked=request.asked,
            safety=request.safety or not request.asked,
            safety_keys=settings.safety_keys,
        )
        kind_refs = self._refs(request, when, reader)
        moment = self._clock.now() if when is None else when.valid_at
        allowed = Filter(
            reader,
            kinds=request.kinds,
            ended=()
            if past and when is None
            else ended_rows(self._truth, moment, archived=request.include_archived),
            session_id=self._session_id(request.session),
            turns=turns if request.skip_turns is None else request.skip_turns,
            past=past or FACT in kind_refs,
            known_at=None if when is None else when.known_tick,
            kind_refs=kind_refs,
            refs=request.refs,
            metadata=request.filters,
        )
        people = request.called
        if people:
            spelled = spellings(self._truth, set(people.values()))
            people = {name: spelled[who] for name, who in people.items()}
        greets = not request.asked and only_greets(query)
        embedder = None if greets else self._embedder
        search, question, ranking = self._search(asked_text, reader, people, allowed, limits, embedder)
        now = self._clock.now()  # not before what the search has seen
        if spans:
            choose_versions(ranking, self._truth, spans, reader=reader, now=now, others=wants_past)
        zone = self._settings.now.time.tzinfo()
        times = FactTimes(
            now,
            past=past,
            future=bool(request.include_past),
            when=when,
            archived=request.include_archived,
            zone=zone,
        )
        rows = Rows(
            self._truth,
            self._notes,
            self._sections,
            reader=reader,
            times=times,
            doubtful_below=self._settings.now.memory.doubtful_below,
            filters=request.filters,
        )
        echoes = None if request.repeated else Echoes(question)
        selection = Selection(
            request.k,
            echoes,
            request.min_score,
            frozenset(request.exclude),
            request.known,
            question.whole,
            frozenset((request.session, turn) for turn in allowed.turns),
        )
        kinds = request.apart or (KINDS.values() if request.kinds is None else request.kinds,)
        groups = best_of_groups(ranking, kinds, rows, selection)
        is_plain = when is None and request.refs is None and request.validity is None and not request.repeated
        if is_plain and any(groups):
            groups = with_linked(groups, kinds, rows, selection)
        results = [] if greets else [item for group in groups for item in group]
        if search.safety:
            items = rows.read([(doc.kind, doc.ref) for doc in search.safety])
            text, utterance = asked_text.text, ranking.utterance
            odds = safety_odds("things", text, utterance.vector, utterance.embedder)
            comes_up = request.safety or (not greets and odds >= 0)
            results = with_safety(results, search.safety, items, comes_up=comes_up, asked=asks(text))
        if search.late:
            results = CutOff(results)
        if not request.noted:
            return results
        self.last = RecallStats(
            embed_ms=search.embed_s * 1e3,
            search_ms=(monotonic() - begin - search.embed_s) * 1e3,
            signals=search.signals,
            late=search.late,
            candidates=len(ranking),
        )
        return results

    def item(self, kind: Kind, ref: int, reader: Reader | None) -> Recalled | None:
        """Return one item as a recall would now, without score and reason; None: there is none that the reader may read."""
        times = FactTimes(self._clock.now(), zone=self._settings.now.time.tzinfo())
        who = with_stored_spelling(self._truth, reader)
        rows = Rows(self._truth, self._notes, self._sections, reader=who, times=times, doubtful_below=0.0)
        return next(iter(rows.read([(NUMBERS[kind], ref)]).values()), None)

    def coming(self, begin: float, end: float, reader: Reader | None) -> list[tuple[Recalled, Range]]:
        """Return facts and goals that name a time in a period, each with that time; what comes again and again is no plan.

        The times are those of the index: a day, not a time of day.
        """
        reader, now = with_stored_spelling(self._truth, reader), self._clock.now()
        allowed = Filter(reader, kinds=_PLANS, ended=ended_rows(self._truth, now, archived=False))
        with self._tail_lock:
            state = self._index.state()
            search = Search(self._index, state, None, allowed, Limits(), now=now)
            self._unindexed.refresh(state)
            _, view = search.look_up_words(read_question(""), self._unindexed, names={}, reader=None)
        with self._index.postings.lock:
            view.follow()
            times = times_within(view, begin, end)
        zone = self._settings.now.time.tzinfo()
        held = FactTimes(now, zone=zone)
        rows = Rows(self._truth, None, None, reader=reader, times=held, doubtful_below=0.0)
        items = rows.read(sorted(times))
        return [(item, times[place]) for place, item in items.items() if not item.past]

    def utterances(
        self, words: str, reader: Reader | None, *, own: bool = False, most: int = 10
    ) -> tuple[list[Recalled], int]:
        """Return what holds all of some words or is `turn:ID`, newest first, then the likeliest that share one; and how many do.

        `own`: only what the reader said.
        """
        reader, settings = with_stored_spelling(self._truth, reader), self._settings.now
        who = reader.speaker if own and reader else None
        kind, _, number = words.strip("[] ").partition(":")
        request = Request(
            reader=reader,
            k=most,
            kinds=_TURNS,
            min_score=_SHARE * settings.injection.floor,
            deadline_s=settings.recall.deadline_ms / 1e3 if own else None,
            repeated=True,
            noted=False,
        )
        if (ref := row_number(number) if kind == "turn" else -1) >= 0:
            ids, likely = [ref], []
        else:
            ids, likely = self._holding(words, reader, who), self.recall(words, request)
        times = FactTimes(self._clock.now(), zone=settings.time.tzinfo())
        rows = Rows(self._truth, None, None, reader=reader, times=times, doubtful_below=0.0)
        found = [*rows.read([(TURN, number) for number in ids[:most]]).values()]
        asked = frozenset(terms(words))
        # The operator names words that were said; who speaks says what it was about.
        likely = [item for item in likely if own or not asked.isdisjoint(terms(item.text))]
        found += likely if any(item.score >= settings.injection.floor for item in likely) else []
        turns = {
            (item.session, item.turn): item
            for item in found[::-1]
            if who in (None, item.speaker) and item.source != "assistant"
        }
        return sorted(turns.values(), key=found.index)[:most], len(ids)

    def _holding(self, words: str, reader: Reader | None, who: str | None) -> list[int]:
        """Return the ids of utterances that hold each word, also within a longer one; read one by one, since that is rare."""
        parts: list[tuple[str, ...]] = []
        for word, found_by in analyse(words).tokens:
            # Of text without spaces each sign counts, of a word a stem of any language; a short one begins a word.
            terms = tuple(f" {term}" if term.isascii() and len(term) < _PART else term for term in found_by)
            parts += [terms] if word and len(terms) <= _STEMS else [(term,) for term in terms]
        rule, values = reading_rule(reader, "t.")
        rows = self._truth.query(
            "select m.id, m.content from turns t cross join messages m on m.id = t.utterance"  # noqa: S608 - our own constants
            f" where m.content <> '' and (:who is null or t.speaker = :who) and {rule}"
            " order by ifnull(t.event_time, t.recorded / 1e6) desc, m.id desc",
            {"who": who, **values},
        )
        texts = ((ref, f" {' '.join(plain_words(text))}") for ref, text in rows if parts)
        return [ref for ref, text in texts if all(any(part in text for part in some) for some in parts)]

    def procedures(self, query: str, *, deadline_s: float | None, **asked: Any) -> list[Recalled]:
        """Return procedures that fit a task, as `Request` asks; with a deadline, `last` stays a turn's."""
        request = Request(kinds=_PROCEDURES, deadline_s=deadline_s, noted=deadline_s is None, **asked)
        return self.recall(query, request)

    def ranking_of(
        self, query: str, *, reader: Reader | None, kinds: Collection[Kind] | None = None, session: str = ""
    ) -> Ranking:
        """Return everything considered for a question, also one of a session, without a deadline."""
        reader = with_stored_spelling(self._truth, reader)
        asked, turns = self._read(query, session, reader)
        limits = Limits(candidates=self._settings.now.recall.candidates)
        past, session_id = asked.tense.past, self._session_id(session)
        allowed = Filter(reader, kinds=kinds, session_id=session_id, turns=turns, past=past)
        return self._search(asked, reader, {}, allowed, limits, self._embedder)[2]

    def _search(
        self,
        asked: Question,
        reader: Reader | None,
        names: Mapping[str, str],
        allowed: Filter,
        limits: Limits,
        embedder: Embedder | None,
        *,
        indexed: bool = True,
    ) -> tuple[Search, ParsedQuery, Ranking]:
        try:
            with self._tail_lock:
                # Read here: an older one than that of `UnindexedDocs` would give the same text twice.
                state = self._index.state() if indexed else None
                if allowed.metadata and state is not None:
                    allowed = allowed._replace(changed=self._index.changes(state)[1])
                self._unindexed.refresh(state)
                allowed = allowed._replace(over=self._unindexed.over)
                search = Search(self._index, state, embedder, allowed, limits, now=self._clock.now())
                who = reader.speaker if reader else None
                question, view = search.look_up_words(asked, self._unindexed, names=names, reader=who)
            return search, question, search.run(question, view)
        except (StoreError, ClosedError) as error:
            if not indexed:
                raise
            # The index is made again, and no reply waits for that; a broken truth raises once more.
            outcome = self._search(asked, reader, names, allowed, limits, embedder, indexed=False)
            self._index.mark_broken(error)
            return outcome

    def _refs(self, request: Request, when: When | None, reader: Reader | None) -> dict[int, Sequence[int]]:
        """Return the ids of the rows that count at the time asked for, by the kinds where not all do."""
        if when is not None:
            if request.kinds and "fact" not in request.kinds:
                return {}
            return {FACT: held_at(self._truth, when.valid_at, known_at=when.known_at, reader=reader)}
        if request.validity is None:
            return {}
        rule, values = request.validity
        rows = {kind: self._truth.query(f"{sql} and {rule}", values) for kind, sql in _OF_A_TIME.items()}
        return {kind: [ref for (ref,) in refs] for kind, refs in rows.items()}

    def _read(self, query: str, session: str, reader: Reader | None) -> tuple[Question, list[int]]:
        """Return a question with the last words of its session that its hearers may know, and the numbers of those turns."""
        now = self._clock.now()
        asked = read_question(query, now, self._settings.now.time.tzinfo())
        if not session:
            return asked, []
        words = read_words(self._truth, session, most=_EXCHANGES, since=now - _EXCHANGES_S, reader=reader)
        return msgspec.structs.replace(asked, before=tuple(text for _, text in words)), [n for n, _ in words]

    def _session_id(self, session: str) -> int | None:
        if not session:
            return None
        rows = self._truth.query("select id from sessions where name = ?", (session,))
        return rows[0][0] if rows else None
