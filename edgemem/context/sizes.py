"""Sizes: how many tokens texts take, each counted once; of the texts themselves nothing is kept but a hash.

Tokenising takes a microsecond for each character, and the same lines come again: the block is measured when it is filled, and
once more as part of the message that carries it; what was said is measured in idle time, and then with each later prompt.
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
        found = self.found(text)
        if found is not None:
            return found
        block, rest = self._apart(text)
        if block is None:
            return self.of(text)
        size = block + self.of(rest)
        self._keep(_key(text), size)
        return size

    def found(self, text: str) -> int | None:
        """Return what `about` does where nothing is left to tokenise for it, else None."""
        known = self.known(text)
        if known is None:
            block, rest = self._apart(text)
            behind = self.known(rest) if block is not None else None
            if block is not None and behind is not None:
                known = block + behind
                self._keep(_key(text), known)
        return known

    def at_most(self, text: str) -> int:
        """Return what a text does not exceed, and tokenise nothing: bytes stand for what was never counted."""
        known = self.found(text)
        if known is not None:
            return known
        block, rest = self._apart(text)
        return (block or 0) + len(rest.encode(errors="replace"))

    def note(self, text: str, tokens: int) -> None:
        """Keep what a text takes, as the parts that it is made of were counted."""
        self._keep(_key(text), tokens)

    def forget(self) -> None:
        """Keep nothing."""
        self._known.clear()

    def _apart(self, text: str) -> tuple[int | None, str]:
        """Return what the block before a text takes, if that is known, and what stands behind it."""
        if not is_fenced(text):
            return None, text
        end = text.index(CLOSE) + len(CLOSE)
        block = self.known(text[:end])
        return block, text if block is None else text[end:]

    def _keep(self, key: tuple[int, int], size: int) -> None:
        self._known[key] = size
        if len(self._known) > _MOST:
            self._known.popitem(last=False)


def _key(text: str) -> tuple[int, int]:
    # Python keeps the hash of a text with it, and it says as little of the words as any other.
    return hash(text), len(text)
