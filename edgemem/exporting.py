"""Exporting: everything that is remembered, or what belongs to one person, as JSON lines.

Read in pieces, so that a long life needs no more memory than a short one, and up to the tick at which it began:
what is written meanwhile is left for the next time. The same memory gives the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.fence import storable
from edgemem.store import rows
from edgemem.store.names import spellings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgemem.store.database import Database
    from edgemem.store.notes import NotesFile

_PAGE = 200

# Whoever said it or owns it; what is private to somebody else is not theirs.
_THEIRS = "(:person is null or ((owner = :person or speaker = :person) and (level < 2 or owner is :person)))"
_THEIR_KEY = """
  (:person is null or k.scope = 'user:' || :person
    or exists (select 1 from facts f where f.key_id = k.id and (f.owner = :person or f.speaker = :person)))
"""
_FOREIGN = """
  (:person is not null and exists (
    select 1 from facts f where f.key_id = k.id and f.level = 2 and f.owner is not :person))
"""


def export_lines(
    db: Database, *, notes: NotesFile | None = None, speaker: str | None = None
) -> Iterator[str]:
    """Yield the lines of an export, without line ends.

    Args:
        notes: written in whole; they belong to nobody, so a person's export has none.
        speaker: only what this person said or owns; facts with their whole history.
    """
    export = _Export(db, None if speaker is None else spellings(db, [storable(speaker)])[storable(speaker)])
    encode = msgspec.json.Encoder().encode
    yield encode(rows.Edgemem(rows.FORMAT, export.person)).decode()
    count = 0
    for line in export.lines():
        count += 1
        yield encode(line).decode()
    text = notes.read() if notes is not None and speaker is None else ""
    if text:
        count += 1
        yield encode(rows.Notes(text)).decode()
    yield encode(rows.End(count, export.withheld())).decode()


def withheld_by(last: str) -> int:
    """Return how many facts the last line of an export says were left out."""
    return msgspec.json.decode(last, type=rows.End).withheld


class _Export:
    """Reads one kind after the other, a page at a time."""

    def __init__(self, db: Database, person: str | None) -> None:
        self._db = db
        self.person = person
        self._bound = {"person": person, "until": db.high_water(), "page": _PAGE}

    def lines(self) -> Iterator[rows.Line]:
        """Yield everything between the first line and the notes."""
        yield from self._facts()
        yield from self._doubts()
        yield from self._preferences()
        yield from self._episodes()
        yield from self._sessions()
        if self.person is None:
            yield from self._dropped()
        yield from self._outputs()

    def withheld(self) -> int:
        """Return how many facts of the person also hold what is private to somebody else."""
        sql = f"select count(*) from fact_keys k where {_THEIR_KEY} and {_FOREIGN}"  # noqa: S608 - our own constants
        return int(self._db.query(sql, self._bound)[0][0])

    def _pages(self, sql: str, after: dict[str, Any], names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Yield rows page by page; the first columns of a row say under `names` where the next page begins."""
        while page := self._db.query(sql, {**self._bound, **after}):
            yield from page
            after = {**after, **dict(zip(names, page[-1], strict=False))}

    def _facts(self) -> Iterator[rows.Line]:
        keys = self._pages(
            "select k.scope, k.key, k.id from fact_keys k where (k.scope, k.key) > (:scope, :key)"  # noqa: S608 - ours
            f" and {_THEIR_KEY} and not {_FOREIGN} order by k.scope, k.key limit :page",
            {"scope": "", "key": ""},
            ("scope", "key"),
        )
        # What was closed after the export began was still believed then.
        columns = rows.Fact.COLUMNS
        for name in ("known_to", "node"):
            columns = columns.replace(f" {name},", f" case when known_to <= :until then {name} end,")
        versions = (
            f"select {columns} from facts where key_id = :key_id and id > :id and id <= :until"  # noqa: S608 - ours
            " order by id limit :page"
        )
        for scope, key, key_id in keys:
            for row in self._pages(versions, {"key_id": key_id, "id": 0}, ("id",)):
                yield rows.Fact.of(scope, key, row)

    def _doubts(self) -> Iterator[rows.Line]:
        columns = ", ".join(f"d.{name.strip()}" for name in rows.Doubt.COLUMNS.split(","))
        sql = (
            f"select {columns}, k.scope, k.key from doubts d cross join fact_keys k on k.id = d.key_id"  # noqa: S608 - ours
            f" where d.id > :id and d.id <= :until and {_THEIR_KEY} and not {_FOREIGN}"
            " and (:person is null or d.level < 2 or d.owner is :person) order by d.id limit :page"
        )
        for row in self._pages(sql, {"id": 0}, ("id",)):
            yield rows.Doubt.of(row[-2], row[-1], row[:-2])

    def _preferences(self) -> Iterator[rows.Line]:
        theirs = "(:person is null or owner = :person or (scope = 'user:' || :person and level < 2))"
        sql = (
            f"select {rows.Preference.COLUMNS} from preferences where (scope, key) > (:scope, :key) and {theirs}"  # noqa: S608 - ours
            " and recorded <= :until order by scope, key limit :page"
        )
        for row in self._pages(sql, {"scope": "", "key": ""}, ("scope", "key")):
            yield rows.Preference.of(row)

    def _episodes(self) -> Iterator[rows.Line]:
        sql = (
            f"select {rows.Episode.COLUMNS} from episodes where id > :id and id <= :until and {_THEIRS}"  # noqa: S608 - ours
            " order by id limit :page"
        )
        for row in self._pages(sql, {"id": 0}, ("id",)):
            yield rows.Episode.of(row)

    def _sessions(self) -> Iterator[rows.Line]:
        theirs = f"(:person is null or exists (select 1 from turns where session_id = s.id and {_THEIRS}))"  # noqa: S608 - ours
        sql = (
            f"select {rows.Session.COLUMNS} from sessions s where id > :id and id <= :until and {theirs}"  # noqa: S608 - ours
            " order by id limit :page"
        )
        for row in self._pages(sql, {"id": 0}, ("id",)):
            session = rows.Session.of(row)
            yield session if self.person is None else msgspec.structs.replace(session, state=None)
            yield from self._turns(session)
            if self.person is None:
                yield from self._epochs(session)

    def _turns(self, session: rows.Session) -> Iterator[rows.Line]:
        sql = (
            f"select {rows.Turn.COLUMNS} from turns where session_id = :session and n > :n"  # noqa: S608 - ours
            f" and last_message <= :until and {_THEIRS} order by n limit :page"
        )
        for row in self._pages(sql, {"session": session.id, "n": -1}, ("n",)):
            n, first, last = row[:3]
            messages = self._db.query(rows.SAID_IN_TURN, (first, last, session.id, n))
            yield rows.Turn.of(session.name, row, [rows.Message.of(message) for message in messages])

    def _epochs(self, session: rows.Session) -> Iterator[rows.Line]:
        sql = (
            f"select {rows.Epoch.COLUMNS} from epochs where session_id = :session and id > :id and id <= :until"  # noqa: S608 - ours
            " order by id limit :page"
        )
        for row in self._pages(sql, {"session": session.id, "id": 0}, ("id",)):
            yield rows.Epoch(session=session.name, **rows.Epoch.SHAPE.fields(row))

    def _outputs(self) -> Iterator[rows.Line]:
        columns = ", ".join(f"o.{name}" for name in rows.Output.COLUMNS.split(", "))
        # In the order in which they came: the oldest are dropped first, wherever they are read in.
        sql = (
            f"select o.id, s.name, {columns} from tool_outputs o cross join sessions s on s.id = o.session_id"  # noqa: S608 - ours
            " cross join turns t on t.session_id = o.session_id and t.n = o.turn"
            f" where o.id > :id and t.last_message <= :until and {_THEIRS} order by o.id limit :page"
        )
        for row in self._pages(sql, {"id": 0}, ("id",)):
            yield rows.Output(*row[1:])

    def _dropped(self) -> Iterator[rows.Line]:
        columns = ", ".join(f"m.{name}" for name in rows.Message.COLUMNS.split(", "))
        sql = (
            f"select {columns}, s.name, m.turn, m.dropped from messages m cross join sessions s"  # noqa: S608 - ours
            " on s.id = m.session_id where m.id > :id and m.dropped <= :until order by m.id limit :page"
        )
        for row in self._pages(sql, {"id": 0}, ("id",)):
            yield rows.Dropped(row[6], row[7], row[8], rows.Message.of(row[:6]))
