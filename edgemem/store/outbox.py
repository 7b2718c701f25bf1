"""The outbox: steps of the journal on their way into the database, in order, each exactly once.

Usually a step is written at once, on the writer thread. Where that is impossible (another program holds the database,
the disk is full or broken), it waits here and, if the disk allows that, in a file beside the database; everything that
comes later waits behind it. Whatever is tried next tries the oldest first.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from edgemem.errors import (
    BusyError,
    CorruptError,
    DiskError,
    DiskFullError,
    LostError,
    ReadOnlyError,
    StoreError,
)
from edgemem.store.pending_file import PENDING, PendingFile, pending_paths
from edgemem.store.turn_steps import Accept, Commit
from edgemem.store.waited import Waited, note_written, read_waited
from edgemem.store.waiting import Also, Waiting, left_behind

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.store.database import Database
    from edgemem.store.own_file import OwnFile
    from edgemem.store.turn_steps import Step

_LATER = (BusyError, DiskFullError, ReadOnlyError, DiskError, CorruptError)
"""What may be possible later. Any other failure of a step would come back each time, and hold up all behind it."""

_LOOK_S = 0.02  # how soon somebody who begins to speak is served

_log = logging.getLogger(__name__)


class Outbox:
    """The steps of one journal; safe to use from several threads.

    Args:
        most: how many turns may wait; a further one is refused, and lost.
    """

    def __init__(self, database: Database, *, most: int = 500) -> None:
        self.most = most
        self.fault: StoreError | None = None
        """Why what waits could not be written; None: nothing waits, or it was not tried yet."""
        self._database = database
        self._lock = threading.RLock()
        self._queue: deque[Waiting] = deque()
        self._ids = count(1)
        self._try: Future[None] | None = None
        self._draining = False
        self._own: PendingFile | None = None
        self._files: list[OwnFile] = []
        self._late = 0
        # What processes that are gone have left is older than all that comes now, so it is waited for.
        database.enqueue(self._take_over).result()

    @property
    def turns(self) -> int:
        """Return how many turns wait because they could not be written."""
        if self.fault is None:
            return 0
        with self._lock:
            return sum(isinstance(entry.step, Commit) for entry in self._queue)

    @property
    def paths(self) -> list[Path]:
        """Return the pending files that hold what waits here."""
        return [file.path for file in self._files if file.mark == PENDING]

    def submit(
        self, step: Step, *, also: Sequence[Also] = (), of: Future[Any] | None = None, durable: bool = True
    ) -> Future[Any]:
        """Queue a step without waiting; the result is known once it is written.

        Args:
            also: further writes for the same transaction.
            of: what an earlier submit returned, whose result the step needs.
            durable: as for `Database.submit`.
        """
        entry = Waiting(next(self._ids), step, also=also, of=of, durable=durable)
        with self._lock:
            self._queue.append(entry)
        try:
            self._begin()
        except BaseException:
            with self._lock:
                self._queue.remove(entry)
            raise
        return entry.future

    def retry(self) -> Future[None] | None:
        """Try again what waits, on the writer thread; None if nothing does."""
        return self._begin() if self._queue else None

    def work(self, stop: Callable[[], bool]) -> bool:
        """Try again what could not be written, until `stop` says that somebody speaks; return whether it worked.

        Raises:
            StoreError: it is still impossible.
        """
        tried = self.retry() if self.fault is not None else None
        if tried is None:
            return False
        while not tried.done() and not stop():
            wait([tried], _LOOK_S)
        if tried.done() and self.fault is not None:
            raise self.fault
        return tried.done()

    def settle(self, *, wait_s: float | None = None) -> None:
        """Write what waits here or was left by processes that are gone, before something that must come after it.

        Args:
            wait_s: how long to wait for it; None: as long as the database waits for others.

        Raises:
            StoreError: it is still impossible.
        """
        tried = self._database.enqueue(self._take_over)
        wait([tried], wait_s)
        if not tried.done():
            raise BusyError(
                f"{self._database.path.name} is busy, so nothing was done; try again in a moment."
            )
        tried.result()
        if self.fault is not None:
            raise self.fault
        if others := set(pending_paths(self._database.path)) - set(self.paths):
            raise BusyError(
                f"Another program has turns that wait to be written ({min(others).name}); try again when it has"
                " written them, or stop it."
            )

    def waited(self) -> Waited | None:
        """Return what had to wait and was written since, in this process or another; None: nothing ever."""
        return read_waited(self._database)

    def close(self) -> None:
        """Try once more; what is still impossible stays in its file for whoever opens the database next.

        Raises:
            StoreError: the file could not be written either, so turns are lost.
        """
        if self._database.closed:
            return
        if (tried := self.retry()) is not None:
            tried.result()
        turns, fault, files, paths = self.turns, self.fault, self._files, self.paths
        # A turn that is still open stands in the open file all the same.
        lost = sum(not entry.mark and not isinstance(entry.step, Accept) for entry in self._queue)
        with self._lock:
            self._queue.clear()
        self.fault, self._files, self._own = None, [], None
        for file in files:
            file.close()
        if lost:
            raise StoreError(f"{turns} turns could not be written, nor kept in a file, and are lost: {fault}")
        if turns:
            _log.error(
                "%d turns could not be written: %s They stand in %s and are taken in when this memory is opened again.",
                turns,
                fault,
                ", ".join(map(str, paths)),
            )

    # Trying

    def _begin(self) -> Future[None]:
        with self._lock:
            # One try that has not begun yet serves for all that came meanwhile.
            if self._try is None or self._try.running() or self._try.done():
                self._try = self._database.enqueue(self._drain)
            return self._try

    def _drain(self) -> None:
        """Write what waits, oldest first, until nothing does or it is impossible."""
        if self._draining:  # called when a step's result was known
            return
        self._draining = True
        try:
            self._write_all()
        finally:
            self._draining = False

    def _write_all(self) -> None:
        while self._queue:
            entry = self._queue[0]
            if not self._claim(entry):
                continue
            try:
                written = self._database.submit(entry.write, durable=entry.durable)
                result = written.result()
            except _LATER as error:
                self._keep(error)
                return
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
                self._drop(entry)
                entry.future.set_exception(error)
            else:
                if entry.late and isinstance(entry.step, Commit):
                    self._late += 1
                self._drop(entry)
                entry.future.set_result(result)
        if self.fault is not None or self._files:
            self._settled()

    def _claim(self, entry: Waiting) -> bool:
        """Tell whether an entry shall be done; drop one that was cancelled."""
        if entry.claim():
            return True
        self._drop(entry)
        return False

    def _drop(self, entry: Waiting) -> None:
        with self._lock:
            self._queue.remove(entry)

    def _keep(self, error: StoreError) -> None:
        """Put what waits into the file too, so that it survives this process."""
        if self.fault is None:
            _log.warning("Turns wait to be written, and are tried again: %s", error)
        self.fault = error
        with self._lock:
            for entry in self._queue:
                entry.late = True
            self._refuse()
            # What stands in the file is done by whoever reads it, so it cannot be cancelled.
            entries = [entry for entry in list(self._queue) if not entry.mark and self._claim(entry)]
        try:
            if self._own is None:
                self._own = PendingFile.create(self._database.path, self._database.clock.tick())
                self._files.append(self._own.own)
            for entry in entries:
                entry.put_into(self._own)
        except OSError as fault:
            _log.warning("Turns that wait are kept in memory only: %s", fault)

    def _refuse(self) -> None:
        """Give up what is beyond the bound: the newest, so that what is kept stays without a gap."""
        commits = 0
        for entry in list(self._queue):
            if commits >= self.most and isinstance(entry.step, Commit) and not entry.mark:
                self._drop(entry)
                told = f"This turn is lost: {self.most:,} turns wait already ([store] waiting_turns). {self.fault}"
                if entry.claim():
                    entry.future.set_exception(LostError(told))
            commits += isinstance(entry.step, Commit)

    def _settled(self) -> None:
        """Let go of the files: all that stood in them is written."""
        late, self._late, self.fault = self._late, 0, None
        files, self._files, self._own = self._files, [], None
        try:
            for file in files:
                file.remove()
        except OSError as error:
            _log.warning("A file whose turns are all written could not be removed: %s", error)
        for file in files:
            file.close()
        try:
            self._database.submit(partial(note_written, path=self._database.path, late=late)).result()
        except StoreError as error:
            _log.warning("That turns which waited are written could not be noted: %s", error)
        if late:
            _log.warning("%d turns that had waited are written.", late)

    # Taking over

    def _take_over(self) -> None:
        """Take in what processes that are gone have left, and write all that waits."""
        try:
            files, steps = left_behind(self._database.path, self._ids)
        except OSError as error:
            files, steps = [], []
            _log.warning("What an earlier run may have left cannot be read: %s", error)
        with self._lock:
            self._queue.extend(steps)
        self._files += files
        if files and self.fault is None:
            # Until it is tried, nobody knows of a fault; what is written now has waited all the same.
            self.fault = StoreError("An earlier run could not write them.")
        self._drain()
