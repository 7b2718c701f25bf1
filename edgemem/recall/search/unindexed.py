"""Unindexed docs: those too new for the index, read from the truth and put into the table beside those of the index.

It holds the newest few hundred rows beyond the index's watermarks, under the numbers that they will have there, so that a
message's neighbours are the same before and after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.recall.index.docs import read_row
from edgemem.recall.index.sources import SOURCES, TURN, Doc, Written, read_newest
from edgemem.recall.index.state import State
from edgemem.recall.people.names import called_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.recall.index.index import Index
    from edgemem.recall.index.table import DocTable, Row
    from edgemem.store.db.database import Database

MOST = 512
"""Rows of each table; beyond them idle time has long been due, and reading would be felt."""
_HIGHEST = "select {}".format(
    ", ".join(
        f"(select coalesce(max(id), 0) from {table})"  # noqa: S608 - our own names
        for table in ("index_queue", *(source.table for source in SOURCES))
    )
)


class UnindexedDocs:
    """Keeps itself up to date with each question; the caller holds a lock."""

    def __init__(self, truth: Database, index: Index, texts: Sequence[Written]) -> None:
        self._truth = truth
        self._index = index
        self._texts = texts
        self.docs: dict[int, Doc] = {}
        self._watermarks: tuple[object, ...] | None = None
        self._reached: dict[str, int] = {}
        self._added_to: DocTable | None = None
        self.tables: frozenset[str] | None = None
        """The tables of the truth that have rows; None: nobody has looked yet."""
        self._start(State(), 0)

    def refresh(self, state: State | None) -> None:
        """Read the rows written since the last question; without an index, the newest of every table."""
        known, state = state is not None, state or State()
        reached = {source.table: state.reached(source.table) for source in SOURCES}
        watermarks = (reached, state.last_message, state.last_other, state.notes, state.bank)
        # One look tells which tables have anything new: mostly none, or one.
        queue, *highest = self._truth.query(_HIGHEST)[0]
        if watermarks != self._watermarks or self._changed(queue):
            self._start(state, queue)
            self._reached, self._watermarks = dict(reached), watermarks
        self.tables = frozenset(source.table for source, last in zip(SOURCES, highest, strict=True) if last)
        now = self._truth.clock.now()
        for source, last in zip(SOURCES, highest, strict=True):
            if last <= self._reached[source.table]:
                continue
            new = read_newest(self._truth, source, self._reached[source.table], MOST, now)
            if new:
                self._reached[source.table] = new[-1].ref
            for doc in new:
                self._take(doc)
        for texts in self._texts:
            self._take_texts(texts, state, known=known)

    def add_to(self, table: DocTable) -> None:
        """Put its texts beside the indexed ones, for this question and the next ones."""
        if self._added_to is not table:
            table.drop_unindexed()
            self._added_to, self._added_docs = table, 0
        if self._added_docs == len(self.docs):
            return
        self._added_docs = len(self.docs)
        for number in self.docs:
            if number not in table:
                table.append(*self._rows[number], unindexed=True)

    def _start(self, state: State, queue: int) -> None:
        """Begin anew behind what the index holds."""
        self._added_to = None
        self.docs.clear()
        self.people: set[str] = set()
        """The speakers of its messages."""
        self.subjects: set[str] = set()
        """The subjects of its facts, in their words."""
        self._rows: dict[int, tuple[Row, str]] = {}
        self._added_docs = 0
        self._stamps: dict[str, str] = {}
        self._queue = queue
        self._next = {True: state.last_message + 1, False: state.last_other + 1}

    def _changed(self, newest: int) -> bool:
        """Tell whether anything that it holds was changed or erased in the truth."""
        if newest == self._queue:
            return False
        refs = {doc.ref for doc in self.docs.values()}
        rows = self._truth.query("select ref from index_queue where id > ?", (self._queue,))
        self._queue = newest
        return any(ref in refs for (ref,) in rows)

    def _take(self, doc: Doc) -> None:
        number = self._next[doc.kind == TURN]
        self._next[doc.kind == TURN] += 1
        self.docs[number], self._rows[number] = doc, read_row(number, doc)
        if doc.who:
            self.people.add(doc.who)
        if doc.subject:
            self.subjects.add(called_in(doc.text, doc.subject))

    def _take_texts(self, texts: Written, state: State, *, known: bool) -> None:
        stamp = texts.stamp()
        if stamp in (self._stamps.get(texts.stamped_as), state.stamp(texts.stamped_as)):
            return
        known_refs = {doc.ref for doc in self.docs.values() if doc.kind == texts.kind}
        if known:
            rows = self._index.database.query("select ref from docs where kind = ?", (texts.kind,))
            known_refs.update(ref for (ref,) in rows)
        for ref, doc in texts.docs().items():
            if ref not in known_refs:
                self._take(doc)
        self._stamps[texts.stamped_as] = stamp
