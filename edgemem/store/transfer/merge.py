"""Merge: the lines of an export into a memory, which may hold other things, without breaking what holds there.

One transaction takes in a whole file: one that is damaged, or cut short, leaves nothing behind. Rows that are here stay, so a
second time adds nothing; a later row replaces an earlier one. Ids are kept, and the clock takes note of them. Where two memories
part ways (two values for one fact at the same moment, two conversations of one name), the one that is here stays, and the report
names the rest: whole facts, and whole ends of conversations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import EdgememError, InvalidInputError, count
from edgemem.scopes import is_known_form, name_key, without_spaces
from edgemem.store.db.connection import note_tick
from edgemem.store.db.files import create_private, write_private
from edgemem.store.declaration import Kind
from edgemem.store.episodes import keep_tags
from edgemem.store.facts import ROWS_OF_KEY, ensure_key
from edgemem.store.graph import MARKS
from edgemem.store.kinds import (
    DOUBTS,
    EPISODES,
    EPOCHS,
    FACTS,
    KINDS,
    MESSAGES,
    SESSIONS,
    TOOL_OUTPUTS,
    TURNS,
)
from edgemem.store.rights import spell, spell_heard, spell_scope, spellings
from edgemem.store.thoughts import announce_mark
from edgemem.store.transfer.export import (
    CODECS,
    MESSAGE,
    MESSAGES_OF_TURN,
    TURN,
    Codec,
    File,
    Notes,
    Reading,
    codec_of,
)
from edgemem.store.turns import lift_cycle, note_newer
from edgemem.store.validation import as_text

if TYPE_CHECKING:
    from edgemem.store.bank.bank import MemoryBank, ScopedBank
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction
    from edgemem.store.notes import NotesFile

LEAP_US = int(10 * 365.25 * 86400 * 1e6)
"""What claims to be later than this from now would push the clock out of all reason."""

_FOLLOWED = [kind.table for kind in KINDS if kind.doc]  # tables that the index follows

_HIGHEST_CYCLE = """
  select max(ifnull((select max(cycle) from turns), 0), ifnull((select max(updated_cycle) from stored_thoughts), 0),
    ifnull((select max(created_cycle) from stored_edges), 0))
"""

# A turn is ended after it was accepted, and amended when its speech was cut off: a later stage replaces an earlier one.
_STAGES = {"open": 0, "unfinished": 1, "complete": 2, "interrupted": 3}


class ImportReport(msgspec.Struct):
    """What an import did, by table: those of `store.kinds`, with `notes` and `files`."""

    added: dict[str, int] = {}  # new rows, and rows that were brought up to date
    known: dict[str, int] = {}  # rows that were here already
    refused: list[str] = []  # refused lines and the reason: one sentence each

    def count(self, kind: str, *, new: bool, number: int = 1) -> None:
        """Count rows that were taken in, or known."""
        counts = self.added if new else self.known
        counts[kind] = counts.get(kind, 0) + number


def import_lines(
    db: Database,
    lines: Iterable[bytes | str],
    *,
    notes: NotesFile | None = None,
    bank: MemoryBank | None = None,
) -> ImportReport:
    """Take in an export; raise InvalidInputError, with nothing imported, where a line is damaged or the last one is missing."""
    reading = Reading(lines, int(db.clock.now() * 1e6) + LEAP_US)

    def work(tx: Transaction) -> _Merge:
        merge = _Merge(tx)
        try:
            # The lines about a fact come one behind the other.
            fact = CODECS[FACTS.table].record
            keys = groupby(reading, lambda line: (line.scope, line.key) if isinstance(line, fact) else None)
            for key, group in keys:
                spelled = (_spelled(tx, record) for record in group)
                if key is not None:
                    merge.take_fact(spelled)
                else:
                    for record in spelled:
                        merge.take_line(record)
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
            find = partial(bank.for_scope, file.bank, file.topic)
            take_file(find, file.path, file.content, merge.report, file.modified)
    return merge.report


def _spelled(tx: Transaction, line: Any) -> Any:
    """Return a line with the names of people as they are written here, and closed if its scope has no known form."""
    codec = codec_of(line)
    if codec is None:
        return line
    fields = msgspec.structs.asdict(line)
    people = fields.keys() & codec.kind.columns_of("person")
    changed: dict[str, Any] = {name: spell(tx, fields[name]) for name in people if fields[name] is not None}
    if "scope" in fields:
        changed["scope"] = scope = spell_scope(tx, without_spaces(line.scope))
        if line.level == "household" and not is_known_form(scope):
            changed |= {"level": "private", "owner": None}
    if "heard" in fields:
        changed["heard"] = spell_heard(tx, line.heard)
    return msgspec.structs.replace(line, **changed)


class _PartedError(Exception):
    """Two rows exclude each other; the text says how."""


class _Merge:
    """Takes records into one transaction, with the ids that they have."""

    def __init__(self, tx: Transaction) -> None:
        self.tx = tx
        self.report = ImportReport()
        self.notes = ""  # the text of NOTES.md, which is no row
        self.files: list[File] = []  # of the bank, wherever they are kept here
        self._highest = {
            table: tx.execute(f"select coalesce(max(id), 0) from {table}")[0][0]  # noqa: S608 - our own constants
            for table in _FOLLOWED
        }
        self._parted_facts: set[tuple[str, str]] = set()
        self._sessions: dict[str, Any] = {}  # the conversations that came
        self._grown: set[str] = set()
        self._parted: dict[str, int] = {}
        """How much of each conversation was left out after it had parted."""

    def take_line(self, line: Any) -> None:
        codec = codec_of(line)
        if isinstance(line, File):
            self.files.append(line)
        elif isinstance(line, Notes):
            self.notes = line.text
        elif codec is None:
            return
        elif codec.kind is SESSIONS:
            self._take_session(line)
        elif codec.kind.goes == "person":
            self._take_name(line)
        elif codec.kind is DOUBTS:
            # Of one that has parted, the sentence about the fact's history says enough.
            if (line.scope, line.key) not in self._parted_facts:
                self._add_alone(codec, line, {"key_id": ensure_key(self.tx, line.scope, line.key)})
        elif codec.kind.parent is not None:
            self._take_part(codec, line)
        else:
            self._take_newest(codec, line, {})

    def finish(self, newest: int) -> None:
        """Bring states of conversations and the clock, by the highest tick taken in, up to date, and report omissions."""
        for name in self._grown - self._parted.keys():
            if (state := self._sessions[name].state) is not None:
                self.tx.execute("update sessions set state = ? where name = ?", (as_text(state), name))
        for name, more in self._parted.items():
            if more:
                self._refuse(f"With it, {count(more, 'more record')} of conversation {name!r} were left out.")
        # So shall later cycles, whatever brought the highest one.
        lift_cycle(self.tx, self.tx.execute(_HIGHEST_CYCLE)[0][0])
        # Later ticks shall follow those that came in, even where none of them is an id.
        self.tx.clock.witness(newest)
        note_tick(self.tx, newest)

    def _here(self, codec: Codec, keys: Mapping[str, Any], **more: Any) -> Any:
        """Return the line of the row that has these values in these columns, with further fields; None: there is none."""
        where = " and ".join(f"r.{column} = :{column}" for column in keys)
        sql = f"select {codec.select()} from {codec.kind.table} r{codec.kind.join()} where {where}"  # noqa: S608 - ours
        rows = self.tx.execute(sql, keys)
        return codec.read(rows[0], **more) if rows else None

    def _insert(self, codec: Codec, line: Any, more: Mapping[str, Any], verb: str = "insert") -> None:
        row = {**more, **codec.row(line)}
        marks = ", ".join(f":{name}" for name in row)
        self.tx.execute(f"{verb} into {codec.kind.table} ({', '.join(row)}) values ({marks})", row)

    def _add(
        self, codec: Codec, line: Any, parted: str, more: Mapping[str, Any], *, announce: bool = True
    ) -> bool:
        """Write a row unless its id is here; tell if it is new or updated. `parted` says how it excludes a row that is here."""
        kind, given = codec.kind, {**more, **codec.row(line)}
        rows = self.tx.execute(f"select {', '.join(given)} from {kind.table} where id = ?", (line.id,))  # noqa: S608 - ours
        if rows:
            ours = dict(zip(given, rows[0], strict=True))
            other = [name for name, value in ours.items() if value != given[name]]
            if not set(kind.later).issuperset(other):
                raise _PartedError(parted)
            if not other or ours[kind.later[0]] is not None:
                return False
            sets = ", ".join(f"{name} = :{name}" for name in kind.later)
            self.tx.execute(
                f"update {kind.table} set {sets} where id = :id",  # noqa: S608 - ours
                {name: given[name] for name in ("id", *kind.later)},
            )
        else:
            self._insert(codec, line, more)
        # Behind the highest id that there was, the index looks anyway.
        if announce and line.id <= self._highest.get(kind.table, 0):
            self.tx.announce(kind.table, [line.id])
        return True

    def _add_alone(self, codec: Codec, line: Any, more: Mapping[str, Any]) -> None:
        kind = codec.kind
        try:
            new = self._add(
                codec, line, f"The {kind.label} of tick {line.id} is another one here, which stays.", more
            )
            self.report.count(kind.table, new=new)
        except _PartedError as error:
            self._refuse(str(error))

    def _take_newest(self, codec: Codec, line: Any, more: Mapping[str, Any]) -> None:
        """Add a row of which there is one for some columns: the newer one stays, and the higher one of each count."""
        kind, row = codec.kind, {**more, **codec.row(line)}
        keys = {column: row[column] for column in kind.unique if row[column] is not None}
        ours = self._here(codec, keys) if keys else None
        if ours is None or ours == line:
            self._add_alone(codec, line, more)
        else:
            here, given = msgspec.structs.asdict(ours), msgspec.structs.asdict(line)
            higher = {name: max(here[name], given[name]) for name in kind.columns_of("count")}
            newer = ours if here[kind.newest] >= given[kind.newest] else line
            winner = msgspec.structs.replace(newer, **higher)
            if winner == ours:
                if msgspec.structs.replace(line, **higher) != ours:
                    self._refuse(f"The {kind.label} {_name_of(kind, line)} was stored later here, and stays.")
                else:
                    self.report.count(kind.table, new=False)
                return
            self.tx.execute(f"delete from {kind.table} where id = ?", (ours.id,))  # noqa: S608 - ours
            if kind.doc:
                self.tx.announce(kind.table, [ours.id])
            self._add_alone(codec, winner, more)
        if kind is EPISODES and line.details:
            keep_tags(self.tx, line.id, line.details.get("tags", ()))
        if kind is MARKS:
            announce_mark(self.tx, line.subject)

    def _take_name(self, line: Any) -> None:
        """Make another name of somebody theirs, unless it is somebody else's here; their rows came before."""
        name, here = spell(self.tx, line.name), spellings(self.tx, [line.called])[line.called]
        sql = "insert or ignore into names select :key, :name where :key <> '' and :name <> '' returning 1"
        if self.tx.execute(sql, {"key": name_key(line.called), "name": name}):
            self.report.count("names", new=True)
        elif here != name:
            self._refuse(f"The name {line.called!r:.80} is that of {here!r:.80} here, and stays.")

    def _refuse(self, sentence: str) -> None:
        self.report.refused.append(sentence)

    def take_fact(self, versions: Iterator[Any]) -> None:
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

    def _take_history(self, key_id: int, versions: Iterator[Any]) -> bool:
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
                CODECS[FACTS.table],
                version,
                f"the version of tick {version.id} differs",
                {"key_id": key_id},
                announce=version.value is not None,
            )
        stored = self.tx.execute(
            f"select count(*) from facts where id in ({ROWS_OF_KEY}) and version <= :newest",  # noqa: S608 - ours
            {"key": key_id, "newest": newest},
        )
        if stored[0][0] != count:
            raise _PartedError("it holds what the file does not know")
        return changed

    # Each conversation comes before its parts, and is taken in for as long as both go the same way.

    def _take_session(self, given: Any) -> None:
        codec = CODECS[SESSIONS.table]
        ours = self._here(codec, {"name": given.name}) or self._here(codec, {"id": given.id})
        self._sessions[given.name] = given
        if ours is not None and (ours.id, ours.name) != (given.id, given.name):
            self._part(given.name, "is another one here")
            return
        if ours is None:
            self._insert(codec, msgspec.structs.replace(given, state=given.state or {}), {})
        self.report.count("sessions", new=ours is None)

    def _take_part(self, codec: Codec, line: Any) -> None:
        name, kind = line.session, codec.kind
        if name not in self._sessions:
            raise InvalidInputError(f"A part of conversation {name!r} comes before that conversation itself.")
        if name in self._parted:
            self._parted[name] += 1
            return
        place = {"session_id": self._sessions[name].id}
        if kind.unique:
            self._take_newest(codec, line, place)
            return
        try:
            if kind is TURNS:
                new = self._add_turn(line, place)
            elif kind is TOOL_OUTPUTS:
                new = self._add_output(line, place)
            else:
                parted = "began anew in another way"
                if kind is MESSAGES:
                    parted = f"was rewritten since, at turn {line.turn}"
                new = self._add(codec, line, parted, place)
        except _PartedError as parted_error:
            self._part(name, str(parted_error))
            return
        if new and kind is EPOCHS:
            note_newer(self.tx, place["session_id"], line.id)
        self.report.count(kind.table, new=new)
        if new and kind is not TOOL_OUTPUTS:
            self._grown.add(name)

    def _part(self, name: str, reason: str) -> None:
        self._parted[name] = 0
        self._refuse(f"The conversation {name!r} {reason}; the one here stays.")

    def _add_turn(self, given: Any, place: dict[str, int]) -> bool:
        ours = self._here(TURN, {**place, "n": given.n}, messages=())
        gone: list[int] = []
        if ours is not None:
            bound = (ours.first, ours.last, place["session_id"], ours.n)
            messages = tuple(map(MESSAGE.read, self.tx.execute(MESSAGES_OF_TURN, bound)))
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
                parted = f"was rewritten since, at turn {given.n}"
                if not self._add(MESSAGE, message, parted, {**place, "turn": given.n, "dropped": None}):
                    raise _PartedError(parted)
            self._insert(TURN, given, place, "insert or replace")
        return True

    def _add_output(self, given: Any, place: dict[str, int]) -> bool:
        """Take in a tool's answer; the bound on all of them is kept when the next one is."""
        codec = CODECS[TOOL_OUTPUTS.table]
        keys = {**place, "turn": given.turn, "pointer": given.pointer}
        if not self.tx.execute("select 1 from turns where session_id = :session_id and n = :turn", keys):
            raise InvalidInputError(
                f"What a tool answered in turn {given.turn} of {given.session!r} comes without it."
            )
        ours = self._here(codec, keys)
        if ours is None:
            self._insert(codec, given, {**place, "bytes": len(given.content.encode())})
        elif ours != given:
            self._refuse(f"What {given.pointer!r} names is another text here, which stays.")
        return ours is None


def _name_of(kind: Kind, line: Any) -> str:
    """Return the name of a line, as people tell it from others of its kind."""
    fields = msgspec.structs.asdict(line)
    *place, name = (fields["session" if column == "session_id" else column] for column in kind.unique)
    return f"{name!r} ({', '.join(place)})" if place else repr(name)


def take_file(
    find: Callable[[], ScopedBank], path: str, content: str, report: ImportReport, at: float | None = None
) -> None:
    """Write a file into the bank that `find` returns, where there is none; one that the bank does not take is refused."""
    try:
        place = find()
        here = place.read_file(path)
        if here is None:
            place.write_file(path, content, at=at)
        elif here != content:
            report.refused.append(f"The bank's file {path!r} holds another text here, which stays.")
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
