"""`JSONSessionStore`: every conversation in one JSON file of its own, under a name that a person can read.

A save adds one line to a file beside it (`kitchen.jsonl`); idle time and `close` write the lines into `kitchen.json`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec

from edgemem.clock import Clock
from edgemem.fence import check_session_id
from edgemem.records import Message, Session
from edgemem.store.db.files import Closable, append, sync, translated_errors
from edgemem.store.json.files import JsonFile, copy_aside, erase, locked, look
from edgemem.store.messages import message_of, row_of, stored_message
from edgemem.store.sessions import state_text
from edgemem.store.validation import check_session, checked_path, checked_time

_log = logging.getLogger(__name__)

_LONGEST_NAME = 180
"""Bytes of a file's name without its ending; file systems take 255, and a damaged file has a longer ending."""

_CUT = "%~"
"""Marks a cut name, and no other: a percent sign of an id is written `%25`."""


class _SessionFile(msgspec.Struct):
    """The form of a file; EdgeVox's files have messages and a state, and their name is the id."""

    messages: list[dict[str, Any]]
    state: dict[str, Any] = {}
    id: str | None = None
    updated_at: float | None = None
    """When it was written, seconds since the epoch; the lines beside it say which writing they follow."""


_Stamps = tuple[Any, Any]
"""What tells one state of the file and of the lines from another."""


class _Known(msgspec.Struct):
    """What the files of a conversation held when this process last read or wrote them, as canonical JSON."""

    stamps: _Stamps
    updated_at: float
    messages: list[bytes]
    state: dict[str, bytes]


class JSONSessionStore(Closable):
    """Conversations as files in a folder; a save is on the disk when it returns, and writes only new text.

    Args:
        base: the folder, made by the first save.
        clock: dates the files, so that their order is right although the wall clock was not.
    """

    def __init__(self, base: str | Path, *, clock: Clock | None = None) -> None:
        self.base = checked_path(base, "a folder of sessions")
        self._clock = clock or Clock()
        self._lock = threading.Lock()
        self._warned: set[str] = set()
        self._known: dict[str, _Known] = {}
        """Conversations whose files another line may follow."""
        self._in_lines: set[str] = set()
        """Ids of conversations that have lines of this store."""

    def save(self, id: str, session: Session) -> None:  # noqa: A002 - the seed's name
        """Store a conversation; stored messages are not written again."""
        check_session_id(id)
        check_session(session)
        state = msgspec.json.decode(state_text(session.state, self._warned))
        new = _SessionFile([_as_stored(message) for message in session.messages], state, id)
        with self._lock, locked(self.base / ".lock"):
            known = self._known.get(id)
            if known is None or known.stamps != self._stamps(id):
                self._read(id, JsonFile(self._path(id), _SessionFile))
                known = self._known.get(id)
            if known is None:
                self._write(id, new)
            else:
                new.updated_at = known.updated_at
                line = _line_between(known, new.messages, state)
                if line == _Line(len(known.messages)):
                    return
                # The first line says which writing of the file the others follow.
                head = (
                    msgspec.json.encode(_Head(known.updated_at)) + b"\n" if known.stamps[1] is None else b""
                )
                with translated_errors(self._lines(id)):
                    append(self._lines(id), head + msgspec.json.encode(line) + b"\n")
                self._in_lines.add(id)
            path = self._path(id)
            with translated_errors(path):
                others = (other.stat().st_mtime_ns for other in self.base.glob("*.json") if other != path)
                newest = max(self._clock.tick() * 1000, max(others, default=0) + 1000)
                os.utime(path, ns=(newest, newest))
            self._remember(id, self._stamps(id), new)

    def load(self, id: str) -> Session | None:  # noqa: A002
        """Return a conversation as it was said, or None if there is none; a damaged file is set aside, with a warning."""
        check_session_id(id)
        file = JsonFile(self._path(id), _SessionFile)
        with self._lock:
            stored, fault = self._read(id, file)
            if fault:
                with locked(self.base / ".lock"):
                    self._write(id)
                stored, _ = self._read(id, file)
        return None if stored is None else Session(stored.messages, stored.state)

    def delete(self, id: str) -> bool:  # noqa: A002
        """Erase a conversation, with its copies set aside; return whether there was one."""
        check_session_id(id)
        with self._lock:
            self._known.pop(id, None)
            self._in_lines.discard(id)
            if not self.base.is_dir():
                return False
            with locked(self.base / ".lock"):
                gone = [erase(path) for path in (self._lines(id), self._path(id))]
        return any(gone)

    def list_ids(self, *, since: float | None = None) -> list[str]:
        """Return the ids of conversations, the one that was spoken in last first.

        Args:
            since: only those that were saved then or later, seconds since the epoch.
        """
        oldest = None if since is None else checked_time(since, "since") * 1e9
        with translated_errors(self.base):
            files = [(path.stat().st_mtime_ns, path) for path in self.base.glob("*.json")]
        return [_id_of(path) for at, path in sorted(files, reverse=True) if oldest is None or at >= oldest]

    def flush(self) -> None:
        """Write the lines of this store into the files that they follow; a hook does it in idle time."""
        with self._lock:
            while self._in_lines:
                with locked(self.base / ".lock"):
                    self._write(next(iter(self._in_lines)))

    def close(self) -> None:
        """Write what `flush` does; may be called twice."""
        self.flush()

    def _path(self, session_id: str) -> Path:
        return self.base / f"{_name_of(session_id)}.json"

    def _lines(self, session_id: str) -> Path:
        return self.base / f"{_name_of(session_id)}.jsonl"

    def _stamps(self, session_id: str) -> _Stamps:
        path = self._path(session_id)
        with translated_errors(path):
            return look(path), look(self._lines(session_id))

    def _read(self, session_id: str, file: JsonFile[_SessionFile]) -> tuple[_SessionFile | None, str]:
        """Return the conversation of file and lines, and the fault of the lines; nobody need hold the lock."""
        while True:
            stamps, data = self._stamps(session_id), b""
            stored = file.read()
            with translated_errors(file.path), suppress(FileNotFoundError):
                data = self._lines(session_id).read_bytes()
            # Who writes the file whole removes the lines behind that, so both are of one moment if it is the same still.
            if self._stamps(session_id) == stamps:
                break
        whole, fault = (True, "") if stamps[1] is None else _apply(data, stored)
        self._known.pop(session_id, None)
        if whole and stored is not None:
            self._remember(session_id, stamps, stored)
        return stored, fault

    def _remember(self, session_id: str, stamps: _Stamps, stored: _SessionFile) -> None:
        if stored.updated_at is not None:  # else another hand wrote it
            messages, state = map(_canonical, stored.messages), stored.state.items()
            parts = {name: _canonical(part) for name, part in state}
            self._known[session_id] = _Known(stamps, stored.updated_at, list(messages), parts)

    def _write(self, session_id: str, new: _SessionFile | None = None) -> None:
        """Write a conversation whole, and remove the lines; the lock is held.

        Args:
            new: the conversation; None: it stays as the files have it.
        """
        file, lines = JsonFile(self._path(session_id), _SessionFile), self._lines(session_id)
        while True:
            stored, fault = self._read(session_id, file)
            at = self._stamps(session_id)[0]
            whole = new or stored
            if whole is None:
                break
            # Later than before, whatever the clock says: if we die now, the lines are known to be in the file.
            before = (stored.updated_at if stored is not None else None) or 0.0
            whole.updated_at = max(self._clock.tick() / 1e6, before + 1e-6)
            if file.write(whole):
                break  # else an editor wrote it just now
        with translated_errors(lines):
            if new is None and at is not None:
                os.utime(file.path, ns=(at[2], at[2]))
            if fault:
                _log.warning(
                    "Not all of %s could be read (%s); a copy was set aside as %s. What stands before that is kept.",
                    lines,
                    fault,
                    copy_aside(lines).name,
                )
            if lines.exists():
                lines.unlink()
                sync(lines.parent)
        self._in_lines.discard(session_id)


class _Head(msgspec.Struct, forbid_unknown_fields=True):
    """The first line: which writing of the file the others follow."""

    follows: float


class _Line(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """One save: how many messages stay, what follows them, and what changed of the state."""

    after: int
    messages: list[dict[str, Any]] = []
    state: dict[str, Any] = {}
    longer: dict[str, list[Any]] = {}
    gone: list[str] = []


def _line_between(known: _Known, messages: list[Message], state: dict[str, Any]) -> _Line:
    """Return the line that a save adds."""
    stay = min(len(known.messages), len(messages))
    after = next((n for n in range(stay) if known.messages[n] != _canonical(messages[n])), stay)
    line = _Line(after, messages[after:], {}, {}, [name for name in known.state if name not in state])
    for name, value in state.items():
        old, new = known.state.get(name, b""), _canonical(value)
        if old.startswith(b"[") and new.startswith(old[:-1] + b","):
            line.longer[name] = msgspec.json.decode(b"[" + new[len(old) :])
        elif old != new:
            line.state[name] = value
    return line


def _apply(data: bytes, stored: _SessionFile | None) -> tuple[bool, str]:
    """Do to a conversation what lines say, up to the first that does not fit.

    Returns:
        Whether all of them count, so that another may follow, and the fault. The half of a line at the end was
        promised to nobody.
    """
    head, *lines, rest = data.split(b"\n") if b"\n" in data else (b"", data)
    number = 1
    try:
        follows = msgspec.json.decode(head, type=_Head).follows if head else None
        if stored is None:
            return False, "the file that they follow is not there"
        if follows is None or (stored.updated_at is not None and follows < stored.updated_at):
            return False, ""  # the file has them: their writer died before it removed them
        if follows != stored.updated_at:
            return False, "another hand wrote the file that they follow"
        for text in lines:
            number += 1
            line = msgspec.json.decode(text, type=_Line)
            if not 0 <= line.after <= len(stored.messages):
                raise ValueError(f"it follows {line.after} messages, and there are {len(stored.messages)}")
            if any(not isinstance(stored.state.get(name), list) for name in line.longer):
                raise ValueError("it makes a list longer that there is not")
            stored.messages[line.after :] = line.messages
            longer = {name: [*stored.state[name], *added] for name, added in line.longer.items()}
            kept = {name: part for name, part in stored.state.items() if name not in line.gone}
            stored.state = kept | line.state | longer
    except (ValueError, RecursionError) as error:
        return False, f"line {number}: {error}"
    return not rest, ""


def _canonical(value: Any) -> bytes:
    """Return JSON that is equal for equal values: 1, 1.0 and true are not."""
    return msgspec.json.encode(value, order="sorted")


def _as_stored(message: Message) -> Message:
    """Return a message as a file has it; raise InvalidInputError for one that no file can hold."""
    return message_of((0, *row_of(stored_message(message)))).as_message()


def _name_of(session_id: str) -> str:
    """Return a name without separators that does not begin with a point, the same for the same id."""
    name = session_id.replace("%", "%25").replace("/", "%2F")
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name.encode()) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(session_id.encode()).hexdigest()[:32]
    return f"{name.encode()[: _LONGEST_NAME - 34].decode(errors='ignore')}{_CUT}{digest}"


def _id_of(path: Path) -> str:
    """Return the id of the conversation in a file; a cut name has it inside."""
    if _CUT not in path.stem:
        return unquote(path.stem)
    whole = JsonFile(path, _SessionFile).read()
    return whole.id if whole is not None and whole.id is not None else unquote(path.stem)
