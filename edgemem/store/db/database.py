"""One SQLite file: a writer thread, a reading connection for each query that runs, a lock between processes.

Each write is a function that the writer thread runs in one transaction, so no speaker waits for a disk; reads run in the thread
that asks, and see the last commit. A `Database` is shared between threads, but not carried across a fork: open a new one there.
"""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from edgemem.clock import Clock
from edgemem.errors import (
    BusyError,
    ClosedError,
    CorruptError,
    InvalidInputError,
    LostTruthError,
    ReadOnlyError,
    StoreError,
)
from edgemem.store.db.connection import (
    FOREIGN,
    Schema,
    Ticks,
    all_or_none,
    check_schema,
    connect,
    migrate,
    missing_steps,
    plain_connection,
    translated_errors,
)
from edgemem.store.db.files import Closable, FileIdentities, FileLock, create_private, to_store_error
from edgemem.store.db.transaction import Transaction
from edgemem.store.db.wal import RawFile, WriteAheadLog, copied, copy_name, write_copy

if TYPE_CHECKING:
    _Jobs = queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]

T = TypeVar("T")

_log = logging.getLogger(__name__)

_AGAIN_S = 0.01  # between two tries to empty the log


class Options(NamedTuple):
    """How a file is opened."""

    durable: bool = True  # fsync each commit (truth), or none at all (an index that can be made again)
    derived: bool = False  # made from another file with the same clock, which was opened before
    busy_timeout_s: float = 5.0
    page_size: int = 512
    """Bytes, for a new file. Small pages write less, and read facts as fast (`tests/lab/tuning.md`)."""
    wal_limit_mb: float = 16.0
    """Checkpoint when the log is larger than this and no write waits: a page is moved once for several of its writes."""
    backups: Path | None = None
    """A folder for a copy of the file before its schema changes; where the copy fails, the file is not opened. None: no copy."""
    create: bool = True
    """False where a file must be there, with tables in it; else LostTruthError is raised, and nothing is changed."""
    read_only: bool = False
    """Read a copy, in memory, of a file that may not be written; each write raises ReadOnlyError."""


class Database(Closable):
    """An open database file, made with its folder where it is missing; a context manager, safe to use from several threads.

    Steps of the schema that the file has not seen are run. Share one clock between the files of a home.
    """

    def __init__(
        self, path: str | Path, *, schema: Schema, clock: Clock | None = None, **options: Any
    ) -> None:
        self.closed = True
        if str(path) == ":memory:":
            raise InvalidInputError("A memory in RAM alone would be none; give the path of a file.")
        self.path = Path(path).expanduser().absolute()
        self.clock = clock or Clock()
        self.migrated: tuple[str, ...] = ()  # steps that brought an older file up to date when it was opened
        self._options = opening = Options(**options)
        self._create = opening.create and not opening.read_only
        self.read_only = opening.read_only
        self._pid = os.getpid()
        self._closing = threading.Lock()
        self._running: Transaction | None = None
        self._version = self._looked = -1
        """`data_version` of the writer, and of the shared reader, when ticks of others were last looked for."""
        with ExitStack() as opened, translated_errors(self.path):
            # Before it is opened: SQLite takes the log away from beside an empty file.
            if not self._create:
                _check_not_lost(self.path)
            if self.read_only:
                self._file = opened.enter_context(copied(self.path))
            else:
                self._file = self.path
                create_private(self.path)
            lock = FileLock(self._file.with_name(self._file.name + ".lock"), timeout_s=opening.busy_timeout_s)
            opened.callback(lock.close)
            # Whatever is derived may be made again at any time, by any process.
            files = FileIdentities(self.path) if opening.durable and not self.read_only else None
            # Not methods of ours: what refers back to us would keep a forgotten database from being collected.
            self._exclusively = partial(_exclusive, self.path, lock, files)
            self._readers = _Readers(partial(_reader, self._file, opening.busy_timeout_s, files))
            self._connection = self._open_writer(schema)
            self._raw = RawFile(self._file)
            self._lock, self._opened = lock, opened.pop_all()
        self._log = WriteAheadLog(
            self._connection, self._file, exclusively=self._exclusively, limit_mb=opening.wal_limit_mb
        )
        self._writer = Writer(f"edgemem {self.path.name}", self._log.tidy)
        self.closed = False

    def query(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a statement that only reads, as of the last commit."""
        self._check_open()
        try:  # not `meaningful`, which costs a context
            return self._readers.query(sql, parameters)
        except FOREIGN as error:
            raise to_store_error(error, self.path) from error

    @property
    def source(self) -> Path:
        """Return the file that is read: a copy, where it cannot be written."""
        return self._file

    def now(self) -> float:
        """Return the clock's time, which is not before anything that any process has stored here."""
        self._check_open()
        with translated_errors(self.path), self._readers.shared() as connection:
            self._looked = self._ticks.look(connection, self._looked)
        return self.clock.now()

    def version(self) -> int:
        """Return a number that is another one after each commit, of any process; it compares within this object only."""
        self._check_open()
        with translated_errors(self.path), self._readers.shared() as connection:
            return int(connection.execute("pragma data_version").fetchone()[0])

    def last_tick(self) -> int:
        """Return the highest tick that the file holds; 0 if it holds none."""
        self._check_open()
        with translated_errors(self.path), self._readers.shared() as connection:
            return self._ticks.newest(connection)

    def created_at(self) -> int:
        """Return the tick at which the schema was made; it tells a truth, and its copies, from every other."""
        return int(self.query("select min(recorded) from migrations")[0][0])

    def quick_check(self) -> list[str]:
        """Return what SQLite finds wrong with the file; an empty list if it is sound."""
        try:
            faults = [str(row[0]) for row in self.query("pragma quick_check")]
        except CorruptError as error:
            return [str(error)]
        return [] if faults == ["ok"] else faults

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in one transaction, or in the one that runs, and return its result once it is committed (and durable)."""
        return self.submit(work).result()

    def submit(self, work: Callable[[Transaction], T]) -> Future[T]:
        """Queue `work` for one transaction without waiting."""
        self._check_open()
        if not self._writer.here:
            return self._queue(lambda: self._transact(work))
        future: Future[T] = Future()
        if self._running is None:  # called when a future was done
            future.set_result(self._transact(work))
        else:
            with self._running.atomic():
                future.set_result(work(self._running))
        return future

    def enqueue(self, job: Callable[[], T], *, behind: bool = False) -> Future[T]:
        """Queue a job with its own transactions for the writer thread; called there, it runs at once, or `behind` what waits."""
        self._check_open()
        return self._writer.submit(job, at_once=not behind)

    def flush(self) -> None:
        """Wait until everything that was submitted is written; not from inside of a write."""
        self._run(lambda: None)

    def checkpoint(self, *, wait_s: float | None = None) -> bool:
        """Move the log into the database file, durably, so that erased rows are gone from both; tell whether the log is empty.

        It waits `wait_s` seconds for a reader with an old snapshot; None: as long as for other processes.
        """
        end = monotonic() + (self._options.busy_timeout_s if wait_s is None else wait_s)
        # Between two tries others write: a turn does not wait for a reader.
        while not self._run(self._log.checkpoint):
            if monotonic() >= end:
                return False
            sleep(_AGAIN_S)
        return True

    def wipe(self, *, wait_s: float | None = None, stop: Callable[[], bool] = lambda: False) -> bool:
        """Empty the log, and overwrite copies of erased rows that SQLite left between cells; tell whether the whole file was seen.

        That fails where a reader keeps the log from being emptied, and once `stop`, asked every few milliseconds, is true.
        """
        begin: int | None = 0 if self.checkpoint(wait_s=wait_s) else -1
        while begin is not None and begin >= 0 and not stop():
            begin = self._run(partial(self._log.wipe_slack, self._raw, begin))
        return begin is None

    def check_files(self) -> None:
        """Raise ReplacedError if another program has removed, replaced or written the files since they were opened."""
        self._run(self._look)

    def backup(self, target: Path, *, stop: Callable[[], bool] = lambda: False) -> bool:
        """Write a complete and checked copy over `target` in one step; tell whether. `stop` is asked every millisecond or two."""
        self._check_open()
        return self._copy_to(Path(target).expanduser().absolute(), stop)

    def close(self) -> None:
        """Do the queued writes, empty the log into the file and close it; may be called twice."""
        if self.closed or not self._closing.acquire(blocking=False):
            return
        if os.getpid() != self._pid:
            self.closed = True
            self._lock.close()  # else it is held for as long as this child lives, should the parent die in a write
            return  # the parent's file, and a thread that does not exist here
        self._writer.stop()
        self.closed = True
        self._readers.close()
        self._log.empty()
        try:
            with self._lock.hold():
                self._connection.close()
        except BusyError:
            # The holder of the lock has the file open, so this connection is not the last: nothing is moved.
            self._connection.close()
        self._raw.close()
        self._opened.close()

    def __del__(self) -> None:
        if not self.closed:
            warnings.warn(f"{self.path} was not closed", ResourceWarning, source=self, stacklevel=2)
            # While Python ends the writer thread does nothing, and commits are in the log anyway.
            if not sys.is_finalizing():
                self.close()

    def _look(self) -> None:
        with self._exclusively():
            pass

    def _transact(self, work: Callable[[Transaction], T]) -> T:
        connection = self._connection
        if self.read_only:
            raise ReadOnlyError(
                f"{self.path} was opened to be read only, because it cannot be written; mount the disk read-write, or mend"
                " the rights, and open it again."
            )
        with self._exclusively(), all_or_none(connection):
            self._version = self._ticks.look(connection, self._version)
            self._running = transaction = Transaction(connection, self.clock)
            try:
                result = work(transaction)
            finally:
                transaction.open, self._running = False, None
            if transaction.erased:
                self._ticks.keep(connection, transaction.newest)
        return result

    def _open_writer(self, schema: Schema) -> Any:
        options = self._options
        with self._exclusively():
            connection = connect(self._file, "rw", options.busy_timeout_s)
            try:
                new = check_schema(connection, schema)
                if new and not self._create:
                    raise LostTruthError(f"{self.path} is empty.")
                if new:
                    connection.execute(f"pragma page_size = {int(options.page_size)}")
                    connection.execute("pragma auto_vacuum = none")
                if connection.execute("pragma journal_mode = wal").fetchone()[0] != "wal":
                    raise StoreError(f"The file system of {self.path} holds no log; put it on a local disk.")
                connection.execute("pragma wal_autocheckpoint = 0")
                connection.execute(f"pragma synchronous = {'full' if options.durable else 'off'}")
                connection.execute("pragma foreign_keys = on")
                connection.execute(f"pragma secure_delete = {'on' if options.durable else 'fast'}")
                if not new and (missing := missing_steps(connection, schema)):
                    self._back_up(connection, schema, missing[0])
                    self.migrated = tuple(missing)
                migrate(connection, schema.steps, clock=self.clock)
                self._ticks = Ticks(connection, schema, self.clock, self.path, derived=options.derived)
                self._version = self._ticks.look(connection, -1)
            except BaseException:
                connection.close()
                raise
            return connection

    def _back_up(self, connection: Any, schema: Schema, step: str) -> None:
        """Copy a file as it is before a step changes it; raise StoreError where that is impossible."""
        if self._options.backups is None or self.read_only:
            return
        Ticks(connection, schema, self.clock, self.path).look(connection, -1)
        target = self._options.backups / copy_name(self.clock.tick())
        try:
            self._copy_to(target, lambda: False)
        except (StoreError, InvalidInputError) as error:
            raise type(error)(
                f"{self.path} must be brought up to date ({step}) and is copied to {self._options.backups} before, which is"
                f" impossible, so nothing was changed: {error}"
            ) from error
        _log.warning("%s is brought up to date (%s); as it was it is kept in %s.", self.path, step, target)

    def _copy_to(self, target: Path, stop: Callable[[], bool]) -> bool:
        with (
            translated_errors(self.path),
            closing(connect(self._file, "ro", self._options.busy_timeout_s)) as source,
        ):
            return write_copy(source, target, connect=plain_connection, stop=stop)

    def _run(self, job: Callable[[], T]) -> T:
        if not self._writer.here:
            return self._queue(job).result()
        if self._running is not None:
            raise StoreError("A write cannot wait for its own end; flush or checkpoint after it.")
        return job()

    def _queue(self, job: Callable[[], T]) -> Future[T]:
        self._check_open()
        return self._writer.submit(job)

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError(f"{self.path.name} was closed; open it again.")
        if os.getpid() != self._pid:
            raise ClosedError(f"{self.path.name} was opened before this process forked; open it again here.")


@contextmanager
def _exclusive(
    path: Path, lock: FileLock, files: FileIdentities | None, *, moving: bool = False
) -> Iterator[None]:
    """Keep other processes from writing, `moving` also the database itself; raise ReplacedError where the files were exchanged."""
    with translated_errors(path), lock.hold():
        if files is None:
            yield
            return
        files.check(lock)
        if moving:
            lock.write_note(b"")
        try:
            yield
        finally:
            files.note(lock, moved=moving)


def _check_not_lost(path: Path) -> None:
    if not path.exists():
        raise LostTruthError(f"{path} is missing.")
    if path.is_file() and not path.stat().st_size:
        raise LostTruthError(f"{path} is empty.")


def _reader(path: Path, timeout_s: float, files: FileIdentities | None) -> Any:
    if files is not None:
        files.check()
    return connect(path, "ro", timeout_s)


class Writer:
    """Run jobs on one daemon thread, and `idle` behind a job when no other waits.

    The thread keeps no reference to an owner between jobs, so a forgotten one can be collected and say so.
    """

    def __init__(self, name: str, idle: Callable[[], None]) -> None:
        self._jobs: _Jobs = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._stopped = False
        self._thread = threading.Thread(target=_run, args=(self._jobs, idle), name=name, daemon=True)
        self._thread.start()

    @property
    def here(self) -> bool:
        """Tell whether the caller runs on this thread."""
        return threading.current_thread() is self._thread

    def submit(self, work: Callable[[], T], *, at_once: bool = False) -> Future[T]:
        """Queue a job; with `at_once` it is done now where the caller runs on this thread."""
        future: Future[T] = Future()
        if at_once and self.here:
            future.set_result(work())
            return future
        with self._lock:
            if self._stopped:
                raise ClosedError("The database was closed; open it again.")
            self._jobs.put((work, future))
        return future

    def stop(self) -> None:
        """Take no more jobs, and wait until those that wait have run."""
        with self._lock:
            if not self._stopped:
                self._stopped = True
                self._jobs.put(None)
        if not self.here:
            self._thread.join()


def _run(jobs: _Jobs, idle: Callable[[], None]) -> None:
    while (job := jobs.get()) is not None:
        work, future = job
        if future.set_running_or_notify_cancel():
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
                future.set_exception(error)
            else:
                future.set_result(result)
                del result
            if jobs.empty():
                idle()
        del job, work, future


class _Readers:
    """Connections made by `connect`: as many as queries run at once, and one that is shared."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._resting: list[Any] = []
        self._running = 0
        self._closed = False
        self._changed = threading.Condition()
        self._shared: Any = None
        self._sharing = threading.Lock()

    def query(self, sql: str, parameters: Any) -> list[tuple[Any, ...]]:
        """Return all rows of a statement."""
        with self._changed:
            self._check_open()
            self._running += 1
            connection = self._resting.pop() if self._resting else None
        try:
            connection = connection or self._connect()
            rows: list[tuple[Any, ...]] = connection.execute(sql, parameters).fetchall()
            return rows
        finally:
            with self._changed:
                self._running -= 1
                if connection is not None:
                    self._resting.append(connection)
                self._changed.notify_all()

    @contextmanager
    def shared(self) -> Iterator[Any]:
        """Lend a connection that no query takes, for what SQLite counts for each connection apart."""
        with self._sharing:
            self._check_open()
            self._shared = self._shared or self._connect()
            yield self._shared

    def close(self) -> None:
        """Close every connection, once the queries that run have ended."""
        with self._changed, self._sharing:
            self._closed = True
            self._changed.wait_for(lambda: not self._running)
            for connection in filter(None, (*self._resting, self._shared)):
                connection.close()
            self._resting = []

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("The database was closed; open it again.")
