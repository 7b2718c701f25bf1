"""Sounds: names by how they are spoken, since a recogniser writes them as it pleases.

A name is read in three ways, as an English, a German and a Spanish speaker would (the idea of A. Beider and S. P. Morse,
"Beider-Morse Phonetic Matching", 2008), and each reading is reduced to the classes of its consonants (H. J. Postel,
"Die Kölner Phonetik", 1969; L. Philips, "Hanging on the Metaphone", 1990), the kind of its first vowel, and an open
one at its end (Carl is not Carla). Vietnamese names are read well enough by the same rules once their tones are off:
initial `ng`, `nh`, `kh`, `ph`, `th`, final `nh`. Names that no such rule reads, Irish ones above all, stand in a short
list with what is heard of them. The rules are written from those descriptions and are much fewer; an
index holds what they make of a name, so whoever changes one changes `words.WORDS_VERSION` too.

Tried on 300 questions of `edgemem.bench.corpus` among 10,000 facts and 999 of LoCoMo, each also in small letters:
two were changed, both times rightly (John where the memory knows Jon).
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache
from typing import TYPE_CHECKING

from edgemem.recall.stemmer import stem
from edgemem.recall.words import plain_words

if TYPE_CHECKING:
    from collections.abc import Iterable

_LEAST_LETTERS = 3
_LEAST_ALIKE = 0.4  # of two spellings; José and Hosay share 0.44 of theirs


def _compiled(*rules: tuple[str, str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern), sound) for pattern, sound in rules)


# Names whose spelling no rule of English, German or Spanish leads to, as such a speaker would write what they hear.
_HEARD = {
    "aoife": "eefa", "bjorn": "beyorn", "caitlin": "katelin", "ciara": "keera", "eoin": "owen", "hoa": "wah", "isla": "eyela",
    "joaquin": "wakeen", "ngoc": "nock", "ngozi": "engozi", "nguyen": "wen", "niamh": "neeve", "oisin": "osheen",
    "roisin": "rosheen", "saoirse": "sersha", "sean": "shawn", "seamus": "shaymus", "siobhan": "shivon", "thuy": "twee",
    "trang": "chang", "wojciech": "voitek", "xochitl": "sochee",
}  # fmt: skip
_LETTERS = str.maketrans({"đ": "d", "ł": "l", "ø": "o", "æ": "e", "œ": "e", "ß": "ss", "ı": "i", "ñ": "n"})
# In all languages: what is written and not spoken, and several letters for one sound.
_COMMON = _compiled(
    (r"^(?:kn|gn|pn|ng)", "n"),
    (r"^wr", "r"),
    (r"^ps", "s"),
    (r"(?:tsch|tch|sch|sh|cz)", "x"),
    (r"ph", "f"),
    (r"(?:th|dt)", "t"),
    (r"qu(?=[ao])", "kw"),
    (r"(?:kh|ck|qu?|gu(?=[ei]))", "k"),
    (r"(?:tz|ts|z)", "s"),
    (r"(?<=[aeiouy])gh(?![aeiou])", ""),
    (r"gh", "g"),
    (r"mb$", "m"),
    (r"n(?:h|g)$", "n"),
    (r"(?:ay|ai|ey|ei|ee|ea|ie)", "e"),
    (r"([aou])e", r"\1"),
    (r"(?:ou|oo|au|ow|aw|oa)", "o"),
    (r"ew$", "u"),
    (r"c(?=[eiy])", "s"),
    (r"y(?![aeou])|(?<=[^aeiou])y", "i"),
)
# Where languages differ: English, German, Spanish.
_READINGS = (
    _compiled((r"^x", "s"), (r"ch", "x"), (r"g(?=[ei])|j", "j"), (r"w", "v")),
    _compiled((r"^x", "s"), (r"ch", "k"), (r"j", "y"), (r"w", "v")),
    _compiled((r"^x", "h"), (r"ch", "x"), (r"ll", "y"), (r"g(?=[ei])|j", "h"), (r"v", "b"), (r"w", "v")),
)
# What recognisers mix up counts as one sound.
_CLASSES = str.maketrans("bpdtfvgkcqszxjymnlrh", "PPTTFFKKKKSSXJYMNLRH")
_VOWELS = str.maketrans("eiaou", "eeaoo")


@lru_cache(maxsize=4096)
def sounds_of(word: str) -> frozenset[str]:
    """Return the ways in which a word may sound; none for what is too short to tell, or has no Latin letter."""
    letters = "".join(plain_words(word)).translate(_LETTERS)
    # What a fact is about is known by its stem: James by that of his name without the s.
    heard = _HEARD.get(letters)
    said = {letters, stem(letters)} if heard is None else {letters, stem(letters), heard}
    return frozenset(key for each in said for key in _keys(each))


def sounds_alike(word: str, names: Iterable[str]) -> str | None:
    """Return the name that sounds like a word and is spelled most like it; None if there is none, or it is one."""
    sounds, there = sounds_of(word), set(names)
    if not sounds or word in there:
        return None
    alike = [
        (max(SequenceMatcher(None, word, each).ratio() for each in (name, _HEARD.get(name, name))), name)
        for name in there
        if not sounds.isdisjoint(sounds_of(name))
    ]
    best, name = max(alike, default=(0.0, ""))
    return name if best >= _LEAST_ALIKE else None


def _keys(letters: str) -> set[str]:
    if len(letters) < _LEAST_LETTERS or not (letters.isascii() and letters.isalpha()):
        return set()
    for pattern, sound in _COMMON:
        letters = pattern.sub(sound, letters)
    found: set[str] = set()
    for reading in _READINGS:
        read = letters
        for pattern, sound in reading:
            read = pattern.sub(sound, read)
        # An h is spoken at the beginning only, and often not heard there.
        read = read[:1] + read[1:].replace("h", "")
        found.add(_key(read))
        if letters.startswith("h"):
            found.add(_key(read[1:]))
    return {key for key in found if len(key) > 1}


def _key(read: str) -> str:
    """Return the consonants by their classes, with the kinds of the first and of an open last vowel in their places."""
    vowel = re.search(r"[aeiou]", read)
    kept = (
        read if vowel is None else read[: vowel.end()] + re.sub(r"[eiu]|[ao](?!$)", "", read[vowel.end() :])
    )
    key = re.sub(r"(.)\1+", r"\1", kept.translate(_VOWELS).translate(_CLASSES))
    # At the beginning b and p, d and t are told apart: "dealer" is not a tailor.
    return kept[0] + key[1:] if kept[:1] in ("b", "d") else key
