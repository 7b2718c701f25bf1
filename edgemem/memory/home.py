"""The truth of a home: opened, missed where it was lost, put back from a backup, or begun anew.

A home knows its truth by its mark, index and backups, so a missing, empty or other file is never taken for a new memory. A
truth that another one replaces is put aside under a dated name, with its log; derived files are removed. Turns that wait
beside it are in no backup: they stay, and are written once into the restored truth. They go aside too where a truth of another
home takes its place, or one is begun anew beside a sound one.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.config import Profile, is_strange_link, load_profile, profile_named
from edgemem.errors import CorruptError, InvalidInputError, LostTruthError, ReadOnlyError
from edgemem.fence import clean
from edgemem.recall.index.file import truth_of
from edgemem.store.backups import HOME_LOCK, DataLoss, Mark, backup_paths, newest_good, read_mark, write_mark
from edgemem.store.db.connection import copy_database
from edgemem.store.db.database import Database
from edgemem.store.db.files import HomeLock, sync, to_store_error
from edgemem.store.kinds import open_truth, origin_of
from edgemem.store.spool import spool_paths

if TYPE_CHECKING:
    from edgemem.clock import Clock
    from edgemem.config import StoreSettings
    from edgemem.store.db.connection import Origin

_ASIDE = ".aside-%Y%m%dT%H%M%SZ"

_log = logging.getLogger(__name__)


class Restored(NamedTuple):
    """The truth that took the place of another."""

    until: float
    """When its newest record was made, in seconds since the epoch; 0: it holds none."""
    aside: list[Path]
    """The files of the one before."""


class TruthFile:
    """The file of a home's truth, and the files beside it; `timeout_s` bounds the wait for others who hold or replace them."""

    def __init__(self, home: Path, *, clock: Clock, timeout_s: float) -> None:
        self.home = home
        self.folder = home / "db"
        self.path = self.folder / "memory.db"
        self.backups = home / "backups"
        self._clock = clock
        try:
            self.lock = HomeLock(self.folder / HOME_LOCK, timeout_s=timeout_s)
        except OSError as error:
            raise to_store_error(error, self.folder / HOME_LOCK) from error

    def open(self, settings: StoreSettings, *, restore: str | None = None) -> Database:
        """Open the truth, or make one in a home that never had any; from then on this process shares the home's lock.

        With `restore="newest"` the whole file is read, and the newest good backup, or else an empty truth, replaces one that was
        lost or is damaged; `check` tells of it. Without, LostTruthError (missing, empty or another one) or CorruptError (damaged)
        says what to do. A truth that cannot be written is opened to be read only.
        """
        if restore not in (None, "newest"):
            raise InvalidInputError(f'restore can be None or "newest", not {restore!r}.')
        self.lock.share()
        try:
            return self._open(settings, thorough=restore is not None)
        except ReadOnlyError as error:
            if not self.path.exists():
                raise
            _log.error("This memory can only be read, and nothing will be stored: %s", error)
            return self._database(self.path, read_only=True, busy_timeout_s=settings.busy_timeout_s)
        except CorruptError as error:
            if restore is None:
                good = self.newest_backup()
                advice = (
                    f"`edgemem restore --home {self.home}` puts back the newest good backup, {good}."
                    if good is not None
                    else f"There is no good backup; `edgemem restore --empty --home {self.home}` puts aside what is left"
                    " and begins anew."
                )
                raise type(error)(f"{_fault(error)} {advice}") from error
        self.lock.hold_alone()
        try:  # another process may have put it back meanwhile
            self._open(settings, thorough=True).close()
        except CorruptError as error:
            self._restore_or_reset(_fault(error))
        self.lock.share()
        return self._open(settings)

    def is_sound(self) -> bool:
        """Tell whether the truth can be read and is not damaged."""
        return origin_of(self.path, thorough=True) is not None

    def newest_backup(self) -> Path | None:
        """Return the newest good backup of this home's truth; None if there is none."""
        mark = read_mark(self.folder)
        return newest_good(self.backups, mark.truth if mark is not None else 0)

    def replace(self, source: Path | None, *, loss: str = "") -> Restored:
        """Put a copy of another file in the truth's place, or begin anew; in one step, while nobody has the home open.

        `loss` is the fault of the truth, for `check` to report where nobody watches. Raise InvalidInputError where the source is
        no memory of edgemem, or is damaged; StoreError where the disk refuses: the old files stay, at the worst with dated names.
        """
        mark, fresh = read_mark(self.folder), self.folder / ".memory.db.restoring"
        sound = self.is_sound()
        try:
            if source is not None:
                log = source.with_name(f"{source.name}-wal")
                if not (source.is_file() and log.exists()):  # else only a copy may be opened
                    _sound_origin(source, source)
                copy_database(source, fresh)
            else:
                fresh.unlink(missing_ok=True)  # what a process that was killed had begun
                self._database(fresh).close()
            origin = _sound_origin(fresh, source)
            if mark is None:
                write_mark(self.folder, Mark())  # whatever is cut off from here on is noticed
            same = mark is not None and mark.truth == origin.truth
            aside = self._put_aside(waiting=not same and (sound if source is None else mark is not None))
            fresh.replace(self.path)
            sync(self.folder)
            until = origin.newest / 1e6 if source is not None else 0.0
            losses = self.losses()
            if loss:
                names = tuple(path.name for path in aside)
                losses += (DataLoss(self._clock.now(), loss, source.name if source else "", until, names),)
            write_mark(self.folder, Mark(origin.truth, losses))
        except OSError as error:
            raise to_store_error(error, self.path) from error
        finally:
            for suffix in ("", "-wal", "-shm", "-journal", ".lock"):
                with suppress(OSError):
                    fresh.with_name(fresh.name + suffix).unlink(missing_ok=True)
        return Restored(until, aside)

    def losses(self) -> tuple[DataLoss, ...]:
        """Return the losses that nobody has acknowledged yet."""
        mark = read_mark(self.folder)
        return mark.losses if mark is not None else ()

    def acknowledge(self) -> None:
        """Let `check` tell of losses no more."""
        mark = read_mark(self.folder)
        if mark is not None and mark.losses:
            try:
                write_mark(self.folder, Mark(mark.truth))
            except OSError as error:
                raise to_store_error(error, self.folder) from error

    def aside(self) -> list[Path]:
        """Return the truths that were put aside, and turns with them; nothing that was forgotten since is erased there."""
        paths = self.folder.glob(f"{self.path.name}.aside-*")
        return sorted(path for path in paths if not path.name.endswith("-wal"))

    def close(self) -> None:
        """Let go of the lock; a second call does nothing."""
        self.lock.close()

    def _database(self, path: Path, **settings: Any) -> Database:
        return open_truth(path, clock=self._clock, **settings)

    def _open(self, settings: StoreSettings, *, thorough: bool = False) -> Database:
        mark = read_mark(self.folder)
        existed = mark is not None or backup_paths(self.backups) or truth_of(self.folder / "index.db")
        database = self._database(
            self.path,
            busy_timeout_s=settings.busy_timeout_s,
            wal_limit_mb=settings.wal_limit_mb,
            backups=self.backups,
            create=not existed,
        )
        try:
            if thorough and (faults := database.quick_check()):
                raise CorruptError(faults[0])
            born = database.created_at()
            if mark is None or not mark.truth:
                write_mark(self.folder, Mark(born, mark.losses if mark is not None else ()))
            elif mark.truth != born:
                raise LostTruthError(
                    f"{self.path} is not the memory that this home had; `edgemem restore {self.path}` takes it as it is."
                )
        except BaseException as error:
            database.close()
            if isinstance(error, OSError):
                raise to_store_error(error, self.folder) from error
            raise
        return database

    def _restore_or_reset(self, fault: str) -> None:
        good = self.newest_backup()
        if good is None and (origin := origin_of(self.path, thorough=True)) is not None:
            # Another memory, and nothing else to put in its place.
            lost = DataLoss(self._clock.now(), fault, until=origin.newest / 1e6)
            write_mark(self.folder, Mark(origin.truth, (*self.losses(), lost)))
            return
        self.replace(good, loss=fault)
        _log.error(
            "%s %s", fault, f"{good} was put back." if good else "There was no good backup: it begins empty."
        )

    def _put_aside(self, *, waiting: bool) -> list[Path]:
        """Give the truth a dated name, with its waiting turns; remove the files derived from it."""
        moment = datetime.fromtimestamp(self._clock.now(), timezone.utc).strftime(_ASIDE)
        # The log last: without it a file that is still there would open, and lack what only the log holds.
        paths = [self.path, self.path.with_name(f"{self.path.name}-wal")]
        moved = []
        for path in [*paths, *(spool_paths(self.path) if waiting else ())]:
            if path.exists():
                rest = path.name.removeprefix(self.path.name)
                moved.append(path.replace(self.path.with_name(f"{self.path.name}{moment}{rest}")))
                sync(self.folder)
        for pattern in ("memory.db-shm", "state-*", "index.db", "index.db-wal", "index.db-shm"):
            for path in self.folder.glob(pattern):
                if path.is_file():
                    path.unlink()
        sync(self.folder)
        return moved


def _sound_origin(path: Path, source: Path | None) -> Origin:
    if (origin := origin_of(path, thorough=True)) is None:
        raise InvalidInputError(
            f"{source} is no sound memory of edgemem, or not as it makes one; name another file."
        )
    return origin


def _fault(error: CorruptError) -> str:
    text = str(error)
    return text if isinstance(error, LostTruthError) else f"{text.partition(';')[0].rstrip('.')}."


def had_truth(home: Path) -> bool:
    """Tell whether a home has a truth, or had one."""
    folder = home / "db"
    return (
        (folder / "memory.db").exists()
        or read_mark(folder) is not None
        or bool(backup_paths(home / "backups"))
    )


PROFILE_FILE = "edgemem.toml"

_READY = frozenset({PROFILE_FILE, "NOTES.md", "db", "models", "hooks", "bank", "backups", "lost+found"})
"""What may stand in a directory that is going to be a home: what an operator puts there before the first start."""
_NAME_CHARS = 60


def is_home(home: Path) -> bool:
    """Tell whether a directory is a home, or was made ready to be one."""
    return had_truth(home) or any((home / name).exists() for name in (PROFILE_FILE, "NOTES.md"))


def meant_instead(home: Path) -> str:
    """Return what to do where a directory is no home: it may hold the one that was meant."""
    inner = next((folder for folder in sorted(home.iterdir()) if folder.is_dir() and is_home(folder)), None)
    if inner is None:
        return "name a memory's home, or a new directory, with --home"
    return f"there is one at {clean(str(inner), max_chars=4096)}: name it with --home, or in EDGEMEM_HOME"


def checked_home(home: Path) -> Path:
    """Return a home that may be opened or made; any other file or directory is refused, as a home is closed to others."""
    if home.exists() and not home.is_dir():
        raise InvalidInputError(f"{home} is a file; a home is a directory. Name another with --home.")
    if home.is_dir() and not is_home(home):
        foreign = sorted(entry.name for entry in home.iterdir() if entry.name not in _READY)
        if any(not name.startswith(".") for name in foreign):
            name = clean(foreign[-1], max_chars=_NAME_CHARS)
            raise InvalidInputError(f"{home} holds other things, such as {name}; {meant_instead(home)}.")
    return home


def make_home(home: Path) -> Path:
    """Make a home and its folders, closed to others; raise InvalidInputError as `checked_home`, ReadOnlyError where it cannot."""
    # A folder that others may use already is not closed to them: the root of a disk, say, with only lost+found.
    ours = not checked_home(home).exists() or had_truth(home) or not any(home.iterdir())
    known = had_truth(home)
    for folder in (home, home / "db", home / "models", home / "bank", home / "backups"):
        _make_folder(folder, home, known=known)
    mode = home.stat().st_mode
    # Where somebody else owns the folder, or the disk is read-only, it keeps its rights.
    with suppress(OSError):
        if ours and mode & 0o077 and home.stat().st_uid == os.geteuid():
            home.chmod(mode & 0o700)
    return home


def _make_folder(folder: Path, home: Path, *, known: bool) -> None:
    if folder != home and is_strange_link(folder):
        raise InvalidInputError(f"{folder} is a link of somebody else's; look, then chown -h it.")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        if folder.name != "backups":  # nothing is read from there, and `check` tells of it
            raise InvalidInputError(
                f"{error.filename} stands where a folder of the home must be; move it away."
            ) from error
    except OSError as error:
        if not known:  # the rest can be read all the same
            raise ReadOnlyError(
                f"{home} cannot be made ({error.strerror}); mount it read-write or name another home."
            ) from error


def profile_file(home: Path, given: Profile | str | Path | None) -> Path | None:
    """Return the file that `profile_of` reads or would read; None where the profile is no file of the operator's."""
    if given is None:
        return home / PROFILE_FILE
    shipped = isinstance(given, str) and "/" not in given and not given.endswith(".toml")
    return None if shipped or isinstance(given, Profile) else Path(given).expanduser().absolute()


def profile_of(home: Path, given: Profile | str | Path | None) -> Profile:
    """Return the profile that was given: itself, by name, or by file; else the home's own, else the defaults."""
    if isinstance(given, Profile):
        return given
    file = profile_file(home, given)
    if file is None:
        return profile_named(str(given))
    # A link to a profile that is not mounted must not silently mean the defaults.
    return load_profile(file) if given is not None or file.exists() or file.is_symlink() else Profile()
