"""Routines: what people want at the same time of day, on three days or more, counted for each person within one readership.

Two wants are the same if they called a tool with the same arguments, or if the words of one that say what it is about are among those of
the other, and one does not turn on what the other turns off. What comes later at that time joins a routine, and its time follows; one
that comes at another time alone moves there, and one that did not come for half a year goes.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date
from functools import cache, lru_cache, partial
from statistics import median_low
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.clock import local
from edgemem.context.messages import tool_calls
from edgemem.languages.words import Items, Templates, WordSet, all_words, bare, small
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
from edgemem.recall.text.analyse import asks, language_in, plain_words, sentences_of, stem
from edgemem.records import MEMORY_TOOLS
from edgemem.scopes import name_key
from edgemem.session.arguments import call_of
from edgemem.store.messages import extra_of
from edgemem.store.pending_erasures import MOVE, last_forgotten

if TYPE_CHECKING:
    from edgemem.config import Settings
    from edgemem.languages.words import Words
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction

NAME = "routines"
LEAST_DAYS = 3
"""Days that make a routine."""
TOLERANCE = 20
"""Minutes before and after the time of a routine within which a want is a part of it."""
UNUSED_DAYS = 182
"""Days without it after which a routine is none."""
_DAY, _WEEK, _WEEKEND = 1440, 7, (6, 0)  # minutes; days; of a day by its number, in weeks from Sunday on
_AT_ONCE, _WRITTEN_AT_ONCE = 32, 4  # messages, routines of a step
_SINGLE = 128  # the newest wants with a word, outside of routines, that a new one is compared with
_STRAYS = 4  # so many at other times ask for a day more,
_GAP = 4.5  # where no more days than these lie between two; else each does
_RECENT, _WORDINGS = 9, 8  # days that tell the time of a routine; of its wordings those that are compared
_MOST_APART = 2  # words that one of two wants has alone
_MOST_CHARS, _SHOWN_CHARS = 300, 80  # of a want, and in the sentence
_SHORT, _PART = 6, 4  # words of a short clause; letters of a part of a compound
_MOSTLY, _RARELY = 0.8, 1 / 3  # of the days are one weekday; of how often it comes on the other days
_CLAUSE, _SPOKEN = re.compile(r"[,;:]\s|\s[-–—]\s"), re.compile(r"[\w']+")
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


class Wording(NamedTuple):
    """What an utterance says of what somebody wants."""

    is_want: bool | None
    """None: it may be one; False: it states something, or is friendly."""
    about: frozenset[str]
    """Stems of the words that say what it is about."""
    way: int
    """1: on, open or more; -1: the opposite; 0: neither, or both."""


@dataclass(eq=False)
class Want:
    """An utterance that wants something, and the tools that its turn called."""

    id: int
    speaker: str
    text: str
    at: float
    date: int
    """The number of its day in the calendar, and the minute in that day."""
    minute: int
    wording: Wording
    calls: frozenset[str] = frozenset()
    is_single: bool = True
    """Whether it is in no routine."""

    def day(self, minute: int) -> int:
        """Return the day to which it belongs for something at a minute: just after midnight it may be the day before."""
        return self.date + (self.minute - minute - _minutes_after(self.minute, minute)) // _DAY

    def is_same(self, other: Want) -> bool:
        """Tell whether the other wants the same."""
        if self.calls & other.calls:
            return True
        mine, theirs = self.wording.about, other.wording.about
        if self.wording.way * other.wording.way < 0 or not mine & theirs or (mine - theirs and theirs - mine):
            return False
        return len(mine ^ theirs) <= (0 if self.calls and other.calls else _MOST_APART)


@dataclass(eq=False)
class Routine:
    """The first want of each day at a time of day."""

    name: str
    minute: int
    days: dict[int, Want] = field(default_factory=dict)
    wordings: deque[Want] = field(default_factory=lambda: deque(maxlen=_WORDINGS))
    last: float = 0.0

    def add(self, wants: Iterable[Want]) -> None:
        """Take wants in, and follow their time."""
        for want in wants:
            want.is_single = False
            self.days.setdefault(want.day(self.minute), want)
            self.last = max(self.last, want.at)
            if all((want.wording, want.calls) != (other.wording, other.calls) for other in self.wordings):
                self.wordings.append(want)
        recent = [*self.days.values()][-_RECENT:]
        later = median_low(_minutes_after(want.minute, self.minute) for want in recent)
        self.minute = (self.minute + later) % _DAY

    def reflection(self) -> Reflection:
        """Return the sentence, in words that are usual on the days that it has an edge to."""
        when, days = _habit(sorted(self.days))
        wants = [self.days[day] for day in reversed(days)]
        shown = wants[:MOST_SOURCES]
        usual, _ = Counter(want.wording for want in shown).most_common(1)[0]
        text = min((want.text for want in shown if want.wording == usual), key=len)[:_SHOWN_CHARS]
        minute, last = (self.minute + 2) // 5 * 5 % _DAY, date.fromordinal(days[-1])
        asked, speakers = f'"{text.strip(" .!?,;:")}"', {name_key(want.speaker) for want in shown}
        who = f"{shown[0].speaker} asks for {asked}" if len(speakers) == 1 else f"{asked} is asked for"
        essence = (
            f"{who} at {minute // 60:02}:{minute % 60:02} {when}"
            f" ({len(days)} times, last on {last.day} {last:%B})"
        )
        more = {"minute": minute, "days": when, "count": len(days)}
        return Reflection(self.name, essence, tuple(f"turn:{want.id}" for want in shown), wants[-1].at, more)


class _Wants:
    """What is wanted in words that the same people may read."""

    def __init__(self) -> None:
        self.routines: list[Routine] = []
        self.singles = defaultdict[str, list[Want]](list)

    def add(self, want: Want) -> list[Routine]:
        """Take a want in; return the routine that it changes, if there is one."""
        same = [routine for routine in self.routines if any(map(want.is_same, routine.wordings))]
        for routine in same:
            if abs(_minutes_after(want.minute, routine.minute)) <= TOLERANCE:
                routine.add([want])
                return [routine]
        alike = dict[int, Want]()
        for mark in want.wording.about | want.calls:
            newest = (one for one in self.singles[mark][-_SINGLE:] if want.date - one.date <= UNUSED_DAYS)
            single = self.singles[mark] = [one for one in newest if one.is_single]
            alike |= {one.id: one for one in single if want.is_same(one)}
            single.append(want)
        others = [*alike.values()]
        minute, near = _nearest(want, others)
        if not _is_routine(near, minute, strays=1 + len(others) - len(near)):
            return []
        near.sort(key=lambda one: one.id)
        begin = min(one.at for one in near)
        routine = next((one for one in same if one.last < begin), Routine(str(near[0].id), minute))
        if routine not in same:
            self.routines.append(routine)
        routine.minute = minute
        routine.days.clear()
        routine.add(near)
        return [routine]


class RoutineLearner:
    """Counts what people want, some messages at a time.

    The wants are kept in memory alone, and read anew by another process, and when something was forgotten or people were moved. The cursor
    is the row until which routines are written; a process that knows another one writes none.
    """

    name = NAME

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database, self._settings = database, settings
        self._mark: tuple[int, object, str] = (-1, None, "")
        self._read = 0
        self._wants = defaultdict[Readership, _Wants](_Wants)
        self._changed: dict[Routine, Readership] = {}

    def step(self, stop: Callable[[], bool]) -> bool:
        """Read some messages, or write some routines; tell whether there was any."""
        if stop():
            return False
        db = self._database
        moved = db.query("select value from meta where key = ?", (MOVE,))
        mark = last_forgotten(db), moved, self._settings.now.time.zone
        if mark != self._mark:
            self._mark, self._read = mark, 0
            self._wants.clear()
            self._changed.clear()
        cursor, last = cursor_of(db, NAME), db.query(_LAST, (self._read, _AT_ONCE))[0][0]
        if last is not None:
            self._take(last)
        elif self._changed:
            changed = dict([*self._changed.items()][:_WRITTEN_AT_ONCE])
            db.write(partial(self._write, changed=changed, before=cursor))
        return last is not None or bool(self._changed)

    def _take(self, last: int) -> None:
        now = self._settings.now
        values = {"after": self._read, "last": last, "doubtful": now.memory.doubtful_below}
        wants: dict[int, tuple[Readership, Want]] = {}
        for number, text, level, owner, speaker, at, content, extra in self._database.query(_SAID, values):
            if number not in wants:
                moment = local(at, now.time.tzinfo())
                minute, wording = moment.hour * 60 + moment.minute, read_wording(text[:_MOST_CHARS])
                want = Want(number, speaker, " ".join(text.split()), at, moment.toordinal(), minute, wording)
                wants[number] = Readership.of(level, owner), want
            message = {"role": "assistant", "content": content, **(extra_of(extra) or {})}
            wants[number][1].calls |= _calls(message)
        for readers, want in wants.values():
            theirs = self._wants[readers]
            changed = [one for one in theirs.routines if want.at - one.last > UNUSED_DAYS * 86400]
            theirs.routines = [one for one in theirs.routines if one not in changed]
            if want.wording.is_want is not False or want.calls:
                changed += theirs.add(want)
            self._changed |= dict.fromkeys(changed, readers)
        self._read = last

    def _write(self, tx: Transaction, *, changed: dict[Routine, Readership], before: int) -> None:
        """Write some routines, and take away those that have ended."""
        after = max(before, self._read)  # what the cursor was may be erased
        if last_forgotten(tx) != self._mark[0] or not move_cursor(tx, NAME, before=before, after=after):
            return
        for routine, readers in changed.items():
            if routine in self._wants[readers].routines:
                put_reflection(tx, NAME, readers, routine.reflection())
        if len(changed) == len(self._changed):
            live = {
                reflection_id(NAME, readers, one.name)
                for readers, theirs in self._wants.items()
                for one in theirs.routines
            }
            kept = {name for (name,) in tx.query(_KEPT, (f"{SOURCE}{NAME}",))}
            drop_reflections(tx, kept - live)
        forgotten = last_forgotten(tx)  # by this: nothing is to be read anew
        self._mark = forgotten, *self._mark[1:]
        self._changed = {one: readers for one, readers in self._changed.items() if one not in changed}


@lru_cache(maxsize=4096)
def read_wording(text: str) -> Wording:
    """Return what an utterance says of what somebody wants."""
    known, language, rest = _known(), language_in(text), small(text)
    for words in known.languages.values():
        rest = words.hails.pattern.sub(
            " ", words.greetings.pattern.sub(" ", known.chat.pattern.sub(" ", rest))
        )
    clauses = list[tuple[bool | None, list[str]]]()
    for sentence in sentences_of(rest):
        for clause in [sentence] if asks(sentence) else _CLAUSE.split(sentence):
            is_asked, direct = asks(clause) or known.wants.stand_in(clause), clause
            for words in known.languages.values():
                direct = words.please.pattern.sub(" ", direct)
            if spoken := [bare(word) for word in _SPOKEN.findall(direct)]:
                is_opened = spoken[1:2] and spoken[1] in known.words["openers"]
                is_verb = is_opened and known.things.keys().isdisjoint(_roots(spoken[0], language))
                # A verb before an opener says less than what it is done to: walk the dog.
                clauses.append((is_asked or _is_want(spoken), plain_words(direct)[1 if is_verb else 0 :]))
    verdicts = [is_want for is_want, _ in clauses]
    is_want = any(verdicts) or (None if None in verdicts else False)
    every = [word for verdict, words in clauses for word in words if verdict is not False or is_want is False]
    full = [word for word in every if word in known.things or word not in known.empty] or every
    ways = {1 if word in known.words["up"] else -1 for word in every if word in known.turns}
    return Wording(is_want, frozenset(root for word in full for root in _roots(word, language)), sum(ways))


def _is_want(spoken: list[str]) -> bool | None:
    """Tell whether a clause that is no question wants something; None: nobody knows."""
    known, first, second, last = _known(), spoken[0], "".join(spoken[1:2]), spoken[-1]
    verbs, subjects = known.words["verbs"], known.words["subjects"]
    if first in verbs and first not in subjects:
        return True
    if first in subjects or not known.words["states"].isdisjoint(spoken):
        return False
    is_short = len(spoken) <= _SHORT and not known.turns.isdisjoint((first, second, last))
    return True if is_short or second in known.words["openers"] or last in verbs else None


class _Known(NamedTuple):
    """What the files of the languages list under `[routines]`, of all languages together, and without accents."""

    languages: dict[str, Words]
    wants: Templates
    """Phrases of a request,"""
    chat: Templates
    """and friendly ones."""
    words: dict[str, frozenset[str]]
    """Verbs that a request begins or ends with, openers behind any other verb of one, subjects that a statement begins with, and
    states, words that only a statement has; up, for on, open and more, and down."""
    turns: frozenset[str]
    """Both."""
    empty: frozenset[str]
    """All words that do not say what a want is about."""
    things: dict[str, tuple[str, str]]
    """By each word for a thing, and its stem, the first word for it and the language."""


@cache
def _known() -> _Known:
    languages = {code: words for code, words in all_words().items() if words.learning}
    listed = [words.learning["routines"] for words in languages.values()]
    kinds = ("verbs", "openers", "empty", "subjects", "states", "up", "down")
    words = {kind: frozenset().union(*(WordSet(lists[kind]).plain() for lists in listed)) for kind in kinds}
    stop = (words.stop.plain() for words in languages.values())
    turns = words["up"] | words["down"]
    things = {
        form: (plain_words(group)[0], code)
        for code, of in languages.items()
        for group in Items(of.learning["routines"]["same"]).items
        for word in plain_words(group)
        for form in (word, stem(word, code))
    }
    wants, chat = (Templates(",".join(lists[kind] for lists in listed)) for kind in ("wants", "chat"))
    return _Known(
        languages, wants, chat, words, turns, turns.union(words["verbs"], words["empty"], *stop), things
    )


@lru_cache(maxsize=4096)
def _roots(word: str, language: str) -> tuple[str, ...]:
    """Return the thing of a word, else its stem; of one written together with a thing those of both."""
    root, things = stem(word, language), _known().things
    if thing := things.get(word) or things.get(root):
        return thing[:1]
    for part, (first, code) in things.items():
        rest = word.removesuffix(part) if word.endswith(part) else word.removeprefix(part)
        if len(part) >= _PART and _PART <= len(rest) < len(word) and all_words()[code].compounds:
            return first, stem(rest, code)
    return (root,)


def _calls(message: dict[str, Any]) -> frozenset[str]:
    """Return the tools that a message calls, but the memory's, each with its arguments."""
    calls = [call_of(call) for call in tool_calls(message)]
    texts = {call.name: msgspec.json.encode(call.arguments, order="sorted").decode() for call in calls}
    return frozenset(f"{name} {text}" for name, text in texts.items() if name and name not in MEMORY_TOOLS)


def _minutes_after(minute: int, other: int) -> int:
    """Return how much later a time of day is than another, the short way round."""
    return (minute - other + _DAY // 2) % _DAY - _DAY // 2


def _nearest(want: Want, others: list[Want]) -> tuple[int, list[Want]]:
    """Return a want and those of the others that are near it on most days, and their time of day."""
    later = {one: _minutes_after(one.minute, want.minute) for one in (want, *others)}
    begins = [begin for begin in later.values() if -2 * TOLERANCE <= begin <= 0]
    groups = [[one for one in later if begin <= later[one] <= begin + 2 * TOLERANCE] for begin in begins]
    near = max(groups, key=lambda group: len({one.date for one in group}))
    return (want.minute + median_low(later[one] for one in near)) % _DAY, near


def _is_routine(near: list[Want], minute: int, *, strays: int) -> bool:
    """Tell whether wants at a time make a routine, where so many more came at others."""
    days = {one.day(minute) for one in near}
    gap = (max(days) - min(days)) / max(len(days) - 1, 1)
    is_dense = gap <= _GAP or (gap <= 2 * _WEEK and len({day % _WEEK for day in days}) == 1)
    is_wanted = any(one.wording.is_want or one.calls for one in near)
    return is_wanted and len(days) >= max(LEAST_DAYS, LEAST_DAYS - 1 + strays / (_STRAYS if is_dense else 1))


def _habit(days: list[int]) -> tuple[str, list[int]]:
    """Return on which days something comes, in words, and which of the days those are."""
    recent = [day for day in days if day > days[-1] - UNUSED_DAYS] if len(days) > LEAST_DAYS else days
    weekday, count = Counter(day % _WEEK for day in recent).most_common(1)[0]
    if count >= max(LEAST_DAYS, _MOSTLY * len(recent)):
        one = [day for day in days if day % _WEEK == weekday]
        return f"on {date.fromordinal(one[0]):%A}s", one
    every, came = (
        Counter(day % _WEEK in _WEEKEND for day in some)
        for some in (range(recent[0], recent[-1] + 1), recent)
    )
    work, free = (came[is_free] / max(every[is_free], 1) for is_free in (False, True))
    for when, is_free, often, seldom in (
        ("on weekdays", False, work, free),
        ("at weekends", True, free, work),
    ):
        if came[is_free] >= LEAST_DAYS and seldom < _RARELY * often:
            return when, [day for day in days if (day % _WEEK in _WEEKEND) == is_free]
    return "every day", days
