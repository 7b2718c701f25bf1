"""One thread that runs jobs in the order in which they came: disk work never runs where somebody speaks."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class _Job(NamedTuple):
    work: Callable[[], Any]
    future: Future[Any]
    afterwards: Callable[[], None] | None


class Writer:
    """Run jobs on one thread; `afterwards` of a job runs only when no other job waits.

    The thread keeps no reference to an owner between jobs, so that one that was forgotten can be collected and
    say so. It is a daemon: a program that ends without close() does not hang.
    """

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._stopped = False
        self._thread = threading.Thread(target=_run, args=(self._jobs,), name=name, daemon=True)
        self._thread.start()

    @property
    def here(self) -> bool:
        """Tell whether the caller runs on this thread."""
        return threading.current_thread() is self._thread

    def submit(
        self, work: Callable[[], T], *, afterwards: Callable[[], None] | None = None
    ) -> Future[T] | None:
        """Queue a job; return None if the writer has been stopped."""
        future: Future[T] = Future()
        with self._lock:
            if self._stopped:
                return None
            self._jobs.put(_Job(work, future, afterwards))
        return future

    def stop(self) -> None:
        """Take no more jobs, and wait until those that wait have run."""
        with self._lock:
            if not self._stopped:
                self._stopped = True
                self._jobs.put(None)
        if not self.here:
            self._thread.join()


def _run(jobs: queue.SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        if job.future.set_running_or_notify_cancel():
            try:
                result = job.work()
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
                job.future.set_exception(error)
            else:
                job.future.set_result(result)
                del result
            if job.afterwards is not None and jobs.empty():
                job.afterwards()
        del job
