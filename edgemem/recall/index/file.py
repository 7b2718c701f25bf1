"""The index file: how it is opened, how far it has come, and which docs were taken out.

It may be deleted at any moment. A damaged file, one of another truth, with other tables or made by other rules is deleted and
made again. Removals up to the newest tick, and rows since, are all changes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

import msgspec

from edgemem.errors import (
    BusyError,
    CorruptError,
    DiskFullError,
    ForeignError,
    InvalidInputError,
    ReadOnlyError,
    StoreError,
)
from edgemem.recall.text.analyse import words_version
from edgemem.store.db.connection import Migration, Schema, read_value
from edgemem.store.db.database import Database
from edgemem.store.db.files import FileLock
from edgemem.store.kinds import KINDS

if TYPE_CHECKING:
    from edgemem.store.db.transaction import Transaction

NOT_BROKEN = (BusyError, DiskFullError, ReadOnlyError, ForeignError)
"""Errors of a file that is sound, or not ours."""
RULES_VERSION = "23"
"""Changes when annotations, dates or vectors are made otherwise, or a record's text is."""
FIRST_OTHER = 1 << 40  # the number of the first doc that is no message
PRIVATE = 2
"""The level of texts that only their owner reads."""
KEPT = 5000
"""Removals in the file; a reader that has missed more reads everything again."""

T = TypeVar("T")

_TABLES = (
    # Messages are numbered from 1 and everything else from 2^40 on, in the order in which they were learnt, so the messages
    # before and after another have the numbers beside it. kind, subject, relation: see `sources`. at: when it happened. past: a
    # fact that holds no more. terms: the stems of the text. flags, called, times: see `docs`.
    # names: those that it tells, as JSON. metadata: its traits, one a line. digest: of its text, which says whether its vectors are still right.
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
      names text,
      terms text not null,
      metadata text,
      digest integer not null
    )
    """,
    "create unique index docs_by_ref on docs (ref, kind)",
    "create index docs_by_subject on docs (subject) where subject is not null",
    # seq: the tick at which the row was written, by which a process finds what others have added. past: as of its doc, so
    # that the many versions of one thing crowd out nothing. codes, tokens: see `encoded` and `Encoding`.
    """
    create table vectors (
      doc integer primary key,
      seq integer not null,
      past integer not null,
      codes blob not null,
      tokens blob not null
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
)
SCHEMA = Schema((Migration("i001_index", _TABLES),), {"vectors": "seq", "removals": "seq"})
"""The tables of the file. They are not migrated: where they change, the file is made again."""

_REMEMBERED = """
  select key, value from meta union all select 'removals', coalesce(max(seq), 0) from removals
  union all select 'vectors', coalesce(max(seq), 0) from vectors
"""
_log = logging.getLogger(__name__)


def open_index_file(path: Path, truth: Database, zone: str = "") -> Database:
    """Open or make a truth's index, whose days are of a zone; raise InvalidInputError for a folder or device, ForeignError for another program's file."""
    if path.exists() and not path.is_file():
        raise InvalidInputError(f"{path} is not a file.")
    known = file_at(path)
    try:
        return _open(path, truth, zone)
    except StoreError as error:
        # Also other tables; but not errors that another file would have as well.
        if isinstance(error, NOT_BROKEN):
            raise
        _log.warning("The index cannot be used and is made again: %s", error)
        remake_index_file(path, known)
        return _open(path, truth, zone)


def truth_of(path: Path) -> str:
    """Return which truth an index was made from; empty where it is missing or unreadable."""
    if not path.is_file():
        return ""
    try:
        return str(read_value(path, "select value from meta where key = 'truth'") or "")
    except StoreError:
        return ""


def file_at(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a path's file, which tell it from its successors; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def remake_index_file(path: Path, known: tuple[int, int] | None) -> None:
    """Delete a closed index, unless another process has made it again meanwhile; it is made from the truth."""
    with closing(FileLock(path.with_name(path.name + ".lock"), timeout_s=5.0)) as lock, lock.hold():
        if file_at(path) in (None, known):
            for suffix in ("", "-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)


def _open(path: Path, truth: Database, zone: str) -> Database:
    database = Database(path, schema=SCHEMA, clock=truth.clock, durable=False, page_size=1024, derived=True)
    try:
        if _is_of(database, truth, zone):
            # Erased rows must not stay readable in free pages; it costs 6 % more bytes.
            database.write(lambda tx: tx.execute("pragma secure_delete = on"))
            return database
    except BaseException:
        database.close()
        raise
    known = file_at(path)
    database.close()
    remake_index_file(path, known)
    return _open(path, truth, zone)


def _is_of(database: Database, truth: Database, zone: str) -> bool:
    """Tell whether an index was made from this truth, in our tables and by our rules; stamp a new one."""
    learnt = crc32(Path(__file__).with_name("safety.toml").read_bytes())
    rules = crc32(f"{SCHEMA}/{RULES_VERSION}/{learnt}/{words_version()}/{zone}".encode())
    stamp: dict[str, int | str] = {"truth": str(truth.created_at()), "rules": rules}
    meta = dict(database.query("select key, value from meta where key in ('truth', 'rules')"))
    if meta == stamp:
        return True
    if meta or database.query("select 1 from docs limit 1"):
        return False

    def work(tx: Transaction) -> None:
        for key, value in stamp.items():
            set_meta(tx, key, value)

    database.write(work)
    return True


class DamagedIndexError(CorruptError):
    """The index file holds a value that we never wrote; upkeep makes the file again."""


def checked_value(value: Any, type_: type[T], what: str) -> T:
    """Return a value of the file; raise DamagedIndexError where it has another type."""
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        raise DamagedIndexError(
            f"The index is damaged: {what} cannot be such ({error}); it is made again by itself."
        ) from error


class State(msgspec.Struct, frozen=True):
    """How far the index has come."""

    tables: dict[str, int] = {}
    """The highest id taken from each source's table."""
    queue: int = 0
    erased: int = 0
    """The newest forgetting without a byte left in the file and its log."""
    last_message: int = 0
    """The highest number of a message's doc, and below of any other doc."""
    last_other: int = FIRST_OTHER - 1
    notes: str = ""
    bank: str = ""
    model: str = ""
    """The model of the file's vectors."""
    removals: int = 0
    """The tick of the newest removal,"""
    vectors: int = 0
    """and of the newest row of vectors."""

    def reached(self, table: str) -> int:
        """Return the highest id taken from a source's table."""
        return self.tables.get(table, 0)

    @classmethod
    def read(cls, database: Database) -> State:
        """Read it with one look; raise ValidationError where a value is not ours."""
        meta = dict(database.query(_REMEMBERED))
        tables = {kind.table: meta[kind.table] for kind in KINDS if kind.table in meta}
        return msgspec.convert({**meta, "tables": tables}, cls)

    def stamp(self, texts: str) -> str:
        """Return the stamp of texts that are no rows, from when they were taken in."""
        return str(msgspec.structs.asdict(self)[texts])


def get_meta(tx: Transaction, key: str, default: int = 0) -> int:
    """Return a number that the index remembers."""
    rows = tx.execute("select value from meta where key = ?", (key,))
    return checked_value(rows[0][0], int, f"meta.{key}") if rows else default


def set_meta(tx: Transaction, key: str, value: int | str) -> None:
    """Remember something in the index."""
    tx.execute("insert or replace into meta (key, value) values (?, ?)", (key, value))


def note_removals(tx: Transaction, docs: Iterable[int]) -> None:
    """Log docs that are taken out or replaced, or whose vectors are."""
    tx.executemany("insert into removals (seq, doc) values (?, ?)", [(tx.tick(), doc) for doc in docs])


def trim_removals(tx: Transaction) -> None:
    """Drop old removals."""
    old = tx.execute("select seq from removals order by seq desc limit 1 offset ?", (KEPT,))
    if old:
        tx.execute("delete from removals where seq <= ?", old[0])
        set_meta(tx, "removals_from", old[0][0])


def remove_all(tx: Transaction) -> None:
    """Make all readers with a part of the index in memory read everything again."""
    tx.execute("delete from removals")
    note_removals(tx, [0])  # the number of no doc
    set_meta(tx, "removals_from", tx.execute("select max(seq) from removals")[0][0])


class Removals:
    """Follows an index file's removals for one reader with a part of it in memory."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.tick = self._newest()
        """Of the last removal that this reader has applied."""

    def skip(self) -> None:
        """Skip all removals until now: memory begins anew."""
        self.tick = self._newest()

    def read_newest(self, limit: int = KEPT, *, newest: int | None = None) -> list[tuple[int, int]] | None:
        """Return ticks and docs of the removals since the last call, oldest first; None if unknown or beyond `limit`.

        `newest` is the tick of the last one, where the caller has it from the state.
        """
        if (self._newest() if newest is None else newest) <= self.tick:
            return []
        rows = self._database.query(
            "select seq, doc from removals where seq > ? order by seq limit ?", (self.tick, limit + 1)
        )
        since = self._database.query("select value from meta where key = 'removals_from'")
        if len(rows) > limit or (since and since[0][0] > self.tick):
            return None
        self.tick = max([self.tick, *(seq for seq, _ in rows)])
        return rows

    def _newest(self) -> int:
        return int(self._database.query("select coalesce(max(seq), 0) from removals")[0][0])
