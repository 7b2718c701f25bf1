"""Idle time: upkeep of a memory while nobody speaks, by a thread that yields at once.

A step does one bounded piece of work and returns whether there was any. It gets a `stop` function that becomes true as soon
as somebody begins to speak. Steps are tried in the order of what the next turn needs most.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, NamedTuple
from weakref import WeakSet

Stop = Callable[[], bool]

AGAIN_S = 600.0
"""Seconds until the worker looks again, for work that only time makes due."""

_LOOK_S = 0.02  # seconds between two looks of a caller that waits for the worker's step

_log = logging.getLogger("edgemem.idle")


class IdleFailure(NamedTuple):
    """A kind of upkeep that failed: how often it has, and the newest message."""

    step: str
    times: int
    message: str


class IdleWorker:
    """Runs steps, most urgent first, when nobody speaks; `on_hold` runs in the speaker's thread and stops a long computation."""

    def __init__(
        self,
        steps: Mapping[str, Callable[[Stop], bool]],
        *,
        settle_s: Callable[[], float] = lambda: 0.5,
        on_hold: Callable[[], None] | None = None,
    ) -> None:
        self.again_s = AGAIN_S
        self._steps, self._settle_s, self._on_hold = steps, settle_s, on_hold
        # Weak, so that an agent that is dropped in the middle of a turn does not stop upkeep for ever.
        self._speaking: WeakSet[Any] = WeakSet()
        self._speaking_lock = threading.Lock()
        self._woken = threading.Event()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._failures: dict[str, IdleFailure] = {}
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, once; it begins with work due at the opening, and with the needs of the first turn."""
        if self._thread is None and not self._closed.is_set():
            self._woken.set()
            self._thread = threading.Thread(target=self._loop, name="edgemem-idle", daemon=True)
            self._thread.start()

    def hold(self, by: object = None) -> None:
        """Stop working: somebody speaks, or a turn runs. Callers are referenced weakly; agents may share one worker."""
        with self._speaking_lock:
            self._speaking.add(self if by is None else by)
        if self._on_hold is not None:
            self._on_hold()

    def release(self, by: object = None) -> None:
        """Go on with upkeep, unless another holds it: the turn is over."""
        with self._speaking_lock:
            self._speaking.discard(self if by is None else by)
        self._woken.set()

    def wake(self) -> None:
        """Look for work soon, unless somebody speaks."""
        self._woken.set()

    def run(self, seconds: float, *, yielding: bool = False, stop: Stop = lambda: False) -> bool:
        """Work in the caller's thread; return whether all is done. `stop` ends it, and with `yielding` somebody who speaks."""
        end = monotonic() + seconds

        def over() -> bool:
            return monotonic() >= end or self._closed.is_set() or (yielding and self.speaking) or stop()

        # The worker may be at a step; a caller without time does not wait for its end.
        while not self._lock.acquire(timeout=min(max(end - monotonic(), 0.0), _LOOK_S)):
            if over():
                return False
        try:
            return self._work(over)
        finally:
            self._lock.release()

    @property
    def speaking(self) -> bool:
        """Tell whether somebody speaks."""
        return len(self._speaking) > 0

    def failures(self) -> list[IdleFailure]:
        """Return what failed so far, the most frequent first."""
        return sorted(self._failures.values(), key=lambda failure: -failure.times)

    def close(self) -> None:
        """Stop the thread and wait for the step that runs."""
        self._closed.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join()

    def _loop(self) -> None:
        while not self._closed.is_set():
            self._woken.wait(self.again_s)
            self._woken.clear()
            if self._closed.wait(self._settle_s()) or self.speaking:
                continue
            with self._lock:
                self._work(lambda: self.speaking or self._closed.is_set())

    def _work(self, stop: Stop) -> bool:
        """Run steps, most urgent first, until none has work; a failing one is set aside for this round."""
        failed: set[str] = set()
        while not stop():
            for name, run in self._steps.items():
                if name in failed:
                    continue
                if stop():
                    return False
                try:
                    if run(stop):
                        break
                except Exception as error:  # noqa: BLE001 - upkeep must not stop because one kind of it fails; it is counted
                    failed.add(name)
                    self._note(name, error)
            else:
                return not failed
        return False

    def _note(self, name: str, error: Exception) -> None:
        times = self._failures[name].times + 1 if name in self._failures else 1
        self._failures[name] = IdleFailure(name, times, f"{type(error).__name__}: {error}")
        if times == 1:
            _log.warning(
                "idle work %s failed: %s (further failures are only counted)",
                *self._failures[name][::2],
                exc_info=error,
            )
