"""The bank in the database: each file is a row; a new version has a new id, so what changed is seen at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.errors import MemoryBankViolation
from edgemem.scopes import person_of
from edgemem.store.bank.rules import BankFile, Held, path_key, split_path
from edgemem.store.pending_erasures import note_forgotten
from edgemem.store.rights import drop_unused, spell_scope, written_scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.store.bank.rules import Make
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Tables, Transaction

_FILES = "select scope, topic, path, length(cast(content as blob)), updated from bank_files"


class BankTable:
    """All banks of a home in its database; safe to use from several threads and processes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def state(self) -> tuple[str, list[str]]:
        """Return what changes whenever a file does, empty where there is none; rows spell all names as the others do."""
        newest, count = self._database.query("select max(id), count(*) from bank_files")[0]
        return f"{newest}:{count}" if count else "", []

    def list_files(self, scope: str | None = None, topic: str = "") -> list[BankFile]:
        """Return the files of one bank, or of all, in order."""
        if scope is not None:
            return _files_of(self._database, scope, topic)
        return sorted(BankFile(*row) for row in self._database.query(_FILES))

    def read(self, scope: str, topic: str, path: str) -> Held | None:
        """Return what a file holds; None: there is none."""
        place = written_scope(self._database, scope), topic, path
        if (held := _held(self._database, place)) is not None:
            return held
        file = _named(_files_of(self._database, scope, topic), path)
        return None if file is None else _held(self._database, file[:3])

    def change(self, scope: str, topic: str, path: str, make: Make, at: float | None = None) -> bool:
        """Replace a file by what `make` returns, or delete it for None, as one step; return whether anything was done."""

        def work(tx: Transaction) -> bool:
            others = _files_of(tx, scope, topic)
            held = None
            if (file := _named(others, path)) is not None:
                others.remove(file)
                held = _held(tx, file[:3])
            text = make(held, others)
            if text is (None if held is None else held.text):
                return False
            of = spell_scope(tx, scope), topic, _new_path(path, others) if file is None else file.path
            if text is None:
                tx.execute("delete from bank_files where scope = ? and topic = ? and path = ?", of)
                note_forgotten(tx)
                drop_unused(tx, [person_of(of[0])])
            else:
                when = tx.now() if at is None else at
                tx.execute(
                    "insert into bank_files (id, scope, topic, path, content, created, updated) values (?, ?, ?, ?, ?, ?, ?)"
                    " on conflict (scope, topic, path) do update"
                    " set id = excluded.id, content = excluded.content, updated = excluded.updated",
                    (tx.tick(), *of, text, when, when),
                )
            return True

        return self._database.write(work)


def _files_of(db: Tables, scope: str, topic: str) -> list[BankFile]:
    rows = db.query(f"{_FILES} where scope = ? and topic = ?", (written_scope(db, scope), topic))
    return sorted(BankFile(*row) for row in rows)


def _named(files: Sequence[BankFile], path: str) -> BankFile | None:
    key = path_key(path)
    return next((file for file in files if path_key(file.path) == key), None)


def _held(db: Tables, place: tuple[str, str, str]) -> Held | None:
    sql = "select content, updated from bank_files where scope = ? and topic = ? and path = ?"
    rows = db.query(sql, place)
    return Held(*rows[0]) if rows else None


def _new_path(path: str, others: Sequence[BankFile]) -> str:
    """Return a new path with its folders as they are spelled already; raise MemoryBankViolation where a file is one."""
    *folders, name = split_path(path)
    begun = ""
    for folder in folders:
        if _named(others, f"{begun}{folder}") is not None:
            raise MemoryBankViolation(f"{begun}{folder} is a file, and no folder; name another.", path=path)
        begun += f"{_spelled(f'{begun}{folder}', others) or folder}/"
    if _spelled(f"{begun}{name}", others):
        raise MemoryBankViolation(f"{begun}{name} is a folder, and no file; name another.", path=path)
    return begun + name


def _spelled(folder: str, files: Sequence[BankFile]) -> str:
    """Return the last name of a folder as files in it spell it; empty where there is none."""
    begin, depth = f"{path_key(folder)}/", folder.count("/")
    return next((file.path.split("/")[depth] for file in files if path_key(file.path).startswith(begin)), "")
