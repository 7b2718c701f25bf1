"""`JSONSessionStore`: every conversation in one JSON file of its own, under a name that a person can read.

`kitchen.json` is written whole when a conversation begins, when it is quiet (`flush`) and on `close`; what comes between
stands as lines in `kitchen.jsonl` beside it. `load` reads both.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import msgspec

from edgemem.clock import Clock
from edgemem.fence import check_session_id
from edgemem.records import Message, Session
from edgemem.store.db.files import Closing, append, meaningful, sync
from edgemem.store.json.files import JsonFile, copy_aside, erase, locked, look
from edgemem.store.messages import copied, message_of, row_of, same_until, stored_message
from edgemem.store.sessions import state_text
from edgemem.store.validation import check_session, checked_path, checked_time

if TYPE_CHECKING:
    from collections.abc import Sequence


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
    """When it was written, seconds since the epoch; the lines beside it follow this writing."""


_Stamps = tuple[Any, Any]
"""What tells one state of the file and of the lines from another."""


class _Stored(msgspec.Struct):
    """What the files of a conversation hold."""

    messages: list[Message]
    """Copies of what was saved, or what was read."""
    state: dict[str, Any]
    updated_at: float | None
    """Which writing of the file this is; None: there is none, or another hand's."""
    stamps: _Stamps
    end: int = 0
    """Where the next line begins, bytes; 0: no line counts."""
    held: list[Message] | None = None
    """The messages themselves, as the loop holds them; None: nobody does."""


class _Reading(NamedTuple):
    """What was read of a conversation."""

    stored: _Stored | None
    fault: str = ""
    """What is wrong with the lines behind `stored.end`; empty where nothing is."""


class JSONSessionStore(Closing):
    """Conversations as files in a folder; a save is on the disk when it returns, and writes what is new.

    A message that was changed in place since it was saved is noticed among the newest 64, which are compared with copies;
    further back, put another message in its place.

    Args:
        base: the folder, made by the first save.
        clock: dates the files, so that their order is right although the wall clock was not.
    """

    def __init__(self, base: str | Path, *, clock: Clock | None = None) -> None:
        self.base = checked_path(base, "a folder of sessions")
        self._clock = clock or Clock()
        self._lock = threading.Lock()
        self._stored: dict[str, _Stored] = {}
        self._in_lines: set[str] = set()
        """Ids of conversations that have lines which this store wrote."""
        self._warned: set[str] = set()

    def save(self, id: str, session: Session) -> None:  # noqa: A002 - the seed's name
        """Store a conversation; what is stored already costs nothing.

        Where a message was changed or removed, what follows is written anew.
        """
        check_session_id(id)
        check_session(session)
        state = msgspec.json.decode(state_text(session.state, self._warned))
        with self._lock, locked(self.base / ".lock"):
            stored = self._known(id)
            if stored is None:
                stored = _Stored([], {}, None, self._look(id))
                begin = 0
            else:
                begin = _prefix(session.messages, stored)
                if begin == len(session.messages) == len(stored.messages) and state == stored.state:
                    return
            added = _as_stored(session.messages[begin:])
            if stored.updated_at is None:
                self._write(id, stored, [*_as_stored(session.messages[:begin]), *added], state)
            else:
                save = _Save.between(begin, added, stored.state, state)
                stored.end = self._lines(id).append(save, end=stored.end, follows=stored.updated_at)
                self._in_lines.add(id)
            self._date(self._path(id))
            if stored.held is None:
                begin, stored.held = 0, []
            stored.messages[begin:] = map(copied, session.messages[begin:])
            stored.held[begin:] = session.messages[begin:]
            stored.state = state
            stored.stamps = self._look(id)
            self._stored[id] = stored

    def load(self, id: str) -> Session | None:  # noqa: A002
        """Return a conversation as it was said, or None if there is none; what is damaged is set aside, with a warning."""
        check_session_id(id)
        with self._lock:
            reading = self._read(id)
            if reading.fault:
                with locked(self.base / ".lock"):
                    reading = self._mended(id)
            stored = reading.stored
            if stored is None:
                self._stored.pop(id, None)
                return None
            self._stored[id] = stored
            stored.held = list(map(copied, stored.messages))
            return Session(list(stored.held), deepcopy(stored.state))

    def delete(self, id: str) -> bool:  # noqa: A002
        """Erase a conversation, also what was set aside of it; tell whether there was one."""
        check_session_id(id)
        with self._lock:
            self._stored.pop(id, None)
            self._in_lines.discard(id)
            if not self.base.is_dir():
                return False
            with locked(self.base / ".lock"):
                gone = [erase(path) for path in (self._lines(id).path, self._path(id))]
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

    def flush(self) -> None:
        """Write each conversation that has lines whole into its file; a hook does it in idle time."""
        with self._lock:
            while self._in_lines:
                self._fold(next(iter(self._in_lines)))

    def close(self) -> None:
        """Write what `flush` does; may be called twice."""
        self.flush()

    def _fold(self, session_id: str) -> None:
        """Write a conversation whole."""
        with locked(self.base / ".lock"):
            stored = self._known(session_id)
            if stored is not None and stored.end:
                at = self._path(session_id).stat()
                self._write(session_id, stored, _as_stored(stored.messages), stored.state)
                os.utime(self._path(session_id), ns=(at.st_atime_ns, at.st_mtime_ns))  # nothing was said
                stored.stamps = self._look(session_id)
                self._stored[session_id] = stored
        self._in_lines.discard(session_id)

    def _write(
        self, session_id: str, stored: _Stored, messages: list[Message], state: dict[str, Any]
    ) -> None:
        """Write all of a conversation into its file, and remove the lines, which it has now."""
        file = JsonFile(self._path(session_id), _SessionFile)
        while True:
            whole = file.read()
            # Later than the writing before, whatever the clock says: older lines beside it must not pass for newer ones.
            least = 0.0 if whole is None or whole.updated_at is None else whole.updated_at + 1e-6
            now = max(self._clock.tick() / 1e6, least)
            if file.write(_SessionFile(messages, state, session_id, now)):
                break  # else an editor wrote it just now; what is said now stands
        lines = self._lines(session_id)
        if look(lines.path) is not None:
            lines.cut(0)
        stored.updated_at, stored.end = now, 0
        self._in_lines.discard(session_id)

    def _known(self, session_id: str) -> _Stored | None:
        """Return what is stored of a conversation, read again where another hand has written it; the lock is held."""
        stored = self._stored.get(session_id)
        if stored is None or stored.stamps != self._look(session_id):
            reading = self._read(session_id)
            stored = (self._mended(session_id) if reading.fault else reading).stored
        return stored

    def _read(self, session_id: str) -> _Reading:
        """Read a conversation's files as they are; nobody need hold the lock."""
        file, lines = JsonFile(self._path(session_id), _SessionFile), self._lines(session_id)
        while True:
            stamps = self._look(session_id)
            whole, beside = file.read(), lines.read()
            # Who writes the file whole removes the lines behind that, so both are of one moment if it is the same still.
            if look(file.path) == stamps[0]:
                break
        if whole is None:
            lost = beside.follows is not None or beside.fault
            return _Reading(None, f"{file.path.name}, which they follow, is not there" if lost else "")
        stored = _Stored(whole.messages, whole.state, whole.updated_at, stamps)
        if beside.fault and beside.follows is None:
            return _Reading(stored, beside.fault)
        if beside.follows is None or (whole.updated_at is not None and beside.follows < whole.updated_at):
            return _Reading(stored)  # none, or some that the file has: its writer died before it removed them
        if beside.follows != whole.updated_at:
            return _Reading(stored, f"{file.path.name} was written by another hand")
        stored.end = beside.begin
        for line in beside.read:
            fault = line.save.apply(stored.messages, stored.state)
            if fault:
                return _Reading(stored, fault)
            stored.end = line.end
        return _Reading(stored, beside.fault)

    def _mended(self, session_id: str) -> _Reading:
        """Set a copy of damaged lines aside, and keep those before the damage; the lock is held."""
        reading, lines = self._read(session_id), self._lines(session_id)
        if reading.fault:
            copy = copy_aside(lines.path)
            lines.cut(reading.stored.end if reading.stored is not None else 0)
            _log.warning(
                "Not all of %s could be read (%s); a copy was set aside as %s. What stands before that is kept.",
                lines.path,
                reading.fault,
                copy.name,
            )
        return self._read(session_id)

    def _path(self, session_id: str) -> Path:
        return self.base / f"{_name_of(session_id)}.json"

    def _lines(self, session_id: str) -> _LinesFile:
        return _LinesFile(self.base / f"{_name_of(session_id)}.jsonl")

    def _look(self, session_id: str) -> _Stamps:
        path = self._path(session_id)
        with meaningful(path):
            return look(path), look(self._lines(session_id).path)

    def _date(self, path: Path) -> None:
        """Make a file the newest of all, whatever dates the others have."""
        with meaningful(path):
            others = (other.stat().st_mtime_ns for other in self.base.glob("*.json") if other != path)
            stamp = max(self._clock.tick() * 1000, max(others, default=0) + 1000)
            os.utime(path, ns=(stamp, stamp))


def _prefix(given: list[Message], stored: _Stored) -> int:
    """Return how many messages at the head are stored: by identity, or, where nobody holds what was read, by content."""
    if stored.held is not None:
        return same_until(given, stored.messages, stored.held)
    pairs = zip(given, stored.messages, strict=False)
    return next(
        (i for i, (a, b) in enumerate(pairs) if row_of(stored_message(a)) != row_of(stored_message(b))),
        min(len(given), len(stored.messages)),
    )


def _as_stored(messages: Sequence[Message]) -> list[Message]:
    """Return messages as a file has them; raise InvalidInputError for one that no file can hold."""
    rows = [row_of(stored_message(message)) for message in messages]
    return [message_of((0, *row)).as_message() for row in rows]


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


# Lines beside the file: what came since it was written, one save a line. The first says which writing of the file the others
# follow. A line counts once it ends: half of one was promised to nobody, and the next takes its place.


class _Head(msgspec.Struct, forbid_unknown_fields=True):
    """The first line."""

    follows: float
    """The `updated_at` of the file as it was when the second line came."""


class _Save(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """One save: what stays, what follows it, and what changed of the state."""

    after: int
    """How many messages stay."""
    messages: list[dict[str, Any]] = []
    state: dict[str, Any] = {}
    """Parts that are new or other ones."""
    longer: dict[str, list[Any]] = {}
    """Parts that are lists, with what was added at their ends."""
    gone: list[str] = []
    """Parts that there are no more."""

    @classmethod
    def between(
        cls, after: int, messages: list[dict[str, Any]], old: dict[str, Any], new: dict[str, Any]
    ) -> _Save:
        """Return what a save writes where messages follow the first `after`, and one state another."""
        save = cls(after, messages, {}, {}, [name for name in old if name not in new])
        for name, value in new.items():
            before = old.get(name)
            if isinstance(value, list) and isinstance(before, list) and before == value[: len(before)]:
                if len(before) < len(value):
                    save.longer[name] = value[len(before) :]
            elif name not in old or not _same(value, before):
                save.state[name] = value
        return save

    def apply(self, messages: list[dict[str, Any]], state: dict[str, Any]) -> str:
        """Do to a conversation what was saved; where that does not fit, change nothing and return why."""
        if not 0 <= self.after <= len(messages):
            return f"it follows {self.after} messages, and there are {len(messages)}"
        if any(not isinstance(state.get(name), list) for name in self.longer):
            return "it makes a list longer that there is not"
        messages[self.after :] = self.messages
        for name in self.gone:
            state.pop(name, None)
        state.update(self.state)
        for name, added in self.longer.items():
            state[name] = [*state[name], *added]
        return ""


class _Line(NamedTuple):
    """A line that can be read."""

    save: _Save
    end: int
    """Where the next one begins, bytes."""


class _Lines(NamedTuple):
    """What a file of lines holds."""

    follows: float | None
    """Which writing of the file; None: nothing here counts."""
    begin: int
    """Where the first line behind the head begins, bytes."""
    read: list[_Line]
    fault: str = ""
    """What is wrong with the line that follows; empty where nothing is."""


class _LinesFile:
    """One such file, for its owner alone; whoever writes holds the lock of the folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> _Lines:
        """Return what stands in it, up to the first line that cannot be read."""
        with meaningful(self.path):
            try:
                data = self.path.read_bytes()
            except FileNotFoundError:
                return _Lines(None, 0, [])
        begin = data.find(b"\n") + 1
        try:
            follows = msgspec.json.decode(data[:begin], type=_Head).follows if begin else None
        except ValueError as error:
            return _Lines(None, 0, [], f"line 1: {error}")
        read: list[_Line] = []
        at = begin
        while (end := data.find(b"\n", at) + 1) > 0:
            try:
                read.append(_Line(msgspec.json.decode(data[at:end], type=_Save), end))
            except (ValueError, RecursionError) as error:
                return _Lines(follows, begin, read, f"line {len(read) + 2}: {error}")
            at = end
        return _Lines(follows, begin, read)

    def append(self, save: _Save, *, end: int, follows: float) -> int:
        """Write a line, durably; return where the next one begins.

        Args:
            end: where it begins; what stands there is the half of a line.
            follows: which writing of the file it follows, for the first line.
        """
        data = msgspec.json.encode(save) + b"\n"
        if end == 0:
            data = msgspec.json.encode(_Head(follows)) + b"\n" + data
        with meaningful(self.path):
            append(self.path, data, after=end)
        return end + len(data)

    def cut(self, end: int) -> None:
        """Keep what stands before a place; with 0, remove the file."""
        with meaningful(self.path):
            if end:
                os.truncate(self.path, end)
                sync(self.path)
            else:
                self.path.unlink(missing_ok=True)
                sync(self.path.parent)


def _same(value: Any, other: Any) -> bool:
    """Tell whether two values are the same JSON: 1, 1.0 and true are not."""
    return msgspec.json.encode(value, order="sorted") == msgspec.json.encode(other, order="sorted")
