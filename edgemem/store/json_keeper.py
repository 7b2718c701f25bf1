"""What keeps a `JsonMemory` and its file in step: a change is written a moment later, and nobody's change is lost."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgemem.errors import ClosedError, EdgememError
from edgemem.store.json_file import JsonFile
from edgemem.store.json_memory import JsonMemory
from edgemem.store.json_memory_file import MemoryFile, file_of, read_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from edgemem.clock import Clock

_log = logging.getLogger(__name__)


class JsonKeeper:
    """A memory and its file; safe to use from several threads, and from several processes on one file.

    Args:
        flush_after_s: a change is in the file after this many seconds; 0: when `change` returns.
        doubtful_below: a recogniser's confidence below which a contradiction is a doubt.
    """

    def __init__(self, path: Path, clock: Clock, *, flush_after_s: float, doubtful_below: float) -> None:
        self.file = JsonFile(path, MemoryFile)
        self.changes = 0
        """How often the memory has changed."""
        self._clock = clock
        self._flush_after_s = flush_after_s
        self._doubtful_below = doubtful_below
        self._memory = JsonMemory(doubtful_below=doubtful_below)
        self._unsaved: list[Callable[[JsonMemory], bool]] = []
        self._spoiled = False
        """Whether the file holds what could not be understood, and would be lost."""
        self._timer: threading.Timer | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._writing = threading.RLock()  # always taken before the other one

    @contextmanager
    def reading(self) -> Iterator[JsonMemory]:
        """Lend the memory; nobody changes it meanwhile."""
        with self._lock:
            self._require_open()
            yield self._memory

    def change(self, change: Callable[[JsonMemory], bool]) -> bool:
        """Change the memory at once and the file a moment later; tell whether anything changed.

        Args:
            change: can be done again, on a memory that somebody else has changed meanwhile.
        """
        with self._lock:
            self._require_open()
            if not change(self._memory):
                return False
            self._unsaved.append(change)
            self.changes += 1
            if self._flush_after_s > 0 and self._timer is None:
                # Not a daemon: a process that ends without closing the store still writes.
                self._timer = threading.Timer(self._flush_after_s, self._flush_later)
                self._timer.start()
        if self._flush_after_s <= 0:
            self.flush()
        return True

    def load(self) -> None:
        """Read the file, and do on top of it what is not written yet; without a file, what is known stays."""
        with self._writing, self._lock:
            self._require_open()
            file = self.file.read()
            if file is None:
                return
            memory, problems = read_memory(file, self._clock, doubtful_below=self._doubtful_below)
            self._spoiled = bool(problems)
            if problems:
                _log.warning(
                    "Not all of %s could be understood: %s. Mend it; a copy is set aside before it is written.",
                    self.file.path,
                    "; ".join(problems[:5]),
                )
            for change in self._unsaved:
                change(memory)
            self._memory = memory
            self.changes += 1

    def flush(self) -> None:
        """Write what is not in the file yet, durably."""
        with self._writing:
            with self._lock:
                if self._timer is not None:
                    self._timer.cancel()
                    self._timer = None
                if not self._unsaved:
                    return
            with self.file.locked():
                written = self._write()
                while not written:  # somebody else has written the file
                    self.load()
                    written = self._write()

    def close(self) -> None:
        """Write what is not in the file yet; may be called twice."""
        if not self._closed:
            self.flush()
            self._closed = True

    def set_aside_with(self, text: str) -> list[Path]:
        """Return the damaged files beside this one that hold a text."""
        return [path for path in self.file.set_aside() if text.encode() in path.read_bytes()]

    def _write(self) -> bool:
        with self._lock:
            file, count = file_of(self._memory), len(self._unsaved)
        if self._spoiled:
            copy = self.file.keep_copy()
            self._spoiled = False
            _log.warning("%s is written anew; what stood there is in %s.", self.file.path, copy.name)
        if not self.file.write(file):
            return False
        with self._lock:
            del self._unsaved[:count]
        return True

    def _flush_later(self) -> None:
        try:
            self.flush()
        except EdgememError as error:
            _log.warning("Memory is not in its file yet: %s It is tried again with the next change.", error)

    def _require_open(self) -> None:
        if self._closed:
            raise ClosedError("The memory was closed; open it again.")
