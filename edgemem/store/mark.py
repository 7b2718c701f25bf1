"""The mark of a home: a small file beside the truth that says which one the home has, and what became of those before.

It is written after the first durable commit, so a first start that is cut off leaves none. One that cannot be read is a
mark all the same: whatever wrote it had a truth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from edgemem.store.db.files import write_private

if TYPE_CHECKING:
    from pathlib import Path

_NAME = "home.json"


class Loss(msgspec.Struct, frozen=True, omit_defaults=True):
    """A truth that was lost, and what was put in its place without anybody there."""

    at: float
    """When it was noticed, in seconds since the epoch."""
    fault: str
    backup: str = ""
    """The name of the backup that was put back; empty: there was no good one, so the memory began empty."""
    until: float = 0.0
    """When the newest record of that backup was made, in seconds since the epoch."""
    aside: tuple[str, ...] = ()
    """The names of the files that were put aside."""


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a home knows of its truth."""

    truth: int = 0
    """The tick at which it was born; 0: nobody knows."""
    losses: tuple[Loss, ...] = ()
    """Those that nobody has acknowledged yet, oldest first."""


def read_mark(folder: Path) -> Mark | None:
    """Return the mark in a home's `db`; None if there is none."""
    try:
        return msgspec.json.decode((folder / _NAME).read_bytes(), type=Mark)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.DecodeError):
        return Mark()


def write_mark(folder: Path, mark: Mark) -> None:
    """Write the mark durably; raise OSError where that is impossible."""
    write_private(folder / _NAME, msgspec.json.format(msgspec.json.encode(mark)))
