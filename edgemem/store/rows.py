"""Rows: the work that is the same for a row of any kind, by its declaration in `kinds`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.scopes import person_of
from edgemem.store.declaration import IN_THEIR_TURNS, Kind
from edgemem.store.episodes import stored_text
from edgemem.store.goals import goal_text
from edgemem.store.kinds import EPISODES, GOALS, KINDS, SESSIONS
from edgemem.store.rights import drop_unused
from edgemem.store.validation import as_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.store.db.transaction import Transaction

Shown = tuple[str, str | int]
"""A record as blocks name it: the scope and key of a value, else the kind and id of a doc."""

_OF_SESSION = [kind for kind in KINDS if any("references sessions" in column.sql for column in kind.columns)]


def text_of(kind: Kind, values: Sequence[Any]) -> str:
    """Return the text of a row.

    Args:
        values: of the columns `Kind.found_by`, in their order.
    """
    if kind is EPISODES:
        return stored_text(*values)
    if kind is GOALS:
        title, data = values
        return f"goal: {goal_text(title, msgspec.json.decode(data))}"
    listed = kind.columns_of("json")
    words = (
        ", ".join(msgspec.json.decode(value)) if value and column in listed else value
        for column, value in zip(kind.found_by, values, strict=True)
    )
    return ". ".join(filter(None, words))


def delete_rows(tx: Transaction, kind: Kind, where: str, bound: Mapping[str, Any]) -> list[Shown]:
    """Delete the rows for which a condition of ours holds; return how blocks name each of them.

    The index is told, and names and conversations that nothing else holds go as well.
    """
    columns = [name for name in kind.names if name in ("id", "scope", "key", "session_id")]
    people = kind.columns_of("person")
    rows = tx.execute(
        f"delete from {kind.table} where {where} returning {', '.join((*columns, *people))}",  # noqa: S608 - our own constants
        bound,
    )
    gone = [dict(zip((*columns, *people), row, strict=True)) for row in rows]
    if kind.doc:
        tx.announce(kind.table, sorted(row["id"] for row in gone))
    names = {row[column] for row in gone for column in people}
    drop_unused(tx, names | {person_of(row["scope"]) for row in gone if "scope" in row})
    for session_id in {row["session_id"] for row in gone if "session_id" in row}:
        drop_session(tx, session_id)
    if "key" in columns:
        return [(row["scope"], row["key"]) for row in gone]
    return [(kind.doc or kind.label, row["id"]) for row in gone]


def blank_rows(tx: Transaction, kind: Kind, where: str, bound: Mapping[str, Any]) -> list[Shown]:
    """Empty the columns of rows that stay, by `Kind.blanks`; return how blocks name each of them."""
    structures = {column: key for column, key in kind.blanks.items() if key}
    columns = ", ".join(("id", *structures))
    rows = tx.execute(f"select {columns} from {kind.table} where {where}", bound)  # noqa: S608 - our own constants
    sets = [f"{column} = ?" if key else f"{column} = null" for column, key in kind.blanks.items()]
    tx.executemany(
        f"update {kind.table} set {', '.join(sets)} where id = ?",  # noqa: S608 - our own constants
        [(*map(_without_values, texts, structures.values()), number) for number, *texts in rows],
    )
    tx.announce(kind.table, [row[0] for row in rows])
    return [(kind.doc, row[0]) for row in rows]


def forget_session_rows(
    tx: Transaction, session: str, condition: str = "", bound: Mapping[str, Any] | None = None
) -> list[Shown]:
    """Delete or blank all rows that came from a session; return how blocks name each of them.

    Args:
        condition: a further one, such as that they came from some of its turns, with its values.
    """
    where = f"session = :session{condition}"
    values = {"session": session, **(bound or {})}
    shown: list[Shown] = []
    for kind in KINDS:
        if "session" in kind.names:
            work = blank_rows if kind.blanks else delete_rows
            shown += work(tx, kind, where, values)
    return shown


def blank_rows_of(tx: Transaction, kind: Kind, bound: Mapping[str, Any]) -> list[Shown]:
    """Blank the rows that the person `:name` said, or that came from one of their turns."""
    return blank_rows(tx, kind, f"speaker = :name or {IN_THEIR_TURNS}", bound)


def drop_session(tx: Transaction, session_id: int) -> None:
    """Delete a session in which nothing is left."""
    empty = " and ".join(
        f"not exists (select 1 from {kind.table} where session_id = sessions.id)"  # noqa: S608 - our own constants
        for kind in _OF_SESSION
    )
    tx.execute(f"delete from {SESSIONS.table} where id = ? and state = '{{}}' and {empty}", (session_id,))  # noqa: S608 - ours


def _without_values(text: str, key: str) -> str:
    """Return the JSON of a list of objects, with an empty text for each value below a key."""
    parts = [
        {**part, key: dict.fromkeys(part[key], "")} if key in part else part
        for part in msgspec.json.decode(text)
    ]
    return as_text(parts)
