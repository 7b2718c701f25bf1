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
from edgemem.records import Fact, Heard
from edgemem.store.reading import LEVELS, level_and_owner, reading_rule

if TYPE_CHECKING:
    from edgemem.records import Level, Reader
    from edgemem.store.database import Database, Transaction

MAX_VALUE_BYTES = 16 * 1024

FACT_COLUMNS = """
  k.key, f.value, k.scope, f.origin, f.source, f.valid_from, f.valid_to, f.known_to, f.supersedes, f.level, f.owner,
  f.speaker, f.speaker_confidence, f.asr_confidence, f.device, f.room, f.event_time
"""
"""What `fact_of` makes a Fact of, from `facts f join fact_keys k`."""

_UNHEARD: list[Any] = [None] * 6

_BELIEVED = """
  select case when coalesce(b.valid_to, 9e999) > :t then b.id end from facts b
  where b.key_id = k.id and b.known_to is null and b.valid_from <= :t order by b.valid_from desc limit 1
"""

# Most answers are still believed, or were replaced by the very next version; the walk up the tree of versions
# is for those that were believed for long and are not any more.
_KNOWN = """
  coalesce(
    (select case when b.recorded <= :known_at then b.id end from facts b
      where b.key_id = k.id and b.known_to is null and b.valid_from <= :t order by b.valid_from desc limit 1),
    (select case when coalesce(c.valid_to, 9e999) > :t then c.id end from facts c
      where c.key_id = k.id and c.valid_from <= :t and c.node = (
        select v.version from facts v where v.key_id = k.id and v.recorded <= :known_at and v.id = v.origin
        order by v.recorded desc limit 1)
      order by c.valid_from desc limit 1),
    (with recursive path (node, bit, newest) as (
        select v.version, v.version & -v.version,
          (select n.version from facts n where n.key_id = k.id and n.id = n.origin order by n.recorded desc limit 1)
        from facts v where v.id = (select u.id from facts u where u.key_id = k.id and u.recorded <= :known_at
          and u.id = u.origin order by u.recorded desc limit 1)
        union all
        select (node - bit) | (bit << 1), bit << 1, newest from path where bit << 1 <= newest)
      select d.id from path cross join facts d on d.id = (
        select case when coalesce(c.valid_to, 9e999) > :t and c.recorded <= :known_at and c.known_to > :known_at
          then c.id end from facts c
        where c.key_id = k.id and c.node = path.node and c.valid_from <= :t order by c.valid_from desc limit 1)
      limit 1)
  )
"""


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
    begin = tx.recorded / 1e6 if valid_from is None else _time(valid_from, "valid_from")
    end = None if valid_to is None else _time(valid_to, "valid_to")
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


# Reading


def get_fact(db: Database, key: str, *, scope: str, t: float) -> str | None:
    """Return the value that is believed to hold at `t`."""
    rows = db.query(
        """
        select case when coalesce(valid_to, 9e999) > :t then value end from facts
        where key_id = (select id from fact_keys where scope = :scope and key = :key)
          and known_to is null and valid_from <= :t order by valid_from desc limit 1
        """,
        {"scope": scope, "key": key, "t": t},
    )
    return rows[0][0] if rows else None


def facts_as_of(
    db: Database,
    t: float,
    *,
    scope: str | None = None,
    known_at: float | None = None,
    reader: Reader | None = None,
) -> list[Fact]:
    """Return what held at `t`, as believed now or at `known_at`; newest first."""
    sql, values = as_of(t, scope=scope, known_at=known_at, reader=reader)
    rows = db.query(sql, values)
    rows.sort(key=_origin, reverse=True)
    return [fact_of(row) for row in rows]


def as_of(
    t: float, *, scope: str | None = None, known_at: float | None = None, reader: Reader | None = None
) -> tuple[str, dict[str, Any]]:
    """Return the statement behind `facts_as_of`, and its values."""
    rule, values = reading_rule(reader, "f.")
    values["t"] = _time(t, "t")
    where = [rule, "f.value is not null"]
    if scope is not None:
        where.insert(0, "k.scope = :scope")
        values["scope"] = scope
    found = _BELIEVED
    if known_at is not None:
        found = _KNOWN
        values["known_at"] = round(_time(known_at, "known_at") * 1e6)
    sql = f"select {FACT_COLUMNS} from fact_keys k cross join facts f on f.id = ({found}) where {' and '.join(where)}"  # noqa: S608 - our own constants
    return sql, values


def fact_history(db: Database, key: str, *, scope: str) -> list[Fact]:
    """Return every version that was ever said, in recorded order.

    `invalidated_at` and `superseded_by` tell when and by what a version was first contradicted; `valid_from`
    and `valid_to` what is still believed of it, or all of it if nothing is.
    """
    rows = db.query(
        f"select {FACT_COLUMNS}, f.id, f.recorded from fact_keys k join facts f on f.key_id = k.id"  # noqa: S608 - ours
        " where k.scope = ? and k.key = ? and f.value is not null order by f.id",
        (scope, key),
    )
    left: dict[int, tuple[float, float | None]] = {}
    said: dict[int, int] = {}
    for row in rows:
        origin, valid_from, valid_to, known_to, row_id, recorded = *_origin_and_times(row), *row[-2:]
        if known_to is None:
            begin, end = left.get(origin, (valid_from, valid_to))
            later = None if end is None or valid_to is None else max(end, valid_to)
            left[origin] = min(begin, valid_from), later
        if row_id == origin:
            said[recorded] = row_id
    history = []
    for row in rows:
        origin, valid_from, valid_to, known_to, row_id = *_origin_and_times(row), row[-2]
        if row_id == origin:
            by = said.get(known_to) if known_to is not None else None
            begin, end = left.get(origin, (valid_from, valid_to))
            history.append(fact_of((*row[:5], begin, end, *row[7:-2]), superseded_by=by))
    return history


def fact_of(row: tuple[Any, ...], *, superseded_by: int | None = None) -> Fact:
    """Return the record of a row of FACT_COLUMNS."""
    key, value, scope, origin, source, valid_from, valid_to, known_to, supersedes, level, owner, *heard = row
    at = origin / 1e6
    return Fact(
        key,
        value,
        scope,
        at,
        source,
        str(origin),
        valid_from,
        valid_to,
        None if known_to is None else known_to / 1e6,
        None if supersedes is None else str(supersedes),
        at,
        None if superseded_by is None else str(superseded_by),
        LEVELS[level],
        owner,
        heard_of(heard),
    )


def heard_columns(heard: Heard | None) -> tuple[Any, ...]:
    """Return what stands in the six columns of a record from speech."""
    h = heard or Heard()
    return (h.speaker, h.speaker_confidence, h.asr_confidence, h.device, h.room, h.event_time)


def heard_of(columns: list[Any]) -> Heard | None:
    """Return how something was heard, or None if nothing is known of that."""
    return Heard(*columns) if columns != _UNHEARD else None


def storable_value(value: str, *, what: str = "the value of a fact") -> str:
    """Return a value as it can be stored; raise InvalidInputError if it is no text or too long."""
    if isinstance(value, str):
        value = storable(value)
    check_text(value, what=what, max_bytes=MAX_VALUE_BYTES)
    return value


# Details


def _origin(row: tuple[Any, ...]) -> int:
    return int(row[3])


def _origin_and_times(row: tuple[Any, ...]) -> tuple[int, float, float | None, int | None]:
    return row[3], row[5], row[6], row[7]


def _time(seconds: float, what: str) -> float:
    try:
        value = float(seconds)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise InvalidInputError(f"{what} must be seconds since the epoch, not {seconds!r}.")
    return value


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
