"""Porter's stemmer: one stem for cook, cooks, cooked and cooking.

Written out here, and not left to FTS5's own tokenizer, because a query needs the stem of a word to look up how
common it is, and because text that is not indexed yet is matched in memory by the very same stems.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

_MAX_LETTERS = 64
_VOWELS = frozenset("aeiou")

_STEP_2 = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("logi", "log"),
    ("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"),
    ("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"),
    ("ousness", "ous"), ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble"),
)  # fmt: skip
_STEP_3 = (
    ("ical", "ic"), ("ness", ""), ("icate", "ic"), ("iciti", "ic"), ("ful", ""), ("ative", ""), ("alize", "al"),
)  # fmt: skip
_STEP_4 = tuple(
    (suffix, "")
    for suffix in (
        "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism",
        "ate", "iti", "ous", "ive", "ize",
    )
)  # fmt: skip


@lru_cache(maxsize=16384)
def stem(word: str) -> str:
    """Return the stem of one lower-case word; words that are not plain a-z stay as they are."""
    if not 3 <= len(word) <= _MAX_LETTERS or not (word.isascii() and word.isalpha()):
        return word
    word = _past(_plural(word))
    if word[-1] == "y" and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _replace(word, _STEP_2, above=0)
    word = _replace(word, _STEP_3, above=0)
    word = _replace(word, _STEP_4, above=1)
    return _tidy(word)


def _consonants(word: str) -> list[bool]:
    """Tell for each letter whether it sounds as a consonant; y does after a vowel and at the start."""
    flags: list[bool] = []
    before = False
    for letter in word:
        before = letter not in _VOWELS and not (letter == "y" and before)
        flags.append(before)
    return flags


def _measure(word: str) -> int:
    """Count the vowel-consonant changes of a word: Porter's m."""
    flags = _consonants(word)
    return sum(1 for before, after in pairwise(flags) if after and not before)


def _has_vowel(word: str) -> bool:
    return any(letter in _VOWELS or (letter == "y" and at > 0) for at, letter in enumerate(word))


def _ends_short(word: str) -> bool:
    """Tell whether a word ends consonant, vowel, consonant, as hop does: then hoping comes from hope."""
    return word[-1] not in "wxy" and _consonants(word)[-3:] == [True, False, True]


def _plural(word: str) -> str:
    if word.endswith("s"):
        if word.endswith("es"):
            whole = (word.endswith("sses") and len(word) > 4) or (word.endswith("ies") and len(word) > 3)
            return word[:-2] if whole else word[:-1]
        if word[-2] != "s":
            return word[:-1]
    return word


def _past(word: str) -> str:
    if word.endswith("eed") and len(word) > 3:
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        rest = word[: -len(suffix)]
        if word.endswith(suffix) and rest and _has_vowel(rest):
            return _mend(rest)
    return word


def _mend(word: str) -> str:
    """Repair what taking -ed or -ing away has left: hopp to hop, hop (of hoping) to hope."""
    if len(word) > 2 and word.endswith(("at", "bl", "iz")):
        return word + "e"
    if len(word) > 1 and word[-1] == word[-2] and word[-1] not in "aeioulsz":
        return word[:-1]
    if _measure(word) == 1 and _ends_short(word):
        return word + "e"
    return word


def _replace(word: str, table: tuple[tuple[str, str], ...], *, above: int) -> str:
    """Replace the one suffix of the table that the word ends in, if what stays measures more than `above`."""
    for suffix, other in table:
        if word.endswith(suffix) and len(word) > len(suffix):
            rest = word[: -len(suffix)]
            if suffix == "ion" and rest[-1] not in "st":
                return word
            return rest + other if _measure(rest) > above else word
    return word


def _tidy(word: str) -> str:
    if word.endswith("e"):
        rest = word[:-1]
        if _measure(rest) > 1 or (_measure(rest) == 1 and not _ends_short(rest)):
            word = rest
    if word.endswith("ll") and _measure(word[:-1]) > 1:
        word = word[:-1]
    return word
