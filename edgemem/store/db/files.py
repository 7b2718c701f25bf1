"""Files that belong to their owner alone, that are really on the disk, and that are still those that were opened.

Every process takes one lock file around a write or a checkpoint: SQLite before 3.51.3 can corrupt a WAL database when two
connections write and checkpoint at the same moment, and robots run such versions. `flock` also excludes two databases opened on
one file by one process, and the kernel frees it when a process dies.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from glob import escape
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from edgemem.errors import (
    BusyError,
    CorruptError,
    DiskError,
    DiskFullError,
    InvalidInputError,
    ReadOnlyError,
    ReplacedError,
    StoreError,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer, Self

LOCK_TIMEOUT_S = 5.0

_FIRST_PAUSE_S = 0.0005
_LONGEST_PAUSE_S = 0.02
_NOTE = 64  # bytes
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
# Python before 3.11 hands out no result codes, but SQLite's own words are stable.
_FULL = "No space is left for {path}; free some and try again. What was stored before is intact."
_READ_ONLY = (
    "{path} cannot be written; mend the rights of the file and its folder, or mount the disk read-write. Where nothing may"
    " be written, copy the whole folder to another disk and open the copy."
)
_BROKEN = "The disk under {path} cannot be read or written; look at the card and at `dmesg`."
_MEANINGS: tuple[tuple[tuple[str, ...], type[StoreError], str], ...] = (
    (
        ("database is locked", "database table is locked", "database schema is locked"),
        BusyError,
        "Another process holds {path}; close it or try again.",
    ),
    (("disk is full",), DiskFullError, _FULL),
    (("readonly database", "unable to open database file"), ReadOnlyError, _READ_ONLY),
    (
        ("file is not a database",),
        CorruptError,
        "{path} is not an SQLite database; name another file. It was left as it is.",
    ),
    (
        ("malformed",),
        CorruptError,
        "{path} is damaged; put a copy in its place, or save what can be read: sqlite3 {path} .recover",
    ),
    (("disk I/O error",), DiskError, _BROKEN),
)
_OS_MEANINGS: dict[int, tuple[type[StoreError], str]] = {
    errno.ENOSPC: (DiskFullError, _FULL), errno.EDQUOT: (DiskFullError, _FULL),
    errno.EROFS: (ReadOnlyError, _READ_ONLY), errno.EACCES: (ReadOnlyError, _READ_ONLY),
    errno.EPERM: (ReadOnlyError, _READ_ONLY), errno.EIO: (DiskError, _BROKEN),
}  # fmt: skip


class Closable(ABC):
    """A context manager that closes what it has opened."""

    @abstractmethod
    def close(self) -> None:
        """Close everything; may be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def create_private(path: Path) -> None:
    """Make an empty file (0600) and its missing folders (0700); leave a file that exists alone.

    That is not even opened: closing it would drop the locks that SQLite may hold on it. Raise InvalidInputError where a link, pipe
    or device has its name, or one beside it such as `-wal`: what is written there would go elsewhere.
    """
    make_folder(path.parent)
    with os.scandir(path.parent) as entries:
        for entry in entries:
            known = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
            if entry.name.startswith(path.name) and not known:
                raise InvalidInputError(f"{entry.path} is no regular file, and none of ours; move it away.")
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        sync(path.parent)


def make_folder(path: Path) -> None:
    """Make a folder and those above it (0700) where they are missing."""
    for folder in reversed([folder for folder in (path, *path.parents) if not folder.exists()]):
        folder.mkdir(mode=0o700, exist_ok=True)


def write_private(
    path: Path,
    *data: Buffer,
    part: Path | None = None,
    mode: int = 0o600,
    stands: Callable[[], bool] = lambda: True,
) -> bool:
    """Replace a file durably in one step, or raise OSError and leave it; tell whether. The new file is written to `part` first.

    `stands` is asked just before; where it says no, nothing is replaced.
    """
    part = part or path.with_name(f".{path.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)
    try:
        write_new(part, *data, mode=mode)
        if not stands():
            return False
        part.replace(path)
        sync(path.parent)
    finally:
        part.unlink(missing_ok=True)
    return True


def write_new(path: Path, *data: Buffer, mode: int = 0o600) -> None:
    """Write a file that is not there yet, durably; raise OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(fd, mode)
        for piece in data:
            write_all(fd, piece)
    finally:
        os.close(fd)


def append(path: Path, data: bytes) -> None:
    """Write at the end of a file, durably; where that fails, leave nothing of it."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(fd).st_size
        try:
            write_all(fd, data)
        except OSError:
            os.ftruncate(fd, size)  # a full disk leaves half of it
            raise
    finally:
        os.close(fd)
    if size == 0:
        sync(path.parent)


def write_all(fd: int, data: Buffer) -> None:
    """Write all of it, and wait until it would survive a pulled plug."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.fsync(fd)


class Stamp(NamedTuple):
    """What tells one state of a file from another."""

    number: int
    size: int
    modified_ns: int


def look(path: Path) -> Stamp | None:
    """Return how a file looks; None: there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return Stamp(status.st_ino, status.st_size, status.st_mtime_ns)


def set_aside(path: Path, why: str = ".damaged-") -> list[Path]:
    """Return the copies of a file that were set aside."""
    copies = path.parent.glob(f"{escape(path.name)}{why}*")
    return sorted(copy for copy in copies if copy.name.rpartition("-")[2].isdigit())


def name_aside(path: Path, why: str = ".damaged-") -> Path:
    """Return a free name for a file that is set aside."""
    return next(name for n in count(1) if not (name := path.with_name(f"{path.name}{why}{n}")).exists())


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Turn an error of the system about a file into one of edgemem's."""
    try:
        yield
    except OSError as error:
        raise to_store_error(error, path) from error


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, would survive a pulled plug."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class _Seen(NamedTuple):
    files: tuple[tuple[int, int] | None, ...]
    """Device and inode of the database, its log and the memory that its processes share."""
    content: bytes  # when the database itself was written last, and its size


class FileIdentities:
    """The files of a database as this process opened them: a write to others, or over others, would be gone.

    Commits go to the log; only checkpoints write the database itself, which all of our processes make under one lock. Each leaves
    in the lock file how the database looks after it, and nothing while it runs: where a kill or a full disk ends it, nobody
    knows. So a copy written over it in place, into the very same inode, is noticed as well.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._paths = [f"{path}{suffix}" for suffix in ("", "-wal", "-shm")]
        self._seen: _Seen | None = None

    def note(self, lock: FileLock, *, moved: bool) -> None:
        """Take the files as they are now, while nobody else of ours can write them; `moved`: the database too may be written."""
        before = self._seen
        if before is None or moved or None in before.files:
            self._seen = self._look() or before
        if self._seen is not None and (
            before is None or self._seen.content != before.content or not lock.read_note()
        ):
            lock.write_note(self._seen.content)

    def check(self, lock: FileLock | None = None) -> None:
        """Raise ReplacedError if others are at their paths; with the lock held, also if another program has written them."""
        before, now = self._seen, self._look()
        if before is None or now is None:
            return
        if now.files != before.files:
            self._refuse("removed" if None in now.files else "replaced")
        if lock is not None and now.content != before.content:
            if lock.read_note() not in (now.content, b""):
                self._refuse("written by another program")
            self._seen = now

    def _refuse(self, what: str) -> NoReturn:
        raise ReplacedError(
            f"{self._path}, or its log, was {what} while it is open, so nothing more is stored; stop the robot and start it"
            " again."
        )

    def _look(self) -> _Seen | None:
        """Return how the files look; None where that cannot be told, and those that are open can still be used."""
        try:
            first, *others = map(_stat, self._paths)
        except OSError:
            return None
        content = b"" if first is None else b"%d %d" % (first.st_mtime_ns, first.st_size)
        return _Seen(tuple(stat and (stat.st_dev, stat.st_ino) for stat in (first, *others)), content)


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 - three for each commit
    except (FileNotFoundError, NotADirectoryError):
        return None


class Descriptor:
    """An open file of the system's; -1: it is closed, or there is none."""

    _fd = -1

    def close(self) -> None:
        """Let go of it; a second call does nothing. The file stays: if one removed it unlooked at, two could hold two locks."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class FileLock(Descriptor):
    """An exclusive lock between processes; not re-entrant, used by one thread at a time."""

    def __init__(self, path: Path, *, timeout_s: float) -> None:
        self.path = path
        self.timeout_s = timeout_s
        self._fd = os.open(path, _LOCK_FLAGS, 0o600)
        sentence = f"Another process has been writing to {path.with_suffix('')} for more than"
        self._busy = f"{sentence} {timeout_s:g} s; close it or try again."

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the lock; raise BusyError when another process keeps it for longer than the timeout."""
        _lock(self._fd, fcntl.LOCK_EX, self.timeout_s, self._busy)
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
        """Tell whether the locked file is the one at its path."""
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self._fd), self.path.stat())
        return False


@contextmanager
def locked_beside(path: Path) -> Iterator[None]:
    """Keep other processes of ours from writing a file; its folder is made, and the lock's file is there only while it is held."""
    place = path.with_name(f".{path.name}.lock")
    with translated_errors(path):
        make_folder(path.parent)
        while True:
            with closing(FileLock(place, timeout_s=LOCK_TIMEOUT_S)) as lock, lock.hold():
                if not lock.stands():  # its holder has removed it, and the next one makes another
                    continue
                try:
                    yield
                finally:
                    place.unlink(missing_ok=True)
                return


class HomeLock(Descriptor):
    """Tells whether a home is open: who has it open shares the lock, and who replaces its files holds it alone.

    Where no file is there and none may be written, it is held without one: nobody can replace anything there either.
    """

    def __init__(self, path: Path, *, timeout_s: float) -> None:
        self._home = path.parent.parent
        self._timeout_s = timeout_s
        self._fd = _open_lock(path)

    def share(self) -> None:
        """Share it until close(); raise BusyError where the home's files are being replaced."""
        busy = f"Another program is replacing the files of {self._home}; try again in a moment."
        if self._fd >= 0:
            _lock(self._fd, fcntl.LOCK_SH, self._timeout_s, busy)

    def hold_alone(self) -> None:
        """Hold it alone until share() or close(); raise BusyError where anybody else has the home open."""
        busy = f"A robot, or another program, has {self._home} open; stop it and try again."
        if self._fd < 0:
            return
        # A lock shared by two who both want it alone would never be free.
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        _lock(self._fd, fcntl.LOCK_EX, self._timeout_s, busy)


def _open_lock(path: Path) -> int:
    try:
        return os.open(path, _LOCK_FLAGS, 0o600)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return -1


def _lock(fd: int, kind: int, timeout_s: float, busy: str) -> None:
    """Take a lock of a kind, or raise BusyError with the sentence `busy`."""
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
            raise BusyError(busy)
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_S)


def to_store_error(error: Exception, path: Path) -> StoreError | InvalidInputError:
    """Return the error of ours that says what happened to `path` and what to do."""
    if isinstance(error, OSError):
        if error.errno in (errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP):
            return InvalidInputError(
                f"{path} cannot be used as a file ({error.strerror}); move it away or name another."
            )
        kind, advice = _OS_MEANINGS.get(error.errno or 0, (StoreError, f"{{path}}: {error.strerror}."))
        return kind(advice.format(path=path))
    text = str(error)
    if isinstance(error, UnicodeDecodeError):
        # SQLite quotes what it stumbled over, such as the text of a schema with a flipped bit.
        text = "malformed"
    elif isinstance(error, UnicodeError):
        return InvalidInputError(
            "Half a character (a lone surrogate) cannot be stored or looked for; remove it from the text."
        )
    if isinstance(error, OverflowError) or "too big" in text:
        return InvalidInputError(f"This cannot be stored in {path.name}: {text}.")
    for words, kind, advice in _MEANINGS:
        if any(word in text for word in words):
            return kind(advice.format(path=path))
    return StoreError(f"{path} refused a statement: {text}.")
