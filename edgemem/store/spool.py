"""The spool: what must survive its process until the database has it, in one file of that process beside the database.

Its room is reserved beforehand, so a full disk does not stop it. A record takes the first gap that is large enough, and is zeroed
once the database has it: the same few pages are written over and over in the cache. A record survives a kill at once, and a
pulled plug from the next `sync` on. It is a checksum, a space, JSON, a line feed and a zero; between records are zeros.

Who holds the lock of a file owns it. The kernel frees the lock when a process ends; the next one takes the file over. The first
file stays when it is empty, with its room. `DeferredWrites` is for what need not survive.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from edgemem.config import open_file
from edgemem.errors import BusyError, ClosedError, DiskError, DiskFullError, ReadOnlyError, StoreError
from edgemem.store.db.files import Descriptor, sync, to_store_error
from edgemem.store.protocols import abilities_of

if TYPE_CHECKING:
    from edgemem.store.db.database import Database

ROOM = 65_536  # bytes that are reserved; more is taken where the disk has it

_MARK = ".spool-"  # between the name of the database and the number of the file

_LARGEST = 64 << 20  # bytes that are read of one: far more than may wait

_HEAD = b"%08d turns only in memory\n\0"
HEAD_BYTES = len(_HEAD % 0)

_log = logging.getLogger(__name__)

DISK_ERRORS = (OSError, StoreError)  # what a disk that takes nothing raises

RETRYABLE = (BusyError, DiskFullError, ReadOnlyError, DiskError)
"""What may be possible later. Any other failure of a write would come back each time, and hold up all behind it."""

_MOST = 500  # writes of `DeferredWrites` that wait at once; a further one is refused


class Record(NamedTuple):
    """A record, and its place."""

    spool: Spool
    begin: int
    text: bytes


class Spool(Descriptor):
    """One such file, owned by this process until it is closed; used by one thread at a time."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self.damaged = False  # something in it could not be read; a person may want to look at it
        self._fd = fd
        self._places: dict[int, int] = {}
        self._unkept = 0

    @classmethod
    def create(cls, database: Path) -> Spool:
        """Make a new one (0600) with its room; raise OSError where that is impossible."""
        paths = (database.with_name(f"{database.name}{_MARK}{number}") for number in count(1))
        spool = next(filter(None, (cls._held(path, os.O_CREAT | os.O_EXCL) for path in paths)))
        try:
            sync(spool.path.parent)
            spool.reserve()
        except OSError:
            spool.path.unlink()
            spool.close()
            raise
        return spool

    @classmethod
    def abandoned(cls, database: Path) -> list[Spool]:
        """Take over the files of processes that are gone; raise OSError."""
        return [spool for path in spool_paths(database) if (spool := cls._held(path)) is not None]

    @classmethod
    def _held(cls, path: Path, flags: int = 0) -> Spool | None:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
        except (FileNotFoundError, FileExistsError):
            return None
        except OSError as error:
            if flags or error.errno not in (errno.EACCES, errno.EROFS):
                raise
            return None  # nothing can be written here; its records are counted as another program's
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The process that held it may have removed it meanwhile.
            if os.path.samestat(os.fstat(fd), path.stat()):
                return cls(path, fd)
        except (BlockingIOError, FileNotFoundError):
            pass  # it is somebody else's, or gone
        os.close(fd)
        return None

    @property
    def empty(self) -> bool:
        """Tell whether it holds no record."""
        return not self._places

    def reserve(self) -> None:
        """Have the disk keep its room, as far as there is any; raise OSError where the head does not fit."""
        try:
            if os.fstat(self._fd).st_size < ROOM:
                os.posix_fallocate(self._fd, 0, ROOM)
        except OSError as error:
            _log.info("No room can be kept for turns that have to wait, in %s: %s", self.path, error)
        if os.pread(self._fd, HEAD_BYTES, 0) != _HEAD % self._unkept:
            self._write(_HEAD % self._unkept, 0)

    def put(self, text: bytes) -> Record:
        """Write a record into the first gap that takes it; raise OSError where the disk refuses."""
        data = b"%08x %s\n\0" % (crc32(text), text)
        begin = HEAD_BYTES
        for place, end in sorted(self._places.items()):
            if place - begin >= len(data):
                break
            begin = end
        size = os.fstat(self._fd).st_size
        try:
            self._write(data, begin)
        except OSError:
            os.ftruncate(self._fd, size)
            self._write(bytes(min(begin + len(data), size) - begin), begin)
            raise
        self._places[begin] = begin + len(data)
        return Record(self, begin, text)

    def erase(self, record: Record) -> None:
        """Zero a record; where the disk refuses, the next opening finds it again, and knows that it is written."""
        end = self._places.pop(record.begin, record.begin)
        try:
            self._write(bytes(end - record.begin), record.begin)
            if self.empty and os.fstat(self._fd).st_size > ROOM:
                os.ftruncate(self._fd, ROOM)
        except OSError as error:
            _log.warning("A written record could not be taken out of %s: %s", self.path, error)

    def read(self) -> list[Record]:
        """Return the whole records in order; one that a kill cut was promised to nobody; other damage sets `damaged`."""
        records = []
        size = os.fstat(self._fd).st_size
        data = os.pread(self._fd, min(size, _LARGEST), 0)
        self.damaged = size > _LARGEST
        self._unkept = _unkept_of(data)
        for begin, end, text in _records(data):
            if text is None:
                self.damaged = True
                continue
            self._places[begin] = end
            record = Record(self, begin, text)
            if text:
                records.append(record)
            elif not self.damaged:
                self.erase(record)
        return records

    def note(self, unkept: int) -> None:
        """Tell other processes how many turns wait in the memory of this one alone."""
        if unkept != self._unkept:
            self._unkept = unkept
            try:
                self._write(_HEAD % unkept, 0)
            except OSError as error:
                _log.warning("%d turns wait in memory only; %s was not told: %s", unkept, self.path, error)

    def sync(self) -> None:
        """Wait until it would survive a pulled plug; raise OSError."""
        os.fsync(self._fd)

    __del__ = Descriptor.close  # a journal that is dropped without a close() leaves its file to the next

    def _write(self, data: bytes, at: int) -> None:
        rest = memoryview(data)
        while rest:
            done = os.pwrite(self._fd, rest, at)
            rest, at = rest[done:], at + done


class Spools:
    """The spools that this process owns beside one database; used on its writer thread only."""

    def __init__(self, database: Database) -> None:
        self.own: Spool | None = None
        self.held: list[Spool] = []  # its own, and what others have left
        self._database = database

    def take_over(self) -> list[Spool]:
        """Take the files of processes that are gone."""
        try:
            left = Spool.abandoned(self._database.path)
        except DISK_ERRORS as error:
            _log.warning("What an earlier run may have left cannot be read: %s", error)
            return []
        self.held += left
        return left

    def reuse(self, left: Iterable[Spool]) -> None:
        """Use one of the files that were taken over and read, if there is none of our own."""
        self.own = self.own or next((spool for spool in left if not spool.damaged), None)

    def reserve(self) -> Spool:
        """Return the spool of this process, with its room as far as the disk has it; raise StoreError or OSError."""
        if self.own is None:
            self.own = Spool.create(self._database.path)
            self.held.append(self.own)
        self.own.reserve()
        return self.own

    def others(self) -> list[Path]:
        """Return the spools of other processes."""
        mine = {spool.path for spool in self.held}
        return [path for path in spool_paths(self._database.path) if path not in mine]

    def sync(self) -> None:
        """Have the disk forget the records that were taken out of the spools, also of other processes; raise StoreError."""
        try:
            for path in spool_paths(self._database.path):
                with suppress(FileNotFoundError):  # its process has ended
                    sync(path)
        except OSError as error:
            raise to_store_error(error, self._database.path) from error

    def tidy(self) -> None:
        """Let go of the files that others have left: all in them is written."""
        for spool in self.held:
            if spool is not self.own:
                self.release(spool)
        self.held = [] if self.own is None else [self.own]

    def release(self, spool: Spool) -> None:
        """Close an empty spool file and remove it; the first one stays, with its reserved room, for the next process."""
        path = spool.path
        try:
            if spool.damaged:
                aside = f"{self._database.path.name}.damaged-{self._database.clock.tick():020d}"
                path.replace(path.with_name(aside))
                _log.error("%s is damaged; what could not be read of it is under that name.", aside)
            elif not path.name.endswith(f"{_MARK}1"):
                path.unlink(missing_ok=True)
            sync(path.parent)
        except DISK_ERRORS as error:
            _log.warning("A file whose turns are all written could not be removed: %s", error)
        spool.close()

    def close(self) -> None:
        """Let go of the files; may be called twice, and in a process that was forked."""
        for spool in self.held:
            spool.close()
        self.held = []


def spool_paths(database: Path) -> list[Path]:
    """Return the spools beside a database."""
    return sorted(database.parent.glob(f"{database.name}{_MARK}*"))


def read_foreign_spool(path: Path) -> tuple[list[bytes], int]:
    """Return the records of a spool that another process may hold, and how many turns wait in its memory alone."""
    try:
        with open_file(path) as file:
            data = file.read(_LARGEST)
    except FileNotFoundError:
        return [], 0
    return [text for _, _, text in _records(data) if text], _unkept_of(data)


def _unkept_of(data: bytes) -> int:
    head = re.match(rb"(\d{8}) turns only in memory\n\0", data)
    return int(head[1]) if head else 0


def _records(data: bytes) -> Iterator[tuple[int, int, bytes | None]]:
    """Yield where each record begins and ends, and its JSON; empty: it was cut; None: it is damaged."""
    for record in re.compile(rb"[^\0]+").finditer(data, HEAD_BYTES):
        checksum, text = record[0][:8], record[0][9:-1]
        whole = checksum == b"%08x" % crc32(text)
        cut = not record[0].endswith(b"\n")
        yield record.start(), record.end() + 1, b"" if cut else text if whole else None


class DeferredWrites:
    """The writes of one hook, or of one agent's tools; safe to use from several threads.

    They wait in memory: that survives a locked or full disk, and not a crash. A store with a database is written on the
    database's writer thread; any other at once, and its `flush` runs in a thread of its own.
    """

    def __init__(self, store: Any) -> None:
        can = abilities_of(store)
        self._database = can.database
        self._flush = can.flush if self._database is None else None
        self._waiting: deque[tuple[Callable[[], object], Future[None]]] = deque()
        self._queued = False  # a try is on its way; one serves for all that waits
        self._flushing: Future[None] | None = None
        self._lock = threading.Lock()

    def write(self, work: Callable[[], object]) -> Future[None]:
        """Do `work`, which calls methods of the store, in the order in which it came; return what tells the outcome."""
        done: Future[None] = Future()
        if self._database is None:
            work()
            done.set_result(None)
            return done
        with self._lock:
            if len(self._waiting) >= _MOST:
                raise BusyError(f"{_MOST} writes wait already for {self._database.path.name}; this is lost.")
            self._waiting.append((work, done))
        self.retry()
        return done

    def retry(self) -> None:
        """Try again what waits, without waiting for it and behind the writes of others."""
        with self._lock:
            if not self._waiting or self._queued:
                return
            self._queued = True
        self._database.enqueue(self._drain, behind=True)

    def flush(self) -> Future[None]:
        """Have a store that writes later write now; a second call joins one that still runs."""
        with self._lock:
            if self._flushing is None or self._flushing.done():
                self._flushing = Future()
                if self._flush is None:
                    self._flushing.set_result(None)
                else:
                    # Not a daemon: a process that ends still writes.
                    run = partial(_run, self._flush, self._flushing)
                    threading.Thread(target=run, name="edgemem flush").start()
            return self._flushing

    def settle(self, wait_s: float) -> bool:
        """Have it write now, and wait at most so many seconds; tell whether it has, or raise why it will not."""
        return wait_written(self.flush(), wait_s)

    def _drain(self) -> None:
        self._queued = False
        while self._waiting:
            work, done = self._waiting[0]
            try:
                work()
            except RETRYABLE as error:
                _log.warning("%d writes wait: %s", len(self._waiting), error)
                if not isinstance(error, BusyError):
                    return  # it fails at once each time, so the next write or turn tries again
                try:
                    self.retry()  # each try has waited for the lock already
                except ClosedError:
                    _log.error("%d writes are lost: the store was closed. %s", len(self._waiting), error)
                    while self._waiting:
                        self._waiting.popleft()[1].set_exception(error)
                return
            except Exception as error:  # noqa: BLE001 - it is raised where the outcome is asked for
                _log.warning("A write failed: %s", error)
                done.set_exception(error)
            else:
                done.set_result(None)
            self._waiting.popleft()


def _run(flush: Callable[[], object], done: Future[None]) -> None:
    try:
        flush()
    except Exception as error:  # noqa: BLE001 - it is raised where the outcome is asked for
        _log.warning("What was given is not in its file yet: %s", error)
        done.set_exception(error)
    else:
        done.set_result(None)


def wait_written(written: Future[None], wait_s: float) -> bool:
    """Wait at most so many seconds; tell whether it is written, or raise the error with which it was refused."""
    wait([written], wait_s)
    if not written.done():
        return False
    try:
        written.result()
    except RETRYABLE:
        return False
    return True
