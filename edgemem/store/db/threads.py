"""The writer, a thread that runs jobs in the order in which they came, and a reading connection for every other thread.

So disk work never runs where somebody speaks, and readers wait neither for one another nor for the writer.
"""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from edgemem.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    _Jobs = queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]


T = TypeVar("T")


class Writer:
    """Run jobs on one daemon thread, and `idle` behind a job when no other waits.

    The thread keeps no reference to an owner between jobs, so a forgotten one can be collected and say so.
    """

    def __init__(self, name: str, idle: Callable[[], None]) -> None:
        self._jobs: _Jobs = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._stopped = False
        self._thread = threading.Thread(target=_run, args=(self._jobs, idle), name=name, daemon=True)
        self._thread.start()

    @property
    def here(self) -> bool:
        """Tell whether the caller runs on this thread."""
        return threading.current_thread() is self._thread

    def submit(self, work: Callable[[], T], *, at_once: bool = False) -> Future[T]:
        """Queue a job; with `at_once` it is done now where the caller runs on this thread."""
        future: Future[T] = Future()
        if at_once and self.here:
            future.set_result(work())
            return future
        with self._lock:
            if self._stopped:
                raise ClosedError("The database was closed; open it again.")
            self._jobs.put((work, future))
        return future

    def stop(self) -> None:
        """Take no more jobs, and wait until those that wait have run."""
        with self._lock:
            if not self._stopped:
                self._stopped = True
                self._jobs.put(None)
        if not self.here:
            self._thread.join()


def _run(jobs: _Jobs, idle: Callable[[], None]) -> None:
    while (job := jobs.get()) is not None:
        work, future = job
        if future.set_running_or_notify_cancel():
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
                future.set_exception(error)
            else:
                future.set_result(result)
                del result
            if jobs.empty():
                idle()
        del job, work, future


class _Reader:
    """The connection of one thread; the lock lets close() wait for a running query."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.lock = threading.Lock()
        self.thread = threading.current_thread()


class _Own(threading.local):
    reader: _Reader | None = None


class Readers:
    """Connections made by `connect`, one for each thread that asks."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._own = _Own()
        self._lock = threading.Lock()
        self._all: list[_Reader] = []
        self._shared: _Reader | None = None
        self._closed = False

    def query(self, sql: str, parameters: Any) -> list[tuple[Any, ...]]:
        """Return all rows of a statement, asked with this thread's connection."""
        reader = self._own.reader
        if reader is None:
            reader = self._own.reader = _Reader(self._connect())
            self._add(reader)
        with reader.lock:
            self._check_open()
            rows: list[tuple[Any, ...]] = reader.connection.execute(sql, parameters).fetchall()
            return rows

    @contextmanager
    def shared(self) -> Iterator[Any]:
        """Lend a connection that is no thread's own, for what SQLite counts for each connection apart."""
        with self._lock:
            if self._shared is None:
                self._check_open()
                self._shared = _Reader(self._connect())
            reader = self._shared
        with reader.lock:
            self._check_open()
            yield reader.connection

    def close(self) -> None:
        """Close every connection, each once its query has ended."""
        with self._lock:
            self._closed = True
            readers = [*self._all, *([self._shared] if self._shared is not None else [])]
            self._all = []
        for reader in readers:
            with reader.lock:
                reader.connection.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("The database was closed; open it again.")

    def _add(self, reader: _Reader) -> None:
        with self._lock:
            if self._closed:
                reader.connection.close()
            for other in [other for other in self._all if not other.thread.is_alive()]:
                other.connection.close()
                self._all.remove(other)
            self._all.append(reader)
