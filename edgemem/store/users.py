"""Users: the people that an agent knows: their goals and phase, what each said in a session, and what it keeps of them there.

All of it is a person's own: nobody else reads it, and it goes with them. A topic is a session as one of its speakers sees it:
others' words are no part of it. Each message has its own transaction; one of the user begins a turn, which the next ones join.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.fence import check_key
from edgemem.records import Heard, Turn
from edgemem.store import messages
from edgemem.store.facts import storable_value
from edgemem.store.rights import LEVELS, SPELLED, person_key, spell_person
from edgemem.store.turns import LIVE, commit_turn, ensure_session
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


class Goal(msgspec.Struct, frozen=True):
    """What a person is after."""

    person: str
    name: str  # its id for callers
    title: str
    data: dict[str, Any]  # the rest of its fields, such as `target_amount`
    changed_at: float


def put_goal(tx: Transaction, person: str, name: str, title: str, data: dict[str, Any]) -> None:
    """Store a goal in place of the person's older one of the same name: its title of 16 KiB, and 4 kB of JSON."""
    check_key(name, what="the id of a goal")
    title, (_, text) = storable_value(title, what="the title of a goal"), checked_json(data, "a goal")
    owner = spell_person(tx, person)
    rows = tx.execute("select id, title, data from goals where owner = ? and name = ?", (owner, name))
    if rows and rows[0][1:] == (title, text):
        return
    # Under a new id it is a new thing to recall.
    tx.execute(
        "insert into goals (id, owner, name, title, data, level) values (?, ?, ?, ?, ?, ?) on conflict (owner, name)"
        " do update set id = excluded.id, title = excluded.title, data = excluded.data",
        (tx.tick(), owner, name, title, text, LEVELS.index("private")),
    )
    tx.announce("goals", [row[0] for row in rows])


def read_goals(db: Tables, *, person: str | None = None, name: str | None = None) -> list[Goal]:
    """Return goals, the newest first; only those of a person, or of a name."""
    rows = db.query(
        "select owner, name, title, data, id from goals"  # noqa: S608 - our own constants
        f" where (:person is null or owner = {_PERSON}) and (:name is null or name = :name) order by id desc",
        {
            "person": None if person is None else person_key(person),
            "name": None if name is None else lookup(name),
        },
    )
    return [
        Goal(owner, name_, title, msgspec.json.decode(data), number / 1e6)
        for owner, name_, title, data, number in rows
    ]


def put_phase(tx: Transaction, person: str, phase: str, notes: str) -> None:
    """Store in which phase a person is, in place of the older one; each text has at most 16 KiB."""
    phase, notes = storable_value(phase, what="a phase"), storable_value(notes, what="the notes of a phase")
    tx.execute(
        "insert into phases (id, owner, phase, notes) values (?, ?, ?, ?) on conflict (owner)"
        " do update set id = excluded.id, phase = excluded.phase, notes = excluded.notes",
        (tx.tick(), spell_person(tx, person), phase, notes),
    )


def read_phase(db: Tables, person: str) -> tuple[str, str] | None:
    """Return the phase of a person, and its notes; None: none was stored."""
    sql = f"select phase, notes from phases where owner = {_PERSON}"  # noqa: S608 - our own
    rows = db.query(sql, {"person": person_key(person)})
    return rows[0] if rows else None


def ensure_user(tx: Transaction, name: str) -> str:
    """Keep somebody among the users; return their name as it was first written."""
    name = spell_person(tx, name)
    tx.execute("insert or ignore into users (id, name) values (?, ?)", (tx.tick(), name))
    return name


def user_since(db: Tables, name: str) -> float | None:
    """Return when somebody became a user, seconds since the epoch; None: they are none."""
    rows = db.query(f"select id from users where name = {_PERSON}", {"person": person_key(name)})  # noqa: S608 - ours
    return rows[0][0] / 1e6 if rows else None


def topic(session: str, person: str) -> dict[str, Any]:
    """Return the values of a statement that looks for the records of a person in a session."""
    return {"session": lookup(session, "a topic"), "person": person_key(person)}


def append_message(
    tx: Transaction, session: str, person: str, message: StoredMessage, *, level: Level = "household"
) -> None:
    """Store a message that came from a person, or was for them.

    Any but the user's joins the session's newest turn, if that is this person's; else a turn of a level begins.
    """
    name = spell_person(tx, person)
    session_id = ensure_session(tx, session)
    newest = tx.execute(
        "select n, speaker from turns where session_id = ? order by n desc limit 1", (session_id,)
    )
    n, speaker = newest[0] if newest else (-1, None)
    if message.role == "user" or speaker != name:
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
    """Store the summary (of 16 KiB) of `covered` messages of a person in a session, for them alone; no running prompt changes."""
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
