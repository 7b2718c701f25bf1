"""Dates: what time a question or a statement speaks of, and whether it asks for one.

English, German, Spanish, Vietnamese and Chinese; numbers may be words. Each language says what its words may be (see
`date_words`); words that stand together and tell a time are one phrase in all of them, in whatever order they come,
so there is no grammar for each. It may be wrong now and then, and says how sure it is.
"""

from __future__ import annotations

import math
import re
import unicodedata
from typing import TYPE_CHECKING

import msgspec

from edgemem.patterns import Pattern
from edgemem.recall.date_phrases import phrases_in
from edgemem.recall.date_pieces import Token
from edgemem.recall.date_spans import today
from edgemem.recall.date_words import date_words, fold

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

    from edgemem.recall.date_phrases import Phrase, Ranges

MAX_CHARS = 2000
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
    said: str
    """The words that say it, as they stand there."""

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
    said = list(_TOKEN.finditer(text))
    tokens = [
        Token(str(each.lastgroup), fold(_OWNED.sub("", each[0])), each.start(), each.end()) for each in said
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
            Token(each.kind, text[each.begin : each.end].casefold(), each.begin, each.end) for each in tokens
        ]
        phrases = phrases_in(written, written, spelled, known.accented, seen_from, ranges=ranges)
        return tuple(_spans(text, list(phrases)))
    found: list[Phrase] = []
    for lexicon in known.lexicons:
        # Figures are the same in all languages, but a word of any may stand before them.
        if dated or (years and lexicon.join) or not lexicon.anchors.isdisjoint(words):
            found += phrases_in(written, plain, tokens, lexicon, seen_from, ranges=ranges)
    return tuple(_spans(text, found))


def mentions(text: str, said_at: float, zone: tzinfo) -> tuple[Span, ...]:
    """Return the times that a statement speaks of, for an index: one reading of each, where it is likely enough."""
    best: dict[str, Span] = {}
    for span in _times(text, said_at, zone, ranges="told"):
        best.setdefault(span.said, span)
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
    return _YEAR_IN_SIGNS.sub(lambda found: found[0].translate(_SIGNS), text)


def _spans(text: str, found: Sequence[Phrase]) -> Iterator[Span]:
    """Yield each time once: where two languages read the same words, as the one that knows more of the text says."""
    taken: list[Phrase] = []
    for phrase in sorted(found, key=lambda each: (-each.known, each.begin - each.end)):
        if all(phrase.end <= other.begin or phrase.begin >= other.end for other in taken):
            taken.append(phrase)
    count = 0
    told = (each for phrase in taken for each in (phrase, *phrase.inner))
    for phrase in sorted(told, key=lambda each: each.begin):
        for begin, end, sure in phrase.readings:
            if count < MAX_SPANS and math.isfinite(begin) and math.isfinite(end):
                count += 1
                yield Span(begin, end, sure, text[phrase.begin : phrase.end])
