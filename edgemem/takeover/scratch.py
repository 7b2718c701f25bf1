"""The scratch truth: another system's records come in once, as an export does. Their one time is when it was true, and learnt."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from edgemem.clock import Clock
from edgemem.config import open_file
from edgemem.errors import EdgememError, InvalidInputError
from edgemem.store.db.database import Database
from edgemem.store.kinds import TRUTH
from edgemem.store.transfer.export import export_lines
from edgemem.store.transfer.merge import LEAP_US, ImportReport, import_lines

MAX_BYTES = 256 * 1024 * 1024
"""No memory of theirs has more, all of its files together."""

_SQLITE = b"SQLite format 3\x00"
_BESIDE = ("-wal", "-shm", "-journal", ".lock")  # ends of names of files that belong to another


class TakeoverReport(msgspec.Struct):
    """Records of the files and of the takeover, and remarks."""

    files: dict[str, dict[str, int]]
    added: dict[str, int]
    known: dict[str, int]
    refused: list[str]
    """Records that exclude stored ones, which stay."""
    remarks: list[str] = msgspec.field(name="told")  # its name in JSON


class ThenClock(Clock):
    """Gives ticks of the times at which another system wrote; they never repeat, and are the same a second time."""

    def __init__(self, now: float) -> None:
        super().__init__()
        self._now = now
        self.shown = self.last = 0

    def tick_of(self, at: float) -> int:
        """Return a moment as a tick; 0 for one of another age."""
        return int(at * 1e6) if 0 < at * 1e6 <= self._now * 1e6 + LEAP_US else 0

    def now(self) -> float:
        """Return the robot's time."""
        return self._now

    def tick(self, *, after: int = 0) -> int:
        """Return the tick of the clock's moment, or the one after the last tick if that is later."""
        self.last = max(self.last + 1, after + 1, self.shown)
        return self.last

    def witness(self, tick: int) -> None:
        """Take no note: the clock shows the past."""


@contextmanager
def scratch_truth(db: Database) -> Iterator[tuple[Database, ThenClock]]:
    """Lend an empty truth beside another one, and its clock; it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix=".takeover-", dir=db.path.parent) as folder:
        then = ThenClock(db.clock.now())
        with Database(Path(folder) / "scratch.db", clock=then, durable=False, schema=TRUTH) as scratch:
            yield scratch, then


def take_in(db: Database, scratch: Database) -> ImportReport:
    """Take everything that the scratch holds into a truth."""
    return import_lines(db, (f"{line}\n".encode() for line in export_lines(scratch)))


def read_files(
    path: Path, read: Callable[[Path, str, bytes | None], None], remarks: list[str], *, hint: str
) -> None:
    """Read a file, or each regular one in a folder; those of a folder that are none of theirs go into the remarks.

    `read` takes a file, its name in the folder, and its bytes; None: it is a database. Raise InvalidInputError, with the hint,
    where there is nothing, the one file is none of theirs, or all are more than MAX_BYTES.
    """
    path = path.expanduser()
    if not path.exists():
        raise InvalidInputError(f"There is nothing at {path}; {hint}")
    folder, left = path.is_dir(), MAX_BYTES
    for file in sorted(path.rglob("*")) if folder else [path]:
        if folder and (file.is_dir() or file.name.endswith(_BESIDE)):
            continue
        try:
            with open_file(file, links=not folder) as opened:
                left -= os.fstat(opened.fileno()).st_size
                if left < 0:
                    raise InvalidInputError(f"there are more than {MAX_BYTES:,} bytes.")
                data: bytes | None = opened.read(len(_SQLITE))
                data = None if data == _SQLITE else (data or b"") + opened.read(MAX_BYTES)
            with suppress(FileNotFoundError):  # what a database has in its log is read with it
                open_file(f"{file}-wal", links=False).close()
            read(file, str(file.relative_to(path)) if folder else path.name, data)
        except (EdgememError, OSError) as error:
            why = f"{error.strerror}." if isinstance(error, OSError) else error
            if not folder or left < 0:
                raise InvalidInputError(f"{path} was not taken in: {why}") from error
            remarks.append(f"{file} was skipped: {why}")


def json_of(text: Any) -> Any:
    """Return the value of a JSON text; None for any other."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
