"""The robot's clock: hybrid logical time that never runs backwards, and says whether the wall clock is right.

Boards without a battery-backed clock boot in 1970, network time may step by hours, and somebody may type the wrong year. Three
kinds of wall-clock reading are told apart:

- *plausible*: not before this release, nor before the newest tick. It is believed; a tick is the reading in microseconds.
- *behind*: plausible by itself, but before the newest tick: the wall was set back, or had jumped ahead and returned. Ticks go on
  by single microseconds, and `now` rests at the newest tick, until the wall has caught up. Running on by elapsed time instead
  would keep the clock ahead for ever.
- *ignored*: before the release, or more than ten years after everything known. The clock goes on from its newest tick by
  monotonic time, so one bad reading cannot push every later time ahead of the wall.

A board that is off for more than ten years needs a software update, which moves the release date. The order of ticks is right in
all of these cases; only their distance from true time differs, and `trust` tells. The clock keeps no file: the code that opens
a database lets it `witness` the newest tick, and again when another process may have written.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone, tzinfo

import msgspec

RELEASED = 1_767_225_600.0
"""2026-01-01 UTC, moved up with each release: no true wall clock can stand before it."""

_LEAP = 10 * 365.25 * 86400.0
_SLACK = 1.0  # network time slews, and a burst of ticks runs ahead: neither is worth a warning


class Trust(msgspec.Struct, frozen=True):
    """Whether the wall clock can be believed, and why not."""

    trusted: bool
    reason: str


class Clock:
    """Hand out times and ticks, also to several threads. `wall` may jump; `monotonic` never does while the process runs."""

    def __init__(
        self, *, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._newest = 0
        self._known = RELEASED
        self._known_at = monotonic()

    def now(self) -> float:
        """Return the best estimate of the time in seconds since the epoch, never before the newest tick."""
        with self._lock:
            return max(self._estimate(), self._newest / 1e6)

    def tick(self, *, after: int = 0) -> int:
        """Return a number of microseconds since the epoch that is larger than every tick before, and `after`."""
        with self._lock:
            self._newest = max(self._newest + 1, after + 1, int(self._estimate() * 1e6))
            return self._newest

    def witness(self, tick: int) -> None:
        """Take note of a tick that a file or another process holds; later ones will be larger."""
        with self._lock:
            if tick > self._newest:
                self._newest = tick
                if tick / 1e6 > self._elapsed():
                    self._known, self._known_at = tick / 1e6, self._monotonic()

    def trust(self) -> Trust:
        """Tell whether the wall clock can be believed, in words for the person in front of the robot."""
        with self._lock:
            wall, newest = self._wall(), self._newest / 1e6
            if wall < RELEASED:
                return Trust(False, "The clock stands before the release of this software; set it.")
            if self._leaps(wall):
                years = (wall - max(self._elapsed(), newest)) / (365.25 * 86400)
                return Trust(False, f"The clock is {years:.0f} years ahead of all that is stored; set it.")
            if (late := newest - wall) > _SLACK:
                return Trust(False, f"The clock is {span(late)} behind the newest record; set it or wait.")
            return Trust(True, "The clock is plausible.")

    def _estimate(self) -> float:
        wall = self._wall()
        if wall < RELEASED or self._leaps(wall):
            return self._elapsed()
        self._known, self._known_at = max(wall, self._newest / 1e6), self._monotonic()
        return wall

    def _elapsed(self) -> float:
        return self._known + (self._monotonic() - self._known_at)

    def _leaps(self, wall: float) -> bool:
        return not wall <= max(self._elapsed(), self._newest / 1e6) + _LEAP


def local(at: float, zone: tzinfo | None) -> datetime:
    """Return a moment, seconds since the epoch, in a zone; None: this machine's; raise ValueError or OverflowError for no date."""
    try:
        return datetime.fromtimestamp(at, timezone.utc).astimezone(zone)
    except OSError as error:
        raise ValueError(str(error)) from error


def span(seconds: float) -> str:
    """Return a stretch of time in words."""
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"
