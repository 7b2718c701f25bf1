"""Upcoming: appointments, goals and reminders whose time is still to come, and what is due.

A fact is one by the day in its words, as of when it was said, or by `at` in its metadata, a local day or day and time as
`2026-05-14T14:00`, which learning writes and a program may. It is closed when it is retracted, corrected or forgotten, and over with its day.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.clock import local
from edgemem.context.block.delta import lines_for
from edgemem.context.block.render import Today, VisibleLines
from edgemem.fence import BULLET
from edgemem.session.memory_block import TODAY
from edgemem.store.thoughts import record_of

if TYPE_CHECKING:
    from datetime import tzinfo

    from edgemem.clock import Clock
    from edgemem.config import Settings
    from edgemem.recall.recall import Recall
    from edgemem.records import BlockLine, Reader, Recalled
    from edgemem.scopes import Level
    from edgemem.store.db.transaction import Transaction
    from edgemem.store.memory_store import SQLiteMemoryStore

AT = "at"
"""The day, or day and time, of an appointment, in the metadata of a fact."""
_MARKED = "select subject, metadata from marks where instr(metadata, '\"at\":') and subject glob 'fact:*'"
_DUE = "upcoming:due"
_AHEAD_S = 30 * 86400.0
_MOST_TODAY, _SHIFT_S = 3, 2 * 3600.0
_MORNING = 8  # o'clock: what is of a day alone is due then


class Upcoming(msgspec.Struct, frozen=True):
    """Something that is still to come."""

    id: str
    """As in `memory.why`: `fact:N` or `goal:N`."""
    text: str
    begin: float
    """Seconds since the epoch; of what has no time of day, the midnight before it."""
    end: float
    has_clock: bool
    """Whether its time of day is known."""
    speaker: str | None
    level: Level
    owner: str | None
    aloud: bool
    """False: its text holds a value that is never aloud."""


class Agenda:
    """What is still to come, told by those facts and goals that a reader may know."""

    def __init__(self, store: SQLiteMemoryStore, search: Recall, settings: Settings, clock: Clock) -> None:
        self._store, self._database = store, store.database
        self._search, self._settings, self._clock = search, settings, clock
        self._callbacks: list[Callable[[Upcoming], None]] = []

    def upcoming(self, *, reader: Reader | None = None, until: float | None = None) -> list[Upcoming]:
        """Return what is still to come, the earliest first.

        Args:
            reader: who asks, and who else hears it; None: the operator.
            until: seconds since the epoch; None: of the next 30 days.
        """
        now = self._clock.now()
        coming = self._coming(now, now + _AHEAD_S if until is None else until, reader)
        return [upcoming for _, upcoming in coming]

    def today(self, reader: Reader | None) -> list[BlockLine]:
        """Return lines for what this day brings, at most three, that was not told on the day itself."""
        now, zone = self._clock.now(), self._settings.now.time.tzinfo()
        midnight = datetime.combine(local(now, zone).date(), datetime.min.time(), zone)
        lines = []
        end = (midnight + timedelta(days=1)).timestamp()
        for item, coming in self._coming(now, end, reader):
            # A day that was read in another zone reaches into its neighbour.
            is_today = coming.has_clock or end - coming.begin > _SHIFT_S
            if is_today and (item.event_time or item.recorded_at) < midnight.timestamp():
                told = lines_for([item], visible=VisibleLines({}), today=Today(now, zone))[:1]
                lines += [
                    msgspec.structs.replace(
                        line, id=f"{TODAY}{line.id}", line=f"{BULLET}today: {line.line.removeprefix(BULLET)}"
                    )
                    for line in told
                ]
        return lines[:_MOST_TODAY]

    def on_due(self, callback: Callable[[Upcoming], None]) -> None:
        """Have a function called, in the thread of upkeep, when something is due: at its time, or at eight on its day.

        It is called once for each, also over a restart; what came due while nothing ran is told unless it is over. Look at
        `level`, `owner` and `aloud` before anything is said aloud: nobody knows who listens. One that raises keeps no other from
        being called.
        """
        self._callbacks.append(callback)

    def step(self, _stop: Callable[[], bool]) -> bool:
        """Tell what is due now; this is no work that another step would wait for."""
        if not self._callbacks or self._database.read_only or not self._clock.trust().trusted:
            return False
        now = self._clock.now()
        rows = self._database.query("select value from meta where key = ?", (_DUE,))
        told = min(float(rows[0][0]), now) if rows else now - 86400.0
        due = [
            upcoming for _, upcoming in self._coming(now, now + 1.0, None) if told < _due_at(upcoming) <= now
        ]
        if due:
            self._database.write(
                partial(_note_due, now=now)
            )  # before: what fails is not told again and again
        failures: list[Exception] = []
        for upcoming, callback in product(sorted(due, key=_due_at), self._callbacks):
            try:
                callback(upcoming)
            except Exception as error:  # noqa: BLE001, PERF203 - the others are told; upkeep counts the first failure
                failures.append(error)
        if failures:
            raise failures[0]
        return False

    def wait_s(self) -> float:
        """Return the seconds until something more is due, at most an hour."""
        now, most = self._clock.now(), 3600.0
        if not self._callbacks:
            return most
        times = (_due_at(upcoming) - now for _, upcoming in self._coming(now, now + most, None))
        return min((wait for wait in times if wait > 0), default=most)

    def _coming(self, begin: float, end: float, reader: Reader | None) -> list[tuple[Recalled, Upcoming]]:
        zone = self._settings.now.time.tzinfo()
        times = {
            item.name: (item, span.begin, span.end, False)
            for item, span in self._search.coming(begin, end, reader)
        }
        for subject, metadata in self._database.query(_MARKED):
            times.pop(subject, None)
            if (when := _read_day(msgspec.json.decode(metadata).get(AT), zone)) is None:
                continue
            first, has_clock = when
            # What has a time of day lasts an hour, for all that is known.
            last = first + timedelta(hours=1) if has_clock else first + timedelta(days=1)
            if first.timestamp() < end and last.timestamp() > begin:
                item = self._search.item("fact", (record_of(subject) or ("", 0))[1], reader)
                if item is not None and not item.past:
                    times[subject] = item, first.timestamp(), last.timestamp(), has_clock
        unsaid = self._store.never_aloud()
        coming = []
        for item, begins, ends, clock in times.values():
            whose = item.speaker, item.level, item.owner
            aloud = unsaid.redact(item.text, None, []) == item.text
            coming.append((item, Upcoming(item.thought_id, item.text, begins, ends, clock, *whose, aloud)))
        return sorted(coming, key=lambda pair: (pair[1].begin, pair[1].id))


def _due_at(upcoming: Upcoming) -> float:
    return upcoming.begin if upcoming.has_clock else upcoming.begin + _MORNING * 3600.0


def _read_day(text: Any, zone: tzinfo | None) -> tuple[datetime, bool] | None:
    """Return a local day, or day and time, and which of them it is; None: it is neither."""
    try:
        at = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return at.replace(tzinfo=at.tzinfo or zone).astimezone(zone), "T" in text


def _note_due(tx: Transaction, now: float) -> None:
    tx.execute("insert or replace into meta values (?, ?)", (_DUE, now))
