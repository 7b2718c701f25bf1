"""One lock file that every process takes around a write or a checkpoint.

SQLite before 3.51.3 can corrupt a WAL database when two connections write and checkpoint at the same moment,
and robots run such versions. `flock` also excludes two databases opened on one file by one process, and the
kernel frees it when a process dies.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgemem.errors import BusyError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FIRST_PAUSE_S = 0.0005
_LONGEST_PAUSE_S = 0.02


class FileLock:
    """An exclusive lock between processes; not re-entrant, used by one thread at a time."""

    def __init__(self, path: Path, *, timeout_s: float) -> None:
        self.path = path
        self.timeout_s = timeout_s
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock; raise BusyError when another process keeps it for longer than the timeout."""
        self._acquire()
        try:
            yield
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file; the lock file stays, because removing it would let two processes hold two locks."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _acquire(self) -> None:
        deadline, pause = time.monotonic() + self.timeout_s, _FIRST_PAUSE_S
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                    raise
            else:
                return
            if time.monotonic() >= deadline:
                raise BusyError(
                    f"Another process has been writing to {self.path.with_suffix('')} for more than"
                    f" {self.timeout_s:g} s; close it or try again."
                )
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)
