"""Procedures: sequences of tool calls that did something before, and how often they did.

One that is stored again under its id takes the place of the older one; its counts never shrink by that, so that an outcome
which was recorded meanwhile is not lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.fence import check_key
from edgemem.records import Procedure, ProcedureStep
from edgemem.store.episodes import MAX_PAYLOAD_BYTES, checked_name, checked_payload, checked_texts
from edgemem.store.facts import storable_value
from edgemem.store.rights import (
    LEVELS,
    drop_unused,
    level_and_owner,
    level_of_episode,
    reading_rule,
    spell_both,
)
from edgemem.store.validation import (
    HEARD,
    as_text,
    checked_count,
    checked_heard,
    heard_columns,
    heard_of,
    item_count,
    lookup,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.records import Reader
    from edgemem.store.db.transaction import Tables, Transaction

MOST_STEPS = 64
_COLUMNS = (
    "name, title, description, trigger, steps, successes, failures, tags, metadata, level, owner, session, turn,"
    f" {HEARD}"
)

read_steps = msgspec.json.Decoder(tuple[ProcedureStep, ...]).decode


def put_procedure(tx: Transaction, procedure: Procedure) -> int:
    """Store a procedure in place of an older one of its id, and return the id of its row.

    Without a level, the household may read what a recognised speaker taught, and anybody the rest.

    Raises:
        InvalidInputError: it is none, a part of it is too long, or it has more than `MOST_STEPS` steps.
    """
    if not isinstance(procedure, Procedure):
        raise InvalidInputError(f"A procedure must be a Procedure, not {type(procedure).__name__}.")
    check_key(procedure.id, what="the id of a procedure")
    texts = [
        storable_value(text, what=f"the {what} of a procedure")
        for what, text in (
            ("name", procedure.name),
            ("description", procedure.description),
            ("trigger", procedure.trigger),
        )
    ]
    steps = _checked_steps(procedure.steps)
    tags = checked_texts(procedure.tags, "the tags of a procedure")
    metadata = checked_payload(procedure.metadata).decode() if procedure.metadata else None
    heard = checked_heard(procedure.heard)
    level, owner = level_and_owner("", level_of_episode(procedure.level, heard), procedure.owner, heard)
    owner, heard = spell_both(tx, owner, heard)
    counts = [
        item_count(procedure.success_count, "success_count"),
        item_count(procedure.failure_count, "failure_count"),
    ]
    older = tx.execute(
        "delete from procedures where name = ? returning id, owner, speaker, successes, failures",
        (procedure.id,),
    )
    for row_id, *people, successes, failures in older:
        counts = [max(counts[0], successes), max(counts[1], failures)]
        tx.announce("procedure", [row_id])
        drop_unused(tx, people)
    session = checked_name(procedure.session, what="the session of a procedure")
    row = (procedure.id, *texts, steps, *counts, as_text(tags) if tags else None, metadata)
    row_id = tx.tick()
    tx.execute(
        f"insert into procedures ({_COLUMNS}, id) values ({', '.join('?' * 20)})",  # noqa: S608 - our own constant
        (*row, level, owner, session, procedure.turn, *heard_columns(heard), row_id),
    )
    return row_id


def record_outcome(tx: Transaction, procedure_id: str, *, success: bool) -> bool:
    """Count a success or a failure of a procedure; tell whether there is one of this id."""
    column = "successes" if success else "failures"
    tx.execute(
        f"update procedures set {column} = {column} + 1 where name = ?",  # noqa: S608 - our own columns
        (lookup(procedure_id, "the id of a procedure"),),
    )
    return tx.changes > 0


def read_procedure(db: Tables, procedure_id: str, *, reader: Reader | None = None) -> Procedure | None:
    """Return a procedure by its id; None: there is none that the reader may read."""
    name = lookup(procedure_id, "the id of a procedure")
    return next(iter(_read(db, "name = :name", {"name": name}, reader).values()), None)


def read_rows(db: Tables, rows: Sequence[int], *, reader: Reader | None) -> dict[int, Procedure]:
    """Return the procedures of some rows that the reader may read, by the ids of these."""
    names = {f"i{n}": row for n, row in enumerate(rows)}
    return _read(db, f"id in (:{', :'.join(names)})", names, reader) if rows else {}


def list_procedures(db: Tables, n: int = 100, *, reader: Reader | None = None) -> list[Procedure]:
    """Return the procedures that were stored last, newest first."""
    most = {"n": checked_count(n, "the number of procedures")}
    return list(_read(db, "1", most, reader, "order by id desc limit :n").values())


def count_procedures(db: Tables, *, reader: Reader | None = None) -> int:
    """Return how many there are that the reader may read."""
    rule, bound = reading_rule(reader)
    return int(db.query(f"select count(*) from procedures where {rule}", bound)[0][0])  # noqa: S608 - our own constants


def procedure_text(trigger: str, title: str, description: str, tags: str | None) -> str:
    """Return what a procedure is found by: what is asked for when it fits, its name, what it does, and its tags."""
    words = (trigger, title, description, ", ".join(msgspec.json.decode(tags) if tags else ()))
    return ". ".join(filter(None, words))


def blank_steps(steps: str) -> str:
    """Return the JSON of steps without what their tools were given: the names of the arguments stay."""
    blank = [
        msgspec.structs.replace(step, args_template=dict.fromkeys(step.args_template, ""))
        for step in read_steps(steps)
    ]
    return as_text(blank)


def _read(
    db: Tables, where: str, values: dict[str, Any], reader: Reader | None, order: str = ""
) -> dict[int, Procedure]:
    rule, bound = reading_rule(reader)
    rows = db.query(
        f"select {_COLUMNS}, id from procedures where {where} and {rule} {order}",  # noqa: S608 - our own constants
        {**values, **bound},
    )
    return {row[-1]: _procedure_of(row[:-1]) for row in rows}


def _procedure_of(row: tuple[Any, ...]) -> Procedure:
    name, title, description, trigger, steps, successes, failures, tags, metadata, level, owner = row[:11]
    session, turn, *heard = row[11:]
    return Procedure(
        name,
        title,
        description,
        trigger,
        read_steps(steps),
        successes,
        failures,
        tuple(msgspec.json.decode(tags)) if tags else (),
        msgspec.json.decode(metadata) if metadata else {},
        LEVELS[level],
        owner,
        heard_of(heard),
        session or "",
        turn,
    )


def _checked_steps(steps: Sequence[ProcedureStep]) -> str:
    if len(steps) > MOST_STEPS:
        raise InvalidInputError(
            f"A procedure may have {MOST_STEPS} steps, not {len(steps):,}; split it into several."
        )
    kept = []
    for step in steps:
        if not isinstance(step, ProcedureStep):
            raise InvalidInputError(f"A step must be a ProcedureStep, not {type(step).__name__}.")
        check_key(step.tool_name, what="the tool of a step")
        expected = storable_value(step.expected_outcome, what="the expected outcome of a step")
        given = msgspec.json.decode(checked_payload(step.args_template))
        kept.append(ProcedureStep(step.tool_name, given, expected))
    text = as_text(kept)
    if len(text) > MAX_PAYLOAD_BYTES:
        raise InvalidInputError(
            f"The steps of a procedure may have {MAX_PAYLOAD_BYTES:,} bytes; shorten them."
        )
    return text
