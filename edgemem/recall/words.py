"""Words: what text is matched by. Index, query and text that is not indexed yet all pass through here."""

from __future__ import annotations

import re
import unicodedata

from edgemem.recall.stemmer import stem

WORDS_VERSION = "2"
"""Changes with every rule below; an index made by other rules is made again."""

_STOP_WORDS = """
a about above after again ain all also am an and any are aren as at be because been before being below between
both but by can cannot could couldn d did didn do does doesn doing don down during each either else ever every
few for from further get gets getting go goes going gonna got had hadn has hasn have haven having he her here hers
herself him himself his how i if im in into is isn it its itself just let ll m me more most mustn my myself needn
no nor not now of off oh ok okay on once only or other our ours ourselves out over own please re really s same she
should shouldn so some such t than that the their theirs them themselves then there these they this those
through to too under until up upon us ve very was wasn we were weren what whatever when where whether which while
who whom whose why with won would wouldn yeah yes yet you your yours yourself yourselves
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English words that say nothing about what a text is about; they are neither indexed nor asked for."""

_RUN = re.compile(r"[^\W_]+")
_ACCENT = re.compile("[\u0300-\u036f]")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MAX_LETTERS = 64


def plain_words(text: str) -> list[str]:
    """Return the words of a text in order: lower case, without accents, stop words included."""
    if not text.isascii():
        text = _ACCENT.sub("", unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text)))
        # A vowel sign belongs to its letter in Indic scripts: what is no letter, digit or mark separates.
        text = "".join(
            letter if letter.isalnum() or unicodedata.category(letter)[0] == "M" else " "
            for letter in unicodedata.normalize("NFC", text)
        )
        return [word[:_MAX_LETTERS] for word in text.casefold().split()]
    return [word[:_MAX_LETTERS] for word in _RUN.findall(text.lower())]


def terms(text: str) -> list[str]:
    """Return the stems that a text is found by, in order, repeated as often as they stand there."""
    return [stem(word) for word in plain_words(text) if word not in STOP_WORDS]


def spell_out(key: str) -> str:
    """Return the words of a key such as `user.favouriteColour` or `door_code`, with spaces between them."""
    return " ".join(_HUMP.sub(" ", key).replace("_", " ").replace(".", " ").replace("-", " ").split())
