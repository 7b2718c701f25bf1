"""The table of docs in memory: columns and words of each, with the reader that follows an index file.

A doc that is taken out leaves its slot empty; one that is replaced moves to a new slot. Docs that the index does not hold yet are
here until it takes them in. A question looks up its words here alone: .1 ms among 30,000 texts (one x86-64 core), where FTS5 took
1.4 ms. Idle time reads texts in, some 10 µs each; an earlier question reads as many as its deadline allows, newest first.
"""

from __future__ import annotations

import threading
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from itertools import repeat
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.errors import CorruptError
from edgemem.preload import np, preload_later
from edgemem.recall.index.file import FIRST_OTHER, PRIVATE, Removals, State
from edgemem.recall.index.sources import KINDS, TURN
from edgemem.recall.people.phonetics import NamesBySound, SimilarTerms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.store.db.database import Database

    Slots = NDArray[np.intp]
    Numbers = NDArray[np.float32]

_TYPES = {
    "id": "i8", "ref": "i8", "at": "f8", "session": "i4", "turn": "i8", "who": "i4", "owner": "i4", "length": "i4",
    "kind": "u1", "level": "u1", "past": "?", "flags": "u2", "dated": "?",
}  # fmt: skip
_PAST = (0, 1)
NOBODY = 0
"""No person, no session."""
_NUMBERED = 1 << 24
"""Messages with larger numbers, of which there are none in forty years, have no neighbours."""
_OFTEN = 255  # occurrences of a term in a text, in 8 bits
_TERMS = 1000  # terms between two looks at `stop`

Span = tuple[float, float, float, float]
"""Begin and end of a time in a text, seconds since the epoch, how sure it is, and after how many seconds it comes again."""


class Row(NamedTuple):
    """One doc: its columns in the file."""

    id: int
    kind: int
    ref: int
    level: int
    owner: str | None
    who: str | None
    session_id: int | None
    turn: int | None
    at: float
    past: int
    subject: str | None
    relation: str | None
    flags: int
    called: str | None
    times: str | None
    names: str | None
    terms: str
    digest: int
    metadata: str | None = None

    @property
    def spans(self) -> list[Span]:
        """Return the times in its text."""
        return msgspec.json.decode(self.times, type=list[Span]) if self.times else []

    def decoded_names(self) -> tuple[str, ...]:
        """Return the names in its text."""
        return msgspec.json.decode(self.names, type=tuple[str, ...]) if self.names else ()


def checked_row(columns: Sequence[Any]) -> Row:
    """Return a row of the file; raise ValueError where it cannot be ours, as in a damaged file."""
    try:
        row = msgspec.convert(columns, Row)
        row.spans, row.decoded_names()
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error
    if (
        row.kind not in KINDS
        or not 0 <= row.level <= PRIVATE
        or row.past not in _PAST
        or not isfinite(row.at)
    ):
        raise ValueError("its kind, its level or its time does not exist, or whether it holds")
    return row


class DocTable:
    """Docs by slot, with their words; not safe to use from several threads at once."""

    def __init__(self) -> None:
        self.n = 0
        self.rows: dict[str, NDArray[Any]] = {name: np.zeros(0, type_) for name, type_ in _TYPES.items()}
        """By slot, with room for more at the end."""
        self.facts: dict[int, tuple[str | None, str | None]] = {}
        """Subject and relation of slots that have any."""
        self._about: defaultdict[str, set[int]] = defaultdict(set)
        """Slots of facts by their subject."""
        self.called: dict[int, frozenset[str]] = {}
        """Stems of those that a text speaks to by name, of slots that have any."""
        self.codes: dict[str | None, int] = {None: NOBODY}
        """Of speakers and owners, by name."""
        self.sessions: dict[int | None, int] = {None: NOBODY}
        self._speakers: Counter[int] = Counter()
        """Docs by their speaker's code."""
        self._slots: dict[int, int] = {}
        self._messages: NDArray[np.int32] = np.zeros(0, np.int32)
        """Slots of messages by their numbers, -1 where none is."""
        self._spans: NDArray[np.float64] = np.zeros((0, 5))
        self._last_span = 0
        self._postings: dict[str, array[int]] = {}
        """By term, its texts' slots times 256, plus its count in each: about 200 bytes for a text of ten words. By trait the same."""
        self.similar = SimilarTerms()
        """The terms by their sounds and ends."""
        self.names = NamesBySound()
        self._names: dict[int, tuple[str, ...]] = {}
        """Of slots that have any."""
        self._unindexed: set[int] = set()
        """Numbers of docs that are not in the index yet."""
        self.dropped = 0
        """Docs taken out so far."""
        self._stale = False
        """Whether there may be terms without a text."""

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, doc: int) -> bool:
        return doc in self._slots

    def append(self, row: Row, *, unindexed: bool = False) -> int:
        """Take a row in place of its number's last one; return its slot.

        `unindexed` rows are not in the index yet; `drop_unindexed` takes them out again.
        """
        spans, terms = row.spans, row.terms.split()
        self._vacate(row.id)
        who = self.codes.setdefault(row.who, len(self.codes))
        self._speakers[who] += 1
        slot = self.n
        self._make_room(slot)
        values = (
            row.id, row.ref, row.at, self.sessions.setdefault(row.session_id, len(self.sessions)),
            -1 if row.turn is None else row.turn, who, self.codes.setdefault(row.owner, len(self.codes)), len(terms), row.kind,
            row.level, bool(row.past), row.flags, bool(spans),
        )  # fmt: skip
        for column, value in zip(self.rows.values(), values):  # noqa: B905 - as long as one another
            column[slot] = value
        if unindexed:
            self._unindexed.add(row.id)
        for term, times in Counter(terms).items():
            packed = self._postings.get(term)
            if packed is None:
                packed = self._postings[term] = array("I")
                self.similar.add(term)
            packed.append(slot << 8 | min(times, _OFTEN))
        for trait in row.metadata.split("\n") if row.metadata else ():
            self._postings.setdefault(trait, array("I")).append(slot << 8)
        if row.subject or row.relation:
            self.facts[slot] = (row.subject, row.relation)
            if row.subject:
                self._about[row.subject].add(slot)
        if row.called:
            self.called[slot] = frozenset(row.called.split())
        if spans:
            self._keep_spans(slot, spans)
        if names := row.decoded_names():
            self._names[slot] = names
            self.names.add(slot, names)
        self._slots[row.id] = slot
        self.n = slot + 1
        if row.kind == TURN and 0 <= row.id < _NUMBERED:
            if row.id >= len(self._messages):
                self._messages = _longer(self._messages, max(256, row.id * 3 // 2), -1)
            self._messages[row.id] = slot
        return slot

    def drop(self, doc: int) -> None:
        """Remove a doc: its slot becomes empty, its terms stay until `prune`."""
        self._stale = self._stale or doc in self
        self._vacate(doc)

    def _vacate(self, doc: int) -> None:
        self._unindexed.discard(doc)
        slot = self._slots.pop(doc, None)
        if slot is None:
            return
        if self.rows["dated"][slot]:
            spans = self._spans[: self._last_span]
            spans[spans[:, 0] == slot] = (-1, 0, 0, 0, 0)
        if 0 <= doc < len(self._messages):
            self._messages[doc] = -1
        self._speakers[int(self.rows["who"][slot])] -= 1
        for column in self.rows.values():
            column[slot] = 0
        self.dropped += 1
        self.called.pop(slot, None)
        subject, _ = self.facts.pop(slot, (None, None))
        if subject:
            self._about[subject].discard(slot)
        self.names.drop(slot, self._names.pop(slot, ()))

    def drop_unindexed(self) -> None:
        """Remove the docs that the index still lacks."""
        for doc in list(self._unindexed):
            self.drop(doc)

    def prune(self, stop: Callable[[], bool] | None, lock: AbstractContextManager[Any]) -> None:
        """Drop terms without a text, once texts were taken out, in steps of milliseconds that ask `stop` and hold `lock`."""
        if not self._stale:
            return
        self._stale, terms = False, list(self._postings)
        for first in range(0, len(terms), _TERMS):
            if stop and stop():
                self._stale = True
                return
            with lock:
                ids = self.rows["id"]
                for term in terms[first : first + _TERMS]:
                    if not ids[np.frombuffer(self._postings[term], np.uint32) >> 8].any():
                        del self._postings[term]
                        self.similar.drop(term)

    def find(self, terms: Iterable[str]) -> list[tuple[str, Slots, Numbers]]:
        """Return the terms that any text holds, each with its texts' slots and its count in each."""
        packed = [
            (term, np.frombuffer(self._postings[term], np.uint32)) for term in terms if term in self._postings
        ]
        return [(term, (at >> 8).astype(np.intp), (at & _OFTEN).astype(np.float32)) for term, at in packed]

    def people(self) -> set[str]:
        """Return the names of speakers and owners."""
        return {name for name, code in self.codes.items() if name is not None and self._speakers[code] > 0}

    def slots_of(self, docs: Collection[int]) -> Slots:
        """Return the slot of each doc; -1: not here."""
        return np.fromiter(map(self._slots.get, docs, repeat(-1)), np.intp, len(docs))

    def fact_slots(self, subject: str) -> Slots:
        """Return the slots of the facts about a subject, given as stems."""
        slots = self._about.get(subject, ())
        return np.fromiter(slots, np.intp, len(slots))

    def spans(self) -> NDArray[np.float64]:
        """Return the times in texts, rows of a slot and a `Span`; slot -1 is of a text that is gone."""
        spans: NDArray[np.float64] = self._spans[: self._last_span]
        return spans

    def neighbours(self, slots: Slots, steps: Sequence[int]) -> Slots:
        """Return the slots of the messages so many after each, `[steps, slots]`; -1: none of the same session."""
        ids, kind, session = (self.rows[name] for name in ("id", "kind", "session"))
        numbers = ids[slots] + np.array(steps, np.int64)[:, None]
        # An empty slot is of another kind.
        inside = (slots >= 0) & (kind[slots] == TURN) & (numbers > 0) & (numbers < len(self._messages))
        beside = np.full(numbers.shape, -1, np.intp)
        beside[inside] = self._messages[numbers[inside]]
        beside[session[beside] != session[slots]] = -1
        return beside

    def _make_room(self, slot: int) -> None:
        """Make room for a slot: half as much again, so that a growing memory is not copied each turn."""
        if slot >= len(self.rows["id"]):
            room = max(256, slot * 3 // 2)
            self.rows = {name: _longer(column, room, 0) for name, column in self.rows.items()}

    def _keep_spans(self, slot: int, spans: Sequence[Span]) -> None:
        end = self._last_span + len(spans)
        if end > len(self._spans):
            self._spans = _longer(self._spans, max(64, end * 3 // 2), 0)
        self._spans[self._last_span : end] = [(slot, *span) for span in spans]
        self._last_span = end


def _longer(column: NDArray[Any], room: int, filling: int) -> NDArray[Any]:
    grown = np.full((room, *column.shape[1:]), filling, column.dtype)
    grown[: len(column)] = column
    return grown


# Imports numpy, and the modules it puts off until its first `unique`: 40 ms on one x86-64 core.
preload_later(lambda: np.unique(np.zeros(1)))

AT_ONCE = 300
"""Docs between two looks at `stop`."""
NEWEST = 2000
"""Docs of each kind that are read first: a question may be in a hurry."""


class _Range:
    """The numbers of one kind of docs that are in memory: above `first`, up to `last`."""

    def __init__(self, first: int) -> None:
        self.lowest = first
        self.first = self.last = -1
        """-1: nothing was read in yet."""

    def begin(self, at: int) -> None:
        """Begin behind a number, if nothing was read in yet."""
        if self.last < 0:
            self.first = self.last = max(self.lowest, at)

    def holds(self, doc: int) -> bool:
        return self.first < doc <= self.last


class ResidentPostings:
    """The docs in one index file with their postings, brought up to date with each question.

    Docs are numbered in two rows that only grow (messages, the rest), and removals are logged: a few look-ups tell all changes.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.lock = threading.RLock()
        """Held while the table is read or filled."""
        self._removals = Removals(database)
        self._table: DocTable | None = None
        self._messages, self._others = _Range(0), _Range(FIRST_OTHER - 1)

    @property
    def table(self) -> DocTable:
        """Return the table; the caller holds `lock`."""
        if self._table is None:  # late: opening need not wait for numpy
            self._table = DocTable()
        return self._table

    def warm(self, state: State, stop: Callable[[], bool] | None = None) -> bool:
        """Read in missing docs while nobody waits; return whether there were any."""
        with self.lock:
            self._follow_removals()
        worked = False
        while not (stop and stop()):
            with self.lock:  # a question waits for one step at most
                if not self._read(state):
                    break
            worked = True
        self.table.prune(stop, self.lock)
        return worked

    def follow_removals(self) -> None:
        """Drop docs from memory that were taken out of the file, also while nobody asks."""
        with self.lock:
            self._follow_removals()
        self.table.prune(None, self.lock)

    def follow(self, state: State, stop: Callable[[], bool] | None = None) -> bool:
        """Read in missing docs, at least some, until `stop`; return whether memory holds all. The caller holds `lock`."""
        self._follow_removals(state.removals)
        while self._read(state):
            if stop is not None and stop():
                ranges = self._ranges(state)
                return all(known.first == known.lowest and known.last >= newest for known, newest in ranges)
        return True

    def _follow_removals(self, newest: int | None = None) -> None:
        """Drop docs that were taken out of the file, or begin anew where they are not known."""
        table = self.table
        if table.n - len(table) <= max(AT_ONCE, table.n // 2):  # else memory has too many empty slots
            removed = self._removals.read_newest(newest=newest)
            for _, doc in removed or ():
                table.drop(doc)
                if self._messages.holds(doc) or self._others.holds(doc):
                    self._take("id = ?", (doc,))  # it may have been replaced under its number
            if removed is not None:
                return
        self._table = None
        self._messages, self._others = _Range(0), _Range(FIRST_OTHER - 1)
        self._removals.skip()

    def _ranges(self, state: State) -> list[tuple[_Range, int]]:
        return [(self._others, state.last_other), (self._messages, state.last_message)]

    def _read(self, state: State) -> bool:
        """Read in some missing docs; return whether any was missing."""
        for known, newest in self._ranges(state):
            known.begin(newest - NEWEST)
            if known.last < newest:
                sql = "id > ? and id <= ? order by id limit ?"
                numbers = self._take(sql, (known.last, newest, AT_ONCE))
                known.last = numbers[-1] if len(numbers) == AT_ONCE else newest
                return True
            if known.first > known.lowest:
                sql = "id > ? and id <= ? order by id desc limit ?"
                numbers = self._take(sql, (known.lowest, known.first, AT_ONCE))
                known.first = numbers[-1] - 1 if len(numbers) == AT_ONCE else known.lowest
                return True
        return False

    def _take(self, where: str, values: Sequence[int]) -> list[int]:
        """Read some docs in; return their numbers."""
        sql = f"select {', '.join(Row._fields)} from docs where {where}"  # noqa: S608 - our own text
        numbers: list[int] = []
        try:
            rows: list[tuple[Any, ...]] = self._database.query(sql, values)
            for row in [checked_row(row) for row in rows]:
                self.table.append(row)
                numbers.append(row.id)
        except (ValueError, OverflowError) as error:
            raise CorruptError(f"{self._database.path} is damaged: a row cannot be ({error}).") from error
        return numbers
