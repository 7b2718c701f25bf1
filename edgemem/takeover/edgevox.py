"""Taking over what EdgeVox 1.3 remembers, at its own times, as history; the files are never changed.

Records come by way of a scratch truth; `store.json.records` mends EdgeVox's faults on the way. A memory is `{"facts": […],
"preferences": […], "episodes": […]}` or a database with these tables; a conversation is `<id>.json` with `{"messages": […],
"state": {…}}` or a row of the table `sessions`; notes are Markdown.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.errors import InvalidInputError
from edgemem.fence import storable
from edgemem.records import Session
from edgemem.store import messages
from edgemem.store.db.connection import read_foreign
from edgemem.store.json.records import MemoryFile, fill, from_edgevox, time_of
from edgemem.store.sessions import SQLiteSessionStore
from edgemem.store.transfer.merge import ImportReport, take_notes
from edgemem.takeover.scratch import TakeoverReport, json_of, read_files, scratch_truth, take_in

if TYPE_CHECKING:
    from edgemem.store.db.database import Database
    from edgemem.store.notes import NotesFile

_MEMORY = {"facts": ("key", "value"), "preferences": ("key", "value"), "episodes": ("kind",)}
"""The lists of a memory, and the keys that no entry lacks."""


def import_edgevox(
    db: Database, sessions: SQLiteSessionStore, notes: NotesFile, old: EdgevoxMemory
) -> TakeoverReport:
    """Take over a memory of EdgeVox."""
    known = ImportReport()
    fresh = [session for session in old.sessions if _is_new(session, sessions, known, old)]
    with scratch_truth(db) as (scratch, then):
        facts = [entry for rows in old.facts for entry in from_edgevox(rows, then, old.remarks)]
        file = MemoryFile(facts=facts, preferences=old.preferences, episodes=old.episodes)
        old.remarks += scratch.write(lambda tx: fill(tx, file, then, doubtful_below=0.0))
        then.last = 0
        store = SQLiteSessionStore(scratch)
        for session in sorted(fresh, key=lambda session: (session.updated_at, session.id)):
            then.shown = then.tick_of(session.updated_at)
            try:
                store.save(session.id, Session(session.messages, session.state))
            except InvalidInputError as error:
                old.skip(f"The conversation {session.id!r:.80}", error)
        report = take_in(db, scratch)
    for text in old.notes:
        if text.strip():
            take_notes(notes, storable(text), report)
    for new, counts in ((False, known.known), (True, known.added)):
        for kind, count in counts.items():
            report.count(kind, new=new, number=count)
    return TakeoverReport(old.files, report.added, report.known, known.refused + report.refused, old.remarks)


def _is_new(
    session: _Session, sessions: SQLiteSessionStore, report: ImportReport, old: EdgevoxMemory
) -> bool:
    """Tell whether a conversation is new; one that has grown since it was taken over goes on here."""
    try:
        here = sessions.load(session.id)
        given, stored = (
            [messages.row_of(messages.stored_message(message)) for message in several]
            for several in (session.messages, here.messages if here is not None else [])
        )
    except InvalidInputError as error:
        old.skip(f"The conversation {session.id!r:.80}", error)
        return False
    if here is None:
        return True
    if stored[: len(given)] == given:
        report.count("sessions", new=False)
    elif given[: len(stored)] == stored:
        sessions.save(session.id, Session(session.messages, session.state))
        report.count("sessions", new=True)
    else:
        report.refused.append(f"The conversation {session.id!r} is another one here, which stays.")
    return False


class _Session(NamedTuple):
    id: str
    messages: list[Any]
    state: dict[str, Any]
    updated_at: float


class EdgevoxMemory:
    """All of EdgeVox's memory in a file, or each in a folder, as it was written; raise InvalidInputError if there is nothing."""

    def __init__(self, path: Path) -> None:
        self.facts: list[list[dict[str, Any]]] = []
        self.preferences: list[dict[str, Any]] = []
        self.episodes: list[dict[str, Any]] = []
        self.sessions: list[_Session] = []
        self.notes: list[str] = []
        self.files: dict[str, dict[str, int]] = {}
        self.remarks: list[str] = []
        """Skipped and repaired records, with the reason: a sentence each."""
        hint = "EdgeVox keeps its memory in ~/.edgevox/memory."
        read_files(path, self._read_file, self.remarks, hint=hint)

    def skip(self, what: str, why: object) -> None:
        """Note a record that is left behind."""
        self.remarks.append(f"{what} was skipped: {why}")

    def _read_file(self, file: Path, name: str, data: bytes | None) -> None:
        if data is None:
            self._read_database(file, name)
            return
        if file.suffix.lower() == ".tmp":
            raise InvalidInputError("EdgeVox had not finished writing it.")
        text = data.decode("utf-8-sig", "replace")
        if file.suffix.lower() in (".md", ".txt"):
            self.notes.append(text)
            self.files[name] = {"notes": 1}
        elif text.lstrip()[:1] == "{":
            self._read_json(file, name, text)
        else:
            raise InvalidInputError("it is no memory, conversation or notes of EdgeVox.")

    def _read_json(self, file: Path, name: str, text: str) -> None:
        first = json_of(text.lstrip().partition("\n")[0])
        if isinstance(first, dict) and first.get("record") == "edgemem":
            raise InvalidInputError(f"it is an export of edgemem; take it in with: edgemem import {file}")
        data = json_of(text)
        if data is None:
            raise InvalidInputError("it is damaged; mend it, and import it again.")
        if isinstance(data.get("messages"), list):
            # EdgeVox writes no time into it.
            self._take_session(file.stem, data["messages"], data.get("state", {}), file.stat().st_mtime)
            self.files[name] = {"sessions": 1}
        elif any(isinstance(data.get(part), list) for part in _MEMORY):
            for part in _MEMORY:
                if not isinstance(data.setdefault(part, []), list):
                    self.remarks.append(f"The {part} of {name} were skipped: they are no list.")
                    data[part] = []
            self._take_memory(name, data)
        else:
            raise InvalidInputError("it holds neither a memory nor a conversation.")

    def _read_database(self, file: Path, name: str) -> None:
        with read_foreign(file) as (tables, rows_of, _):
            if "migrations" in tables:
                raise InvalidInputError("edgemem wrote it; open its home instead.")
            if not tables.keys() & {"facts", "sessions"}:
                raise InvalidInputError("it is no database of EdgeVox.")
            if "facts" in tables:
                parts = {part: rows_of(part) for part in _MEMORY if part in tables}
                for row in parts.get("episodes", ()):
                    text = row.pop("payload_json", None)
                    payload = json_of(text)
                    row["payload"] = text if payload is None else payload
                    row.pop("id", None)
                self._take_memory(name, parts)
            if "sessions" not in tables:
                return
            before = len(self.sessions)
            for row in rows_of("sessions"):
                messages, state = (json_of(row.get(part)) for part in ("messages", "state"))
                title = row.get("session_id")
                if isinstance(messages, list) and state is not None:
                    self._take_session(str(title), messages, state, time_of(row.get("updated_at")) or 0.0)
                else:
                    self.skip(f"The conversation {title!r} of {name}", "it is damaged.")
            self.files.setdefault(name, {})["sessions"] = len(self.sessions) - before

    def _take_session(self, id_: str, messages: list[Any], state: Any, updated_at: float) -> None:
        if not isinstance(state, dict):
            self.skip(f"The state of the conversation {id_!r:.80}", "it is no object.")
        self.sessions.append(_Session(id_, messages, state if isinstance(state, dict) else {}, updated_at))

    def _take_memory(self, name: str, rows: dict[str, list[Any]]) -> None:
        kept: dict[str, list[dict[str, Any]]] = {part: [] for part in _MEMORY}
        for part, fields in _MEMORY.items():
            for n, row in enumerate(rows.get(part, ()), 1):
                if not isinstance(row, dict):
                    self.skip(f"Entry {n} of the {part} of {name}", "it is no object.")
                elif any(row.get(field) is None for field in fields):
                    self.skip(f"Entry {n} of the {part} of {name}", f"it has no {' or no '.join(fields)}.")
                else:
                    kept[part].append(row)
        self.facts.append(kept["facts"])
        self.preferences += kept["preferences"]
        for row in kept["episodes"]:
            self.episodes.append({**row, "heard": {"event_time": time_of(row.get("timestamp"))}})
        self.files[name] = {part: len(entries) for part, entries in kept.items()}


def default_memory_dir() -> Path:
    """Return where EdgeVox keeps memories: `$EDGEVOX_MEMORY_DIR` or `~/.edgevox/memory`."""
    return Path(os.environ.get("EDGEVOX_MEMORY_DIR") or "~/.edgevox/memory").expanduser()


def new_session_id() -> str:
    """Return an id for a new conversation: twelve random hexadecimal digits."""
    return secrets.token_hex(6)
