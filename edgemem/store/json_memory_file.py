"""A JSON memory written down: what was said, oldest first, and nothing derived from it.

A person may change a value, add an entry with a key and a value, or take one out; what follows from it is worked
out anew when the file is read. Files of EdgeVox's `JSONMemoryStore` are read too.
"""

from __future__ import annotations

import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from edgemem.errors import EdgememError, InvalidInputError, NewerSchemaError
from edgemem.records import Episode, Heard, Level
from edgemem.scopes import level_of_scope
from edgemem.store.episodes import read_payload
from edgemem.store.facts import checked_fact
from edgemem.store.heard import heard_of
from edgemem.store.json_memory import JsonMemory, checked_episode
from edgemem.store.rights import LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.clock import Clock
    from edgemem.store.rectangles import Rectangle

FORMAT = 1
ABOUT = (
    "The memory of a robot, kept by edgemem. Facts stand in the order in which they were learnt; a later one"
    " overrules an earlier one of the same key and scope. You may change, add or remove entries."
)

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)
_TEN_YEARS = 10 * 365.25 * 86400.0

_When = str | float
"""A date as people write it; seconds since the epoch where no date says the same."""

T = TypeVar("T")


class MemoryFile(msgspec.Struct):
    """The file as a whole; entries are looked at one by one, so that one mistake spoils one entry."""

    about: Any = ABOUT
    format: int = FORMAT
    facts: list[Any] = []
    preferences: list[Any] = []
    episodes: list[Any] = []


class _FactEntry(msgspec.Struct, omit_defaults=True, kw_only=True):
    key: str
    value: str | None
    scope: str = "global"
    source: str = ""
    recorded_at: _When | None = None
    valid_from: _When | None = None
    valid_to: _When | None = None
    heard_badly: bool | None = None
    level: Level | None = None
    owner: str | None = None
    heard: Heard | None = None


class _PreferenceEntry(msgspec.Struct, omit_defaults=True, kw_only=True):
    key: str
    value: str
    scope: str = "global"
    updated_at: _When | None = None


class _EpisodeEntry(msgspec.Struct, omit_defaults=True, kw_only=True):
    kind: str
    payload: Any
    outcome: str
    timestamp: _When | None = None
    agent: str = ""
    level: Level | None = None
    owner: str | None = None
    heard: Heard | None = None


def file_of(memory: JsonMemory) -> MemoryFile:
    """Return what is written down."""
    said = [
        (scope, key, each) for (scope, key), timeline in memory.timelines.items() for each in timeline.said()
    ]
    return MemoryFile(
        facts=[_fact_entry(*each) for each in sorted(said, key=lambda each: each[2].id)],
        preferences=[
            _PreferenceEntry(key=p.key, value=p.value, scope=p.scope, updated_at=_when(p.updated_at))
            for p in memory.preferences.values()
        ],
        episodes=[_episode_entry(episode) for episode in memory.episodes],
    )


def read_memory(
    file: MemoryFile, clock: Clock, *, doubtful_below: float = 0.0
) -> tuple[JsonMemory, list[str]]:
    """Return what a file holds, and what in it could not be understood.

    Args:
        clock: takes note of the times in the file, and dates what somebody added without a time.
        doubtful_below: a recogniser's confidence below which a contradiction is a doubt.
    """
    if file.format > FORMAT:
        raise NewerSchemaError(f"A newer edgemem wrote this memory (format {file.format}); update edgemem.")
    memory, problems = JsonMemory(doubtful_below=doubtful_below), []

    def attempt(what: str, work: Callable[[], None]) -> None:
        try:
            work()
        except (msgspec.ValidationError, EdgememError) as error:
            problems.append(f"{what}: {error}")

    def take(name: str, entry: Any, kind: type[T], work: Callable[[T], None]) -> None:
        work(msgspec.convert(entry, kind))
        unknown = sorted(set(entry) - set(kind.__annotations__))
        if unknown:
            problems.append(f"{name} has {unknown[0]!r}, which means nothing here")

    def each(entries: list[Any], kind: type[T], what: str, work: Callable[[T], None]) -> None:
        for number, entry in enumerate(entries, start=1):
            name = f"{what} {number}"
            attempt(name, partial(take, name, entry, kind, work))

    def date(when: _When | None) -> int:
        if when is None:
            return clock.tick()
        tick = _tick(when)
        # One slip of the hand must not push the clock, and with it all that is recorded from now on.
        if tick / 1e6 > clock.now() + _TEN_YEARS:
            raise InvalidInputError(f"{when} has not come yet; mend the year, or the robot's clock.")
        clock.witness(tick)
        return tick

    said: list[tuple[int, _FactEntry]] = []

    def learn(entry: _FactEntry) -> None:
        # What somebody adds without a time was learnt now, after everything else.
        said.append((0 if entry.recorded_at is None else date(entry.recorded_at), entry))

    each(_from_edgevox(file.facts), _FactEntry, "fact", learn)
    used: set[int] = set()
    dated: list[tuple[int, _FactEntry]] = []
    for given, entry in said:
        tick = given if given > 0 else clock.tick()
        while tick in used:  # an entry that was copied has the time of its model
            tick += 1
        used.add(tick)
        dated.append((tick, entry))

    def believe(tick: int, entry: _FactEntry) -> None:
        memory.say(entry.scope, entry.key, _rectangle(entry, tick), tick)

    for tick, entry in sorted(dated, key=lambda pair: pair[0]):
        attempt(f"fact {entry.key[:80]!r}", partial(believe, tick, entry))

    def put(entry: _PreferenceEntry) -> None:
        memory.put_preference(entry.key, entry.value, entry.scope, date(entry.updated_at))

    def append(entry: _EpisodeEntry) -> None:
        memory.append_episode(
            checked_episode(
                entry.kind,
                read_payload(entry.payload),
                entry.outcome,
                tick=date(entry.timestamp),
                agent=entry.agent,
                heard=entry.heard,
                level=entry.level or "household",
                owner=entry.owner,
            ),
            0,
        )

    each(file.preferences, _PreferenceEntry, "preference", put)
    each(file.episodes, _EpisodeEntry, "episode", append)
    return memory, problems


def _rectangle(entry: _FactEntry, tick: int) -> Rectangle:
    return checked_fact(
        entry.key,
        entry.value,
        scope=entry.scope,
        source=entry.source,
        valid_from=tick / 1e6 if entry.valid_from is None else _seconds(entry.valid_from),
        valid_to=None if entry.valid_to is None else _seconds(entry.valid_to),
        heard=entry.heard,
        # What is not there has no owner: the level only matters for values.
        level="shared" if entry.value is None else entry.level,
        owner=entry.owner,
    )._replace(badly=entry.heard_badly)


def _fact_entry(scope: str, key: str, said: Rectangle) -> _FactEntry:
    recorded = said.id / 1e6
    level, owner = LEVELS[said.level], said.owner
    meant = (level, owner) == level_of_scope(scope) or said.value is None
    return _FactEntry(
        key=key,
        value=said.value,
        scope=scope,
        source=said.source,
        recorded_at=_when(recorded),
        valid_from=None if said.valid_from == recorded else _when(said.valid_from),
        valid_to=None if said.valid_to is None else _when(said.valid_to),
        heard_badly=said.badly if said.heard[2] is not None else None,
        level=None if meant else level,
        owner=None if meant else owner,
        heard=heard_of(said.heard),
    )


def _episode_entry(episode: Episode) -> _EpisodeEntry:
    return _EpisodeEntry(
        kind=episode.kind,
        payload=episode.payload,
        outcome=episode.outcome,
        timestamp=_when(episode.timestamp),
        agent=episode.agent,
        level=None if episode.level == "household" else episode.level,
        owner=episode.owner,
        heard=episode.heard,
    )


def _from_edgevox(entries: list[Any]) -> list[Any]:
    """Return entries as we write them; EdgeVox knows one time of a fact, and writes an end into the fact itself."""
    superseded = {entry.get("supersedes") for entry in entries if isinstance(entry, dict)} - {None}
    found: list[Any] = []
    for entry in entries:
        if not isinstance(entry, dict) or "updated_at" not in entry or "recorded_at" in entry:
            found.append(entry)
            continue
        named = {name: entry[name] for name in ("key", "value", "scope", "source") if name in entry}
        begun = entry.get("valid_from") or entry["updated_at"]
        found.append({**named, "recorded_at": begun, "valid_from": begun})
        ended = entry.get("invalidated_at") or entry.get("valid_to")
        if ended is not None and entry.get("id") not in superseded:
            found.append({**named, "value": None, "source": "", "recorded_at": ended})
    return found


def _seconds(when: _When) -> float:
    return _tick(when) / 1e6 if isinstance(when, str) else when


def _tick(when: _When) -> int:
    if isinstance(when, str):
        try:
            date = datetime.datetime.fromisoformat(when.strip().upper().replace("Z", "+00:00"))
        except ValueError as error:
            raise InvalidInputError(
                f"{when!r:.80} is no time; write 2026-01-31 or 2026-01-31T15:30Z."
            ) from error
        return (
            (date if date.tzinfo else date.replace(tzinfo=datetime.timezone.utc)) - _EPOCH
        ) // _MICROSECOND
    return round(when * 1e6)


def _when(seconds: float) -> _When:
    """Return a time as a date, if that says exactly the same."""
    try:
        date = (_EPOCH + round(seconds * 1e6) * _MICROSECOND).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return seconds
    return date if _seconds(date) == seconds else seconds
