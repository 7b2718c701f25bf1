"""The write-ahead log: what is only accepted is on the disk after a flush, and nothing is synced twice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgemem.store.db.database import Database


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return an empty truth."""
    with Database(tmp_path / "x.db") as opened:
        yield opened


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the files that this process asks the disk to sync, as it asks."""
    names: list[str] = []

    def spy(fd: int, plain: object = os.fsync) -> None:
        names.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        assert callable(plain)
        plain(fd)

    monkeypatch.setattr(os, "fsync", spy)
    monkeypatch.setattr(os, "fdatasync", spy)
    return names


def note(database: Database, value: int, *, durable: bool) -> None:
    """Commit one row."""
    sql = "insert or replace into meta values ('x', ?)"
    database.submit(lambda tx: tx.execute(sql, (value,)), durable=durable).result()


def test_a_flush_syncs_what_was_only_accepted(database: Database, synced: list[str]) -> None:
    """An accepted commit waits for no disk; a flush syncs the log once, and again only after another such commit."""
    for value in range(3):
        note(database, value, durable=False)
    assert synced == []
    database.flush()
    assert synced == ["x.db-wal"]
    database.flush()
    assert synced == ["x.db-wal"]
    note(database, 7, durable=False)
    database.flush()
    assert synced == ["x.db-wal"] * 2


def test_a_durable_commit_leaves_nothing_to_sync(database: Database, synced: list[str]) -> None:
    """SQLite has synced the log up to it, with the accepted ones before it."""
    note(database, 1, durable=False)
    note(database, 2, durable=True)
    database.flush()
    assert synced == []
