"""The view: what one question sees of the docs, also of those that are too new for the index.

The rule of `store.rights` decides on the table who may find which doc; results are read from the truth again, where the rule in
SQL has the last word. The newest few hundred rows beyond the index's watermarks get their future numbers in the table, so that a
message's neighbours are the same before and after.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.preload import np
from edgemem.recall.index.docs import SAYS_I, read_row
from edgemem.recall.index.file import PRIVATE, State
from edgemem.recall.index.sources import (
    BANK,
    FACT,
    KINDS,
    NOTE,
    OVER,
    PREFERENCE,
    SOURCES,
    TURN,
    Doc,
    Written,
    read_newest,
)
from edgemem.recall.index.table import NOBODY
from edgemem.thoughts import pass_filters

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.recall.index.index import Index
    from edgemem.recall.index.table import DocTable
    from edgemem.records import Reader
    from edgemem.store.db.database import Database
    from edgemem.thoughts import Filters

    Slots = NDArray[np.intp]
    Numbers = NDArray[np.float32]

_MOST = 512
"""Rows of each table: with more, idle time is long due, and reading would be felt."""
_MOST_CHARS = 1 << 18
"""Characters of each table's newest rows, and of each other text: some tenths of a second on a Pi."""
_HIGHEST = "select {}".format(
    ", ".join(
        f"(select coalesce(max(id), 0) from {table})"  # noqa: S608 - our own names
        for table in ("index_queue", *(source.table for source in SOURCES))
    )
)
_BY_TIME = (PREFERENCE, NOTE, BANK)
"""Kinds whose refs are no ticks: their time tells when they were learnt."""


class UnindexedDocs:
    """Docs that the index lacks, brought up to date with each question; the caller holds a lock."""

    def __init__(self, truth: Database, index: Index, texts: Sequence[Written]) -> None:
        self._truth = truth
        self._index = index
        self._texts = texts
        self.docs: dict[int, Doc] = {}
        self._watermarks: tuple[object, ...] | None = None
        self._reached: dict[str, int] = {}
        self._added_to: DocTable | None = None
        self.over: list[int] = []
        """Facts that are over, and in the index as if they held."""
        self._over_at = (0, 0)
        self.tables: frozenset[str] | None = None
        """Tables of the truth with rows; None: not known yet."""
        self._start(State(), 0)

    def refresh(self, state: State | None) -> None:
        """Read rows written since the last question; without an index, the newest of every table."""
        known, state = state is not None, state or State()
        reached = {source.table: state.reached(source.table) for source in SOURCES}
        watermarks = (reached, state.last_message, state.last_other, state.notes, state.bank)
        # One look tells which tables have new rows: mostly none, or one.
        queue, *highest = self._truth.query(_HIGHEST)[0]
        if watermarks != self._watermarks or self._changed(queue):
            self._start(state, queue)
            self._reached, self._watermarks = dict(reached), watermarks
        self.tables = frozenset(source.table for source, last in zip(SOURCES, highest, strict=True) if last)
        now = self._truth.clock.now()
        if (state.queue, queue) != self._over_at:
            rows = self._truth.query(OVER, {"after": state.queue, "now": now}) if queue > state.queue else ()
            self.over, self._over_at = [ref for (ref,) in rows], (state.queue, queue)
        for source, last in zip(SOURCES, highest, strict=True):
            if last <= self._reached[source.table]:
                continue
            new = read_newest(self._truth, source, self._reached[source.table], _MOST, now)
            if new:
                self._reached[source.table] = new[-1].ref
            for doc in _newest(new):
                self._take(doc)
        for texts in self._texts:
            self._take_texts(texts, state, known=known)

    def add_to(self, table: DocTable) -> None:
        """Put its texts beside the indexed ones, for this question and the next."""
        if self._added_to is not table:
            table.drop_unindexed()
            self._added_to, self._added_docs = table, 0
        if self._added_docs == len(self.docs):
            return
        self._added_docs = len(self.docs)
        zone = self._index.settings.now.time.tzinfo()
        for number, doc in self.docs.items():
            if number not in table:
                table.append(read_row(number, doc, zone), unindexed=True)

    def _start(self, state: State, queue: int) -> None:
        """Begin anew behind the index."""
        self._added_to = None
        self.docs.clear()
        self._added_docs = 0
        self._stamps: dict[str, str] = {}
        self._queue = queue
        self._next = {True: state.last_message + 1, False: state.last_other + 1}

    def _changed(self, newest: int) -> bool:
        """Tell whether the truth changed or erased any doc held here."""
        if newest == self._queue:
            return False
        refs = {doc.ref for doc in self.docs.values()}
        rows = self._truth.query("select ref from index_queue where id > ?", (self._queue,))
        self._queue = newest
        return any(ref in refs for (ref,) in rows)

    def _take(self, doc: Doc) -> None:
        number = self._next[doc.kind == TURN]
        self._next[doc.kind == TURN] += 1
        self.docs[number] = doc

    def _take_texts(self, texts: Written, state: State, *, known: bool) -> None:
        stamp = texts.stamp()
        if stamp in (self._stamps.get(texts.stamped_as), state.stamp(texts.stamped_as)):
            return
        known_refs = {doc.ref for doc in self.docs.values() if doc.kind == texts.kind}
        if known:
            rows = self._index.database.query("select ref from docs where kind = ?", (texts.kind,))
            known_refs.update(ref for (ref,) in rows)
        for doc in _newest([doc for ref, doc in texts.docs().items() if ref not in known_refs]):
            self._take(doc)
        self._stamps[texts.stamped_as] = stamp


def _newest(docs: Sequence[Doc]) -> Sequence[Doc]:
    """Return the last docs, as far as there is time to read them before they are indexed."""
    sizes = accumulate(len(doc.text) for doc in reversed(docs))
    return docs[len(docs) - sum(size <= _MOST_CHARS for size in sizes) :]


class Filter(NamedTuple):
    """The docs that a question may find."""

    reader: Reader | None
    """With the name as in the index, see `with_stored_spelling`; None: the operator, who reads everything."""
    kinds: Collection[str] | None = None
    """None: all."""
    session_id: int | None = None
    """Without this session's `turns`."""
    turns: Collection[int] = ()
    past: bool = False
    """Whether facts that hold no more are found too."""
    known_at: int | None = None
    """Only docs known by this tick; None: all."""
    kind_refs: Mapping[int, Sequence[int]] = MappingProxyType({})
    """By kinds that are true of some time the only rows that count, by their ids; of other kinds all do."""
    refs: Collection[int] | None = None
    """Only rows with these ids; None: all."""
    ended: Sequence[int] = ()
    """Rows that take nobody's place, by their ids, which are ticks and so no other row's."""
    over: Sequence[int] = ()
    """Facts that are over, which the index has still to learn: they count for nothing, unless the past is asked for; ids are ticks."""
    metadata: Filters = ()
    """Only docs that pass these,"""
    changed: Sequence[Doc] = ()
    """of which these are not yet in the index as they are now."""


class QueryView:
    """The slots that one question sees, as of its beginning, with its scores for each; the caller holds the lock of the table.

    It gives only slots that may be found. Arrays have one more value at the end, for no slot (-1).
    """

    def __init__(self, table: DocTable, asked: Filter) -> None:
        self.table = table
        self.filter = asked
        self._dropped = table.dropped
        self.n = table.n
        self.readable = self._readable(asked.reader)
        """Mask of the slots that the reader may read."""
        if asked.over and not asked.past:
            self.readable[: self.n] &= np.isin(table.rows["ref"][: self.n], asked.over, invert=True)
        self.findable = self._findable(asked)
        """Mask of the slots that this question may find."""
        self.words, self.window, self.cosines, self.topic = np.zeros((4, self.n + 1), np.float32)
        """By slot: BM25, at last as a share of the best possible; BM25 with the neighbours; the cosine; the idf of what was said before."""
        self.session: Numbers = np.zeros(len(table.sessions), np.float32)
        """BM25 of each session, by its code."""
        self.known_share = 1.0
        """The share of the idf of the question's words in texts that may be found, 0 to 1."""
        self.has_cosine, self.mentions, self.exact, self.candidates = np.zeros((4, self.n + 1), bool)
        """Masks of texts with a known cosine, about a person whom the question names, with a code that it asks for, and of candidates."""

    def _readable(self, reader: Reader | None) -> NDArray[np.bool_]:
        rows, n = self.table.rows, self.n
        allowed = np.zeros(n + 1, bool)
        np.not_equal(rows["id"][:n], 0, out=allowed[:n])
        if reader is not None:
            level = rows["level"][:n]
            read = level <= int(reader.is_recognised)
            owner = self.table.codes.get(reader.speaker) if reader.is_alone else NOBODY
            if owner:
                read |= (level == PRIVATE) & (rows["owner"][:n] == owner)
            allowed[:n] &= read
        return allowed

    def _findable(self, asked: Filter) -> NDArray[np.bool_]:
        rows, n = self.table.rows, self.n
        allowed: NDArray[np.bool_] = self.readable.copy()
        may, kind = allowed[:n], rows["kind"][:n]
        if not asked.past:
            may &= ~rows["past"][:n]
        if asked.kinds is not None:
            may &= np.array([name in asked.kinds for name in KINDS.values()])[kind]
        if asked.refs is not None:
            may &= np.isin(rows["ref"][:n], np.array(list(asked.refs), np.int64))
        code = None if asked.session_id is None else self.table.sessions.get(asked.session_id)
        if code is not None and asked.turns:
            here = np.flatnonzero(rows["session"][:n] == code)
            may[here] &= np.isin(rows["turn"][here], list(asked.turns), invert=True)
        for number, refs in asked.kind_refs.items():
            here = np.flatnonzero(kind == number)
            may[here] &= np.isin(rows["ref"][here], np.array(refs, np.int64))
        if asked.ended:
            may &= np.isin(rows["ref"][:n], np.array(asked.ended, np.int64), invert=True)
        if asked.metadata:
            may &= self._passing(asked)
        if asked.known_at is not None:
            may &= np.where(np.isin(kind, _BY_TIME), rows["at"][:n] * 1e6, rows["ref"][:n]) <= asked.known_at
        return allowed

    def _passing(self, asked: Filter) -> NDArray[np.bool_]:
        """Tell which docs have the metadata that is asked for."""
        kind, ref = (self.table.rows[name][: self.n] for name in ("kind", "ref"))
        passing = np.ones(self.n, bool)
        for traits in asked.metadata:
            having = np.zeros(self.n, bool)
            for _, slots, _ in self.table.find(traits):
                having[slots] = True
            passing &= having
        for doc in asked.changed:
            here = np.flatnonzero((ref == doc.ref) & (kind == doc.kind))
            passing[here] = pass_filters((doc.metadata or "").split("\n"), asked.metadata)
        return passing

    def size(self) -> tuple[int, int]:
        """Count the texts, of any kind, that the reader may read, and their words."""
        read = self.readable[: self.n]
        return int(np.count_nonzero(read)), int(self.table.rows["length"][: self.n][read].sum())

    def words_in_sessions(self) -> NDArray[Any]:
        """Count the words of each session, by its code, that may be read: the others leave no trace."""
        rows, read = self.table.rows, self.readable[: self.n]
        session, length = rows["session"][: self.n][read], rows["length"][: self.n][read]
        return np.bincount(session, length, len(self.table.sessions))

    def follow(self) -> None:
        """Hide texts that were taken out of the index since this view was made."""
        if self._dropped != self.table.dropped:
            self._dropped = self.table.dropped
            self.findable[: self.n] &= self.table.rows["id"][: self.n] != 0

    def visible(self, slots: Slots) -> Slots:
        """Return the slots that may be found."""
        slots = slots[slots < self.n]
        return slots[self.findable[slots]]

    def neighbours(self, slots: Slots, steps: Sequence[int]) -> Slots:
        """Return the slots of the messages some steps after each, `[steps, slots]`; -1: none, or closed to the reader."""
        return self._or_none(self.table.neighbours(slots, steps))

    def with_neighbours(self, slots: Slots, steps: Sequence[int]) -> Slots:
        """Return slots and those of the messages at some steps from them, once each, ascending."""
        marked = np.zeros(self.n + 1, bool)
        marked[slots] = True
        marked[self.neighbours(slots, steps)] = True
        return np.flatnonzero(marked[:-1])

    def slots_of(self, docs: Collection[int]) -> Slots:
        """Return the slot of each doc; -1: it may not be found."""
        return self._or_none(self.table.slots_of(docs))

    def about_people(self, people: Iterable[str], slots: Slots | slice) -> NDArray[np.bool_]:
        """Tell which texts speak of one of the people whom the question names, or are their own."""
        concerned: NDArray[np.bool_] = self.mentions[slots] | self.own(people, slots)
        return concerned

    def own(self, people: Iterable[str], slots: Slots | slice) -> NDArray[np.bool_]:
        """Tell which texts one of these people said of themselves, and which facts belong to them alone."""
        rows, named = self.table.rows, np.zeros(len(self.table.codes), bool)
        named[[code for name in people if (code := self.table.codes.get(name)) is not None]] = True
        own: NDArray[np.bool_] = named[rows["who"][slots]] & ((rows["flags"][slots] & SAYS_I) > 0)
        own |= named[rows["owner"][slots]] & (rows["kind"][slots] == FACT)
        return own

    def _or_none(self, slots: Slots) -> Slots:
        slots[slots >= self.n] = -1  # it came after the question
        return np.where(self.findable[slots], slots, -1)
