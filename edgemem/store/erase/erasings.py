"""Erasings: which forgetting was committed last, and which of them still has bytes in some file.

A transaction that forgets writes a row of `erasings`. Nobody recalls what was forgotten from its commit on; the row
stays until no file holds a byte of it any more, so that a forgetting that is cut off is finished by whoever opens the
home next. Copies of the truth that are older than the newest forgetting still hold it, and must go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.store.db.transaction import Tables, Transaction

_KEY = "forgotten"
Where = Literal["note", "file", "fact", "preference", "turn", "summary", "episode", "procedure", "goal"]


class Mention(msgspec.Struct, frozen=True):
    """One place where a name stands."""

    kind: Where
    where: str
    """A line's number in NOTES.md, a file of the bank, a scope, or a conversation and its turn."""
    text: str
    by: str = ""
    """Who said it, where that is known."""


class Mentions(msgspec.Struct, frozen=True):
    """The first of them, and how many there are."""

    quoted: tuple[Mention, ...] = msgspec.field(default=(), name="found")  # its name in JSON
    count: int = 0


class Forgotten(msgspec.Struct, frozen=True):
    """What a forgetting erased, what it left for the operator to decide, and where bytes still stand; true if it erased."""

    erased: dict[str, int]
    """How much of each kind: `files`, `facts`, `doubts`, `preferences`, `episodes`, `procedures`, `constants of procedures`
    (of those that stay), `turns`, `sessions`, `goals`, `phases`, `users`, `session states`, `session summaries`."""
    pending: dict[str, str] = {}
    """The files that still hold bytes of it, and why: this goes on by itself. Nobody recalls it all the same."""
    mentions: Mentions = Mentions()
    """Where the name of a forgotten person stands in what others said, and in NOTES.md."""
    files: tuple[str, ...] = ()
    """Damaged files that were set aside, and may hold anything."""

    def __bool__(self) -> bool:
        return bool(self.erased)


class FolderErasing(msgspec.Struct, frozen=True):
    """The folder of a forgotten person in a bank of files, which is still to be removed."""

    name: str
    """The person's."""
    root: str
    """The bank's folder."""


def note_forgotten(tx: Transaction) -> None:
    """Write down that this transaction erases something that somebody wanted forgotten."""
    tx.execute("insert or replace into meta values (?, ?)", (_KEY, tx.tick()))
    tx.execute("insert or ignore into erasings (id) values (?)", (tx.recorded,))


def note_folder(tx: Transaction, name: str, root: Path) -> None:
    """Note that a person's folder in a bank is to be removed as well; the name is erased with it."""
    folder = msgspec.json.encode(FolderErasing(name, str(root))).decode()
    tx.execute(
        "insert into erasings (id, folder) values (?, ?)"
        " on conflict (id) do update set folder = excluded.folder",
        (tx.recorded, folder),
    )


def last_forgotten(db: Tables) -> int:
    """Return the tick of the newest forgetting; 0 if nothing ever was."""
    rows = db.query("select value from meta where key = ?", (_KEY,))
    return int(rows[0][0]) if rows else 0


def newest_erasing(db: Tables) -> int:
    """Return the tick of the newest erasing that is under way; 0 if none is."""
    return int(db.query("select coalesce(max(id), 0) from erasings")[0][0])


def pending_folders(db: Tables) -> list[tuple[int, FolderErasing]]:
    """Return the folders that are still to be removed, with the tick of the erasing."""
    rows = db.query("select id, folder from erasings where folder is not null order by id")
    return [(number, msgspec.json.decode(text, type=FolderErasing)) for number, text in rows]
