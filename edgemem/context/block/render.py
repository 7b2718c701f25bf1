"""Rendering: the line of a message, an episode or a note in a block, with its speaker and day.

Where not everything fits, a long message is told in an excerpt, a short one whole or not at all. A speaker first says what a
message is about, in the words of a later question, and then what there is to know of it. So an excerpt begins with the sentence
that has most words of the question and goes on from there; `…` marks a gap. Text without full stops is cut by words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, tzinfo
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import msgspec

from edgemem.clock import local
from edgemem.context.sentences import split_sentences
from edgemem.fence import BULLET, clean
from edgemem.languages.words import all_words
from edgemem.recall.search.selection import TOLD_HERE
from edgemem.recall.text.analyse import Analysis, language_in, terms
from edgemem.recall.text.phrases import asks_when, days_in, mentions
from edgemem.records import EXCERPT_SUFFIX, BlockLine, Subject

if TYPE_CHECKING:
    from edgemem.records import Recalled

IN_A_LINE_ABOVE = "(merged with the line above)"
"""Shown to an operator for an empty line: several private values that were erased share one."""


class VisibleLines(dict[str, BlockLine]):
    """The lines of a prompt, by item id, oldest first; never changed once it is made."""

    @cached_property
    def newest(self) -> dict[Subject, BlockLine]:
        """The newest line of each key."""
        return {about: item for item in self.values() if (about := item.subject) is not None}

    @cached_property
    def valued(self) -> frozenset[str]:
        """The ids of lines that give a key its value."""
        return frozenset(name for name, item in self.items() if item.subject is not None)

    @cached_property
    def others(self) -> frozenset[str]:
        """The ids of all other lines."""
        return frozenset(self).difference(self.valued)


LINE_CHARS = 240
"""A recalled item longer than this is cut where nobody shortens it; the whole of it stays retrievable."""

LIST_CHARS = 1200
"""A list is told whole, since who adds an item must know the others: up to some 300 tokens, beside those of a block."""

SHORT_CHARS = 160
"""A message of no more characters is told whole or not at all (chosen as `tests/lab/tuning.md` says)."""

MOST_CHARS = 2000
"""Characters of a text that an excerpt is made of."""

_MOST_OF_ONE = 2 * LINE_CHARS  # characters of one item, however much room there is

GAP = "…"

BADLY = " (heard badly)"
"""Behind whoever said it, or behind a fact: the speech recogniser doubted it."""

_ENDLESS_CHARS = 120  # a longer sentence without an end mark is more than one
_CLAUSE = re.compile(r"\S.{0,59}(?!\S)|\S.{0,59}", re.DOTALL)
"""About as much of it as a clause; cut between two words, where there are any."""

_A_YEAR_S = 300 * 86_400.0  # from then on a day is said with its year


DayForm = Literal["whole", "short", "short with year", "whole with weekday"]
"""How a day is written, in the order of the language files."""


class Today(NamedTuple):
    """When, where and in which language lines are said."""

    now: float | None = None
    """Seconds since the epoch; None: no day is said with its year."""
    zone: tzinfo | None = None
    """None: this machine's."""
    language: str = "en"
    """The conversation's; where it is English, as too few words are, each text's own counts."""


HERE = Today()


class Excerpt(NamedTuple):
    """Consecutive sentences of a text, perhaps with its last one."""

    source: str
    spans: tuple[tuple[int, int], ...]
    """Where each sentence of the text begins and ends."""
    first: int = 0
    end: int = 1
    """The number of the first sentence behind them."""
    last: int = 0  # 1: the last sentence too; between them some are left out

    @property
    def is_whole(self) -> bool:
        """Return whether nothing was left out."""
        return self.end - self.first + self.last == len(self.spans)

    @property
    def text(self) -> str:
        """Return the text, with a mark at each gap."""
        if self.is_whole:
            return self.source
        text = self.source[self.spans[self.first][0] : self.spans[self.end - 1][1]]
        last = f" {self.source[slice(*self.spans[-1])]}" if self.last else ""
        return f"{GAP * (self.first > 0)}{text}{GAP * (self.end < len(self.spans))}{last}"

    def longer(self) -> Iterator[Excerpt]:
        """Yield this excerpt with the last sentence, with the sentence behind it, and with the one before it.

        What a story comes to, and what corrects it, stands at its end. No clause of a sentence is passed over.
        """
        left = len(self.spans) - self.end - self.last
        if left > 1 and not self.last and not self.source[: self.spans[-1][0]].rstrip()[-1:].isalnum():
            yield self._replace(last=1)
        if left:
            yield self._replace(end=self.end + 1) if left > 1 else self._replace(end=len(self.spans), last=0)
        if self.first > 0:
            yield self._replace(first=self.first - 1)


def excerpt(text: str, asked: frozenset[str], *, said_at: float | None = None) -> Excerpt:
    """Return the sentence of a text that has most of the question's stems.

    For a question that asks when, `said_at` is when the text was said, in seconds since the epoch: then the excerpt goes on to the
    nearest sentence that names a time.
    """
    text = text[:MOST_CHARS]
    spans: list[tuple[int, int]] = []
    end = 0
    for sentence in split_sentences(text):
        start = text.index(sentence, end)
        end = start + len(sentence)
        if len(sentence) > _ENDLESS_CHARS and sentence[-1].isalnum():
            spans += (part.span() for part in _CLAUSE.finditer(text, start, end))
        else:
            spans.append((start, end))
    if not spans:
        return Excerpt(text, ((0, len(text)),))
    best = max(range(len(spans)), key=lambda n: len(asked.intersection(terms(text[slice(*spans[n])]))))
    timed = [
        n
        for n, span in enumerate(spans)
        if said_at is not None and mentions(text[slice(*span)], said_at, None)
    ]
    nearest = min(timed, key=lambda n: abs(n - best), default=best)
    return Excerpt(text, tuple(spans), min(best, nearest), max(best, nearest) + 1)


def line_text(item: Recalled, today: Today = HERE) -> str:
    """Return the line of a whole item, without its bullet."""
    text = _item_with_days(item, today).text
    text = f"{item.kind}: {text}" if item.kind in ("note", "summary") else text
    most = LIST_CHARS if item.named_list else LINE_CHARS
    return clean(f"{_lead(item, _day(item, today))}{text}", max_chars=most)


def fitting(
    lines: Sequence[BlockLine],
    items: Mapping[str, Recalled],
    *,
    question: Analysis,
    room: float,
    count: Callable[[Sequence[BlockLine]], int],
    today: Today = HERE,
) -> list[BlockLine]:
    """Return those lines that fit, best first: long turns in an excerpt.

    Args:
        lines: of items that are not facts, best first; `items` has them by the lines' ids.
        question: chooses the excerpt of a long turn.
        room: tokens of the whole block, as `count` counts it with some lines.
    """
    recalled = [_item_with_days(items[line.id], today) for line in lines]
    asked, dated = asked_for(question, recalled), asks_when(question.text)
    kept: dict[int, Excerpt] = {}

    def fits(n: int, part: Excerpt) -> bool:
        if (
            len(part.text) > _MOST_OF_ONE
            or count(_rendered(lines, recalled, {**kept, n: part}, today)) > room
        ):
            return False
        kept[n] = part
        return True

    for n, (line, item) in enumerate(zip(lines, recalled, strict=True)):
        if item.kind == "turn" and len(item.text) > SHORT_CHARS:
            moments = (item.event_time or item.recorded_at, None) if dated else (None,)
            any(fits(n, excerpt(item.text, asked, said_at=at)) for at in moments)
        else:
            text = item.text if item.kind == "turn" else line.line
            fits(n, Excerpt(text, ((0, len(text)),)))
    for n in tuple(kept):
        while any(fits(n, longer) for longer in kept[n].longer()):
            pass
    return _rendered(lines, recalled, kept, today)


def asked_for(question: Analysis, items: Sequence[Recalled]) -> frozenset[str]:
    """Return the stems of a question, without the names of those who speak in the items: each line bears one."""
    names = {stem for item in items for stem in terms(item.speaker or "")}
    return frozenset(question.terms()).difference(names)


def day_of(seconds: float, today: Today = HERE, *, text: str = "") -> str:
    """Return a short date such as `2 Nov`, to be told with a text; with its year where that is not plain from `today`."""
    if seconds <= 0:
        return ""
    is_plain = today.now is None or abs(today.now - seconds) < _A_YEAR_S
    return day_text(local(seconds, today.zone), "short" if is_plain else "short with year", today, text)


def day_text(day: date, form: DayForm, today: Today = HERE, text: str = "") -> str:
    """Return a day as it is written in the language of the conversation, or of a text."""
    words = all_words()
    language = language_in(text) if today.language == "en" else today.language
    dates = words.get(language, words["en"]).dates
    month = dates.words["month"].split(",")[day.month - 1].split("/")[0].strip()
    weekday = dates.words["weekday"].split(",")[day.weekday()].split("/")[0].strip()
    written = dates.forms["written"][get_args(DayForm).index(form)]
    return written.format(
        nth=day.day, number=day.month, month=month, Month=month.title(), weekday=weekday,
        Weekday=weekday.title(), year=day.year,
    )  # fmt: skip


def told_as_chain(name: str, values: Sequence[tuple[str, float]], today: Today = HERE) -> str:
    """Return the values that a thing has had, the newest first, each given with since when: old ones are told with until when."""
    since, *ends = (day_of(at, today, text=f"{name}: {values[0][0]}") for _, at in values)
    until = (f"{value} (until {end})" for (value, _), end in zip(values[1:], (since, *ends), strict=False))
    before = ", ".join(until)
    return f"{name}: {values[0][0]} (since {since}){f', before: {before}' if before else ''}"


def with_days(text: str, at: float, today: Today = HERE, *, lead: bool = False) -> str:
    """Return a text said at a time with each day that its words surely mean: Friday [4 December].

    `lead`: the line begins with the day when it was said, so "today" needs none.
    """
    if at <= 0:
        return text
    told = {local(at, today.zone).date()} if lead else set()
    pieces, end = [], 0
    for place, span in days_in(text, at, today.zone):
        day = local(span.begin, today.zone)
        if day.date() not in told:
            told.add(day.date())
            pieces.append(f"{text[end:place]} [{day_text(day, 'whole', today, text)}]")
            end = place
    return "".join((*pieces, text[end:]))


def _item_with_days(item: Recalled, today: Today) -> Recalled:
    at, lead = item.event_time or item.recorded_at, item.kind != "note"
    return msgspec.structs.replace(item, text=with_days(item.text, at, today, lead=lead))


def _lead(item: Recalled, day: str) -> str:
    """Return speaker and day in as few tokens as tell them: `Ann 7 May: `."""
    if item.kind == "note" or TOLD_HERE in item.metadata:  # such a sentence bears the days of its messages
        return ""
    if item.kind != "turn":
        return f"{day} " if day else ""
    badly = BADLY if item.heard_badly else ""
    return f"{_who(item)} {day}{badly}: " if day else f"{_who(item)}{badly}: "


def _who(item: Recalled) -> str:
    return item.speaker or ("you" if item.source == "assistant" else "somebody")


def _day(item: Recalled, today: Today) -> str:
    return day_of(item.event_time or item.recorded_at, today, text=item.text)


def _rendered(
    lines: Sequence[BlockLine], items: Sequence[Recalled], kept: Mapping[int, Excerpt], today: Today
) -> list[BlockLine]:
    """Return the lines, with excerpts by number in `kept`."""
    out = []
    for n, part in kept.items():
        line, item, text = lines[n], items[n], part.text
        if item.kind == "turn":
            text = f"{BULLET}{_lead(item, _day(item, today))}{text}"
        name = line.id if part.is_whole else line.id + EXCERPT_SUFFIX
        out.append(BlockLine(name, clean(text, max_chars=2 * _MOST_OF_ONE), line.level, line.owner))
    return out
