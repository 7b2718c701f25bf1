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
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

from edgemem.errors import BusyError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FIRST_PAUSE_S = 0.0005
_LONGEST_PAUSE_S = 0.02
_NOTE = 64  # bytes


class FileLock:
    """An exclusive lock between processes; not re-entrant, used by one thread at a time."""

    def __init__(self, path: Path, *, timeout_s: float) -> None:
        self.path = path
        self.timeout_s = timeout_s
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        told = f"Another process has been writing to {path.with_suffix('')} for more than"
        self._told = f"{told} {timeout_s:g} s; close it or try again."

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock; raise BusyError when another process keeps it for longer than the timeout."""
        _lock(self._fd, fcntl.LOCK_EX, self.timeout_s, self._told)
        try:
            yield
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def write_note(self, note: bytes) -> None:
        """Leave a note in the file for the others who take this lock, where the disk has room for it; it is held."""
        with suppress(OSError):
            os.pwrite(self._fd, note.ljust(_NOTE), 0)

    def read_note(self) -> bytes:
        """Return the newest note; the lock is held."""
        return os.pread(self._fd, _NOTE, 0).rstrip(b" ")

    def stands(self) -> bool:
        """Tell whether the file that is locked is the one that stands at its path."""
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self._fd), self.path.stat())
        return False

    def close(self) -> None:
        """Close the file; it stays, because two processes could hold two locks if one removed it unlooked at."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@contextmanager
def passing_lock(path: Path, *, timeout_s: float) -> Iterator[None]:
    """Hold a lock whose file is there only while somebody holds it, so that it may stand in anybody's folder.

    Raises:
        BusyError: another process keeps it for longer than the timeout.
    """
    while True:
        with closing(FileLock(path, timeout_s=timeout_s)) as lock, lock.held():
            if not lock.stands():  # whoever held it before has removed it, and the next one makes another
                continue
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


class HomeLock:
    """Tells whether a home is open: everybody who has it open shares the lock, and who replaces its files holds it alone.

    Where nothing may be written it is held without a file, if there is none yet: nobody can replace anything there either.
    """

    def __init__(self, path: Path, *, timeout_s: float) -> None:
        self._home = path.parent.parent
        self._timeout_s = timeout_s
        self._fd = _open_lock(path)

    def share(self) -> None:
        """Share it until close(); raise BusyError where the home's files are being replaced."""
        told = f"Another program is replacing the files of {self._home}; try again in a moment."
        if self._fd >= 0:
            _lock(self._fd, fcntl.LOCK_SH, self._timeout_s, told)

    def hold_alone(self) -> None:
        """Hold it alone until share() or close(); raise BusyError where anybody else has the home open."""
        told = f"A robot, or another program, has {self._home} open; stop it and try again."
        if self._fd < 0:
            return
        # What is shared by two who both want it alone would never be free.
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        _lock(self._fd, fcntl.LOCK_EX, self._timeout_s, told)

    def close(self) -> None:
        """Let go of it; a second call does nothing. The file stays, as with `FileLock`."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _open_lock(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return -1


def _lock(fd: int, kind: int, timeout_s: float, told: str) -> None:
    """Take a lock of a kind; raise BusyError with a sentence when it is not free within so many seconds."""
    deadline, pause = time.monotonic() + timeout_s, _FIRST_PAUSE_S
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                raise
        else:
            return
        if time.monotonic() >= deadline:
            raise BusyError(told)
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_S)
