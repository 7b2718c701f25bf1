"""Slack: the unallocated middle of a page, where SQLite leaves copies of cells that have moved to another page.

`secure_delete` overwrites a cell where it is deleted. But when pages are balanced their cells are laid out anew, and what
stood in the middle before stays: one of 950 forgotten facts was found in such a copy (SQLite 3.40, pages of 512 bytes).
No reader looks there, so zeros are written there while the log is empty and no other process writes.

Page 1 holds the schema alone and is left as it is. The layout is that of https://www.sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, ClassVar

from edgemem.errors import ReplacedError

if TYPE_CHECKING:
    from pathlib import Path

_MAGIC = b"SQLite format 3\0"
_HEADER = 100
_SLICE = 1 << 19  # bytes that are looked through at once: some milliseconds
_HEAD_OF = {2: 12, 5: 12, 10: 8, 13: 8}
"""Bytes of a b-tree page's head, by its type: interior and leaf, of indexes and of tables."""
_MOST_PAGES = 1 << 25
"""From so many pages on, the number of a page could be read as the type of one."""


class RawFile:
    """The bytes of a database file, beside SQLite; opened when they are needed.

    Closing any descriptor of a file drops all locks that the process holds on it, SQLite's too. So all that a process opens
    of one file share a descriptor, which is closed with the last of them; close this behind the connections.
    """

    _lock: ClassVar = threading.Lock()
    _shared: ClassVar[dict[tuple[int, int], tuple[int, int]]] = {}
    """The descriptor of each file by device and inode, -1 while there is none, and how many share it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _file_at(path)
        self._closed = False
        with self._lock:
            fd, users = self._shared.get(self._file, (-1, 0))
            self._shared[self._file] = fd, users + 1

    def close(self) -> None:
        """Let go of the file; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        with self._lock:
            fd, users = self._shared.pop(self._file)
            if users > 1:
                self._shared[self._file] = fd, users - 1
            elif fd >= 0:
                os.close(fd)

    def wipe_slack(self, begin: int) -> int | None:
        """Write zeros into the slack of some pages; return where to go on, None at the end, where all is on the disk.

        The log must be empty, and nobody may write meanwhile, nor write a page that was read before.

        Args:
            begin: where the first of the pages begins, in bytes; 0 at first.
        """
        fd = self._opened()
        head, size = os.pread(fd, _HEADER, 0), os.fstat(fd).st_size
        if head[: len(_MAGIC)] != _MAGIC:
            return None
        page = int.from_bytes(head[16:18], "big")
        page = 1 << 16 if page == 1 else page
        if size // page >= _MOST_PAGES:
            return None
        begin = max(begin, page)
        data = os.pread(fd, max(_SLICE, page), begin)
        for at in range(0, len(data) - page + 1, page):
            slack = _slack_of(data, at, page - head[20])
            if slack is not None:
                os.pwrite(fd, bytes(slack[1] - slack[0]), begin + slack[0])
        if begin + len(data) < size:
            return begin + len(data)
        os.fsync(fd)
        return None

    def _opened(self) -> int:
        with self._lock:
            fd, users = self._shared[self._file]
            if fd < 0:
                if _file_at(self._path) != self._file:
                    raise ReplacedError(
                        f"{self._path} is not the file any more that was opened; open it again."
                    )
                fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
                self._shared[self._file] = fd, users
            return fd


def _file_at(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _slack_of(data: bytes, at: int, usable: int) -> tuple[int, int] | None:
    """Return where the slack of the page at a position begins and ends; None: it is no b-tree page, or has only zeros there."""
    head = _HEAD_OF.get(data[at])
    if head is None:
        return None
    cells = data[at + 3] << 8 | data[at + 4]
    content = data[at + 5] << 8 | data[at + 6] or 1 << 16
    begin, end = at + head + 2 * cells, at + content
    if content > usable or begin >= end or data.count(0, begin, end) == end - begin:
        return None
    return begin, end
