"""A file of one process, beside a database: what it keeps there is taken over by another once that process is gone.

Whoever holds its lock owns it. The kernel frees the lock when a process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import logging
import os
from typing import TYPE_CHECKING

from edgemem.store.files import sync

if TYPE_CHECKING:
    from pathlib import Path

_log = logging.getLogger(__name__)


class OwnFile:
    """One such file, held by this process until it is closed."""

    def __init__(self, path: Path, fd: int, mark: str) -> None:
        self.path = path
        self.fd = fd
        self.damaged = False
        """Whether something in it could not be read, and a person may want to look at it."""
        self.mark = mark

    @classmethod
    def create(cls, database: Path, mark: str, tick: int) -> OwnFile:
        """Make a new one (0600) that sorts behind those made before; raise OSError where that is impossible.

        Args:
            mark: what stands between the names of the database and of the file; it tells what kind of file this is.
        """
        while True:
            path = database.with_name(f"{database.name}{mark}{tick:020d}")
            try:
                fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
                break
            except FileExistsError:
                tick += 1  # two processes that opened a database together may be at the same tick
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Who looked for files of processes that are gone may have found it before it was locked.
            path.stat()
            sync(path.parent)
        except OSError:
            os.close(fd)
            raise
        return cls(path, fd, mark)

    @classmethod
    def left(cls, database: Path, mark: str) -> list[OwnFile]:
        """Take over the files of processes that are gone, oldest first."""
        return [held for path in own_paths(database, mark) if (held := cls._taken(path, mark)) is not None]

    @classmethod
    def _taken(cls, path: Path, mark: str) -> OwnFile | None:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held it may have written all of it into the database and removed it meanwhile.
            if os.path.samestat(os.fstat(fd), path.stat()):
                return cls(path, fd, mark)
        except (BlockingIOError, FileNotFoundError):
            pass  # it is somebody else's, or gone
        os.close(fd)
        return None

    def read(self) -> bytes:
        """Return all that stands in it."""
        return os.pread(self.fd, os.fstat(self.fd).st_size, 0)

    def write(self, data: bytes, at: int) -> None:
        """Write bytes at an offset, all of them; they survive this process, and a pulled plug after a sync."""
        left = memoryview(data)
        while left:
            done = os.pwrite(self.fd, left, at)
            left, at = left[done:], at + done

    def remove(self) -> None:
        """Take the name away, also from the disk; the lock is held until close().

        A damaged one gets a name under which nobody takes it in.
        """
        if self.damaged:
            aside = self.path.with_name(self.path.name.replace(self.mark, ".damaged-"))
            self.path.replace(aside)
            _log.error("%s is damaged; what can be read of it is under that name.", aside)
        else:
            self.path.unlink(missing_ok=True)
        sync(self.path.parent)

    def close(self) -> None:
        """Let go of it; a second call does nothing."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    __del__ = close  # a journal that is dropped without a close() leaves its file to the next


def own_paths(database: Path, mark: str) -> list[Path]:
    """Return the files of one kind beside a database, oldest first."""
    return sorted(path for path in database.parent.glob(f"{database.name}{mark}*") if path.is_file())
