"""`JSONSessionStore`: every conversation in one JSON file of its own, under a name that a person can read.

A save writes the whole conversation, as EdgeVox's does. A robot that talks all day uses a home or `SQLiteSessionStore`, which
write only new text.
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
from edgemem.records import Session
from edgemem.store.db.files import Closable, locked_beside, translated_errors
from edgemem.store.json.files import JsonFile, erase
from edgemem.store.messages import message_of, row_of, stored_message
from edgemem.store.sessions import state_text
from edgemem.store.validation import check_session, checked_path, checked_time

_log = logging.getLogger(__name__)

_LONGEST_NAME = 180
"""Bytes of a file's name without its ending; file systems take 255, and a damaged file has a longer ending."""

_CUT = "%~"  # marks a cut name, and no other: a percent sign of an id is written `%25`


class _SessionFile(msgspec.Struct):
    """The form of a file; EdgeVox's files have messages and a state, and their name is the id."""

    messages: list[dict[str, Any]]
    state: dict[str, Any] = {}
    id: str | None = None
    updated_at: float | None = None  # when it was written, seconds since the epoch


class JSONSessionStore(Closable):
    """Conversations as files in a folder that the first save makes; a save without changes writes nothing.

    A save is on the disk when it returns. `clock` dates the files, so their order is right where the wall clock was not.
    """

    def __init__(self, base: str | Path, *, clock: Clock | None = None) -> None:
        self.base = checked_path(base, "a folder of sessions")
        self._clock = clock or Clock()
        self._lock = threading.Lock()
        self._warned: set[str] = set()

    def save(self, id: str, session: Session) -> None:  # noqa: A002 - the seed's name
        """Store a conversation in place of the stored one."""
        check_session_id(id)
        check_session(session)
        state = msgspec.json.decode(state_text(session.state, self._warned))
        # A message that no file can hold is refused.
        rows = [row_of(stored_message(message)) for message in session.messages]
        new = _SessionFile([message_of((0, *row)).as_message() for row in rows], state, id)
        path = self._path(id)
        with self._lock, locked_beside(self.base / "sessions"):
            file = JsonFile(path, _SessionFile)
            while True:
                stored = file.read()
                if stored is not None and stored.updated_at is not None and _parts(stored) == _parts(new):
                    return
                before = (stored.updated_at if stored is not None else None) or 0.0
                new.updated_at = max(self._clock.tick() / 1e6, before + 1e-6)
                if file.write(new):
                    break  # else an editor wrote it just now
            with translated_errors(path):
                others = (other.stat().st_mtime_ns for other in self.base.glob("*.json") if other != path)
                newest = max(self._clock.tick() * 1000, max(others, default=0) + 1000)
                os.utime(path, ns=(newest, newest))

    def load(self, id: str) -> Session | None:  # noqa: A002
        """Return a conversation as it was said, or None if there is none; a damaged file is set aside, with a warning."""
        check_session_id(id)
        stored = JsonFile(self._path(id), _SessionFile).read()
        return None if stored is None else Session(stored.messages, stored.state)

    def delete(self, id: str) -> bool:  # noqa: A002
        """Erase a conversation, with its copies set aside; return whether there was one."""
        check_session_id(id)
        with self._lock:
            if not self.base.is_dir():
                return False
            with locked_beside(self.base / "sessions"):
                return erase(self._path(id))

    def list_ids(self, *, since: float | None = None) -> list[str]:
        """Return the ids of conversations (saved since a time), the one that was spoken in last first."""
        oldest = None if since is None else checked_time(since, "since") * 1e9
        with translated_errors(self.base):
            files = [(path.stat().st_mtime_ns, path) for path in self.base.glob("*.json")]
        return [_id_of(path) for at, path in sorted(files, reverse=True) if oldest is None or at >= oldest]

    def close(self) -> None:
        """Do nothing: each save is on the disk."""

    def _path(self, session_id: str) -> Path:
        return self.base / f"{_name_of(session_id)}.json"


def _parts(file: _SessionFile) -> bytes:
    """Return JSON that is equal for equal conversations: 1, 1.0 and true are not."""
    return msgspec.json.encode((file.messages, file.state), order="sorted")


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
    if _CUT not in path.stem:
        return unquote(path.stem)
    whole = JsonFile(path, _SessionFile).read()
    return whole.id if whole is not None and whole.id is not None else unquote(path.stem)
