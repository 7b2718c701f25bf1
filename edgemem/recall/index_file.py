"""The index file: made when missing, thrown away when it is of no use.

It may be deleted at any moment. One that is damaged, belongs to another truth, or was written by a newer edgemem is
deleted and made again. One with an older schema is migrated, and one whose words were cut by other rules keeps its
vectors while they are cut again (see `renewal`).
"""

from __future__ import annotations

import logging
from contextlib import closing
from typing import TYPE_CHECKING
from zlib import crc32

from edgemem.errors import (
    BusyError,
    DiskFullError,
    ForeignError,
    InvalidInputError,
    ReadOnlyError,
    StoreError,
)
from edgemem.recall.rules import follow_rules, is_todays
from edgemem.recall.state import set_meta
from edgemem.store.database import Database, read_value
from edgemem.store.filelock import FileLock
from edgemem.store.migrations import INDEX

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.store.database import Transaction

NOT_BROKEN = (BusyError, DiskFullError, ReadOnlyError, ForeignError)
"""What can go wrong with a file that is sound, or not ours."""

_SCHEMAS = [str(crc32(repr(INDEX[:n]).encode())) for n in range(1, len(INDEX) + 1)]
"""What stamps a file whose tables were made by the first step, by two and so on: a step is not changed any more, and where
one was all the same, the file is of no use."""

_log = logging.getLogger(__name__)


def open_index_file(path: Path, truth: Database) -> Database:
    """Open the index of a truth, making it if need be.

    Raises:
        InvalidInputError: something that is no file stands at the path.
        ForeignError: a database of another program does; it is left alone.
    """
    if path.exists() and not path.is_file():
        raise InvalidInputError(f"{path} is not a file.")
    known = file_at(path)
    try:
        return _open(path, truth)
    except StoreError as error:
        # Also a statement that an older schema refuses; but not what another file would suffer as well.
        if isinstance(error, NOT_BROKEN):
            raise
        _log.warning("The index cannot be used and is made again: %s", error)
        remake_index_file(path, known)
        return _open(path, truth)


def truth_of(path: Path) -> str:
    """Return which truth an index was made from; empty where there is none, or it cannot be read."""
    if not path.is_file():
        return ""
    try:
        return str(read_value(path, "select value from meta where key = 'truth'") or "")
    except StoreError:
        return ""


def file_at(path: Path) -> tuple[int, int] | None:
    """Return what tells the file at a path from any that takes its place; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def is_sound(database: Database) -> bool:
    """Tell whether SQLite finds no damage, and the words are those of the docs; reads all of both."""
    if database.quick_check():
        return False
    try:
        database.write(lambda tx: tx.execute("insert into words (words, rank) values ('integrity-check', 1)"))
    except StoreError as error:
        if isinstance(error, NOT_BROKEN):
            raise
        return False
    return True


def remake_index_file(path: Path, known: tuple[int, int] | None) -> None:
    """Delete an index that is closed, unless another process has made it again meanwhile; it is made from the truth."""
    with closing(FileLock(path.with_name(path.name + ".lock"), timeout_s=5.0)) as lock, lock.held():
        if file_at(path) in (None, known):
            _delete(path)


def _delete(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _open(path: Path, truth: Database) -> Database:
    database = Database(
        path, migrations=INDEX, clock=truth.clock, durable=False, page_size=1024, load_vec=True, derived=True
    )
    try:
        if _is_of(database, truth):
            # What is taken out must not stay readable in free pages; it costs 6 % more bytes.
            database.write(lambda tx: tx.execute("pragma secure_delete = on"))
            return database
    except BaseException:
        database.close()
        raise
    known = file_at(path)
    database.close()
    remake_index_file(path, known)
    return _open(path, truth)


def _is_of(database: Database, truth: Database) -> bool:
    """Tell whether an index was made from this truth, in tables as we know them; stamp one that is new."""
    born = str(truth.born())
    found = dict(database.query("select key, value from meta where key in ('truth', 'schema', 'rules')"))
    if not {"truth", "schema"} & found.keys() and not database.query("select 1 from docs limit 1"):
        found.update(truth=born, schema="new")
    elif found.get("truth") != born or found.get("schema") not in _SCHEMAS:
        return False
    if found["schema"] != _SCHEMAS[-1] or not is_todays(found.get("rules")):
        database.write(lambda tx: _stamp(tx, {"truth": born, "schema": _SCHEMAS[-1]}))
    return True


def _stamp(tx: Transaction, stamp: dict[str, str]) -> None:
    for key, value in stamp.items():
        set_meta(tx, key, value)
    follow_rules(tx)
