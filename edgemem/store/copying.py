"""Copying a database whole while others use it.

Ours: a few pages at a time, checked, and renamed only when it is good. Another program's: its files, as they lie there.
"""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.errors import BusyError, StoreError
from edgemem.store.files import sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NAME = "memory-%Y%m%dT%H%M%S.%fZ.db"
_SCRATCH = "edgemem-"
_PAGES = 256  # 128 kB of the smallest pages: a millisecond or two, so that whoever begins to speak is not heard late
_CHECKED_AT_ONCE = 20_000  # of SQLite's instructions, about a millisecond


def copy_name(tick: int) -> str:
    """Return the name of a copy that holds everything up to a tick of the robot's clock."""
    moment = datetime.fromtimestamp(tick // 1_000_000, timezone.utc).replace(microsecond=tick % 1_000_000)
    return moment.strftime(_NAME)


def stamp_of(path: Path) -> int:
    """Return the tick after a copy's newest record, also of one that is begun; 0 where the name is none of ours."""
    name = path.name
    if name.startswith("."):
        name = name[1:].partition(".db.")[0] + ".db"
    try:
        moment = datetime.strptime(name, _NAME).replace(tzinfo=timezone.utc)
    except ValueError:
        return 0
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


class _Stopped(Exception):  # noqa: N818 - no error, but somebody who speaks
    pass


def write_copy(
    source: Any, target: Path, *, connect: Callable[[Path], Any], stop: Callable[[], bool] = lambda: False
) -> bool:
    """Write a copy that replaces `target` in one step; return False if it was stopped, and nothing is left.

    Args:
        source: a reading connection of its own; what is committed meanwhile is not in the copy.
        connect: opens the file that becomes the copy.
        stop: asked every millisecond or two.
    """
    part = target.with_name(f".{target.name}.{os.getpid()}.part")

    def go_on(*_progress: int) -> None:
        if stop():
            raise _Stopped

    try:
        os.close(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600))
        with closing(connect(part)) as copy:
            copy.execute("pragma synchronous = off")
            # One snapshot for all steps: without it, each commit of another connection makes SQLite begin anew.
            source.execute("begin")
            source.execute("select count(*) from sqlite_master").fetchone()
            source.backup(copy, pages=_PAGES, progress=go_on)
            # A copy that stands alone can be carried away as one file.
            copy.execute("pragma journal_mode = delete")
            wrong = _fault_of(copy, stop)
        if wrong:
            raise StoreError(f"The copy {target.name} came out damaged and was thrown away: {wrong}.")
        sync(part)
        part.replace(target)
        sync(target.parent)
    except _Stopped:
        return False
    finally:
        part.unlink(missing_ok=True)
    return True


@contextmanager
def copied(path: Path) -> Iterator[Path]:
    """Lend a copy of a database that may not be written, with its log; nothing is opened, not even beside it.

    Raises:
        BusyError: another program wrote it meanwhile.
    """
    from shutil import copyfile  # late: it brings archives of all kinds with it

    parts = [path, path.with_name(path.name + "-wal")]
    with scratch_folder() as folder:
        before = [_changed(part) for part in parts]
        for part in parts:
            if part.exists():
                copyfile(part, folder / part.name)
        if before != [_changed(part) for part in parts]:
            raise BusyError(f"{path} was written while it was copied; stop the other program and try again.")
        yield folder / path.name


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Lend a folder of our own, in memory where the system has such a place; what killed processes left there goes first."""
    import tempfile  # late, both: no start of a sound home needs them
    from shutil import rmtree

    memory = Path("/dev/shm")  # noqa: S108 - the folder below is ours alone
    place = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    for left in place.glob(f"{_SCRATCH}*"):
        if not Path("/proc", left.name.split("-")[1]).exists():
            rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{_SCRATCH}{os.getpid()}-", dir=place) as folder:
        yield Path(folder)


def _changed(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


def _fault_of(copy: Any, stop: Callable[[], bool]) -> str:
    """Return what SQLite finds wrong with a copy; raise _Stopped if it may not look to the end.

    Before SQLite 3.41 the look at one table cannot be stopped: some 5 ms a megabyte, on this thread alone.
    """
    copy.set_progress_handler(lambda: int(stop()), _CHECKED_AT_ONCE)
    try:
        found = str(copy.execute("pragma quick_check").fetchone()[0])
    except Exception:
        if stop():
            raise _Stopped from None
        raise
    return "" if found == "ok" else found
