"""Forgetting: what is erased, in the truth and in every copy that was made of it (law 8)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.store.erasing import Forgotten, erase_fact, erase_person
from edgemem.store.line_log import forget_in_log
from edgemem.store.mentions import find_mentions
from edgemem.store.tool_copies import read_erased

if TYPE_CHECKING:
    from edgemem.parts import Parts
    from edgemem.running import Running


class Forgetting:
    """Erases on behalf of a memory; turns that wait to be written are written before."""

    def __init__(self, home: Path, parts: Parts, running: Running) -> None:
        self._home, self._parts, self._running = home, parts, running

    def fact(self, key: str, *, scope: str, wait_s: float | None = None) -> bool:
        """Erase a fact with its history, also from what running conversations will say; return whether there was one."""
        self._parts.sessions.journal.settle(wait_s=wait_s)
        erased, found = self._parts.database.write(
            lambda tx: (read_erased(tx, key, scope=scope), erase_fact(tx, key, scope=scope))
        )
        if found:
            self._running.forget(erased)
        return self._erased(found)

    def session(self, session_id: str) -> bool:
        """Erase a conversation; return whether there was one."""
        self._parts.sessions.journal.settle()
        return self._erased(self._parts.sessions.delete(session_id))

    def person(self, name: str, *, called: Collection[str], logs: Iterable[Path]) -> Forgotten:
        """Erase what a person said or owns, and tell where the name still stands.

        Args:
            called: other names of theirs, that are looked for as well.
            logs: audit logs, whose lines of this person are erased too.
        """
        parts = self._parts
        parts.sessions.journal.settle()
        erased = parts.database.write(lambda tx: erase_person(tx, name))
        self._erased(bool(erased))
        lines = sum(forget_in_log(log, name) for log in set(logs))
        return Forgotten(
            {**erased, "log lines": lines} if lines else erased,
            find_mentions(parts.database, (name, *called), notes=parts.notes),
            tuple(str(path) for path in sorted((self._home / "db").glob("*.damaged*"))),
        )

    def _erased(self, found: bool) -> bool:
        """Take what was erased out of backups, kept states, the index and the log too."""
        if found:
            self._parts.backups.replace_all()
            self._running.forget_states(self._home / "db")
            self._parts.index.take_erased()
            self._parts.database.checkpoint()
        return found
