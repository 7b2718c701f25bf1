"""Merging: rows of another memory into this one, without breaking what holds here.

What is there already stays; what is later replaces what is earlier; what excludes what is here is refused, whole facts
and whole ends of conversations at a time, and named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from edgemem.scopes import is_known_form, without_spaces
from edgemem.store import rows
from edgemem.store.intake import ImportReport, Intake, Parted
from edgemem.store.merging_sessions import SessionMerge
from edgemem.store.names import spell_heard, spell_owner, spell_scope
from edgemem.store.preferences import erase_preferences

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.store.database import Transaction


class Merge:
    """Takes records into one transaction."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._intake = Intake(tx)
        self._sessions = SessionMerge(self._intake)
        self._parted: set[tuple[str, str]] = set()
        self.notes = ""
        """The text of NOTES.md, which is no row."""

    @property
    def report(self) -> ImportReport:
        """Return what was done."""
        return self._intake.report

    def take(self, group: Iterator[rows.Line]) -> None:
        """Take in records; those of one fact come as a group of their own."""
        group = map(self._spelled, group)
        for record in group:
            if isinstance(record, rows.Fact):
                self._fact(record, group)
            elif isinstance(record, rows.Doubt):
                self._doubt(record)
            elif isinstance(record, rows.Preference):
                self._preference(record)
            elif isinstance(record, rows.Episode):
                self._episode(record)
            elif isinstance(record, rows.Notes):
                self.notes = record.text
            elif isinstance(record, rows.Session):
                self._sessions.begin(record)
            elif isinstance(record, (rows.Turn, rows.Epoch, rows.Dropped, rows.Output)):
                self._sessions.take(record)

    def finish(self, newest: int) -> None:
        """Bring states of conversations and the clock up to date.

        Args:
            newest: the highest tick that was taken in.
        """
        self._sessions.finish()
        # Ticks after the next start shall follow those that came in, even where none of them is an id.
        self._tx.clock.witness(newest)
        self._tx.execute(
            "insert into meta values ('clock', ?)"
            " on conflict (key) do update set value = max(value, excluded.value)",
            (newest,),
        )

    def _spelled(self, record: rows.Line) -> rows.Line:
        """Return a record with the names of people as they are written here, and closed if its scope has no known form."""
        tx = self._tx
        if isinstance(record, (rows.Fact, rows.Doubt, rows.Preference)):
            scope, level = spell_scope(tx, without_spaces(record.scope)), record.level
            owner = spell_owner(tx, record.owner)
            if level == "household" and not is_known_form(scope):
                level, owner = "private", None
            record = msgspec.structs.replace(record, scope=scope, level=level, owner=owner)
        elif isinstance(record, (rows.Episode, rows.Turn)):
            record = msgspec.structs.replace(record, owner=spell_owner(tx, record.owner))
        if isinstance(record, (rows.Fact, rows.Doubt, rows.Episode, rows.Turn)) and record.heard is not None:
            record = msgspec.structs.replace(record, heard=spell_heard(tx, record.heard))
        return record

    # Facts

    def _fact(self, first: rows.Fact, others: Iterator[rows.Line]) -> None:
        try:
            with self._tx.atomic():
                changed = self._history(first, others)
        except Parted as parted:
            for _ in others:
                pass  # the rest of this history goes with it
            self._parted.add((first.scope, first.key))
            self.report.refused.append(
                f"The fact {first.key!r} ({first.scope}) has another history here, which stays: {parted}."
            )
            return
        self.report.count("facts", new=changed)

    def _history(self, first: rows.Fact, others: Iterator[rows.Line]) -> bool:
        """Take in the rectangles of one key; tell whether any was new or had been closed since."""
        tx = self._tx
        key_id = self._key_id(first.scope, first.key)
        here = tx.execute(
            "select coalesce(max(version), 0) from facts where key_id = ? and id = origin", (key_id,)
        )[0][0]
        seen = newest = 0
        changed = False
        version: rows.Line | None = first
        while isinstance(version, rows.Fact):
            seen, newest = seen + 1, max(newest, version.version)
            changed |= self._rectangle(key_id, version, here)
            version = next(others, None)
        # Each row is in one of two partial indexes; without naming both, every key would cost a look at the whole table.
        stored = tx.execute(
            "select (select count(*) from facts where key_id = :key and known_to is null and version <= :newest)"
            " + (select count(*) from facts where key_id = :key and node is not null and version <= :newest)",
            {"key": key_id, "newest": newest},
        )
        if stored[0][0] != seen:
            raise Parted("it holds what the file does not know")
        return changed

    def _rectangle(self, key_id: int, version: rows.Fact, here: int) -> bool:
        found = self._tx.execute(
            f"select k.scope, k.key, f.* from fact_keys k join (select key_id, {rows.Fact.COLUMNS} from facts"  # noqa: S608 - ours
            " where id = ?) f on k.id = f.key_id",
            (version.id,),
        )
        if not found:
            if version.version <= here:
                raise Parted(f"version {version.version} was learnt elsewhere")
            self._intake.insert("facts", f"key_id, {rows.Fact.COLUMNS}", (key_id, *version.columns()))
            if version.id == version.origin and version.value is not None:
                self._intake.announce("facts", version.id)
            return True
        scope, key, _, *row = found[0]
        there = rows.Fact.of(scope, key, row)
        if there == version:
            return False
        if _as_said(there) != _as_said(version) or None not in (there.known_to, version.known_to):
            raise Parted(f"the version of tick {version.id} differs")
        if version.known_to is None:
            return False  # here it is known already until when that was believed
        self._tx.execute(
            "update facts set known_to = ?, node = ? where id = ?",
            (version.known_to, version.node, version.id),
        )
        if version.value is not None:
            self._intake.changed("facts", version.id)
        return True

    def _key_id(self, scope: str, key: str) -> int:
        self._tx.execute("insert or ignore into fact_keys (scope, key) values (?, ?)", (scope, key))
        found = self._tx.execute("select id from fact_keys where scope = ? and key = ?", (scope, key))
        return int(found[0][0])

    def _doubt(self, given: rows.Doubt) -> None:
        columns = f"key_id, {rows.Doubt.COLUMNS}"
        if (given.scope, given.key) in self._parted:
            return  # the sentence about this fact's history stands for it
        key_id = self._key_id(given.scope, given.key)
        found = self._tx.execute(f"select {columns} from doubts where id = ?", (given.id,))  # noqa: S608 - ours
        if not found:
            self._intake.insert("doubts", columns, (key_id, *given.columns()))
            self.report.count("doubts", new=True)
            return
        there = rows.Doubt.of(given.scope, given.key, found[0][1:])
        if found[0][0] != key_id or _unsettled(there) != _unsettled(given):
            self.report.refused.append(f"The doubt of tick {given.id} is another one here, which stays.")
            return
        settled = there.settled is None and given.settled is not None
        if settled:
            self._tx.execute(
                "update doubts set settled = ?, confirmed_by = ? where id = ?",
                (given.settled, given.confirmed_by, given.id),
            )
        self.report.count("doubts", new=settled)

    # Preferences and episodes

    def _preference(self, given: rows.Preference) -> None:
        columns = rows.Preference.COLUMNS
        found = self._tx.execute(
            f"select {columns} from preferences where scope = ? and key = ?",  # noqa: S608 - our own constants
            (given.scope, given.key),
        )
        there = rows.Preference.of(found[0]) if found else None
        if there is not None and there != given and there.recorded >= given.recorded:
            self.report.refused.append(
                f"The preference {given.key!r} ({given.scope}) was set later here, which stays;"
                f" {given.value!r} is older."
            )
            return
        if there != given:
            erase_preferences(
                self._tx, "scope = :scope and key = :key", {"scope": given.scope, "key": given.key}
            )
            self._intake.insert("preferences", f"id, {columns}", (self._tx.tick(), *given.columns()))
        self.report.count("preferences", new=there != given)

    def _episode(self, given: rows.Episode) -> None:
        columns = rows.Episode.COLUMNS
        found = self._tx.execute(f"select {columns} from episodes where id = ?", (given.id,))  # noqa: S608 - ours
        if found and rows.Episode.of(found[0]) != given:
            self.report.refused.append(f"The episode of tick {given.id} is another one here, which stays.")
            return
        if not found:
            self._intake.insert("episodes", columns, given.columns())
            self._intake.announce("episodes", given.id)
        self.report.count("episodes", new=not found)


def _as_said(version: rows.Fact) -> rows.Fact:
    return msgspec.structs.replace(version, known_to=None, node=None)


def _unsettled(doubt: rows.Doubt) -> rows.Doubt:
    return msgspec.structs.replace(doubt, settled=None, confirmed_by=None)
