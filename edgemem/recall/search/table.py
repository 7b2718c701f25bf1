"""Columns: what is known of each doc, in memory, one slot for each doc that was ever read in.

A doc that is taken out leaves an empty slot, and one that is replaced moves to a new one. A search takes what it needs of
many slots at once; 80 bytes a doc.

Masks: which slots somebody may find, kept at hand, so that a question looks only at slots that came since the last one.

A memory of a hundred thousand texts has as many slots, and all but a few are as they were. The rule is that of the SQL,
which has the last word.

Candidates: what may be found at all.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.provisions import later
from edgemem.recall.index.sources import FACT, KINDS, NOTE, PREFERENCE, TURN, Doc
from edgemem.recall.index.state import PRIVATE
from edgemem.store.rights import reading_rule

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.records import Reader

    Slots = NDArray[np.intp]


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
"""The neighbours of a message that are kept at hand: so many messages after it."""
_PAST = (0, 1)
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


class Columns:
    """Rows by slot; not safe to use from several threads at once."""

    def __init__(self) -> None:
        import numpy as np

        self.n = 0
        self.rows: dict[str, NDArray[Any]] = {name: np.zeros(0, type_) for name, type_ in _TYPES.items()}
        """By slot, with room for more at the end."""
        self.names: list[str | None] = [None]
        """Of whoever spoke or owns something, by code."""
        self.facts: dict[int, tuple[str | None, str | None]] = {}
        """Subject and relation of those slots that have any."""
        self.callings: list[frozenset[str]] = [frozenset()]
        """Stems of whom texts speak to by name, by the code in `called`."""
        self._codes: dict[str | None, int] = {None: NOBODY}
        self._sessions: dict[int | None, int] = {None: NOBODY}
        self._begins = [0]
        """By the code of a session, the first slot that was ever of it."""
        self._calling_codes = {self.callings[0]: NOBODY}
        self._slots: dict[int, int] = {}
        self._passing: set[int] = set()
        self._beside = {step: np.zeros(0, np.int32) for step in BESIDE}
        self._spans: NDArray[np.float64] = np.zeros((4, 0))
        self._spans_of: dict[int, slice] = {}
        self._last_span = 0
        self._words_in = np.zeros((2, 1), np.int64)
        self._private: dict[int, NDArray[np.int64]] = {}
        self._sizes: dict[tuple[int, int], tuple[int, int]] = {}
        self._masks = Masks()
        self.dropped = 0
        """How many docs were taken out."""

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, doc: int) -> bool:
        return doc in self._slots

    def append(self, row: Row, *, passing: bool = False) -> int:
        """Take a row in, in place of what its number had before; return its slot.

        Args:
            passing: it is not in the index yet; `drop_passing` takes it out again.
        """
        spans = row.spans
        self.drop(row.id)
        slot = self.n
        self._make_room(slot)
        session = self._sessions.setdefault(row.session_id, len(self._sessions))
        if session == len(self._begins):
            self._begins.append(slot)
        called = self._calling(frozenset(row.called.split())) if row.called else NOBODY
        values = (
            row.id, row.ref, row.at, session, -1 if row.turn is None else row.turn, self._code(row.who), self._code(row.owner),
            row.length, called, row.kind, row.level, bool(row.past), row.marks, bool(spans),
        )  # fmt: skip
        for column, value in zip(self.rows.values(), values):  # noqa: B905 - as long as one another
            column[slot] = value
        if passing:
            self._passing.add(row.id)
        self._count(slot, 1, row.length)
        if row.subject or row.relation:
            self.facts[slot] = (row.subject, row.relation)
        if spans:
            self._keep_spans(slot, spans)
        self._slots[row.id] = slot
        self.n = slot + 1
        if row.kind == TURN:
            self._link(row.id, slot)
        return slot

    def drop(self, doc: int) -> None:
        """Leave nothing of a doc; its slot stays, and is nobody's."""
        self._passing.discard(doc)
        slot = self._slots.pop(doc, None)
        if slot is None:
            return
        self._count(slot, -1, -int(self.rows["length"][slot]))
        for column in self.rows.values():
            column[slot] = 0
        self.dropped += 1
        self._masks.drop(slot)
        self.facts.pop(slot, None)
        for step, beside in self._beside.items():
            beside[slot] = -1
            other = self._slots.get(doc - step)
            if other is not None and beside[other] == slot:
                beside[other] = -1
        spans = self._spans_of.pop(slot, None)
        if spans is not None:
            self._spans[:, spans] = 0
            self._spans[0, spans] = -1

    def drop_passing(self) -> None:
        """Leave nothing of what was not in the index yet; what the index has taken in since stays."""
        for doc in list(self._passing):
            self.drop(doc)

    def slots(self, docs: Iterable[int]) -> dict[int, int]:
        """Return the slots of those docs that are here."""
        return {doc: self._slots[doc] for doc in docs if doc in self._slots}

    def slots_of(self, docs: Collection[int]) -> Slots:
        """Return the slot of each doc; -1 where it is not here."""
        import numpy as np

        return np.fromiter(map(self._slots.get, docs, repeat(-1)), np.intp, len(docs))

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
            speaker = self._owner(only)
            private = [speaker] if speaker in self._private else []
        total: NDArray[np.int64] = room.sum(axis=0)
        for owner in private:
            words = self._private[owner][: self.sessions]
            total[: len(words)] += words
        return total

    def readable(self, only: Filter) -> NDArray[np.bool_]:
        """Return by slot what may be found, and one more that may not; the same rule as in SQL, which has the last word."""
        import numpy as np

        rows, n = self.rows, self.n
        allowed = np.zeros(n + 1, bool)
        may = allowed[:n]
        may[:] = self._masks.of(only, rows, n, self._owner(only))
        code = self._sessions.get(only.session_id) if only.session_id is not None and only.turns else None
        if code is not None:
            begin = self._begins[code]  # mostly a session of today, behind all others
            here = begin + np.flatnonzero(rows["session"][begin:n] == code)
            if len(here):
                turns = np.array(sorted(only.turns), np.int64)
                near = np.minimum(np.searchsorted(turns, rows["turn"][here]), len(turns) - 1)
                may[here] &= turns[near] != rows["turn"][here]
        if only.held is not None:
            facts = np.flatnonzero(rows["kind"][:n] == FACT)
            may[facts] &= np.isin(rows["ref"][facts], np.array(only.held, np.int64))
        if only.known_at is not None:
            known = np.where(np.isin(rows["kind"][:n], BY_TIME), rows["at"][:n] * 1e6, rows["ref"][:n])
            may &= known <= only.known_at
        return allowed

    def spans(self) -> NDArray[np.float64]:
        """Return the times that texts speak of: rows of slot, begin, end, how sure; slot -1 is of a text that is gone."""
        spans: NDArray[np.float64] = self._spans[:, : self._last_span].T
        return spans

    def beside(self, slots: Slots, step: int) -> Slots:
        """Return the slot of the message so many after each, one of `BESIDE`; -1 where there is none of the same session."""
        import numpy as np

        return self._beside[step][slots].astype(np.intp)

    def _make_room(self, slot: int) -> None:
        """See to it that there is room for a slot: half as much again, so that a growing memory is not copied each turn."""
        if slot < len(self.rows["id"]):
            return
        room = max(256, slot * 3 // 2)
        self.rows = {name: _longer(column, room, 0) for name, column in self.rows.items()}
        self._beside = {step: _longer(column, room, -1) for step, column in self._beside.items()}

    def _link(self, doc: int, slot: int) -> None:
        """Note which messages stand beside a message, and beside which ones it stands."""
        session, kind = self.rows["session"], self.rows["kind"]
        for step, beside in self._beside.items():
            for other, noted in ((doc + step, True), (doc - step, False)):
                neighbour = self._slots.get(other)
                if neighbour is not None and session[neighbour] == session[slot] and kind[neighbour] == TURN:
                    beside[slot if noted else neighbour] = neighbour if noted else slot

    def _keep_spans(self, slot: int, spans: Sequence[tuple[float, float, float]]) -> None:
        end = self._last_span + len(spans)
        if end > self._spans.shape[1]:
            self._spans = _longer(self._spans.T, max(64, end * 3 // 2), 0).T
        self._spans[0, self._last_span : end] = slot
        self._spans[1:, self._last_span : end] = list(zip(*spans, strict=True))
        self._spans_of[slot] = slice(self._last_span, end)
        self._last_span = end

    def _calling(self, stems: frozenset[str]) -> int:
        code = self._calling_codes.setdefault(stems, len(self.callings))
        if code == len(self.callings):
            self.callings.append(stems)
        return code

    def size(self, only: Filter) -> tuple[int, int]:
        """Return how many texts may be read, of any kind, and how many words they have."""
        if "known" not in only.values:
            some = list(self._sizes.values())
        else:
            speaker = self._owner(only)
            levels = [(0, NOBODY), (1, NOBODY)][: 1 + int(only.values["known"])]
            some = [self._sizes.get(level, (0, 0)) for level in (*levels, (PRIVATE, speaker or -1))]
        return sum(docs for docs, _ in some), sum(words for _, words in some)

    def read_by(self, slots: Slots, only: Filter) -> NDArray[np.bool_]:
        """Tell which of some slots hold what may be read, whether it is looked for or not."""
        whatever = only._replace(kinds=frozenset(KINDS), past=True)
        read: NDArray[np.bool_] = self._masks.of(whatever, self.rows, self.n, self._owner(only))[slots]
        return read

    def _owner(self, only: Filter) -> int | None:
        """Return the code of whoever asks alone; None: of nobody."""
        return self.code(only.values["speaker"]) if only.values.get("alone") else None

    def _count(self, slot: int, docs: int, words: int) -> None:
        """Note words more or less in the session of a slot: what is private under its owner, apart from the rest."""
        import numpy as np

        session, level, owner = (int(self.rows[name][slot]) for name in ("session", "level", "owner"))
        known = self._sizes.get(whose := (level, owner if level == PRIVATE else NOBODY), (0, 0))
        self._sizes[whose] = known[0] + docs, known[1] + words
        if level == PRIVATE:
            own = self._private.get(owner, np.zeros(0, np.int64))
            if session >= len(own):
                own = _longer(own, max(16, session * 3 // 2), 0)
            own[session] += words
            self._private[owner] = own
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


_MOST = 12
"""Readers and kinds whose slots are kept, a byte a slot each; one reader needs two, for what is found and for what counts."""


class Masks:
    """By reader and kinds which slots may be found; not safe to use from several threads at once."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[int, NDArray[np.bool_]]] = {}
        """How many slots were looked at, and what was seen; that of the newest question last."""

    def of(
        self, only: Filter, rows: Mapping[str, NDArray[Any]], n: int, owner: int | None
    ) -> NDArray[np.bool_]:
        """Return by slot what may be found; of session, turns and times nothing is looked at. Not to be written to.

        Args:
            rows: `id`, `past`, `kind`, `level` and `owner` by slot; of an empty one the id is 0.
            n: how many slots there are.
            owner: the code of whoever asks alone; None: of nobody.
        """
        import numpy as np

        known = only.values.get("known")
        key = only.past, only.kinds, known, owner
        upto, mask = self._known.pop(key, (0, np.zeros(0, bool)))
        if upto < n:
            if len(mask) < n:
                mask, old = np.zeros(len(rows["id"]), bool), mask
                mask[:upto] = old[:upto]
            new = slice(upto, n)
            may = np.not_equal(rows["id"][new], 0, out=mask[new])
            if not only.past:
                may &= ~rows["past"][new]
            if len(only.kinds) < len(KINDS):
                kinds = np.zeros(256, bool)
                kinds[list(only.kinds)] = True
                may &= kinds[rows["kind"][new]]
            if known is not None:
                level = rows["level"][new]
                read = level <= int(known)
                if owner:
                    read |= (level == PRIVATE) & (rows["owner"][new] == owner)
                may &= read
        if len(self._known) >= _MOST:
            del self._known[next(iter(self._known))]
        self._known[key] = n, mask
        return mask[:n]

    def drop(self, slot: int) -> None:
        """Have nobody find a slot any more."""
        for upto, mask in self._known.values():
            if slot < upto:
                mask[slot] = False


BY_TIME = (PREFERENCE, NOTE)
"""Kinds whose refs are no ticks: their time tells when they were learnt."""

_DIGITS = 19  # of the largest id
# Any number of ids in one value; SQLite 3.37 may have no json_each.
_HELD = f"""
  with recursive places (at) as (
    select 1 where :held <> '' union all select at + {_DIGITS} from places where at + {_DIGITS} < length(:held))
  select cast(substr(:held, at, {_DIGITS}) as integer) from places
"""  # noqa: S608 - our own constants


class Filter(NamedTuple):
    """Which docs may be found: a condition in SQL on `docs d`, and the same for those in memory."""

    where: str
    values: dict[str, Any]
    kinds: frozenset[int]
    session_id: int | None
    turns: frozenset[int]
    past: bool
    known_at: int | None = None
    """Only what was known by this tick; None: all that is known."""
    held: tuple[int, ...] | None = None
    """The only facts that count, by what was said, in ascending order; None: all that `past` lets through."""

    def allows(self, doc: Doc) -> bool:
        """Tell whether a doc that is not in the file may be found."""
        if doc.kind not in self.kinds or (doc.past and not self.past):
            return False
        if doc.session_id is not None and doc.session_id == self.session_id and doc.turn in self.turns:
            return False
        if doc.kind == FACT and self.held is not None:
            at = bisect_left(self.held, doc.ref)
            if at == len(self.held) or self.held[at] != doc.ref:
                return False
        if self.known_at is not None:
            known = doc.at * 1e6 if doc.kind in BY_TIME else doc.ref
            if known > self.known_at:
                return False
        if doc.level == 0 or "known" not in self.values:
            return True
        if doc.level == 1:
            return bool(self.values["known"])
        return bool(self.values["alone"]) and doc.owner == self.values["speaker"]


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
    """Return the filter for a reader.

    Args:
        reader: with the name spelled as in the index, see `as_spelled`.
        kinds: only these.
        session_id: of this session, leave `turns` out.
        past: also facts that do not hold any more.
        known_at: only what was known by this tick.
        held: the only facts that count, by what was said, in ascending order.
    """
    where, values = reading_rule(reader, "d.", speaker=":speaker")
    numbers = frozenset(number for number, name in KINDS.items() if kinds is None or name in kinds)
    if held is not None:
        where += f" and (d.kind <> :fact or d.ref in ({_HELD}))"
        values |= {"fact": FACT, "held": "".join(f"{ref:0{_DIGITS}d}" for ref in held)}
    elif not past:
        where += " and d.past = 0"
    if known_at is not None:
        by_time = ",".join(map(str, BY_TIME))
        where += f" and case when d.kind in ({by_time}) then d.at * 1e6 else d.ref end <= :known_at"
        values["known_at"] = known_at
    if len(numbers) < len(KINDS):
        where += f" and d.kind in ({','.join(map(str, sorted(numbers))) or 'null'})"
    if session_id is not None and turns:
        # Bound, not written out: they change with each turn, and a statement would be prepared anew.
        ranges = []
        for n, (first, last) in enumerate(_ranges(turns)):
            ranges.append(f"d.turn between :first{n} and :last{n}")
            values |= {f"first{n}": first, f"last{n}": last}
        where += f" and (d.session_id is null or d.session_id <> :skipped or not ({' or '.join(ranges)}))"
        values["skipped"] = session_id
    facts = None if held is None else tuple(held)
    return Filter(
        where, values, numbers, session_id, frozenset(turns), past or held is not None, known_at, facts
    )


def _ranges(turns: Collection[int]) -> list[tuple[int, int]]:
    """Return the first and last of each run of consecutive numbers."""
    runs: list[tuple[int, int]] = []
    for n in sorted(turns):
        if runs and n == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], n)
        else:
            runs.append((n, n))
    return runs
