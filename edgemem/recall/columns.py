"""Columns: what is known of each doc, in memory, one slot for each doc that was ever read in.

A doc that is taken out leaves an empty slot, and one that is replaced moves to a new one. A search takes what it needs of
many slots at once; 60 bytes a doc.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.recall.candidates import Candidate
from edgemem.recall.sources import TURN
from edgemem.recall.state import FIRST_OTHER

if TYPE_CHECKING:
    from collections.abc import Collection

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.candidates import Filter

    Slots = NDArray[np.intp]

COLUMNS = """
  d.id, d.kind, d.ref, d.level, d.owner, d.who, d.session_id, d.turn, d.at, d.past, d.subject, d.relation, d.marks,
  d.called, d.times, d.length
"""
"""What a Row is made of, from `docs d`."""

_TYPE = [
    ("id", "i8"), ("ref", "i8"), ("at", "f8"), ("session", "i4"), ("turn", "i8"), ("who", "i4"), ("owner", "i4"),
    ("length", "i4"), ("kind", "u1"), ("level", "u1"), ("past", "?"), ("marks", "u1"),
]  # fmt: skip
PRIVATE = 2
"""The level of what only its owner reads."""
NOBODY = 0
"""The code of nobody, and of no session."""


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


class Columns:
    """Rows by slot; not safe to use from several threads at once."""

    def __init__(self) -> None:
        import numpy as np

        self.n = 0
        self.rows: NDArray[Any] = np.zeros(0, _TYPE)
        """By slot, with room for more at the end."""
        self.names: list[str | None] = [None]
        """Of whoever spoke or owns something, by code."""
        self.facts: dict[int, tuple[str | None, str | None]] = {}
        """Subject and relation of those slots that have any."""
        self.called: dict[int, frozenset[str]] = {}
        """Stems of whom the text speaks to by name, of those slots that speak to somebody."""
        self._codes: dict[str | None, int] = {None: NOBODY}
        self._sessions: dict[int | None, int] = {None: NOBODY}
        self._slots: dict[int, int] = {}
        self._passing: set[int] = set()
        self._dated: set[int] = set()
        self._spans: NDArray[np.float64] = np.zeros((0, 4))
        self._new_spans: list[tuple[int, float, float, float]] = []
        self._words_in = np.zeros((2, 1), np.int64)
        self._private: dict[int, dict[int, int]] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def append(self, row: Row, *, passing: bool = False) -> int:
        """Take a row in, in place of what its number had before; return its slot.

        Args:
            passing: it is not in the index yet; `drop_passing` takes it out again.
        """
        import numpy as np

        self.drop(row.id)
        if passing:
            self._passing.add(row.id)
        slot = self.n
        if slot == len(self.rows):
            # Half as much again, so that a growing memory is not copied with each turn.
            grown = np.zeros(max(256, slot * 3 // 2), self.rows.dtype)
            grown[:slot] = self.rows
            self.rows = grown
        session = self._sessions.setdefault(row.session_id, len(self._sessions))
        self.rows[slot] = (
            row.id, row.ref, row.at, session, -1 if row.turn is None else row.turn, self._code(row.who), self._code(row.owner),
            row.length, row.kind, row.level, bool(row.past), row.marks,
        )  # fmt: skip
        self._count(slot, row.length)
        if row.subject or row.relation:
            self.facts[slot] = (row.subject, row.relation)
        if row.called:
            self.called[slot] = frozenset(row.called.split())
        if row.times:
            self._dated.add(slot)
            self._new_spans += [(slot, *span) for span in row.spans]
        self._slots[row.id] = slot
        self.n = slot + 1
        return slot

    def drop(self, doc: int) -> None:
        """Leave nothing of a doc; its slot stays, and is nobody's."""
        self._passing.discard(doc)
        slot = self._slots.pop(doc, None)
        if slot is None:
            return
        self._count(slot, -int(self.rows["length"][slot]))
        self.rows[slot] = (0,) * len(_TYPE)
        self.facts.pop(slot, None)
        self.called.pop(slot, None)
        if slot in self._dated:
            self._dated.discard(slot)
            spans = self.spans()
            self._spans = spans[spans[:, 0] != slot]

    def drop_passing(self) -> None:
        """Leave nothing of what was not in the index yet; what the index has taken in since stays."""
        for doc in list(self._passing):
            self.drop(doc)

    def slots(self, docs: Collection[int]) -> dict[int, int]:
        """Return the slots of those docs that are here."""
        return {doc: self._slots[doc] for doc in docs if doc in self._slots}

    def code(self, name: str | None) -> int | None:
        """Return the code of a name; None where nobody here has it."""
        return self._codes.get(name)

    @property
    def sessions(self) -> int:
        """Return how many sessions there are, that of no session included."""
        return len(self._sessions)

    def words_in(self, only: Filter) -> NDArray[np.int64]:
        """Return how many words of each session, by its code, may be read: what may not leaves no trace."""
        import numpy as np

        room = np.zeros((2, self.sessions), np.int64)
        known = min(self.sessions, self._words_in.shape[1])
        room[:, :known] = self._words_in[:, :known]
        if "known" not in only.values:
            private = list(self._private)
        else:
            room[1] *= int(only.values["known"])
            speaker = self.code(only.values["speaker"]) if only.values["alone"] else None
            private = [speaker] if speaker in self._private else []
        total: NDArray[np.int64] = room.sum(axis=0)
        for owner in private:
            for session, words in self._private[owner].items():
                total[session] += words
        return total

    def candidates(self, slots: Slots) -> list[Candidate]:
        """Return what some slots hold, for whoever fetches it from the truth."""
        names, facts, nothing = self.names, self.facts, (None, None)
        fields = (self.rows[name][slots].tolist() for name in ("kind", "ref", "who", "at"))
        return [
            Candidate(kind, ref, names[who], at, *facts.get(slot, nothing))
            for slot, kind, ref, who, at in zip(slots.tolist(), *fields, strict=True)
        ]

    def allowed(self, slots: Slots, only: Filter) -> NDArray[np.bool_]:
        """Return which of some slots may be found; the same rule as in SQL, which has the last word."""
        import numpy as np

        some = {
            name: self.rows[name][slots]
            for name in ("id", "past", "kind", "level", "owner", "session", "turn")
        }
        may: NDArray[np.bool_] = some["id"] != 0
        if not only.past:
            may &= ~some["past"]
        kinds = np.zeros(256, bool)
        kinds[list(only.kinds)] = True
        may &= kinds[some["kind"]]
        code = self._sessions.get(only.session_id) if only.session_id is not None and only.turns else None
        if code is not None:
            here = np.flatnonzero(some["session"] == code)
            if len(here):
                may[here] &= ~np.isin(some["turn"][here], list(only.turns))
        if "known" in only.values:
            level = some["level"]
            own = (some["owner"] == (self.code(only.values["speaker"]) or -1)) & bool(only.values["alone"])
            may &= (level == 0) | ((level == 1) & bool(only.values["known"])) | ((level == PRIVATE) & own)
        return may

    def spans(self) -> NDArray[np.float64]:
        """Return the times that texts speak of: rows of slot, begin, end, how sure."""
        import numpy as np

        if self._new_spans:
            self._spans = np.concatenate([self._spans, np.array(self._new_spans, np.float64)])
            self._new_spans = []
        return self._spans

    def beside(self, slots: Slots, step: int) -> Slots:
        """Return the slot of the message so many after each; -1 where there is none of the same session."""
        import numpy as np

        rows = self.rows
        docs = rows["id"][slots]
        wanted = np.where(docs < FIRST_OTHER, docs + step, -1)
        found = np.fromiter(map(self._slots.get, wanted.tolist(), repeat(-1)), np.intp, len(slots))
        same = (found >= 0) & (rows["session"][found] == rows["session"][slots])
        return np.where(same & (rows["kind"][found] == TURN), found, -1)

    def _count(self, slot: int, words: int) -> None:
        """Note words more or less in the session of a slot: what is private under its owner, apart from the rest."""
        import numpy as np

        session, level, owner = (int(self.rows[name][slot]) for name in ("session", "level", "owner"))
        if level == PRIVATE:
            of = self._private.setdefault(owner, {})
            of[session] = of.get(session, 0) + words
            return
        if session >= self._words_in.shape[1]:
            more = np.zeros((2, session + 1), np.int64)
            self._words_in = np.append(self._words_in, more, axis=1)
        self._words_in[level, session] += words

    def _code(self, name: str | None) -> int:
        code = self._codes.setdefault(name, len(self.names))
        if code == len(self.names):
            self.names.append(name)
        return code
