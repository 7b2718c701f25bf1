"""Other rules for words: no stems, so that "boats" is found by "boats" alone, and vowels count in no name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from edgemem.recall.text import analyse as words


@contextmanager
def other_rules() -> Iterator[None]:
    """Cut words by other rules than edgemem's, as an older edgemem did."""
    before = words.WORDS_VERSION, words.stem
    words.WORDS_VERSION, words.stem = "other", lambda word, *_: word
    words.stems.cache_clear()
    try:
        yield
    finally:
        words.WORDS_VERSION, words.stem = before
        words.stems.cache_clear()
