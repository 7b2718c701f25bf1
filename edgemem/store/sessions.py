"""Sessions: whole conversations by id, of which each save writes only the new part."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from edgemem.clock import Clock
from edgemem.fence import check_session_id, storable
from edgemem.records import Message, Session, StoredMessage
from edgemem.scopes import Level, name_key
from edgemem.store import messages
from edgemem.store.db.database import Database
from edgemem.store.db.files import Closable
from edgemem.store.db.transaction import Tables, Transaction
from edgemem.store.erase.delete_rows import erase_session
from edgemem.store.journal import TurnJournal
from edgemem.store.kinds import open_truth
from edgemem.store.pending_erasures import erase_in_truth
from edgemem.store.rights import LEVELS
from edgemem.store.turns import LIVE, STATES, ensure_session, utterance_in
from edgemem.store.validation import check_session, checked_tick

_log = logging.getLogger(__name__)

_PASSED_ON = "level, answer, owner, block, shown, speaker, speaker_confidence, asr_confidence, device, room, event_time"

_Inherited = tuple[Any, ...]
_PRIVATE = LEVELS.index("private")
_COMPLETE = STATES.index("complete")

_LAST = "coalesce((select last_message from turns where session_id = s.id order by n desc limit 1), s.id)"
"""When something was last said in a session, a tick."""

SINCE = f"""
  select name from sessions s where id in (
    select session_id from messages where id >= :since and dropped is null
    union select id from sessions where id >= :since)
  order by {_LAST} desc
"""  # noqa: S608 - our own
"""Sessions since a tick. Ids are ticks, so the tables themselves are ordered by time: an index would cost each turn a write."""


class _Saved(msgspec.Struct):
    """The stored part of a session: copies of its messages, their ids and turns, the state."""

    messages: list[Message] = []
    ids: list[int] = []
    turns: list[int] = []
    state: str = "{}"

    @property
    def newest(self) -> int | None:
        return self.ids[-1] if self.ids else None


class _Part(msgspec.Struct):
    n: int
    messages: list[StoredMessage] = []

    def utterance(self, ids: Sequence[int]) -> int | None:
        """Return the id of the message that was said to the robot, of those of its messages."""
        place = utterance_in([message.role for message in self.messages])
        return None if place is None else ids[place]


class SQLiteSessionStore(Closable):
    """Conversations in a database; safe to use from several threads and processes.

    Args:
        path: a file, opened and closed by this store, or an open database.
        clock: for a file.
        level: who may read what `save` stores; whole turns are written through `journal`.
    """

    def __init__(
        self, path: str | Path | Database, *, clock: Clock | None = None, level: Level = "household"
    ) -> None:
        self._owned = not isinstance(path, Database)
        self.database = path if isinstance(path, Database) else open_truth(path, clock=clock)
        if self._owned:  # a forgetting that was cut off
            erase_in_truth(self.database, alone=True, wait_s=0.0)
        self.journal = TurnJournal(self.database)
        self._level = LEVELS.index(level)
        self._saved: dict[str, _Saved] = {}
        self._warned: set[str] = set()
        self._lock = threading.Lock()

    def save(self, id: str, session: Session) -> None:  # noqa: A002 - the seed's name
        """Store a conversation, durably; a part that is stored already costs nothing.

        Where a message was changed or removed, what follows is written anew; the old version stays in the file, marked as
        dropped. A block that memory put before an utterance is told by its bytes, and kept apart.
        """
        check_session_id(id)
        check_session(session)
        history, state = session.messages, state_text(session.state, self._warned)
        with self._lock:
            known = self._saved.get(id)
            if (
                known
                and history == known.messages
                and state == known.state
                and _newest(self.database, id) == known.newest
            ):
                return
            self._saved[id] = self.database.write(lambda tx: self._save(tx, id, history, state, known))

    def load(self, id: str) -> Session | None:  # noqa: A002
        """Return a conversation as it was said, or None if there is none."""
        with self._lock:
            stored = _read(self.database, id)
            if stored is None:
                self._saved.pop(id, None)
                return None
            saved = self._saved[id] = stored[0]
            return Session(
                [messages.copied(message) for message in saved.messages], msgspec.json.decode(saved.state)
            )

    def delete(self, id: str) -> bool:  # noqa: A002
        """Erase a conversation with all its versions, also from the log; return whether there was one."""
        with self._lock:
            self._saved.pop(id, None)
            erased = bool(self.database.write(lambda tx: erase_session(tx, id)))
        if erased:
            erase_in_truth(self.database, alone=self._owned)
        return erased

    def list_ids(self, *, since: float | None = None) -> list[str]:
        """Return the ids of conversations (since a time, seconds since the epoch), the one that was spoken in last first."""
        if since is None:
            rows = self.database.query(f"select name from sessions s order by {_LAST} desc")  # noqa: S608 - our own
        else:
            rows = self.database.query(SINCE, {"since": checked_tick(since, "since")})
        return [name for (name,) in rows]

    def close(self) -> None:
        """Write turns that wait, and close its own file; may be called twice. StoreError: turns could not be kept either."""
        try:
            self.journal.close()
        finally:
            if self._owned:
                self.database.close()

    def _save(
        self, tx: Transaction, name: str, history: list[Message], state: str, known: _Saved | None
    ) -> _Saved:
        session_id = ensure_session(tx, name)
        if known is None or _newest(tx, name) != known.newest:
            # Not saved here before, or written by somebody else since: its messages must tell.
            known, issued = _read(tx, name) or (_Saved(), {})
            begin = _prefix_by_content(history, known, issued)
        else:
            pairs = zip(history, known.messages, strict=False)
            begin = next(
                (i for i, (given, stored) in enumerate(pairs) if given != stored),
                min(len(history), len(known.messages)),
            )
        if state != known.state:
            tx.execute("update sessions set state = ? where id = ?", (state, session_id))
        revision = _Revision(self._level)
        if begin < len(known.ids):
            gone = list(zip(known.ids[begin:], known.turns[begin:], known.messages[begin:], strict=True))
            kept = (known.ids[begin - 1], known.turns[begin - 1]) if begin else None
            revision.drop(tx, session_id, gone, kept)
        saved = _Saved(known.messages[:begin], known.ids[:begin], known.turns[:begin], state)
        last = known.turns[begin - 1] if begin else None
        for part in _parts(history, begin, known.turns):
            rows = [messages.row_of(message) for message in part.messages]
            ids = messages.insert(tx, session_id, part.n, rows)
            if part.n == last:
                tx.execute(
                    "update turns set last_message = ?, state = ?, utterance = coalesce(utterance, ?)"
                    " where session_id = ? and n = ?",
                    (ids[-1], _COMPLETE, part.utterance(ids), session_id, part.n),
                )
            else:
                revision.insert_turn(tx, session_id, part, ids)
            saved.ids += ids
            saved.turns += [part.n] * len(ids)
        saved.messages += map(messages.copied, history[begin:])
        return saved


def _parts(history: list[Message], begin: int, turns: Sequence[int]) -> Iterator[_Part]:
    """Yield the new part by turn: a user message begins one, unless nobody has spoken in the turn before it."""
    n = turns[begin - 1] if begin else 0
    spoken, at = False, begin - 1
    while at >= 0 and turns[at] == n and not spoken:
        spoken, at = history[at]["role"] == "user", at - 1
    part = _Part(n)
    for message in history[begin:]:
        stored = messages.stored_message(message)
        if stored.role == "user":
            if spoken:
                if part.messages:
                    yield part
                part = _Part(part.n + 1)
            spoken = True
        part.messages.append(stored)
    if part.messages:
        yield part


def _prefix_by_content(history: list[Message], known: _Saved, issued: Mapping[int, str]) -> int:
    """Return how many messages at the head say the same as the stored ones, blocks apart."""
    for i, (message, stored, turn) in enumerate(zip(history, known.messages, known.turns, strict=False)):
        given = messages.stored_message(message)
        # Other text that looks like a block stays.
        if given.role == "user" and turn in issued and given.content:
            given = msgspec.structs.replace(given, content=given.content.removeprefix(issued[turn]))
        if messages.row_of(given) != messages.row_of(messages.stored_message(stored)):
            return i
    return min(len(history), len(known.messages))


def _read(db: Tables, name: str) -> tuple[_Saved, dict[int, str]] | None:
    """Return the stored part of a session, and the blocks of its turns."""
    rows = db.query("select id, state from sessions where name = ?", (name,))
    if not rows:
        return None
    session_id, state = rows[0]
    saved, blocks = _Saved(state=state), {}
    for turn, block, *columns in db.query(
        f"select t.n, t.block, {messages.COLUMNS} from turns t cross join messages m on {LIVE}"  # noqa: S608 - our own
        " where t.session_id = ? order by t.n, m.id",
        (session_id,),
    ):
        message = messages.message_of(columns)
        saved.messages.append(message.as_message())
        saved.ids.append(message.id)
        saved.turns.append(turn)
        if block:
            blocks[turn] = block
    return saved, blocks


def _newest(db: Tables, name: str) -> int | None:
    rows = db.query(
        "select last_message from turns where session_id = (select id from sessions where name = ?)"
        " order by n desc limit 1",
        (name,),
    )
    return rows[0][0] if rows else None


class _Revision:
    """Drops the end of a conversation, and hands its turns' levels and speakers on to what replaces it."""

    def __init__(self, level: int) -> None:
        self._turns: dict[int, _Inherited] = {}
        self._turn_by_text: dict[tuple[str, str | None], int] = {}
        self._new: _Inherited = (level, level, *[None] * 9)

    def drop(
        self,
        tx: Transaction,
        session_id: int,
        stored: Sequence[tuple[int, int, Message]],
        kept: tuple[int, int] | None,
    ) -> None:
        """Mark stored messages (id, turn, message) as dropped; `kept` is the id and turn of the one before them."""
        ids = [number for number, _, _ in stored]
        tx.executemany("update messages set dropped = ? where id = ?", [(tx.recorded, id_) for id_ in ids])
        tx.announce("messages", ids)
        for n, *inherited in tx.execute(
            f"select n, {_PASSED_ON} from turns where session_id = ? and n >= ?",  # noqa: S608 - our own constants
            (session_id, stored[0][1]),
        ):
            self._turns[n] = tuple(inherited)
            # A summary of turns is as private as all that was in them.
            answer, owner = _more_private(self._new[1:3], self._turns[n][1:3])
            self._new = (answer, answer, owner, *self._new[3:])
        for _, turn, message in stored:
            bare = messages.stored_message(message)
            self._turn_by_text.setdefault((bare.role, bare.content), turn)
        tx.execute("delete from turns where session_id = ? and n > ?", (session_id, kept[1] if kept else -1))
        if kept:
            tx.execute(
                "update turns set last_message = ? where session_id = ? and n = ?",
                (kept[0], session_id, kept[1]),
            )

    def insert_turn(self, tx: Transaction, session_id: int, part: _Part, ids: Sequence[int]) -> None:
        """Write the row of a turn; one that was said before keeps its level, owner, block and speaker."""
        keys = [(message.role, message.content) for message in part.messages]
        old = next((self._turn_by_text[key] for key in keys if key in self._turn_by_text), None)
        level, answer, owner, block, *rest = self._new if old is None else self._turns[old]
        if keys[0] not in self._turn_by_text:  # a summary before the kept part
            answer, owner = _more_private((answer, owner), self._new[1:3])
            level = max(level, self._new[0])
        row = [session_id, part.n, ids[0], ids[-1], _COMPLETE, tx.recorded, part.utterance(ids)]
        row += [level, answer, owner, block, *rest]
        place = "session_id, n, first_message, last_message, state, recorded, utterance"
        tx.insert(f"turns ({place}, {_PASSED_ON})", row)


def _more_private(turn: _Inherited, other: _Inherited) -> _Inherited:
    """Return level and owner of a text made of two turns; two private owners: nobody may read it."""
    if turn[0] == other[0] == _PRIVATE and name_key(turn[1] or "") != name_key(other[1] or ""):
        return _PRIVATE, None
    return turn if turn[0] >= other[0] else other


def state_text(state: Mapping[Any, Any], warned: set[str]) -> str:
    """Return the loop's state as JSON without names in `__…`; what JSON lacks becomes text, with one warning a name (`warned`)."""
    kept, odd = {}, []
    for name, value in zip(map(storable, [_in_words(key) for key in state]), state.values(), strict=True):
        if name.startswith("__"):
            continue
        strange: list[Any] = []
        try:
            kept[name] = _as_json(value, strange)
        except RecursionError:
            kept[name] = storable(_in_words(value))
            strange.append(value)
        if strange and name not in warned:
            odd.append(name)
    if odd:
        warned.update(odd)
        _log.warning(
            "JSON cannot hold all of the session's state under %s; it is stored as text.",
            ", ".join(f"{name!r:.80}" for name in odd),
        )
    return msgspec.json.encode(kept, order="sorted").decode()


def _as_json(value: Any, strange: list[Any]) -> Any:
    """Return a value as JSON holds it; a part that it cannot is added to `strange`, and becomes text."""
    if isinstance(value, Mapping):
        named = ((storable(_in_words(key)), part) for key, part in value.items())
        return {name: _as_json(part, strange) for name, part in named if not name.startswith("__")}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_as_json(part, strange) for part in value]
    try:
        return messages.plain(value)
    except TypeError:
        strange.append(value)
        return storable(_in_words(value))


def _in_words(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - whatever an object of the caller's raises, the session is saved
        return f"<{type(value).__name__}>"


def read_state(db: Database, name: str) -> dict[str, Any]:
    """Return the state that is kept of a session; empty if there is none."""
    rows = db.query("select state from sessions where name = ?", (name,))
    return msgspec.json.decode(rows[0][0], type=dict[str, Any]) if rows else {}
