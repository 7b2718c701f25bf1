"""Sounds: names by how they are spoken, since a recogniser writes them as it pleases.

A name is known by the skeletons of its readings (see `readings`): what remains when its consonants are put in classes
and its vowels dropped. A word that was heard is looked up by its own, and by those which one consonant more, less or
other would make; which name is meant, and whether any, the distance between readings says. An index holds what these
rules make of a name, so whoever changes one changes `words.WORDS_VERSION` too.

A word that is a common name itself is taken for that name, unless another sounds the same in a narrow sense: by the
classes of its consonants (H. J. Postel, "Die Kölner Phonetik", 1969; L. Philips, "Hanging on the Metaphone", 1990)
with the kind of its first vowel and an open one at its end, read as an English, a German or a Spanish speaker would
(the idea of A. Beider and S. P. Morse, "Beider-Morse Phonetic Matching", 2008). Carl is not Carla, nor Tim Tom.

What it finds and what it leaves alone: `make lab ARGS=names`.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache
from typing import TYPE_CHECKING

from edgemem.patterns import Pattern
from edgemem.recall.common_words import COMMON_NAMES
from edgemem.recall.english_words import is_english
from edgemem.recall.readings import SOUND_CLASSES, as_heard, distance, readings, skeleton
from edgemem.recall.stemmer import stem
from edgemem.recall.words import plain_words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_LEAST_LETTERS, _LEAST_HEARD = 2, 3  # of a name, and of what is heard of one
_LEAST_ALIKE = 0.4  # of two spellings; José and Hosay share 0.44 of theirs
_SAME = 0.035  # the distance up to which two readings are the same
_ALIKE, _ALIKE_SHORT, _SHORT = 0.27, 0.22, 4  # up to which a name is meant; less of one with so few sounds
_LONG_KEY, _WEAK = 3, "NRT"  # consonants from which on any of them may be misheard, and those that always may
_BENT = 0.03  # how much farther a word is of which an ending was taken off


def _patterns(*rules: tuple[str, str]) -> tuple[tuple[Pattern, str], ...]:
    return tuple((Pattern(pattern), sound) for pattern, sound in rules)


# Names whose spelling no rule of English, German or Spanish leads to, as such a speaker would write what they hear.
_HEARD = {
    "aoife": "eefa", "bjorn": "beyorn", "caitlin": "katelin", "ciara": "keera", "eoin": "owen", "hoa": "wah", "isla": "eyela",
    "joaquin": "wakeen", "ngoc": "nock", "ngozi": "engozi", "nguyen": "wen", "niamh": "neeve", "oisin": "osheen",
    "roisin": "rosheen", "saoirse": "sersha", "sean": "shawn", "seamus": "shaymus", "siobhan": "shivon", "thuy": "twee",
    "trang": "chang", "wojciech": "voitek", "xochitl": "sochee",
}  # fmt: skip
_LETTERS = str.maketrans({"đ": "d", "ł": "l", "ø": "o", "æ": "e", "œ": "e", "ß": "ss", "ı": "i", "ñ": "n"})
# In all languages: what is written and not spoken, and several letters for one sound.
_COMMON = _patterns(
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
    _patterns((r"^x", "s"), (r"ch", "x"), (r"g(?=[ei])|j", "j"), (r"w", "v")),
    _patterns((r"^x", "s"), (r"ch", "k"), (r"j", "y"), (r"w", "v")),
    _patterns((r"^x", "h"), (r"ch", "x"), (r"ll", "y"), (r"g(?=[ei])|j", "h"), (r"v", "b"), (r"w", "v")),
)
# What recognisers mix up counts as one sound.
_CLASSES = str.maketrans("bpdtfvgkcqszxjymnlrh", "PPTTFFKKKKSSXJYMNLRH")
_VOWELS = str.maketrans("eiaou", "eeaoo")


@lru_cache(maxsize=8192)
def sounds_of(word: str) -> frozenset[str]:
    """Return the skeletons of the ways in which a name is spoken; none for what is too short, or has no Latin letter."""
    letters = "".join(plain_words(word))
    if len(letters) < _LEAST_LETTERS:
        return frozenset()
    return frozenset(key for key, _ in _readings(letters))


def sounds_heard(word: str) -> frozenset[str]:
    """Return the skeletons of a word that a recogniser has written, by which the name that it means is mostly found."""
    return frozenset(map(skeleton, as_heard(word))) if len(word) >= _LEAST_HEARD else frozenset()


def sounds_near(word: str) -> frozenset[str]:
    """Return the skeletons that one consonant more, less or other makes of those of a word; of short ones, a weak one."""
    found: set[str] = set()
    for each in sounds_heard(word):
        key = each.strip("-")
        weak = len(key) < _LONG_KEY
        for n in range(len(key) + 1):
            found.update(f"{key[:n]}{other}{key[n:]}" for other in (_WEAK if weak else SOUND_CLASSES))
            if n < len(key) and (not weak or key[n] in _WEAK):
                found.update(
                    f"{key[:n]}{other}{key[n + 1 :]}" for other in ("", *("" if weak else SOUND_CLASSES))
                )
    return frozenset(key or "-" for key in found)


def nearest(word: str, names: Iterable[str], keys: Collection[str] | None = None) -> tuple[float, str] | None:
    """Return the name that sounds most like a word, after its distance; None if none is near enough.

    Args:
        word: heard, in small letters and without accents.
        names: words of names, written so, too.
        keys: skeletons, of which a reading must have one to be looked at; None: any.
    """
    if len(word) < _LEAST_HEARD:
        return None
    strict = word in COMMON_NAMES or is_english(word)
    heard = [(one, 0.0) for one in as_heard(word)]
    if word.endswith("s") and len(word) > _LEAST_HEARD:
        heard += [(one, _BENT) for one in as_heard(word[:-1])]
    found = []
    for name in names:
        read = [reading for key, reading in _readings(name) if keys is None or key in keys]
        far = min((distance(one, other, _ALIKE) + bent for one, bent in heard for other in read), default=1.0)
        if far <= (_SAME if strict else _ALIKE_SHORT if len(name) <= _SHORT else _ALIKE):
            found.append((far, -_spelled_alike(word, name), name))
        elif word in COMMON_NAMES and not _strict_keys(word).isdisjoint(_strict_keys(name)):
            alike = _spelled_alike(word, name)
            if alike >= _LEAST_ALIKE:
                found.append((far, -alike, name))
    if not found:
        return None
    far, _, name = min(found)
    return far, name


def _spelled_alike(word: str, name: str) -> float:
    return max(SequenceMatcher(None, word, each).ratio() for each in (name, _HEARD.get(name, name)))


@lru_cache(maxsize=8192)
def _readings(name: str) -> tuple[tuple[str, str], ...]:
    """Return how a name may be spoken, and what is mostly heard of it, each after its skeleton."""
    heard = _HEARD.get(name)
    spoken = readings(name) if heard is None else readings(name) | as_heard(heard)
    return tuple((skeleton(each), each) for each in sorted(spoken))


@lru_cache(maxsize=8192)
def _strict_keys(word: str) -> frozenset[str]:
    """Return the ways in which a word may sound, in the narrow sense."""
    letters = word.translate(_LETTERS)
    # What a fact is about is known by its stem: James by that of his name without the s.
    heard = _HEARD.get(letters)
    said = {letters, stem(letters)} if heard is None else {letters, stem(letters), heard}
    return frozenset(key for each in said for key in _keys(each))


def _keys(letters: str) -> set[str]:
    if len(letters) < _LEAST_HEARD or not (letters.isascii() and letters.isalpha()):
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
