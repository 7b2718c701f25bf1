"""Repeated: whether a recalled turn tells more than the utterance that it was recalled for.

Who says again what was said once before, word for word with another phrase behind, hears nothing new from the memory of it.
A sentence of the turn that the utterance holds tells nothing, nor does one that only asks; what is left tells something if
it goes on from there: it shares a word with the utterance, or refers back ("It's on the shelf.").
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from edgemem.context.excerpt import tells
from edgemem.context.sentences import split_sentences
from edgemem.patterns import Pattern
from edgemem.provisions import provided
from edgemem.recall.common_words import COMMON_WORDS
from edgemem.recall.echoes import asks, only_asks
from edgemem.recall.stemmer import stem
from edgemem.recall.words import plain_words, terms

if TYPE_CHECKING:
    from collections.abc import Sequence

_FEWEST = 3
"""Words of a sentence, from which on it is no chance that both have it."""
_ALIKE = 0.75
"""The share of words that two questions have in common which ask the same, perhaps of another thing. Of the messages that answer
our own and LoCoMo's questions, one or two in a thousand have a sentence that is so much alike to the question."""
_MOST_CHARS = 2000
_REFERS = Pattern(
    r"(?:and |so |but |because |no,? |yes,? )?(?:it|it['’]s|that|that['’]s|this|they|they['’]re|he|he['’]s|she|she['’]s|there|there['’]s)\b",
    flags=re.IGNORECASE,
)


def adds(said: str, utterance: str) -> bool:
    """Tell whether what somebody said once tells more than the utterance; in doubt it does."""
    whole, uttered, repeated = _words_of(utterance)
    words = plain_words(said)
    if words == whole:
        return False
    if sum(word in uttered for word in words) < _FEWEST:
        return True  # too few for any sentence that both have, or that is much alike
    left, again = [], False
    for sentence in split_sentences(said[:_MOST_CHARS]):
        words = plain_words(sentence)
        rest = _without(words, repeated)
        if rest != words:
            again = True
            sentence = " ".join(rest)  # noqa: PLW2901
        elif only_asks(sentence) or asks(sentence):
            alike = any(_much_alike(words, each) for each in repeated)
            again = again or alike
            if alike or only_asks(sentence):
                continue
        left.append(sentence)
    if not again:
        return True
    asked = frozenset(terms(utterance))
    return any(_goes_on(sentence, asked) for sentence in left)


@lru_cache(maxsize=4)  # all that is recalled is held against the same utterance
def _words_of(utterance: str) -> tuple[list[str], frozenset[str], list[list[str]]]:
    """Return the words of an utterance, each of them once, and those of each of its sentences that can be said again."""
    words = plain_words(utterance)
    sentences = map(plain_words, split_sentences(utterance[:_MOST_CHARS]))
    return words, frozenset(words), [each for each in sentences if len(each) >= _FEWEST]


def _goes_on(sentence: str, asked: frozenset[str]) -> bool:
    """Tell whether a sentence says more of what it stands beside."""
    if _REFERS.match(sentence):
        return any(term not in _common_stems() for term in terms(sentence))
    return not asked.isdisjoint(terms(sentence)) and tells(sentence)


def _much_alike(one: list[str], other: list[str]) -> bool:
    """Tell whether two sentences have nearly all of their words in common, in the same order."""
    longest = [0] * (len(other) + 1)
    for word in one:
        before = 0
        for n, each in enumerate(other, 1):
            before, longest[n] = longest[n], before + 1 if word == each else max(longest[n], longest[n - 1])
    return longest[-1] >= _ALIKE * max(len(one), len(other), _FEWEST)


def _without(words: list[str], repeated: Sequence[list[str]]) -> list[str]:
    """Return words without those sentences that stand in them as a whole."""
    for sentence in repeated:
        size = len(sentence)
        for start in range(len(words) - size + 1):
            if words[start : start + size] == sentence:
                words = words[:start] + words[start + size :]
                break
    return words


@provided
def _common_stems() -> frozenset[str]:
    return frozenset(map(stem, COMMON_WORDS))
