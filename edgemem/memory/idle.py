"""Idle time: what is done for a memory while nobody speaks, in small steps, by a thread that yields at once.

A step is a function that does one bounded piece of work and says whether there was any. Steps are tried in the order of
what the next turn needs most; a step gets a `stop` function that becomes true as soon as somebody begins to speak.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import msgspec

from edgemem.errors import EdgememError

if TYPE_CHECKING:
    from edgemem.config import Settings
    from edgemem.hooks.turn_log import FigureFile
    from edgemem.memory.parts import Parts
    from edgemem.memory.running import Running

Stop = Callable[[], bool]

AGAIN_S = 600.0
"""Seconds until the worker looks again, for work that only time makes due."""

_log = logging.getLogger("edgemem.idle")

INDEX_WAIT_S = 600.0
"""Seconds after which rows are indexed even if they are few, so that their meaning is found as well."""

_ERASE_AGAIN_S = 2.0
"""Seconds until an erasing that somebody's reading keeps from its end is tried again."""


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
        settle_s: Callable[[], float] = lambda: 0.5,
        on_hold: Callable[[], None] = lambda: None,
    ) -> None:
        """Make the worker; nothing runs until `start`.

        `settle_s()` is how long it waits after a turn. `on_hold` is called as soon as somebody speaks, in their thread: it
        stops what a step cannot look up from.
        """
        self._steps = tuple(steps)
        self._settle_s = settle_s
        self.again_s = AGAIN_S
        """How long it waits before it looks again, for work that only time makes due."""
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
        """Stop working: somebody speaks, or a turn runs. Whoever asks is referenced weakly; several agents may share one worker."""
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

        Where it is another agent's quiet that is used, `yielding` stops it when somebody speaks, too.
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
            if self._closed.wait(self._settle_s()) or self.held:
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
            _log.warning(
                "idle work %s failed: %s (further failures are only counted)",
                step.name,
                message,
                exc_info=error,
            )


class Upkeep:
    """The steps of a memory's upkeep, and the worker that runs them.

    `renew` takes what was changed in the profile, and a model that came; `give_way` stops what a step computes.
    """

    def __init__(
        self,
        parts: Parts,
        running: Running,
        figures: FigureFile,
        *,
        settings: Settings,
        renew: Callable[[], bool],
        give_way: Callable[[], None],
    ) -> None:
        self._parts = parts
        self._figures = figures
        self._settings = settings
        self._renew = renew
        self._thorough = False
        self._eraser = parts.eraser
        self.worker = IdleWorker(
            (
                Step("settings", lambda stop: not stop() and self._renew()),
                Step("waiting turns", self._write_waiting),
                Step("erase", self._erase),
                Step("compact", running.compact),
                Step("index", self._catch_up),
                Step("embed new", self._embed_new),
                Step("embed", self._embed),
                Step("read ahead", running.read_ahead),
                Step("warm", parts.warm),
                Step("back up", parts.backups.work),
                Step("figures", lambda _stop: self._figures.write(at_once=self._thorough)),
            ),
            settle_s=lambda: settings.now.idle.settle_s,
            on_hold=give_way,
        )

    def run(self, seconds: float, *, thorough: bool) -> bool:
        """Work now, for at most so long; return whether nothing is left to do. `thorough`: also what the worker would let wait."""
        self._thorough = thorough
        try:
            return self.worker.run(seconds) and not self._eraser.pending()
        finally:
            self._thorough = False

    def close(self) -> None:
        """Stop the worker; what it has embedded goes into the index file, so that the next start need not do it again."""
        self.worker.close()
        try:
            self._parts.index.keep_new(self._settings.now.idle.batch)
        except EdgememError as error:
            _log.warning("What was embedded last is embedded again at the next start: %s", error)

    def _write_waiting(self, stop: Stop) -> bool:
        return not stop() and self._parts.sessions.journal.retry(stop)

    def _erase(self, stop: Stop) -> bool:
        erased = not stop() and self._eraser.work(stop)
        # Whoever reads a file that must be emptied is gone soon.
        self.worker.again_s = _ERASE_AGAIN_S if self._eraser.left else AGAIN_S
        return erased

    def _catch_up(self, stop: Stop) -> bool:
        if stop():
            return False
        idle = self._settings.now.idle
        least = 0 if self._thorough else idle.index_rows
        return self._parts.index.catch_up(idle.batch, stop=stop, least=least, wait_s=INDEX_WAIT_S) > 0

    def _embed_new(self, stop: Stop) -> bool:
        return not stop() and self._parts.recall.embed_new(self._embed_batch(), stop=stop) > 0

    def _embed(self, stop: Stop) -> bool:
        return not stop() and self._parts.index.embed_pending(self._embed_batch(), stop=stop) > 0

    def _embed_batch(self) -> int:
        """Return how many texts one step embeds: a query stops it, so this only bounds what is done again."""
        return min(16, max(4, self._settings.now.idle.batch // 4))
