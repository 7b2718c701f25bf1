"""One JSON file that a person can read: replaced in one step, and set aside rather than overwritten when damaged."""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.store.filelock import FileLock
from edgemem.store.files import sync
from edgemem.store.sqlite_errors import meaning_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_log = logging.getLogger(__name__)

_BOM = b"\xef\xbb\xbf"
_LOCK_TIMEOUT_S = 5.0

T = TypeVar("T")


class JsonFile(Generic[T]):
    """A file that holds one value of a type, for its owner alone.

    Args:
        path: made, with its folders, by the first write.
        type: what msgspec decodes the text to.
    """

    def __init__(self, path: Path, type: type[T]) -> None:  # noqa: A002 - msgspec's word for it
        # A link is followed now, so that replacing the file does not replace the link.
        self.path = Path(os.path.realpath(path.expanduser()))
        if self.path.is_dir():
            raise InvalidInputError(f"{self.path} is a folder; give the path of a JSON file.")
        self._type = type
        self._stamp: tuple[int, int, int] | None = None

    def read(self) -> T | None:
        """Return what the file holds, or None if there is none; one that is damaged is set aside, and a warning says so."""
        with meaningful(self.path):
            try:
                self._stamp = self._look()
                data = self.path.read_bytes()
            except FileNotFoundError:
                self._stamp = None
                return None
        try:
            return msgspec.json.decode(data.removeprefix(_BOM), type=self._type)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            aside = self._free_name()
            with meaningful(self.path):
                self.path.rename(aside)
                sync(self.path.parent)
            self._stamp = None
            _log.warning(
                "%s cannot be read (%s); it was set aside as %s. Mend that and put it back.",
                self.path,
                error,
                aside.name,
            )
            return None

    def write(self, value: Any) -> bool:
        """Replace the file in one step, durably; write nothing if it is not as it was last read or written here.

        Returns whether it was written; if not, read it again.
        """
        data = msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
        part = self.path.with_name(f".{self.path.name}.new")
        with meaningful(self.path):
            try:
                part.unlink(missing_ok=True)
                _write_private(part, data)
                if self._look() != self._stamp:
                    return False
                part.replace(self.path)
                self._stamp = self._look()
                sync(self.path.parent)
            finally:
                part.unlink(missing_ok=True)
        return True

    def erase(self) -> bool:
        """Remove the file and what was set aside of it; tell whether there was any."""
        with meaningful(self.path):
            gone = [path for path in (self.path, *self.set_aside()) if path.exists()]
            for path in gone:
                path.unlink()
            if gone:
                sync(self.path.parent)
        self._stamp = None
        return bool(gone)

    def keep_copy(self) -> Path:
        """Set a copy of the file aside, before what could not be understood in it is lost."""
        copy = self._free_name()
        with meaningful(self.path):
            _write_private(copy, self.path.read_bytes())
        return copy

    def set_aside(self) -> list[Path]:
        """Return the damaged files that were set aside."""
        found = self.path.parent.glob(f"{escape(self.path.name)}.damaged-*")
        return sorted(path for path in found if path.name.rpartition("-")[2].isdigit())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing the file."""
        with locked(self.path.with_name(f".{self.path.name}.lock")):
            yield

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _free_name(self) -> Path:
        number = 1
        while (name := self.path.with_name(f"{self.path.name}.damaged-{number}")).exists():
            number += 1
        return name


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file, made with its folders (0700) where it is missing."""
    with meaningful(path):
        for folder in reversed([each for each in path.parents if not each.exists()]):
            folder.mkdir(mode=0o700, exist_ok=True)
        lock = FileLock(path, timeout_s=_LOCK_TIMEOUT_S)
    try:
        with lock.held():
            yield
    finally:
        lock.close()


@contextmanager
def meaningful(path: Path) -> Iterator[None]:
    """Turn what the system says about a file into an error of ours."""
    try:
        yield
    except OSError as error:
        raise meaning_of(error, path) from error


def _write_private(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)
