"""Phrases: the times that a text names (`mentions` to store, `times_in` of a question), and whether a question asks for one.

By each language's forms (see `lexicon`), times are found first, then words that bind them. "Between Monday and Wednesday" is one
range: both ends tell which Monday, and the year of one is the other's. Only a question is open at one side: "He has been ill
since Monday" names Monday, "What happened since Monday?" all that followed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.clock import local
from edgemem.preload import Pattern
from edgemem.recall.text.analyse import MAX_CHARS, fold, language_by_letters, language_in, terms
from edgemem.recall.text.calendar import EVEN, FIXED, LIKELY, RECURRING, Calendar, Days, Kind, Range, edge
from edgemem.recall.text.lexicon import lexicons

if TYPE_CHECKING:
    from edgemem.recall.text.lexicon import Lexicon

MAX_RANGES = 16
BEGINNING = 0.0  # the start of an open range such as "before May"
# Slots of a form whose words are some of another slot's.
_ALIASES = {"monthday": "nth", "later": "shift", "weeks": "unit"}
_UNSAID = {"ahead": "week", "stretch": "day"}  # units of forms that may name none
_FEW = 4  # units
_DATED = {"month", "date", "year"}  # parts of a phrase that tell the date themselves
_LONG, _DAYS = {"month", "season"}, {"weekday", "nth"}
_IS = {"'s", "’s"}
_LONGEST_DAY_S = 25 * 3600.0
_CAPITAL_BEFORE, _WORD_AFTER = re.compile(r"[A-ZÀ-Þ][^\W\d_]+\s+$"), re.compile(r"\s+[^\W\d_]+")
_SENTENCE_END = Pattern(r"(?<!\d)[.!?;…]+(?=\s|$)|[。！？；\n]")
_CLAUSE_END = Pattern(r"(?<!\d)[.!?;…,:](?=\s|$)|\s[–—-]\s|[。！？；，：\n]")
_YEAR_IN_SIGNS = Pattern("[零〇一二三四五六七八九]{4}(?=年)")
_SIGNS = str.maketrans("零〇一二三四五六七八九", "00123456789")


class Phrase(msgspec.Struct):
    """Words that name a time, from one character to another."""

    begin: int
    end: int
    parts: dict[str, Any] = {}
    """Values of its words by kind."""
    doubtful: bool = False
    in_name: bool = False
    """Whether the words beside it may make a name of it: Good Friday, the Sunday roast."""
    ranges: tuple[Range, ...] = ()
    """Its readings, likeliest first."""


def times_in(text: str, now: float, zone: tzinfo | None) -> tuple[Range, ...]:
    """Return the times in a question asked at `now` (s since the epoch), in order, each one's likeliest reading first.

    Of a long text the end counts.
    """
    return _times(text, now, zone, asked=True)


def mentions(text: str, at: float, zone: tzinfo | None) -> tuple[Range, ...]:
    """Return a statement's times, for an index: the likeliest readings of each, as of `at`, seconds since the epoch."""
    best: dict[tuple[str, float], Range] = {}
    for span in _times(text, at, zone, asked=False):
        for named in (span, *span.ends):
            first = best.setdefault((named.text, 0.0), named)
            if named.sure == first.sure == EVEN and named.begin != first.begin:
                best[named.text, named.begin] = named
    return tuple(best.values())


def asks_when(text: str) -> bool:
    """Tell whether a question asks for a time."""
    text = _composed(text[-MAX_CHARS:])
    known = lexicons()
    plain = " ".join(re.findall(r"\w+", fold(text)))
    return bool(known.asks.search(plain) or (not text.isascii() and known.asks_accented.search(text.lower())))


def days_in(text: str, at: float, zone: tzinfo | None) -> list[tuple[int, Range]]:
    """Return the days that a statement surely means by other words than their date, each with the place behind its words.

    What comes again each week is no such day.
    """
    if _composed(text[-MAX_CHARS:]) != text:
        return []
    days, phrases = [], _phrases(text, at, zone, asked=False)
    # "Every Monday and Friday": one habit makes the other doubtful.
    habits = any("weekly" in phrase.parts or (phrase.parts and not phrase.ranges) for phrase in phrases)
    # "In a fortnight, on Saturday": not to the day.
    near = any(
        "weekday" in phrase.parts and phrase.ranges[1:] and phrase.ranges[0].sure == EVEN
        for phrase in phrases
    )
    for phrase in phrases:
        parts, first, others = phrase.parts, phrase.ranges[:1], phrase.ranges[1:]
        if phrase.in_name or (habits and "weekday" in parts) or (near and parts.keys() == {"within"}):
            continue
        if not first or not parts or parts.keys() & _DATED or any(span.sure >= EVEN for span in others):
            continue
        said = local(at, zone)
        same_day = ({"weekday": said.weekday(), "part": ""}, {"nth": said.day, "part": ""})
        if {**parts, "part": ""} in same_day:
            continue  # today, or the next?
        if first[0].sure >= LIKELY and not first[0].every and first[0].end - first[0].begin <= _LONGEST_DAY_S:
            days.append((phrase.end, first[0]))
    return days


def _times(text: str, now: float, zone: tzinfo | None, *, asked: bool) -> tuple[Range, ...]:
    phrases = _phrases(text, now, zone, asked=asked)
    return tuple([span for phrase in phrases for span in phrase.ranges][:MAX_RANGES])


def _phrases(text: str, now: float, zone: tzinfo | None, *, asked: bool) -> list[Phrase]:
    """Return the words that name times, in order."""
    text = _composed(text[-MAX_CHARS:])
    known, plain, written = lexicons(), fold(text), text.lower()
    accented = known.accented.get(language_by_letters(written))
    candidates = [accented] if accented else list(known.plain.values())
    if accented and len(written) == len(text):
        plain = written
    candidates = [lexicon for lexicon in candidates if lexicon.anchors.search(plain)]
    if not candidates:
        return []
    try:
        moment = local(now, zone)
    except (ValueError, OverflowError):
        return []
    sentences = [Sentence(text, plain, lexicon, moment, now=now, asked=asked) for lexicon in candidates]
    if len(sentences) > 1:
        # The language that understands most decides; of two, the text's: April is a name in English.
        language = language_in(text)
        sentences.sort(key=lambda sentence: (-sentence.understood, sentence.code != language))
    taken: list[Phrase] = []
    for sentence in sentences:
        for phrase in sentence.phrases():
            if all(phrase.end <= other.begin or phrase.begin >= other.end for other in taken):
                taken.append(phrase)
    return sorted(taken, key=lambda item: item.begin)


def _composed(text: str) -> str:
    if text.isascii():
        return text
    text = unicodedata.normalize("NFC", text)[-MAX_CHARS:]
    return _YEAR_IN_SIGNS.sub(lambda year: year[0].translate(_SIGNS), text)


class Sentence:
    """A text, read in one language at a moment, `now`; `plain` is in the letters of the lexicon."""

    def __init__(
        self, text: str, plain: str, lexicon: Lexicon, moment: datetime, *, now: float, asked: bool
    ) -> None:
        self._text, self._plain, self._now = text, plain, now
        self._lexicon = lexicon
        self._calendar = Calendar(moment.date(), moment.tzinfo, lexicon.whole_weeks)
        self._past = lexicon.tenses(text, plain)[0]
        self._asked, self._requests = asked, asked and not lexicons().begins.search(plain)
        self._named = list(self._name_times())
        self.code = lexicon.code

    @property
    def understood(self) -> int:
        """Count the characters that name a time."""
        return sum(phrase.end - phrase.begin for phrase in self._named)

    def phrases(self) -> list[Phrase]:
        """Return the text's times, each with its ranges, if any; of a question, one end makes a range ("since Monday")."""
        marked = self._plain
        for phrase in self._named:
            if self._asked and "weekly" in phrase.parts:
                phrase.ranges = ()
            if phrase.ranges:
                mark = "\ue000".ljust(phrase.end - phrase.begin, "\ue001")
                marked = f"{marked[: phrase.begin]}{mark}{marked[phrase.end :]}"
        matches = self._lexicon.ranges.finditer(marked)
        bound = [both for match in matches if (both := self._bound(match)) is not None]
        for phrase in self._named:
            if phrase.doubtful and not self._lexicon.prepositions.search(self._plain[: phrase.begin]):
                phrase.ranges = ()
        for phrase in () if self._asked else self._named:
            kinds, readings = phrase.parts.keys(), phrase.ranges
            bare = len(readings) > 1 and kinds & _DAYS and kinds.isdisjoint(_DATED | {"shift"})
            if bare and not self._is_certain(phrase):
                phrase.ranges = tuple(msgspec.structs.replace(span, sure=EVEN) for span in readings)
        return [*bound, *self._named]

    def _name_times(self) -> Iterator[Phrase]:
        for match in self._lexicon.times.finditer(self._plain):
            parts = self._parts(match)
            bare_year = parts.keys() == {"year"} and match[0].isdigit()
            doubtful = bare_year or match[0] in self._lexicon.doubtful
            alone = {"nth"} if any(map(str.isalpha, match[0])) else {"nth", "month"}  # 23.6.
            before = self._plain[: match.start()]
            if "nth" in parts and parts.keys() <= alone and not self._lexicon.before_monthday.search(before):
                continue
            in_name = parts.keys() == {"weekday"} and self._in_name(match)
            phrase = Phrase(*match.span(), parts, doubtful, in_name)
            phrase.ranges = self._ranges(phrase, past=self._past_at(match.start(), parts))
            yield phrase

    def _in_name(self, match: re.Match[str]) -> bool:
        before, after = self._text[: match.start()], self._text[match.end() :]
        if self._lexicon.prepositions.search(self._plain[: match.start()]):
            return False
        capital, noun = _CAPITAL_BEFORE.search(before), _WORD_AFTER.match(after)
        return bool((capital and terms(capital[0])) or (noun and terms(noun[0])))

    def _is_certain(self, phrase: Phrase) -> bool:
        """Tell whether the tense of a day's clause, the word before it and the other times in its sentence leave one reading."""
        known, before = self._lexicon, self._plain[: phrase.begin]
        said, first = self._sentence(phrase.begin), phrase.ranges[0].begin
        rest = self._plain[said]
        if known.either.search(rest) and not known.before_coming.search(before):
            return False
        for other in self._named:
            if said.start <= other.begin < said.stop and (other.ranges or not other.doubtful):
                rest = rest.replace(self._plain[other.begin : other.end], ".")
                if not any(span.begin <= first < span.end for span in other.ranges[:1]):
                    return False
        if known.longer.search(rest) or ("nth" not in phrase.parts and known.before_other.search(before)):
            return False
        clause = self._sentence(phrase.begin, _CLAUSE_END)
        tenses = known.tenses(self._text[clause], self._plain[clause])
        return first > self._now or (tenses == (True, False) and self._text[phrase.end :][:2] not in _IS)

    def _sentence(self, place: int, ends: Pattern = _SENTENCE_END) -> slice:
        """Return where the sentence at a place begins and ends, or its clause."""
        begin = max((end.end() for end in ends.finditer(self._text, 0, place)), default=0)
        end = ends.search(self._text, place)
        return slice(begin, len(self._text) if end is None else end.start())

    def _past_at(self, place: int, parts: dict[str, Any]) -> bool | None:
        """Tell whether the sentence at a place is about the past; None: it has signs of both, or none where it may be either.

        So it is with requests, and with questions for a month or a season: plans are rarely so long.
        """
        if self._lexicon.before_coming.search(self._plain[:place]):
            return False
        said = self._sentence(place)
        past, coming = self._lexicon.tenses(self._text[said], self._plain[said])
        either = self._requests or (self._asked and parts.keys() <= _LONG)
        return None if past == coming and (past or either) else past

    def _parts(self, match: re.Match[str]) -> dict[str, Any]:
        """Return the values of a form's words by kind; none where it names no time."""
        form, parts = "", dict[str, Any]()
        for name, word in match.groupdict().items():
            kind, _, number = name.partition("_")
            if word is None or kind == "sign":
                continue
            if number.startswith("_"):
                form = kind
                continue
            kind = _ALIASES.get(kind, kind)
            value = self._value(name.partition("_")[0], word)
            parts |= value if kind in {"whole", "short"} else {"last" if kind in parts else kind: value}
        if form == "weekly":
            parts["weekly"] = True
        if form in _UNSAID:
            parts.setdefault("unit", _UNSAID[form])
        if "unit" not in parts:
            return parts
        unit, shift = parts.pop("unit"), parts.pop("shift", 0)
        count = parts.pop("count", _FEW if form == "stretch" else 1)
        if (form == "ahead" and self._past and parts.keys().isdisjoint({"weekday", "day"})) or (
            form == "time" and unit == "day"
        ):
            return {}  # "we did it in two weeks" tells a length
        try:
            if form == "ahead":
                within = self._calendar.ahead(count, unit, parts)
            elif form == "ago":
                within = self._calendar.counted(-count, unit)
            elif form == "stretch":
                within = self._calendar.stretch(count * shift, unit)
            else:
                within = self._calendar.period(unit, shift)
        except (ValueError, OverflowError):
            return {}
        return {**parts, "within": within}

    def _value(self, kind: str, word: str) -> Any:
        if kind == "short":
            return dict(zip(("nth", "month"), map(int, re.findall(r"\d+", word)), strict=True))
        known = self._lexicon.values.get(kind, {})
        if kind != "date":
            word = " ".join(re.split(r"[\s-]+", word))
        return known[word] if word in known else word if kind == "date" else int(re.sub(r"\D", "", word))

    def _ranges(self, phrase: Phrase, *, past: bool | None) -> tuple[Range, ...]:
        """Return a phrase's readings; none where no calendar has the day."""
        text, parts = self._text[phrase.begin : phrase.end], phrase.parts
        try:
            if "weekly" in parts:
                return self._calendar.weekly(parts, text)
            if "last" in parts:  # the 3rd to the 5th of May
                starts, stops = self._options(parts), self._options({**parts, "nth": parts["last"]})
                meanings = iter(self._calendar.pairs(starts, stops, past=past))
            else:
                meanings = self._calendar.meanings(parts, past=past)
            if "edge" in parts:
                meanings = ((edge(days, parts["edge"]), sure) for days, sure in meanings)
            return tuple(self._calendar.range(days, sure, text, parts.get("part")) for days, sure in meanings)
        except (ValueError, OverflowError, OSError):
            return ()

    def _options(self, parts: dict[str, Any]) -> list[Days]:
        """Return all days that one end of a range may be, in order of time."""
        if parts.keys().isdisjoint(FIXED) and (listed := self._calendar.occurrences(parts)) is not None:
            return listed
        return sorted(days for days, _ in self._calendar.meanings(parts, past=self._past))

    def _bound(self, match: re.Match[str]) -> Phrase | None:
        """Return what a form binds, if anything."""
        begin, end = match.span()
        ends = [phrase for phrase in self._named if begin <= phrase.begin < end and phrase.ranges]
        kind: Any = str(match.lastgroup).partition("_")[0]
        if len(ends) != (2 if kind == "span" else 1):
            return None
        if kind == "span":
            # "From March to June" is surer than "what did June say to April".
            if (begin, end) == (ends[0].begin, ends[1].end) and any(phrase.doubtful for phrase in ends):
                return None
            return self._closed(ends[0], ends[1], begin, end)
        if kind in {"every", "seldom"}:
            habit = Phrase(begin, end, ends[0].parts)
            if habit.parts.keys().isdisjoint(RECURRING):
                return None
            if kind == "every" and not self._asked and "weekday" in habit.parts:
                habit.parts = {**habit.parts, "weekly": True}
                habit.ranges = self._ranges(habit, past=False)
            return habit
        if kind == "since" and not self._asked:
            ends[0].ranges = self._ranges(ends[0], past=True)[:1]
        # After Monday's meeting is on Monday.
        if not self._asked or kind == "beside" or self._text[end : end + 2] in _IS:
            return None
        ranges = self._ranges(ends[0], past=True) if kind == "since" else ends[0].ranges
        if kind == "since":
            ranges = tuple(span for span in ranges if span.begin < self._now) or ranges
        text = self._text[begin:end]
        return Phrase(begin, end, ranges=tuple(self._opened(kind, span, text) for span in ranges))

    def _closed(self, first: Phrase, last: Phrase, begin: int, end: int) -> Phrase | None:
        """Return the range from one time to another; None where the second is earlier."""
        whole: dict[str, Any] = {kind: last.parts[kind] for kind in ("year", "within") if kind in last.parts}
        start = first.parts
        if len(last.parts) > len(whole) and start.keys().isdisjoint(FIXED):
            start = {**start, **whole}  # March and May 2023
        try:
            pairs = self._calendar.pairs(self._options(start), self._options(last.parts), past=self._past)
            ranges = [self._calendar.range(days, sure, self._text[begin:end]) for days, sure in pairs]
        except (ValueError, OverflowError, OSError):
            return None
        ends = (first.ranges[0], last.ranges[0])
        both = tuple(msgspec.structs.replace(span, kind="span", ends=ends) for span in ranges)
        return Phrase(begin, end, ranges=both) if both else None

    def _opened(self, kind: Kind, named: Range, text: str) -> Range:
        midnight = self._calendar.midnight(self._calendar.period("day", 1)[0])
        if kind in {"since", "after"}:
            first = named.begin if kind == "since" else named.end
            # The future after a day has no end; then the day itself is meant.
            begin, end = (first, midnight) if first < min(self._now, midnight) else (named.begin, named.end)
        else:
            end = named.end if kind == "until" else named.begin
            begin = BEGINNING if end <= midnight else self._now
        return Range(begin, end, named.sure, text, kind, (named,))
