"""Pieces: a text that is longer than an embedder's window, cut so that each piece fits.

Cut between sentences, and a sentence that is too long between words; where the script has no spaces, between characters.
The pieces are of about one size, since a vector of the last three words alone is near to anything that has them, and a
short sentence at the end of one stands at the beginning of the next as well.

A text that fits is embedded as a whole, and each of its sentences that says something by itself: what somebody tells after
a greeting is near to a question as a sentence, and far from it within all that was said.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from edgemem.patterns import Pattern
from edgemem.recall.text.analyse import terms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.llama.protocols import Embedder

CHARS = 1000
"""Characters that go into one vector where the embedder cannot count its tokens: some 250 tokens of English."""
_SHARE = 8
"""A part of the window that a sentence may fill and still be said twice; longer ones are not."""
_AROUND = 8  # tokens that a model puts around a text, at most: where a text is so short, nothing is counted

# A closing quotation mark may follow the point. Looked for from the white space, which is searched in linear time.
_SAYS = 2  # terms of a sentence that says something
_END = Pattern(r"(?:(?<=[.!?…])|(?<=[.!?…][\"'”’»)\]]))\s+|(?<=[。！？])|\n+")
_SPACE = Pattern(r"\s+")


class Window(NamedTuple):
    """How much goes into one vector."""

    size: int
    """In tokens, or whatever `tokens` counts."""
    tokens: Callable[[Sequence[str]], list[int]]
    sure_bytes: int
    """Texts of at most so many bytes fit without being counted."""

    def split(self, text: str, most: int) -> list[str]:
        """Return a text in at most `most` pieces that fit; what is beyond them is left out.

        One that fits comes first as a whole, and its sentences after it.
        """
        if len(text.encode("utf-8", "replace")) <= self.sure_bytes:
            return sentences_of(text)[:most]
        whole, around = self.tokens([text, ""])
        room = self.size - around
        if whole <= self.size or room < _SHARE:
            return sentences_of(text)[:most]
        spans, costs = self._spans(text, max(1, room // _SHARE), room, around)
        pieces = (text[first:last].strip() for first, last in _pack(spans, costs, room))
        return list(itertools.islice(filter(None, pieces), most)) or [text]

    def _spans(
        self, text: str, small: int, room: int, around: int
    ) -> tuple[list[tuple[int, int]], list[int]]:
        """Return where sentences begin and end, and what each costs; those beyond the window in small parts."""
        done: list[tuple[tuple[int, int], int]] = []
        spans, limit = _sentences(text), room
        while spans:
            counts = self.tokens([text[first:last] for first, last in spans])
            todo = []
            for (first, last), count in zip(spans, counts, strict=True):
                cost = max(0, count - around)
                if cost <= limit or last - first < 2:  # of one character nothing can be cut
                    done.append(((first, last), cost))
                else:
                    # Half as long each time that it is still too long, so it ends after a few rounds.
                    todo += _words(
                        text, first, last, max(1, min((last - first) * small // cost, (last - first) // 2))
                    )
            spans, limit = todo, 2 * small
        done.sort()
        return [span for span, _ in done], [cost for _, cost in done]


def sentences_of(text: str) -> list[str]:
    """Return a text, and after it its sentences that say something, where there is more than one."""
    parts = [text[first:last].strip() for first, last in _sentences(text)]
    telling = [part for part in parts if len(terms(part)) >= _SAYS] if len(parts) > 1 else []
    return [text, *(part for part in dict.fromkeys(telling) if part != text)]


def window_of(embedder: Embedder) -> Window:
    """Return the window of an embedder."""
    if embedder.n_ctx:
        return Window(embedder.n_ctx, embedder.count_tokens, embedder.n_ctx - _AROUND)
    return Window(CHARS, lambda texts: [len(text) for text in texts], CHARS)


def _sentences(text: str) -> list[tuple[int, int]]:
    ends = [match.end() for match in _END.finditer(text)]
    return _between(0, [end for end in ends if end < len(text)], len(text))


def _words(text: str, first: int, last: int, length: int) -> list[tuple[int, int]]:
    """Cut a part of a text at about every `length` characters, after white space where there is any."""
    ends, at = [], first + length
    while at < last:
        spaces = [match.end() for match in _SPACE.finditer(text, max(first, at - length // 2), at)]
        cut = spaces[-1] if spaces else at
        ends.append(cut)
        at = cut + length
    return _between(first, ends, last)


def _between(first: int, ends: Sequence[int], last: int) -> list[tuple[int, int]]:
    borders = [first, *ends, last]
    return [(a, b) for a, b in itertools.pairwise(borders) if a < b]


def _pack(spans: Sequence[tuple[int, int]], costs: Sequence[int], room: int) -> list[tuple[int, int]]:
    """Put spans together to pieces of about one size, none above `room`; return where each begins and ends."""
    total = sum(costs)
    pieces = -(-total // room)
    even = min(room, -(-total // pieces) + room // _SHARE)
    packed: list[tuple[int, int]] = []
    begin, filled = 0, 0
    for at, cost in enumerate(costs):
        if filled and filled + cost > even:
            packed.append((spans[begin][0], spans[at - 1][1]))
            twice = costs[at - 1] <= room // _SHARE and costs[at - 1] + cost <= even and at - 1 > begin
            begin = at - 1 if twice else at
            filled = costs[at - 1] if twice else 0
        filled += cost
    packed.append((spans[begin][0], spans[-1][1]))
    return packed
