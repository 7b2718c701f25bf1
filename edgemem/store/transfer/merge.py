"""Merge: the lines of an export into a memory, which may hold other things, without breaking what holds there.

One transaction takes in a whole file: one that is damaged, or cut short, leaves nothing behind. What is here already
stays, so a second time adds nothing; what is later replaces what is earlier, so a later export brings its memory up to
date. Ids are kept, and the clock takes note of them. Where two memories part ways (two values for one fact at the same
moment, two conversations of one name), what is here stays, and the report names what was not taken: whole facts, and
whole ends of conversations.
"""

from __future__ import annotations

import re
from itertools import chain, groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import EdgememError, InvalidInputError
from edgemem.scopes import is_known_form, without_spaces
from edgemem.store.db.files import create_private, write_private
from edgemem.store.db.migrations import note_tick
from edgemem.store.episodes import keep_tags
from edgemem.store.epochs import note_newer
from edgemem.store.facts import ROWS_OF_KEY, ensure_key
from edgemem.store.kinds import KINDS, PREFERENCES
from edgemem.store.rights import spell, spell_heard, spell_owner, spell_scope
from edgemem.store.rows import delete_rows
from edgemem.store.transfer import records
from edgemem.store.validation import as_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from edgemem.store.bank.bank import MemoryBank
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction
    from edgemem.store.notes import NotesFile
    from edgemem.store.transfer.records import Record, Table

LEAP_US = int(10 * 365.25 * 86400 * 1e6)
"""What claims to be later than this from now would push the clock out of all reason."""

_FOLLOWED = [kind.table for kind in KINDS if kind.doc]
"""Tables that the index follows."""

# A turn is ended after it was accepted, and amended when its speech was cut off: a later stage replaces an earlier one.
_STAGES = {"open": 0, "unfinished": 1, "complete": 2, "interrupted": 3}


class ImportReport(msgspec.Struct):
    """What an import did, by kind.

    These are `facts`, `doubts`, `preferences`, `episodes`, `procedures`, `sessions`, `turns`, `messages`, `epochs`,
    `outputs`, `notes`, `files`, `users`, `goals`, `phases`, `session_states`, `session_summaries`.
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


def import_lines(
    db: Database, lines: Iterable[bytes], *, notes: NotesFile | None = None, bank: MemoryBank | None = None
) -> ImportReport:
    """Take in the lines of an export; return what was added, known and refused.

    Raises:
        InvalidInputError: a line is damaged, or the last one is missing; then nothing was imported.
    """
    reading = records.Reading(lines, int(db.clock.now() * 1e6) + LEAP_US)

    def work(tx: Transaction) -> _Merge:
        merge = _Merge(tx)
        try:
            for key, group in groupby(reading, key=_key_of):
                spelled = (_spelled(tx, record) for record in group)
                if key is not None:
                    merge.take_fact(spelled)
                else:
                    for record in spelled:
                        merge.take(record)
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
    if bank is not None:
        for file in merge.files:
            _take_file(bank, file, merge.report)
    return merge.report


def _key_of(record: records.Line) -> tuple[str, str] | None:
    """Return what the lines of one fact have in common, which come one behind the other; None for other lines."""
    return (record.scope, record.key) if isinstance(record, records.Fact) else None


def _spelled(tx: Transaction, record: Any) -> Any:
    """Return a record with the names of people as they are written here, and closed if its scope has no known form."""
    names = record.__struct_fields__
    changed: dict[str, Any] = {}
    if "owner" in names:
        changed["owner"] = spell_owner(tx, record.owner)
    if "scope" in names:
        changed["scope"] = scope = spell_scope(tx, without_spaces(record.scope))
        if record.level == "household" and not is_known_form(scope):
            changed |= {"level": "private", "owner": None}
    if isinstance(record, records.User):
        changed["name"] = spell(tx, record.name)
    if "speaker" in names:
        changed["speaker"] = spell_owner(tx, record.speaker)
    if "heard" in names:
        changed["heard"] = spell_heard(tx, record.heard)
    return msgspec.structs.replace(record, **changed)


class _PartedError(Exception):
    """What is here and what was given exclude each other; the text says how."""


class _Merge:
    """Takes records into one transaction, with the ids that they have; what came of it stands in `report`."""

    def __init__(self, tx: Transaction) -> None:
        self.tx = tx
        self.report = ImportReport()
        self.notes = ""
        """The text of NOTES.md, which is no row."""
        self.files: list[records.File] = []
        """Files of the bank, wherever they are kept here."""
        self._highest = {
            table: tx.execute(f"select coalesce(max(id), 0) from {table}")[0][0]  # noqa: S608 - our own constants
            for table in _FOLLOWED
        }
        self._parted_facts: set[tuple[str, str]] = set()
        self._sessions: dict[str, records.Session] = {}
        """The conversations that came."""
        self._grown: set[str] = set()
        self._parted: dict[str, int] = {}
        """How much of each conversation was left out after it had parted."""

    def take(self, record: records.Line) -> None:
        """Take in a record that is no fact."""
        match record:
            case records.Doubt(scope=scope, key=key):
                # Of one that has parted, the sentence about the fact's history stands for it.
                if (scope, key) not in self._parted_facts:
                    more = {"key_id": ensure_key(self.tx, scope, key)}
                    self._add_alone(records.DOUBTS, record, "doubt", more, ("settled", "confirmed_by"))
            case records.Preference():
                self._take_preference(record)
            case records.Episode(name=name, details=details):  # of two with one name, where it has one
                if self._take_newest(records.EPISODES, record, "episode", {"name": name}):
                    keep_tags(self.tx, record.id, details.tags)
            case records.Procedure():
                self._take_procedure(record)
            case records.User(name=name):
                self._take_newest(records.USERS, record, "user", {"name": name})
            case records.Goal(owner=owner, name=name):
                self._take_newest(records.GOALS, record, "goal", {"owner": owner, "name": name})
            case records.Phase(owner=owner):
                self._take_newest(records.PHASES, record, "phase", {"owner": owner})
            case records.File():
                self.files.append(record)
            case records.Notes(text=text):
                self.notes = text
            case records.Session():
                self._take_session(record)
            case _ if isinstance(record, records.Part):
                self._take_part(record)

    def finish(self, newest: int) -> None:
        """Bring states of conversations and the clock up to date, and report what was left out.

        Args:
            newest: the highest tick that was taken in.
        """
        for name in self._grown - self._parted.keys():
            if (state := self._sessions[name].state) is not None:
                self.tx.execute("update sessions set state = ? where name = ?", (as_text(state), name))
        for name, count in self._parted.items():
            if count:
                self._refuse(f"With that, {count} more records of conversation {name!r} were left out.")
        # Ticks after the next start shall follow those that came in, even where none of them is an id.
        self.tx.clock.witness(newest)
        note_tick(self.tx, newest)

    # Rows

    def _here(self, table: Table[Record], keys: Mapping[str, Any], **beside: Any) -> Record | None:
        """Return the record that has these values in these columns.

        Args:
            beside: the fields of the record that are no columns.
        """
        where = " and ".join(f"{column} = :{column}" for column in keys)
        rows = self.tx.execute(f"select {table.select()} from {table.name} where {where}", keys)  # noqa: S608 - ours
        return table.of(rows[0], **beside) if rows else None

    def _insert(
        self, table: Table[Record], record: Record, more: Mapping[str, Any], verb: str = "insert"
    ) -> None:
        """Write a row, with more columns than the record has."""
        values = [*more.values(), *table.row(record)]
        self.tx.execute(
            f"{verb} into {table.name} ({', '.join([*more, *table.columns])})"
            f" values ({', '.join('?' * len(values))})",
            values,
        )

    def _add(
        self,
        table: Table[Record],
        record: Record,
        parted: str,
        more: Mapping[str, Any],
        later: Sequence[str] = (),
        *,
        announce: bool = True,
    ) -> bool:
        """Write a row, unless there is one with its id; tell whether it is new, or was brought up to date.

        Args:
            parted: how the two exclude each other where another one is here.
            more: columns that the record does not have.
            later: fields that have no value at first; once the first of them has one here, all of them stay.
            announce: tell the index of it.
        """
        given = msgspec.structs.asdict(record)
        columns = ", ".join([*table.columns, *more])
        rows = self.tx.execute(f"select {columns} from {table.name} where id = ?", (given["id"],))  # noqa: S608 - ours
        if rows:
            ours = table.fields(rows[0])
            other = [name for name, value in ours.items() if value != given[name]]
            if list(rows[0][len(table.columns) :]) != list(more.values()) or not set(later).issuperset(other):
                raise _PartedError(parted)
            if not other or ours[later[0]] is not None:
                return False
            self.tx.execute(
                f"update {table.name} set {', '.join(f'{name} = :{name}' for name in later)} where id = :id",  # noqa: S608 - ours
                {name: given[name] for name in ("id", *later)},
            )
        else:
            self._insert(table, record, more)
        # Behind the highest id that there was, the index looks anyway.
        if announce and given["id"] <= self._highest.get(table.name, 0):
            self.tx.announce(table.name, [given["id"]])
        return True

    def _add_alone(
        self,
        table: Table[Record],
        record: Record,
        name: str,
        more: Mapping[str, Any],
        later: Sequence[str] = (),
    ) -> bool:
        """Add a record on which no other depends, or refuse it; tell whether it is here now."""
        tick = msgspec.structs.asdict(record)["id"]
        parted = f"The {name} of tick {tick} is another one here, which stays."
        try:
            new = self._add(table, record, parted, more, later)
            self.report.count(table.name, new=new)
        except _PartedError as error:
            self._refuse(str(error))
            return False
        return True

    def _take_newest(
        self,
        table: Table[Record],
        record: Record,
        name: str,
        keys: Mapping[str, Any],
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> bool:
        """Add a record of which there is one for some columns: the later one stays; tell whether that is this one."""
        tick = msgspec.structs.asdict(record)["id"]
        here = " and ".join(f"{column} = :{column}" for column in keys)
        rows = self.tx.execute(
            f"select id from {table.name} where {here} and id <> :id",  # noqa: S608 - ours
            {**keys, "id": tick},
        )
        if rows and rows[0][0] > tick:
            self._refuse(f"The {name} of tick {tick} was stored anew later here, which stays.")
            return False
        if rows:
            self.tx.execute(f"delete from {table.name} where id = ?", rows[0])  # noqa: S608 - ours
            self.tx.announce(table.name, rows[0])
        return self._add_alone(table, record, name, more)

    def _refuse(self, sentence: str) -> None:
        self.report.refused.append(sentence)

    # Facts and preferences

    def take_fact(self, versions: Iterator[records.Fact]) -> None:
        """Take in all rectangles of a fact, or none of them."""
        first = next(versions)
        place = first.scope, first.key
        try:
            with self.tx.atomic():
                key_id = ensure_key(self.tx, *place, first.topic)
                changed = self._take_history(key_id, chain([first], versions))
        except _PartedError as parted:
            self._parted_facts.add(place)
            self._refuse(
                f"The fact {first.key!r} ({first.scope}) has another history here, which stays: {parted}."
            )
            return
        self.report.count("facts", new=changed)

    def _take_history(self, key_id: int, versions: Iterator[records.Fact]) -> bool:
        """Take in the rectangles of one key; tell whether any was new or had been closed since."""
        newest_here = self.tx.execute(
            "select coalesce(max(version), 0) from facts where key_id = ? and id = origin", (key_id,)
        )[0][0]
        count = newest = 0
        changed = False
        for version in versions:
            count, newest = count + 1, max(newest, version.version)
            known = self.tx.execute("select 1 from facts where id = ?", (version.id,))
            if not known and version.version <= newest_here:
                raise _PartedError(f"version {version.version} was learnt elsewhere")
            changed |= self._add(
                records.FACTS,
                version,
                f"the version of tick {version.id} differs",
                {"key_id": key_id},
                ("known_to", "node"),
                announce=version.value is not None,
            )
        stored = self.tx.execute(
            f"select count(*) from facts where id in ({ROWS_OF_KEY}) and version <= :newest",  # noqa: S608 - ours
            {"key": key_id, "newest": newest},
        )
        if stored[0][0] != count:
            raise _PartedError("it holds what the file does not know")
        return changed

    def _take_preference(self, given: records.Preference) -> None:
        keys = {"scope": given.scope, "key": given.key}
        ours = self._here(records.PREFERENCES, keys)
        if ours is not None and ours != given and ours.recorded >= given.recorded:
            self._refuse(
                f"The preference {given.key!r} ({given.scope}) was set later here, which stays;"
                f" {given.value!r} is older."
            )
            return
        if ours != given:
            delete_rows(self.tx, PREFERENCES, "scope = :scope and key = :key", keys)
            self._insert(records.PREFERENCES, given, {"id": self.tx.tick()})
        self.report.count("preferences", new=ours != given)

    def _take_procedure(self, given: records.Procedure) -> None:
        """Take in a procedure that is newer than the one of its name here; of both counts the higher one stays."""
        ours = self._here(records.PROCEDURES, {"name": given.name})
        if ours is not None:
            given = msgspec.structs.replace(
                given if given.id > ours.id else ours,
                successes=max(given.successes, ours.successes),
                failures=max(given.failures, ours.failures),
            )
            if given != ours:
                self.tx.execute("delete from procedures where id = ?", (ours.id,))
                self.tx.announce("procedures", [ours.id])
        if given != ours:
            self._add_alone(records.PROCEDURES, given, "procedure", {})
        else:
            self.report.count("procedures", new=False)

    # Conversations: each comes before its parts, and is taken in for as long as both go the same way

    def _take_session(self, given: records.Session) -> None:
        ours = self._here(records.SESSIONS, {"name": given.name})
        ours = ours or self._here(records.SESSIONS, {"id": given.id})
        self._sessions[given.name] = given
        if ours is not None and (ours.id, ours.name) != (given.id, given.name):
            self._part(given.name, "is another one here")
            return
        if ours is None:
            self._insert(records.SESSIONS, given, {})
        self.report.count("sessions", new=ours is None)

    def _take_part(self, record: records.Part) -> None:
        name = record.session
        if name not in self._sessions:
            raise InvalidInputError(f"A part of conversation {name!r} comes before that conversation itself.")
        if name in self._parted:
            self._parted[name] += 1
            return
        place = {"session_id": self._sessions[name].id}
        try:
            match record:
                case records.Turn():
                    kind, new = "turns", self._add_turn(record, place)
                case records.Epoch():
                    kind = "epochs"
                    if new := self._add(records.EPOCHS, record, "began anew in another way", place):
                        note_newer(self.tx, place["session_id"], record.id)
                case records.Output():
                    kind, new = "outputs", self._add_output(record, place)
                case records.State(owner=owner):
                    self._take_newest(records.STATES_OF, record, "state", {**place, "owner": owner}, place)
                    return
                case records.Summary(owner=owner):
                    self._take_newest(records.SUMMARIES, record, "summary", {**place, "owner": owner}, place)
                    return
                case records.Dropped(turn=turn, message=message, dropped=dropped):
                    kind, new = "messages", self._add_message(message, place, turn, dropped)
        except _PartedError as parted_error:
            self._part(name, str(parted_error))
            return
        self.report.count(kind, new=new)
        if new and kind != "outputs":
            self._grown.add(name)

    def _part(self, name: str, reason: str) -> None:
        self._parted[name] = 0
        self._refuse(f"The conversation {name!r} {reason}; what is here stays.")

    def _add_turn(self, given: records.Turn, place: dict[str, int]) -> bool:
        ours = self._here(records.TURNS, {**place, "n": given.n}, session=given.session)
        gone: list[int] = []
        if ours is not None:
            bound = (ours.first, ours.last, place["session_id"], ours.n)
            messages = tuple(map(records.MESSAGES.of, self.tx.execute(records.MESSAGES_OF_TURN, bound)))
            ours = msgspec.structs.replace(ours, messages=messages)
            if ours == given:
                return False
            if ours.first != given.first:
                raise _PartedError(f"goes on in another way from turn {given.n}")
            stage, known = (_STAGES[given.state], given.last), (_STAGES[ours.state], ours.last)
            if stage < known:
                return False
            if stage == known:
                raise _PartedError(f"differs in turn {given.n}")
            gone = [message.id for message in messages]
        with self.tx.atomic():
            self.tx.executemany("delete from messages where id = ?", [(number,) for number in gone])
            self.tx.announce("messages", gone)
            for message in given.messages:
                if not self._add_message(message, place, given.n, None):
                    raise _PartedError(f"was rewritten since, at turn {given.n}")
            self._insert(records.TURNS, given, place, "insert or replace")
        return True

    def _add_message(
        self, given: records.Message, place: dict[str, int], turn: int, dropped: int | None
    ) -> bool:
        parted = f"was rewritten since, at turn {turn}"
        return self._add(records.MESSAGES, given, parted, {**place, "turn": turn, "dropped": dropped})

    def _add_output(self, given: records.Output, place: dict[str, int]) -> bool:
        """Take in what a tool answered; the bound on all of them is kept when the next one is."""
        keys = {**place, "turn": given.turn, "pointer": given.pointer}
        if not self.tx.execute("select 1 from turns where session_id = :session_id and n = :turn", keys):
            raise InvalidInputError(
                f"What a tool answered in turn {given.turn} of {given.session!r} comes without it."
            )
        ours = self._here(records.OUTPUTS, keys, session=given.session)
        if ours is None:
            self._insert(records.OUTPUTS, given, {**place, "bytes": len(given.content.encode())})
        elif ours != given:
            self._refuse(f"What {given.pointer!r} names is another text here, which stays.")
        return ours is None


def _take_file(bank: MemoryBank, given: records.File, report: ImportReport) -> None:
    """Write a file of the bank where there is none; one that the bank does not take is refused."""
    try:
        place = bank.at(given.bank, given.topic)
        here = place.read(given.path)
        if here is None:
            place.write(given.path, given.content, at=given.modified)
        elif here != given.content:
            report.refused.append(
                f"The file {given.path!r} of the bank holds another text here, which stays."
            )
            return
        report.count("files", new=here is None)
    except InvalidInputError as error:
        report.refused.append(str(error))


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
