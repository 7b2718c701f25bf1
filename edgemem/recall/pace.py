"""Pace: when a recall for a half-heard sentence begins, so that it is neither too late nor made in vain."""

from __future__ import annotations

from collections import deque

_LONGEST_S = 1.0
"""For how long a text is left to settle at most, however late the recogniser says that a sentence is over."""

_MARGIN = 0.75
"""What of the time that is left is used: the next sentence's end may be known sooner."""

_LEARNT = 8
"""Of so many sentences and recalls the times are known."""


class Pace:
    """Learns how late the ends of sentences are known, and how long a recall takes; times by any one clock, in seconds.

    Args:
        settle_s: how long a text must stand at least before it is worth a recall: recognisers change their minds several
            times a word.
        share: the part of one core, 0 to 1, that recalls may take.
    """

    def __init__(self, settle_s: float, share: float) -> None:
        self.settle_s = settle_s
        self.share = share
        self._ends: deque[float] = deque(maxlen=_LEARNT)
        self._took: deque[float] = deque(maxlen=_LEARNT)
        self._rests_until = 0.0

    @property
    def settles_s(self) -> float:
        """Return for how long a text must stand: as long as leaves time to recall for it before the sentence is known to end.

        Where that is longer than people take between two words, next to nothing is recalled in vain.
        """
        spare = _MARGIN * (min(self._ends, default=0.0) - 2 * max(self._took, default=0.0))
        return min(max(self.settle_s, spare), max(self.settle_s, _LONGEST_S))

    def due(self, since: float) -> float:
        """Return when a recall begins for a text that has stood since then."""
        return max(since + self.settles_s, self._rests_until)

    def ended(self, after_s: float) -> None:
        """Note how long after its last word a sentence was known to be over."""
        self._ends.append(after_s)

    def took(self, due: float, begun: float, end: float) -> None:
        """Note a recall, and rest for as long as the share of a core demands."""
        self._took.append(end - due)
        self._rests_until = end + (end - begun) * (1 / self.share - 1 if self.share else 0.0)
