"""The idle worker: upkeep in small steps, in a thread that yields at once to whoever speaks.

A step is a function that does one bounded piece of work and says whether there was any. Steps are tried in
order of what the next turn needs most; a step gets a `stop` function that becomes true as soon as somebody
begins to speak.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any
from weakref import WeakSet

import msgspec

log = logging.getLogger("edgemem.idle")

Stop = Callable[[], bool]

AGAIN_S = 600.0
"""Seconds until the worker looks again, for work that only time makes due."""


class Step(msgspec.Struct, frozen=True):
    """One kind of upkeep."""

    name: str
    run: Callable[[Stop], bool]
    """Do a bounded piece of work; return whether there was any."""


class IdleFailure(msgspec.Struct, frozen=True):
    """A kind of upkeep that failed: how often, and the newest message."""

    step: str
    count: int
    message: str


class IdleWorker:
    """Runs steps when nobody speaks."""

    def __init__(
        self,
        steps: Sequence[Step],
        *,
        settle_s: float = 0.5,
        again_s: float = AGAIN_S,
        on_hold: Callable[[], None] = lambda: None,
    ) -> None:
        """Make the worker; nothing runs until `start`.

        Args:
            on_hold: called as soon as somebody speaks, in their thread: stops what a step cannot look up from.
            settle_s: how long it waits after a turn before it begins, in seconds.
            again_s: how long it waits before it looks again, for work that only time makes due.
        """
        self._steps = tuple(steps)
        self.settle_s = settle_s
        self.again_s = again_s
        self._on_hold = on_hold
        # Weak, so that an agent that is dropped in the middle of a turn does not stop upkeep for ever.
        self._speaking: WeakSet[Any] = WeakSet()
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._held = threading.Lock()
        self._failures: dict[str, IdleFailure] = {}
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, once; it begins with what was due when the memory was opened, and what the first turn needs."""
        if self._thread is None and not self._closed.is_set():
            self._wake.set()
            self._thread = threading.Thread(target=self._loop, name="edgemem-idle", daemon=True)
            self._thread.start()

    def hold(self, by: object = None) -> None:
        """Stop working: somebody speaks, or a turn runs.

        Args:
            by: who asks for it, an object that is referenced weakly; several agents may share one worker.
        """
        with self._held:
            self._speaking.add(self if by is None else by)
        self._on_hold()

    def release(self, by: object = None) -> None:
        """Go on with upkeep, unless another holds it: the turn is over."""
        with self._held:
            self._speaking.discard(self if by is None else by)
        self._wake.set()

    def wake(self) -> None:
        """Look for work soon, unless somebody speaks."""
        self._wake.set()

    def run(self, seconds: float, *, yielding: bool = False) -> bool:
        """Work in the caller's thread until nothing is left or the time is over; return whether all was done.

        Args:
            yielding: stop when somebody speaks, too; it is another agent's quiet that is used.
        """
        end = monotonic() + seconds

        def stop() -> bool:
            return monotonic() >= end or self._closed.is_set() or (yielding and self.held)

        # The worker may be at a step; whoever gives no time does not wait for its end.
        if not self._lock.acquire(timeout=min(max(seconds, 0.0), threading.TIMEOUT_MAX)):
            return False
        try:
            return self._work(stop)
        finally:
            self._lock.release()

    @property
    def held(self) -> bool:
        """Tell whether somebody speaks."""
        return len(self._speaking) > 0

    @property
    def working(self) -> bool:
        """Tell whether a step runs at this moment."""
        return self._lock.locked()

    def failures(self) -> list[IdleFailure]:
        """Return what failed so far."""
        return sorted(self._failures.values(), key=lambda failure: -failure.count)

    def close(self) -> None:
        """Stop the thread and wait for the step that runs."""
        self._closed.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _loop(self) -> None:
        while not self._closed.is_set():
            self._wake.wait(self.again_s)
            self._wake.clear()
            if self._closed.wait(self.settle_s) or self.held:
                continue
            with self._lock:
                self._work(lambda: self.held or self._closed.is_set())

    def _work(self, stop: Stop) -> bool:
        """Run steps, most urgent first, until none has work; a failing one is set aside for this round."""
        failed: set[str] = set()
        while not stop():
            for step in self._steps:
                if step.name in failed:
                    continue
                if stop():
                    return False
                try:
                    worked = step.run(stop)
                except Exception as error:  # noqa: BLE001 - upkeep must not stop because one kind of it fails; it is counted
                    failed.add(step.name)
                    self._failed(step, error)
                    continue
                if worked:
                    break
            else:
                return not failed
        return False

    def _failed(self, step: Step, error: Exception) -> None:
        before = self._failures.get(step.name)
        count = before.count + 1 if before else 1
        message = f"{type(error).__name__}: {error}"
        self._failures[step.name] = IdleFailure(step.name, count, message)
        if count == 1:
            log.warning(
                "idle work %s failed: %s (further failures are only counted)",
                step.name,
                message,
                exc_info=error,
            )
