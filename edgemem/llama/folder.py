"""A folder of models: one writer at a time, and files that appear whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgemem.errors import DiskFullError, DownloadError
from edgemem.store.files import sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Progress = Callable[[str, int, int], None]
    """Hears the stage, and bytes or tensors done and in all."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def silent(_stage: str, _done: int, _of: int) -> None:
    """Be the progress that nobody wants to hear."""


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process brings a model into this folder."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def put_in_place(made: Path, target: Path) -> None:
    """Move a finished file to its name so that, even with the plug pulled, it is there whole or not at all."""
    sync(made)
    made.replace(target)
    sync(target.parent)


def check_space(what: str, folder: Path, needed: int) -> None:
    """Raise DiskFullError, before anything is written, unless the folder's disk has `needed` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DiskFullError(
            f"{what} needs {mb(needed)} free, and the disk of {folder} has {mb(free)}; "
            "free some, or name another folder in EDGEMEM_MODELS"
        )


def explain(error: OSError, folder: Path) -> Exception:
    """Word what a disk refused when nothing of the work was kept."""
    # numpy says only how much it could not write, without an errno
    if error.errno is None or error.errno in FULL:
        return DiskFullError(
            f"The disk of {folder} became full; free some space and try again. No half file was left"
        )
    return DownloadError(
        f"{folder} cannot be written ({error.strerror or error}); name another in EDGEMEM_MODELS"
    )


def mb(count: int) -> str:
    """Return bytes as MB."""
    return f"{count / 1e6:,.0f} MB"
