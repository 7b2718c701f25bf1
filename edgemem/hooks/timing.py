"""TimingHook: how long each hook took at each point, and how long the model and the tools took between them."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from edgemem.hooks.arguments import attachable
from edgemem.hooks.points import (
    AFTER_LLM,
    AFTER_TOOL,
    BEFORE_LLM,
    BEFORE_TOOL,
    ON_ABORT,
    ON_RUN_END,
    ON_RUN_START,
    HookResult,
)

logger = logging.getLogger("edgemem.timing")

_MOST_OPEN = 256
"""Spans that have begun and not ended; a loop that loses more ends than that is not measured further."""

_SPANS = {
    AFTER_LLM: (BEFORE_LLM, "model"),
    AFTER_TOOL: (BEFORE_TOOL, "tool"),
    ON_RUN_END: (ON_RUN_START, "turn"),
}
_BEGINNINGS = frozenset(begin for begin, _ in _SPANS.values())


class Timing(msgspec.Struct, frozen=True):
    """What one hook took at one point; `model`, `tool` and `turn` are the time between two points."""

    point: str
    hook: str
    count: int
    total_ms: float
    last_ms: float
    max_ms: float

    @property
    def mean_ms(self) -> float:
        """Return the mean time in milliseconds."""
        return self.total_ms / self.count


class TimingHook:
    """Measure without changing anything; several threads and loops may share one hook.

    The registry tells what each hook took (`note_timing`); in another framework's registry only the time
    between the points is known.
    """

    points = frozenset({ON_RUN_START, BEFORE_LLM, AFTER_LLM, BEFORE_TOOL, AFTER_TOOL, ON_RUN_END, ON_ABORT})
    # Behind all others, so that the time between two points is the model's and the tools' own.
    priority = 0
    __repr__ = attachable

    def __init__(self, *, log: bool = False, now: Callable[[], float] = time.perf_counter) -> None:
        """Make the hook.

        Args:
            log: whether a line of JSON goes to the logger `edgemem.timing` when a turn ends: the milliseconds of each
                hook at each point since the line before.
            now: seconds since some moment, never running backwards.
        """
        self._log = log
        self._logged: dict[tuple[str, str], float] = {}
        self._now = now
        self._lock = threading.Lock()
        self._timings: dict[tuple[str, str], Timing] = {}
        self._open: dict[tuple[str, int, str], float] = {}

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Take the time of a beginning, or count what has passed since."""
        now = self._now()
        if point == ON_ABORT:
            self._dropped(id(ctx))
        elif point in _BEGINNINGS:
            with self._lock:
                if len(self._open) < _MOST_OPEN:
                    self._open[point, id(ctx), _call(point, payload)] = now
        else:
            begin, name = _SPANS[point]
            with self._lock:
                begun = self._open.pop((begin, id(ctx), _call(begin, payload)), None)
            if begun is not None:
                self.note_timing(name, point, (now - begun) * 1e3)
            if point == ON_RUN_END:
                self._dropped(id(ctx))
                if self._log:
                    logger.info("%s", json.dumps(self._since()))
        return None

    def note_timing(self, hook: str, point: str, ms: float) -> None:
        """Count one call of a hook; the registry calls this."""
        with self._lock:
            before = self._timings.get((point, hook))
            if before is None:
                self._timings[point, hook] = Timing(point, hook, 1, ms, ms, ms)
            else:
                self._timings[point, hook] = Timing(
                    point, hook, before.count + 1, before.total_ms + ms, ms, max(before.max_ms, ms)
                )

    def timings(self) -> list[Timing]:
        """Return what was measured so far, the longest in total first."""
        with self._lock:
            return sorted(self._timings.values(), key=lambda timing: -timing.total_ms)

    def at(self, point: str) -> dict[str, Timing]:
        """Return what was measured at one point, by hook."""
        with self._lock:
            return {hook: timing for (where, hook), timing in self._timings.items() if where == point}

    def clear(self) -> None:
        """Forget what was measured."""
        with self._lock:
            self._timings.clear()
            self._logged.clear()

    def _since(self) -> dict[str, dict[str, float]]:
        """Return what was measured since the last call, by point and hook."""
        told: dict[str, dict[str, float]] = {}
        with self._lock:
            for key, timing in self._timings.items():
                took = timing.total_ms - self._logged.get(key, 0.0)
                if took > 0:
                    told.setdefault(timing.point, {})[timing.hook] = round(took, 3)
                self._logged[key] = timing.total_ms
        return told

    def _dropped(self, context: int) -> None:
        """Forget what began in a turn that is over: a context's number may be given to another one."""
        with self._lock:
            for key in [key for key in self._open if key[1] == context]:
                del self._open[key]


def _call(point: str, payload: Any) -> str:
    """Tell the calls of one turn apart that may run side by side."""
    if point == BEFORE_TOOL:
        # Frameworks without ids run a call's two points in the thread of the call.
        return str(getattr(payload, "id", "") or threading.get_ident())
    return ""
