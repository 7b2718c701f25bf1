"""Words: what text is matched by. Index, query and text that is not indexed yet all pass through here."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from edgemem.recall.languages import EMPTY_SIGNS, STOP_WORDS, is_empty, language_of
from edgemem.recall.stemmer import stem, stems_version

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

__all__ = ["STOP_WORDS", "plain_words", "spell_out", "terms", "words_version"]

_RULES = "3"

_RUN = re.compile(r"[^\W_]+")
_ACCENT = re.compile("[\u0300-\u036f]")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MAX_LETTERS = 64
_UNSPACED = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_SIGN = re.compile(f"[{_UNSPACED}]")
_SIGNS_OR_WORD = re.compile(f"[{_UNSPACED}]|[^{_UNSPACED}]+")


def words_version() -> str:
    """Return what changes with every rule below; an index made by other rules is made again."""
    return f"{_RULES}/{stems_version()}"


def plain_words(text: str) -> list[str]:
    """Return the words of a text in order: lower case, without accents, stop words included.

    Where no spaces are written, as in Chinese, each sign is one.
    """
    if text.isascii():
        return [word[:_MAX_LETTERS] for word in _RUN.findall(text.lower())]
    return [plain for spelled in _spelled(text) for plain in _split(_plain(spelled))]


def terms(text: str, *, without: Collection[str] = ()) -> list[str]:
    """Return what a text is found by, in order, repeated as often as it stands there: stems, and pairs of signs.

    A word of a language other than English gives its English stem as well, if that is another one: so a question too
    short to tell its language finds it, and a name has one stem everywhere.

    Args:
        without: plain words that are left out, such as names.
    """
    if text.isascii():
        spelled = plain = plain_words(text)
    else:
        spelled = _spelled(text)
        plain = [_plain(word) for word in spelled]
    language = language_of(spelled, plain)
    found: list[str] = []
    for word, bare in zip(spelled, plain):
        if not bare.isascii() and _SIGN.search(bare):
            found += _pairs(bare, without)
        elif bare not in without and not is_empty(word, bare, language):
            found += _stems(bare, language)
    return found


def spell_out(key: str) -> str:
    """Return the words of a key such as `user.favouriteColour` or `door_code`, with spaces between them."""
    return " ".join(_HUMP.sub(" ", key).replace("_", " ").replace(".", " ").replace("-", " ").split())


def _spelled(text: str) -> list[str]:
    """Return the words of a text in small letters, with their accents."""
    text = unicodedata.normalize("NFC", unicodedata.normalize("NFKC", text).casefold())
    # A vowel sign belongs to its letter in Indic scripts: what is no letter, digit or mark separates.
    text = "".join(
        letter if letter.isalnum() or unicodedata.category(letter)[0] == "M" else " " for letter in text
    )
    return [word for word in text.split() if _plain(word)]


@lru_cache(maxsize=4096)
def _plain(word: str) -> str:
    """Return a word without its accents."""
    if word.isascii():
        return word[:_MAX_LETTERS]
    bare = _ACCENT.sub("", unicodedata.normalize("NFD", word)).replace("đ", "d")
    return unicodedata.normalize("NFC", bare)[:_MAX_LETTERS]


def _split(word: str) -> Sequence[str]:
    """Return a word, or the single signs where no spaces are written."""
    return [word] if word.isascii() else _SIGNS_OR_WORD.findall(word)


@lru_cache(maxsize=16384)
def _stems(word: str, language: str) -> tuple[str, ...]:
    english = stem(word)
    if language not in {"de", "es"}:
        return (english,)
    own = stem(word, language)
    return (own,) if own == english else (own, english)


def _pairs(run: str, without: Collection[str]) -> Iterator[str]:
    """Yield what signs without spaces are found by: each with the one behind it, cut where a sign tells nothing."""
    piece: list[str] = []
    for part in (*_split(run), ""):
        if part and _SIGN.match(part) and part not in EMPTY_SIGNS:
            piece.append(part)
            continue
        if len(piece) == 1:
            yield piece[0]
        yield from (first + second for first, second in zip(piece, piece[1:]))
        piece = []
        if part and not _SIGN.match(part) and part not in without:
            yield stem(part)
