"""The report of a benchmark: figures, their bars, and the speed of the machine."""

from __future__ import annotations

import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import Any

import msgspec

_LOOPS = 200_000


class Bar(msgspec.Struct, frozen=True):
    """A figure and the limit that it must keep."""

    figure: float
    bar: float
    ok: bool


def at_most(figure: float, bar: float) -> Bar:
    """Hold a figure against an upper limit."""
    return Bar(round(figure, 4), bar, figure <= bar)


def at_least(figure: float, bar: float) -> Bar:
    """Hold a figure against a lower limit."""
    return Bar(round(figure, 4), bar, figure >= bar)


def report(name: str, figures: Mapping[str, Any], bars: Mapping[str, Bar]) -> dict[str, Any]:
    """Return what a benchmark prints."""
    return {
        "bench": name,
        "ok": all(bar.ok for bar in bars.values()),
        "bars": {what: msgspec.structs.asdict(bar) for what, bar in bars.items()},
        **figures,
        "machine": {
            "processor": platform.machine(),
            "cores": os.cpu_count() or 1,
            "python": platform.python_version(),
            "load": round(os.getloadavg()[0], 1),
            "calibration_ms": round(calibration_ms(), 2),
        },
    }


def calibration_ms() -> float:
    """Time a fixed loop of plain Python, in ms: absolute figures of two machines compare by this."""
    return statistics.median(timed_ms(_loop) for _ in range(9))


def _loop() -> None:
    total = 0
    for i in range(_LOOPS):
        total += i & 7


def timed_ms(work: Callable[[], Any]) -> float:
    """Return how long one call takes, in ms."""
    started = perf_counter()
    work()
    return (perf_counter() - started) * 1e3


def median(values: Iterable[float]) -> float:
    """Return the median, rounded to what can be read."""
    return round(statistics.median(values), 4)


def percentile(values: Iterable[float], share: float) -> float:
    """Return the value below which `share` (0 to 1) of the values lie."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 4)


def say(text: str) -> None:
    """Tell somebody who watches what takes so long."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)
