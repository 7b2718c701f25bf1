"""Files that belong to their owner alone, that are really on the disk, and that are still those that were opened."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from edgemem.errors import ReplacedError

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.store.filelock import FileLock


def create_private(path: Path) -> None:
    """Make an empty file (0600) and its missing folders (0700); leave a file that exists alone.

    One that exists is not even opened: closing it would drop the locks that SQLite may hold on it.
    """
    for folder in reversed([each for each in path.parents if not each.exists()]):
        folder.mkdir(mode=0o700, exist_ok=True)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        sync(path.parent)


def write_private(path: Path, data: bytes) -> None:
    """Replace a file (0600) in one step that survives a pulled plug, or raise OSError and leave it as it was."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        fd = os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        part.replace(path)
        sync(path.parent)
    finally:
        part.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, would survive a pulled plug."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class _Seen(NamedTuple):
    """What tells one state of a database's files from another."""

    files: tuple[tuple[int, int] | None, ...]
    """Device and inode of the database, its log and the memory that its processes share."""
    content: bytes
    """When the database itself was written last, and its size."""


class OpenedFiles:
    """The files of a database as this process opened them: what is written to others, or over others, would be gone.

    A commit goes to the log; the database itself is written by checkpoints only, which all of our processes make under one
    lock. Whoever makes one leaves in the lock file how the database looks after it, and nothing while it goes on: where a kill
    or a full disk cuts it off, nobody knows how the database looks. So what was copied over it in place, into the very same
    inode, is noticed as well.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._paths = [f"{path}{suffix}" for suffix in ("", "-wal", "-shm")]
        self._seen: _Seen | None = None

    def note(self, lock: FileLock, *, moved: bool) -> None:
        """Take the files for what they are now, while nobody else of ours can write them.

        Args:
            moved: the database itself may have been written; without that, they are still as `check` found them.
        """
        before = self._seen
        if before is None or moved or None in before.files:
            self._seen = self._look() or before
        if self._seen is not None and (
            before is None or self._seen.content != before.content or not lock.read_note()
        ):
            lock.write_note(self._seen.content)

    def check(self, lock: FileLock) -> None:
        """Raise ReplacedError if another program has taken, replaced or written them; the lock is held."""
        now = self._compare()
        if now is None or self._seen is None or now.content == self._seen.content:
            return
        if lock.read_note() not in (now.content, b""):
            raise self._error("written by another program")
        self._seen = now

    def check_names(self) -> None:
        """Raise ReplacedError if others stand at their paths now, or none."""
        self._compare()

    def _compare(self) -> _Seen | None:
        now = self._look() if self._seen is not None else None
        if now is not None and self._seen is not None and now.files != self._seen.files:
            raise self._error("removed" if None in now.files else "replaced")
        return now

    def _error(self, what: str) -> ReplacedError:
        return ReplacedError(
            f"{self._path}, or its log, was {what} while it is open, so nothing more is stored; stop the robot and start it"
            " again."
        )

    def _look(self) -> _Seen | None:
        """Return how the files look; None where that cannot be told, and those that are open can still be used."""
        try:
            stats = [_stat(path) for path in self._paths]
        except OSError:
            return None
        first = stats[0]
        content = b"" if first is None else b"%d %d" % (first.st_mtime_ns, first.st_size)
        return _Seen(tuple(stat and (stat.st_dev, stat.st_ino) for stat in stats), content)


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 - three for each commit
    except (FileNotFoundError, NotADirectoryError):
        return None
