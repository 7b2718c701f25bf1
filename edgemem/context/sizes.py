"""Sizes: how many tokens texts take, each counted once; of the texts themselves nothing is kept but a hash.

Tokenising takes a microsecond for each character, and the same lines come again: the block is measured when it is filled, and
once more as part of the message that carries it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from edgemem.fence import CLOSE, is_fenced

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer

_MOST = 2048


class Sizes:
    """Tokens of the newest texts, as one tokenizer counts them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._known: OrderedDict[tuple[int, int], int] = OrderedDict()

    def known(self, text: str) -> int | None:
        """Return what a text takes, if it was counted."""
        return self._known.get(_key(text))

    def of(self, text: str) -> int:
        """Return what a text takes."""
        key = _key(text)
        size = self._known.get(key)
        if size is None:
            size = len(self.tokenizer.encode(text))
            self._keep(key, size)
        return size

    def about(self, text: str) -> int:
        """Return what a text takes; a block before it that is known is not counted anew, and may share a token with it."""
        if self.known(text) is None and is_fenced(text):
            end = text.index(CLOSE) + len(CLOSE)
            block = self.known(text[:end])
            if block is not None:
                self._keep(_key(text), block + self.of(text[end:]))
        return self.of(text)

    def note(self, text: str, tokens: int) -> None:
        """Keep what a text takes, as the parts that it is made of were counted."""
        self._keep(_key(text), tokens)

    def forget(self) -> None:
        """Keep nothing."""
        self._known.clear()

    def _keep(self, key: tuple[int, int], size: int) -> None:
        self._known[key] = size
        if len(self._known) > _MOST:
            self._known.popitem(last=False)


def _key(text: str) -> tuple[int, int]:
    # Python keeps the hash of a text with it, and it says as little of the words as any other.
    return hash(text), len(text)
