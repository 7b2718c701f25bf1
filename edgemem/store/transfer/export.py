"""Exporting: everything that is remembered, or what belongs to one person, as JSON lines.

Read in pieces, so that a long life needs no more memory than a short one, and up to the tick at which it began:
what is written meanwhile is left for the next time. The same memory gives the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.fence import storable
from edgemem.scopes import name_key
from edgemem.store.rights import spellings
from edgemem.store.transfer import records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgemem.store.bank.bank import MemoryBank
    from edgemem.store.db.database import Database
    from edgemem.store.notes import NotesFile

_PAGE = 200

# Whoever said it or owns it; what is private to somebody else is not theirs.
_THEIRS = "(:person is null or ((owner = :person or speaker = :person) and (level < 2 or owner is :person)))"
_OWN = "(:person is null or owner = :person) and id <= :until"
_THEIR_KEY = """
  (:person is null or k.scope = 'user:' || :person
    or exists (select 1 from facts f where f.key_id = k.id and (f.owner = :person or f.speaker = :person))
    or exists (select 1 from doubts f where f.key_id = k.id and (f.owner = :person or f.speaker = :person)))
"""
_FOREIGN = """
  (:person is not null and exists (
    select 1 from facts f where f.key_id = k.id and f.level = 2 and f.owner is not :person))
"""


def export_lines(
    db: Database,
    *,
    notes: NotesFile | None = None,
    bank: MemoryBank | None = None,
    speaker: str | None = None,
) -> Iterator[str]:
    """Yield the lines of an export, without line ends.

    Args:
        notes: written in whole; they belong to nobody, so a person's export has none.
        bank: its files; of a person, their own.
        speaker: only what this person said or owns; facts with their whole history.
    """
    export = _Export(db, None if speaker is None else spellings(db, [storable(speaker)])[storable(speaker)])
    encode = msgspec.json.Encoder().encode
    yield encode(records.Edgemem(records.FORMAT, export.person)).decode()
    count = 0
    for line in export.lines():
        count += 1
        yield encode(line).decode()
    text = notes.read() if notes is not None and speaker is None else ""
    if text:
        count += 1
        yield encode(records.Notes(text)).decode()
    for file, owner, content in bank.texts() if bank is not None else ():
        if speaker is None or (owner and name_key(owner) == name_key(speaker)):
            count += 1
            yield encode(records.File(file.scope, file.path, content, file.modified, file.topic)).decode()
    yield encode(records.End(count, export.withheld())).decode()


def withheld_by(last: str) -> int:
    """Return how many facts the last line of an export says were left out."""
    return msgspec.json.decode(last, type=records.End).withheld


class _Export:
    """Reads one kind after the other, a page at a time."""

    def __init__(self, db: Database, person: str | None) -> None:
        self._db = db
        self.person = person
        self._bound = {"person": person, "until": db.high_water(), "page": _PAGE}

    def withheld(self) -> int:
        """Return how many facts of the person also hold what is private to somebody else."""
        sql = f"select count(*) from fact_keys k where {_THEIR_KEY} and {_FOREIGN}"  # noqa: S608 - our own constants
        return int(self._db.query(sql, self._bound)[0][0])

    def lines(self) -> Iterator[records.Line]:
        """Yield everything between the first line and the notes."""
        yield from self._facts()
        doubts = self._pages(
            f"{records.DOUBTS.select('d')}, k.scope, k.key",
            "doubts d cross join fact_keys k on k.id = d.key_id",
            f"d.id <= :until and {_THEIR_KEY} and not {_FOREIGN}"
            " and (:person is null or d.level < 2 or d.owner is :person)",
            {"d.id": 0},
        )
        for row in doubts:
            yield records.DOUBTS.of(row, scope=row[-2], key=row[-1])
        theirs = "(:person is null or owner = :person or (scope = 'user:' || :person and level < 2))"
        yield from self._records(
            records.PREFERENCES, f"{theirs} and recorded <= :until", {"scope": "", "key": ""}
        )
        yield from self._records(
            records.USERS, "(:person is null or name = :person) and id <= :until", {"id": 0}
        )
        yield from self._records(records.GOALS, _OWN, {"id": 0})
        yield from self._records(records.PHASES, _OWN, {"id": 0})
        for table in (records.EPISODES, records.PROCEDURES):
            yield from self._records(table, f"id <= :until and {_THEIRS}", {"id": 0})
        yield from self._sessions()
        if self.person is None:
            rows = self._pages(
                f"{records.MESSAGES.select('m')}, s.name, m.turn, m.dropped",
                "messages m cross join sessions s on s.id = m.session_id",
                "m.dropped <= :until",
                {"m.id": 0},
            )
            for *message, session, turn, dropped in rows:
                yield records.Dropped(session, turn, dropped, records.MESSAGES.of(message))
        # In the order in which they came: the oldest are dropped first, wherever they are read in.
        outputs = self._pages(
            f"o.id, s.name, {records.OUTPUTS.select('o')}",
            "tool_outputs o cross join sessions s on s.id = o.session_id"
            " cross join turns t on t.session_id = o.session_id and t.n = o.turn",
            f"t.last_message <= :until and {_THEIRS}",
            {"o.id": 0},
        )
        for _, session, *output in outputs:
            yield records.OUTPUTS.of(output, session=session)

    def _facts(self) -> Iterator[records.Line]:
        keys = self._pages(
            "k.scope, k.key, k.id, k.topic",
            "fact_keys k",
            f"{_THEIR_KEY} and not {_FOREIGN}",
            {"k.scope": "", "k.key": ""},
        )
        # What was closed after the export began was still believed then.
        columns = ", ".join(
            f"case when known_to <= :until then {name} end" if name in {"known_to", "node"} else name
            for name in records.FACTS.columns
        )
        for scope, key, key_id, topic in keys:
            of_key = "key_id = :key_id and id <= :until"
            for row in self._pages(columns, "facts", of_key, {"id": 0}, key_id=key_id):
                yield records.FACTS.of(row, scope=scope, key=key, topic=topic)

    def _sessions(self) -> Iterator[records.Line]:
        theirs = (
            f"(:person is null or exists (select 1 from turns where session_id = s.id and {_THEIRS})"  # noqa: S608 - ours
            " or exists (select 1 from session_states where session_id = s.id and owner = :person)"
            " or exists (select 1 from session_summaries where session_id = s.id and owner = :person))"
        )
        where = f"id <= :until and {theirs}"
        for row in self._pages(records.SESSIONS.select(), "sessions s", where, {"id": 0}):
            session = records.SESSIONS.of(row)
            yield session if self.person is None else msgspec.structs.replace(session, state=None)
            where = f"session_id = :session and last_message <= :until and {_THEIRS}"
            for turn in self._pages(records.TURNS.select(), "turns", where, {"n": -1}, session=session.id):
                n, first, last = turn[:3]
                rows_of_turn = self._db.query(records.MESSAGES_OF_TURN, (first, last, session.id, n))
                messages = tuple(map(records.MESSAGES.of, rows_of_turn))
                yield records.TURNS.of(turn, session=session.name, messages=messages)
            for table in (records.STATES_OF, records.SUMMARIES):
                where = f"session_id = :session and {_OWN}"
                rows = self._pages(table.select(), table.name, where, {"id": 0}, session=session.id)
                yield from (table.of(kept, session=session.name) for kept in rows)
            if self.person is None:
                where = "session_id = :session and id <= :until"
                rows = self._pages(records.EPOCHS.select(), "epochs", where, {"id": 0}, session=session.id)
                for epoch in rows:
                    yield records.EPOCHS.of(epoch, session=session.name)

    def _records(
        self, table: records.Table[Any], where: str, after: dict[str, Any]
    ) -> Iterator[records.Line]:
        return map(table.of, self._pages(table.select(), table.name, where, after))

    def _pages(
        self, columns: str, source: str, where: str, after: dict[str, Any], **bound: Any
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a select, page by page.

        Args:
            after: the first columns, by which rows are in order, with values that stand before all.
            bound: values that the select binds.
        """
        names = [name.rpartition(".")[2] for name in after]
        sql = (
            f"select {columns} from {source} where ({', '.join(after)}) > (:{', :'.join(names)}) and {where}"  # noqa: S608 - ours
            f" order by {', '.join(after)} limit :page"
        )
        last: Sequence[Any] = list(after.values())
        while page := self._db.query(sql, {**self._bound, **bound, **dict(zip(names, last, strict=False))}):
            yield from page
            last = page[-1]
