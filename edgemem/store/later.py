"""Later: writes into a store for which whoever speaks does not wait, and which are tried again until they succeed."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

from edgemem.errors import BusyError, ClosedError, DiskError, DiskFullError, ReadOnlyError

_MOST = 500
"""Writes that wait at once; a further one is refused."""

LATER = (BusyError, DiskFullError, ReadOnlyError, DiskError)
"""What may be possible later. Any other failure of a write would come back each time, and hold up all behind it."""

_log = logging.getLogger(__name__)


class Later:
    """The writes of one hook, or of one agent's tools; safe to use from several threads.

    What waits, waits in memory: it survives a locked or full disk, and not a crash. A store that keeps a database is
    written on the database's writer thread; any other at once, and its `flush` runs in a thread of its own.
    """

    def __init__(self, store: Any) -> None:
        self._database: Any = getattr(store, "database", None)
        self._flush = getattr(store, "flush", None) if self._database is None else None
        self._waiting: deque[tuple[Callable[[], object], Future[None]]] = deque()
        self._queued = False
        """Whether a try is on its way; one serves for all that waits."""
        self._flushing: Future[None] | None = None
        self._lock = threading.Lock()

    def write(self, work: Callable[[], object]) -> Future[None]:
        """Do `work`, which calls methods of the store, in the order in which it came; return what tells the outcome."""
        done: Future[None] = Future()
        if self._database is None:
            work()
            done.set_result(None)
            return done
        with self._lock:
            if len(self._waiting) >= _MOST:
                raise BusyError(
                    f"{_MOST} writes wait already for {self._database.path.name}; this one is lost."
                )
            self._waiting.append((work, done))
        self.retry()
        return done

    def retry(self) -> None:
        """Try again what waits, without waiting for it and behind the writes of others."""
        with self._lock:
            if not self._waiting or self._queued:
                return
            self._queued = True
        self._database.enqueue(self._drain, behind=True)

    def flush(self) -> Future[None]:
        """Have a store that writes later write now; a second call joins one that still runs."""
        with self._lock:
            if self._flushing is not None and not self._flushing.done():
                return self._flushing
            done = self._flushing = Future[None]()
            if self._flush is None:
                done.set_result(None)
                return done
        # Not a daemon: a process that ends still writes.
        threading.Thread(target=self._run_flush, args=(done,), name="edgemem flush").start()
        return done

    def _run_flush(self, done: Future[None]) -> None:
        try:
            if self._flush is not None:
                self._flush()
        except Exception as error:  # noqa: BLE001 - it is raised where the outcome is asked for
            _log.warning("What was given is not in its file yet: %s", error)
            done.set_exception(error)
        else:
            done.set_result(None)

    def _drain(self) -> None:
        """Write what waits, on the writer thread."""
        self._queued = False
        while self._waiting:
            work, done = self._waiting[0]
            try:
                work()
            except BusyError as error:
                self._again(error)
                return
            except LATER as error:
                # It fails at once each time, so the next write or turn tries again.
                _log.warning("%d writes wait: %s", len(self._waiting), error)
                return
            except Exception as error:  # noqa: BLE001 - it is raised where the outcome is asked for
                _log.warning("A write failed: %s", error)
                self._waiting.popleft()
                done.set_exception(error)
            else:
                self._waiting.popleft()
                done.set_result(None)

    def _again(self, error: BusyError) -> None:
        """Queue what waits behind the writes of others; each try has waited for the lock already."""
        try:
            self.retry()
        except ClosedError:
            with self._lock:
                lost = list(self._waiting)
                self._waiting.clear()
            for _, done in lost:
                done.set_exception(error)
            _log.error(
                "%d writes are lost, because the store was closed before they were possible: %s",
                len(lost),
                error,
            )


def settled(written: Future[None], wait_s: float) -> bool:
    """Wait at most so many seconds; tell whether it is written, or raise the error with which it was refused."""
    wait([written], wait_s)
    if not written.done():
        return False
    try:
        written.result()
    except LATER:
        return False
    return True
