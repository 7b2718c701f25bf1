"""The backups of a truth: whole copies in a folder, made in idle time, checked, and bounded in number and size.

Each is named after the moment that it holds, by the robot's clock. Forgetting erases what we copied too: one fresh backup takes
the place of those that are older than the newest forgetting. Rewriting them would keep damaged ones, and might fail half way.

A truth that was lost and begun anew makes backups too. These never push out those of the truth before: only copies that the truth
of today descends from are counted and removed.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgemem.config import Settings, is_strange_link, read_file
from edgemem.errors import DiskFullError, InvalidInputError, StoreError
from edgemem.store.db.files import sync, write_private
from edgemem.store.db.wal import copy_name, stamp_of
from edgemem.store.kinds import origin_of
from edgemem.store.pending_erasures import last_forgotten

if TYPE_CHECKING:
    from edgemem.store.db.connection import Origin
    from edgemem.store.db.database import Database

_SPARE_MB = 50.0
_AGAIN_S = 3600.0

_log = logging.getLogger(__name__)

_MARK, HOME_LOCK = "home.json", "home.lock"  # in the `db` of a home
_OF_A_HOME = frozenset({"edgemem.toml", "NOTES.md", "db", "bank", "hooks", "models"})


class Backups:
    """The backups of one database; `[backup]` bounds them."""

    def __init__(self, folder: Path, database: Database, settings: Settings | None = None) -> None:
        self.folder = folder
        self._settings = settings or Settings()
        self._database = database
        self._not_before = 0.0
        self._origins: dict[Path, Origin | None] = {}

    def work(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Remove what must go, and make a backup if one is due; tell whether. One that fails is tried again an hour later."""
        if self._database.read_only:
            return False
        # What a killed process had begun.
        late = int((self._database.now() - _AGAIN_S) * 1e6)
        self._remove([path for path in self._begun() if stamp_of(path) < late])
        if stop() or not self._due():
            return False
        # Set first: what goes wrong below must not be repeated after each turn.
        before, self._not_before = self._not_before, self._database.now() + _AGAIN_S
        done = self._make(stop)
        self._not_before = before
        return done

    def make(self, target: Path | None = None) -> Path:
        """Make a backup in place of an older one or in a folder (None: this one's); return its path.

        Raise InvalidInputError where something else would be replaced; StoreError leaves nothing of it.
        """
        path = target or self.folder
        if target is None or target.is_dir():
            path /= copy_name(self._database.clock.tick())
        if target is not None and (path := checked_target(path)).exists():
            older = origin_of(path)
            if older is None or older.truth != self._database.created_at():
                raise InvalidInputError(
                    f"{path} is something else than a backup of this memory, and is left as it is; name another file."
                )
        self._database.backup(path)
        if path.parent == self.folder:
            self._thin_out()
        return path

    def erase(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Replace the backups that may hold forgotten records by a fresh one; return whether none of them is left.

        The fresh one is made and checked first. Where that is impossible the older ones go all the same, and `check` says that
        there is none. Once `stop` is true, all stays until the next call.
        """
        forgotten = last_forgotten(self._database)
        older = [path for path in (*backup_paths(self.folder), *self._begun()) if stamp_of(path) <= forgotten]
        if not older:
            return True
        try:
            if not self._make(stop):
                return False
        except (StoreError, InvalidInputError) as error:
            _log.warning("Backups that may hold forgotten records go, and there is no fresh one: %s", error)
        self._remove(older)
        return True

    def newest(self) -> Path | None:
        """Return the newest backup of this truth; it was found good when it was made."""
        return next(iter(self.own()), None)

    def own(self) -> list[Path]:
        """Return the backups that this truth descends from, newest first; others are the operator's to remove."""
        born, newest = self._database.created_at(), self._database.last_tick()
        paths = []
        for path in backup_paths(self.folder):
            # A backup never changes, and idle time asks often.
            if path not in self._origins:
                self._origins[path] = origin_of(path)
            origin = self._origins[path]
            if origin is not None and origin.truth == born and origin.newest <= newest:
                paths.append(path)
        return paths

    def check_folder(self) -> None:
        """Raise StoreError where the folder's place is taken."""
        if not self.folder.is_dir():
            what = "is no folder" if self.folder.exists() else "is gone"
            raise StoreError(
                f"{self.folder} {what}, so no backup can be made; make it a folder that only its owner may open."
            )

    def _begun(self) -> list[Path]:
        return list(self.folder.glob(".memory-*.part")) if self.folder.is_dir() else []

    def _due(self) -> bool:
        now = self._database.now()
        if self._settings.now.backup.every_h <= 0 or now < self._not_before:
            return False
        newest, changed = self.newest(), self._database.last_tick()
        held = stamp_of(newest) if newest is not None else 0
        waited = now - held / 1e6 >= self._settings.now.backup.every_h * 3600
        return waited and changed > held

    def _make(self, stop: Callable[[], bool]) -> bool:
        self._make_room()
        if not self._database.backup(self.folder / copy_name(self._database.clock.tick()), stop=stop):
            return False
        self._thin_out()
        return True

    def _make_room(self) -> None:
        size = self._database.path.stat().st_size / 1e6
        if size > self._settings.now.backup.max_mb:
            raise StoreError(
                f"No backup is made: the database has {size:,.0f} MB, and [backup] max_mb allows {self._settings.now.backup.max_mb:,.0f}."
            )
        from shutil import disk_usage  # late: it brings archives of all kinds with it

        self.check_folder()
        if disk_usage(self.folder).free / 1e6 < size + _SPARE_MB:
            raise DiskFullError(
                f"No backup is made: it needs {size + _SPARE_MB:,.0f} MB free at {self.folder}; free some space."
            )

    def _thin_out(self) -> None:
        own = self.own()
        size = sum(path.stat().st_size / 1e6 for path in backup_paths(self.folder) if path not in own)
        gone = []
        for n, path in enumerate(own):
            size += path.stat().st_size / 1e6
            if n and (n >= self._settings.now.backup.keep or size > self._settings.now.backup.max_mb):
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
    if not folder.is_dir():
        return []
    paths = (
        path for path in folder.glob("memory-*.db") if stamp_of(path) and stat.S_ISREG(path.lstat().st_mode)
    )
    return sorted(paths, reverse=True)


def newest_good(folder: Path, truth: int = 0) -> Path | None:
    """Return the newest backup without damage, of a truth (see `Origin`; 0: of any); None if there is none."""
    for path in backup_paths(folder):
        origin = origin_of(path, thorough=True)
        if origin is not None and truth in (0, origin.truth):
            return path
    return None


def checked_target(path: Path) -> Path:
    """Return where a path leads; raise InvalidInputError where that is a file of a home or an open database, or a stranger says so."""
    real = Path(os.path.realpath(path))
    if is_strange_link(path) or is_strange_link(path.parent):
        raise InvalidInputError(f"{path} leads through a link of somebody else's; name its end.")
    beside = (_MARK, HOME_LOCK, f"{real.name}-wal", f"{real.name}.lock")
    open_here = any((real.parent / name).exists() for name in beside)
    for folder in real.parents:
        part = real.relative_to(folder).parts[0]
        of_home = part in _OF_A_HOME or (part == "backups" and real.exists())
        if open_here or (of_home and any((folder / "db" / name).exists() for name in (_MARK, HOME_LOCK))):
            raise InvalidInputError(f"{path} belongs to a memory, and is left as it is; name another place.")
    return real


# The mark of a home is written after the first durable commit, so a first start that is cut off leaves none.


class DataLoss(msgspec.Struct, frozen=True, omit_defaults=True):
    """A truth that was lost, and the one that replaced it with nobody there."""

    at: float  # when it was noticed, in seconds since the epoch
    fault: str
    backup: str = ""
    """The name of the backup that was put back; empty: there was no good one, so the memory began empty."""
    until: float = 0.0  # when the newest record of that backup was made
    aside: tuple[str, ...] = ()  # names of the files that were put aside


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a home knows of its truth."""

    truth: int = 0  # the tick at which it was born; 0: unknown
    losses: tuple[DataLoss, ...] = ()  # not acknowledged yet, oldest first


_mark = msgspec.json.Decoder(Mark).decode


def read_mark(folder: Path) -> Mark | None:
    """Return the mark in a home's `db`; None if there is none."""
    try:
        return _mark(read_file(folder / _MARK))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.DecodeError):
        return Mark()


def write_mark(folder: Path, mark: Mark) -> None:
    """Write the mark durably; raise OSError where that is impossible."""
    write_private(folder / _MARK, msgspec.json.format(msgspec.json.encode(mark)))
