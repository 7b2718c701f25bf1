"""Facts in two times: when they were true in the world, and when the robot believed it.

What is believed about a key divides valid time into intervals without gaps. A new value closes every interval
that it touches (the old version stays, with the time until which it was believed), writes again what is left
on both sides, and itself. So each version is a rectangle in valid time x transaction time, rectangles of one
key never overlap, and any pair (when, known when) has one answer, found in O(log n) steps.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.errors import InvalidInputError
from edgemem.fence import check_key, check_text, storable
from edgemem.store.beliefs import checked_time
from edgemem.store.heard import heard_columns
from edgemem.store.reading import level_and_owner

if TYPE_CHECKING:
    from edgemem.records import Heard, Level
    from edgemem.store.database import Transaction

MAX_VALUE_BYTES = 16 * 1024


class _Row(NamedTuple):
    """A believed rectangle with all that is written again when it is split."""

    id: int
    value: str | None
    valid_from: float
    valid_to: float | None
    version: int
    origin: int
    supersedes: int | None
    source: str
    level: int
    owner: str | None
    heard: tuple[Any, ...]


# Writing


def assert_fact(
    tx: Transaction,
    key: str,
    value: str | None,
    *,
    scope: str = "global",
    source: str = "",
    valid_from: float | None = None,
    valid_to: float | None = None,
    heard: Heard | None = None,
    level: Level | None = None,
    owner: str | None = None,
) -> bool:
    """Believe from now on that `key` has `value` in `[valid_from, valid_to)`; tell whether that is news.

    Args:
        value: None says that it has none; retract_fact is for that.
        valid_from: seconds since the epoch; None is the moment of this transaction.
        valid_to: None is for ever.
    """
    check_key(key)
    check_key(scope, what="a scope")
    if value is not None:
        value = storable_value(value)
    begin = tx.recorded / 1e6 if valid_from is None else checked_time(valid_from, "valid_from")
    end = None if valid_to is None else checked_time(valid_to, "valid_to")
    if end is not None and end <= begin:
        raise InvalidInputError(f"A fact must end after it begins: valid_to {end:g} is not after {begin:g}.")
    number, who = level_and_owner(scope, level, owner, heard)
    key_id = _key_id(tx, scope, key)
    touched = _believed_between(tx, key_id, begin, end)
    if touched and all((row.value, row.level, row.owner) == (value, number, who) for row in touched):
        return False
    recorded, version = _next_version(tx, key_id)
    supersedes = next(
        (row.origin for row in touched if row.valid_from <= begin and row.value is not None), None
    )
    _close(tx, touched, recorded, version)
    base = _Row(
        0, value, begin, end, version, 0, supersedes, storable(source), number, who, heard_columns(heard)
    )
    nothing = base._replace(value=None, supersedes=None, source="", heard=heard_columns(None))
    if not touched:
        # Nothing was known of this key: say so for all other times, so that a search finds that at once.
        touched = [nothing._replace(valid_from=-math.inf, valid_to=None)]
    first, last = touched[0], touched[-1]
    if first.valid_from < begin:
        _insert(tx, key_id, first._replace(valid_to=begin, version=version), recorded)
    if end is not None and (last.valid_to is None or last.valid_to > end):
        _insert(tx, key_id, last._replace(valid_from=end, version=version), recorded)
    _insert(tx, key_id, base, recorded)
    return True


def retract_fact(
    tx: Transaction, key: str, *, scope: str = "global", valid_from: float | None = None
) -> bool:
    """Believe that the key has no value from `valid_from` on; tell whether it had one."""
    check_key(key)
    if not tx.execute("select 1 from fact_keys where scope = ? and key = ?", (scope, key)):
        return False
    # What is not there has no owner: the level only matters for values.
    return assert_fact(tx, key, None, scope=scope, valid_from=valid_from, level="shared")


def forget_fact(tx: Transaction, key: str, *, scope: str = "global") -> bool:
    """Erase every version of a fact, and its key; tell whether there was one."""
    found = tx.execute("select id from fact_keys where scope = ? and key = ?", (scope, key))
    if not found:
        return False
    for (row_id,) in tx.execute("select id from facts where key_id = ? order by id", found[0]):
        _queue(tx, row_id)
    tx.execute("delete from facts where key_id = ?", found[0])
    tx.execute("delete from fact_keys where id = ?", found[0])
    return True


def storable_value(value: str, *, what: str = "the value of a fact") -> str:
    """Return a value as it can be stored; raise InvalidInputError if it is no text or too long."""
    if isinstance(value, str):
        value = storable(value)
    check_text(value, what=what, max_bytes=MAX_VALUE_BYTES)
    return value


# Details


def _key_id(tx: Transaction, scope: str, key: str) -> int:
    found = tx.execute("select id from fact_keys where scope = ? and key = ?", (scope, key))
    if not found:
        found = tx.execute("insert into fact_keys (scope, key) values (?, ?) returning id", (scope, key))
    return int(found[0][0])


def _believed_between(tx: Transaction, key_id: int, begin: float, end: float | None) -> list[_Row]:
    rows = tx.execute(
        """
        select id, value, valid_from, valid_to, version, origin, supersedes, source, level, owner,
          speaker, speaker_confidence, asr_confidence, device, room, event_time
        from facts where key_id = :key_id and known_to is null and valid_from < :end and valid_from >= (
          select valid_from from facts where key_id = :key_id and known_to is null and valid_from <= :begin
          order by valid_from desc limit 1)
        order by valid_from
        """,
        {"key_id": key_id, "begin": begin, "end": math.inf if end is None else end},
    )
    return [_Row._make((*row[:10], row[10:])) for row in rows]


def _next_version(tx: Transaction, key_id: int) -> tuple[int, int]:
    """Return when the next version of a key is recorded, and its number."""
    newest = tx.execute(
        "select recorded, version from facts where key_id = ? and id = origin order by recorded desc limit 1",
        (key_id,),
    )
    if not newest:
        return tx.recorded, 1
    recorded, version = newest[0]
    # A second version within one transaction was learnt after the first all the same.
    return (tx.recorded if recorded < tx.recorded else tx.tick()), version + 1


def _close(tx: Transaction, rows: list[_Row], recorded: int, version: int) -> None:
    for row in rows:
        height = ((row.version - 1) ^ (version - 1)).bit_length() - 1
        tx.execute(
            "update facts set known_to = ?, node = ? where id = ?",
            (recorded, (version - 1) >> height << height, row.id),
        )
        if row.value is not None:
            _queue(tx, row.id)


def _insert(tx: Transaction, key_id: int, row: _Row, recorded: int) -> None:
    row_id = tx.tick()
    tx.execute(
        """
        insert into facts (id, key_id, value, valid_from, valid_to, recorded, version, origin, supersedes, source,
          level, owner, speaker, speaker_confidence, asr_confidence, device, room, event_time)
        values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (
            *(
                row_id,
                key_id,
                row.value,
                row.valid_from,
                row.valid_to,
                recorded,
                row.version,
                row.origin or row_id,
            ),
            *(row.supersedes, row.source, row.level, row.owner, *row.heard),
        ),
    )


def _queue(tx: Transaction, row_id: int) -> None:
    tx.execute("insert into index_queue (id, kind, ref) values (?, 'fact', ?)", (tx.tick(), row_id))
