"""Repeated: whether a recalled turn tells more than the utterance that it was recalled for.

Who says again what was said once before, word for word with another phrase behind, hears nothing new from the memory of it.
A sentence of the turn that the utterance holds tells nothing, nor does one that only asks; what is left tells something if
it goes on from there: it shares a word with the utterance, or refers back ("It's on the shelf.").
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from edgemem.context.asking import only_asks
from edgemem.context.excerpt import tells
from edgemem.context.sentences import split_sentences
from edgemem.recall.common_words import COMMON_WORDS
from edgemem.recall.stemmer import stem
from edgemem.recall.words import plain_words, terms

if TYPE_CHECKING:
    from collections.abc import Sequence

_FEWEST = 3
"""Words of a sentence, from which on it is no chance that both have it."""
_MOST_CHARS = 2000
_REFERS = re.compile(
    r"(?:and |so |but |because |no,? |yes,? )?(?:it|it['’]s|that|that['’]s|this|they|they['’]re|he|he['’]s|she|she['’]s|there|there['’]s)\b",
    re.IGNORECASE,
)

_COMMON = frozenset(map(stem, COMMON_WORDS))


def tells_more(said: str, utterance: str) -> bool:
    """Tell whether what somebody said once answers anything, and says more than the utterance; in doubt it does."""
    return not only_asks(said) and adds(said, utterance)


def adds(said: str, utterance: str) -> bool:
    """Tell whether what somebody said once tells more than the utterance; in doubt it does."""
    if plain_words(said) == plain_words(utterance):
        return False
    repeated = [
        words
        for each in split_sentences(utterance[:_MOST_CHARS])
        if len(words := plain_words(each)) >= _FEWEST
    ]
    left, again = [], False
    for sentence in split_sentences(said[:_MOST_CHARS]):
        words = plain_words(sentence)
        rest = _without(words, repeated)
        if rest != words:
            again = True
            sentence = " ".join(rest)  # noqa: PLW2901
        elif only_asks(sentence):
            continue
        left.append(sentence)
    if not again:
        return True
    asked = frozenset(terms(utterance))
    return any(_goes_on(sentence, asked) for sentence in left)


def _goes_on(sentence: str, asked: frozenset[str]) -> bool:
    """Tell whether a sentence says more of what it stands beside."""
    if _REFERS.match(sentence):
        return any(term not in _COMMON for term in terms(sentence))
    return not asked.isdisjoint(terms(sentence)) and tells(sentence)


def _without(words: list[str], repeated: Sequence[list[str]]) -> list[str]:
    """Return words without those sentences that stand in them as a whole."""
    for sentence in repeated:
        size = len(sentence)
        for start in range(len(words) - size + 1):
            if words[start : start + size] == sentence:
                words = words[:start] + words[start + size :]
                break
    return words
