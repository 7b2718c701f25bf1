"""Open turns: accepted and kept in a file of this process, until the one transaction that writes them.

The database sees an open turn only where something must come after it: another loop takes its session up, something is
forgotten, or the memory is closed. The tick at which it was accepted tells it from all others, and stands in its row;
so a turn that is found in the file after a kill is known to be written, or not.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import LostError
from edgemem.store.files import sync
from edgemem.store.messages import to_json
from edgemem.store.open_file import OpenFile, open_paths
from edgemem.store.sqlite_errors import meaning_of
from edgemem.store.turn_steps import Accept, Commit, Discard

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgemem.records import Turn
    from edgemem.store.database import Database
    from edgemem.store.outbox import Outbox
    from edgemem.store.waiting import Also

_log = logging.getLogger(__name__)


class _Open:
    """An open turn, and where it stands."""

    def __init__(self, turn: Turn, tick: int, before: _Open | None = None) -> None:
        self.turn = turn
        self.tick = tick
        self.before = before
        """What it replaces."""
        self.place: int | None = None
        """Where it begins in the file."""
        self.stored: Future[Any] | None = None
        """Its number in the database, if it has to stand there."""
        self.ended = False


class OpenTurns:
    """The open turns of one journal; safe to use from several threads."""

    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database = database
        self._outbox = outbox
        self._lock = threading.RLock()
        self._open: dict[Future[int], _Open] = {}
        self._file: OpenFile | None = None
        self._writing = threading.Lock()
        """Held while the file is touched."""

    def accept(self, turn: Turn, replaces: Future[int] | None = None) -> Future[int]:
        """Keep a turn, off the hot path; the result is when it was accepted, a StoreError where the disk refuses."""
        before = self._end(replaces)
        entry = _Open(turn, self._database.clock.tick() if before is None else before.tick, before)
        with self._lock:
            if before is not None and before.stored is not None:
                self._outbox.submit(Discard(turn.session), of=before.stored)
            future = self._database.enqueue(partial(self._put, entry))
            self._open[future] = entry
        future.add_done_callback(self._dropped)
        return future

    def commit(self, turn: Turn, also: Sequence[Also], accepted: Future[int] | None) -> Future[int]:
        """Write a whole turn; the result is its number."""
        entry = self._end(accepted)
        if entry is None:
            return self._outbox.submit(Commit(turn), also=also)
        written = self._outbox.submit(Commit(turn, entry.tick), also=also, of=entry.stored)
        written.add_done_callback(partial(self._written, entry))
        return written

    def discard(self, session: str, accepted: Future[int]) -> Future[bool]:
        """Erase an accepted turn; the result is whether there was one."""
        entry = self._end(accepted)
        if entry is None or entry.stored is None:
            return self._database.enqueue(partial(self._discard, entry))
        return self._outbox.submit(Discard(session), of=entry.stored)

    def store(self, session: str | None = None) -> bool:
        """Have the open turns of a session (None: of all) written as open ones; return whether there were any."""
        with self._lock:
            entries = [
                entry
                for entry in self._open.values()
                if entry.stored is None and session in (None, entry.turn.session)
            ]
            for entry in entries:
                self._store(entry)
        return bool(entries)

    def turns(self, session: str) -> list[Turn]:
        """Return the open turns of a session, with the ticks at which they were accepted."""
        with self._lock:
            return [
                msgspec.structs.replace(entry.turn, state="open", recorded_at=entry.tick / 1e6)
                for entry in self._open.values()
                if entry.turn.session == session and (entry.stored is None or not entry.stored.done())
            ]

    def close(self) -> None:
        """Remove the file, or leave it to the next opening if something stands in it; may be called twice."""
        if not self._database.closed:
            self._database.enqueue(self._close_file, behind=True).result()
        elif self._file is not None:
            self._file.own.close()

    def _end(self, accepted: Future[int] | None) -> _Open | None:
        """Let nobody else end this turn; None: it was not accepted."""
        with self._lock:
            entry = None if accepted is None else self._open.pop(accepted, None)
            if entry is not None:
                entry.ended = True
            return entry

    def _dropped(self, future: Future[int]) -> None:
        # One that was cancelled is ended at once; until then it may have been stored because something is forgotten.
        if not future.cancelled() and future.exception() is not None:
            with self._lock:
                self._open.pop(future, None)

    def _store(self, entry: _Open) -> None:
        entry.stored = self._outbox.submit(Accept(entry.turn, entry.tick), durable=False)
        entry.stored.add_done_callback(partial(self._stored, entry))

    # The file

    def _put(self, entry: _Open) -> int:
        with self._lock:
            if entry.ended or (entry.stored is not None and entry.stored.done()):
                return entry.tick
        text = to_json(Accept(entry.turn, entry.tick), what="A turn")
        try:
            with self._writing:
                if self._file is None:
                    self._file = OpenFile.create(self._database.path, entry.tick)
                entry.place = self._file.put(text.encode())
        except OSError as error:
            raise meaning_of(error, self._database.path) from error
        if entry.before is not None:
            self._blank(entry.before)
        return entry.tick

    def _discard(self, entry: _Open | None) -> bool:
        if entry is None:
            return False
        if entry.place is not None or entry.before is not None:
            self._blank(entry)
            # What was thrown away must not come back after a pulled plug either.
            sync_open_files(self._database.path)
        return True

    def _written(self, entry: _Open, future: Future[Any]) -> None:
        """Take a turn out of the file once the database has it."""
        error = None if future.cancelled() else future.exception()
        if error is None or entry.stored is not None or isinstance(error, LostError):
            self._blank(entry)
        else:
            # The database refuses the whole turn for what it is; what was accepted of it is kept.
            self._store(entry)

    def _stored(self, entry: _Open, future: Future[Any]) -> None:
        """Take a turn out of the file once the database has it as an open one, or will not have it at all."""
        if entry.ended or future.exception() is None:
            self._blank(entry)

    def _blank(self, entry: _Open) -> None:
        before, entry.before = entry.before, None
        if before is not None:
            self._blank(before)
        with self._writing:
            place, entry.place = entry.place, None
            if place is None or self._file is None:
                return
            try:
                self._file.blank(place)
            except OSError as error:
                _log.warning("A turn that is written could not be taken out of its file: %s", error)

    def _close_file(self) -> None:
        with self._writing:
            file, self._file = self._file, None
            if file is None:
                return
            try:
                if file.empty:
                    file.own.remove()
            except OSError as error:
                _log.warning("An empty file could not be removed: %s", error)
            file.own.close()


def sync_open_files(database: Path) -> None:
    """Have the disk forget what was taken out of the open files, also of other processes; raise StoreError."""
    try:
        for path in open_paths(database):
            with suppress(FileNotFoundError):  # its process has ended
                sync(path)
    except OSError as error:
        raise meaning_of(error, database) from error
