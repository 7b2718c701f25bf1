"""The times that a question or a statement speaks of, and whether a question asks for a time.

English, German, Spanish, Vietnamese and Chinese; numbers may be words. Each language says what its words may be (see
`lexicon`); words that stand together and tell a time are one phrase in all of them, in whatever order they come,
so no language needs a grammar. A reading may be wrong now and then, and says how sure it is.

"Between Monday and Wednesday" is one time from the begin of its first end to the end of its last one. Which Monday and
which Wednesday is meant they tell together: the second one comes after the first, and what is told of one ("last week")
holds for the other. Only a question is open at one side: who says "since Monday" speaks of Monday, who asks so does not.
"""

from __future__ import annotations

import math
import re
import unicodedata
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from edgemem.languages.words import all_words, bare, templates
from edgemem.preload import Pattern, preloaded
from edgemem.recall.dates.lexicon import date_words, fold
from edgemem.recall.dates.readings import Reading, Today, listed_of, readings_of
from edgemem.recall.dates.tokens import SHIFTED, Cluster, Piece, Token, clusters_in, pieces_of
from edgemem.recall.text.analyse import MAX_CHARS, language_by_letters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import tzinfo

    from edgemem.recall.dates.lexicon import Lexicon


_GAP = 3
"""Words that may stand between a phrase and the one that makes a time of it, or beside those which bind a range."""

Kind = Literal["", "span", "since", "until", "before", "after"]
"""What a time is that has its ends named: `span`, or what tells its one end; empty: one that has none."""


class Phrase(msgspec.Struct, frozen=True):
    """Words that tell a time."""

    begin: int
    end: int
    known: int
    """Words of the whole text that the language knows: of two that read the same words, the one that knows more is right."""
    readings: tuple[Reading, ...]
    kind: Kind = ""
    ends: tuple[Phrase, ...] = ()
    """What names its ends; the one end of an open range has a reading for each of its own."""


@preloaded
def _question() -> Pattern:
    """Return what finds a question in a text without accents: its sign, or a word that it begins with."""
    words = {
        bare(item)
        for code, words in all_words().items()
        if words.spaced
        for item in (*words.dates.begins.items, *(() if words.stop_bare.words else words.questions.items))
    }
    return Pattern(rf"\?|？|^\W*(?:{'|'.join(sorted(words))})\b")


def phrases_in(
    written: str, plain: str, tokens: Sequence[Token], lexicon: Lexicon, day: Today, *, asked: bool
) -> Iterator[Phrase]:
    """Yield the times that a text tells in one language.

    Args:
        written: the text in small letters.
        plain: the same as the lexicon has its words: without accents, if it has none.
        asked: whether one end makes a range, as in "since Monday".
    """
    past = lexicon.speaks_of_past(written, plain)
    pieces, known = pieces_of(tokens, lexicon, day, past=past)
    _part_at_and(pieces)
    if past is None and _question().search(plain):
        past = True  # people ask a memory about what was
    clusters = list(clusters_in(pieces, lexicon))
    phrases = [_phrase(cluster, pieces, known, lexicon, day, past=past) for cluster in clusters]
    at = 0
    while at < len(clusters):
        cluster, phrase = clusters[at], phrases[at]
        begin, opener = _opener(pieces, cluster)
        if at + 1 < len(clusters):
            other = clusters[at + 1]
            end = _end_of_both(written, pieces, cluster, other, opener)
            both = partial(_spanned, cluster.parts, other.parts, lexicon, day, past=past)
            if end:
                ends = tuple(named for named in phrases[at : at + 2] if named is not None)
                readings = _read(both)
                yield from [Phrase(begin, end, known, readings, "span", ends)] if readings else ends
                at += 2
                continue
        at += 1
        if asked and (kind := _open_kind(written, pieces, cluster, opener)):
            behind, closer = _closer(pieces, cluster)
            extent = (cluster.begin, behind) if closer == kind else (begin, cluster.end)
            named = _read(partial(_named, kind, cluster.parts, lexicon, day, past=past))
            if named:
                readings = tuple(_opened(kind, reading, day) for reading in named)
                yield Phrase(
                    *extent, known, readings, kind, (Phrase(cluster.begin, cluster.end, known, named),)
                )
                continue
        if phrase is not None:
            yield phrase


def _phrase(
    cluster: Cluster, pieces: Sequence[Piece], known: int, lexicon: Lexicon, day: Today, *, past: bool | None
) -> Phrase | None:
    """Return the time that one cluster tells, if it tells any."""
    if cluster.parts.keys() == {"number"} or _comes_round(pieces, cluster):
        return None
    if cluster.doubtful and not _prepared(pieces, cluster.first):
        # Whoever knows the language best has the say: April is a name here, whatever it is elsewhere.
        return Phrase(cluster.begin, cluster.end, known, ())
    readings = _read(partial(readings_of, cluster.parts, lexicon, day, past=past))
    return Phrase(cluster.begin, cluster.end, known, readings) if readings else None


def _read(readings: Callable[[], Iterator[Reading]]) -> tuple[Reading, ...]:
    """Return what may be meant; nothing where no calendar has such a day."""
    try:
        return tuple(readings())
    except (ValueError, OverflowError, OSError):
        return ()


def _prepared(pieces: Sequence[Piece], first: int) -> bool:
    """Tell whether a word stands before a phrase that makes a time of a doubtful one: "in may"."""
    for at in range(first - 1, max(first - 1 - _GAP, -1), -1):
        if "before" in pieces[at].label:
            return True
        if "small" not in pieces[at].label:
            return False
    return False


def _comes_round(pieces: Sequence[Piece], cluster: Cluster) -> bool:
    """Tell whether "every Monday" is said, which is no time of its own."""
    if cluster.parts.keys().isdisjoint(SHIFTED) or cluster.first == 0:
        return False
    return "every" in pieces[cluster.first - 1].label


_EVER = 0.0
"""Where all begins that is over before a time: a robot remembers nothing that is older."""

_BETWEEN_GAP = 12
"""Pieces from "between" to its "and"."""
_OPEN: tuple[Kind, ...] = ("since", "until", "before", "after")
_ABSOLUTE = ("day", "date", "span", "year", "period", "shift")
"""Parts that tell by themselves which one is meant."""


@preloaded
def _moved() -> Pattern:
    """Return what tells that something is moved."""
    return templates([item for words in all_words().values() for item in words.dates.moved.items])


def _part_at_and(pieces: Sequence[Piece]) -> None:
    """Have no phrase go on across the "and" of "between … and …"."""
    opened = closing = -1
    for at in range(len(pieces) - 1, -1, -1):  # in Chinese it is said behind both
        if pieces[at].label.get("closes") == "between":
            closing = at
        if _joins(pieces[at], "and") and 0 <= closing - at <= _BETWEEN_GAP:
            pieces[at].label.pop("small", None)
    for at, piece in enumerate(pieces):
        if piece.label.get("opens") == "between":
            opened = at
        elif "stop" in piece.label:
            opened = -1
        elif _joins(piece, "and") and 0 <= opened < at <= opened + _BETWEEN_GAP:
            piece.label.pop("small", None)


def _end_of_both(written: str, pieces: Sequence[Piece], first: Cluster, last: Cluster, opener: str) -> int:
    """Return where a time ends that two phrases are the ends of; 0: they are none."""
    behind, closer = _closer(pieces, last)
    joined = _joiner(pieces[first.last + 1 : last.first])
    spans = {
        "and": "between" in {opener, closer},
        "to": opener in {"", "from", "since", "after"},
        "weak": opener in {"from", "since"},
    }.get(joined, False)
    if not spans or (joined != "and" and _moved().search(written)):
        return 0
    if first.parts.keys() == last.parts.keys() == {"number"}:
        return 0
    if not opener and (first.doubtful or last.doubtful):  # names may be months
        return 0
    return behind if closer == "between" else last.end


def _named(
    kind: Kind, parts: dict[str, Any], lexicon: Lexicon, day: Today, *, past: bool | None
) -> Iterator[Reading]:
    """Yield what the one end of an open range may mean, the likeliest first."""
    if kind == "since":
        readings = list(readings_of(parts, lexicon, day, past=True))
        yield from [reading for reading in readings if reading[0] < day.now] or readings
    else:
        yield from readings_of(parts, lexicon, day, past=past)


def _opened(kind: Kind, named: Reading, day: Today) -> Reading:
    """Return an open range, given its end."""
    begin, end, sure = named
    midnight = day.reading((day.day, day.day + timedelta(1)), 1.0)[1]
    if kind in {"since", "after"}:
        first = begin if kind == "since" else end
        # What is to come after a day has no end, and then the day itself is looked for.
        return (first, midnight, sure) if first < min(day.now, midnight) else named
    last = end if kind == "until" else begin
    return _EVER if last <= midnight else day.now, last, sure


def _spanned(
    first: dict[str, Any], last: dict[str, Any], lexicon: Lexicon, day: Today, *, past: bool | None
) -> Iterator[Reading]:
    first, last = _completed(first, last)
    free, follows = _is_free(first, lexicon, day), _is_free(last, lexicon, day)
    if free and not follows:
        for reading in readings_of(last, lexicon, day, past=past):
            if (start := _before(first, reading[0], lexicon, day)) is not None:
                yield start[0], reading[1], reading[2]
        return
    for reading in readings_of(first, lexicon, day, past=past):
        if not follows:
            ends = (end for end in readings_of(last, lexicon, day, past=past) if end[0] > reading[0])
            yield from ((reading[0], end[1], min(reading[2], end[2])) for end in ends)
            continue
        begin: Reading | None = reading
        end = _after(last, reading[0], lexicon, day)
        if past and free and reading[0] < day.now and end is not None and end[0] > day.now:
            # All of it is over: from Wednesday to Friday, asked on a Thursday.
            begin = _before(first, reading[0], lexicon, day)
            end = None if begin is None else _after(last, begin[0], lexicon, day)
        if begin is not None and end is not None:
            yield begin[0], end[1], reading[2]


def _completed(first: dict[str, Any], last: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both ends, each with what is told of the other alone: the 3rd to the 5th of May, March and May 2023."""
    if first.keys() <= {"number", "month_day"} and "month" in last:
        first = {"month": last["month"], **first}
    if last.keys() <= {"number", "month_day"} and "month" in first:
        last = {"month": first["month"], **last}
    whole: dict[str, Any] = {kind: last[kind] for kind in ("year", "period") if kind in last}
    if whole and len(last) > len(whole) and first.keys().isdisjoint(_ABSOLUTE):
        first = {**first, **whole}
    return first, last


def _is_free(parts: dict[str, Any], lexicon: Lexicon, day: Today) -> bool:
    """Tell whether an end may be one of many: Monday, but not last Monday."""
    return parts.keys().isdisjoint(_ABSOLUTE) and listed_of(parts, day.day, lexicon) is not None


def _near(parts: dict[str, Any], at: float, lexicon: Lexicon, day: Today) -> list[Reading]:
    """Return all that an end may be around a moment, in order of time."""
    around = datetime.fromtimestamp(at, day.zone).date()
    listed = listed_of(parts, around, lexicon) or []
    return [day.reading(days, 1.0, parts.get("part")) for days in sorted(listed)]


def _before(parts: dict[str, Any], at: float, lexicon: Lexicon, day: Today) -> Reading | None:
    return next((reading for reading in _near(parts, at, lexicon, day)[::-1] if reading[0] < at), None)


def _after(parts: dict[str, Any], at: float, lexicon: Lexicon, day: Today) -> Reading | None:
    return next((reading for reading in _near(parts, at, lexicon, day) if reading[0] > at), None)


def _open_kind(written: str, pieces: Sequence[Piece], cluster: Cluster, opener: str) -> Kind:
    """Return the kind of an open range with this end alone; empty: there is none."""
    if cluster.parts.keys() == {"number"}:
        return ""
    _, closer = _closer(pieces, cluster)
    for kind in _OPEN:
        if closer == kind:
            return kind
    # After Monday's meeting is on Monday.
    owned = written[cluster.end - 2 : cluster.end] in {"'s", "’s"}
    return next((kind for kind in _OPEN if opener == kind and not owned), "")


def _opener(pieces: Sequence[Piece], cluster: Cluster) -> tuple[int, str]:
    """Return where a range begins that a word before a phrase opens, and what that says; else where the phrase does."""
    for at in range(cluster.first - 1, max(cluster.first - 2 - _GAP, -1), -1):
        label = pieces[at].label
        if "opens" in label:
            # The day before Christmas is one day.
            counted = at > 0 and "unit" in pieces[at - 1].label and label["opens"] in _OPEN
            return pieces[at].begin, "" if counted else str(label["opens"])
        if label.keys().isdisjoint({"small", "before"}):
            break
    return cluster.begin, ""


def _closer(pieces: Sequence[Piece], cluster: Cluster) -> tuple[int, str]:
    """Return the end of the word that tells behind a phrase what range it ends, and what it says."""
    behind = pieces[cluster.last + 1 : cluster.last + 2]
    return (
        (behind[0].end, str(behind[0].label["closes"])) if behind and "closes" in behind[0].label else (0, "")
    )


def _joiner(between: Sequence[Piece]) -> str:
    """Return what binds two phrases, given what stands between them: `to`, `and`, `weak`, or nothing."""
    joins = [str(piece.label["joins"]) for piece in between if "joins" in piece.label]
    others = (piece.label for piece in between if "joins" not in piece.label)
    if len(between) > _GAP + 1 or any(label.keys().isdisjoint({"small", "before"}) for label in others):
        return ""
    return next((kind for kind in ("to", "and", "weak") if kind in joins), "")


def _joins(piece: Piece, kind: str) -> bool:
    return piece.label.get("joins") == kind


MAX_SPANS = 16

_YEAR_DIGITS = 4

_CJK = "\u3007\u3400-\u9fff"
_FIGURES = r"(?<![\w./-])\d{1,4}([-/.])\d{1,2}\2\d{1,4}(?!\d|[-/.]\d)"
_TOKEN = Pattern(
    rf"(?P<date>{_FIGURES})|(?P<ordinal>\d{{1,2}}(?:st\b|nd\b|rd\b|th\b|[ºª]|\.(?=\s?[^\W\d_])))|(?P<number>\d+(?![A-Za-z\d]))"
    rf"|(?P<word>[{_CJK}]|[^\W\d_{_CJK}]+(?:['’][sS]\b)?)|(?P<comma>[,，、])|(?P<stop>[.;:!?。！？；：…¿¡\n])"
)
_OWNED = re.compile("['’]s$")
_YEAR_IN_SIGNS = Pattern("[零〇一二三四五六七八九]{4}(?=年)")
_SIGNS = str.maketrans("零〇一二三四五六七八九", "00123456789")


class Span(msgspec.Struct, frozen=True):
    """A time that a text speaks of: from `begin` up to `end`, seconds since the epoch."""

    begin: float
    end: float
    sure: float
    """1 where only this can be meant, less where it is one of several readings."""
    text: str
    """The words that name it, as they stand in the text."""
    kind: Kind = ""
    ends: tuple[Span, ...] = ()
    """Of a time that has its ends named, what their words say by themselves: of "since Monday" Monday."""

    def holds(self, moment: float) -> bool:
        """Tell whether a moment lies in it."""
        return self.begin <= moment < self.end


def times_in(text: str, now: float, zone: tzinfo) -> tuple[Span, ...]:
    """Return the times that a question speaks of, in their order there; of one time, the likeliest reading first.

    Args:
        text: anything at all; of a very long one the end counts.
        now: when it was said, seconds since the epoch.
        zone: where: a day begins there at midnight.
    """
    return _times(text, now, zone, asked=True)


def _times(text: str, now: float, zone: tzinfo, *, asked: bool) -> tuple[Span, ...]:
    text = _composed(text[-MAX_CHARS:])
    matches = list(_TOKEN.finditer(text))
    tokens = [
        Token(str(match.lastgroup), fold(_OWNED.sub("", match[0])), match.start(), match.end())
        for match in matches
    ]
    known, words = date_words(), {token.word for token in tokens}
    dated = any(token.kind == "date" for token in tokens)
    years = any(token.kind == "number" and len(token.word) == _YEAR_DIGITS for token in tokens)
    if not (dated or years) and known.anchors.isdisjoint(words):
        return ()
    try:
        seen_from = Today(now, zone, datetime.fromtimestamp(now, zone).date())
    except (ValueError, OverflowError, OSError):
        return ()
    written, plain = text.casefold(), fold(text)
    if accented := known.accented.get(language_by_letters(written)):
        spelled = [
            Token(token.kind, text[token.begin : token.end].casefold(), token.begin, token.end)
            for token in tokens
        ]
        return tuple(
            _spans(text, list(phrases_in(written, written, spelled, accented, seen_from, asked=asked)))
        )
    phrases: list[Phrase] = []
    for lexicon in known.lexicons.values():
        # Figures are the same in all languages, but a word of any may stand before them.
        if dated or (years and lexicon.spaced) or not lexicon.anchors.isdisjoint(words):
            phrases += phrases_in(written, plain, tokens, lexicon, seen_from, asked=asked)
    return tuple(_spans(text, phrases))


def mentions(text: str, at: float, zone: tzinfo) -> tuple[Span, ...]:
    """Return the times that a statement speaks of, for an index: one reading of each, where it is likely enough."""
    best: dict[str, Span] = {}
    for span in _times(text, at, zone, asked=False):
        # A text that tells from when to when speaks of both ends.
        for named in (span, *span.ends):
            best.setdefault(named.text, named)
    return tuple(best.values())


def asks_when(text: str) -> bool:
    """Tell whether a question asks for a time."""
    text = _composed(text[-MAX_CHARS:])
    known = date_words()
    plain = " ".join(re.findall(r"\w+", fold(text)))
    return bool(
        known.asks.search(plain) or (not text.isascii() and known.asks_accented.search(text.casefold()))
    )


def _composed(text: str) -> str:
    if text.isascii():
        return text
    text = unicodedata.normalize("NFC", text)[-MAX_CHARS:]
    return _YEAR_IN_SIGNS.sub(lambda year: year[0].translate(_SIGNS), text)


def _spans(text: str, phrases: Sequence[Phrase]) -> Iterator[Span]:
    """Yield each time once; where two languages read the same words, the one that knows more words of the text counts."""
    taken: list[Phrase] = []
    for phrase in sorted(phrases, key=lambda item: (-item.known, item.begin - item.end)):
        if all(phrase.end <= other.begin or phrase.begin >= other.end for other in taken):
            taken.append(phrase)
    count = 0
    for phrase in sorted(taken, key=lambda item: item.begin):
        for n, (begin, end, sure) in enumerate(phrase.readings):
            if count < MAX_SPANS and math.isfinite(begin) and math.isfinite(end):
                count += 1
                ends = tuple(
                    Span(*named.readings[min(n, len(named.readings) - 1)], text[named.begin : named.end])
                    for named in phrase.ends
                    if named.readings
                )
                yield Span(begin, end, sure, text[phrase.begin : phrase.end], phrase.kind, ends)
