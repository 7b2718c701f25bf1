"""Procedures: sequences of tool calls that did something before, and how often they did.

A procedure replaces the older one of its id. Where its steps are the same, counts never shrink by that, so an outcome recorded
meanwhile is not lost; other steps are another way, and are counted anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.fence import check_key
from edgemem.records import RECENT, Procedure, ProcedureStep
from edgemem.store.episodes import MAX_PAYLOAD_BYTES, checked_name, checked_texts
from edgemem.store.facts import storable_value
from edgemem.store.kinds import PROCEDURES
from edgemem.store.rights import (
    LEVELS,
    canonical_owner_and_heard,
    drop_unused,
    level_and_owner,
    level_of_episode,
    reading_rule,
)
from edgemem.store.turns import answer_of
from edgemem.store.validation import (
    HEARD,
    as_text,
    checked_count,
    checked_heard,
    checked_object,
    checked_text,
    heard_columns,
    heard_of,
    item_count,
    lookup,
)

if TYPE_CHECKING:
    from edgemem.records import Forgotten, Reader, Recalled
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction
    from edgemem.store.erase.eraser import Eraser

MOST_STEPS = 64
LEAST = 0.08
"""How relevant a procedure must be, 0 to 1, or it is not suggested, however often it succeeded."""
_CONSIDERED = 16  # most relevant ones, among which those that succeed more come first
_ID = "the id of a procedure"
_COLUMNS = (
    "name, title, description, trigger, steps, successes, failures, tags, metadata, level, owner, session, turn,"
    f" recent, {HEARD}"
)

read_steps = msgspec.json.Decoder(tuple[ProcedureStep, ...]).decode


class Procedures:
    """The procedures of a memory, with `Recall.procedures` as `recall`. Without a reader, its methods are the operator's view."""

    def __init__(self, database: Database, *, recall: Callable[..., list[Recalled]], eraser: Eraser) -> None:
        self._database = database
        self._recall = recall
        self._eraser = eraser

    def store(self, procedure: Procedure) -> None:
        """Store a procedure in place of an older one of its id, keeping the higher one of each count where the steps are the same.

        One that is too long is refused.
        Without a level, the household may read what a recognised speaker taught (`heard`), and anybody the rest.
        """
        self._database.write(lambda tx: put_procedure(tx, procedure))

    def suggest(
        self,
        query: str,
        *,
        top_k: int = 3,
        reader: Reader | None = None,
        tools: Collection[str] | None = None,
    ) -> list[Procedure]:
        """Return at most `top_k` procedures for a task, best first: by relevance times how likely they are to succeed.

        `reader` will hear of them; None: the operator. What needs a tool that is not among `tools` is left out; None: all exist.
        """
        most = item_count(top_k, "top_k")
        fitting = self.fitting(query, reader=reader, tools=tools, most=max(most, _CONSIDERED))
        return [procedure for _, _, procedure in fitting][:most]

    def fitting(
        self,
        query: str,
        *,
        reader: Reader | None,
        tools: Collection[str] | None,
        most: int = _CONSIDERED,
        deadline_s: float | None = None,
    ) -> list[tuple[float, int, Procedure]]:
        """Return the `most` procedures that fit, best first: relevance (0 to 1), row id and procedure (one pass by a deadline)."""
        items = self._recall(
            checked_text(query, "the query"), reader=reader, k=most, min_score=LEAST, deadline_s=deadline_s
        )
        rows = {f"i{n}": int(item.id) for n, item in enumerate(items)}
        known = self._read(f"id in (:{', :'.join(rows)})", rows, reader) if rows else {}
        fitting = [
            (item.score * known[row].expected_success, item.score, row)
            for item in items
            if (row := int(item.id)) in known
            and (tools is None or {step.tool_name for step in known[row].steps}.issubset(tools))
        ]
        return [(relevance, row, known[row]) for _, relevance, row in sorted(fitting, reverse=True)]

    def record_outcome(self, proc_id: str, *, success: bool) -> bool:
        """Count a success or a failure; tell whether there is a procedure of this id."""
        return self._database.write(lambda tx: record_outcome(tx, proc_id, success=success))

    def get(self, proc_id: str, *, reader: Reader | None = None) -> Procedure | None:
        """Return a procedure by its id; None: there is none that the reader may read."""
        return next(iter(self._read("name = :name", {"name": lookup(proc_id, _ID)}, reader).values()), None)

    def list(self, n: int = 100, *, reader: Reader | None = None) -> list[Procedure]:
        """Return those that were stored last, newest first."""
        most = {"n": checked_count(n, "the number of procedures")}
        return [*self._read("1", most, reader, "order by id desc limit :n").values()]

    def count(self, *, reader: Reader | None = None) -> int:
        """Return how many there are."""
        rule, bound = reading_rule(reader)
        return int(self._database.query(f"select count(*) from procedures where {rule}", bound)[0][0])  # noqa: S608 - ours

    def forget(self, proc_id: str) -> Forgotten:
        """Erase a procedure, from every file too; the result is true if there was one, as of `Memory.forget`."""
        return self._eraser.record(PROCEDURES, proc_id)

    def _read(
        self, where: str, values: dict[str, Any], reader: Reader | None, order: str = ""
    ) -> dict[int, Procedure]:
        rule, bound = reading_rule(reader)
        rows = self._database.query(
            f"select {_COLUMNS}, id from procedures where {where} and {rule} {order}",  # noqa: S608 - our own constants
            {**values, **bound},
        )
        return {row[-1]: _procedure_of(row[:-1]) for row in rows}


def put_procedure(tx: Transaction, procedure: Procedure) -> int:
    """Store a procedure as `Procedures.store` does, and return the id of its row."""
    if not isinstance(procedure, Procedure):
        raise InvalidInputError(f"A procedure must be a Procedure, not {type(procedure).__name__}.")
    check_key(procedure.id, what=_ID)
    title = storable_value(procedure.name, what="the name of a procedure")
    description = storable_value(procedure.description, what="the description of a procedure")
    trigger = storable_value(procedure.trigger, what="the trigger of a procedure")
    steps = _checked_steps(procedure.steps)
    tags = checked_texts(procedure.tags, "the tags of a procedure")
    metadata = checked_object(procedure.metadata, "the metadata of a procedure", MAX_PAYLOAD_BYTES)
    heard = checked_heard(procedure.heard)
    level, owner = procedure.level, procedure.owner
    if level is None and procedure.turn is not None:  # made of a turn, it is as private as its answer
        level, whose = answer_of(tx, procedure.session, procedure.turn) or (level, None)
        owner = whose if level == "private" else owner
    number, owner = level_and_owner("", level_of_episode(level, heard), owner, heard)
    owner, heard = canonical_owner_and_heard(tx, owner, heard)
    successes = item_count(procedure.success_count, "success_count")
    failures = item_count(procedure.failure_count, "failure_count")
    session = checked_name(procedure.session, what="the session of a procedure")
    older = tx.execute(
        "delete from procedures where name = ? returning id, owner, speaker, steps, successes, failures, recent",
        (procedure.id,),
    )
    recent = ""
    for older_id, *people, before, worked, failed, ended in older:
        if msgspec.json.decode(before) == msgspec.json.decode(steps):
            successes, failures, recent = max(successes, worked), max(failures, failed), ended
        tx.announce("procedures", [older_id])
        drop_unused(tx, people)
    row_id, listed = tx.tick(), as_text(tags) if tags else None
    row = (procedure.id, title, description, trigger, steps, successes, failures, listed)
    rest = (as_text(metadata) if metadata else None, number, owner, session, procedure.turn, recent)
    tx.insert(f"procedures ({_COLUMNS}, id)", (*row, *rest, *heard_columns(heard), row_id))
    return row_id


def record_outcome(tx: Transaction, procedure_id: str, *, success: bool, private: bool = False) -> bool:
    """Count a success or a failure of a procedure; tell whether there is one of this id, with `private` among private ones."""
    column, mark = ("successes", "+") if success else ("failures", "-")
    tx.execute(
        f"update procedures set {column} = {column} + 1, recent = substr(recent || ?, ?)"  # noqa: S608 - our own columns
        " where name = ? and level >= ?",
        (mark, -RECENT, lookup(procedure_id, _ID), LEVELS.index("private") if private else 0),
    )
    return tx.changes > 0


def _procedure_of(row: Sequence[Any]) -> Procedure:
    *words, steps, successes, failures, tags, metadata, level, owner, session, turn, recent = row[:14]
    tags = tuple(msgspec.json.decode(tags)) if tags else ()
    done = read_steps(steps), successes, failures, tags, msgspec.json.decode(metadata) if metadata else {}
    return Procedure(*(*words, *done, LEVELS[level], owner, heard_of(row[14:]), session or "", turn, recent))


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
        given = checked_object(step.args_template, "the arguments of a step", MAX_PAYLOAD_BYTES)
        parts = {"tool_name": step.tool_name, "args_template": given, "expected_outcome": expected}
        kept.append({name: part for name, part in parts.items() if part})
    text = as_text(kept)
    if len(text) > MAX_PAYLOAD_BYTES:
        raise InvalidInputError(f"A procedure's steps may have {MAX_PAYLOAD_BYTES:,} bytes; shorten them.")
    return text
