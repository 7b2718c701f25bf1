"""A reading connection for every thread, so that readers wait neither for one another nor for the writer."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from edgemem.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Reader:
    """The connection of one thread; the lock lets close() wait for a running query."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.lock = threading.Lock()
        self.thread = threading.current_thread()
        self.version = -1
        """`data_version` when its owner last looked for ticks of other processes."""


class Readers:
    """Connections made by `connect`, one for each thread that asks."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._local = threading.local()
        self._lock = threading.Lock()
        self._all: list[Reader] = []
        self._shared: Reader | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._all)

    def query(self, sql: str, parameters: Any) -> list[tuple[Any, ...]]:
        """Return all rows of a statement, asked with this thread's connection."""
        reader = self._own()
        with reader.lock:  # not `mine`: some twenty questions a turn, and each would pay for the context
            if self._closed:
                raise ClosedError("The database was closed; open it again.")
            rows: list[tuple[Any, ...]] = reader.connection.execute(sql, parameters).fetchall()
            return rows

    @contextmanager
    def mine(self) -> Iterator[Reader]:
        """Lend this thread its connection."""
        reader = self._own()
        with reader.lock:
            if self._closed:
                raise ClosedError("The database was closed; open it again.")
            yield reader

    @contextmanager
    def shared(self) -> Iterator[Reader]:
        """Lend a connection that is no thread's own, for what SQLite counts for each connection apart."""
        with self._lock:
            if self._shared is None and not self._closed:
                self._shared = Reader(self._connect())
            reader = self._shared
        if reader is None:
            raise ClosedError("The database was closed; open it again.")
        with reader.lock:
            if self._closed:
                raise ClosedError("The database was closed; open it again.")
            yield reader

    def close(self) -> None:
        """Close every connection, each once its query has ended."""
        with self._lock:
            self._closed = True
            readers, self._all = self._all, []
            readers += [self._shared] if self._shared is not None else []
        for reader in readers:
            with reader.lock:
                reader.connection.close()

    def _own(self) -> Reader:
        reader: Reader | None = getattr(self._local, "reader", None)
        if reader is None:
            reader = self._local.reader = self._add(Reader(self._connect()))
        return reader

    def _add(self, reader: Reader) -> Reader:
        with self._lock:
            if self._closed:
                reader.connection.close()
            gone = [other for other in self._all if not other.thread.is_alive()]
            for other in gone:
                other.connection.close()
                self._all.remove(other)
            self._all.append(reader)
        return reader
