"""The write-ahead log beside a database: made durable when asked, emptied when it is large and nobody waits."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

from edgemem.errors import StoreError
from edgemem.store.files import sync

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from edgemem.store.slack import RawFile

_NORMAL = 1  # `pragma synchronous`: a checkpoint waits for the disk

_log = logging.getLogger(__name__)


class Exclusively(Protocol):
    """Keeps other processes from writing, and gives SQLite's errors their meaning."""

    def __call__(self, *, moving: bool = False) -> AbstractContextManager[None]:
        """Return what to hold meanwhile; `moving` where the database itself is written."""
        ...


class WriteAheadLog:
    """The log of one writer connection; used on the writer thread only.

    Args:
        path: of the database.
        exclusively: keeps other processes out, and gives SQLite's errors their meaning.
        limit_mb: how large the log may become before it is emptied.
    """

    def __init__(
        self,
        connection: Any,
        path: Path,
        *,
        exclusively: Exclusively,
        limit_mb: float,
    ) -> None:
        self._connection = connection
        self._path = path
        self._file = path.with_name(path.name + "-wal")
        self._exclusively = exclusively
        self._limit = int(limit_mb * 1e6)
        self._left = 0
        self.unsynced = False
        """Whether commits stand in the log that a pulled plug would take."""

    def sync(self) -> None:
        """Make every commit durable."""
        if self.unsynced:
            with self._exclusively():
                sync(self._file)
            self.unsynced = False

    def checkpoint(self) -> bool:
        """Move the log into the database, durably, and empty it; return whether no reader was in the way.

        It waits for nobody: other processes write meanwhile only where this is tried again.
        """
        level = self._connection.execute("pragma synchronous").fetchone()[0]
        try:
            # What was erased must not come back with a pulled plug, also where commits are not synced.
            self._connection.execute(f"pragma synchronous = {max(level, _NORMAL)}")
            with self._exclusively(moving=True):
                emptied = self._truncate()
        finally:
            self._connection.execute(f"pragma synchronous = {level}")
        if emptied:
            self.unsynced = False
        return emptied

    def wipe_slack(self, raw: RawFile, begin: int) -> int | None:
        """Empty the log and wipe the slack of some pages; return what `RawFile.wipe_slack` does, -1 if a reader is in the way."""
        with self._exclusively(moving=True):
            if not self._truncate():
                return -1
            # What this connection holds in memory would be written with the slack that it was read with. All others look
            # whether the log was changed, and forget what they hold.
            self._connection.execute("pragma shrink_memory")
            return raw.wipe_slack(begin)

    def look(self) -> None:
        """Raise ReplacedError if the log, or the database, is another than the one that was opened."""
        with self._exclusively():
            pass

    def tidy(self) -> None:
        """Empty the log if it has grown by its limit."""
        try:
            if self._size() > self._limit + self._left:
                self.empty()
                # A reader of another process can keep the log from being emptied: do not try after each commit.
                self._left = self._size()
        except OSError as error:
            # Nobody waits for this, and the thread that runs it has other work.
            _log.warning("The log of %s cannot be looked at: %s", self._path, error)

    def empty(self) -> None:
        """Empty the log if nobody is in the way; nobody waits for this, so it waits for nobody either."""
        try:
            with self._exclusively(moving=True):
                self._truncate()
        except StoreError as error:
            _log.warning("The log of %s could not be emptied and grows on: %s", self._path, error)

    def _truncate(self) -> bool:
        timeout = self._connection.execute("pragma busy_timeout").fetchone()[0]
        try:
            self._connection.execute("pragma busy_timeout = 0")
            (busy, _, _) = self._connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        finally:
            self._connection.execute(f"pragma busy_timeout = {timeout}")
        return not busy

    def _size(self) -> int:
        try:
            return self._file.stat().st_size
        except FileNotFoundError:
            return 0
