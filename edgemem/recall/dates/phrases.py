"""The times that a question or a statement speaks of, and whether a question asks for a time.

English, German, Spanish, Vietnamese and Chinese; numbers may be words. Each language says what its words may be (see
`lexicon`); words that stand together and tell a time are one phrase in all of them, in whatever order they come,
so no language needs a grammar. A reading may be wrong now and then, and says how sure it is.
"""

from __future__ import annotations

import math
import re
import unicodedata
from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec

from edgemem.languages.words import all_words, bare
from edgemem.patterns import Pattern
from edgemem.provisions import provided
from edgemem.recall.dates.lexicon import date_words, fold
from edgemem.recall.dates.readings import part_at_and, range_readings, ranges_in, readings_of
from edgemem.recall.dates.spans import Reading, Today, today
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
"""Words that may stand between a phrase and the one that makes a time of it."""


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
        part_at_and(pieces)
    if past is None and _question().search(plain):
        past = True  # people ask a memory about what was
    clusters = list(clusters_in(pieces, lexicon))
    by_cluster = {
        id(cluster): _phrase(cluster, pieces, known, lexicon, day, past=past) for cluster in clusters
    }
    asked = ranges == "asked"
    for extent in ranges_in(written, pieces, clusters, asked=asked) if ranges != "none" else ():
        if readings := _read(partial(range_readings, extent, lexicon, day, past=past)):
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
