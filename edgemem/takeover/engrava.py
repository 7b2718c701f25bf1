"""Taking over a database that Engrava 0.7.2 wrote, at its own times; the file is never changed.

Thoughts, reflections among them, and edges come under their ids, with metadata, cycles, states, valid times, visibility, pins and
ends: all of them, or none where a row is damaged. Vectors are made anew; actions, provenance and the journal have no place here.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from edgemem.errors import EdgememError, InvalidInputError, NewerSchemaError, count
from edgemem.store.db.connection import read_foreign
from edgemem.store.edges import put_edge
from edgemem.store.thoughts import put_thought
from edgemem.takeover.scratch import TakeoverReport, json_of, read_files, scratch_truth, take_in
from edgemem.thoughts import EdgeRecord, ThoughtRecord, seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction
    from edgemem.takeover.scratch import ThenClock

    Row = dict[str, Any]

R = TypeVar("R")

SCHEMA = 21
"""The `user_version` of what 0.7.2 writes."""

_RECORDS: dict[str, Any] = {"thought": ThoughtRecord, "edge": EdgeRecord}
_COLUMNS = {
    table: [
        "metadata_json" if field == "metadata" else field
        for field in record.__struct_fields__
        if field not in ("owner", "aloud", "level")
    ]
    for table, record in _RECORDS.items()
}
"""Of each table: the fields of the record that Engrava has too."""
_LEFT = {"embedding": "vector", "action": "action", "journal_entry": "journal entry"}


def import_engrava(db: Database, old: EngravaFile) -> TakeoverReport:
    """Take over a database of Engrava; raise InvalidInputError, with nothing taken in, where a row cannot be."""
    with scratch_truth(db) as (scratch, then):
        scratch.write(partial(_fill, then=then, old=old))
        report = take_in(db, scratch)
    return TakeoverReport(old.files, report.added, report.known, report.refused, old.remarks)


def _fill(tx: Transaction, *, then: ThenClock, old: EngravaFile) -> None:
    """Write all records; a transaction of the scratch has a time for each."""
    created = {thought.thought_id: seconds(thought.created_at) or 0.0 for thought in old.thoughts}
    edges = [(max(created.get(end, 0.0) for end in edge.ends), edge) for edge in old.edges]
    thoughts = [(seconds(one.updated_at or one.created_at) or 0.0, one) for one in old.thoughts]
    _put(tx, put_thought, thoughts, "thought", then)
    _put(tx, put_edge, edges, "edge", then)


def _put(
    tx: Transaction,
    put: Callable[[Transaction, R], object],
    timed: list[tuple[float, R]],
    table: str,
    then: ThenClock,
) -> None:
    """Write records, each with its time, oldest first; ids of two tables need not differ."""
    then.last = 0
    for n, (at, record) in sorted(enumerate(timed, 1), key=lambda item: item[1][0]):
        then.shown = then.tick_of(at)
        try:
            put(tx, record)
        except EdgememError as error:
            raise _damaged(table, n, error) from error


class EngravaFile:
    """All thoughts and edges of a file; raise InvalidInputError where it is no database of 0.7.2, or a row is damaged."""

    def __init__(self, path: Path) -> None:
        self.thoughts: list[ThoughtRecord] = []
        self.edges: list[EdgeRecord] = []
        self.files: dict[str, dict[str, int]] = {}
        self.remarks: list[str] = []
        """What is left behind: a sentence."""
        if path.expanduser().is_dir():
            raise InvalidInputError(f"{path} is a folder; name one database of Engrava in it.")
        read_files(path, self._read, self.remarks, hint="name a database of Engrava.")

    def _read(self, file: Path, name: str, data: bytes | None) -> None:
        if data is not None:
            raise InvalidInputError("it is no database.")
        with read_foreign(file) as (tables, rows_of, version):
            if "migrations" in tables:
                raise InvalidInputError("edgemem wrote it; open its home instead.")
            lacking = [
                f"{table}.{column}"
                for table, columns in _COLUMNS.items()
                for column in columns
                if column not in tables.get(table, ())
            ]
            if not _COLUMNS.keys() <= tables.keys():
                raise InvalidInputError("it is no database of Engrava.")
            if version > SCHEMA:
                raise NewerSchemaError(
                    f"a newer Engrava wrote it (schema {version}); edgemem reads {SCHEMA}, of 0.7.2."
                )
            if version < SCHEMA or lacking:
                raise InvalidInputError(
                    f"an older Engrava wrote it (schema {version}); open it once with Engrava 0.7.2, which brings it to {SCHEMA}."
                )
            self.thoughts = [_record("thought", n, row) for n, row in enumerate(rows_of("thought"), 1)]
            self.edges = [_record("edge", n, row) for n, row in enumerate(rows_of("edge"), 1)]
            left = {noun: len(rows_of(table)) for table, noun in _LEFT.items() if table in tables}
        self.files[name] = {"thoughts": len(self.thoughts), "edges": len(self.edges)}
        if some := [count(number, noun) for noun, number in left.items() if number]:
            self.remarks.append(
                f"{' and '.join(some)} stayed behind: edgemem makes its own vectors, and keeps none of the rest."
            )


def _record(table: str, n: int, row: Row) -> Any:
    """Return the record of a row."""
    fields = {column.removesuffix("_json"): row[column] for column in _COLUMNS[table]}
    fields["metadata"] = json_of(fields["metadata"] or "{}")
    try:
        if table == "thought":
            members = json_of(fields["consolidated_from"] or "[]")
            if not isinstance(members, list) or not all(isinstance(member, str) for member in members):
                raise InvalidInputError("consolidated_from is no list of ids in JSON.")
            fields |= {"consolidated_from": members, "pinned": bool(fields["pinned"])}
        return _RECORDS[table](**fields)
    except (EdgememError, TypeError) as error:
        raise _damaged(table, n, error, row[f"{table}_id"]) from error


def _damaged(table: str, n: int, error: Exception, name: object = None) -> InvalidInputError:
    called = "" if name is None else f" ({name!r:.60})"
    return InvalidInputError(
        f"row {n} of {table}{called} cannot be taken over: {error} Nothing was taken in."
    )
