"""Logs of JSON lines, such as the audit log's: the lines of a person or session are taken out of all its files.

A program that is writing meanwhile finds another file under the name and goes on there; one that takes a shared
`flock` around each write, as the audit log's hook does, loses no line.
"""

from __future__ import annotations

import fcntl
import glob
import json
import os
from typing import TYPE_CHECKING

from edgemem.errors import StoreError
from edgemem.scopes import name_key
from edgemem.store.files import sync

if TYPE_CHECKING:
    from pathlib import Path


def forget_in_log(path: Path, field: str, name: str) -> int:
    """Erase the lines that bear a name in a field from a log and its older files (`path.1`, …); return how many.

    Raises:
        StoreError: a file cannot be read or replaced; the others are done.
    """
    erased, found = 0, 1
    while found:  # a log that was shifted meanwhile has a file under a name that was looked at before
        faults: list[str] = []
        found = sum(_erase_in(each, field, name, faults) for each in _files_of(path))
        erased += found
    if faults:
        raise StoreError(f"Lines of {name} could not be erased from {', '.join(faults)}.")
    return erased


def _files_of(path: Path) -> list[Path]:
    older = path.parent.glob(f"{glob.escape(path.name)}.*")
    return [path, *sorted(each for each in older if each.name[len(path.name) + 1 :].isdigit())]


def _erase_in(path: Path, field: str, name: str, faults: list[str]) -> int:
    try:
        return _rewrite(path, field, name)
    except FileNotFoundError:
        return 0
    except OSError as error:
        faults.append(f"{path} ({error.strerror})")
        return 0


def _rewrite(path: Path, field: str, name: str) -> int:
    part = path.with_name(f".{path.name}.part")
    with path.open("rb") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        if not os.path.samestat(path.stat(), os.fstat(log.fileno())):
            return _rewrite(path, field, name)  # it was shifted while we waited
        lines = log.read().splitlines(keepends=True)
        kept = [line for line in lines if not _is_of(line, field, name)]
        if len(kept) == len(lines):
            return 0
        try:
            part.touch(mode=0o600)
            with part.open("wb") as new:
                new.writelines(kept)
                new.flush()
                os.fsync(new.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        sync(path.parent)
    return len(lines) - len(kept)


def _is_of(line: bytes, field: str, name: str) -> bool:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return False
    if not isinstance(entry, dict):
        return False
    return bool(
        entry.get(field) == name
        or (field == "speaker" and name_key(str(entry.get(field) or "")) == name_key(name))
    )
