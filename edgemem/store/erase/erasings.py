"""Erasings: which forgetting was committed last, and which of them still has bytes in some file.

A transaction that forgets writes a row of `erasings`. Nobody recalls what was forgotten from its commit on; the row
stays until no file holds a byte of it any more, so that a forgetting that is cut off is finished by whoever opens the
home next. Copies of the truth that are older than the newest forgetting still hold it, and must go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from edgemem.store.db.transaction import Tables, Transaction

_KEY = "forgotten"


class LogLines(msgspec.Struct, frozen=True):
    """The lines of logs that an erasing takes out: those that bear a name in a field."""

    field: str
    name: str
    paths: tuple[str, ...]


def note_forgotten(tx: Transaction) -> None:
    """Write down that this transaction erases something that somebody wanted forgotten."""
    tx.execute("insert or replace into meta values (?, ?)", (_KEY, tx.tick()))
    tx.execute("insert or ignore into erasings (id) values (?)", (tx.recorded,))


def note_log_lines(tx: Transaction, field: str, name: str, logs: Iterable[Path]) -> None:
    """Note that the lines of logs that bear a name are to be erased as well; the name is erased with them."""
    lines = LogLines(field, name, tuple(sorted({str(log) for log in logs})))
    if lines.paths:
        tx.execute(
            "insert into erasings (id, log_lines) values (?, ?)"
            " on conflict (id) do update set log_lines = excluded.log_lines",
            (tx.recorded, msgspec.json.encode(lines).decode()),
        )


def last_forgotten(db: Tables) -> int:
    """Return the tick of the newest forgetting; 0 if nothing ever was."""
    rows = db.query("select value from meta where key = ?", (_KEY,))
    return int(rows[0][0]) if rows else 0


def newest_erasing(db: Tables) -> int:
    """Return the tick of the newest erasing that is under way; 0 if none is."""
    return int(db.query("select coalesce(max(id), 0) from erasings")[0][0])


def log_lines(db: Tables) -> list[tuple[int, LogLines]]:
    """Return the lines of logs that are still to be erased, with the tick of the erasing."""
    rows = db.query("select id, log_lines from erasings where log_lines is not null order by id")
    return [(number, msgspec.json.decode(text, type=LogLines)) for number, text in rows]
