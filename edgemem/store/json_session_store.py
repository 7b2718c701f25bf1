"""`JSONSessionStore`: every conversation in one JSON file of its own, under a name that a person can read.

Each save writes the whole conversation; where that is too much for the card, there is `SQLiteSessionStore`.
"""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec

from edgemem.clock import Clock
from edgemem.fence import check_session_id
from edgemem.records import Session
from edgemem.store.arguments import check_session, checked_path
from edgemem.store.json_file import JsonFile, locked, meaningful
from edgemem.store.messages import message_of, row_of, stored_message
from edgemem.store.sessions import state_text

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

_LONGEST_NAME = 180
"""Bytes of a file's name without its ending; file systems take 255, and a damaged file has a longer ending."""

_CUT = "%~"
"""Stands in a name that was cut, and in no other: a percent sign of an id is written `%25`."""


class _SessionFile(msgspec.Struct):
    """What stands in a file; EdgeVox's files have no id, theirs is the name of the file."""

    messages: list[dict[str, Any]]
    state: dict[str, Any] = {}
    id: str | None = None


class JSONSessionStore:
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
        """Store a conversation; the same once more writes nothing."""
        check_session_id(id)
        check_session(session)
        rows = [row_of(stored_message(message)) for message in session.messages]
        said = [message_of((0, *row)).as_message() for row in rows]
        new = _SessionFile(said, msgspec.json.decode(state_text(session.state, self._warned)), id)
        file = self._file(id)
        with self._lock, locked(self.base / ".lock"):
            if file.read() == new:
                return
            while not file.write(new):  # an editor wrote it just now: what is said now stands
                file.read()
            self._date(file.path)

    def load(self, id: str) -> Session | None:  # noqa: A002
        """Return a conversation as it was said, or None if there is none; a damaged file is set aside, with a warning."""
        check_session_id(id)
        with self._lock:
            found = self._file(id).read()
        return None if found is None else Session(found.messages, found.state)

    def delete(self, id: str) -> bool:  # noqa: A002
        """Erase a conversation, also what was set aside of it; tell whether there was one."""
        check_session_id(id)
        with self._lock:
            return self._file(id).erase()

    def list_ids(self) -> list[str]:
        """Return the ids of all conversations, the one that was spoken in last first."""
        with meaningful(self.base):
            found = [(path.stat().st_mtime_ns, path) for path in self.base.glob("*.json")]
        return [_id_of(path) for _, path in sorted(found, reverse=True)]

    def close(self) -> None:
        """Do nothing: nothing is open between two calls."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _file(self, session_id: str) -> JsonFile[_SessionFile]:
        return JsonFile(self.base / f"{_name_of(session_id)}.json", _SessionFile)

    def _date(self, path: Path) -> None:
        """Make a file the newest of all, whatever dates the others have."""
        with meaningful(path):
            others = (each.stat().st_mtime_ns for each in self.base.glob("*.json") if each != path)
            stamp = max(self._clock.tick() * 1000, max(others, default=0) + 1000)
            os.utime(path, ns=(stamp, stamp))


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
    found = JsonFile(path, _SessionFile).read()
    return found.id if found is not None and found.id is not None else unquote(path.stem)
