"""What keeps a `JsonMemory` and its file in step: a change is written a moment later, and nobody's change is lost."""

from __future__ import annotations

import json
import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgemem.errors import ClosedError, EdgememError
from edgemem.store.json.files import JsonFile, copy_aside, meaningful
from edgemem.store.json_memory import JsonMemory
from edgemem.store.json_memory_file import MemoryFile, file_of, read_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from edgemem.clock import Clock

_log = logging.getLogger(__name__)


class JsonKeeper:
    """A memory and its file; safe to use from several threads, and from several processes on one file.

    Args:
        flush_after_s: a change is in the file after this many seconds; 0: when `change` returns.
        doubtful_below: a recogniser's confidence below which a contradiction is a doubt.
    """

    def __init__(
        self, path: str | Path, clock: Clock, *, flush_after_s: float, doubtful_below: float
    ) -> None:
        self.file = JsonFile(path, MemoryFile)
        self._changes = 0
        self._clock = clock
        self._flush_after_s = flush_after_s
        self._doubtful_below = doubtful_below
        self._memory = JsonMemory(doubtful_below=doubtful_below)
        self._unsaved: list[Callable[[JsonMemory], bool]] = []
        self._spoiled = False
        """Whether the file holds what could not be understood, and would be lost."""
        self._following = False
        """Whether the file was read; before, it does not show."""
        self._timer: threading.Timer | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._writing = threading.RLock()  # always taken before the other one

    @property
    def changes(self) -> int:
        """Return how often the memory has changed, also by another hand."""
        self._follow()
        return self._changes

    @contextmanager
    def reading(self) -> Iterator[JsonMemory]:
        """Lend the memory as the file has it; nobody changes it meanwhile."""
        self._follow()
        with self._lock:
            self._require_open()
            yield self._memory

    def change(self, change: Callable[[JsonMemory], bool]) -> bool:
        """Change the memory at once and the file a moment later; tell whether anything changed.

        Args:
            change: can be done again, on a memory that somebody else has changed meanwhile.
        """
        self._follow()
        with self._lock:
            self._require_open()
            if not change(self._memory):
                return False
            self._unsaved.append(change)
            self._changes += 1
            self._write_soon()
        if self._flush_after_s <= 0:
            self.flush()
        return True

    def load(self) -> None:
        """Read the file, and do on top of it what is not written yet; without a file, what is known stays."""
        with self._writing, self._lock:
            self._require_open()
            self._following = True
            file = self.file.read()
            if file is None:
                if self.file.damaged and self._changes:
                    # What is known stands in no file any more.
                    self._unsaved.append(_nothing)
                    self._write_soon()
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
            self._changes += 1

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

    def erase_aside(self, texts: Collection[str]) -> list[Path]:
        """Erase the copies that were set aside and hold one of these texts; return where they were."""
        found = {form for text in texts if text for form in _forms(text)}
        gone = [path for path in self.file.set_aside() if any(form in path.read_bytes() for form in found)]
        with meaningful(self.file.path):
            for path in gone:
                path.unlink()
        return gone

    def _follow(self) -> None:
        """Read the file if a person or another process has written it."""
        if self._following and not self._closed and self.file.changed():
            with self._writing:
                if self.file.changed():
                    self.load()

    def _write_soon(self) -> None:
        if self._flush_after_s > 0 and self._timer is None:
            # Not a daemon: a process that ends without closing the store still writes.
            self._timer = threading.Timer(self._flush_after_s, self._flush_later)
            self._timer.start()

    def _write(self) -> bool:
        with self._lock:
            file, count = file_of(self._memory), len(self._unsaved)
        if self._spoiled:
            copy = copy_aside(self.file.path)
            self._spoiled = False
            _log.warning("%s is written anew; what stood there is in %s.", self.file.path, copy.name)
        if not self.file.write(file):
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

    def _require_open(self) -> None:
        if self._closed:
            raise ClosedError("The memory was closed; open it again.")


def _nothing(_memory: JsonMemory) -> bool:
    """Change nothing, and have it written."""
    return True


def _forms(text: str) -> tuple[bytes, ...]:
    """Return a text as it stands in JSON, of us and of editors that write ASCII."""
    return tuple(json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode() for ascii_only in (False, True))
