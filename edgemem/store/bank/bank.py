"""The bank of a home, and each bank in it: a person's in one topic, the household's, or anyone's; files can be rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.config import read_file
from edgemem.errors import ConfigError, EdgememError, MemoryBankViolation
from edgemem.fence import check_key, check_text
from edgemem.records import Reader
from edgemem.scopes import name_key, person_of, scope_of
from edgemem.store.bank.files import BankFolder
from edgemem.store.bank.rules import (
    HOUSEHOLD,
    MEMORY_FILE,
    PROMPT_FILE,
    SHARED,
    BankFile,
    Held,
    MemoryBankConfig,
    path_key,
    scope_of_user,
    split_path,
    validate_memory_path,
)
from edgemem.store.pending_erasures import note_forgotten
from edgemem.store.retention import oldest_kept
from edgemem.store.rights import drop_unused, spell_scope, spellings, written_scope
from edgemem.store.thoughts import NeverAloud
from edgemem.store.validation import checked_text

if TYPE_CHECKING:
    from edgemem.clock import Clock
    from edgemem.config import Settings
    from edgemem.scopes import Level
    from edgemem.store.bank.rules import Held, Make
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Tables, Transaction

_FILES = "select scope, topic, path, length(cast(content as blob)), updated from bank_files"


class BankTable:
    """All banks of a home in its database; safe to use from several threads and processes. A file that changes gets a new id."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def state(self) -> tuple[str, list[str]]:
        """Return what changes whenever a file does, empty where there is none; rows spell all names as the others do."""
        sql = "select max(id), count(*), group_concat(distinct scope) from bank_files"
        newest, count, scopes = self._database.query(sql)[0]
        return f"{newest}:{count}:{scopes}" if count else "", []

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
    begin, depth = f"{path_key(folder)}/", folder.count("/")
    return next((file.path.split("/")[depth] for file in files if path_key(file.path).startswith(begin)), "")


class ScopedBank:
    """The bank of `user:NAME`, `household` or `shared`; it keeps its limits in every write."""

    def __init__(
        self,
        store: Callable[[], BankFolder | BankTable],
        scope: str,
        topic: str,
        limits: Callable[[], MemoryBankConfig],
        never_aloud: Callable[[], NeverAloud] = NeverAloud,
    ) -> None:
        self.scope, self.topic = scope, topic
        self._store, self._limits, self._never_aloud = store, limits, never_aloud

    def read_file(self, path: str) -> str | None:
        """Return the text of a file; None: there is none. One that somebody put deeper than the limit is read too."""
        split_path(path)
        held = self._store().read(self.scope, self.topic, path)
        if held is not None:
            return held.text
        validate_memory_path(path, max_depth=self._limits().max_depth)
        return None

    def redact(self, text: str) -> str:
        """Return a text for a model without what is never aloud; of others, not even how it is called."""
        return self._never_aloud().redact(text, Reader(person_of(self.scope)), [])

    def write_file(self, path: str, content: str, *, at: float | None = None) -> None:
        """Write a file as of a time (None: now), in place of what it held; raise MemoryBankViolation beyond the limits."""
        self._change(path, content, lambda _held: content, at)

    def append_to_file(self, path: str, content: str) -> None:
        """Write at the end of a file, on a line of its own; one that is missing is made."""
        self._change(path, content, lambda held: f"{held.text}\n{content}" if held and held.text else content)

    def list_files(self, prefix: str = "") -> list[str]:
        """Return the paths that begin with a text, in order."""
        prefix = checked_text(prefix, "the prefix of a path")
        files = self._store().list_files(self.scope, self.topic)
        return sorted(file.path for file in files if file.path.startswith(prefix))

    def delete_file(self, path: str) -> None:
        """Delete a file; does nothing where there is none, or can be none."""
        checked_text(path, "a path")
        with suppress(MemoryBankViolation):
            split_path(path)
            self._store().change(self.scope, self.topic, path, lambda _held, _others: None)

    def _change(
        self, path: str, content: str, text_of: Callable[[Held | None], str], at: float | None = None
    ) -> None:
        limits = self._limits()
        validate_memory_path(path, max_depth=limits.max_depth)
        check_text(content, what="the text of a file", max_bytes=2**31)

        def make(held: Held | None, others: Sequence[BankFile]) -> str:
            text = text_of(held)
            size, before = len(text.encode()), -1 if held is None else len(held.text.encode())
            total, count = size + sum(file.size for file in others), len(others) + 1 if held is None else 0
            over = _over(limits, size, total, count)
            if over and size > before:  # what only becomes shorter may stay too long
                raise MemoryBankViolation(
                    f"{path!r:.100} would make {over[0]}; shorten or delete files.", path=path
                )
            return text

        self._store().change(self.scope, self.topic, path, make, at)


def _over(limits: MemoryBankConfig, largest: int, total: int, count: int, depth: int = 0) -> list[str]:
    bounds = (
        (largest, limits.max_file_size_bytes, "bytes in one file"),
        (total, limits.max_total_size_bytes, "bytes"),
        (count, limits.max_entries, "files"),
        (depth, limits.max_depth, "names in a path"),
    )
    return [f"{has:,} {what}, of at most {most:,}" for has, most, what in bounds if has > most]


class MemoryBank:
    """All banks of a home: `[bank]` says whether in a folder or the database, and how much of them."""

    def __init__(
        self,
        root: Path,
        database: Database,
        *,
        clock: Clock,
        settings: Settings,
        never_aloud: Callable[[], NeverAloud] = NeverAloud,
    ) -> None:
        self._database, self._clock, self._settings, self._never_aloud = (
            database,
            clock,
            settings,
            never_aloud,
        )
        self.folder = BankFolder(root, clock=clock, default_folders=MemoryBankConfig().default_folders)
        self._table = BankTable(database)
        self.household = self._bank(HOUSEHOLD, "")  # for recognised speakers
        self.shared = self._bank(SHARED, "")  # for anyone

    def for_person(self, user: str, topic: str = "default") -> ScopedBank:
        """Return the bank of a person in a topic, as a session is called; it is theirs alone."""
        check_key(topic, what="a topic")
        name = str(person_of(scope_of_user(user)))
        return self._bank(scope_of(spellings(self._database, [name])[name]), topic)

    def for_scope(self, scope: str, topic: str) -> ScopedBank:
        """Return the bank of a scope, `user:NAME`, `household` or `shared`."""
        person = person_of(scope)
        if person is None:
            return self.household if scope == HOUSEHOLD else self.shared
        return self._bank(self.for_person(person).scope, topic)

    def _bank(self, scope: str, topic: str) -> ScopedBank:
        return ScopedBank(self.store, scope, topic, self.limits, self._never_aloud)

    def limits(self) -> MemoryBankConfig:
        """Return how much a bank may hold now."""
        bank = self._settings.now.bank
        return MemoryBankConfig(enabled=bank.backend != "off", **bank.limits)  # type: ignore[arg-type]

    def memory_files(self, user: str | None, topic: str) -> list[tuple[Level, str | None, str]]:
        """Return what MEMORY.md holds of a person in a topic, of the household and of anyone, with who may read it."""
        read: list[tuple[Level, str | None, str]] = []
        levels: tuple[Level, ...] = ("private", "household", "shared") if user else ("household", "shared")
        for level in levels:
            with suppress(EdgememError):  # a name that no bank can have, or a file that is none
                owner = user if level == "private" else None
                bank = (
                    self.for_scope(level, "") if owner is None else self.for_person(owner, topic or "default")
                )
                read.append((level, owner, bank.read_file(MEMORY_FILE) or ""))
        return read

    def prompt(self) -> str:
        """Return what the operator wrote in `bank/PROMPT.md`, for the instructions; empty where no model is offered the bank."""
        if not self.limits().enabled:
            return ""
        with suppress(OSError, ConfigError):  # `check` tells why
            data = read_file(self.folder.root / PROMPT_FILE, links=False, home=self.folder.root.parent)
            return data.decode("utf-8", "replace").strip()
        return ""

    def store(self) -> BankFolder | BankTable:
        """Return where the files are kept now."""
        return self._table if self._settings.now.bank.backend == "database" else self.folder

    def stamp(self) -> str:
        """Return what changes whenever a file does, or who it belongs to; empty where there is none."""
        state, people = self.store().state()
        names = sorted(spellings(self._database, map(name_key, people)).items()) if people else []
        return state and blake2b(f"{state} {names}".encode(), digest_size=16).hexdigest()

    def files(self) -> list[BankFile]:
        """Return all files, in order."""
        return self.store().list_files()

    def texts(self) -> Iterator[tuple[BankFile, str | None, str]]:
        """Yield all files, whose they are and their texts; people as rows spell them, and by their keys where none does."""
        store, owners = self.store(), dict[str, str]()
        for file in store.list_files():
            key = name_key(person_of(file.scope) or "")
            if key not in owners:
                owners |= spellings(self._database, [key])
            with suppress(MemoryBankViolation):  # people may write anything there
                if held := store.read(file.scope, file.topic, file.path):
                    yield file, owners[key] or None, held.text

    def retain(self, stop: Callable[[], bool]) -> bool:
        """Delete files that are older than the profile keeps them; return whether there was any."""
        return delete_old(self.store(), self.limits().retention_days, self._clock.now(), stop=stop)

    def faults(self) -> list[str]:
        """Return which banks are over their limits, by hand or since these were lowered, and what to do."""
        limits, faults = self.limits(), list[str]()
        for (scope, topic), group in groupby(self.files(), key=lambda file: file[:2]):
            files = list(group)
            name = "/".join(filter(None, (person_of(scope) or scope, topic)))
            largest, total = max(file.size for file in files), sum(file.size for file in files)
            depth = max(file.path.count("/") + 1 for file in files)
            faults += [f"{name}: {over}" for over in _over(limits, largest, total, len(files), depth)]
        return faults


def delete_old(
    store: BankFolder | BankTable,
    days: int | None,
    now: float,
    bank: tuple[str, str] | None = None,
    *,
    stop: Callable[[], bool] = bool,
) -> bool:
    """Delete files of one bank, or of all, that are older than some days; return whether there was any."""
    if not days:
        return False
    oldest, deleted = oldest_kept(days, now), False

    def make(held: Held | None, _others: Sequence[BankFile]) -> str | None:
        return held.text if held is not None and held.modified >= oldest else None

    for file in store.list_files(*(bank or ())):
        if file.modified < oldest and not stop():
            with suppress(MemoryBankViolation):
                deleted |= store.change(file.scope, file.topic, file.path, make)
    return deleted
