"""Misheard dates: months and weekdays that a recogniser wrote as something else, told by the words around them.

After "the ninth of" comes a month, or something that is no date at all; so what sounds like one is taken for it, though it
be an English word: the ninth of apron. After "on" and the like any noun may come, so only what is no English word, and
what "day" was cut from, is taken for a weekday. English only, as are the rules of how words sound.

The limits stand in the middle of what was met: months heard wrongly are up to .34 away (much, apron), other words that
come there from .36 on (made, jewel, junk); weekdays up to .3 (whensday, riday), other words from .33 on (midday, holiday).
"""

from __future__ import annotations

import re
from functools import lru_cache

from edgemem.patterns import Pattern
from edgemem.recall.common_words import COMMON_NAMES, COMMON_WORDS
from edgemem.recall.english_words import is_english
from edgemem.recall.languages import STOP_WORDS
from edgemem.recall.readings import as_heard, distance

_MONTHS = (
    "january february march april may june july august september october november december".split()  # noqa: SIM905
)
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()  # noqa: SIM905
_MONTH_LIMIT, _WEEKDAY_LIMIT = 0.35, 0.31
_LEAST_LETTERS = 4
_ORDINAL = (
    r"(?:\d{1,2}(?:st|nd|rd|th)|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth"
    r"|thirteenth|fourteenth|fifteenth|sixteenth|seventeenth|eighteenth|nineteenth|twentieth|thirtieth)"
)
_AFTER_ORDINAL = Pattern(rf"(\b{_ORDINAL} of )((?:an? )?[a-z]+)(?![\w'’])", flags=re.IGNORECASE)
_WHEN = "on|since|until|till|every|next|last|this|by|from"
_AFTER_WHEN = Pattern(rf"(\b(?:{_WHEN}) )([a-z]+(?: day)?)(?![\w'’])", flags=re.IGNORECASE)


def with_dates(text: str) -> str:
    """Return a text in which misheard months and weekdays are set right; the same one where there are none."""
    if not text.isascii():
        return text
    return _AFTER_WHEN.sub(_weekday, _AFTER_ORDINAL.sub(_month, text))


def _month(found: re.Match[str]) -> str:
    """Return a month with the day before it; a word that fell in two, as "a pill", is read as one."""
    heard = "".join(found[2].lower().split())
    month = None if heard in STOP_WORDS else _nearest(heard, tuple(_MONTHS), _MONTH_LIMIT)
    return found[0] if month is None or month == found[2].lower() else f"{found[1]}{month}"


def _weekday(found: re.Match[str]) -> str:
    words = found[2].lower().split()
    heard = "".join(words)
    # "One day" and "that day" are what they are; "wends day" is no English.
    known = words[0] in STOP_WORDS or (len(words) == 1 and _is_word(heard))
    if known or len(heard) < _LEAST_LETTERS:
        return found[0]
    day = _nearest(heard, tuple(_WEEKDAYS), _WEEKDAY_LIMIT)
    return found[0] if day is None or day == found[2].lower() else f"{found[1]}{day}"


def _is_word(word: str) -> bool:
    return word in COMMON_WORDS or word in COMMON_NAMES or is_english(word) or word.rstrip("s") in _WEEKDAYS


@lru_cache(maxsize=1024)
def _nearest(heard: str, names: tuple[str, ...], limit: float) -> str | None:
    """Return which of some names sounds most like what was heard, if one does within the limit."""
    found = [
        (distance(one, other, limit), name)
        for one in as_heard(heard)
        for name in names
        for other in as_heard(name)
    ]
    far, name = min(found, default=(1.0, ""))
    return name if far <= limit else None
