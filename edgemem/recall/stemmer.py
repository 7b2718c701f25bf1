"""Stems: one for cook, cooks, cooked and cooking, by the stemmers of the Snowball project (snowballstem.org).

Cut here, and not left to FTS5's own tokenizer, because a query needs the stem of a word to look up how common it is,
and because text that is not indexed yet is matched in memory by the very same stems.
"""

from __future__ import annotations

from functools import cache, lru_cache
from threading import Lock
from typing import Any

_SHORTEST, _LONGEST = 3, 64
_NAMES = {"en": "english", "de": "german", "es": "spanish"}
_one_at_a_time = Lock()


@lru_cache(maxsize=16384)
def stem(word: str, language: str = "en") -> str:
    """Return the stem of one lower-case word without accents; words that are not plain a-z stay as they are.

    Args:
        language: en, de or es.
    """
    if not _SHORTEST <= len(word) <= _LONGEST or not (word.isascii() and word.isalpha()):
        return word
    with _one_at_a_time:  # a stemmer keeps the word that it works on
        return str(_stemmer(language).stemWord(word))


def stems(words: list[str], language: str = "en") -> list[str]:
    """Return the stems of many words that are looked up once: none of them is remembered.

    Args:
        words: lower case, without accents, plain a-z.
        language: en, de or es.
    """
    with _one_at_a_time:
        found = list(map(str, _stemmer(language).stemWords(words)))
    return [stem if len(word) >= _SHORTEST else word for word, stem in zip(words, found)]  # noqa: B905 - as long as one another


def stems_version() -> str:
    """Return what changes whenever a stem may."""
    import Stemmer

    return str(Stemmer.version())


@cache
def _stemmer(language: str) -> Any:
    import Stemmer

    return Stemmer.Stemmer(_NAMES[language], 0)  # 0: `stem` remembers enough
