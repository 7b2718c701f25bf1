"""Goals: the people that an agent knows, what they are after, and in which phase each of them is.

All of it is a person's own: nobody else reads it, and it goes with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.fence import check_key
from edgemem.store.facts import storable_value
from edgemem.store.rights import LEVELS, SPELLED, person_key, reading_rule, spell_person
from edgemem.store.validation import checked_json, lookup

if TYPE_CHECKING:
    from edgemem.records import Reader
    from edgemem.store.db.transaction import Tables, Transaction

_PERSON = SPELLED.format(key=":person")


class Goal(msgspec.Struct, frozen=True):
    """What a person is after."""

    person: str
    name: str
    """Its id for callers."""
    title: str
    data: dict[str, Any]
    """The rest of its fields, such as `target_amount`."""
    changed_at: float


def put_goal(tx: Transaction, person: str, name: str, title: str, data: dict[str, Any]) -> None:
    """Store a goal in place of the person's older one of the same name.

    Args:
        title: at most 16 KiB.
        data: what JSON can hold in 4 kB.
    """
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


def read_goals(
    db: Tables, *, person: str | None = None, name: str | None = None, reader: Reader | None = None
) -> list[Goal]:
    """Return goals, the newest first.

    Args:
        person: only theirs.
        name: only one of this name.
    """
    rule, values = reading_rule(reader)
    if person is not None:
        rule, values = f"{rule} and owner = {_PERSON}", {**values, "person": person_key(person)}
    if name is not None:
        rule, values = f"{rule} and name = :name", {**values, "name": lookup(name)}
    rows = db.query(
        f"select owner, name, title, data, id from goals where {rule} order by id desc",  # noqa: S608 - our own constants
        values,
    )
    return [
        Goal(owner, name_, title, msgspec.json.decode(data), number / 1e6)
        for owner, name_, title, data, number in rows
    ]


def goal_text(title: str, data: dict[str, Any]) -> str:
    """Return a goal as people read it, by its title and the rest of its fields."""
    target, phase = data.get("target_amount"), data.get("phase")
    reached = "" if target is None else f", {data.get('current_amount', 0)} of {target}"
    return f"{title}{reached}{f' ({phase})' if phase else ''}"


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
    rows = db.query(
        f"select phase, notes from phases where owner = {_PERSON}",  # noqa: S608 - our own
        {"person": person_key(person)},
    )
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
