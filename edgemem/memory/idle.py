"""Idle time: what is done for a memory while nobody speaks, in small steps, by a thread that yields at once.

A step is a function that does one bounded piece of work and says whether there was any. Steps are tried in the order of
what the next turn needs most; a step gets a `stop` function that becomes true as soon as somebody begins to speak.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

from edgemem.errors import EdgememError

if TYPE_CHECKING:
    from edgemem.memory.opened import OpenHome

Stop = Callable[[], bool]

AGAIN_S = 600.0
"""Seconds until the worker looks again, for work that only time makes due."""

INDEX_WAIT_S = 600.0
"""Seconds after which rows are indexed even if they are few, so that their meaning is found as well."""

_ERASE_AGAIN_S = 2.0
"""Seconds until an erasing that somebody's reading keeps from its end is tried again."""

_log = logging.getLogger("edgemem.idle")


class Step(NamedTuple):
    """One kind of upkeep; `run` does a bounded piece of work and returns whether there was any."""

    name: str
    run: Callable[[Stop], bool]


class IdleFailure(NamedTuple):
    """A kind of upkeep that failed: how often it has, and the newest message."""

    step: str
    times: int
    message: str


class IdleWorker:
    """Runs steps when nobody speaks.

    Args:
        settle_s: returns how many seconds it waits after a turn.
        on_hold: is called as soon as somebody speaks, in their thread; it stops what a step cannot look up from.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        *,
        settle_s: Callable[[], float] = lambda: 0.5,
        on_hold: Callable[[], None] = lambda: None,
    ) -> None:
        self.again_s = AGAIN_S
        """How long it waits before it looks again, for work that only time makes due."""
        self._steps, self._settle_s, self._on_hold = tuple(steps), settle_s, on_hold
        # Weak, so that an agent that is dropped in the middle of a turn does not stop upkeep for ever.
        self._speaking: WeakSet[Any] = WeakSet()
        self._speaking_lock = threading.Lock()
        self._woken = threading.Event()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._failures: dict[str, IdleFailure] = {}
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, once; it begins with what was due when the memory was opened, and what the first turn needs."""
        if self._thread is None and not self._closed.is_set():
            self._woken.set()
            self._thread = threading.Thread(target=self._loop, name="edgemem-idle", daemon=True)
            self._thread.start()

    def hold(self, by: object = None) -> None:
        """Stop working: somebody speaks, or a turn runs. Whoever asks is referenced weakly; several agents may share one worker."""
        with self._speaking_lock:
            self._speaking.add(self if by is None else by)
        self._on_hold()

    def release(self, by: object = None) -> None:
        """Go on with upkeep, unless another holds it: the turn is over."""
        with self._speaking_lock:
            self._speaking.discard(self if by is None else by)
        self._woken.set()

    def wake(self) -> None:
        """Look for work soon, unless somebody speaks."""
        self._woken.set()

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
            if self._closed.wait(self._settle_s()) or self.held:
                continue
            with self._lock:
                self._work(lambda: self.held or self._closed.is_set())

    def _work(self, stop: Stop) -> bool:
        """Run steps, most urgent first, until none has work; a failing one is set aside for this round."""
        failed: set[str] = set()
        while not stop():
            for name, run in self._steps:
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


class Upkeep(IdleWorker):
    """The worker with the steps of one memory's upkeep."""

    def __init__(self, memory: OpenHome) -> None:
        self._memory = memory
        self._thorough = False
        settings, search, index, eraser = memory.settings, memory.search, memory.index, memory.eraser

        def erase(stop: Stop) -> bool:
            erased = eraser.work(stop)
            # Whoever reads a file that must be emptied is gone soon.
            self.again_s = _ERASE_AGAIN_S if eraser.left else AGAIN_S
            return erased

        def catch_up(stop: Stop) -> bool:
            idle = settings.now.idle
            least = 0 if self._thorough else idle.index_rows
            return index.catch_up(idle.batch, stop=stop, least=least, wait_s=INDEX_WAIT_S) > 0

        def texts() -> int:
            """Return how many texts one step embeds: a query stops it, so this only bounds what is done again."""
            return min(16, max(4, settings.now.idle.batch // 4))

        steps: dict[str, Callable[[Stop], bool]] = {
            "settings": lambda _stop: memory.renew_all(),
            "waiting turns": memory.sessions.journal.retry,
            "erase": erase,
            "compact": lambda stop: any(hook.work(stop=stop) for hook in memory.diagnostics.compactions()),
            "index": catch_up,
            "embed new": lambda stop: search.embed_new(texts(), stop=stop) > 0,
            "embed": lambda stop: index.embed_pending(texts(), stop=stop) > 0,
            "read ahead": lambda stop: any(hook.warm(stop=stop) for hook in memory.diagnostics.compactions()),
            "warm": memory.lay_in,
            "back up": memory.backups.work,
            "figures": lambda _stop: memory.figures.write(at_once=self._thorough),
        }
        super().__init__(
            [Step(name, run) for name, run in steps.items()],
            settle_s=lambda: settings.now.idle.settle_s,
            on_hold=memory.give_way,
        )

    def run_all(self, seconds: float, *, thorough: bool) -> bool:
        """Work now, for at most so long; return whether nothing is left to do. `thorough`: also what the worker would let wait."""
        self._thorough = thorough
        try:
            return self.run(seconds) and not self._memory.eraser.pending()
        finally:
            self._thorough = False

    def close(self) -> None:
        """Stop the worker; what it has embedded goes into the index file, so that the next start need not do it again."""
        super().close()
        try:
            self._memory.index.keep_new(self._memory.profile.idle.batch)
        except EdgememError as error:
            _log.warning("What was embedded last is embedded again at the next start: %s", error)
