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
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from edgemem.languages.words import all_words, bare, templates
from edgemem.patterns import Pattern
from edgemem.provisions import provided
from edgemem.recall.dates.lexicon import date_words, fold
from edgemem.recall.dates.readings import Reading, Today, listed_of, readings_of, today
from edgemem.recall.dates.tokens import SHIFTED, Cluster, Piece, Token, clusters_in, pieces_of
from edgemem.recall.text.analyse import MAX_CHARS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import tzinfo

    from edgemem.recall.dates.lexicon import Lexicon


Ranges = Literal["asked", "stated", "none"]
"""How "from Monday to Friday" is read: as one time, and "since Monday" as all days since; as one time and both its ends;
as two times."""
_GAP = 3
"""Words that may stand between a phrase and the one that makes a time of it, or beside those which bind a range."""


class Phrase(msgspec.Struct, frozen=True):
    """Words that tell a time."""

    begin: int
    end: int
    known: int
    """Words of the whole text that the language knows: of two that read the same words, the one that knows more is right."""
    readings: tuple[Reading, ...]
    inner: tuple[Phrase, ...] = ()
    """Its ends, if it is a range of which both ends are spoken of, too."""


@provided
def _question() -> Pattern:
    """Return what finds a question in a text without accents: its sign, or a word that it begins with."""
    words = {
        bare(item)
        for code, words in all_words().items()
        if code != "zh"
        for item in (*words.dates.begins.items, *(() if words.stop_bare.words else words.questions.items))
    }
    return Pattern(rf"\?|？|^\W*(?:{'|'.join(sorted(words))})\b")


def phrases_in(
    written: str, plain: str, tokens: Sequence[Token], lexicon: Lexicon, day: Today, *, ranges: Ranges
) -> Iterator[Phrase]:
    """Yield the times that a text tells in one language.

    Args:
        written: the text in small letters.
        plain: the same as the lexicon has its words: without accents, if it has none.
        ranges: how those are read that tell from when to when.
    """
    past = lexicon.speaks_of_past(written, plain)
    pieces, known = pieces_of(tokens, lexicon, day, past=past)
    if ranges != "none":
        _part_at_and(pieces)
    if past is None and _question().search(plain):
        past = True  # people ask a memory about what was
    clusters = list(clusters_in(pieces, lexicon))
    by_cluster = {
        id(cluster): _phrase(cluster, pieces, known, lexicon, day, past=past) for cluster in clusters
    }
    asked = ranges == "asked"
    for extent in _ranges_in(written, pieces, clusters, asked=asked) if ranges != "none" else ():
        if readings := _read(partial(_range_readings, extent, lexicon, day, past=past)):
            ends = [by_cluster.pop(id(end), None) for end in extent.ends]
            # A text that tells from when to when speaks of both ends; who asks so wants all that lies between.
            inner = () if asked else tuple(end for end in ends if end is not None)
            yield Phrase(extent.begin, extent.end, known, readings, inner)
    yield from (phrase for phrase in by_cluster.values() if phrase is not None)


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
_ABSOLUTE = ("day", "date", "span", "year", "period", "shift")
"""Parts that tell by themselves which one is meant."""


class _Range(NamedTuple):
    """A time that has its ends told."""

    kind: str
    """`span`, or what tells its one end: `since`, `until`, `before`, `after`."""
    ends: tuple[Cluster, ...]
    begin: int
    end: int


@provided
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


def _ranges_in(
    written: str, pieces: Sequence[Piece], clusters: Sequence[Cluster], *, asked: bool
) -> list[_Range]:
    """Return the ranges of a text in their order; no phrase is an end of two ranges.

    Args:
        written: the text in small letters.
        asked: whether one end makes a range, as in "since Monday".
    """
    ranges: list[_Range] = []
    moved: bool | None = None
    at = 0
    while at < len(clusters):
        cluster = clusters[at]
        opened, opener = _opener(pieces, cluster)
        begin = cluster.begin if opened is None else pieces[opened].begin
        if at + 1 < len(clusters):
            other = clusters[at + 1]
            closed, closer = _closer(pieces, other)
            joined = _joiner(pieces[cluster.last + 1 : other.first])
            spans = {
                "and": opener == "between" or closer == "between",
                "to": opener in {"", "from", "since", "after"},
                "weak": opener in {"from", "since"},
            }.get(joined, False)
            if spans and joined != "and":
                moved = _moved().search(written) is not None if moved is None else moved
                spans = not moved
            if spans and _is_time(cluster, other, opener):
                end = pieces[closed].end if closed is not None and closer == "between" else other.end
                ranges.append(_Range("span", (cluster, other), begin, end))
                at += 2
                continue
        if asked and (kind := _open_kind(written, pieces, cluster, opened, opener)):
            closed, closer = _closer(pieces, cluster)
            behind = closed is not None and closer == kind
            end = pieces[closed].end if behind and closed is not None else cluster.end
            ranges.append(_Range(kind, (cluster,), cluster.begin if behind else begin, end))
        at += 1
    return ranges


def _range_readings(extent: _Range, lexicon: Lexicon, day: Today, *, past: bool | None) -> Iterator[Reading]:
    """Yield what a range may mean, the likeliest first."""
    if extent.kind == "span":
        yield from _spanned(extent.ends[0].parts, extent.ends[1].parts, lexicon, day, past=past)
        return
    parts = extent.ends[0].parts
    seen = list(readings_of(parts, lexicon, day, past=True if extent.kind == "since" else past))
    if extent.kind == "since":
        seen = [reading for reading in seen if reading[0] < day.now] or seen
    midnight = day.reading((day.day, day.day + timedelta(1)), 1.0)[1]
    for begin, end, sure in seen:
        if extent.kind in {"since", "after"}:
            first = begin if extent.kind == "since" else end
            # What is to come after a day has no end, and then the day itself is looked for.
            yield (first, midnight, sure) if first < min(day.now, midnight) else (begin, end, sure)
        else:
            last = end if extent.kind == "until" else begin
            yield (_EVER if last <= midnight else day.now, last, sure)


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


def _is_time(first: Cluster, last: Cluster, opener: str) -> bool:
    """Tell whether two ends are times, and not numbers or names that may be months."""
    both = (first, last)
    if all(cluster.parts.keys() == {"number"} for cluster in both):
        return False
    return bool(opener) or not any(cluster.doubtful for cluster in both)


def _open_kind(
    written: str, pieces: Sequence[Piece], cluster: Cluster, opened: int | None, opener: str
) -> str:
    """Return the kind of an open range with this end alone: since, until, before or after; empty: there is none."""
    if cluster.parts.keys() == {"number"}:
        return ""
    closed, closer = _closer(pieces, cluster)
    if closed is not None and closer in {"since", "until", "before", "after"}:
        return closer
    # After Monday's meeting is on Monday; the day before Christmas is one day.
    owned = written[cluster.end - 2 : cluster.end] in {"'s", "’s"}
    if opened is None or owned or (opened and "unit" in pieces[opened - 1].label):
        return ""
    return opener if opener in {"since", "until", "before", "after"} else ""


def _opener(pieces: Sequence[Piece], cluster: Cluster) -> tuple[int | None, str]:
    """Return the place of the word that opens a range before a phrase, and what it says."""
    for at in range(cluster.first - 1, max(cluster.first - 2 - _GAP, -1), -1):
        label = pieces[at].label
        if "opens" in label:
            return at, str(label["opens"])
        if label.keys().isdisjoint({"small", "before"}):
            break
    return None, ""


def _closer(pieces: Sequence[Piece], cluster: Cluster) -> tuple[int | None, str]:
    """Return the place of the word that tells behind a phrase what range it ends, and what it says."""
    for at in range(cluster.last + 1, min(cluster.last + 2, len(pieces))):
        if "closes" in pieces[at].label:
            return at, str(pieces[at].label["closes"])
    return None, ""


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
_VIETNAMESE = Pattern("[ăđơưĂĐƠƯ\u1ea0-\u1ef9]")


class Span(msgspec.Struct, frozen=True):
    """A time that a text speaks of: from `begin` up to `end`, seconds since the epoch."""

    begin: float
    end: float
    sure: float
    """1 where only this can be meant, less where it is one of several readings."""
    text: str
    """The words that name it, as they stand in the text."""

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
    return _times(text, now, zone, ranges="asked")


def ends_in(text: str, now: float, zone: tzinfo) -> tuple[Span, ...]:
    """Return the same, but of each range what its words say by themselves: of "since Monday" Monday."""
    return _times(text, now, zone, ranges="none")


def _times(text: str, now: float, zone: tzinfo, *, ranges: Ranges) -> tuple[Span, ...]:
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
        seen_from = today(now, zone)
    except (ValueError, OverflowError, OSError):
        return ()
    written, plain = text.casefold(), fold(text)
    if _VIETNAMESE.search(text):
        spelled = [
            Token(token.kind, text[token.begin : token.end].casefold(), token.begin, token.end)
            for token in tokens
        ]
        accented = phrases_in(written, written, spelled, known.accented, seen_from, ranges=ranges)
        return tuple(_spans(text, list(accented)))
    phrases: list[Phrase] = []
    for lexicon in known.lexicons:
        # Figures are the same in all languages, but a word of any may stand before them.
        if dated or (years and lexicon.join) or not lexicon.anchors.isdisjoint(words):
            phrases += phrases_in(written, plain, tokens, lexicon, seen_from, ranges=ranges)
    return tuple(_spans(text, phrases))


def mentions(text: str, at: float, zone: tzinfo) -> tuple[Span, ...]:
    """Return the times that a statement speaks of, for an index: one reading of each, where it is likely enough."""
    best: dict[str, Span] = {}
    for span in _times(text, at, zone, ranges="stated"):
        best.setdefault(span.text, span)
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
    all_phrases = (item for phrase in taken for item in (phrase, *phrase.inner))
    for phrase in sorted(all_phrases, key=lambda item: item.begin):
        for begin, end, sure in phrase.readings:
            if count < MAX_SPANS and math.isfinite(begin) and math.isfinite(end):
                count += 1
                yield Span(begin, end, sure, text[phrase.begin : phrase.end])
