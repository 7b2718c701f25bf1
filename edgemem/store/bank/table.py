"""The bank in the database: each file is a row; a new version has a new id, so what changed is seen at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.errors import MemoryBankViolation
from edgemem.scopes import person_of
from edgemem.store.bank.rules import BankFile, Held, path_key, split_path
from edgemem.store.erase.erasings import note_forgotten
from edgemem.store.rights import drop_unused, scope_in_sql, spell_scope, written_scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.store.bank.rules import Make
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction

_SIZE = "length(cast(content as blob))"


class BankTable:
    """All banks of a home in its database; safe to use from several threads and processes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def state(self) -> tuple[str, list[str]]:
        """Return what changes whenever a file does, empty where there is none; rows spell all names as the others do."""
        newest, count = self._database.query("select max(id), count(*) from bank_files")[0]
        return f"{newest}:{count}" if count else "", []

    def listed(self, scope: str | None = None, topic: str | None = None) -> list[BankFile]:
        """Return the files of one bank, or of all, in order."""
        where = "1"
        values: dict[str, Any] = {}
        if scope is not None:
            at, values = scope_in_sql(scope)
            where = f"scope = {at} and topic = :topic"
        rows = self._database.query(
            f"select scope, topic, path, {_SIZE}, updated from bank_files where {where}",  # noqa: S608 - our own constants
            {**values, "topic": topic},
        )
        return sorted(BankFile(*row) for row in rows)

    def read(self, scope: str, topic: str, path: str) -> Held | None:
        """Return what a file holds; None: there is none."""
        key = path_key(path)
        at, values = scope_in_sql(scope)
        rows = self._database.query(
            f"select id, path from bank_files where scope = {at} and topic = :topic",  # noqa: S608 - our own constant
            {**values, "topic": topic},
        )
        number = next((number for number, of in rows if path_key(of) == key), None)
        rows = self._database.query("select content, updated from bank_files where id = ?", (number,))
        return Held(*rows[0]) if rows else None

    def change(self, scope: str, topic: str, path: str, make: Make, at: float | None = None) -> bool:
        """Replace a file by what `make` returns, or delete it for None, as one step; return whether anything was done."""

        def work(tx: Transaction) -> bool:
            rows = tx.execute(
                f"select id, scope, topic, path, {_SIZE}, updated from bank_files where scope = ? and topic = ?",  # noqa: S608
                (written_scope(tx, scope), topic),
            )
            key = path_key(path)
            number = next((row[0] for row in rows if path_key(row[3]) == key), None)
            held = None
            if number is not None:
                held = Held(*tx.execute("select content, updated from bank_files where id = ?", (number,))[0])
            text = make(held, [BankFile(*row[1:]) for row in rows if row[0] != number])
            when = tx.now() if at is None else at
            if number is None:
                if text is not None:
                    new = _placed(path, [row[3] for row in rows])
                    tx.execute(
                        "insert into bank_files (id, scope, topic, path, content, created, updated)"
                        " values (?, ?, ?, ?, ?, ?, ?)",
                        (tx.tick(), spell_scope(tx, scope), topic, new, text, when, when),
                    )
                return text is not None
            if held is not None and text is held.text:
                return False
            if text is None:
                tx.execute("delete from bank_files where id = ?", (number,))
                note_forgotten(tx)
                drop_unused(tx, [person_of(rows[0][1])])
            else:
                tx.execute(
                    "update bank_files set id = ?, content = ?, updated = ? where id = ?",
                    (tx.tick(), text, when, number),
                )
            return True

        return self._database.write(work)


def _placed(path: str, others: Sequence[str]) -> str:
    """Return a new path with its folders as they are spelled already; raise MemoryBankViolation where a file is one."""
    *folders, name = split_path(path)
    begun = ""
    for folder in folders:
        key = path_key(f"{begun}{folder}")
        if any(path_key(other) == key for other in others):
            raise MemoryBankViolation(f"{begun}{folder} is a file, and no folder; name another.", path=path)
        inside = next((other for other in others if path_key(other).startswith(f"{key}/")), None)
        begun += f"{folder if inside is None else inside.split('/')[begun.count('/')]}/"
    if any(path_key(other).startswith(f"{path_key(begun + name)}/") for other in others):
        raise MemoryBankViolation(f"{begun}{name} is a folder, and no file; name another.", path=path)
    return begun + name
