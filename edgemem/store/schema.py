"""The schema of the truth, `db/memory.db`: the tables of all kinds, and a few that belong to none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.store.db.connection import Origin, read_origin
from edgemem.store.db.database import Database
from edgemem.store.db.migrations import Migration, Schema
from edgemem.store.kinds import KINDS

if TYPE_CHECKING:
    from pathlib import Path

_PLAIN = (
    # A person's name as it was first written, which is how every row spells it, by what all its spellings have in common
    # (scopes.name_key): SQL cannot fold names, so each writer does.
    "create table names (key text primary key, name text not null) without rowid",
    # A forgetting whose bytes may still be in some file; its id is the tick of the transaction. folder: whose folder is still
    # to be removed from which bank, as JSON; null if none.
    "create table erasings (id integer primary key, folder text)",
    # Rows that changed or vanished after they were written; new ones are found by their ids instead.
    "create table index_queue (id integer primary key, kind text not null, ref integer not null)",
)

TRUTH = Schema(
    (
        Migration(
            "v001_initial",
            (*_PLAIN, *(statement for kind in KINDS for statement in kind.statements())),
        ),
    ),
    {"index_queue": "id"} | {kind.table: kind.newest for kind in KINDS if kind.newest},
)
"""Levels are stored as integers: 0 shared, 1 household, 2 private."""


def origin_of(path: Path, *, thorough: bool = False) -> Origin | None:
    """Return which truth a file holds; None if this edgemem cannot read it. The arguments are those of `read_origin`."""
    return read_origin(path, TRUTH, thorough=thorough)


def open_truth(path: str | Path, **settings: Any) -> Database:
    """Open a truth, making it if there is none; `settings` are those of `Database`."""
    return Database(path, schema=TRUTH, **settings)
