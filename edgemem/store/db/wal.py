"""The write-ahead log beside a database, and copies of a whole database.

The log is emptied when it is large and nobody waits. Then the slack of its pages, the unallocated
middle, is overwritten: `secure_delete` overwrites a deleted cell, but where SQLite balances pages, it lays their cells out anew
and leaves the old copies (one of 950 forgotten facts was found there, SQLite 3.40, pages of 512 bytes). No reader looks there.
Page 1 holds the schema alone and is left as it is; the layout is that of https://www.sqlite.org/fileformat2.html. Our own
database is copied a few pages at a time, checked, and renamed only when it is good; of another program's, the files are copied.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, ClassVar

from edgemem.errors import BusyError, DiskFullError, ReplacedError, StoreError
from edgemem.store.db.files import sync, write_new

_NORMAL = 1  # `pragma synchronous`: a checkpoint waits for the disk

_log = logging.getLogger(__name__)

_MAGIC = b"SQLite format 3\0"
_HEADER = 100
_SLICE = 1 << 19  # bytes that are looked through at once: some milliseconds
_HEAD_OF = {2: 12, 5: 12, 10: 8, 13: 8}
"""Bytes of a b-tree page's head, by its type: interior and leaf, of indexes and of tables."""
_MOST_PAGES = 1 << 25  # from so many pages on, the number of a page could be read as the type of one
_NAME = "memory-%Y%m%dT%H%M%S.%fZ.db"
_SCRATCH = ".edgemem-scratch-"
_PAGES = 256  # 128 kB of the smallest pages: a millisecond or two, so that nobody who begins to speak is heard late
_TRIES = 5  # to copy a file that others write
_CHECKED_AT_ONCE = 20_000  # of SQLite's instructions, about a millisecond


class WriteAheadLog:
    """The log of one writer connection, emptied beyond a limit; used on the writer thread only.

    `exclusively` keeps other processes out, and translates SQLite's errors; `moving` where the database itself is written.
    """

    def __init__(
        self,
        connection: Any,
        path: Path,
        *,
        exclusively: Callable[..., AbstractContextManager[None]],
        limit_mb: float,
    ) -> None:
        self._connection = connection
        self._path = path
        self._file = path.with_name(path.name + "-wal")
        self._exclusively = exclusively
        self._limit = int(limit_mb * 1e6)
        self._left = 0

    def checkpoint(self) -> bool:
        """Move the log into the database, durably, and empty it; return whether no reader was in the way. It waits for nobody."""
        level = self._connection.execute("pragma synchronous").fetchone()[0]
        try:
            # Erased rows must not come back with a pulled plug, also where commits are not synced.
            self._connection.execute(f"pragma synchronous = {max(level, _NORMAL)}")
            with self._exclusively(moving=True):
                return self._truncate()
        finally:
            self._connection.execute(f"pragma synchronous = {level}")

    def wipe_slack(self, raw: RawFile, begin: int) -> int | None:
        """Empty the log and wipe the slack of some pages; return what `RawFile.wipe_slack` does, -1 if a reader is in the way."""
        with self._exclusively(moving=True):
            if not self._truncate():
                return -1
            # What this connection holds in memory would be written with old slack. Others see that the log changed, and drop theirs.
            self._connection.execute("pragma shrink_memory")
            return raw.wipe_slack(begin)

    def tidy(self) -> None:
        """Empty the log if it has grown by its limit."""
        try:
            if self._file.stat().st_size > self._limit + self._left:
                self.empty()
                # A reader of another process can keep the log: do not try after each commit.
                self._left = self._file.stat().st_size
        except FileNotFoundError:
            pass  # nothing is written yet
        except OSError as error:
            # Nobody waits for this, and its thread has other work.
            _log.warning("The log of %s cannot be looked at: %s", self._path, error)

    def empty(self) -> None:
        """Empty the log if nobody is in the way; it waits for nobody."""
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


class RawFile:
    """The bytes of a database file, beside SQLite; opened when they are needed.

    Closing any descriptor of a file drops all locks that the process holds on it, SQLite's too. So all openings of one file in a
    process share a descriptor, which is closed with the last of them; close this behind the connections.
    """

    _lock: ClassVar = threading.Lock()
    _shared: ClassVar[dict[tuple[int, int], tuple[int, int]]] = {}
    """The descriptor of each file by device and inode, -1 while there is none, and how many share it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _file_at(path)
        self._closed = False
        with self._lock:
            fd, users = self._shared.get(self._file, (-1, 0))
            self._shared[self._file] = fd, users + 1

    def close(self) -> None:
        """Let go of the file; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        with self._lock:
            fd, users = self._shared.pop(self._file)
            if users > 1:
                self._shared[self._file] = fd, users - 1
            elif fd >= 0:
                os.close(fd)

    def wipe_slack(self, begin: int) -> int | None:
        """Write zeros into the slack of some pages from a byte on; return where to go on, or None once all is on the disk.

        The log must be empty, and nobody may write meanwhile, nor write a page that was read before.
        """
        fd = self._opened()
        head, size = os.pread(fd, _HEADER, 0), os.fstat(fd).st_size
        if head[: len(_MAGIC)] != _MAGIC:
            return None
        page = int.from_bytes(head[16:18], "big")
        page = 1 << 16 if page == 1 else page
        if size // page >= _MOST_PAGES:
            return None
        begin = max(begin, page)
        data = os.pread(fd, max(_SLICE, page), begin)
        for at in range(0, len(data) - page + 1, page):
            slack = _slack_of(data, at, page - head[20])
            if slack is not None:
                os.pwrite(fd, bytes(slack[1] - slack[0]), begin + slack[0])
        if begin + len(data) < size:
            return begin + len(data)
        os.fsync(fd)
        return None

    def _opened(self) -> int:
        with self._lock:
            fd, users = self._shared[self._file]
            if fd < 0:
                if _file_at(self._path) != self._file:
                    raise ReplacedError(f"{self._path} is no more the file that was opened; open it again.")
                fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
                self._shared[self._file] = fd, users
            return fd


def _file_at(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _slack_of(data: bytes, at: int, usable: int) -> tuple[int, int] | None:
    """Return where the slack of the page at a position begins and ends; None: it is no b-tree page, or has only zeros there."""
    head = _HEAD_OF.get(data[at])
    if head is None:
        return None
    cells = data[at + 3] << 8 | data[at + 4]
    content = data[at + 5] << 8 | data[at + 6] or 1 << 16
    begin, end = at + head + 2 * cells, at + content
    if content > usable or begin >= end or data.count(0, begin, end) == end - begin:
        return None
    return begin, end


def copy_name(tick: int) -> str:
    """Return the name of a copy that holds everything up to a tick of the robot's clock."""
    moment = datetime.fromtimestamp(tick // 1_000_000, timezone.utc).replace(microsecond=tick % 1_000_000)
    return moment.strftime(_NAME)


def stamp_of(path: Path) -> int:
    """Return the tick after a copy's newest record, also of one that is begun; 0 where the name is none of ours."""
    name = path.name
    if name.startswith("."):
        name = name[1:].partition(".db.")[0] + ".db"
    try:
        moment = datetime.strptime(name, _NAME).replace(tzinfo=timezone.utc)
    except ValueError:
        return 0
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


class _Stopped(Exception):  # noqa: N818 - no error, but somebody who speaks
    pass


def write_copy(
    source: Any, target: Path, *, connect: Callable[[Path], Any], stop: Callable[[], bool] = lambda: False
) -> bool:
    """Write a copy of the last commit that replaces `target` in one step; return False if it was stopped, and nothing is left.

    `source` is a reading connection of its own; `connect` opens the file that becomes the copy.
    """
    part = target.with_name(f".{target.name}.{os.getpid()}.part")

    def go_on(*_progress: int) -> None:
        if stop():
            raise _Stopped

    try:
        part.unlink(missing_ok=True)  # whoever else made it, nothing is written through a link
        write_new(part)
        with closing(connect(part)) as copy:
            copy.execute("pragma synchronous = off")
            # One snapshot for all steps: else each commit of another connection makes SQLite begin anew.
            source.execute("begin")
            source.execute("select count(*) from sqlite_master").fetchone()
            source.backup(copy, pages=_PAGES, progress=go_on)
            # A copy without a log can be carried away as one file.
            copy.execute("pragma journal_mode = delete")
            wrong = _fault_of(copy, stop)
        if wrong:
            raise StoreError(f"The copy {target.name} came out damaged and was thrown away: {wrong}.")
        sync(part)
        part.replace(target)
        sync(target.parent)
    except _Stopped:
        return False
    finally:
        part.unlink(missing_ok=True)
    return True


@contextmanager
def copied(path: Path) -> Iterator[Path]:
    """Lend a copy of a database that may not be written, with its log; raise BusyError where another program wrote it meanwhile.

    Nothing is opened, not even beside it.
    """
    from shutil import copyfile, disk_usage  # late: it brings archives of all kinds with it

    parts = [path, path.with_name(path.name + "-wal")]
    with scratch_folder() as folder:
        need = sum(part.stat().st_size for part in parts if part.exists())
        if 2 * need > disk_usage(folder).free:
            raise DiskFullError(f"{path} has {need:,} bytes, and {folder.parent} has no room for a copy.")
        for _ in range(_TRIES):
            before = [_changed(part) for part in parts]
            for part in parts:
                (folder / part.name).unlink(missing_ok=True)
                if part.is_file():  # a device never ends
                    copyfile(part, folder / part.name)
            if before == [_changed(part) for part in parts]:
                break
        else:
            raise BusyError(f"{path} was written while it was copied; stop the other program and try again.")
        yield folder / path.name


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Lend a folder of our own, in memory where the system has such a place; what killed processes left there goes first."""
    import tempfile  # late, both: no start of a sound home needs them
    from shutil import rmtree

    memory = Path("/dev/shm")  # noqa: S108 - the folder below is ours alone
    place = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    for left in place.glob(f"{_SCRATCH}*"):
        if not Path("/proc", left.name.split("-")[2]).exists():
            rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{_SCRATCH}{os.getpid()}-", dir=place) as folder:
        yield Path(folder)


def _changed(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


def _fault_of(copy: Any, stop: Callable[[], bool]) -> str:
    """Return SQLite's complaint about a copy, or raise _Stopped.

    Before SQLite 3.41 the look at one table cannot be stopped: some 5 ms a megabyte, on this thread alone.
    """
    copy.set_progress_handler(lambda: int(stop()), _CHECKED_AT_ONCE)
    try:
        fault = str(copy.execute("pragma quick_check").fetchone()[0])
    except Exception:
        if stop():
            raise _Stopped from None
        raise
    return "" if fault == "ok" else fault
