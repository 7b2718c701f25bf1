"""Taking over what EdgeVox remembers: the same values, at the same times, as history.

All files are merged by time in a scratch truth, whose clock shows when EdgeVox wrote, and come from there into the
memory as an export does: in one transaction, and a second time without effect. EdgeVox has one time only, which
becomes both: when something was true, and when it was learnt.

Its faults are mended on the way, and told: where several values of a fact were active at once, the one written last
holds; where the clock had been set back, what was written later still replaces what was written before.

What EdgeVox wrote: its JSON and SQLite files and its notes, read as far as they can be read, never changed.

Layouts of EdgeVox 1.3: a memory is `{"facts": […], "preferences": […], "episodes": […]}` or a database with these
tables; a conversation is `<id>.json` with `{"messages": […], "state": {…}}` or a row of the table `sessions`; notes
are Markdown. Of JSON that was cut short, the whole records before the cut are read.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.clock import Clock
from edgemem.errors import EdgememError, InvalidInputError
from edgemem.fence import storable
from edgemem.records import Heard, Session
from edgemem.store import facts, messages, preferences
from edgemem.store.db.connection import read_foreign
from edgemem.store.db.database import Database
from edgemem.store.db.transaction import Transaction
from edgemem.store.episodes import append_episode
from edgemem.store.sessions import SQLiteSessionStore
from edgemem.store.transfer.export import export_lines
from edgemem.store.transfer.merge import LEAP_US, ImportReport, import_lines, take_notes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from edgemem.store.notes import NotesFile


class EdgevoxReport(msgspec.Struct):
    """What was found, what came of it, and what was skipped or mended."""

    files: dict[str, dict[str, int]]
    """What each file holds."""
    added: dict[str, int]
    known: dict[str, int]
    refused: list[str]
    """What excludes what is here, which stays."""
    remarks: list[str] = msgspec.field(name="told")  # its name in JSON
    """What was skipped or mended, and why."""


class _Event(NamedTuple):
    """A fact was given a value, or None, at a moment."""

    at: float
    order: int
    fact: OldFact
    value: str | None
    valid_from: float


class _ThenClock(Clock):
    """Shows when EdgeVox wrote what is being taken over; ticks still never repeat.

    Args:
        latest: microseconds; what claims to be later has no time at all.
    """

    def __init__(self, latest: int) -> None:
        super().__init__()
        self._latest = latest
        self._shown = self._last = 0

    def show(self, at: float) -> None:
        """Set it to a moment."""
        self._shown = int(at * 1e6) if 0 < at * 1e6 <= self._latest else 0

    def rewind(self) -> None:
        """Begin again, for rows of another table."""
        self._shown = self._last = 0

    def now(self) -> float:
        """Return the moment that it shows."""
        return max(self._shown, self._last) / 1e6

    def tick(self, *, after: int = 0) -> int:
        """Return a tick of the moment that it shows, or the next one behind the last."""
        self._last = max(self._last + 1, after + 1, self._shown)
        return self._last

    def witness(self, tick: int) -> None:
        """Take no note: what it shows is the past."""


def import_edgevox(db: Database, sessions: SQLiteSessionStore, notes: NotesFile, path: Path) -> EdgevoxReport:
    """Take over a file of EdgeVox's, or the folder of its memory, which is only read."""
    old = read_edgevox(path.expanduser())
    known = ImportReport()
    fresh = [session for session in old.sessions if _is_new(session, sessions, known, old.remarks)]
    with tempfile.TemporaryDirectory(prefix=".edgevox-", dir=db.path.parent) as folder:
        then = _ThenClock(int(db.clock.now() * 1e6) + LEAP_US)
        with Database(Path(folder) / "scratch.db", clock=then, durable=False) as scratch:
            _write_facts(scratch, then, old)
            _write_life(scratch, then, old)
            _write_sessions(scratch, then, fresh, old.remarks)
            report = import_lines(db, (f"{line}\n".encode() for line in export_lines(scratch)))
    for text in old.notes:
        if text.strip():
            take_notes(notes, storable(text), report)
    for kind, count in known.known.items():
        report.count(kind, new=False, number=count)
    for kind, count in known.added.items():
        report.count(kind, new=True, number=count)
    return EdgevoxReport(old.files, report.added, report.known, known.refused + report.refused, old.remarks)


# Facts, preferences, episodes


def _write_facts(scratch: Database, then: _ThenClock, old: OldMemory) -> None:
    then.rewind()
    for event in sorted(_events(old), key=lambda event: event[:2]):
        fact = event.fact
        then.show(event.at)
        try:
            scratch.write(
                lambda tx, event=event, fact=fact: facts.assert_fact(  # type: ignore[misc]
                    tx,
                    fact.key,
                    event.value,
                    scope=fact.scope,
                    source=fact.source if event.value is not None else "",
                    valid_from=event.valid_from,
                )
            )
        except InvalidInputError as error:
            if event.value is not None:  # the end of a value that was skipped is no entry of its own
                old.skip(f"The fact {fact.key!r:.80} ({fact.scope!r:.80})", error)


def _events(old: OldMemory) -> Iterator[_Event]:
    """Yield what happened to facts: rows of one key in the order in which they were written, whatever the clock said."""
    by_key: dict[tuple[int, str, str], list[OldFact]] = defaultdict(list)
    for row in old.facts:
        by_key[row.file, row.scope, row.key].append(row)
    order = 0
    for (_, scope, key), versions in by_key.items():
        newest = 0.0
        active = sum(row.valid_to is None for row in versions)
        if active > 1:
            old.remarks.append(f"The fact {key!r} ({scope}) had {active} values at once; the last one holds.")
        if any(row.valid_to is not None and row.valid_to < row.valid_from for row in versions):
            old.remarks.append(
                f"A value of {key!r} ({scope}) ended before it began (the clock had been set back); it is history."
            )
        for row, following in zip(versions, [*versions[1:], None], strict=True):
            newest, order = max(newest, row.valid_from), order + 1
            yield _Event(newest, order, row, row.value, row.valid_from)
            if row.valid_to is not None and (following is None or following.valid_from > row.valid_to):
                # Nothing followed at once: it was forgotten, which for EdgeVox is an end, not an erasure.
                newest, order = max(newest, row.valid_to), order + 1
                yield _Event(newest, order, row, None, row.valid_to)


def _write_life(scratch: Database, then: _ThenClock, old: OldMemory) -> None:
    then.rewind()
    for key, (value, at) in sorted(old.preferences.items(), key=lambda item: (item[1][1], item[0])):
        then.show(at)
        try:
            scratch.write(lambda tx, key=key, value=value: preferences.put_preference(tx, key, value))  # type: ignore[misc]
        except InvalidInputError as error:
            old.skip(f"The preference {key!r:.80}", error)
    then.rewind()  # before the transaction takes its first tick
    scratch.write(lambda tx: _write_episodes(tx, then, old))


def _write_episodes(tx: Transaction, then: _ThenClock, old: OldMemory) -> None:
    for at, kind, payload, outcome, agent in sorted(old.episodes, key=lambda episode: episode[0]):
        then.show(at)
        given: dict[str, Any] = payload if isinstance(payload, dict) else {"value": payload}
        try:
            append_episode(
                tx, kind, given, outcome, agent=agent, heard=Heard(event_time=at), level="household", keep=0
            )
        except InvalidInputError as error:
            old.skip(f"An episode of kind {kind!r:.80}", error)


# Conversations


def _is_new(
    session: OldSession, sessions: SQLiteSessionStore, report: ImportReport, remarks: list[str]
) -> bool:
    """Tell whether a conversation is not here; one that has grown since it was taken over goes on here."""
    try:
        here = sessions.load(session.id)
        given = [messages.row_of(messages.stored_message(message)) for message in session.messages]
    except InvalidInputError as error:
        remarks.append(f"The conversation {session.id!r:.80} was skipped: {error}")
        return False
    if here is None:
        return True
    stored = [messages.row_of(messages.stored_message(message)) for message in here.messages]
    if stored[: len(given)] == given:
        report.count("sessions", new=False)
    elif given[: len(stored)] == stored:
        sessions.save(session.id, Session(session.messages, session.state))
        report.count("sessions", new=True)
    else:
        report.refused.append(f"The conversation {session.id!r} is another one here, which stays.")
    return False


def _write_sessions(scratch: Database, then: _ThenClock, fresh: list[OldSession], remarks: list[str]) -> None:
    then.rewind()
    store = SQLiteSessionStore(scratch)
    for session in sorted(fresh, key=lambda session: (session.updated_at, session.id)):
        then.show(session.updated_at)
        try:
            store.save(session.id, Session(session.messages, session.state))
        except InvalidInputError as error:
            remarks.append(f"The conversation {session.id!r:.80} was skipped: {error}")


MAX_BYTES = 256 * 1024 * 1024

_SQLITE = b"SQLite format 3\x00"
_MEMORY = ("facts", "preferences", "episodes")
_BESIDE = ("-wal", "-shm", "-journal", ".lock")
"""Ends of names of files that belong to the one beside them."""


class OldFact(msgspec.Struct):
    """One row of EdgeVox's facts, in the order in which it was written."""

    key: str
    value: str
    scope: str
    source: str
    valid_from: float
    valid_to: float | None
    file: int
    """Which file it stands in."""


class OldSession(msgspec.Struct):
    """One conversation."""

    id: str
    messages: list[Any]
    state: dict[str, Any]
    updated_at: float


class OldMemory(msgspec.Struct):
    """Everything that was read, and what was not."""

    facts: list[OldFact] = []
    preferences: dict[str, tuple[str, float]] = {}
    episodes: list[tuple[float, str, Any, str, str]] = []
    """Time, kind, payload, outcome, agent."""
    sessions: list[OldSession] = []
    notes: list[str] = []
    files: dict[str, dict[str, int]] = {}
    """What each file holds."""
    remarks: list[str] = []
    """What was skipped or mended, and why: one sentence each."""

    def skip(self, what: str, why: object) -> None:
        """Tell what was left behind."""
        self.remarks.append(f"{what} was skipped: {why}")

    def take_session(self, id_: str, messages: list[Any], state: Any, updated_at: float) -> None:
        """Keep a conversation; a state that is none is left behind."""
        if not isinstance(state, dict):
            self.skip(f"The state of the conversation {id_!r:.80}", "it is no object.")
        self.sessions.append(OldSession(id_, messages, state if isinstance(state, dict) else {}, updated_at))


def read_edgevox(path: Path) -> OldMemory:
    """Read a file, or every file in a folder of EdgeVox's memory.

    Raises:
        InvalidInputError: there is nothing, or the one file holds nothing of EdgeVox's; in a folder such files are skipped.
    """
    if not path.exists():
        raise InvalidInputError(f"There is nothing at {path}; EdgeVox keeps its memory in ~/.edgevox/memory.")
    old = OldMemory()
    if not path.is_dir():
        try:
            _read_file(old, path, path.name)
        except (EdgememError, OSError) as error:
            raise InvalidInputError(f"{path} was not taken in: {error}") from error
        return old
    for file in sorted(path.rglob("*")):
        if file.is_dir() or file.name.endswith(_BESIDE):
            continue
        try:
            _read_file(old, file, str(file.relative_to(path)))
        except (EdgememError, OSError) as error:
            old.skip(f"{file}", error)
    return old


def _read_file(old: OldMemory, file: Path, name: str) -> None:
    with file.open("rb") as opened:
        head = opened.read(len(_SQLITE))
    if head == _SQLITE:
        _read_database(old, file, name)
        return
    if file.stat().st_size > MAX_BYTES:
        raise InvalidInputError(f"it has more than {MAX_BYTES:,} bytes.")
    if file.suffix.lower() == ".tmp":
        raise InvalidInputError("EdgeVox had not finished writing it.")
    text = file.read_bytes().decode("utf-8-sig", "replace")
    if file.suffix.lower() in (".md", ".txt"):
        old.notes.append(text)
        old.files[name] = {"notes": 1}
    elif text.lstrip()[:1] == "{":
        _read_json(old, file, name, text)
    else:
        raise InvalidInputError("it is no memory, conversation or notes of EdgeVox.")


# JSON


def _read_json(old: OldMemory, file: Path, name: str, text: str) -> None:
    if _is_export(text):
        raise InvalidInputError(f"it is an export of edgemem, which is taken in with: edgemem import {file}")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = _whole_records(text)
        count = sum(map(len, data.values()))
        old.remarks.append(f"{name} is damaged; of its records, those before the damage were read: {count}.")
    if isinstance(data.get("messages"), list):
        # EdgeVox writes no time into it.
        old.take_session(file.stem, data["messages"], data.get("state", {}), file.stat().st_mtime)
        old.files[name] = {"sessions": 1}
    elif any(isinstance(data.get(part), list) for part in _MEMORY):
        _read_memory(old, name, {part: _rows(old, name, part, data.get(part, [])) for part in _MEMORY})
    else:
        raise InvalidInputError("it holds neither a memory nor a conversation.")


def _is_export(text: str) -> bool:
    try:
        first = json.loads(text.lstrip().partition("\n")[0])
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and first.get("record") == "edgemem"


def _rows(old: OldMemory, name: str, part: str, listed: Any) -> list[dict[str, Any]]:
    """Return the entries of a list that are objects, and tell of the others."""
    if not isinstance(listed, list):
        old.remarks.append(f"The {part} of {name} were skipped: they are no list.")
        return []
    for n, entry in enumerate(listed, 1):
        if not isinstance(entry, dict):
            old.skip(f"Entry {n} of the {part} of {name}", "it is no object.")
    return [entry for entry in listed if isinstance(entry, dict)]


def _whole_records(text: str) -> dict[str, list[Any]]:
    """Return the lists of records of JSON that cannot be read to its end."""
    decode = json.JSONDecoder().raw_decode
    records: dict[str, list[Any]] = {}
    at = 0
    for part in ("messages", *_MEMORY):
        begin = re.compile(rf'(?<!\\)"{part}"\s*:\s*\[').search(text, at)
        if begin is None:
            continue
        at = begin.end()
        records[part] = []
        while match := re.compile(r"[\s,]*(?=\{)").match(text, at):
            try:
                record, at = decode(text, match.end())
            except (ValueError, RecursionError):
                break
            records[part].append(record)
    return records


# SQLite


def _read_database(old: OldMemory, file: Path, name: str) -> None:
    with read_foreign(file) as select:
        tables = {row["name"] for row in select("select name from sqlite_master where type = 'table'")}
        if "migrations" in tables:
            raise InvalidInputError("edgemem wrote it; open its home instead.")
        if not tables & {"facts", "sessions"}:
            raise InvalidInputError("it is no database of EdgeVox.")
        if "facts" in tables:
            rows = {
                part: select(f"select * from {part} order by rowid")  # noqa: S608 - our own constants
                for part in _MEMORY
                if part in tables
            }
            _read_memory(old, name, rows)
        if "sessions" in tables:
            _read_sessions(old, name, select)


def _read_sessions(old: OldMemory, name: str, select: Callable[[str], list[dict[str, Any]]]) -> None:
    count = 0
    for row in select("select * from sessions order by updated_at, rowid"):
        try:
            messages, state = json.loads(row["messages"]), json.loads(row["state"])
        except (ValueError, TypeError, RecursionError):
            old.skip(f"The conversation {row['session_id']!r} of {name}", "it is damaged.")
            continue
        if not isinstance(messages, list):
            old.skip(f"The conversation {row['session_id']!r} of {name}", "it is no list of messages.")
            continue
        count += 1
        old.take_session(str(row["session_id"]), messages, state, _time(row.get("updated_at")) or 0.0)
    old.files.setdefault(name, {})["sessions"] = count


# Rows of both


def _read_memory(old: OldMemory, name: str, rows: dict[str, list[dict[str, Any]]]) -> None:
    before = len(old.facts), len(old.episodes)
    for row in rows.get("facts", ()):
        if row.get("key") is None or row.get("value") is None:
            old.skip(f"A fact of {name}", "it has no key or no value.")
            continue
        # A fact that was invalidated is over, also where an older EdgeVox kept no end.
        both = map(_time, (row.get("valid_to"), row.get("invalidated_at")))
        ends = [end for end in both if end is not None]
        old.facts.append(
            OldFact(
                key=_text(row["key"]),
                value=_text(row["value"]),
                scope=_text(row.get("scope") or "global"),
                source=_text(row.get("source") or ""),
                valid_from=_time(row.get("valid_from")) or _time(row.get("updated_at")) or 0.0,
                valid_to=ends[0] if ends else None,
                file=len(old.files),
            )
        )
    preferences = rows.get("preferences", ())
    for row in preferences:
        if row.get("key") is None or row.get("value") is None:
            old.skip(f"A preference of {name}", "it has no key or no value.")
            continue
        key, value, at = _text(row["key"]), _text(row["value"]), _time(row.get("updated_at")) or 0.0
        earlier, earlier_at = old.preferences.get(key, (value, at))
        if earlier != value:
            old.remarks.append(f"The preference {key!r:.80} stands there twice; the newer value was taken.")
        if earlier_at <= at:
            old.preferences[key] = (value, at)
    for row in rows.get("episodes", ()):
        if row.get("kind") is None:
            old.skip(f"An episode of {name}", "it has no kind.")
            continue
        payload = row.get("payload")
        if "payload_json" in row:
            try:
                payload = json.loads(row["payload_json"])
            except (ValueError, TypeError, RecursionError):
                old.remarks.append(f"The payload of an episode of {name} is damaged; it is kept as text.")
                payload = {"text": _text(row["payload_json"])}
        old.episodes.append(
            (
                _time(row.get("timestamp")) or 0.0,
                _text(row.get("kind")),
                payload,
                _text(row.get("outcome") or ""),
                _text(row.get("agent") or ""),
            )
        )
    facts, episodes = len(old.facts) - before[0], len(old.episodes) - before[1]
    old.files[name] = {"facts": facts, "preferences": len(preferences), "episodes": episodes}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _time(value: Any) -> float | None:
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) else None
