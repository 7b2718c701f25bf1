"""The records of a JSON memory: entries of its file, and the tables in memory that answer for them.

The file holds the statements about facts, oldest first, and nothing derived from them. A person may change, add or take out an
entry; reading the file states all of it again. Files of EdgeVox's `JSONMemoryStore` are read too.
"""

from __future__ import annotations

import datetime
import json
import math
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import EdgememError, InvalidInputError, NewerSchemaError
from edgemem.records import Episode, Heard, Preference
from edgemem.scopes import Level, level_of_scope
from edgemem.store import facts
from edgemem.store.episodes import append_episode, read_payload, recent_episodes
from edgemem.store.memory_store import put_preference, read_preferences
from edgemem.store.rights import LEVELS
from edgemem.store.validation import NULL, heard_of

if TYPE_CHECKING:
    from edgemem.clock import Clock
    from edgemem.store.db.transaction import Tables, Transaction

FORMAT = 1
ABOUT = (
    "The memory of a robot, kept by edgemem. Facts stand in the order in which they were learnt; a later one"
    " overrules an earlier one of the same key and scope. You may change, add or remove entries."
)
_FILLED = ["doubts", "facts", "fact_keys", "preferences", "episodes", "names", "index_queue", "erasings"]
_STATED = f"""
  select k.scope, k.key, k.topic, f.recorded, null, {facts.STATEMENT_COLUMNS} from facts f join fact_keys k on k.id = f.key_id
  where f.id = f.recorded
  union all
  select k.scope, k.key, k.topic, d.id, iif(d.confirmed_by is null, d.settled, null), {facts.STATEMENT_COLUMNS} from doubts d join fact_keys k on k.id = d.key_id
  where coalesce(d.confirmed_by, d.id) >= d.id
  order by 4
"""  # noqa: S608 - our own constant
"""Statements about facts, whose ids are their ticks. The second doubt behind the fact that it makes follows from the others."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)
MADE = 2**61  # ids that the tables make are above all ticks
_TEN_YEARS = 10 * 365.25 * 86400.0

_When = str | float
"""A date as people write it; seconds since the epoch where no date says the same."""
_TIMES = {"recorded_at", "valid_from", "valid_to", "refuted", "updated_at", "timestamp"}


class MemoryFile(msgspec.Struct):
    """The file as a whole; entries are looked at one by one, so that one mistake spoils one entry."""

    about: Any = ABOUT
    format: int = FORMAT
    facts: list[Any] = []
    preferences: list[Any] = []
    episodes: list[Any] = []


class FactEntry(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A statement about a fact; a value of None says that it has none."""

    key: str
    value: Any
    scope: str = "global"
    source: str = ""
    recorded_at: float | None = None
    valid_from: float | None = None
    valid_to: float | None = None
    refuted: float | None = None  # when a doubt was refuted
    null: bool = False  # the value is the null of JSON; else None is no value
    topic: str | None = None
    trust: int | None = None
    """None: by who said it; without `heard` the operator, who also edits the file."""
    level: Level | None = None
    owner: str | None = None
    heard: Heard | None = None


def state_fact(
    tx: Transaction, key: str, value: Any, *, valid_from: float | None, doubtful_below: float, **options: Any
) -> facts.Outcome:
    """Believe or doubt a statement, as `facts.assert_fact` does, with its tick as id; return what became of it."""
    begin = tx.recorded / 1e6 if valid_from is None else valid_from
    key_id, statement = facts.new_statement(tx, key, value, valid_from=begin, **options)
    newest = tx.execute(
        "select max(recorded) from (select recorded from facts where key_id = :key and id = recorded"
        " union all select id from doubts where key_id = :key and id < :made)",
        {"key": key_id, "made": MADE},
    )[0][0]
    # Behind a statement that another process made meanwhile, so that it held until now.
    tx.recorded = free_id(tx, "doubts", free_id(tx, "facts", max(tx.recorded, (newest or 0) + 1)))
    if valid_from is None:
        begin = tx.recorded / 1e6 if statement.valid_to is None else statement.valid_from
        statement = facts.since_first_heard(tx, key_id, statement._replace(valid_from=begin))
    ids = {"number": tx.recorded, "recorded": tx.recorded}
    return facts.assert_version(tx, key_id, statement, doubtful_below=doubtful_below, **ids)


def free_id(tx: Transaction, table: str, tick: int) -> int:
    """Return the tick, or the next one that is free: an entry that was copied has the time of its model."""
    while tx.execute(f"select 1 from {table} where id = ?", (tick,)):  # noqa: S608 - ours
        tick += 1
    return tick


def fill(tx: Transaction, file: MemoryFile, clock: Clock, *, doubtful_below: float) -> list[str]:
    """Put a file's content in place of the tables', and date what has no time; return what could not be understood."""
    if file.format > FORMAT:
        raise NewerSchemaError(f"A newer edgemem wrote this memory (format {file.format}); update edgemem.")
    for table in _FILLED:
        tx.execute(f"delete from {table}")  # noqa: S608 - ours
    tx.announce("facts", [0])  # so that readers see a change
    problems: list[str] = []
    entries: list[tuple[int, str, Any]] = []
    kinds = (
        ("fact", from_edgevox(file.facts, clock, problems), FactEntry, "recorded_at"),
        ("preference", file.preferences, Preference, "updated_at"),
        ("episode", file.episodes, Episode, "timestamp"),
    )
    for kind, raws, struct, stamp in kinds:
        for number, raw in enumerate(raws, start=1):
            with _noted(problems, f"{kind} {number}"):
                fields = {key: _read(key, part) for key, part in msgspec.convert(raw, dict[str, Any]).items()}
                entry: Any = msgspec.convert(fields, struct)
                tick = 0 if raw.get(stamp) is None else _witnessed(clock, raw[stamp])
                label = entry.kind if struct is Episode else entry.key
                # What has no time was learnt now.
                entries.append((tick if tick > 0 else clock.tick(), f"{kind} {label[:80]!r}", entry))
                if unknown := sorted(fields.keys() - set(struct.__struct_encode_fields__)):
                    problems.append(f"{kind} {number} has {unknown[0]!r}, which means nothing here")
    for tx.recorded, name, entry in sorted(entries, key=lambda entry: entry[0]):
        with _noted(problems, name):  # an entry is checked before any of it is written
            if isinstance(entry, FactEntry):
                _state(tx, entry, doubtful_below=doubtful_below)
            elif isinstance(entry, Preference):
                put_preference(tx, entry.key, entry.value, scope=entry.scope)
            else:
                append_episode(tx, entry, keep=0, episode_id=free_id(tx, "episodes", tx.recorded))
    return problems


@contextmanager
def _noted(problems: list[str], name: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, OverflowError, EdgememError) as error:
        problems.append(f"{name}: {error}")


def file_of(db: Tables, *, keep: int) -> MemoryFile:
    """Return the file of the tables."""
    return MemoryFile(
        facts=[_written(_fact_entry(row[:5], row[5:])) for row in db.query(_STATED)],
        preferences=[_written(wish, "level", "owner") for wish in read_preferences(db)],
        episodes=[_written(episode, "id") for episode in recent_episodes(db, 2**62, keep=keep)],
    )


def _written(record: FactEntry | Preference | Episode, *without: str) -> dict[str, Any]:
    """Return a record as the file has it: times as dates, without its defaults and some of its fields."""
    return {
        name: _when(part) if name in _TIMES else part
        for name, part in msgspec.to_builtins(record).items()
        if name not in without and (name, part) != ("scope", "global")
    }


def _read(name: str, part: Any) -> Any:
    if name == "payload":
        return read_payload(part)
    return _tick(part) / 1e6 if name in _TIMES and isinstance(part, str) else part


def _state(tx: Transaction, entry: FactEntry, *, doubtful_below: float) -> None:
    is_nothing = entry.value is None and not entry.null
    state_fact(
        tx,
        facts.plain_key(entry.key, entry.topic),
        NULL if entry.null else entry.value,
        scope=entry.scope,
        source=entry.source,
        valid_from=entry.valid_from,
        valid_to=entry.valid_to,
        topic=entry.topic,
        heard=entry.heard,
        # An absence has no owner: the level only matters for values.
        level="shared" if is_nothing else entry.level,
        owner=entry.owner,
        trust=entry.trust,
        doubtful_below=doubtful_below,
    )
    if entry.refuted is not None:
        tx.execute("update doubts set settled = ? where id = ?", (round(entry.refuted * 1e6), tx.recorded))


def _fact_entry(place: tuple[Any, ...], stated: tuple[Any, ...]) -> FactEntry:
    scope, key, topic, tick, settled = place
    value, json_text, valid_from, valid_to, source, level_number, owner, trust, *columns = stated
    heard, recorded, level = heard_of(columns), tick / 1e6, LEVELS[level_number]
    is_meant = (level, owner) == level_of_scope(scope) or value is None
    return FactEntry(
        key=key,
        value=value if json_text is None else msgspec.json.decode(json_text),
        null=json_text == "null",
        topic=topic,
        trust=None if trust == facts.TRUSTED and heard is None else trust,
        scope=scope,
        source=source,
        recorded_at=recorded,
        valid_from=None if valid_from == recorded else valid_from,
        valid_to=valid_to,
        refuted=None if settled is None else settled / 1e6,
        level=None if is_meant else level,
        owner=None if is_meant else owner,
        heard=heard,
    )


def from_edgevox(entries: list[Any], clock: Clock, problems: list[str]) -> list[Any]:
    """Return entries about facts as we write them; add a sentence to `problems` for each repair.

    EdgeVox knows one time of a fact, and writes an end into the fact itself. Where several values were active at once, the one
    written last holds; where its clock had been set back, a later entry was learnt later all the same.
    """
    ours: list[Any] = []
    of_key: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for entry in entries:
        if isinstance(entry, dict) and "updated_at" in entry and "recorded_at" not in entry:
            of_key[str(entry.get("scope") or "global"), str(entry.get("key"))].append(entry)
        else:
            ours.append(entry)
    for (scope, key), rows in of_key.items():
        times = [_times_of(row) for row in rows]
        active = sum(end is None for _, end in times)
        if active > 1:
            problems.append(f"The fact {key!r} ({scope}) had {active} values at once; the last one holds.")
        if any(end is not None and end < begin for begin, end in times):
            problems.append(
                f"A value of {key!r} ({scope}) ended before it began (the clock had been set back); it is history."
            )
        newest = 0.0
        for row, (begin, end), following in zip(rows, times, [*times[1:], None], strict=True):
            named = {key: row[key] for key in ("key", "value", "scope", "source") if row.get(key) is not None}
            named = {key: part if isinstance(part, str) else json.dumps(part) for key, part in named.items()}
            moments = [(begin, named)]
            if end is not None and (following is None or following[0] > end):
                # Nothing followed at once: it was forgotten, which for EdgeVox is an end, not an erasure.
                moments.append((end, {**named, "value": None, "source": ""}))
            for at, entry in moments:
                if at <= clock.now() + _TEN_YEARS:
                    newest = max(newest, at)
                ours.append({**entry, "recorded_at": newest or None, "valid_from": at})
    return ours


def _times_of(row: dict[str, Any]) -> tuple[float, float | None]:
    begin = time_of(row.get("valid_from")) or time_of(row["updated_at"]) or 0.0
    end = time_of(row.get("valid_to"))
    return begin, time_of(row.get("invalidated_at")) if end is None else end


def _witnessed(clock: Clock, when: _When) -> int:
    """Return a time as a tick that the clock has noted; raise InvalidInputError where that would push it."""
    tick = _tick(when)
    # One slip of the hand must not push the clock, and with it all later records.
    if tick / 1e6 > clock.now() + _TEN_YEARS:
        raise InvalidInputError(f"{when} has not come yet; mend the year, or the robot's clock.")
    clock.witness(tick)
    return tick


def time_of(value: Any) -> float | None:
    """Return what another system wrote as seconds, or None if it is no number."""
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) else None


def _tick(when: _When) -> int:
    if not isinstance(when, str):
        return round(when * 1e6)
    try:
        date = datetime.datetime.fromisoformat(when.strip().upper().replace("Z", "+00:00"))
    except ValueError as error:
        raise InvalidInputError(f"{when!r:.80} is no time; write 2026-01-31 or 2026-01-31T15:30Z.") from error
    return ((date if date.tzinfo else date.replace(tzinfo=datetime.timezone.utc)) - _EPOCH) // _MICROSECOND


def _when(seconds: float) -> _When:
    try:
        date = (_EPOCH + round(seconds * 1e6) * _MICROSECOND).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return seconds
    return date if _tick(date) / 1e6 == seconds else seconds
