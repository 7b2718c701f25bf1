"""Excerpts: what was said in fewer sentences, each of them whole.

A speaker first says what a message is about, in the words that a question will have, and then what there is to know of it.
So an excerpt begins with the sentence that has most words of the question and goes on from there; a correction stands behind
the sentence that it corrects, too. `…` marks what was left out. Text that a recogniser wrote without full stops is cut into
parts of some words, and each part counts as a sentence.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from edgemem.context.sentences import split_sentences
from edgemem.provisions import Pattern, provided
from edgemem.recall.text.analyse import terms

if TYPE_CHECKING:
    from collections.abc import Iterator


GAP = "…"
"""Stands where something was left out."""

MOST_CHARS = 2000
"""An excerpt is made of this many characters at the beginning of a text."""

_ENDLESS_CHARS = 120
"""A sentence that is longer, and that no mark ends, is more than one."""
_PART = re.compile(r"\S.{0,59}(?!\S)|\S.{0,59}", re.DOTALL)
"""About as much of it as a clause; cut between two words, where there are any."""

_GREETING = Pattern(
    r"(?:(?:wow|who?a+h?|hey|hi|hiya|hello|oh|ooh+|ah+|aw+|yeah|yep|yup|okay|ok|well|ha(?:ha)+|lol|hm+|um+|uh+|gosh|gee|man"
    r"|thanks|thank you|congrats|congratulations|great|cool|awesome|nice|sure|absolutely|definitely|totally|of course"
    r"|no worries|no problem|you know|by the way|btw|(?:good )?(?:morning|evening|afternoon))"
    r"(?: so much| a lot| a bunch| again| there| everyone| everybody)?(?:,? (?!I\b)(?-i:[A-Z])\w+)?(?: *[,!.…]+ *| +[-–—]+ +|$))+",
    flags=re.IGNORECASE,
)  # fmt: skip


class Excerpt(NamedTuple):
    """Some sentences of a text that follow one another."""

    source: str
    spans: tuple[tuple[int, int], ...]
    """Where each sentence of the text begins, and where it is over."""
    first: int
    """The number of the first sentence of the excerpt."""
    end: int
    """The number of the first sentence behind the excerpt."""

    @property
    def whole(self) -> bool:
        """Return whether nothing was left out."""
        return self.end - self.first == len(self.spans)

    @property
    def text(self) -> str:
        """Return what is told, with a mark where there was more."""
        if self.whole:
            return self.source
        text = self.source[self.spans[self.first][0] : self.spans[self.end - 1][1]]
        return f"{GAP * (self.first > 0)}{text}{GAP * (self.end < len(self.spans))}"

    def longer(self) -> Iterator[Excerpt]:
        """Yield the same with the sentence behind it, and the same with the one before it."""
        if self.end < len(self.spans):
            yield self._replace(end=self.end + 1)
        if self.first > 0:
            yield self._replace(first=self.first - 1)


def whole(text: str) -> Excerpt:
    """Return a text of which nothing is left out."""
    return Excerpt(text, ((0, len(text)),), 0, 1)


def excerpt(text: str, asked: frozenset[str]) -> Excerpt:
    """Return the sentence of a text that has most of the question.

    Args:
        asked: stems of the question.
    """
    text = text[:MOST_CHARS]
    spans = tuple(_spans(text))
    if not spans:
        return whole(text)
    shared = [len(asked.intersection(terms(text[start:end]))) for start, end in spans]
    best = shared.index(max(shared))
    return Excerpt(text, spans, best, best + 1)


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each sentence begins, and where it is over."""
    end = 0
    for sentence in split_sentences(text):
        start = text.index(sentence, end)
        end = start + len(sentence)
        if len(sentence) > _ENDLESS_CHARS and sentence[-1].isalnum():
            yield from (part.span() for part in _PART.finditer(text, start, end))
        else:
            yield start, end


def tells(text: str) -> bool:
    """Tell whether a sentence says more than small talk does, so that a reader would miss it."""
    if _GREETING.fullmatch(text):
        return False
    stems = frozenset(terms(text)) - _empty()
    # A script without spaces makes one long word of a whole clause.
    return len(stems) > 1 or any(len(stem) > 2 and not stem.isascii() for stem in stems)


@provided
def _empty() -> frozenset[str]:
    """Return the stems of small talk."""
    return frozenset(
        terms(
            "wow great awesome amazing cool nice good glad happy lovely wonderful fantastic incredible excited exciting thank thanks"
            " hey hi hello congrats congratulations proud sound sounds hear hearing see look looks bet guess sure yeah really"
            " definitely totally absolutely thing things stuff way lot lots bit know think feel mean make makes love luck fun well"
            " best super inspiring special agree appreciate support impressive beautiful pretty gorgeous cute interesting"
        )
    )
