"""Date phrases: pieces of one language that stand together and tell a time, and what it may be.

A phrase has its pieces in whatever order the language likes, so no language needs a grammar.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec

from edgemem.patterns import Pattern
from edgemem.recall.date_clusters import SHIFTED, Cluster, clusters_in
from edgemem.recall.date_pieces import Piece, Token, pieces_of
from edgemem.recall.date_ranges import part_at_and, range_readings, ranges_in
from edgemem.recall.date_readings import readings_of
from edgemem.recall.date_spans import Reading, Today

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from edgemem.recall.date_words import Lexicon

Ranges = Literal["asked", "told", "none"]
"""How "from Monday to Friday" is read: as one time, and "since Monday" as all days since; as one time and both its ends;
as two times."""
_GAP = 3
"""Words that may stand between a phrase and the one that makes a time of it."""
_QUESTION = Pattern(
    r"\?|？|^\W*(?:who|what|where|when|which|why|how|did|wer|was|wo|wie|wann|que|quien|donde|cuando|cual|ai)\b"
)


class Phrase(msgspec.Struct, frozen=True):
    """Words that tell a time."""

    begin: int
    end: int
    known: int
    """Words of the whole text that the language knows: of two that read the same words, the one that knows more is right."""
    readings: tuple[Reading, ...]
    inner: tuple[Phrase, ...] = ()
    """Its ends, if it is a range of which both ends are spoken of, too."""


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
    if past is None and _QUESTION.search(plain):
        past = True  # people ask a memory about what was
    clusters = list(clusters_in(pieces, lexicon))
    said = {id(each): _phrase(each, pieces, known, lexicon, day, past=past) for each in clusters}
    asked = ranges == "asked"
    for one in ranges_in(written, pieces, clusters, asked=asked) if ranges != "none" else ():
        if readings := _read(partial(range_readings, one, lexicon, day, past=past)):
            ends = [said.pop(id(end), None) for end in one.ends]
            # A text that tells from when to when speaks of both ends; who asks so wants all that lies between.
            inner = () if asked else tuple(end for end in ends if end is not None)
            yield Phrase(one.begin, one.end, known, readings, inner)
    yield from (phrase for phrase in said.values() if phrase is not None)


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
