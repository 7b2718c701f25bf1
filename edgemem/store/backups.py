"""The backups of a truth: whole copies in a folder, made in idle time, checked, and bounded in number and size.

Each is named after the moment that it holds, by the robot's clock, which never runs backwards. Forgetting erases what
we copied too: backups that are older than the newest forgetting are removed at once, and a fresh one is made at the
next chance. To rewrite them instead would keep damaged ones alive, and could fail half way.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from edgemem.errors import CorruptError, DiskFullError, StoreError
from edgemem.store.database import is_sound
from edgemem.store.erase.erasings import last_forgotten
from edgemem.store.files import sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from edgemem.store.database import Database

_NAME = "memory-%Y%m%dT%H%M%S.%fZ.db"
_SPARE_MB = 50.0
_AGAIN_S = 3600.0

_log = logging.getLogger(__name__)


class Backups:
    """The backups of one database.

    Args:
        every_h: hours between two; 0: none are made.
        keep: how many stay.
        max_mb: how many megabytes they may take together.
    """

    def __init__(
        self, folder: Path, database: Database, *, every_h: float = 24.0, keep: int = 3, max_mb: float = 256.0
    ) -> None:
        self.folder = folder
        self.every_h = every_h
        self.keep = keep
        self.max_mb = max_mb
        self._database = database
        self._not_before = 0.0

    def work(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Remove what must go, and make a backup if one is due; return whether one was made.

        Raises:
            StoreError: it could not be made; it is tried again an hour later.
        """
        self.remove_forgotten()
        # What a process that was killed had begun.
        late = int((self._database.now() - _AGAIN_S) * 1e6)
        self._remove([path for path in self._begun() if stamp_of(path) < late])
        if stop() or not self._due():
            return False
        stamp = self._database.clock.tick()
        target = self.folder / _moment(stamp).strftime(_NAME)
        # Set first: whatever goes wrong below must not be repeated after each turn.
        before, self._not_before = self._not_before, self._database.now() + _AGAIN_S
        self._make_room()
        if not self._database.backup(target, stop=stop):
            self._not_before = before
            return False
        self._not_before = before
        self._thin_out()
        return True

    def remove_forgotten(self) -> bool:
        """Remove the backups that may hold what was forgotten; return whether none is left, or raise StoreError."""
        forgotten = last_forgotten(self._database)
        if forgotten:
            there = [*backup_paths(self.folder), *self._begun()]
            self._remove([path for path in there if stamp_of(path) <= forgotten])
        return True

    def newest(self) -> Path | None:
        """Return the newest backup; each was found good when it was made."""
        return next(iter(backup_paths(self.folder)), None)

    def _begun(self) -> list[Path]:
        return list(self.folder.glob(".memory-*.part"))

    def _due(self) -> bool:
        now, newest = self._database.now(), self.newest()
        if self.every_h <= 0 or now < self._not_before:
            return False
        held, changed = stamp_of(newest) if newest is not None else 0, self._database.high_water()
        waited = now - held / 1e6 >= self.every_h * 3600
        return waited and changed > held

    def _make_room(self) -> None:
        size = self._database.path.stat().st_size / 1e6
        if size > self.max_mb:
            raise StoreError(
                f"No backup is made: the database has {size:,.0f} MB, and [backup] max_mb allows {self.max_mb:,.0f}."
            )
        from shutil import disk_usage  # late: it brings archives of all kinds with it

        if disk_usage(self.folder).free / 1e6 < size + _SPARE_MB:
            raise DiskFullError(
                f"No backup is made: it needs {size + _SPARE_MB:,.0f} MB free at {self.folder}; free some space."
            )

    def _thin_out(self) -> None:
        size, gone = 0.0, []
        for n, path in enumerate(backup_paths(self.folder)):
            size += path.stat().st_size / 1e6
            if n and (n >= self.keep or size > self.max_mb):
                gone.append(path)
        self._remove(gone)

    def _remove(self, paths: list[Path]) -> None:
        try:
            for path in paths:
                path.unlink(missing_ok=True)
            if paths:
                sync(self.folder)
        except OSError as error:
            raise StoreError(f"A backup in {self.folder} cannot be removed: {error.strerror}.") from error


def backup_paths(folder: Path) -> list[Path]:
    """Return the backups in a folder, newest first; files of other names are the operator's own."""
    return sorted((path for path in folder.glob("memory-*.db") if stamp_of(path)), reverse=True)


def stamp_of(path: Path) -> int:
    """Return the tick after a backup's newest record, also of one that is begun; 0 where the name is none of ours."""
    name = path.name
    if name.startswith("."):
        name = name[1:].partition(".db.")[0] + ".db"
    try:
        moment = datetime.strptime(name, _NAME).replace(tzinfo=timezone.utc)
    except ValueError:
        return 0
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


@contextmanager
def naming_the_newest(folder: Path, database: Path) -> Iterator[None]:
    """Name the newest sound backup where a truth is found damaged."""
    try:
        yield
    except CorruptError as error:
        good = next((path for path in backup_paths(folder) if is_sound(path)), None)
        if good is None:
            raise
        # The log belongs to the damaged file, and the index may know what the backup does not.
        beside = f"{database}-wal {database}-shm {database.parent / 'index.db'}*"
        raise CorruptError(
            f"{error} The newest good backup is {good}. To restore it:"
            f" mv {database} {database}.damaged; rm -f {beside}; cp -p {good} {database}"
        ) from error


def _moment(tick: int) -> datetime:
    return datetime.fromtimestamp(tick // 1_000_000, timezone.utc).replace(microsecond=tick % 1_000_000)
