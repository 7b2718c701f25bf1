"""Traits: what a text shows at a glance, noted when it is indexed, so that no question has to read it again."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

from edgemem.patterns import Pattern
from edgemem.provisions import provided
from edgemem.recall.dates import mentions
from edgemem.recall.words import plain_words, terms

if TYPE_CHECKING:
    from datetime import tzinfo

ASKS, SAYS_I, COUNTS, NAMES, GREETS = 1, 2, 8, 16, 128
"""The text asks; says "I"; holds a number; holds a word with a capital that begins no sentence; greets or thanks, and says
nothing else."""

MOST_TIMES = 4
_MAX_CHARS = 2000
_GREETING_CHARS = 60
_I = frozenset(
    [
        "i",
        "m",
        "ve",
        "my",
        "we",
        "our",
        "me",
        "mine",
        "us",
        "ich",
        "wir",
        "mein",
        "meine",
        "mir",
        "mich",
        "uns",
        "yo",
        "mi",
        "nosotros",
        "nuestra",
        "nuestro",
        "toi",
        "minh",
        "chung",
        "我",
        "我们",
    ]
)
_NUMBER_WORDS = frozenset(
    [
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
        "twenty",
        "thirty",
        "forty",
        "fifty",
        "sixty",
        "seventy",
        "eighty",
        "ninety",
        "hundred",
        "thousand",
        "couple",
        "few",
        "several",
        "dozen",
        "once",
        "twice",
        "eins",
        "zwei",
        "drei",
        "vier",
        "funf",
        "sechs",
        "sieben",
        "acht",
        "neun",
        "zehn",
        "elf",
        "zwolf",
        "uno",
        "dos",
        "tres",
        "cuatro",
        "cinco",
        "seis",
        "siete",
        "ocho",
        "nueve",
        "diez",
        "mot",
        "hai",
        "ba",
        "bon",
        "nam",
        "sau",
        "bay",
        "tam",
        "chin",
        "muoi",
        "一",
        "二",
        "三",
        "四",
        "五",
        "六",
        "七",
        "八",
        "九",
        "十",
        "两",
    ]
)
# What asks without a question mark.
_WANTS = Pattern(
    r"\bI(?:['’]d| would) (?:like|love) to (?:know|hear)\b|\bI wonder (?:if|when|wh\w+|how)\b|\b(?:can you )?tell me\b"
    r"|\bich (?:wüsste|würde) gern\b|\bsag(?:t|e)? mir\b|\bme gustaría saber\b|\bdime\b|\bcho (?:tôi|mình|em) biết\b"
    r"|告诉我|想知道",
    flags=re.IGNORECASE,
)
_DIGIT = re.compile(r"\d")
_NAME = Pattern(r"(?<=[a-zß-ÿ,] )[A-ZÀ-Þ][a-zß-ÿ]+")
_GREETING = (
    "hey|hi|hello|thanks|thank you|wow|bye|ok|okay|oh|yeah|yes|no|sure|good morning|good night|right|sorry|listen|"
    "hallo|danke|hola|gracias"
)
_TITLE = (
    "mr|mrs|ms|miss|dr|uncle|aunt|granny|grandma|grandpa|nana|herr|frau|onkel|tante|oma|opa|don|dona|tio|tia"
)
# Somebody is called, not spoken about: one name at an end of a clause, set off by signs or after a greeting.
_CALLED = Pattern(
    rf"(?:^|[.!?,;]\s*|\b(?:{_GREETING})[,!]?\s+)((?:(?:{_TITLE})\.?\s)?[^\W\d_][\w'’-]*)\s*(?=[,.!?]|$)",
    flags=re.IGNORECASE,
)
# Perhaps with whom it greets, in one word.
_ONLY_GREETS = (
    rf"\W*(?:(?:{_GREETING}|good (?:evening|afternoon|day|bye)|goodbye|see you|sleep well|thanks a lot|you['’]re welcome|welcome back"
    r"|guten (?:morgen|tag|abend)|gute nacht|schlaf gut|tschüss|vielen dank|buen[oa]s (?:días|tardes|noches)|adiós|hasta mañana"
    r"|muchas gracias|(?:xin )?chào|cảm ơn|chúc ngủ ngon|tạm biệt|早上好|早安|晚上好|晚安|你好|您好|谢谢|謝謝|再见|再見)(?!\w)\W*)+"
    r"(?:\w+\W*)?"
)


class Traits(NamedTuple):
    """What is noted of a text."""

    marks: int = 0
    """Sums of the numbers above."""
    called: str = ""
    """Stems of whom it speaks to by name, with spaces between them."""
    times: tuple[tuple[float, float, float], ...] = ()
    """Begin and end of the times that it speaks of, seconds since the epoch, and how sure that is, 0 to 1."""


def traits_of(text: str, at: float) -> Traits:
    """Return the traits of a text that was said at a time, seconds since the epoch."""
    text = text[:_MAX_CHARS]
    words = set(plain_words(text))
    marks = ASKS * (text.rstrip().endswith(("?", "？")) or bool(_WANTS.search(text)))
    marks |= SAYS_I * (not words.isdisjoint(_I))
    marks |= COUNTS * (bool(_DIGIT.search(text)) or not words.isdisjoint(_NUMBER_WORDS))
    marks |= NAMES * bool(_NAME.search(text))
    marks |= GREETS * bool(len(text) <= _GREETING_CHARS and _only_greets().fullmatch(text))
    spans = mentions(text, at, zone_at(at))
    times = tuple((span.begin, span.end, span.sure) for span in spans[:MOST_TIMES])
    return Traits(int(marks), called_by(text), times)


@provided
def _only_greets() -> re.Pattern[str]:
    return re.compile(_ONLY_GREETS, re.IGNORECASE)


def zone_at(at: float) -> tzinfo:
    """Return the time zone of this machine at a moment; that of Greenwich where no calendar knows the moment."""
    try:
        return datetime.fromtimestamp(at).astimezone().tzinfo or timezone.utc
    except (ValueError, OverflowError, OSError):
        return timezone.utc


def called_by(text: str) -> str:
    """Return the stems of whom a text speaks to by name, that stand nowhere else in it, with spaces between them."""
    called = [stem for found in _CALLED.findall(text[:_MAX_CHARS]) for stem in terms(found)]
    if not called:
        return ""
    rest = set(terms(_CALLED.sub(" ", text[:_MAX_CHARS])))
    return " ".join(dict.fromkeys(stem for stem in called if stem not in rest))
