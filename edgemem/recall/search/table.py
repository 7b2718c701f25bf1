"""The table of docs: what is known of each one in memory, the words of all, and who may find which.

A doc has a slot. One that is taken out leaves an empty slot, and one that is replaced moves to a new one. Docs that the
index does not know yet stand in the same table until it has taken them in.

Who may find what is decided on the columns here, by the rule of `store.rights`. What is found is read from the truth
once more, where the rule in SQL has the last word.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.provisions import later
from edgemem.recall.index.sources import FACT, KINDS, NOTE, PREFERENCE, TURN
from edgemem.recall.index.state import PRIVATE
from edgemem.recall.people.alike import Alikes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from contextlib import AbstractContextManager

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.people.alike import Alike
    from edgemem.records import Reader

    Slots = NDArray[np.intp]
    Numbers = NDArray[np.float32]


COLUMNS = """
  d.id, d.kind, d.ref, d.level, d.owner, d.who, d.session_id, d.turn, d.at, d.past, d.subject, d.relation, d.marks,
  d.called, d.times, d.length
"""
"""What a Row is made of, from `docs d`."""

_TYPES = {
    "id": "i8", "ref": "i8", "at": "f8", "session": "i4", "turn": "i8", "who": "i4", "owner": "i4", "length": "i4",
    "called": "i4", "kind": "u1", "level": "u1", "past": "?", "marks": "u1", "dated": "?",
}  # fmt: skip
BESIDE = (-2, -1, 1, 2)
"""The neighbours of a message that are looked at: so many messages after it."""
_PAST = (0, 1)
NOBODY = 0
"""The code of nobody, and of no session."""
_NUMBERED = (
    1 << 24
)  # messages with larger numbers, of which there are none in forty years, have no neighbours
_OFTEN = 255  # how often a term stands in a text is kept in 8 bits
_TERMS = 1000  # terms that are looked at between two looks at `stop`


class Row(NamedTuple):
    """One doc, as its columns stand in the file."""

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
    marks: int
    called: str | None
    times: str | None
    length: int

    @property
    def spans(self) -> list[tuple[float, float, float]]:
        """Return the times that it speaks of: begin, end, how sure."""
        return msgspec.json.decode(self.times, type=list[tuple[float, float, float]]) if self.times else []


def sound_row(columns: Sequence[Any]) -> Row:
    """Return a row of the file; in a damaged one it may be anything, and then this raises ValueError."""
    try:
        row = msgspec.convert(columns, Row)
        row.spans  # noqa: B018 - they must be such
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error
    if row.kind not in KINDS or not 0 <= row.level <= PRIVATE or row.past not in _PAST:
        raise ValueError("its kind or its level does not exist, or whether it holds")
    return row


class Postings:
    """In which slots terms stand, and how often: about 200 bytes for a text of ten words."""

    def __init__(self) -> None:
        self._packed: dict[str, array[int]] = {}
        self.alikes = Alikes()
        """The terms by how they sound and end."""

    def add(self, slot: int, stems: str) -> None:
        """Note the stems of the text in a slot, given with spaces between them."""
        for term, times in Counter(stems.split()).items():
            packed = self._packed.get(term)
            if packed is None:
                packed = self._packed[term] = array("I")
                self.alikes.add(term)
            packed.append(slot << 8 | min(times, _OFTEN))

    def terms(self) -> list[str]:
        """Return all terms."""
        return list(self._packed)

    def of(self, term: str) -> NDArray[np.uint32]:
        """Return the slots of a term in ascending order, times 256, with how often it stands there."""
        import numpy as np

        packed = self._packed.get(term)
        return np.zeros(0, np.uint32) if packed is None else np.frombuffer(packed, np.uint32)

    def drop(self, term: str) -> None:
        """Leave nothing of a term."""
        if self._packed.pop(term, None) is not None:
            self.alikes.drop(term)


class DocTable:
    """Docs by slot, with their words; not safe to use from several threads at once."""

    def __init__(self) -> None:
        import numpy as np

        self.n = 0
        self.rows: dict[str, NDArray[Any]] = {name: np.zeros(0, type_) for name, type_ in _TYPES.items()}
        """By slot, with room for more at the end."""
        self.names: list[str | None] = [None]
        """Of whoever spoke or owns something, by code."""
        self.facts: dict[int, tuple[str | None, str | None]] = {}
        """Subject and relation of those slots that have any."""
        self._about: defaultdict[str, set[int]] = defaultdict(set)
        """The slots of facts by their subject."""
        self.callings: list[frozenset[str]] = [frozenset()]
        """Stems of whom texts speak to by name, by the code in `called`."""
        self._codes: dict[str | None, int] = {None: NOBODY}
        self._sessions: dict[int | None, int] = {None: NOBODY}
        self._calling_codes = {self.callings[0]: NOBODY}
        self._slots: dict[int, int] = {}
        self._messages: NDArray[np.int32] = np.zeros(0, np.int32)
        """The slots of messages by their numbers, -1 where none is."""
        self._spans: NDArray[np.float64] = np.zeros((0, 4))
        self._last_span = 0
        self._kept = Postings()
        self._passing: dict[int, str] = {}
        """The stems of what is not in the index yet, by its number,"""
        self._passing_words = Postings()
        """and where they stand."""
        self.dropped = 0
        """How many docs were taken out."""

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, doc: int) -> bool:
        return doc in self._slots

    def append(self, row: Row, stems: str = "", *, passing: bool = False) -> int:
        """Take a row in, in place of what its number had before; return its slot.

        Args:
            stems: of its text, with spaces between them.
            passing: it is not in the index yet; `drop_passing` takes it out again.
        """
        spans = row.spans
        self.drop(row.id)
        slot = self.n
        self._make_room(slot)
        called = self._calling(frozenset(row.called.split())) if row.called else NOBODY
        values = (
            row.id, row.ref, row.at, self._sessions.setdefault(row.session_id, len(self._sessions)),
            -1 if row.turn is None else row.turn, self._code(row.who), self._code(row.owner), row.length, called, row.kind,
            row.level, bool(row.past), row.marks, bool(spans),
        )  # fmt: skip
        for column, value in zip(self.rows.values(), values):  # noqa: B905 - as long as one another
            column[slot] = value
        if passing:
            self._passing[row.id] = stems
        (self._passing_words if passing else self._kept).add(slot, stems)
        if row.subject or row.relation:
            self.facts[slot] = (row.subject, row.relation)
            if row.subject:
                self._about[row.subject].add(slot)
        if spans:
            self._keep_spans(slot, spans)
        self._slots[row.id] = slot
        self.n = slot + 1
        if row.kind == TURN and 0 <= row.id < _NUMBERED:
            if row.id >= len(self._messages):
                self._messages = _longer(self._messages, max(256, row.id * 3 // 2), -1)
            self._messages[row.id] = slot
        return slot

    def drop(self, doc: int) -> None:
        """Leave nothing of a doc but its terms, until they are pruned; its slot stays, and is nobody's."""
        self._passing.pop(doc, None)
        slot = self._slots.pop(doc, None)
        if slot is None:
            return
        if self.rows["dated"][slot]:
            spans = self._spans[: self._last_span]
            spans[spans[:, 0] == slot] = (-1, 0, 0, 0)
        if 0 <= doc < len(self._messages):
            self._messages[doc] = -1
        for column in self.rows.values():
            column[slot] = 0
        self.dropped += 1
        subject, _ = self.facts.pop(slot, (None, None))
        if subject:
            self._about[subject].discard(slot)

    def drop_passing(self) -> None:
        """Leave nothing of what was not in the index yet; what the index has taken in since stays."""
        for doc in list(self._passing):
            self.drop(doc)
        self._passing_words = Postings()

    def prune(self, stop: Callable[[], bool] | None, lock: AbstractContextManager[Any]) -> bool:
        """Drop the terms that no text holds any more; return whether it came to the end.

        Args:
            stop: asked between steps of some milliseconds.
            lock: held during each of them.
        """
        terms = self._kept.terms()
        for first in range(0, len(terms), _TERMS):
            if stop and stop():
                return False
            with lock:
                ids = self.rows["id"]
                for term in terms[first : first + _TERMS]:
                    if not ids[self._kept.of(term) >> 8].any():
                        self._kept.drop(term)
        return True

    def find(self, terms: Iterable[str]) -> list[tuple[str, Slots, Numbers]]:
        """Return terms with the slots that each stands in, and how often; one that new texts hold as well comes twice."""
        import numpy as np

        packed = [(term, words.of(term)) for term in terms for words in (self._kept, self._passing_words)]
        return [
            (term, (some >> 8).astype(np.intp), (some & _OFTEN).astype(np.float32))
            for term, some in packed
            if len(some)
        ]

    def near(self, term: str, *, wide: bool) -> list[Alike]:
        """Return the terms that sound like a term, with their distances."""
        both = (self._kept.alikes, self._passing_words.alikes)
        return list(dict(alike for alikes in both for alike in alikes.near(term, wide=wide)).items())

    def ending_in(self, term: str) -> set[str]:
        """Return the longer terms that end with a term."""
        return {*self._kept.alikes.ending_in(term), *self._passing_words.alikes.ending_in(term)}

    def slots_of(self, docs: Collection[int]) -> Slots:
        """Return the slot of each doc; -1 where it is not here."""
        import numpy as np

        return np.fromiter(map(self._slots.get, docs, repeat(-1)), np.intp, len(docs))

    def about(self, subject: str) -> Slots:
        """Return the slots of the facts about a subject, given as stems."""
        import numpy as np

        slots = self._about.get(subject, ())
        return np.fromiter(slots, np.intp, len(slots))

    def code(self, name: str | None) -> int | None:
        """Return the code of a name; None where nobody here has it."""
        return self._codes.get(name)

    def session_code(self, session_id: int) -> int | None:
        """Return the code of a session; None where nothing here is of it."""
        return self._sessions.get(session_id)

    @property
    def sessions(self) -> int:
        """Return how many sessions there are, that of no session included."""
        return len(self._sessions)

    def readable(self, only: Filter) -> NDArray[np.bool_]:
        """Return by slot what the reader may read, whether it is looked for or not, and one more that nobody may."""
        import numpy as np

        rows, n = self.rows, self.n
        allowed = np.zeros(n + 1, bool)
        np.not_equal(rows["id"][:n], 0, out=allowed[:n])
        if only.reader is not None:
            level = rows["level"][:n]
            read = level <= int(only.reader.known)
            owner = self.code(only.reader.speaker) if only.reader.alone else NOBODY
            if owner:
                read |= (level == PRIVATE) & (rows["owner"][:n] == owner)
            allowed[:n] &= read
        return allowed

    def findable(self, only: Filter, readable: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which of the readable slots may be found."""
        import numpy as np

        rows, n = self.rows, self.n
        allowed: NDArray[np.bool_] = readable.copy()
        may, kind = allowed[:n], rows["kind"][:n]
        if not only.past:
            may &= ~rows["past"][:n]
        if len(only.kinds) < len(KINDS):
            kinds = np.zeros(256, bool)
            kinds[list(only.kinds)] = True
            may &= kinds[kind]
        code = self._sessions.get(only.session_id) if only.session_id is not None and only.turns else None
        if code is not None:
            here = np.flatnonzero(rows["session"][:n] == code)
            may[here] &= np.isin(rows["turn"][here], list(only.turns), invert=True)
        if only.held is not None:
            facts = np.flatnonzero(kind == FACT)
            may[facts] &= np.isin(rows["ref"][facts], np.array(only.held, np.int64))
        if only.known_at is not None:
            known = np.where(np.isin(kind, BY_TIME), rows["at"][:n] * 1e6, rows["ref"][:n])
            may &= known <= only.known_at
        return allowed

    def spans(self) -> NDArray[np.float64]:
        """Return the times that texts speak of: rows of slot, begin, end, how sure; slot -1 is of a text that is gone."""
        spans: NDArray[np.float64] = self._spans[: self._last_span]
        return spans

    def beside(self, slots: Slots, step: int) -> Slots:
        """Return the slot of the message so many after each; -1 where there is none of the same session."""
        import numpy as np

        ids, kind, session = (self.rows[name] for name in ("id", "kind", "session"))
        numbers = ids[slots] + step
        inside = (slots >= 0) & (ids[slots] > 0) & (kind[slots] == TURN)
        inside &= (numbers > 0) & (numbers < len(self._messages))
        beside = np.full(len(slots), -1, np.intp)
        beside[inside] = self._messages[numbers[inside]]
        beside[session[beside] != session[slots]] = -1
        return beside

    def _make_room(self, slot: int) -> None:
        """See to it that there is room for a slot: half as much again, so that a growing memory is not copied each turn."""
        if slot >= len(self.rows["id"]):
            room = max(256, slot * 3 // 2)
            self.rows = {name: _longer(column, room, 0) for name, column in self.rows.items()}

    def _keep_spans(self, slot: int, spans: Sequence[tuple[float, float, float]]) -> None:
        end = self._last_span + len(spans)
        if end > len(self._spans):
            self._spans = _longer(self._spans, max(64, end * 3 // 2), 0)
        self._spans[self._last_span : end] = [(slot, *span) for span in spans]
        self._last_span = end

    def _calling(self, stems: frozenset[str]) -> int:
        code = self._calling_codes.setdefault(stems, len(self.callings))
        if code == len(self.callings):
            self.callings.append(stems)
        return code

    def _code(self, name: str | None) -> int:
        code = self._codes.setdefault(name, len(self.names))
        if code == len(self.names):
            self.names.append(name)
        return code


def _longer(column: NDArray[Any], room: int, filling: int) -> NDArray[Any]:
    """Return a column, or a table, with more rows."""
    import numpy as np

    grown = np.full((room, *column.shape[1:]), filling, column.dtype)
    grown[: len(column)] = column
    return grown


def _import_numpy() -> None:
    """Import numpy, and what it puts off until its first `unique`: 40 ms on one x86-64 core."""
    import numpy as np

    np.unique(np.zeros(1))


later(_import_numpy)


BY_TIME = (PREFERENCE, NOTE)
"""Kinds whose refs are no ticks: their time tells when they were learnt."""


class Filter(NamedTuple):
    """Which docs a question may find."""

    reader: Reader | None
    """Who asks, with the name spelled as in the index, see `as_spelled`; None: the operator, who reads everything."""
    kinds: frozenset[int]
    session_id: int | None
    """Of this session, `turns` are left out."""
    turns: frozenset[int]
    past: bool
    """Whether facts that do not hold any more are found too."""
    known_at: int | None = None
    """Only what was known by this tick; None: all that is known."""
    held: tuple[int, ...] | None = None
    """The only facts that count, by what was said, in ascending order; None: all that `past` lets through."""


def make_filter(
    reader: Reader | None,
    *,
    kinds: Collection[str] | None = None,
    session_id: int | None = None,
    turns: Collection[int] = (),
    past: bool = False,
    known_at: int | None = None,
    held: Sequence[int] | None = None,
) -> Filter:
    """Return the filter for a reader; its fields say what the arguments are.

    Args:
        kinds: names of kinds; None: all.
    """
    numbers = frozenset(number for number, name in KINDS.items() if kinds is None or name in kinds)
    facts = None if held is None else tuple(held)
    return Filter(
        reader, numbers, session_id, frozenset(turns), past or held is not None, known_at=known_at, held=facts
    )
