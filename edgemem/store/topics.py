"""Topics: what one person said in a session, message by message, and what an agent keeps of them there.

A topic is a session as one of its speakers sees it: what somebody else said there is no part of it. Each message is stored
by a transaction of its own. One of the user begins a turn, and the next ones join that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.records import Heard, Turn
from edgemem.store import messages
from edgemem.store.facts import storable_value
from edgemem.store.rights import LEVELS, SPELLED, person_key, spell_person
from edgemem.store.turns import LIVE, STATES, commit_turn, ensure_session
from edgemem.store.validation import checked_count, checked_json, item_count, lookup

if TYPE_CHECKING:
    from edgemem.records import StoredMessage
    from edgemem.scopes import Level
    from edgemem.store.db.transaction import Tables, Transaction

_SESSION = "(select id from sessions where name = :session)"
_PERSON = SPELLED.format(key=":person")
SAID = f"""
  from turns t cross join messages m on {LIVE}
  where t.session_id = {_SESSION} and t.speaker = {_PERSON} order by t.n desc, m.id desc
"""
"""The messages of a person in a session, the newest first, by what `topic` returns."""
_OPEN = STATES.index("open")


def topic(session: str, person: str) -> dict[str, Any]:
    """Return the values of a statement that looks for the records of a person in a session."""
    return {"session": lookup(session, "a topic"), "person": person_key(person)}


def append_message(
    tx: Transaction, session: str, person: str, message: StoredMessage, *, level: Level = "household"
) -> None:
    """Store a message that came from a person, or was for them.

    Any but the user's joins the session's newest turn, if that is this person's and has ended.

    Args:
        level: who may read a turn that begins with it.
    """
    name = spell_person(tx, person)
    session_id = ensure_session(tx, session)
    newest = tx.execute(
        "select n, speaker, state from turns where session_id = ? order by n desc limit 1", (session_id,)
    )
    n, speaker, state = newest[0] if newest else (-1, None, None)
    if message.role == "user" or speaker != name or state == _OPEN:
        owner = name if level == "private" else None
        commit_turn(tx, Turn(session, n + 1, (message,), level=level, owner=owner, heard=Heard(speaker=name)))
        return
    (number,) = messages.insert(tx, session_id, n, [messages.row_of(message)])
    tx.execute("update turns set last_message = ? where session_id = ? and n = ?", (number, session_id, n))


def read_messages(db: Tables, session: str, person: str, limit: int) -> list[StoredMessage]:
    """Return the newest messages of a person in a session, the oldest of them first."""
    most = checked_count(limit, "the number of messages")
    rows = db.query(f"select {messages.COLUMNS} {SAID} limit :most", {**topic(session, person), "most": most})
    return [messages.message_of(row) for row in reversed(rows)]


def count_messages(db: Tables, session: str, person: str) -> int:
    """Return how many messages of a person a session has."""
    return int(db.query(f"select count(*) from (select 1 {SAID})", topic(session, person))[0][0])  # noqa: S608 - ours


def newest_turn(db: Tables, session: str, person: str) -> int | None:
    """Return the number of a person's newest turn in a session; None: there is none."""
    sql = f"select max(n) from turns where session_id = {_SESSION} and speaker = {_PERSON}"  # noqa: S608 - our own
    newest: int | None = db.query(sql, topic(session, person))[0][0]
    return newest


def put_state(tx: Transaction, session: str, person: str, state: dict[str, Any]) -> None:
    """Store what an agent keeps of a person in a session, in place of what it kept before; 4 kB of JSON."""
    _, text = checked_json(state, "the state of a session")
    tx.execute(
        "insert into session_states (id, session_id, owner, data) values (?, ?, ?, ?) on conflict (session_id, owner)"
        " do update set id = excluded.id, data = excluded.data",
        (tx.tick(), ensure_session(tx, session), spell_person(tx, person), text),
    )


def read_state(db: Tables, session: str, person: str) -> dict[str, Any] | None:
    """Return what an agent keeps of a person in a session; None: nothing."""
    data = _kept(db, "data from session_states", session, person)
    return None if data is None else msgspec.json.decode(data)


def put_summary(tx: Transaction, session: str, person: str, summary: str, covered: int) -> None:
    """Store the summary of what a person said in a session as its next version; no prompt that runs changes by it.

    Args:
        summary: not empty, at most 16 KiB; only that person reads it.
        covered: the number of messages that it sums up.
    """
    summary, covered = storable_value(summary, what="a summary"), item_count(covered, "messages_covered")
    if not summary.strip():
        raise InvalidInputError("A summary must not be empty; save one that says something.")
    session_id, owner = ensure_session(tx, session), spell_person(tx, person)
    older = tx.execute(
        "select id from session_summaries where session_id = ? and owner = ?", (session_id, owner)
    )
    tx.execute(
        "insert into session_summaries (id, session_id, owner, summary, covered, version, level)"
        " values (?, ?, ?, ?, ?, 1, ?) on conflict (session_id, owner) do update set id = excluded.id,"
        " summary = excluded.summary, covered = excluded.covered, version = version + 1",
        (tx.tick(), session_id, owner, summary, covered, LEVELS.index("private")),
    )
    tx.announce("session_summaries", [number for (number,) in older])


def read_summary(db: Tables, session: str, person: str) -> str | None:
    """Return the newest summary of what a person said in a session; None: there is none."""
    return _kept(db, "summary from session_summaries", session, person)


def _kept(db: Tables, what: str, session: str, person: str) -> str | None:
    sql = f"select {what} where session_id = {_SESSION} and owner = {_PERSON}"
    return next((text for (text,) in db.query(sql, topic(session, person))), None)
