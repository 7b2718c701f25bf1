"""`JSONMemoryStore`: memory in one JSON file that a person can read and edit.

The engine is that of `SQLiteMemoryStore`, over tables in memory. A change is in the tables at once and in the file half a second
later, and on `close` and `flush`; memory tools flush it, and hooks when a turn ends. The file is replaced in one step. What
others write into it meanwhile shows with the next call, and pending changes are done again on top.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from edgemem.clock import Clock
from edgemem.errors import ClosedError, EdgememError, InvalidInputError
from edgemem.store.db.connection import all_or_none, migrate, plain_connection, translated_errors
from edgemem.store.db.files import locked_beside, set_aside
from edgemem.store.db.transaction import Transaction
from edgemem.store.json.files import JsonFile, copy_aside
from edgemem.store.json.records import MADE, MemoryFile, file_of, fill, free_id, state_fact
from edgemem.store.kinds import TRUTH
from edgemem.store.memory_store import TableMemoryStore, settings_of

if TYPE_CHECKING:
    from edgemem.store.db.transaction import Tables
    from edgemem.store.facts import Outcome

T = TypeVar("T")

_log = logging.getLogger(__name__)


class MemoryTables:
    """The tables of a truth in memory, for a store with another kind of file; one connection serves all threads in turn.

    Ids that the engine makes lie beyond all time, so that none is the tick of something that the file dates.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self.clock = clock
        self.closed = False
        self._turn = threading.RLock()
        self._ids = Clock()
        self._ids.witness(MADE)
        self._connection = plain_connection(":memory:")
        self._connection.execute("pragma temp_store = memory")
        self._connection.execute("pragma foreign_keys = on")
        migrate(self._connection, TRUTH.steps, clock=self._ids)

    @property
    def changes(self) -> int:
        """Return how many rows were ever changed."""
        return self._connection.total_changes

    def query(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a statement that only reads."""
        with self._turn, translated_errors(self.path):
            self.check_open()
            return self._connection.execute(sql, parameters).fetchall()

    def now(self) -> float:
        """Return the clock's time."""
        return self.clock.now()

    def write(self, work: Callable[[Transaction], T], *, recorded: int | None = None) -> T:
        """Run `work` in one transaction of a tick (None: a new one) and return its result."""
        with self._turn, translated_errors(self.path):
            self.check_open()
            with all_or_none(self._connection):
                tick = self.clock.tick() if recorded is None else recorded
                return work(Transaction(self._connection, self._ids, recorded=tick))

    def close(self) -> None:
        """Drop the tables; may be called twice."""
        with self._turn:
            self.closed = True
            self._connection.close()

    def check_open(self) -> None:
        """Raise ClosedError once they were dropped."""
        if self.closed:
            raise ClosedError("The memory was closed; open it again.")


class JSONMemoryStore(TableMemoryStore):
    """Memory in one JSON file, for prototypes and for people who want to look; safe to use from several threads.

    Args:
        path: made, with its folders, by the first change.
        autoload: read the file now; if not, `load` does, or the first write.
        max_episodes: how many of the newest episodes are kept; 0 keeps all.
        flush_after_s: a change is in the file after this many seconds; 0: when the call returns.
        doubtful_below: as of `SQLiteMemoryStore`; it holds for the whole file whenever that is read.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        autoload: bool = True,
        clock: Clock | None = None,
        max_episodes: int | None = None,
        flush_after_s: float = 0.5,
        doubtful_below: float = 0.5,
    ) -> None:
        self._settings = settings_of(max_episodes, doubtful_below)
        self._file = JsonFile(path, MemoryFile)
        self._clock = clock or Clock()
        self._flush_after_s = flush_after_s
        self._tables = MemoryTables(self._file.path, self._clock)
        self._known = False  # the tables held something once
        self._unsaved: list[tuple[int, Callable[[Transaction], object]]] = []
        """Changes, each with its tick; they can be done again, in tables that somebody has changed."""
        self._spoiled = False  # the file holds what could not be understood, and would be lost
        self._following = False  # the file was read; before, it does not show
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()
        self._writing = threading.RLock()  # always taken before the other one
        if autoload:
            try:
                self.load()
            except BaseException:
                self._tables.close()
                raise

    @property
    def path(self) -> Path:
        """Return the file."""
        return self._file.path

    def load(self) -> None:
        """Read the file, and do pending changes on top of it; hand edits show from now on."""
        with self._writing, self._lock:
            self._tables.check_open()
            self._following = True
            file = self._file.read()
            if file is None:
                if self._file.damaged and self._known:
                    # The tables are in no file any more.
                    self._unsaved.append((self._clock.tick(), lambda _tx: None))
                    self._write_soon()
                return
            problems = self._tables.write(lambda tx: self._take_in(tx, file))
            self._spoiled = bool(problems)
            if problems:
                _log.warning(
                    "Not all of %s could be understood: %s. Mend it; a copy is set aside before it is written.",
                    self._file.path,
                    "; ".join(problems[:5]),
                )
            self._known = True

    def _records(self) -> Tables:
        if self._following and not self._tables.closed and self._file.changed():
            with self._writing:
                if self._file.changed():
                    self.load()
        return self._tables

    def _write(self, work: Callable[[Transaction], T]) -> T:
        tick = self._clock.tick()
        self._records()
        with self._lock:
            self._tables.check_open()
            before = self._tables.changes
            result = self._tables.write(work, recorded=tick)
            if self._tables.changes == before:
                return result
            self._unsaved.append((tick, work))
            self._known = True
            self._write_soon()
        if self._flush_after_s <= 0:
            self.flush()
        return result

    def _checked_metadata(self, metadata: dict[str, Any] | None, *, aloud: bool = True) -> dict[str, Any]:
        if metadata or not aloud:
            raise InvalidInputError(
                "A JSON file keeps no metadata, and not what is never aloud; leave it out, or use a SQLiteMemoryStore."
            )
        return {}

    def _assert_fact(self, tx: Transaction, key: str, value: Any, **options: Any) -> Outcome:
        return state_fact(tx, key, value, doubtful_below=self.doubtful_below, **options)

    def _episode_id(self, tx: Transaction) -> int:
        return free_id(tx, "episodes", tx.recorded)

    def _erased(self, texts: Collection[str]) -> None:
        """Have it leave the copies that were set aside as well: erased is erased."""
        self.flush()
        forms = {form for text in texts if text for form in _forms(text)}
        with translated_errors(self.path):
            for copy in set_aside(self.path):
                if any(form in copy.read_bytes() for form in forms):
                    copy.unlink()
                    _log.warning("%s held what was just forgotten, and was erased with it.", copy)

    def flush(self) -> None:
        """Write pending changes to the file, durably."""
        with self._writing:
            with self._lock:
                if self._timer is not None:
                    self._timer.cancel()
                    self._timer = None
                if not self._unsaved:
                    return
            with locked_beside(self._file.path):
                written = self._write_file()
                while not written:  # somebody else has written the file
                    self.load()
                    written = self._write_file()

    def close(self) -> None:
        """Write pending changes to the file; may be called twice."""
        if not self._tables.closed:
            self.flush()
            self._tables.close()

    def _take_in(self, tx: Transaction, file: MemoryFile) -> list[str]:
        problems = fill(tx, file, self._clock, doubtful_below=self.doubtful_below)
        for tick, change in self._unsaved:
            tx.recorded = tick
            change(tx)
        return problems

    def _write_soon(self) -> None:
        if self._flush_after_s > 0 and self._timer is None:
            # Not a daemon: a process that ends without closing the store still writes.
            self._timer = threading.Timer(self._flush_after_s, self._flush_later)
            self._timer.start()

    def _write_file(self) -> bool:
        with self._lock:
            file, count = file_of(self._tables, keep=self.max_episodes), len(self._unsaved)
        if self._spoiled:
            copy = copy_aside(self._file.path)
            self._spoiled = False
            _log.warning("%s is written anew; what stood there is in %s.", self._file.path, copy.name)
        if not self._file.write(file):
            return False
        with self._lock:
            del self._unsaved[:count]
        self._following = True
        return True

    def _flush_later(self) -> None:
        try:
            self.flush()
        except EdgememError as error:
            _log.warning("Memory is not in its file yet: %s It is tried again with the next change.", error)


def _forms(text: str) -> tuple[bytes, ...]:
    """Return a text as JSON, of us and of editors that write ASCII."""
    return tuple(json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode() for ascii_only in (False, True))
