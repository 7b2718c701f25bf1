"""Taking over what Swarmline 1.6, once called Cognitia, remembers; the files are never changed, and no SQLAlchemy is needed.

Its layouts: a database with the tables of the memory provider, which each application makes itself (so tables and columns may
be missing, and are named), with `episodes`, `procedures` or `memory_bank`; or a folder `<user>/<topic>/memory/` of bank files.
A user becomes a speaker, a topic a session, and a user's fact is private to that speaker.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.fence import storable
from edgemem.records import Episode, Heard, Procedure
from edgemem.scopes import scope_of
from edgemem.store.db.connection import read_foreign
from edgemem.store.episodes import TOOL_CALL, append_episode, call_record
from edgemem.store.facts import TRUST, UNKNOWN, assert_fact
from edgemem.store.json.records import time_of
from edgemem.store.messages import stored_message
from edgemem.store.procedures import put_procedure
from edgemem.store.transfer.merge import take_file
from edgemem.store.users import append_message, ensure_user, put_goal, put_phase, put_state, put_summary
from edgemem.store.validation import NULL
from edgemem.takeover.scratch import TakeoverReport, json_of, read_files, scratch_truth, take_in

if TYPE_CHECKING:
    from edgemem.store.bank.bank import MemoryBank
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction
    from edgemem.takeover.scratch import ThenClock

    Row = dict[str, Any]
    RowsOf = Callable[[str], list[Row]]

_OF_A_USER = ("user_id", "topic_id")
_PROVIDER: dict[str, tuple[str, ...]] = {
    "users": ("external_id", "created_at"),
    "messages": (*_OF_A_USER, "role", "content", "name", "tool_calls", "metadata", "content_blocks", "created_at"),
    "facts": (*_OF_A_USER, "key", "value", "source", "updated_at"),
    "summaries": (*_OF_A_USER, "summary", "messages_covered", "updated_at"),
    "goals": (
        *_OF_A_USER, "title", "target_amount", "current_amount", "phase", "plan", "is_main", "created_at",
    ),
    "topics": (
        *_OF_A_USER, "role_id", "active_skill_ids", "prompt_hash", "delegated_from", "delegation_turn_count",
        "pending_delegation", "delegation_summary", "updated_at",
    ),
    "phase_state": ("user_id", "phase", "notes", "updated_at"),
    "tool_events": (*_OF_A_USER, "tool_name", "input_json", "output_json", "latency_ms", "created_at"),
}  # fmt: skip
"""A memory provider's tables, and the columns that are read."""
_OTHERS: dict[str, tuple[str, ...]] = {
    "episodes": (
        "id", "summary", "key_decisions", "tools_used", "outcome", "session_id", "timestamp", "tags", "metadata",
    ),
    "procedures": ("id", "data"),
    "memory_bank": (*_OF_A_USER, "path", "content"),
}  # fmt: skip
_ALSO_CALLED = {"session_state": "topics"}  # Cognitia's page gives one table another name
_COUNTED = {"topics": "states", "phase_state": "phases", "memory_bank": "files"}
_JSON = {
    "tool_calls", "metadata", "content_blocks", "plan", "active_skill_ids", "input_json", "output_json", "key_decisions",
    "tools_used", "tags", "data",
}  # fmt: skip
_TEXT = (".md", ".txt", ".json", ".csv", ".toml", ".yaml", ".yml", "")


def import_swarmline(db: Database, bank: MemoryBank, old: SwarmlineMemory) -> TakeoverReport:
    """Take over a memory of Swarmline."""
    with scratch_truth(db) as (scratch, then):
        _fill(scratch, then, old)
        report = take_in(db, scratch)
    for row in old.rows["memory_bank"]:
        find = partial(bank.for_person, str(row["user_id"]), str(row["topic_id"]))
        take_file(find, str(row["path"]), storable(str(row["content"])), report)
    return TakeoverReport(old.files, report.added, report.known, report.refused, old.remarks)


def _fill(scratch: Database, then: ThenClock, old: SwarmlineMemory) -> None:
    rows = [
        (_moment_of(row), table, n, row) for table in _WRITERS for n, row in enumerate(old.rows[table], 1)
    ]
    # What has no time was there from the beginning: the same with each takeover.
    begin = min((at for at, *_ in rows if at), default=old.modified)
    for at, table, n, row in sorted(rows, key=itemgetter(0)):
        then.shown = then.tick_of(at or begin)
        try:
            scratch.write(partial(_WRITERS[table], row=row))  # a transaction has one time
        except (InvalidInputError, AttributeError, KeyError, TypeError, ValueError) as error:
            old.remarks.append(f"Row {n} of {table} was skipped: {error}")


def _fact(tx: Transaction, row: Row) -> None:
    value = json_of(row["value"])
    if value is None:
        value = NULL if row["value"] in (None, "null") else row["value"]
    assert_fact(
        tx,
        row["key"],
        value,
        scope=scope_of(row["user_id"]),
        topic=row["topic_id"],
        source=row["source"] or "",
        trust=TRUST.get(row["source"], UNKNOWN),
    )


def _message(tx: Transaction, row: Row) -> None:
    parts = _rest(row, "created_at")
    message = {part: value for part, value in parts.items() if value is not None or part == "content"}
    append_message(tx, *_topic(row), stored_message(message), level="private")


def _tool_event(tx: Transaction, row: Row) -> None:
    payload, outcome = call_record(row["tool_name"], row["input_json"], row["output_json"])
    episode = Episode(
        TOOL_CALL,
        payload,
        outcome,
        heard=Heard(row["user_id"]),
        level="private",
        session=row["topic_id"],
        latency_ms=row["latency_ms"],
    )
    append_episode(tx, episode, keep=0)


def _episode(tx: Transaction, row: Row) -> None:
    metadata = row["metadata"] or {}
    episode = Episode(
        "episode",
        metadata if isinstance(metadata, dict) else {"metadata": metadata},
        row["outcome"] or "unknown",
        heard=Heard(event_time=_moment_of(row) or None),
        name=row["id"],
        summary=row["summary"],
        decisions=row["key_decisions"] or (),
        tools=row["tools_used"] or (),
        tags=row["tags"] or (),
        session=row["session_id"] or "",
    )
    append_episode(tx, episode, keep=0)


def _procedure(tx: Transaction, row: Row) -> None:
    procedure = msgspec.convert(row["data"], Procedure)
    put_procedure(tx, dataclasses.replace(procedure, level="household", owner=None))


_WRITERS: dict[str, Callable[..., object]] = {
    "users": lambda tx, row: ensure_user(tx, row["external_id"]),
    "facts": _fact,
    "messages": _message,
    "summaries": lambda tx, row: put_summary(tx, *_topic(row), row["summary"], row["messages_covered"] or 0),
    "topics": lambda tx, row: put_state(tx, *_topic(row), _rest(row, "updated_at")),
    "goals": lambda tx, row: put_goal(
        tx,
        *_topic(row)[::-1],
        row["title"],
        {**_rest(row, "title", "created_at"), "is_main": bool(row["is_main"])},
    ),
    "phase_state": lambda tx, row: put_phase(tx, row["user_id"], row["phase"] or "", row["notes"] or ""),
    "tool_events": _tool_event,
    "episodes": _episode,
    "procedures": _procedure,
}


def _topic(row: Row) -> tuple[str, str]:
    return row["topic_id"], row["user_id"]


def _rest(row: Row, *other: str) -> Row:
    return {column: value for column, value in row.items() if column not in (*_OF_A_USER, *other)}


class SwarmlineMemory:
    """All of Swarmline's memory in a file, or each in a folder; raise InvalidInputError if there is nothing."""

    def __init__(self, path: Path) -> None:
        self.rows: dict[str, list[Row]] = defaultdict(list)
        """By table, with users' names for their numbers, and JSON read; a bank's files under `memory_bank`."""
        self.files: dict[str, dict[str, int]] = {}
        self.remarks: list[str] = []
        """Missing and skipped records, with the reason: a sentence each."""
        hint = "name a database or a memory bank of Swarmline."
        read_files(path, self._read_file, self.remarks, hint=hint)
        self.modified = path.expanduser().stat().st_mtime

    def _read_file(self, file: Path, name: str, data: bytes | None) -> None:
        parts = Path(name).parts
        if data is None:
            with read_foreign(file) as (tables, rows_of, _):
                self._read_database(tables, rows_of, name)
        elif "memory" in parts[2:-1]:
            place = parts.index("memory", 2)
            path = str(Path(*parts[place + 1 :]))
            self._read_bank_file(data, name, parts[place - 2], parts[place - 1], path)
        else:
            raise InvalidInputError(
                "it is no database, and lies in no bank's folder <user>/<topic>/memory/ there."
            )

    def _read_bank_file(self, data: bytes, name: str, user: str, topic: str, path: str) -> None:
        if Path(path).suffix.lower() not in _TEXT:
            raise InvalidInputError("it is no text.")
        values = user, topic, path, data.decode("utf-8", "replace")
        self.rows["memory_bank"].append(dict(zip(_OTHERS["memory_bank"], values, strict=True)))
        self.files[name] = {"files": 1}

    def _read_database(self, tables: dict[str, list[str]], rows_of: RowsOf, name: str) -> None:
        if "migrations" in tables:
            raise InvalidInputError("edgemem wrote it; open its home instead.")
        ours = {*_PROVIDER, *_OTHERS, *_ALSO_CALLED}
        columns = {
            _ALSO_CALLED.get(called, called): (called, tables[called]) for called in tables.keys() & ours
        }
        if "facts" in columns and "user_id" not in columns["facts"][1]:
            raise InvalidInputError(
                "it is a database of EdgeVox, which is taken in with: edgemem import edgevox PATH"
            )
        if not columns:
            raise InvalidInputError("it is no database of Swarmline.")
        users: dict[Any, str] = {}
        if "users" in columns and "external_id" in columns["users"][1]:
            number = "id" if "id" in columns["users"][1] else "user_id"
            users = {row.get(number): str(row["external_id"]) for row in rows_of("users")}
        missing = [table for table in _PROVIDER if table not in columns]
        if missing and columns.keys() & _PROVIDER.keys():
            self.remarks.append(f"{name} has no table {', '.join(missing)}.")
        self.files[name] = {}
        for table, asked in {**_PROVIDER, **_OTHERS}.items():
            if table not in columns:
                continue
            called, known = columns[table]
            if lacking := [column for column in asked if column not in known]:
                self.remarks.append(f"The table {called} of {name} has no {', '.join(lacking)}.")
            rows = rows_of(called)
            self.rows[table] += [_row(row, asked, {} if table in _OTHERS else users) for row in rows]
            self.files[name][_COUNTED.get(table, table)] = len(rows)


def _row(row: Row, columns: tuple[str, ...], users: dict[Any, str]) -> Row:
    """Return the columns of a row that are read, with JSON as its value and the user by name."""
    values = {column: row.get(column) for column in columns}
    for column in values.keys() & _JSON:
        values[column] = json_of(values[column])
    if (user := values.get("user_id")) is not None:
        values["user_id"] = str(users.get(user, user))
    return values


def _moment_of(row: Row) -> float:
    """Return when a row was written, from text in UTC or a number, in seconds since the epoch; else 0."""
    value: Any = row.get("created_at") or row.get("updated_at") or row.get("timestamp")
    with suppress(AttributeError, ValueError):
        date = datetime.datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
        return (date if date.tzinfo else date.replace(tzinfo=datetime.timezone.utc)).timestamp()
    return time_of(value) or 0.0
