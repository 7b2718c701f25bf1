"""One JSON file that a person can read: replaced in one step, and set aside rather than overwritten when damaged."""

from __future__ import annotations

import json
import logging
import math
import time
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from edgemem.config import read_file
from edgemem.errors import InvalidInputError
from edgemem.store.db.files import (
    Stamp,
    look,
    name_aside,
    set_aside,
    sync,
    translated_errors,
    write_new,
    write_private,
)
from edgemem.store.messages import plain
from edgemem.store.validation import checked_path

_log = logging.getLogger(__name__)

_MOST = 1 << 28  # bytes of a file
_BOM = b"\xef\xbb\xbf"
_PAUSES_S = (0.05, 0.2, 0.5)  # pauses for an editor that has just emptied the file

T = TypeVar("T")


class JsonFile(Generic[T]):
    """A file that holds one value of a type that msgspec decodes, for its owner alone; the first write makes it."""

    def __init__(self, path: str | Path, type: type[T]) -> None:  # noqa: A002 - msgspec's word for it
        self.path = checked_path(path, "a JSON file")
        if self.path.is_dir():
            raise InvalidInputError(f"{self.path} is a folder; give the path of a JSON file.")
        self.damaged = False  # the file read last was set aside
        self._type = type
        self._stamp: Stamp | None = None
        self._unknown: dict[str, msgspec.Raw] = {}  # unknown parts of the file; they are written back

    def read(self) -> T | None:
        """Return what the file holds, or None if there is none; one that is damaged is set aside, and a warning says so."""
        self.damaged = False
        pauses = iter(_PAUSES_S)
        while True:
            with translated_errors(self.path):
                try:
                    self._stamp = look(self.path)
                    data = read_file(self.path, most=_MOST).removeprefix(_BOM)
                except FileNotFoundError:
                    self._stamp, self._unknown = None, {}
                    return None
            try:
                return self._decoded(data)
            except (ValueError, RecursionError) as error:
                fault = error
            pause = next(pauses, None)
            # The file system dates files by the wall clock, whatever the robot's own clock says.
            age = abs(time.time() - self._stamp.modified_ns / 1e9) if self._stamp else math.inf
            if pause is None or age >= 2 * sum(_PAUSES_S):
                break
            time.sleep(pause)  # an editor may still be writing it
        aside = name_aside(self.path)
        with translated_errors(self.path):
            self.path.rename(aside)
            sync(self.path.parent)
        self._stamp, self.damaged = None, True
        _log.warning(
            "%s cannot be read (%s); it was set aside as %s. Mend that and put it back.",
            self.path,
            fault,
            aside.name,
        )
        return None

    def _decoded(self, data: bytes) -> T:
        try:
            value = msgspec.json.decode(data, type=self._type)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            # Python's own writer, which EdgeVox uses, writes NaN and half characters, which JSON does not know.
            data = msgspec.json.encode(plain(json.loads(data)))
            value = msgspec.json.decode(data, type=self._type)
        known = {field.encode_name for field in msgspec.structs.fields(self._type)}  # type: ignore[arg-type]
        parts = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        # A copy, since a raw part keeps all of the file in memory.
        self._unknown = {name: part.copy() for name, part in parts.items() if name not in known}
        return value

    def changed(self) -> bool:
        """Tell whether the file is not as it was last read or written here; what cannot be looked at is for the writer to tell."""
        try:
            return look(self.path) != self._stamp
        except OSError:
            return False

    def write(self, value: Any) -> bool:
        """Replace the file in one step, durably; False where it is not as it was last read or written here: read it again."""
        text = msgspec.json.encode(value)
        if self._unknown:
            text = msgspec.json.encode(
                {**msgspec.json.decode(text, type=dict[str, msgspec.Raw]), **self._unknown}
            )
        data = msgspec.json.format(text, indent=2) + b"\n"
        with translated_errors(self.path):
            if not write_private(
                self.path, data, part=_new(self.path), stands=lambda: look(self.path) == self._stamp
            ):
                return False
            self._stamp = look(self.path)
        return True


def copy_aside(path: Path) -> Path:
    """Set a copy of a file aside, before what could not be understood in it is lost; return where."""
    copy = name_aside(path)
    with translated_errors(path):
        write_new(copy, path.read_bytes())
        sync(path.parent)
    return copy


def erase(path: Path) -> bool:
    """Remove a file, its copies set aside and the half of a new one; return whether there was any."""
    with translated_errors(path):
        gone = [file for file in (path, _new(path), *set_aside(path)) if file.exists()]
        for file in gone:
            file.unlink()
        if gone:
            sync(path.parent)
    return bool(gone)


def _new(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")
