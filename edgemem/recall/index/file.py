"""The index file: made when missing, thrown away when it is of no use.

It may be deleted at any moment. One that is damaged, belongs to another truth, or has other tables than ours is deleted and
made again. One whose words were made by other rules keeps its vectors while they are made anew (see `docs`).
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
from edgemem.recall.index.docs import follow_rules, rules_number
from edgemem.recall.index.state import set_meta
from edgemem.store.db.connection import Migration, Schema, read_value
from edgemem.store.db.database import Database
from edgemem.store.db.files import FileLock

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.store.db.transaction import Transaction

NOT_BROKEN = (BusyError, DiskFullError, ReadOnlyError, ForeignError)
"""What can go wrong with a file that is sound, or not ours."""

_TABLES = (
    # Messages are numbered from 1 and everything else from 2^40 on, in the order in which they were learnt, so the messages
    # before and after another have the numbers beside it. kind, subject, relation: see `sources`. at: when it happened. past:
    # a fact that does not hold any more. terms: the stems of the text. flags, called, times: see `annotations`. length: how many
    # stems it has. names: those that it tells, as JSON. rules: the number of those that made it of its text. digest: of its text, which says whether its vectors
    # are still right.
    """
    create table docs (
      id integer primary key,
      kind integer not null,
      ref integer not null,
      level integer not null,
      owner text,
      who text,
      session_id integer,
      turn integer,
      at real not null,
      past integer not null default 0,
      subject text,
      relation text,
      flags integer not null default 0,
      called text,
      times text,
      length integer not null default 0,
      terms text not null,
      names text,
      rules integer not null,
      digest integer not null
    )
    """,
    "create unique index docs_by_ref on docs (ref, kind)",
    "create index docs_by_subject on docs (subject) where subject is not null",
    # The names that docs tell, in how many, and how each may sound: see `phonetics`. A name that no doc tells is erased.
    "create table names (name text primary key, docs integer not null) without rowid",
    "create table sounds (sound text not null, name text not null, primary key (sound, name)) without rowid",
    # seq: the tick at which the row was written, by which a process finds what others have added. past: as of its doc, so
    # that the many versions of one thing crowd out nothing. codes: a signed byte for each dimension of each vector of the doc.
    """
    create table vectors (
      doc integer primary key,
      seq integer not null,
      past integer not null,
      codes blob not null
    )
    """,
    "create unique index vectors_by_seq on vectors (seq)",
    "create index past_vectors on vectors (past) where past <> 0",
    # The docs that wait for a vector; the highest number of `urgent` goes first.
    """
    create table unembedded (
      urgent integer not null,
      doc integer not null,
      primary key (urgent, doc)
    ) without rowid
    """,
    # The docs that were taken out, or lost their vectors, for those who hold a part of the index in memory.
    "create table removals (seq integer primary key, doc integer not null)",
    "create table people (name text primary key) without rowid",
)
SCHEMA = Schema((Migration("i001_index", _TABLES),), {"vectors": "seq", "removals": "seq"})
"""The tables of the file. They are not migrated: where they change, the file is made again."""
_SCHEMA_STAMP = str(crc32(repr(SCHEMA).encode()))

_log = logging.getLogger(__name__)


def open_index_file(path: Path, truth: Database) -> Database:
    """Open the index of a truth, making it if need be.

    Raises:
        InvalidInputError: the path is a folder or a device.
        ForeignError: a database of another program does; it is left alone.
    """
    if path.exists() and not path.is_file():
        raise InvalidInputError(f"{path} is not a file.")
    known = file_at(path)
    try:
        return _open(path, truth)
    except StoreError as error:
        # Also the tables of another version; but not what another file would suffer as well.
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
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def remake_index_file(path: Path, known: tuple[int, int] | None) -> None:
    """Delete an index that is closed, unless another process has made it again meanwhile; it is made from the truth."""
    with closing(FileLock(path.with_name(path.name + ".lock"), timeout_s=5.0)) as lock, lock.hold():
        if file_at(path) in (None, known):
            for suffix in ("", "-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)


def _open(path: Path, truth: Database) -> Database:
    database = Database(
        path, schema=SCHEMA, clock=truth.clock, durable=False, page_size=1024, load_vec=True, derived=True
    )
    try:
        if _is_of(database, truth):
            # Erased rows must not stay readable in free pages; it costs 6 % more bytes.
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
    stamp = {"truth": str(truth.created_at()), "schema": _SCHEMA_STAMP}
    meta = dict(database.query("select key, value from meta where key in ('truth', 'schema', 'rules')"))
    rules = meta.pop("rules", None)
    if meta != stamp and (meta or database.query("select 1 from docs limit 1")):
        return False
    if meta != stamp or rules != rules_number():

        def work(tx: Transaction) -> None:
            for key, value in stamp.items():
                set_meta(tx, key, value)
            follow_rules(tx)

        database.write(work)
    return True
