"""All that was ever said about one key, in memory: what is believed of which time, since when, and what is doubted.

The same said in the same order gives the same timeline, whatever the threshold is by then: what was heard badly when it
was said stays so. So it is enough to keep what was said.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from edgemem.store.doubts import contradicts, heard_badly
from edgemem.store.rectangles import Rectangle, cut, is_news

if TYPE_CHECKING:
    from collections.abc import Iterator


class Held(NamedTuple):
    """A rectangle with the time in which it was believed, in microseconds since the epoch."""

    rectangle: Rectangle
    recorded: int
    known_to: int | None = None


class Doubt(NamedTuple):
    """What was heard badly and contradicts what was heard well; once settled, it is refuted or became a fact."""

    rectangle: Rectangle
    settled: int | None = None
    confirmed_by: int | None = None


class Timeline:
    """What was said of one key.

    Args:
        doubtful_below: what a recogniser was less sure of is a doubt where it contradicts what was heard well.
    """

    def __init__(self, *, doubtful_below: float = 0.0) -> None:
        self.doubts: list[Doubt] = []
        self.news = False
        """Whether what was said last changed what is believed, and did not only settle a doubt."""
        self._below = doubtful_below
        self._believed: list[Held] = []
        """In the order of valid time, without gaps."""
        self._closed: list[Held] = []
        self._repeated: list[Rectangle] = []
        """What was known, but settled a doubt."""
        self._newest = 0

    def say(self, said: Rectangle, recorded: int, *, now: bool = False) -> bool:
        """Take note of what was said at `recorded`; tell whether anything changed.

        What was said before the newest, by another process, takes its place among the others.

        Args:
            now: it holds since it was said, or since the doubt that it confirms.
        """
        if recorded > self._newest:
            return self._take(said._replace(id=recorded, origin=recorded), now=now)
        before = self.said()
        everything = sorted([*before, said._replace(id=recorded)], key=_id)
        self.doubts, self._believed, self._closed, self._repeated, self._newest = [], [], [], [], 0
        for each in everything:
            number = max(each.id, self._newest + 1)
            self._take(each._replace(id=number, origin=number), now=False)
        return self.said() != before

    def at(self, t: float, *, known_at: int | None = None) -> Held | None:
        """Return what is believed of a moment, or what was believed when only `known_at` had come."""
        if known_at is None:
            return self._believed[bisect_right(self._believed, t, key=_begin) - 1] if self._believed else None
        for held in (*self._believed, *self._closed):
            begin, end = held.rectangle.valid_from, held.rectangle.valid_to
            known = held.recorded <= known_at and (held.known_to is None or known_at < held.known_to)
            if known and begin <= t and (end is None or t < end):
                return held
        return None

    def is_unsure(self, what: Rectangle) -> bool:
        """Tell whether something is believed because it was heard badly twice."""
        return bool(what.badly) and any(doubt.confirmed_by == what.origin for doubt in self.doubts)

    def __iter__(self) -> Iterator[Held]:
        """Yield all that was ever believed, in the order in which it was."""
        return iter(sorted((*self._closed, *self._believed), key=lambda held: held.recorded))

    def said(self) -> list[Rectangle]:
        """Return what was said, oldest first, numbered by when."""
        believed = [held.rectangle for held in (*self._closed, *self._believed) if held.rectangle.id]
        doubted = [doubt.rectangle for doubt in self.doubts]
        return sorted([*believed, *doubted, *self._repeated], key=_id)

    def _take(self, said: Rectangle, *, now: bool) -> bool:
        # Decided once: another threshold later must not change what was believed.
        said = said._replace(badly=heard_badly(said, self._below))
        self.news = False
        first_heard = self._first_heard(said)
        if now and first_heard is not None:
            said = said._replace(valid_from=min(first_heard, said.valid_from))
        first, after = self._touched(said)
        touched = [held.rectangle for held in self._believed[first:after]]
        confirmed = {doubt.confirmed_by for doubt in self.doubts if doubt.confirmed_by is not None}
        if first_heard is None and contradicts(said, touched, self._below, confirmed):
            self._newest = said.id
            self.doubts.append(Doubt(said))
            return True
        well = not heard_badly(said, self._below)
        # The same value is news all the same when it is heard well at last: then it is safe from what is heard badly.
        if not is_news(touched, said) and not (
            well and any(heard_badly(old, self._below) for old in touched)
        ):
            if not (well and self._settle(said, touched[0].origin)):
                return False
            self._newest = said.id
            self._repeated.append(said)
            return True
        self.news = True
        self._newest = said.id
        self._closed += [held._replace(known_to=said.id) for held in self._believed[first:after]]
        # Only what was said has a number: by that it is told apart from what is left of something older.
        *rest, new = cut(touched, said)
        pieces = [*(piece._replace(id=0) for piece in rest), new]
        pieces.sort(key=lambda piece: piece.valid_from)
        self._believed[first:after] = [Held(piece, said.id) for piece in pieces]
        self._settle(said, said.id)
        return True

    def _touched(self, said: Rectangle) -> tuple[int, int]:
        """Return which of the believed rectangles a saying touches: from the first one up to before the second."""
        first = max(bisect_right(self._believed, said.valid_from, key=_begin) - 1, 0)
        after = first
        while after < len(self._believed) and (
            said.valid_to is None or _begin(self._believed[after]) < said.valid_to
        ):
            after += 1
        return first, after

    def _first_heard(self, said: Rectangle) -> float | None:
        what = (said.value, said.level, said.owner)
        begins = [
            old.valid_from
            for old, settled, _ in self.doubts
            if settled is None and (old.value, old.level, old.owner) == what and _overlap(old, said)
        ]
        return min(begins, default=None)

    def _settle(self, said: Rectangle, fact: int) -> bool:
        """End the doubts of the time that something is believed of now; tell whether there were any."""
        before = self.doubts
        self.doubts = [
            Doubt(old, said.id, fact if old.value == said.value else None)
            if settled is None and _overlap(old, said)
            else Doubt(old, settled, by)
            for old, settled, by in before
        ]
        return self.doubts != before


def _overlap(one: Rectangle, other: Rectangle) -> bool:
    return (other.valid_to is None or one.valid_from < other.valid_to) and (
        one.valid_to is None or other.valid_from < one.valid_to
    )


def _begin(held: Held) -> float:
    return held.rectangle.valid_from


def _id(said: Rectangle) -> int:
    return said.id
