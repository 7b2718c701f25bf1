"""`JSONSessionStore`: every conversation in one JSON file of its own, under a name that a person can read.

Each save replaces the file in one step, durably. An earlier edgemem kept the newest messages as lines beside the file
(`kitchen.jsonl`); they are read once, and folded into it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec

from edgemem.clock import Clock
from edgemem.fence import check_session_id
from edgemem.records import Message, Session
from edgemem.store.db.files import Closing, meaningful, sync
from edgemem.store.json.files import JsonFile, copy_aside, erase, locked
from edgemem.store.messages import message_of, row_of, stored_message
from edgemem.store.sessions import state_text
from edgemem.store.validation import check_session, checked_path, checked_time

_log = logging.getLogger(__name__)

_LONGEST_NAME = 180
"""Bytes of a file's name without its ending; file systems take 255, and a damaged file has a longer ending."""

_CUT = "%~"
"""Stands in a name that was cut, and in no other: a percent sign of an id is written `%25`."""


class _SessionFile(msgspec.Struct):
    """What stands in a file; EdgeVox's files have messages and a state, and their name is the id."""

    messages: list[dict[str, Any]]
    state: dict[str, Any] = {}
    id: str | None = None
    updated_at: float | None = None
    """When it was written, seconds since the epoch; the lines of an earlier edgemem say which writing they follow."""


class JSONSessionStore(Closing):
    """Conversations as files in a folder; a save is on the disk when it returns.

    Args:
        base: the folder, made by the first save.
        clock: dates the files, so that their order is right although the wall clock was not.
    """

    def __init__(self, base: str | Path, *, clock: Clock | None = None) -> None:
        self.base = checked_path(base, "a folder of sessions")
        self._clock = clock or Clock()
        self._lock = threading.Lock()
        self._warned: set[str] = set()

    def save(self, id: str, session: Session) -> None:  # noqa: A002 - the seed's name
        """Store a conversation; one that stands so in its file is not written again."""
        check_session_id(id)
        check_session(session)
        state = msgspec.json.decode(state_text(session.state, self._warned))
        messages = [_as_stored(message) for message in session.messages]
        with self._lock, locked(self.base / ".lock"):
            path = self._path(id)
            file = JsonFile(path, _SessionFile)
            while True:
                stored = self._fold(id, file)
                if stored is not None and _bytes_of(stored.messages, stored.state) == _bytes_of(
                    messages, state
                ):
                    return
                if file.write(_SessionFile(messages, state, id, self._clock.tick() / 1e6)):
                    break  # else an editor wrote it just now; what is said now stands
            with meaningful(path):
                others = (other.stat().st_mtime_ns for other in self.base.glob("*.json") if other != path)
                newest = max(self._clock.tick() * 1000, max(others, default=0) + 1000)
                os.utime(path, ns=(newest, newest))

    def load(self, id: str) -> Session | None:  # noqa: A002
        """Return a conversation as it was said, or None if there is none; what is damaged is set aside, with a warning."""
        check_session_id(id)
        file = JsonFile(self._path(id), _SessionFile)
        with self._lock:
            if self._lines(id).exists():
                with locked(self.base / ".lock"):
                    stored = self._fold(id, file)
            else:
                stored = file.read()
        return None if stored is None else Session(stored.messages, stored.state)

    def delete(self, id: str) -> bool:  # noqa: A002
        """Erase a conversation, also what was set aside of it; tell whether there was one."""
        check_session_id(id)
        with self._lock:
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
        with meaningful(self.base):
            files = [(path.stat().st_mtime_ns, path) for path in self.base.glob("*.json")]
        return [_id_of(path) for at, path in sorted(files, reverse=True) if oldest is None or at >= oldest]

    def close(self) -> None:
        """Do nothing: every save is on the disk already."""

    def _path(self, session_id: str) -> Path:
        return self.base / f"{_name_of(session_id)}.json"

    def _lines(self, session_id: str) -> Path:
        return self.base / f"{_name_of(session_id)}.jsonl"

    # Lines of an earlier edgemem

    def _fold(self, session_id: str, file: JsonFile[_SessionFile]) -> _SessionFile | None:
        """Read a conversation, and write the lines beside it into it; the lock is held."""
        stored, path = file.read(), self._lines(session_id)
        with meaningful(path):
            if not path.exists():
                return stored
            data = path.read_bytes()
        before = None if stored is None else stored.updated_at
        changed, fault = _apply(data, stored)
        if fault:
            copy = copy_aside(path)
            _log.warning(
                "Not all of %s could be read (%s); a copy was set aside as %s. What stands before that is kept.",
                path,
                fault,
                copy.name,
            )
        if stored is not None and changed:
            # Later than before, whatever the clock says: if we die now, the lines are known to be in the file.
            stored.updated_at = max(self._clock.tick() / 1e6, (before or 0.0) + 1e-6)
            at = file.path.stat()
            if not file.write(stored):
                return self._fold(session_id, file)  # an editor wrote it just now
            os.utime(file.path, ns=(at.st_atime_ns, at.st_mtime_ns))  # nothing was said
        with meaningful(path):
            path.unlink()
            sync(path.parent)
        return stored


class _Head(msgspec.Struct, forbid_unknown_fields=True):
    """The first line: which writing of the file the others follow."""

    follows: float


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """One save: how many messages stay, what follows them, and what changed of the state."""

    after: int
    messages: list[dict[str, Any]] = []
    state: dict[str, Any] = {}
    longer: dict[str, list[Any]] = {}
    gone: list[str] = []


def _apply(data: bytes, stored: _SessionFile | None) -> tuple[bool, str]:
    """Do to a conversation what lines say, up to the first that does not fit; return whether any did, and what is wrong.

    The half of a line at the end was promised to nobody.
    """
    head, *lines = data.split(b"\n")[:-1] or [b""]
    changed, number = False, 1
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
            changed = True
    except (ValueError, RecursionError) as error:
        return changed, f"line {number}: {error}"
    return changed, ""


def _bytes_of(messages: list[Message], state: dict[str, Any]) -> bytes:
    """Return JSON that is the same for what is the same: 1, 1.0 and true are not."""
    return msgspec.json.encode([messages, state], order="sorted")


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
    """Return the id of the conversation in a file; where the name is cut, it stands inside."""
    if _CUT not in path.stem:
        return unquote(path.stem)
    whole = JsonFile(path, _SessionFile).read()
    return whole.id if whole is not None and whole.id is not None else unquote(path.stem)
