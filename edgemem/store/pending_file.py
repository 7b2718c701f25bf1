"""The pending file: what could not be written into the database, one JSON line each, beside it.

A line counts once it is on the disk; half a line at the end was never promised to anybody.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from edgemem.store.own_file import OwnFile, own_paths

if TYPE_CHECKING:
    from pathlib import Path

PENDING = ".pending-"


class PendingFile:
    """The lines of one such file."""

    def __init__(self, own: OwnFile) -> None:
        self.own = own

    @classmethod
    def create(cls, database: Path, tick: int) -> PendingFile:
        """Make a new one that sorts behind those made before; raise OSError where that is impossible."""
        return cls(OwnFile.create(database, PENDING, tick))

    @classmethod
    def left(cls, database: Path) -> list[PendingFile]:
        """Take over those of processes that are gone, oldest first."""
        return [cls(own) for own in OwnFile.left(database, PENDING)]

    def append(self, line: bytes) -> None:
        """Add a line, on the disk before this returns, or nothing; raise OSError where that is impossible."""
        before = os.fstat(self.own.fd).st_size
        try:
            self.own.write(line + b"\n", before)
            os.fsync(self.own.fd)
        except OSError:
            os.ftruncate(self.own.fd, before)
            raise

    def read(self) -> list[bytes]:
        """Return the lines that are whole."""
        return self.own.read().split(b"\n")[:-1]


def pending_paths(database: Path) -> list[Path]:
    """Return the pending files beside a database, oldest first."""
    return own_paths(database, PENDING)
