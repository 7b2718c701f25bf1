"""Routines: talk and calls of tools at the same time of day on three days or more, counted within one readership.

Utterances belong together by a mark: a call of a tool with its arguments, or a word with content in short talk. A later one at that time
joins a routine, and its time follows; a mark that comes at another time alone moves there, and a routine without use for half a year goes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from itertools import count, groupby
from operator import itemgetter
from statistics import median_low
from typing import TYPE_CHECKING

import msgspec

from edgemem.clock import local
from edgemem.context.messages import tool_calls
from edgemem.learn.learning import cursor_of, move_cursor
from edgemem.learn.reflections import (
    MOST_SOURCES,
    SOURCE,
    Readership,
    Reflection,
    drop_reflections,
    put_reflection,
    reflection_id,
)
from edgemem.recall.text.analyse import analyse
from edgemem.records import MEMORY_TOOLS
from edgemem.scopes import name_key
from edgemem.session.arguments import call_of
from edgemem.store.messages import extra_of
from edgemem.store.pending_erasures import MOVE, last_forgotten

if TYPE_CHECKING:
    from edgemem.config import LearnerName, Settings
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction

LEAST_DAYS = 3
"""Days that make a routine."""
TOLERANCE = 20
"""Minutes before and after the time of a routine within which talk is a part of it."""
UNUSED_S = 182 * 86400.0
"""Seconds without it after which a routine is none."""
_DAY, _WEEK = 1440, 7  # minutes; days
_AT_ONCE = 32  # messages of a step; another one writes a routine
_SINGLE = 64  # the newest utterances with a mark, outside of routines, that a new one is compared with
_RECENT = 9  # days that tell the time of a routine
_MOST_CHARS, _MOST_WORDS = 300, 4  # longer talk has words in common by chance
_SHOWN_CHARS = 80
_MOSTLY = 0.85  # of the days are of one kind: more than five of six
_SAID = """
  select m.id, m.content, t.level, t.owner, t.speaker, ifnull(t.event_time, t.recorded / 1e6), x.content, x.extra
  from messages m
  cross join turns t on t.session_id = m.session_id and t.n = m.turn and t.utterance = m.id
  left join messages x on t.answer = t.level and x.id between t.first_message and t.last_message
    and +x.session_id = t.session_id and +x.turn = t.n and +x.role = 'assistant' and x.extra is not null and x.dropped is null
  where m.id > :after and m.id <= :last and m.dropped is null and m.content is not null
    and t.speaker is not null and ifnull(t.asr_confidence >= :doubtful, 1)
  order by m.id, x.id
"""
_LAST = "select max(id) from (select id from messages where id > ? order by id limit ?)"
_KEPT = "select name from stored_thoughts where source = ? and type = 'REFLECTION'"


@dataclass(eq=False)
class Utterance:
    """What somebody said, and the tools that its turn called."""

    id: int
    speaker: str
    text: str
    at: float
    clock: int
    """Minutes of the local calendar."""
    marks: list[str]
    """Calls, then words."""
    is_single: bool = True
    """Whether it is in no routine."""

    def day(self, minute: int) -> int:
        """Return the day to which it belongs for something at a minute: just after midnight it may be the day before."""
        return (self.clock - minute + _DAY // 2) // _DAY

    def minutes_after(self, clock: int) -> int:
        """Return how much later its time of day is than another, the short way round."""
        return (self.clock - clock + _DAY // 2) % _DAY - _DAY // 2


@dataclass(eq=False)
class Routine:
    """The first utterance of each day with a mark at a time of day."""

    name: str
    mark: str
    minute: int
    days: dict[int, Utterance] = field(default_factory=dict)
    last: float = 0.0

    def add(self, utterances: Iterable[Utterance]) -> None:
        """Take utterances in, and follow their time."""
        for utterance in utterances:
            utterance.is_single = False
            self.days.setdefault(utterance.day(self.minute), utterance)
            self.last = max(self.last, utterance.at)
        self.minute = _middle([*self.days.values()][-_RECENT:], self.minute)

    def reflection(self) -> Reflection:
        """Return the sentence, in words that are usual on the days that it has an edge to."""
        when, days = _habit(sorted(self.days))
        said = [self.days[day] for day in reversed(days)]
        shown = said[:MOST_SOURCES]
        texts = Counter(utterance.text for utterance in shown)
        text = max(texts, key=lambda text: (texts[text], -len(text)))[:_SHOWN_CHARS].strip(" .!?,;:")
        quoted = f'"{text}"{" or the like" if len(texts) > 1 else ""}'
        speakers = {name_key(utterance.speaker) for utterance in shown}
        who = f"{shown[0].speaker} says {quoted}" if len(speakers) == 1 else f"{quoted} is said"
        minute, last = (self.minute + 2) // 5 * 5 % _DAY, date.fromordinal(days[-1])
        time = f"{minute // 60:02}:{minute % 60:02} {when}"
        essence = f"{who} at {time} ({len(days)} times, last on {last.day} {last:%B})"
        more = {"minute": minute, "days": when, "count": len(days)}
        return Reflection(self.name, essence, tuple(f"turn:{one.id}" for one in shown), said[-1].at, more)


class _Said:
    """Utterances that the same people may read."""

    def __init__(self) -> None:
        self.routines: dict[str, Routine] = {}
        self._singles = defaultdict[str, list[Utterance]](list)

    def add(self, utterance: Utterance) -> list[str]:
        """Take an utterance in; return the names of the routines that it changes or ends."""
        oldest = utterance.at - UNUSED_S
        changed = [name for name, routine in self.routines.items() if routine.last < oldest]
        for name in changed:
            del self.routines[name]
        for name, routine in self.routines.items():
            if routine.mark in utterance.marks and abs(utterance.minutes_after(routine.minute)) <= TOLERANCE:
                routine.add([utterance])
                return [*changed, name]
        near = {mark: self._near(utterance, mark) for mark in utterance.marks}
        mark = max(near, key=lambda mark: len(near[mark]), default="")  # of several the first: a call
        if most := near.get(mark):
            known, names = self.routines, (f"{mark} {n}" for n in count())
            name = next(name for name in names if name not in known or known[name].last < most[0].at)
            known[name] = Routine(name, mark, _middle(most, utterance.clock))
            known[name].add(most)
            changed.append(name)
        return changed

    def _near(self, utterance: Utterance, mark: str) -> list[Utterance]:
        """Return the utterances with a mark that make a routine with a new one; none, where as many came at other times."""
        oldest = utterance.at - UNUSED_S
        singles = [one for one in self._singles[mark] if one.is_single and one.at >= oldest][-_SINGLE:]
        singles.append(utterance)
        self._singles[mark] = singles
        near = [one for one in singles if abs(one.minutes_after(utterance.clock)) <= TOLERANCE]
        days = {one.day(_middle(near, utterance.clock)) for one in near}
        return near if len(days) >= max(LEAST_DAYS, len(singles) - len(near) + 1) else []


class RoutineLearner:
    """Counts what people say at the same time, some messages at a time.

    The utterances are kept in memory alone, and read anew by another process, and when something was forgotten or people were moved. The
    cursor is the row until which routines are written; a process that knows another one writes none.
    """

    name: LearnerName = "routines"

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database, self._settings = database, settings
        self._stamp: tuple[int, object, str] = (-1, None, "")
        self._read = 0
        self._said = defaultdict[Readership, _Said](_Said)
        self._changed: dict[tuple[Readership, str], None] = {}

    def step(self, stop: Callable[[], bool]) -> bool:
        """Read some messages, or write a routine; tell whether there was any."""
        if stop():
            return False
        db = self._database
        moved = db.query("select value from meta where key = ?", (MOVE,))
        stamp = last_forgotten(db), moved, self._settings.now.time.zone
        if stamp != self._stamp:
            self._stamp, self._read = stamp, 0
            self._said.clear()
            self._changed.clear()
        cursor, last = cursor_of(db, self.name), db.query(_LAST, (self._read, _AT_ONCE))[0][0]
        if last is not None:
            self._take(last)
        elif self._changed:
            readers, name = next(iter(self._changed))
            if db.write(partial(self._write, readers=readers, name=name, before=cursor)):
                del self._changed[readers, name]
        return last is not None or bool(self._changed)

    def _take(self, last: int) -> None:
        now = self._settings.now
        values = {"after": self._read, "last": last, "doubtful": now.memory.doubtful_below}
        rows = self._database.query(_SAID, values)
        for (number, text, level, owner, speaker, at), messages in groupby(rows, itemgetter(slice(6))):
            moment, readers = local(at, now.time.tzinfo()), Readership.from_rights(level, owner)
            clock = moment.toordinal() * _DAY + moment.hour * 60 + moment.minute
            marks = _marks_of(text[:_MOST_CHARS], (message[-2:] for message in messages))
            changed = self._said[readers].add(Utterance(number, speaker, text, at, clock, marks))
            self._changed |= dict.fromkeys((readers, name) for name in changed)
        self._read = last

    def _write(self, tx: Transaction, *, readers: Readership, name: str, before: int) -> bool:
        """Write a routine, and with the last one take away those that have ended; tell whether it may be written."""
        after = max(before, self._read)  # what the cursor was may be erased
        if last_forgotten(tx) != self._stamp[0] or not move_cursor(tx, self.name, before=before, after=after):
            return False
        if routine := self._said[readers].routines.get(name):
            put_reflection(tx, self.name, readers, routine.reflection())
        if len(self._changed) == 1:
            every = ((readers, name) for readers, said in self._said.items() for name in said.routines)
            live = {reflection_id(self.name, readers, name) for readers, name in every}
            kept = {name for (name,) in tx.query(_KEPT, (f"{SOURCE}{self.name}",))}
            drop_reflections(tx, kept - live)
        self._stamp = last_forgotten(tx), *self._stamp[1:]  # by this: nothing is to be read anew
        return True


def _marks_of(text: str, messages: Iterable[tuple[str | None, str | None]]) -> list[str]:
    """Return the calls of messages, each with its arguments, but the memory's, then the words of a short text."""
    extras = ({"content": content, **(extra_of(extra) or {})} for content, extra in messages)
    calls = [call_of(call) for extra in extras for call in tool_calls({"role": "assistant", **extra})]
    done = [(call.name, call.arguments) for call in calls if call.name and call.name not in MEMORY_TOOLS]
    said = analyse(text)
    words = said.terms() if len(said.tokens) <= _MOST_WORDS else []
    return [*dict.fromkeys([*(msgspec.json.encode(one, order="sorted").decode() for one in done), *words])]


def _middle(utterances: Iterable[Utterance], clock: int) -> int:
    """Return the minute of the day in the middle of utterances that are all near a time."""
    return (clock + median_low(one.minutes_after(clock) for one in utterances)) % _DAY


def _habit(days: list[int]) -> tuple[str, list[int]]:
    """Return on which days something comes, in words, and which of the days those are."""
    weekday = Counter(day % _WEEK for day in days).most_common(1)[0][0]
    name = f"{date.fromordinal(_WEEK + weekday):%A}s"  # both count from a Sunday on
    kinds = {f"on {name}": {weekday}, "on weekdays": {1, 2, 3, 4, 5}, "at weekends": {6, 0}}
    for when, some in kinds.items():
        those = [day for day in days if day % _WEEK in some]
        if len(those) >= max(LEAST_DAYS, _MOSTLY * len(days)):
            return when, those
    return "every day", days
