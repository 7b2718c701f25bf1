"""The results of a recall: items read from the truth for the candidates, at the last moment, and sessions.

Items that were erased, changed or closed to the reader since indexing are left out here. Sessions tell when something was talked
about: one scores as its best message, and more where several may answer, by a noisy or. Message scores fall slowly, so many weak
ones would outweigh a good one: the fourth power of each is taken, by which a session of one message has that message's score.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import tzinfo
from math import expm1, log1p, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.clock import local
from edgemem.recall.index.sources import (
    BANK,
    EPISODE,
    FACT,
    KINDS,
    NOTE,
    NUMBERS,
    PREFERENCE,
    SUMMARY,
    THOUGHT,
    TURN,
    fact_text,
    read_paragraphs,
    speaker_of,
)
from edgemem.records import Recalled, RecalledSession
from edgemem.scopes import scope_of
from edgemem.store.db.transaction import bound, placeholders
from edgemem.store.edges import list_edges, read_thought
from edgemem.store.episodes import stored_text, text_of
from edgemem.store.fact_queries import believed_at, read_doubts
from edgemem.store.graph import MESSAGE_LEVEL, SPEAKER, SUMMARIES
from edgemem.store.kinds import KINDS as STORED
from edgemem.store.rights import LEVELS, readable, reading_rule
from edgemem.store.thoughts import record_of
from edgemem.thoughts import EdgeRecord, Priority, pass_filters, traits_of

if TYPE_CHECKING:
    from edgemem.recall.index.sources import BankSections
    from edgemem.recall.times import When
    from edgemem.records import Reader, Recalled
    from edgemem.store.db.database import Database
    from edgemem.store.declaration import Kind
    from edgemem.store.notes import NotesFile
    from edgemem.thoughts import Filters

_FACT = """
  select s.id, k.key, f.value, f.valid_from, f.valid_to, f.known_to, f.source, k.scope, f.level, f.owner,
    f.speaker, f.event_time, ifnull(f.json like '[%', 0), ifnull(f.asr_confidence < :doubtful, 0), (
      select d.id from doubts d where d.key_id = s.key_id and d.settled is null and d.level = f.level
        and d.owner is f.owner and d.valid_from <= :now and coalesce(d.valid_to, 9e999) > :now
      order by d.id desc limit 1),
    exists (select 1 from doubts d where d.key_id = s.key_id and d.confirmed_by = s.id and d.id > s.id),
    {over}, {hidden}
  from facts s join fact_keys k on k.id = s.key_id
"""
# The part of a statement that still holds: its key's present interval, if this statement said it.
_PRESENT_FACT = """
  join facts f on f.id = (
    select b.id from facts b where b.key_id = s.key_id and b.known_to is null and b.valid_from <= :now
    order by b.valid_from desc limit 1)
  where f.origin = s.id and coalesce(f.valid_to, 9e999) > :now and f.value is not null
"""
# The same at another time, as known then.
_FACT_OF_THEN = "join facts f on f.id = ({}) where f.origin = s.id and f.value is not null"
# Of one that holds no more: its interval that is still believed, or all of it. Corrections leave few pieces, which begin where it
# did, so a key of many versions is not read through.
_PAST_FACT = """
  join facts f on f.id = coalesce((
    select b.id from (
      select b.id, b.origin, b.valid_from from facts b
      where b.key_id = s.key_id and b.known_to is null and b.valid_from >= s.valid_from order by b.valid_from limit 8) b
    where b.origin = s.id order by b.valid_from desc limit 1), s.id)
  where f.value is not null and f.valid_from <= :latest
"""
# Whether another statement holds now, or none.
_OVER = """
  s.id is not (
    select case when coalesce(b.valid_to, 9e999) > :now then b.origin end from facts b
    where b.key_id = s.key_id and b.known_to is null and b.valid_from <= :now order by b.valid_from desc limit 1)
"""
# Whether its end is closed to the reader: the next value, or the reason for taking it back.
_HIDDEN = """
  (exists (select 1 from facts n where n.key_id = f.key_id and n.known_to is null and n.valid_from = f.valid_to
      and n.value is not null and not {rule})
    or exists (select 1 from facts n where n.key_id = f.key_id and n.recorded = f.known_to and n.id = n.origin
      and n.value is not null and not {rule}))
"""
_MOST_EDGES = 100  # of the best items; a hub has more, and says little of each
MESSAGES = 100
"""So many of the best messages are looked at."""
SHOWN = 3
_POWER = 4


class FactTimes(NamedTuple):
    """The times of the facts to read."""

    now: float
    """Seconds since the epoch."""
    past: bool = False
    """Whether facts that hold no more are read too."""
    future: bool = False
    """With these, whether facts that do not hold yet are."""
    when: When | None = None
    """Instead, facts as they held then, and were known."""
    archived: bool = False
    """Whether archived thoughts are read too."""
    zone: tzinfo | None = None
    """Of the days; None: this machine's."""

    def query(self) -> tuple[str, dict[str, Any]]:
        """Return SQL that joins a statement's part that counts, and its values."""
        if self.when is not None:
            believed, known = believed_at(self.when.known_at)
            return _FACT_OF_THEN.format(believed), {"now": self.now, "t": self.when.valid_at, **known}
        if self.past:
            return _PAST_FACT, {"now": self.now, "latest": math.inf if self.future else self.now}
        return _PRESENT_FACT, {"now": self.now}

    @property
    def moment(self) -> float:
        """Return the moment at which a thing shall hold, and not have expired."""
        return self.now if self.when is None else self.when.valid_at

    def bounds(self) -> dict[str, Any]:
        """Return the values by which thoughts are held to these times."""
        past = self.past and self.when is None
        latest = math.inf if past and self.future else self.moment
        bounds = {"at": self.moment, "latest": latest, "now": self.now}
        return {**bounds, "any_time": past, "archived": self.archived}


class Rows:
    """Reads rows of the truth for one recall and its `reader` (None: the operator), each once, however many groups want it."""

    def __init__(
        self,
        truth: Database,
        notes: NotesFile | None,
        sections: BankSections | None,
        *,
        reader: Reader | None,
        times: FactTimes,
        doubtful_below: float,
        filters: Filters = (),
    ) -> None:
        self._truth, self._notes, self._sections, self._filters = truth, notes, sections, filters
        self._reader, self._times, self._doubtful = reader, times, {"doubtful": doubtful_below}
        self._items: dict[tuple[int, int], Recalled | None] = {}

    def read(self, refs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Recalled]:
        """Return the readable items of some rows by kind and id, without score and reason."""
        by_kind: dict[int, list[int]] = {}
        for kind, ref in refs:
            if (kind, ref) not in self._items:
                by_kind.setdefault(kind, []).append(ref)
        for kind, ids in by_kind.items():
            self._items.update(dict.fromkeys([(kind, ref) for ref in ids]))
            items = {item.name: item for item in self._of_kind(kind, ids)}
            sql = f"select subject, expires, metadata from marks where subject in ({placeholders([*items])})"  # noqa: S608 - ours
            marks = {name: mark for name, *mark in self._truth.query(sql, bound([*items]))}
            for name, item in items.items():
                expires, marked = marks.get(name, (None, None))
                metadata = item.metadata or (msgspec.json.decode(marked) if marked else {})
                # The truth has the last word, as of who may read it.
                passes = pass_filters(traits_of(metadata), self._filters)
                if passes and (expires or math.inf) > self._times.moment:
                    self._items[kind, int(item.id)] = msgspec.structs.replace(item, metadata=metadata)
        return {ref: kept for ref in refs if (kept := self._items[ref]) is not None}

    def importance(self, refs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], tuple[Priority, bool]]:
        """Return of some rows by kind and id the priority, P1 to P4, and whether nothing has confirmed them: the least comes first."""
        places = {f"{KINDS[kind]}:{ref}": (kind, ref) for kind, ref in refs}
        some, ids = placeholders([*places]), [ref for kind, ref in refs if kind == THOUGHT]
        # Most have neither mark nor edge, and are no stored thoughts.
        marked = f"select subject, subject from marks where subject in ({some})"  # noqa: S608 - our own names
        linked = f"select source_id, source_id from stored_edges where source_id in ({some})"  # noqa: S608 - ours
        stored = f"select 'thought:' || id, name from stored_thoughts where id in ({placeholders(ids)})"  # noqa: S608 - ours
        rows = self._truth.query(f"{marked} union {linked}", bound([*places]))
        ranks = dict.fromkeys(refs, (Priority.P3, True))
        for name, thought_id in rows + self._truth.query(stored, bound(ids)):
            if shown := read_thought(self._truth, thought_id, reader=self._reader):
                ranks[places[name]] = shown.priority, not shown.confirmation_count
        return ranks

    def edges(self, names: Sequence[str]) -> list[EdgeRecord]:
        """Return the stored edges at some thoughts, by their ids, that hold and that the reader may read: the newest."""
        at = placeholders(names)
        where = f"(source_id in ({at}) or target_id in ({at})) and ifnull(valid_from <= :at, 1) and ifnull(valid_to > :at, 1)"
        values = {**bound(names), "at": self._times.moment}
        return list_edges(self._truth, where, values, filters=(), limit=_MOST_EDGES, reader=self._reader)

    def shown(self, names: Sequence[str]) -> list[Recalled]:
        """Return the readable items of thoughts, stored or shown, by their ids, where recall knows the kind."""
        records = {name: record for name in names if (record := record_of(name))}
        stored = [name for name in names if name not in records]
        sql = f"select id from stored_thoughts where name in ({placeholders(stored)})"  # noqa: S608 - our own
        refs = [(THOUGHT, ref) for (ref,) in self._truth.query(sql, bound(stored))]
        refs += [(NUMBERS[kind], ref) for kind, ref in records.values() if kind in NUMBERS]
        return [*self.read(refs).values()]

    def _of_kind(self, kind: int, ids: Sequence[int]) -> Iterable[Recalled]:
        if kind == FACT:
            return self._facts(ids)
        if kind == NOTE:
            return self._notes_of(ids)
        return self._sections_of(ids) if kind == BANK else self._others(kind, ids)

    def _facts(self, ids: Sequence[int]) -> Iterable[Recalled]:
        reader, (which, moments) = self._reader, self._times.query()
        rule, values = reading_rule(reader, "f.")
        hidden = (
            "0"
            if reader is None or which == _PRESENT_FACT
            else _HIDDEN.format(rule=reading_rule(reader, "n.")[0])
        )
        rows = self._truth.query(
            f"{_FACT.format(over='0' if which == _PRESENT_FACT else _OVER, hidden=hidden)} {which} and s.id in ({placeholders(ids)}) and {rule}",
            {**bound(ids), **values, **moments, **self._doubtful},
        )
        ids = [row[14] for row in rows if row[14] is not None]
        doubts = {int(doubt.id): doubt for doubt in read_doubts(self._truth, ids=ids)} if ids else {}
        for ref, key, value, valid_from, valid_to, known_to, source, scope, level, owner, *more in rows:
            speaker, event_time, is_list, badly, doubted, misheard, over, ended_by_hidden = more
            doubt, why = None, None
            if doubted in doubts:
                doubt, why = doubts[doubted].value, doubts[doubted].disbelieved
            past = bool(over) and valid_from <= moments["now"]
            if past and ended_by_hidden and which == _PAST_FACT:
                continue  # its change is as private as the new value
            text, end = fact_text(key, value), valid_to
            if ended_by_hidden:
                past, end = False, None
            if past:
                if end is None and known_to is not None:
                    end = known_to / 1e6  # it was taken back then
                text, doubt = text if end is None else f"{text} (until {_day(end, self._times.zone)})", None
            elif doubt is not None:
                how = f"perhaps misheard: {doubt}" if why is None else f"not believed: {doubt}; {why}"
                text = f"{text} (since then heard, {how})"
            elif misheard:
                text, doubt = f"{text} (perhaps misheard)", value
            yield Recalled(
                "fact", str(ref), text, 0.0, recorded_at=ref / 1e6, valid_from=valid_from, valid_to=end, source=source,
                scope=scope, speaker=speaker, level=LEVELS[level], owner=owner, event_time=event_time, key=key, value=value,
                past=past, is_list=bool(is_list), heard_badly=bool(badly), doubt=doubt, disbelieved=None if doubt is None else why,
            )  # fmt: skip

    def _others(self, kind: int, ids: Sequence[int]) -> Iterable[Recalled]:
        who, rest = _OTHERS[kind]
        level_of = MESSAGE_LEVEL.format(m="f") if kind == TURN else f"{who}level"
        rule, values = reading_rule(self._reader, who, level=level_of)
        metadata = "f.metadata" if kind in _DESCRIBED else "null"
        rows: list[tuple[Any, ...]] = self._truth.query(
            f"select f.id, {metadata}, {level_of}, {who}owner, {rest} where f.id in ({placeholders(ids)}) and {rule}",
            {**bound(ids), **values, **self._doubtful, **self._times.bounds()},
        )
        for ref, given, level, owner, recorded, *columns in rows:
            yield Recalled(
                KINDS[kind], str(ref), score=0.0, recorded_at=recorded / 1e6, level=LEVELS[level], owner=owner,
                metadata=msgspec.json.decode(given) if given else {}, **_fields(kind, columns),
            )  # fmt: skip

    def _notes_of(self, ids: Sequence[int]) -> Iterable[Recalled]:
        # The rule of SQL, for the one source outside of it.
        notes = self._notes
        if notes is None or not readable(self._reader, notes.level, None):
            return
        paragraphs, name, level = read_paragraphs(notes), notes.path.name, notes.level
        for doc in (paragraphs[ref] for ref in ids if ref in paragraphs):
            yield Recalled("note", str(doc.ref), doc.text, 0.0, recorded_at=doc.at, source=name, level=level)

    def _sections_of(self, ids: Sequence[int]) -> Iterable[Recalled]:
        placed = {} if self._sections is None else self._sections.placed()
        for doc, file in (placed[ref] for ref in ids if ref in placed):
            level = LEVELS[doc.level]
            if readable(self._reader, level, doc.owner):
                yield Recalled(
                    "bank", str(doc.ref), doc.text, 0.0, recorded_at=doc.at, source=file.place, level=level, owner=doc.owner,
                    scope=file.scope if doc.owner is None else scope_of(doc.owner),
                )  # fmt: skip


def _day(seconds: float, zone: tzinfo | None) -> str:
    """Return a local date, or the seconds of a time that no calendar has."""
    try:
        return f"{local(seconds, zone):%Y-%m-%d}"
    except (ValueError, OverflowError):
        return f"{seconds:g}"


_OTHERS = {
    PREFERENCE: ("f.", "f.recorded, f.scope, f.key, f.value from preferences f"),
    EPISODE: (
        "f.",
        """
        f.id, f.kind, f.payload, f.outcome, f.summary, f.details, f.agent, f.speaker, f.event_time, f.session, f.turn
        from episodes f
        """,
    ),
    TURN: (
        "t.",
        f"""
        f.id, f.role, f.content, f.extra, s.name, f.turn, {SPEAKER.format(m="f")}, t.event_time,
          f.id = t.utterance and ifnull(t.asr_confidence < :doubtful, 0)
        from messages f join turns t on t.session_id = f.session_id and t.n = f.turn join sessions s on s.id = f.session_id
          and f.dropped is null and trim(f.content) <> ''
        """,  # nothing was heard of an empty one
    ),
    SUMMARY: (
        "f.",
        f"""
        f.id, f.summary, s.name from (select id, session_id, summary, level, owner from {SUMMARIES} where not done
          union all select id, session_id, summary, level, owner from session_summaries) f
        join sessions s on s.id = f.session_id
        """,  # noqa: S608 - our own constant
    ),
    THOUGHT: (
        "f.",
        """
        f.id, f.name, f.essence, f.source, f.valid_from, f.valid_to, ifnull(f.valid_to <= :now, 0)
        from (select * from stored_thoughts
          where (level < 2 or owner is not null) and (:archived or lifecycle <> 'ARCHIVED')
            and ifnull(valid_from <= :latest, 1) and (:any_time or ifnull(valid_to > :at, 1) and ifnull(expires > :at, 1))) f
        """,
    ),
}
"""By kind: the row whose level and owner count, and the columns beside, after the time of writing."""


def _select(kind: Kind) -> str:
    """Return the columns of a kind whose rows are docs: time of writing, name, speaker, when it happened, and texts."""
    columns = [f"f.{kind.newest}", "f.name" if kind.unique == ("name",) else "null"]
    columns += [
        "f.speaker" if "speaker" in kind.names else "null",
        kind.time("f"),
        *(f"f.{column}" for column in kind.found_by),
    ]
    return f"{', '.join(columns)} from {kind.table} f"


_KIND_OF = {number: kind for number, doc in KINDS.items() for kind in STORED if kind.doc == doc}
_DESCRIBED = {number for number, kind in _KIND_OF.items() if "metadata" in kind.names}
"""Kinds whose rows have metadata; of others marks have it."""
_OTHERS |= {n: ("f.", _select(kind)) for n, kind in _KIND_OF.items() if n not in (FACT, *_OTHERS)}


def _fields(kind: int, columns: Sequence[Any]) -> dict[str, Any]:
    if kind == PREFERENCE:
        scope, key, value = columns
        return {"text": fact_text(key, value), "scope": scope, "key": key, "value": value}
    if kind == THOUGHT:
        names = ("key", "text", "source", "valid_from", "valid_to", "past")
        return {**dict(zip(names, columns, strict=True)), "past": bool(columns[-1])}
    if kind == SUMMARY:
        return dict(zip(("text", "session"), columns, strict=True))
    if kind == EPISODE:
        *stored, agent, speaker, event_time, session, turn = columns
        fields = {"text": stored_text(*stored), "source": agent, "speaker": speaker, "event_time": event_time}
        # A tool's result is told beside its turn, whose words may have been cut.
        return fields if stored[3] is None else {**fields, "session": session, "turn": turn}
    if kind != TURN:
        name, speaker, event_time, *words = columns
        fields = {"text": text_of(_KIND_OF[kind], words), "speaker": speaker, "event_time": event_time}
        return fields if name is None else {**fields, "key": name}
    role, content, extra, session, turn, speaker, event_time, badly = columns
    return {
        "text": content, "source": role, "speaker": speaker_of(role, speaker, extra), "event_time": event_time,
        "session": session, "turn": turn, "heard_badly": bool(badly),
    }  # fmt: skip


def sessions_of(items: Iterable[Recalled]) -> list[RecalledSession]:
    """Return the sessions of messages, given best first, in the order of scores and then of their best messages."""
    messages: dict[str, list[Recalled]] = {}
    for item in items:
        if item.kind == "turn" and item.session is not None:
            messages.setdefault(item.session, []).append(item)
    sessions = [
        RecalledSession(name, any_of([message.score for message in some]), some[0].event_time or some[0].recorded_at,
                        tuple(some[:SHOWN]))
        for name, some in messages.items()
    ]  # fmt: skip
    return sorted(sessions, key=lambda session: -session.score)


def any_of(scores: Iterable[float]) -> float:
    """Return a session's score from its messages', 0 to 1: at least the best of them."""
    none, best = 0.0, 0.0  # the logarithm of the chance that none answers
    for score in scores:
        if score >= 1:
            return 1.0
        none += log1p(-(max(score, 0.0) ** _POWER))
        best = max(best, score)
    return max(best, sqrt(sqrt(-expm1(none))))
