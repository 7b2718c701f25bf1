"""What SQLite's errors mean for the person in front of the robot."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from edgemem.errors import (
    BusyError,
    CorruptError,
    DiskError,
    DiskFullError,
    InvalidInputError,
    ReadOnlyError,
    StoreError,
)

if TYPE_CHECKING:
    from pathlib import Path

# Python before 3.11 does not hand out result codes; SQLite's own words are stable, so they serve for all.
_FULL = "No space is left for {path}; free some and try again. What was stored before is intact."
_READ_ONLY = (
    "{path} cannot be written; mend the rights of the file and its folder, or mount the disk read-write. Where nothing may"
    " be written, copy the whole folder to another disk and open the copy."
)
_BROKEN = "The disk under {path} cannot be read or written; look at the card and at `dmesg`."
_MEANINGS: tuple[tuple[tuple[str, ...], type[StoreError], str], ...] = (
    (
        ("database is locked", "database table is locked", "database schema is locked"),
        BusyError,
        "Another process holds {path}; close it or try again.",
    ),
    (("disk is full",), DiskFullError, _FULL),
    (("readonly database", "unable to open database file"), ReadOnlyError, _READ_ONLY),
    (
        ("file is not a database",),
        CorruptError,
        "{path} is not an SQLite database; name another file. It was left as it is.",
    ),
    (
        ("malformed",),
        CorruptError,
        "{path} is damaged; put a copy in its place, or save what can be read: sqlite3 {path} .recover",
    ),
    (
        ("disk I/O error",),
        DiskError,
        _BROKEN,
    ),
)
_OS_MEANINGS: dict[int, tuple[type[StoreError], str]] = {
    errno.ENOSPC: (DiskFullError, _FULL),
    errno.EDQUOT: (DiskFullError, _FULL),
    errno.EROFS: (ReadOnlyError, _READ_ONLY),
    errno.EACCES: (ReadOnlyError, _READ_ONLY),
    errno.EPERM: (ReadOnlyError, _READ_ONLY),
    errno.EIO: (DiskError, _BROKEN),
}


def meaning_of(error: Exception, path: Path) -> StoreError | InvalidInputError:
    """Return the error of ours that says what happened to `path` and what to do."""
    if isinstance(error, OSError):
        if error.errno in (errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP):
            return InvalidInputError(
                f"{path} cannot be used as a file ({error.strerror}); move it away or name another."
            )
        kind, advice = _OS_MEANINGS.get(error.errno or 0, (StoreError, f"{{path}}: {error.strerror}."))
        return kind(advice.format(path=path))
    text = str(error)
    if isinstance(error, UnicodeDecodeError):
        # SQLite quotes what it stumbled over, such as the text of a schema with a flipped bit.
        text = "malformed"
    elif isinstance(error, UnicodeError):
        return InvalidInputError(
            "Half a character (a lone surrogate) cannot be stored or looked for; remove it from the text."
        )
    if isinstance(error, OverflowError) or "too big" in text:
        return InvalidInputError(f"This cannot be stored in {path.name}: {text}.")
    for words, kind, advice in _MEANINGS:
        if any(word in text for word in words):
            return kind(advice.format(path=path))
    return StoreError(f"{path} refused a statement: {text}.")
