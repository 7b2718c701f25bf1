"""Intake: what every part of a merge writes with, and where it counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.store.database import Transaction

_QUEUED_AS = {"facts": "fact", "episodes": "episode", "messages": "message", "epochs": "summary"}


class ImportReport(msgspec.Struct):
    """What an import did, by kind.

    These are `facts`, `doubts`, `preferences`, `episodes`, `sessions`, `turns`, `messages`, `epochs`,
    `outputs`, `notes`.
    """

    added: dict[str, int] = {}
    """What is new here, or was brought up to date."""
    known: dict[str, int] = {}
    """What was here already."""
    refused: list[str] = []
    """What was not taken, and why: one sentence each."""

    def count(self, kind: str, *, new: bool, number: int = 1) -> None:
        """Count what was taken in, or was known."""
        counts = self.added if new else self.known
        counts[kind] = counts.get(kind, 0) + number


class Parted(Exception):  # noqa: N818 - no error, but news
    """What is here and what was given exclude each other; the text says how."""


class Intake:
    """One transaction that takes in rows with the ids that they have."""

    def __init__(self, tx: Transaction) -> None:
        self.tx = tx
        self.report = ImportReport()
        self._highest = {
            table: tx.execute(f"select coalesce(max(id), 0) from {table}")[0][0]  # noqa: S608 - our own constants
            for table in _QUEUED_AS
        }

    def insert(self, table: str, columns: str, values: Sequence[Any], *, replace: bool = False) -> None:
        """Write a row."""
        verb = "insert or replace" if replace else "insert"
        marks = ", ".join("?" * len(values))
        self.tx.execute(f"{verb} into {table} ({columns}) values ({marks})", values)

    def announce(self, table: str, ref: int) -> None:
        """Tell the index of a new row, unless it looks there anyway: behind the highest id that there was."""
        if ref <= self._highest[table]:
            self.changed(table, ref)

    def changed(self, table: str, ref: int) -> None:
        """Tell the index to look at a row again."""
        self.tx.execute(
            "insert into index_queue (id, kind, ref) values (?, ?, ?)",
            (self.tx.tick(), _QUEUED_AS[table], ref),
        )
