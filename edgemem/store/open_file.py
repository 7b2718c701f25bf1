"""The open file: turns that are accepted and not yet written, beside the database.

Each stands in a place of its own and is blanked when it is written; the next one takes the same place. So the same
few pages are written over and over in the cache, and reach the disk when the kernel next looks for old ones, not with
each turn. Truncating instead would make a new page, and new metadata, for every turn.

No fsync: what stands here survives a kill, and a pulled plug only by luck. A record is a checksum, a space, JSON, a
line feed and a zero; between records are zeros.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from zlib import crc32

from edgemem.store.own_file import OwnFile, own_paths

if TYPE_CHECKING:
    from pathlib import Path

_MARK = ".open-"
_LARGE = 65_536  # a file that one very long turn has stretched is cut when it is empty


class OpenFile:
    """The records of one such file."""

    def __init__(self, own: OwnFile) -> None:
        self.own = own
        self._places: dict[int, int] = {}

    @classmethod
    def create(cls, database: Path, tick: int) -> OpenFile:
        """Make a new one; raise OSError where that is impossible."""
        return cls(OwnFile.create(database, _MARK, tick))

    @classmethod
    def left(cls, database: Path) -> list[OpenFile]:
        """Take over those of processes that are gone, oldest first."""
        return [cls(own) for own in OwnFile.left(database, _MARK)]

    @property
    def empty(self) -> bool:
        """Tell whether no record that was put here stands in it."""
        return not self._places

    def put(self, text: bytes) -> int:
        """Write a record into the first place that is free; return where it begins, or raise OSError."""
        data = b"%08x %s\n\0" % (crc32(text), text)
        begin = 0
        for there, end in sorted(self._places.items()):
            if there - begin >= len(data):
                break
            begin = end
        self.own.write(data, begin)
        self._places[begin] = begin + len(data)
        return begin

    def blank(self, begin: int) -> None:
        """Take a record out; raise OSError where the disk refuses."""
        end = self._places.pop(begin)
        if self.empty and os.fstat(self.own.fd).st_size > _LARGE:
            os.ftruncate(self.own.fd, 0)
        else:
            self.own.write(bytes(end - begin), begin)

    def read(self) -> list[bytes]:
        """Return the records that are whole.

        One that a kill has cut was promised to nobody; after any other damage the file is called damaged.
        """
        found = []
        for record in self.own.read().split(b"\0"):
            checksum, text = record[:8], record[9:-1]
            if checksum == b"%08x" % crc32(text) and record.endswith(b"\n"):
                found.append(text)
            elif record.endswith(b"\n"):
                self.own.damaged = True
        return found


def open_paths(database: Path) -> list[Path]:
    """Return the open files beside a database, oldest first."""
    return own_paths(database, _MARK)
