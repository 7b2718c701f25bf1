"""The check of a summary that a model wrote: it holds no number, date or name that the record does not hold.

A refused one costs little: sentences that were said take its place. In German each noun that nobody
said is refused, and in scripts without capitals each sign.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timezone
from typing import TYPE_CHECKING

import msgspec

from edgemem.context.sentences import split_sentences
from edgemem.fence import clean
from edgemem.languages.words import common_words, function_words
from edgemem.recall.dates.phrases import mentions
from edgemem.recall.text.analyse import empty_words, language_in, plain_words, stem, without_accents
from edgemem.recall.text.numbers import with_digits

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer


_WORD = re.compile(r"[^\W\d_]+")
_SIGN = re.compile("[\u30a1-\u30fa\u3400-\u9fff\uac00-\ud7af]")


class Refusal(msgspec.Struct, frozen=True):
    """Why a summary is not used."""

    kind: str  # `empty`, `cut off`, `too long`, `markers`, `unknown numbers`, `unknown dates` or `unknown names`
    reason: str
    """A sentence; it may quote the summary."""


def check_summary(
    summary: str, source: Sequence[str], *, tokenizer: Tokenizer, max_tokens: int, ended: bool = True
) -> Refusal | None:
    """Return why a summary cannot be used, or None.

    Args:
        source: the lines that it is made of, such as `Alice: I moved to Bonn.`
        ended: whether the model stopped by itself.
    """
    if not any(map(str.isalpha, summary)):
        return Refusal("empty", "It is empty.")
    if not ended:
        return Refusal("cut off", "It is cut off.")
    if (tokens := len(tokenizer.encode(summary))) > max_tokens:
        return Refusal("too long", f"It takes {tokens} tokens, and {max_tokens} are planned.")
    for line in (" ".join(line.split()) for line in summary.splitlines()):
        if clean(line, max_chars=len(line) + 1) != line:
            return Refusal("markers", f"It holds markers of a role, a tool call or a fence: “{line}”.")
    known = empty_words("en").union(
        form for line in source for word in _WORD.findall(line) for form in _forms(word)
    )
    for kind, unknown in (
        ("unknown numbers", _numbers(summary.splitlines()) - _numbers(source)),
        ("unknown dates", set(_dates(summary, known))),
        ("unknown names", set(_SIGN.findall(summary)).difference(*source).union(_names(summary, known))),
    ):
        if unknown:
            return Refusal(kind, f"Nobody said {min(unknown)}.")
    return None


def _numbers(lines: Sequence[str]) -> set[str]:
    """Return the numbers of some lines as digits: `3,000` and three thousand are both `3000`."""
    joined = (re.sub(r"(?<=\d)[.,](?=\d{3}(?!\d))", "", line) for line in lines)
    words = (word for line in joined for word in with_digits(plain_words(line), language_in(line)))
    return {number for word in words for number in re.findall(r"\d+", word)}


def _dates(summary: str, known: frozenset[str]) -> Iterator[str]:
    """Yield the days, months and other times of a summary that have a word which is not known."""
    for span in (span for line in summary.splitlines() for span in mentions(line, 0.0, timezone.utc)):
        if any(map(known.isdisjoint, map(_forms, _WORD.findall(_SIGN.sub(" ", span.text))))):
            yield span.text


def _names(summary: str, known: frozenset[str]) -> Iterator[str]:
    """Yield the words of a summary with a capital that are not known; a common word may begin a sentence."""
    for sentence in (part for line in summary.splitlines() for part in split_sentences(line)):
        for match in _WORD.finditer(sentence):
            before = sentence[: match.start()].rstrip(" \"'“„«¿¡(")
            first = not before or before.endswith(":")
            common = (empty_words("en"), function_words(), common_words()) if first else ()
            if match[0][0].isupper() and all(
                _forms(match[0]).isdisjoint(words) for words in (known, *common)
            ):
                yield match[0]


def _forms(word: str) -> set[str]:
    """Return a word in small letters, without accents, without an `s` at its end, and its stems."""
    plain = without_accents(word)
    return {word.casefold(), plain, plain.removesuffix("s"), stem(plain), stem(plain, "de")}
