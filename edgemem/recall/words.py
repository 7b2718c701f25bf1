"""Words: what text is matched by. Index, query and text that is not indexed yet all pass through here."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from edgemem.patterns import Pattern
from edgemem.recall.languages import EMPTY_SIGNS, STOP_WORDS, TELLING, empty_words, language_of
from edgemem.recall.number_words import with_digits
from edgemem.recall.stemmer import stem, stems_version

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["STOP_WORDS", "WORDS_VERSION", "language_in", "plain_words", "terms", "words_version"]

WORDS_VERSION = "6"
"""Changes with every rule below, see `words_version`."""

_RUN = re.compile(r"[^\W_]+")
_ACCENT = re.compile("[\u0300-\u036f]")
_MAX_LETTERS = 64
_SIGNS = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Chinese and Japanese."""
_LETTERS = "\u0e01-\u0edf\u1000-\u109f\u1780-\u17dd"
"""Thai, Lao, Burmese and Khmer, which have no spaces between words either."""
_SIGN = Pattern(f"[{_SIGNS}]")
_KANA = Pattern("[\u3040-\u30ff]")
_UNSPACED = Pattern(f"[{_SIGNS}{_LETTERS}]")
_PIECE = Pattern(f"[{_SIGNS}]|[{_LETTERS}]+|[^{_SIGNS}{_LETTERS}]+")
_LETTERS_TOGETHER = 3
_STEMMED = frozenset({"de", "es"})
"""Languages that have stems of their own, beside the English ones."""
_LATIN = Pattern("[a-zA-Z\u00aa-\u024f\u1e00-\u1eff]")


def words_version() -> str:
    """Return what changes with every rule here and with every stem; an index made by other rules is made again."""
    return f"{WORDS_VERSION}/{stems_version()}"


def plain_words(text: str) -> list[str]:
    """Return the words of a text in order: lower case, without accents, stop words included.

    Each Chinese or Japanese sign is one.
    """
    if text.isascii():
        return [word[:_MAX_LETTERS] for word in _RUN.findall(text.lower())]
    return [piece[:_MAX_LETTERS] for word in _spelled(text) for piece in _pieces(_plain(word))]


def terms(text: str, *, without: Collection[str] = ()) -> list[str]:
    """Return what a text is found by, in order, repeated as often as it stands there.

    That is the stem of each word that tells anything; of German and Spanish ones the English stem as well, if that is
    another: so a question too short to tell its language finds them, and a name has one stem everywhere. Where no
    spaces are written it is each sign and each two neighbours, or each three neighbouring letters. Numbers are digits,
    also those that were spelled out.

    Args:
        without: plain words that are left out, such as names.
    """
    if text.isascii():
        words = plain_words(text)
        language = language_of(words)
        empty = empty_words(language)
        kept = [word for word in _numbered(words, language) if word not in empty and word not in without]
        return (
            list(map(stem, kept))
            if language == "en"
            else [term for word in kept for term in _stems(word, language)]
        )
    spelled = _spelled(text)
    words = [_plain(word) for word in spelled]
    language = language_of(words, _signs_of(text, spelled))
    empty, telling = empty_words(language), TELLING.get(language, ())
    numbered = _numbered(words, language)
    if numbered is not words:
        spelled = words = numbered
    found: list[str] = []
    for word, plain in zip(spelled, words):  # noqa: B905 - as long as one another
        if not plain.isascii() and _UNSPACED.search(plain):
            found += _neighbours(plain, without)
        elif plain not in without and ((word if language == "vi" else plain) not in empty or word in telling):
            found += _stems(plain[:_MAX_LETTERS], language)
    return found


def language_in(text: str) -> str:
    """Return the language of a text: de, es, vi, zh, other where most letters are no Latin ones, else en."""
    if text.isascii():
        return language_of(plain_words(text))
    letters = [letter for letter in text if letter.isalpha()]
    signs = sum(1 for letter in letters if _SIGN.match(letter))
    if 2 * signs > len(letters):
        return "zh"
    if 2 * sum(1 for letter in letters if not _LATIN.match(letter)) > len(letters):
        return "other"
    spelled = _spelled(text)
    return language_of([_plain(word) for word in spelled], _signs_of(text, spelled))


def _spelled(text: str) -> list[str]:
    """Return the words of a text in small letters, with their accents."""
    text = unicodedata.normalize("NFC", unicodedata.normalize("NFKC", text).casefold())
    # A vowel sign belongs to its letter in Indic scripts: what is no letter, digit or mark separates.
    text = "".join(
        letter if letter.isalnum() or unicodedata.category(letter)[0] == "M" else " " for letter in text
    )
    return [word for word in text.split() if _plain(word)]


def _signs_of(text: str, spelled: list[str]) -> str:
    """Return what tells the language of a text beside its words: their accents, and the signs of Spanish before them."""
    return " ".join((*spelled, *(sign for sign in "¿¡" if sign in text)))


def _plain(word: str) -> str:
    """Return a word without its accents."""
    return word if word.isascii() else _without_accents(word)


def without_accents(text: str) -> str:
    """Return a text as `plain_words` has its words: in small letters, without accents."""
    return _without_accents.__wrapped__(unicodedata.normalize("NFKC", text).casefold())


@lru_cache(maxsize=4096)
def _without_accents(word: str) -> str:
    bare = _ACCENT.sub("", unicodedata.normalize("NFD", word)).replace("đ", "d")
    return unicodedata.normalize("NFC", bare)


def _pieces(word: str) -> list[str]:
    """Return a word, or the single signs and what stands between them where no spaces are written."""
    return [word] if word.isascii() else _PIECE.findall(word)


def _numbered(words: list[str], language: str) -> list[str]:
    """Return words with digits for numbers; where the language may be a mistake, behind them what was said, too."""
    digits = with_digits(words, language)
    if digits is words or language == "en":
        return digits
    kept = set(digits)
    return [*digits, *(word for word in words if word not in kept)]


@lru_cache(maxsize=16384)
def _stems(word: str, language: str) -> tuple[str, ...]:
    english = stem(word)
    if language not in _STEMMED:
        return (english,)
    return tuple(dict.fromkeys((stem(word, language), english)))


def _neighbours(run: str, without: Collection[str]) -> Iterator[str]:
    """Yield what text without spaces is found by.

    Signs that tell nothing cut it. A kana alone tells nothing either: it is a syllable.
    """
    signs: list[str] = []
    for piece in (*_pieces(run), ""):
        if piece and _SIGN.match(piece) and piece not in EMPTY_SIGNS:
            signs.append(piece)
            continue
        yield from (sign for sign in signs if len(signs) == 1 or not _KANA.match(sign))
        yield from (first + second for first, second in pairwise(signs))
        signs = []
        if not piece or _SIGN.match(piece) or piece in without:
            continue
        if _UNSPACED.match(piece):
            last = max(1, len(piece) - _LETTERS_TOGETHER + 1)
            yield from (piece[at : at + _LETTERS_TOGETHER] for at in range(last))
        else:
            yield stem(piece[:_MAX_LETTERS])
