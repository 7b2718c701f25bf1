"""Merge: the lines of an export into a memory, which may hold other things, without breaking what holds there.

One transaction takes in a whole file: one that is damaged, or cut short, leaves nothing behind. What is here already
stays, so a second time adds nothing; what is later replaces what is earlier, so a later export brings its memory up to
date. Ids are kept, and the clock takes note of them. Where two memories part ways (two values for one fact at the same
moment, two conversations of one name), what is here stays, and the report names what was not taken: whole facts, and
whole ends of conversations.
"""

from __future__ import annotations

import math
import re
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import EdgememError, InvalidInputError
from edgemem.scopes import is_known_form, without_spaces
from edgemem.store.db.files import create_private, write_private
from edgemem.store.epochs import note_newer
from edgemem.store.facts import ensure_key
from edgemem.store.preferences import erase_preferences
from edgemem.store.rights import spell_heard, spell_owner, spell_scope
from edgemem.store.transfer import records
from edgemem.store.turns import last_number
from edgemem.store.validation import as_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction
    from edgemem.store.notes import NotesFile
    from edgemem.store.transfer.records import Record, Table

LEAP_US = int(10 * 365.25 * 86400 * 1e6)
"""What claims to be later than this from now would push the clock out of all reason."""

_QUEUED_AS = {"facts": "fact", "episodes": "episode", "messages": "message", "epochs": "summary"}
"""Tables that the index follows, with the kind under which it is told of a row."""

# A turn is ended after it was accepted, and amended when its speech was cut off: a later stage replaces an earlier one.
_STAGES = {"open": 0, "unfinished": 1, "complete": 2, "interrupted": 3}


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


def import_lines(db: Database, lines: Iterable[bytes], *, notes: NotesFile | None = None) -> ImportReport:
    """Take in the lines of an export; return what was added, known and refused.

    Raises:
        InvalidInputError: a line is damaged, or the last one is missing; then nothing was imported.
    """
    reading = records.Reading(lines, int(db.clock.now() * 1e6) + LEAP_US)

    def work(tx: Transaction) -> _Merge:
        merge = _Merge(tx)
        try:
            for _, group in groupby(reading, key=_group):
                merge.take(group)
        except InvalidInputError as error:
            raise InvalidInputError(f"{error} Nothing was imported.") from error
        merge.finish(reading.newest)
        return merge

    try:
        merge = db.write(work)
    except InvalidInputError:
        raise
    except EdgememError as error:
        raise type(error)(f"Line {reading.line} could not be taken in: {error}") from error
    if merge.notes and notes is not None:
        take_notes(notes, merge.notes, merge.report)
    return merge.report


def _group(record: records.Line) -> Any:
    return (record.scope, record.key) if isinstance(record, records.Fact) else None


# Merging


class _PartedError(Exception):
    """What is here and what was given exclude each other; the text says how."""


class _Intake:
    """One transaction that takes in rows with the ids that they have, and what came of it."""

    def __init__(self, tx: Transaction) -> None:
        self.tx = tx
        self.report = ImportReport()
        self._highest = {
            table: tx.execute(f"select coalesce(max(id), 0) from {table}")[0][0]  # noqa: S608 - our own constants
            for table in _QUEUED_AS
        }

    def here(self, table: Table[Record], keys: Mapping[str, Any], **beside: Any) -> Record | None:
        """Return the record that has these values in these columns.

        Args:
            beside: the fields of the record that are no columns.
        """
        rows = self._rows(table, table.columns, keys)
        return table.of(rows[0], **beside) if rows else None

    def insert(self, table: Table[Record], record: Record, *, replace: bool = False, **more: Any) -> None:
        """Write a row, with more columns than the record has."""
        verb = "insert or replace" if replace else "insert"
        values = [*more.values(), *table.row(record)]
        self.tx.execute(
            f"{verb} into {table.name} ({', '.join([*more, *table.columns])})"
            f" values ({', '.join('?' * len(values))})",
            values,
        )

    def add(
        self,
        table: Table[Record],
        record: Record,
        keys: Mapping[str, Any],
        *,
        parted: str,
        later: Sequence[str] = (),
        announce: bool = True,
        **more: Any,
    ) -> bool:
        """Write a row, unless it is here; tell whether it is new, or was brought up to date.

        Args:
            keys: columns by which it is found, with their values.
            parted: how the two exclude each other where another one is here.
            later: fields that have no value at first; once the first of them has one here, all of them stay.
            announce: tell the index of a new row.
            more: columns that the record does not have.
        """
        rows = self._rows(table, [*table.columns, *more], keys)
        if not rows:
            self.insert(table, record, **more)
            # Behind the highest id that there was, the index looks anyway.
            if announce and keys.get("id", math.inf) <= self._highest.get(table.name, 0):
                self.tx.announce(_QUEUED_AS[table.name], [keys["id"]])
            return True
        ours, given = table.fields(rows[0]), msgspec.structs.asdict(record)
        other = [name for name, value in ours.items() if value != given[name]]
        if list(rows[0][len(table.columns) :]) != list(more.values()) or not set(later).issuperset(other):
            raise _PartedError(parted)
        if not other or ours[later[0]] is not None:
            return False
        self.tx.execute(
            f"update {table.name} set {', '.join(f'{name} = :{name}' for name in later)} where {_where(keys)}",  # noqa: S608 - ours
            {**keys, **{name: given[name] for name in later}},
        )
        return True

    def _rows(
        self, table: Table[Record], columns: Iterable[str], keys: Mapping[str, Any]
    ) -> list[tuple[Any, ...]]:
        sql = f"select {', '.join(columns)} from {table.name} where {_where(keys)}"  # noqa: S608 - our own constants
        return self.tx.execute(sql, keys)


class _Merge(_Intake):
    """Takes records into one transaction."""

    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._sessions = _Sessions(self)
        self._parted: set[tuple[str, str]] = set()
        self.notes = ""
        """The text of NOTES.md, which is no row."""

    def take(self, group: Iterator[records.Line]) -> None:
        """Take in records; those of one fact come as a group of their own."""
        group = map(self._spelled, group)
        for record in group:
            if isinstance(record, records.Fact):
                self._fact(record, group)
            elif isinstance(record, records.Doubt):
                self._doubt(record)
            elif isinstance(record, records.Preference):
                self._preference(record)
            elif isinstance(record, records.Episode):
                self._add_alone(records.EPISODES, record, {"id": record.id}, "episode")
            elif isinstance(record, records.Notes):
                self.notes = record.text
            elif isinstance(record, records.Session):
                self._sessions.begin(record)
            elif isinstance(record, (records.Turn, records.Epoch, records.Dropped, records.Output)):
                self._sessions.take(record)

    def finish(self, newest: int) -> None:
        """Bring states of conversations and the clock up to date.

        Args:
            newest: the highest tick that was taken in.
        """
        self._sessions.finish()
        # Ticks after the next start shall follow those that came in, even where none of them is an id.
        self.tx.clock.witness(newest)
        self.tx.execute(
            "insert into meta values ('clock', ?)"
            " on conflict (key) do update set value = max(value, excluded.value)",
            (newest,),
        )

    def _spelled(self, record: records.Line) -> records.Line:
        """Return a record with the names of people as they are written here, and closed if its scope has no known form."""
        tx = self.tx
        if isinstance(record, (records.Fact, records.Doubt, records.Preference)):
            scope, level = spell_scope(tx, without_spaces(record.scope)), record.level
            owner = spell_owner(tx, record.owner)
            if level == "household" and not is_known_form(scope):
                level, owner = "private", None
            record = msgspec.structs.replace(record, scope=scope, level=level, owner=owner)
        elif isinstance(record, (records.Episode, records.Turn)):
            record = msgspec.structs.replace(record, owner=spell_owner(tx, record.owner))
        if (
            isinstance(record, (records.Fact, records.Doubt, records.Episode, records.Turn))
            and record.heard is not None
        ):
            record = msgspec.structs.replace(record, heard=spell_heard(tx, record.heard))
        return record

    # Facts

    def _fact(self, first: records.Fact, others: Iterator[records.Line]) -> None:
        try:
            with self.tx.atomic():
                changed = self._history(first, others)
        except _PartedError as parted:
            for _ in others:
                pass  # the rest of this history goes with it
            self._parted.add((first.scope, first.key))
            self.report.refused.append(
                f"The fact {first.key!r} ({first.scope}) has another history here, which stays: {parted}."
            )
            return
        self.report.count("facts", new=changed)

    def _history(self, first: records.Fact, others: Iterator[records.Line]) -> bool:
        """Take in the rectangles of one key; tell whether any was new or had been closed since."""
        key_id = ensure_key(self.tx, first.scope, first.key)
        newest_here = self.tx.execute(
            "select coalesce(max(version), 0) from facts where key_id = ? and id = origin", (key_id,)
        )[0][0]
        count = newest = 0
        changed = False
        version: records.Line | None = first
        while isinstance(version, records.Fact):
            count, newest = count + 1, max(newest, version.version)
            changed |= self._rectangle(key_id, version, newest_here)
            version = next(others, None)
        # Each row is in one of two partial indexes; without naming both, every key would cost a look at the whole table.
        stored = self.tx.execute(
            "select (select count(*) from facts where key_id = :key and known_to is null and version <= :newest)"
            " + (select count(*) from facts where key_id = :key and node is not null and version <= :newest)",
            {"key": key_id, "newest": newest},
        )
        if stored[0][0] != count:
            raise _PartedError("it holds what the file does not know")
        return changed

    def _rectangle(self, key_id: int, version: records.Fact, newest_here: int) -> bool:
        keys = {"id": version.id}
        known = bool(self.tx.execute("select 1 from facts where id = :id", keys))
        if not known and version.version <= newest_here:
            raise _PartedError(f"version {version.version} was learnt elsewhere")
        new = self.add(
            records.FACTS,
            version,
            keys,
            parted=f"the version of tick {version.id} differs",
            later=("known_to", "node"),
            announce=version.id == version.origin and version.value is not None,
            key_id=key_id,
        )
        if new and known and version.value is not None:
            self.tx.announce("fact", [version.id])
        return new

    def _doubt(self, given: records.Doubt) -> None:
        if (given.scope, given.key) in self._parted:
            return  # the sentence about this fact's history stands for it
        key_id = ensure_key(self.tx, given.scope, given.key)
        later = ("settled", "confirmed_by")
        self._add_alone(records.DOUBTS, given, {"id": given.id}, "doubt", later=later, key_id=key_id)

    # Preferences and episodes

    def _preference(self, given: records.Preference) -> None:
        keys = {"scope": given.scope, "key": given.key}
        ours = self.here(records.PREFERENCES, keys)
        if ours is not None and ours != given and ours.recorded >= given.recorded:
            self.report.refused.append(
                f"The preference {given.key!r} ({given.scope}) was set later here, which stays;"
                f" {given.value!r} is older."
            )
            return
        if ours != given:
            erase_preferences(self.tx, "scope = :scope and key = :key", keys)
            self.insert(records.PREFERENCES, given, id=self.tx.tick())
        self.report.count("preferences", new=ours != given)

    def _add_alone(
        self, table: Table[Record], given: Record, keys: Mapping[str, Any], name: str, **options: Any
    ) -> None:
        """Add a record on which no other depends, or refuse it."""
        parted = f"The {name} of tick {keys['id']} is another one here, which stays."
        try:
            self.report.count(table.name, new=self.add(table, given, keys, parted=parted, **options))
        except _PartedError as error:
            self.report.refused.append(str(error))


class _Sessions:
    """Takes in conversations, each after its own record, for as long as both go the same way."""

    def __init__(self, intake: _Intake) -> None:
        self._intake = intake
        self._tx = intake.tx
        self._ids: dict[str, int] = {}
        self._states: dict[str, str] = {}
        """The loop's states that differ from what is here."""
        self._newest_turn: dict[str, int] = {}
        self._grown: set[str] = set()
        self._parted: dict[str, int] = {}
        """How much of each conversation was left out after it had parted."""

    def begin(self, given: records.Session) -> None:
        """Take in a conversation without its turns."""
        ours = self._intake.here(records.SESSIONS, {"name": given.name})
        ours = ours or self._intake.here(records.SESSIONS, {"id": given.id})
        self._ids[given.name] = given.id
        if ours is None:
            self._intake.insert(records.SESSIONS, given)
        elif (ours.id, ours.name) != (given.id, given.name):
            self._part(given.name, "is another one here")
            return
        elif given.state is not None and ours.state != given.state:
            self._states[given.name] = as_text(given.state)
        self._intake.report.count("sessions", new=ours is None)

    def take(self, record: records.Turn | records.Epoch | records.Dropped | records.Output) -> None:
        """Take in what belongs to a conversation, unless that has parted."""
        name = record.session
        session_id = self._ids.get(name)
        if session_id is None:
            raise InvalidInputError(f"A part of conversation {name!r} comes before that conversation itself.")
        if name in self._parted:
            self._parted[name] += 1
            return
        try:
            if isinstance(record, records.Turn):
                kind, new = "turns", self._turn(session_id, record)
                self._newest_turn[name] = record.n
            elif isinstance(record, records.Epoch):
                kind, new = "epochs", self._epoch(session_id, record)
            elif isinstance(record, records.Output):
                kind, new = "outputs", self._output(session_id, record)
            else:
                kind = "messages"
                new = self._message(session_id, record.turn, record.message, dropped=record.dropped)
        except _PartedError as parted:
            self._part(name, str(parted))
            return
        self._intake.report.count(kind, new=new)
        if new and kind != "outputs":
            self._grown.add(name)

    def finish(self) -> None:
        """Bring the states of conversations up to date, and tell what was left out."""
        refused = self._intake.report.refused
        for name, state in self._states.items():
            if name in self._parted:
                continue
            if name in self._grown:
                self._tx.execute("update sessions set state = ? where name = ?", (state, name))
            elif self._newest_turn.get(name, -1) == last_number(self._tx, name):
                refused.append(f"The loop's state of conversation {name!r} differs; the one here stays.")
        for name, count in self._parted.items():
            if count:
                refused.append(f"With that, {count} more records of conversation {name!r} were left out.")

    def _part(self, name: str, reason: str) -> None:
        self._parted[name] = 0
        self._intake.report.refused.append(f"The conversation {name!r} {reason}; what is here stays.")

    def _turn(self, session_id: int, given: records.Turn) -> bool:
        ours = self._turn_here(session_id, given)
        if ours == given:
            return False
        gone: list[int] = []
        if ours is not None:
            if ours.first != given.first:
                raise _PartedError(f"goes on in another way from turn {given.n}")
            stage, known = (_STAGES[given.state], given.last), (_STAGES[ours.state], ours.last)
            if stage < known:
                return False
            if stage == known:
                raise _PartedError(f"differs in turn {given.n}")
            gone = [message.id for message in ours.messages]
        with self._tx.atomic():
            self._tx.executemany("delete from messages where id = ?", [(number,) for number in gone])
            self._tx.announce("message", gone)
            for message in given.messages:
                if not self._message(session_id, given.n, message):
                    raise _PartedError(f"was rewritten since, at turn {given.n}")
            self._intake.insert(records.TURNS, given, replace=True, session_id=session_id)
        return True

    def _turn_here(self, session_id: int, given: records.Turn) -> records.Turn | None:
        keys = {"session_id": session_id, "n": given.n}
        turn = self._intake.here(records.TURNS, keys, session=given.session)
        if turn is None:
            return None
        rows = self._tx.execute(records.MESSAGES_OF_TURN, (turn.first, turn.last, session_id, turn.n))
        return msgspec.structs.replace(turn, messages=tuple(map(records.MESSAGES.of, rows)))

    def _message(
        self, session_id: int, turn: int, given: records.Message, *, dropped: int | None = None
    ) -> bool:
        return self._intake.add(
            records.MESSAGES,
            given,
            {"id": given.id},
            parted=f"was rewritten since, at turn {turn}",
            session_id=session_id,
            turn=turn,
            dropped=dropped,
        )

    def _epoch(self, session_id: int, given: records.Epoch) -> bool:
        parted = "began anew in another way"
        new = self._intake.add(records.EPOCHS, given, {"id": given.id}, parted=parted, session_id=session_id)
        if new:
            note_newer(self._tx, session_id, given.id)
        return new

    def _output(self, session_id: int, given: records.Output) -> bool:
        """Take in what a tool answered; the bound on all of them is kept when the next one is."""
        if not self._tx.execute(
            "select 1 from turns where session_id = ? and n = ?", (session_id, given.turn)
        ):
            raise InvalidInputError(
                f"What a tool answered in turn {given.turn} of {given.session!r} comes without it."
            )
        keys = {"session_id": session_id, "turn": given.turn, "pointer": given.pointer}
        ours = self._intake.here(records.OUTPUTS, keys, session=given.session)
        if ours is None:
            size = len(given.content.encode())
            self._intake.insert(records.OUTPUTS, given, session_id=session_id, bytes=size)
        elif ours != given:
            self._intake.report.refused.append(
                f"What {given.pointer!r} names is another text here, which stays."
            )
        return ours is None


def _where(keys: Iterable[str]) -> str:
    return " and ".join(f"{column} = :{column}" for column in keys)


# Notes


def take_notes(notes: NotesFile, text: str, report: ImportReport) -> None:
    """Write notes where there are none; else add the sections that are not here."""
    here = notes.read()
    if not here.strip():
        create_private(notes.path)  # and its folders
        write_private(notes.path, text.encode())
        report.added["notes"] = 1
        return
    new = "".join(section for section in re.split(r"(?m)^(?=## )", text) if section.strip() not in here)
    if not new.strip():
        report.known["notes"] = 1
    elif notes.max_size_chars and len(here) + len(new) + 1 > notes.max_size_chars:
        report.refused.append(
            f"{len(new):,} characters of notes do not fit into NOTES.md beside those that are here."
        )
    else:
        notes.append(new)
        report.added["notes"] = 1
