"""The pending file: what could not be written into the database, one JSON line each, beside it.

It belongs to the process that holds its lock; one whose process is gone is taken over by the next that opens the
database. A line counts once it is on the disk; half a line at the end was never promised to anybody.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from edgemem.store.files import sync

if TYPE_CHECKING:
    from pathlib import Path

_MARK = ".pending-"


class PendingFile:
    """One such file, held by this process until it is closed."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd

    @classmethod
    def create(cls, database: Path, tick: int) -> PendingFile:
        """Make a new one (0600) that sorts behind those made before; raise OSError where that is impossible."""
        path = database.with_name(f"{database.name}{_MARK}{tick:020d}")
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        sync(path.parent)
        return cls(path, fd)

    @classmethod
    def left(cls, database: Path) -> list[PendingFile]:
        """Take over the files of processes that are gone, oldest first."""
        return [held for path in pending_paths(database) if (held := cls._taken(path)) is not None]

    @classmethod
    def _taken(cls, path: Path) -> PendingFile | None:
        try:
            fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held it may have written all of it into the database and removed it meanwhile.
            if os.path.samestat(os.fstat(fd), path.stat()):
                return cls(path, fd)
        except (BlockingIOError, FileNotFoundError):
            pass  # it is somebody else's, or gone
        os.close(fd)
        return None

    def append(self, line: bytes) -> None:
        """Add a line, on the disk before this returns, or nothing; raise OSError where that is impossible."""
        before = os.fstat(self._fd).st_size
        data = memoryview(line + b"\n")
        try:
            while data:
                data = data[os.write(self._fd, data) :]
            os.fsync(self._fd)
        except OSError:
            os.ftruncate(self._fd, before)
            raise

    def read(self) -> list[bytes]:
        """Return the lines that are whole."""
        data = os.pread(self._fd, os.fstat(self._fd).st_size, 0)
        return data.split(b"\n")[:-1]

    def remove(self) -> None:
        """Take the name away, also from the disk; the lock is held until close()."""
        self.path.unlink(missing_ok=True)
        sync(self.path.parent)

    def set_aside(self) -> Path:
        """Give it a name under which nobody takes it in, and return that."""
        aside = self.path.with_name(self.path.name.replace(_MARK, ".damaged-"))
        self.path.replace(aside)
        sync(self.path.parent)
        return aside

    def close(self) -> None:
        """Let go of it; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def pending_paths(database: Path) -> list[Path]:
    """Return the pending files beside a database, oldest first."""
    return sorted(path for path in database.parent.glob(f"{database.name}{_MARK}*") if path.is_file())
