"""Queries of facts: values of a time, as believed now or at another moment."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.records import Fact, Held
from edgemem.scopes import name_key
from edgemem.store.db.transaction import bound, placeholders
from edgemem.store.facts import plain_key
from edgemem.store.rights import LEVELS, SPELLED, looked_up, reading_rule, scope_in_sql, spellings
from edgemem.store.validation import checked_tick, checked_time, heard_of, lookup

if TYPE_CHECKING:
    from edgemem.records import Reader
    from edgemem.store.db.transaction import Tables

_MISHEARD = (
    "exists (select 1 from doubts w where w.key_id = k.id and w.confirmed_by = f.origin and w.id > f.origin)"
)
FACT_COLUMNS = f"""
  k.key, f.value, k.scope, f.origin / 1e6, f.source, cast(f.origin as text), f.valid_from, f.valid_to, f.known_to / 1e6,
  cast(f.supersedes as text), f.origin / 1e6, null, f.level, f.owner, 0, {_MISHEARD}, f.trust, f.json,
  f.speaker, f.speaker_confidence, f.asr_confidence, f.device, f.room, f.event_time
"""
"""What `fact_of` makes a Fact of, from `facts f join fact_keys k`."""

_DOUBT_COLUMNS = """
  k.key, d.value, k.scope, d.id / 1e6, d.source, cast(d.id as text), d.valid_from, d.valid_to, d.settled / 1e6,
  null, d.id / 1e6, cast(d.confirmed_by as text), d.level, d.owner, 1, d.low_confidence, d.trust, d.json,
  d.speaker, d.speaker_confidence, d.asr_confidence, d.device, d.room, d.event_time
"""
"""The same of `doubts d`; what superseded it is the fact that confirmed it."""

_BELIEVED = """
  select case when coalesce(b.valid_to, 9e999) > :t then b.id end from facts b
  where b.key_id = k.id and b.known_to is null and b.valid_from <= :t order by b.valid_from desc limit 1
"""

MOST_VERSIONS = 4096
"""Versions of one key, the last ones, that are looked at within one time: eleven a day for a year, some 7 ms on a desktop."""
# Believed values of a key share no moment: the value at the begin of a time is the last that came by then.
WITHIN = """
  with asked (n, since, till) as (values {times})
  select a.n, k.id, max(f.origin), sum(min(coalesce(f.valid_to, 9e999), a.till) - max(f.valid_from, a.since))
  from asked a cross join fact_keys k cross join facts f on f.id in (
    select b.id from facts b where b.key_id = k.id and b.known_to is null and b.valid_from < a.till
      and b.valid_from >= coalesce((select max(b.valid_from) from facts b
        where b.key_id = k.id and b.known_to is null and b.valid_from <= a.since), -9e999)
    order by b.valid_from desc limit {most})
  where k.id in ({keys}) and coalesce(f.valid_to, 9e999) > a.since and f.value is not null and {rule}
  group by a.n, k.id, f.value
"""

# Most answers are still believed, or were replaced by the next version; the walk up the tree of versions is for those that
# were believed for long and are not any more.
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


def believed_at(known_at: float | None) -> tuple[str, dict[str, Any]]:
    """Return a select of the version believed of a key `k` to hold at `:t`, now or at `known_at`, and its values."""
    return (_BELIEVED, {}) if known_at is None else (_KNOWN, {"known_at": checked_tick(known_at, "known_at")})


def read_values(
    db: Tables, keys: Collection[tuple[str, str]], *, t: float, reader: Reader | None
) -> dict[tuple[str, str], Held]:
    """Return the values of several (scope, key) believed to hold at `t`, in one statement.

    For each, whether the reader may read it, and if so, its value (None: there is none) and who else may read that.
    """
    rule, values = reading_rule(reader, "f.")
    if not keys:
        return {}
    # Repeated up to a power of two, so a dozen prepared statements serve any number.
    asked = list(keys)
    asked += asked[-1:] * ((1 << (len(asked) - 1).bit_length()) - len(asked))
    subjects = spellings(db, {lookup(key).partition(".")[0] for _, key in asked})
    for n, (scope, key) in enumerate(asked):
        subject, dot, trait = lookup(key).partition(".")
        name = name_key(subjects[subject])
        now = subject if name == name_key(subject) else name.replace(" ", "_")  # they were renamed
        names = f"scope{n}", f"person{n}", f"key{n}", f"now{n}"
        values.update(zip(names, (*looked_up(scope), lookup(key), now + dot + trait), strict=True))
    pairs = ", ".join(f"({n}, :scope{n}, :person{n}, :key{n}, :now{n})" for n in range(len(asked)))
    rows = db.query(
        f"""
        with asked (n, scope, person, key, now) as (values {pairs})
        select a.n, {rule}, case when {rule} and coalesce(f.valid_to, 9e999) > :t then f.value end, f.level, f.owner,
          ifnull(f.json like '[%', 0)
        from asked a
        cross join fact_keys k on k.key in (a.key, a.now)
          and k.scope = case when a.person is null then a.scope else 'user:' || {SPELLED.format(key="a.person")} end
        cross join facts f on f.id = (
          select b.id from facts b where b.key_id = k.id and b.known_to is null and b.valid_from <= :t
          order by b.valid_from desc limit 1)
        order by k.key = a.key
        """,  # noqa: S608 - our own constants
        {"t": t, **values},
    )
    held = {
        asked[n]: Held(True, value, LEVELS[level], owner, bool(is_list)) if readable else Held(False, None)
        for n, readable, value, level, owner, is_list in rows
    }
    return {pair: held.get(pair, Held(True, None)) for pair in asked}


def facts_as_of(db: Tables, t: float, **asked: Any) -> list[Fact]:
    """Return what held at `t`, newest first; the further arguments are those of `as_of`."""
    sql, values = as_of(t, **asked)
    return sorted(map(fact_of, db.query(sql, values)), key=lambda fact: int(fact.id), reverse=True)


def as_of(
    t: float,
    *,
    scope: str | None = None,
    known_at: float | None = None,
    reader: Reader | None = None,
    columns: str = FACT_COLUMNS,
) -> tuple[str, dict[str, Any]]:
    """Return the statement behind `facts_as_of`, with the columns that it returns, our own text, and its values.

    Facts are as believed now, or at `known_at`, and those that the reader may read.
    """
    rule, values = reading_rule(reader, "f.")
    values["t"] = checked_time(t, "t")
    where = [rule, "f.value is not null"]
    if scope is not None:
        at, value = scope_in_sql(scope)
        where.insert(0, f"k.scope = {at}")
        values |= value
    believed, moments = believed_at(known_at)
    values |= moments
    sql = f"select {columns} from fact_keys k cross join facts f on f.id = ({believed}) where {' and '.join(where)}"  # noqa: S608 - our own constants
    return sql, values


def user_facts(
    db: Tables, t: float, *, scope: str, topic: str | None = None, reader: Reader | None = None
) -> dict[str, Any]:
    """Return the values of a scope at `t` as given, by plain keys, newest first; a topic's facts replace those of none."""
    sql, values = as_of(t, scope=scope, reader=reader, columns="k.topic, k.key, f.value, f.json, f.origin")
    rows = db.query(f"{sql} and (k.topic is null or k.topic = :topic)", {**values, "topic": topic})
    values_by_key: dict[str, Any] = {}
    for of, key, value, json, _ in sorted(rows, key=lambda row: (row[0] is None, -row[-1])):
        values_by_key.setdefault(plain_key(key, of), value if json is None else msgspec.json.decode(json))
    return values_by_key


def held_at(db: Tables, t: float, *, known_at: float | None, reader: Reader | None) -> list[int]:
    """Return the numbers of the statements that held at `t`, as believed now or at `known_at`."""
    sql, values = as_of(t, known_at=known_at, reader=reader, columns="f.origin")
    return sorted({origin for (origin,) in db.query(sql, values)})


class HeldWithin(NamedTuple):
    """A value that is believed to have held within a time."""

    time: int  # which of the times that were asked for
    key: int
    origin: int  # the last statement among those that held then
    seconds: float  # how long it held then, all its turns together


def keys_of(db: Tables, origins: Sequence[int]) -> dict[int, int]:
    """Return which key each of some statements is about, by the numbers of the statements."""
    sql = f"select id, key_id from facts where id in ({placeholders(origins)})"  # noqa: S608 - our own names
    return dict(db.query(sql, bound(origins)))


def held_within(
    db: Tables, keys: Collection[int], times: Sequence[tuple[float, float]], *, reader: Reader | None
) -> list[HeldWithin]:
    """Return which values are believed now to have held within some times, of what the reader may read."""
    rule, values = reading_rule(reader, "f.")
    for n, (since, till) in enumerate(times):
        values |= {f"since{n}": since, f"till{n}": till}
    asked = ", ".join(f"({n}, :since{n}, :till{n})" for n in range(len(times)))
    ids = list(keys)
    sql = WITHIN.format(times=asked, keys=placeholders(ids), rule=rule, most=MOST_VERSIONS)
    return [HeldWithin._make(row) for row in db.query(sql, {**values, **bound(ids)})]


def fact_history(db: Tables, key: str, *, scope: str) -> list[Fact]:
    """Return every version that was ever said, in recorded order, with unconfirmed values, which are `doubtful`.

    `invalidated_at` and `superseded_by` tell when and by what a version was first contradicted, or a doubt confirmed;
    `valid_from` and `valid_to` the part still believed, or all of it if nothing is.
    """
    at, values = scope_in_sql(scope)
    rows = db.query(
        f"select f.id, f.origin, f.recorded, f.known_to, {FACT_COLUMNS} from fact_keys k join facts f on f.key_id = k.id"  # noqa: S608 - ours
        f" where k.scope = {at} and k.key = :key and f.value is not null order by f.id",
        {**values, "key": lookup(key)},
    )
    believed: dict[int, tuple[float, float | None]] = {}
    """Of each version, from its earliest moment to its last."""
    for _, origin, _, known_to, *columns in rows:
        if known_to is None:
            valid_from, valid_to = columns[6:8]
            begin, end = believed.get(origin, (valid_from, valid_to))
            believed[origin] = min(begin, valid_from), None if None in (end, valid_to) else max(end, valid_to)
    statements = [row for row in rows if row[0] == row[1]]
    numbers = {recorded: str(number) for number, _, recorded, *_ in statements}
    history = read_doubts(db, key=key, scope=scope)
    for number, _, _, known_to, *columns in statements:
        columns[6:8] = believed.get(number, columns[6:8])
        columns[11] = numbers.get(known_to)
        history.append(fact_of(columns))
    return sorted(history, key=lambda fact: int(fact.id))


def read_doubts(
    db: Tables,
    *,
    key: str | None = None,
    scope: str | None = None,
    reader: Reader | None = None,
    ids: Sequence[int] = (),
) -> list[Fact]:
    """Return doubts that wait (only those of some ids); of one key all that there ever were. The oldest come first."""
    rule, values = reading_rule(reader, "d.")
    # A low-confidence value heard twice becomes a version; it is no longer unconfirmed.
    where = [
        rule,
        "d.settled is null" if key is None else "k.key = :key and coalesce(d.confirmed_by, d.id) >= d.id",
    ]
    if scope is not None:
        at, value = scope_in_sql(scope)
        where.append(f"k.scope = {at}")
        values |= value
    if ids:
        values |= bound(ids)
        where.append(f"d.id in ({placeholders(ids)})")
    rows = db.query(
        f"select {_DOUBT_COLUMNS} from doubts d join fact_keys k on k.id = d.key_id"  # noqa: S608 - our own constants
        f" where {' and '.join(where)} order by d.id",
        {**values, "key": None if key is None else lookup(key)},
    )
    return [fact_of(row) for row in rows]


def fact_of(row: Sequence[Any]) -> Fact:
    """Return the record of a row of FACT_COLUMNS."""
    *given, level, owner, doubtful, misheard, trust, json = row[:18]
    doubts = bool(doubtful), bool(misheard)
    return Fact(*(*given, LEVELS[level], owner, heard_of(row[18:]), *doubts, trust, json))
