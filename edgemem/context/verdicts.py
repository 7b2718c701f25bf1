"""Verdicts: what was found out about texts, yes or no; of the texts themselves nothing is kept but a hash.

Within one turn recall, the floors and the block ask the same of the same messages, and the same ones come again with the
next turn.
"""

from __future__ import annotations

from collections.abc import Callable

_MOST = 1024


class Verdicts:
    """A judge of texts who is asked once; safe to use from several threads.

    Args:
        judge: tells the same of the same texts, always.
        most: verdicts that are kept, of some 150 bytes each; the oldest go.
    """

    def __init__(self, judge: Callable[..., bool], *, most: int = _MOST) -> None:
        self._judge = judge
        self._most = most
        self._known: dict[tuple[int, ...], bool] = {}

    def __call__(self, *texts: str) -> bool:
        """Return what the judge says."""
        # Python keeps the hash of a text with it, and it says as little of the words as any other.
        key = tuple(part for text in texts for part in (hash(text), len(text)))
        known = self._known.get(key)
        if known is None:
            known = self._judge(*texts)
            if len(self._known) >= self._most:
                self._known.pop(next(iter(self._known), key), None)
            self._known[key] = known
        return known

    def __len__(self) -> int:
        return len(self._known)
