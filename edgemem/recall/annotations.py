"""The traits of a text: flags, names that it calls, and times, stored in the index, so that no question reads the text again."""

from __future__ import annotations

import re
from typing import NamedTuple

from edgemem.languages.words import Exact, all_words, in_any, small
from edgemem.preload import Pattern, preloaded
from edgemem.recall.dates.phrases import mentions, zone_at
from edgemem.recall.text.analyse import plain_words, terms

ASKS, SAYS_I, COUNTS, NAMES, GREETS = 1, 2, 8, 16, 128
"""The text asks; says "I"; holds a number; holds a word with a capital that begins no sentence; greets or thanks, and says
nothing else."""

MOST_TIMES = 4
_MAX_CHARS = 2000
_GREETING_CHARS = 60
_DIGIT = re.compile(r"\d")
_NAME = Pattern(r"(?<=[a-zß-ÿ,] )[A-ZÀ-Þ][a-zß-ÿ]+")


class Annotations(NamedTuple):
    """The flags of a text, whom it speaks to, and its times."""

    flags: int = 0
    """The flags above, added up."""
    called: str = ""
    """Stems of whom it speaks to by name, with spaces between them."""
    times: tuple[tuple[float, float, float], ...] = ()
    """Begin and end of the times that it speaks of, seconds since the epoch, and how sure that is, 0 to 1."""


def annotate(text: str, at: float) -> Annotations:
    """Return the traits of a text that was said at a time, seconds since the epoch."""
    text = text[:_MAX_CHARS]
    words = set(plain_words(text))
    known = _known()
    flags = ASKS * (text.rstrip().endswith(("?", "？")) or known.wants.stand_in(small(text)))
    flags |= SAYS_I * (not words.isdisjoint(known.speaker))
    flags |= COUNTS * (bool(_DIGIT.search(text)) or not words.isdisjoint(known.counting))
    flags |= NAMES * bool(_NAME.search(text))
    flags |= GREETS * bool(len(text) <= _GREETING_CHARS and known.greeting.fullmatch(small(text)))
    spans = mentions(text, at, zone_at(at))
    times = tuple((span.begin, span.end, span.sure) for span in spans[:MOST_TIMES])
    return Annotations(int(flags), called_by(text), times)


def only_greets(text: str) -> bool:
    """Tell whether a text only greets, thanks, or says yes or no."""
    return len(text) <= _GREETING_CHARS and "?" not in text and _known().greetings.make_up(small(text))


class _Known(NamedTuple):
    """What the files of all languages list."""

    wants: Exact
    speaker: frozenset[str]
    counting: frozenset[str]
    greetings: Exact
    greeting: Pattern
    """Greetings, and perhaps with whom a text greets, in one word."""
    called: Pattern
    """Somebody is called, not spoken about: one name at an end of a clause, set off by signs or after a greeting."""


@preloaded
def _known() -> _Known:
    languages = all_words().values()
    hails = in_any(lambda words: words.hails).items
    greetings = Exact(",".join((*hails, *in_any(lambda words: words.greetings).items)))
    greets = "|".join(map(re.escape, sorted(greetings.items, key=len, reverse=True)))
    titles = "|".join(
        sorted(
            frozenset().union(*(words.names.titles.plain() | words.names.kin.plain() for words in languages))
        )
    )
    return _Known(
        in_any(lambda words: words.wants),
        frozenset().union(*(words.speaker.plain() for words in languages)),
        frozenset().union(*(words.counting.plain() for words in languages)),
        greetings,
        Pattern(rf"\W*(?:(?:{greets})(?!\w)\W*)+(?:\w+\W*)?"),
        Pattern(
            rf"(?:^|[.!?,;]\s*|\b(?:{'|'.join(map(re.escape, hails))})[,!]?\s+)((?:(?:{titles})\.?\s)?[^\W\d_][\w'’-]*)\s*(?=[,.!?]|$)",
            flags=re.IGNORECASE,
        ),
    )


def called_by(text: str) -> str:
    """Return the stems of whom a text speaks to by name, that stand nowhere else in it, with spaces between them."""
    called = [stem for name in _known().called.findall(text[:_MAX_CHARS]) for stem in terms(name)]
    if not called:
        return ""
    rest = set(terms(_known().called.sub(" ", text[:_MAX_CHARS])))
    return " ".join(dict.fromkeys(stem for stem in called if stem not in rest))
