"""The tail: docs too new for the index, searched in memory.

It holds the newest few hundred rows beyond the index's watermarks, under the numbers that they will have there (so
that a message's neighbours are the same before and after), matched by the same stems and scored by the same formula.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from edgemem.recall.index.docs import row_of
from edgemem.recall.index.sources import NOTE, SOURCES, TURN, Doc, notes_stamp, read_newest, read_paragraphs
from edgemem.recall.index.state import State
from edgemem.recall.people.alike import Alikes
from edgemem.recall.people.names import called_in
from edgemem.recall.text.analyse import terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.index.index import Index
    from edgemem.recall.search.table import Columns, Row
    from edgemem.store.db.database import Database
    from edgemem.store.notes import NotesFile

    Slots = NDArray[np.intp]
    Numbers = NDArray[np.float32]


MOST = 512
"""Rows of each table; beyond them idle time has long been due, and reading would be felt."""
_HIGHEST = "select {}".format(
    ", ".join(
        f"(select coalesce(max(id), 0) from {table})"  # noqa: S608 - our own names
        for table in ("index_queue", *(source.table for source in SOURCES))
    )
)


class Tail:
    """Keeps itself up to date with each question; the caller holds a lock."""

    def __init__(self, truth: Database, index: Index, notes: NotesFile | None) -> None:
        self._truth = truth
        self._index = index
        self._notes = notes
        self.docs: dict[int, Doc] = {}
        self.people: set[str] = set()
        """The speakers of its messages."""
        self.subjects: set[str] = set()
        """The subjects of its facts, in their words."""
        self.terms = 0
        self._of: tuple[object, ...] | None = None
        self._reached: dict[str, int] = {}
        self._queue = 0
        self._notes_of: tuple[object, ...] = ()
        self._postings: dict[str, dict[int, int]] = defaultdict(dict)
        self.alikes = Alikes()
        """Its terms by how they sound and end."""
        self._lengths: dict[int, int] = {}
        self._next = {True: 0, False: 0}
        self._rows: dict[int, Row] = {}
        self._poured: Columns | None = None
        self._poured_docs = 0
        self._stale = False

    def refresh(self, state: State | None) -> None:
        """Read what was written since the last question; without an index, the newest of everything."""
        known, state = state is not None, state or State()
        of = (
            *(state.reached(source.table) for source in SOURCES),
            state.last_message,
            state.last_other,
            state.notes,
        )
        # One look tells which tables have anything new: mostly none, or one.
        queue, *highest = self._truth.query(_HIGHEST)[0]
        if of != self._of or self._changed(queue):
            self._start(state, queue)
            self._of = of
        now = self._truth.clock.now()
        for source, last in zip(SOURCES, highest, strict=True):
            if last <= self._reached[source.table]:
                continue
            new = read_newest(self._truth, source, self._reached[source.table], MOST, now)
            if new:
                self._reached[source.table] = new[-1].ref
            for doc in new:
                self._take(doc)
        self._take_notes(state, known=known)

    def counts(self, asked: Sequence[str]) -> dict[str, int]:
        """Return by term the number of its texts that hold it."""
        return {term: len(self._postings.get(term, ())) for term in asked}

    def find(self, asked: Sequence[str], columns: Columns) -> list[tuple[str, Slots, Numbers]]:
        """Return each term that it holds, with the slots of the texts and how often it stands there."""
        import numpy as np

        occurrences = []
        for term in asked:
            times = self._postings.get(term)
            if times:
                slots, often = columns.slots_of(times), np.fromiter(times.values(), np.float32, len(times))
                here = slots >= 0
                occurrences.append((term, slots[here], often[here]))
        return occurrences

    def having(self, stem: str) -> set[int]:
        """Return the numbers of its texts that a stem stands in."""
        return set(self._postings.get(stem, ()))

    def pour(self, columns: Columns) -> None:
        """Put what is known of its texts beside that of the indexed ones, for this question and the next ones."""
        if self._poured is not columns or self._stale:
            columns.drop_passing()
            self._poured, self._stale, self._poured_docs = columns, False, 0
        if self._poured_docs == len(self.docs):
            return
        self._poured_docs = len(self.docs)
        for number, doc in self.docs.items():
            if number not in columns:
                row = self._rows.get(number)
                if row is None:
                    row = self._rows[number] = row_of(number, doc, self._lengths[number])
                columns.append(row, passing=True)

    def _start(self, state: State, queue: int) -> None:
        self._stale = True
        self._rows.clear()
        self.docs.clear()
        self.people, self.subjects = set(), set()
        self._postings.clear()
        self.alikes = Alikes()
        self._lengths.clear()
        self.terms = 0
        self._notes_of = ()
        self._reached = {source.table: state.reached(source.table) for source in SOURCES}
        self._queue = queue
        self._next = {True: state.last_message + 1, False: state.last_other + 1}

    def _changed(self, newest: int) -> bool:
        if newest == self._queue:
            return False
        refs = {doc.ref for doc in self.docs.values()}
        rows = self._truth.query("select ref from index_queue where id > ?", (self._queue,))
        self._queue = newest
        return any(ref in refs for (ref,) in rows)

    def _take(self, doc: Doc) -> None:
        id_ = self._next[doc.kind == TURN]
        self._next[doc.kind == TURN] += 1
        stems = Counter(terms(doc.text))
        self.docs[id_] = doc
        if doc.who:
            self.people.add(doc.who)
        if doc.subject:
            self.subjects.add(called_in(doc.text, doc.subject))
        self._lengths[id_] = sum(stems.values())
        self.terms += self._lengths[id_]
        for term, n in stems.items():
            if term not in self._postings:
                self.alikes.add(term)
            self._postings[term][id_] = n

    def _take_notes(self, state: State, *, known: bool) -> None:
        if self._notes is None:
            return
        stamp = notes_stamp(self._notes)
        if self._notes_of == stamp or state.notes == "{}:{}".format(*stamp):
            return
        known_refs = {doc.ref for doc in self.docs.values() if doc.kind == NOTE}
        if known:
            rows = self._index.database.query("select ref from docs where kind = ?", (NOTE,))
            known_refs.update(ref for (ref,) in rows)
        for ref, doc in read_paragraphs(self._notes).items():
            if ref not in known_refs:
                self._take(doc)
        self._notes_of = stamp
