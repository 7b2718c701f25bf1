"""Thoughts: those that are stored, under the ids of their callers, and the marks beside what is shown as one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import InvalidInputError, ThoughtNotFoundError
from edgemem.scopes import name_key
from edgemem.store.db.transaction import bound, in_batches, placeholders
from edgemem.store.edges import find_ends, record_of
from edgemem.store.graph import STORED_THOUGHTS
from edgemem.store.kinds import SHOWN
from edgemem.store.rights import LEVELS, drop_unused, spell
from edgemem.store.turns import current_cycle, lift_cycle
from edgemem.store.validation import as_text
from edgemem.thoughts import (
    LifecycleStatus,
    Priority,
    ThoughtRecord,
    ThoughtVisibility,
    check_transition,
    named,
    seconds,
    utc,
)

if TYPE_CHECKING:
    from edgemem.scopes import Level
    from edgemem.store.db.transaction import Tables, Transaction

OURS = re.compile(rf"({'|'.join((*SHOWN, 'note', 'bank', 'procedure', 'thought'))}):")
"""How an id of a record that is shown as a thought begins; no caller's id may."""

_COLUMNS = ", ".join(STORED_THOUGHTS.names)


def put_thought(tx: Transaction, thought: ThoughtRecord) -> ThoughtRecord:
    """Store a new thought, or another version under its id, and return it as it is stored; a higher cycle lifts the counter."""
    if OURS.match(thought.thought_id):
        raise InvalidInputError(
            f"The id {thought.thought_id!r:.80} looks like one of edgemem's own; give the thought another."
        )
    older = tx.execute("select id, created, owner from stored_thoughts where name = ?", (thought.thought_id,))
    now, number = tx.now(), tx.tick()
    row = {
        **_row_of(thought),
        "id": number,
        "created": seconds(thought.created_at) or (older[0][1] if older else now),
        "owner": None if thought.owner is None else spell(tx, thought.owner),
    }
    if thought.updated_cycle > current_cycle(tx):
        lift_cycle(tx, thought.updated_cycle)
    sets = ", ".join(f"{column} = excluded.{column}" for column in row if column != "name")
    tx.execute(
        f"insert into stored_thoughts ({', '.join(row)}) values (:{', :'.join(row)})"  # noqa: S608 - our own columns
        f" on conflict (name) do update set {sets}",
        row,
    )
    tx.announce(STORED_THOUGHTS.table, [old for old, *_ in older])
    drop_unused(tx, (owner for _, _, owner in older))
    return stored_thought(tx, thought.thought_id)


def stored_thought(db: Tables, thought_id: str) -> ThoughtRecord:
    """Return a stored thought; raise ThoughtNotFoundError where there is none."""
    rows = db.query(f"select {_COLUMNS} from stored_thoughts where name = ?", (thought_id,))  # noqa: S608 - our own
    if not rows:
        raise ThoughtNotFoundError(f"There is no stored thought {thought_id!r:.80}.")
    return thought_of(rows[0])


def find_thoughts(
    db: Tables, where: str = "1", values: dict[str, Any] | None = None, *, limit: int = -1, offset: int = 0
) -> list[ThoughtRecord]:
    """Return stored thoughts by a condition of ours, those of the highest cycle first."""
    rows = db.query(
        f"select {_COLUMNS} from stored_thoughts where {where}"  # noqa: S608 - our own constants
        " order by updated_cycle desc, id desc limit :limit offset :offset",
        {**(values or {}), "limit": limit, "offset": offset},
    )
    return [thought_of(row) for row in rows]


def count_thoughts(db: Tables, where: str, values: dict[str, Any]) -> int:
    """Return how many stored thoughts fulfil a condition of ours."""
    return int(db.query(f"select count(*) from stored_thoughts where {where}", values)[0][0])  # noqa: S608 - our own


def change_thought(tx: Transaction, thought_id: str, changes: dict[str, Any]) -> ThoughtRecord:
    """Write another version of a stored thought; a string of a status is held to the transitions as its name is."""
    before = stored_thought(tx, thought_id)
    if changes.get("thought_id", thought_id) != thought_id:
        raise InvalidInputError("A thought keeps its thought_id; store another one instead.")
    if "lifecycle_status" in changes:
        after = named(LifecycleStatus, changes["lifecycle_status"])
        check_transition(before.lifecycle_status, after)
        if after is not before.lifecycle_status:
            is_archived = after is LifecycleStatus.ARCHIVED
            changes = {
                "archived_at": utc(tx.now(), "archived_at") if is_archived else None,
                "archived_at_cycle": current_cycle(tx) if is_archived else None,
                **changes,
            }
    changes.setdefault("updated_cycle", max(before.updated_cycle, current_cycle(tx)))
    return put_thought(tx, before.evolve(**changes))


def confirm_thought(tx: Transaction, thought_id: str) -> ThoughtRecord:
    """Count that a stored thought was met again, and return it."""
    tx.execute("update stored_thoughts set confirmations = confirmations + 1 where name = ?", (thought_id,))
    return stored_thought(tx, thought_id)


def note_access(tx: Transaction, thought_id: str) -> bool:
    """Count that a stored thought was used; tell whether there is one."""
    tx.execute(
        "update stored_thoughts set accesses = accesses + 1, accessed = ? where name = ?",
        (tx.now(), thought_id),
    )
    return tx.changes > 0


def same_thought(db: Tables, thought: ThoughtRecord) -> str | None:
    """Return the id of a stored thought with the same content for the same readers; None: there is none."""
    rows = db.query(
        "select t.name from stored_thoughts t where substr(t.content, 1, 64) = substr(:content, 1, 64)"
        " and t.content is :content and t.level = :level and t.lifecycle <> 'ARCHIVED'"
        " and t.owner is (select name from names where key = :owner) order by t.id limit 1",
        {
            "content": thought.content,
            "level": LEVELS.index(thought.level),
            "owner": name_key(thought.owner or ""),
        },
    )
    return rows[0][0] if rows else None


def expired_thoughts(db: Tables, now: float, *, without: str | None = None) -> tuple[list[str], int]:
    """Return the ids of stored thoughts, but for one, that have expired and are not pinned, and how many pinned ones have."""
    rows = db.query(
        "select name, pinned from stored_thoughts where expires <= :now and name is not :without order by id",
        {"now": now, "without": without},
    )
    return [name for name, pinned in rows if not pinned], sum(pinned for _, pinned in rows)


def archive_thoughts(tx: Transaction, names: Iterable[str]) -> None:
    """Put stored thoughts that expire into the archive, without their expiry, so that they can be restored; those pinned stay."""
    for name in names:
        rows = tx.query(
            "select lifecycle from stored_thoughts where name = ? and expires is not null and not pinned",
            (name,),
        )
        if rows == [(LifecycleStatus.CREATED,)]:
            change_thought(tx, name, {"lifecycle_status": LifecycleStatus.ACTIVE})
        if rows:
            change_thought(tx, name, {"lifecycle_status": LifecycleStatus.ARCHIVED, "expires_at": None})


class Mark(msgspec.Struct, frozen=True):
    """What somebody set beside a record that is shown as a thought."""

    priority: Priority | None = None
    """None: P3."""
    pinned: bool = False
    aloud: bool = True
    expires_at: str | None = None
    metadata: dict[str, Any] = {}


def put_metadata(tx: Transaction, subject: str, metadata: dict[str, Any]) -> None:
    """Keep metadata in a record's mark, in place of what it had; an empty one changes nothing."""
    if metadata:
        kept = read_marks(tx, [subject]).get(subject, Mark())
        put_mark(tx, subject, msgspec.structs.replace(kept, metadata=metadata))


def announce_mark(tx: Transaction, subject: str) -> None:
    """Tell the index to look at a record again, whose mark has changed."""
    if record := record_of(subject):
        for kind in SHOWN[record[0]]:
            rows = tx.query(f"select id from {kind.table} where id = ?", record[1:])  # noqa: S608 - ours
            tx.announce(kind.table, [number for (number,) in rows])


def put_mark(tx: Transaction, subject: str, mark: Mark) -> None:
    """Set a record's mark, as private as the record is; one that says nothing is no row."""
    announce_mark(tx, subject)
    if mark == Mark():
        tx.execute("delete from marks where subject = ?", (subject,))
        return
    level, owner = find_ends(tx, [subject])[subject]
    tx.execute(
        "insert into marks (id, subject, priority, pinned, aloud, expires, metadata, level, owner)"
        " values (?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (subject) do update set id = excluded.id,"
        " priority = excluded.priority, pinned = excluded.pinned, aloud = excluded.aloud, expires = excluded.expires,"
        " metadata = excluded.metadata, level = excluded.level, owner = excluded.owner",
        (
            tx.tick(), subject, mark.priority, mark.pinned, mark.aloud, seconds(mark.expires_at),
            as_text(mark.metadata) if mark.metadata else None, level, owner,
        ),
    )  # fmt: skip


def read_marks(db: Tables, subjects: Sequence[str]) -> dict[str, Mark]:
    """Return the marks of those records that have one."""
    marks: dict[str, Mark] = {}
    for some in in_batches(subjects):
        rows = db.query(
            "select subject, priority, pinned, aloud, expires, metadata from marks"  # noqa: S608 - our own marks
            f" where subject in ({placeholders(some)})",
            bound(some),
        )
        marks |= {
            subject: Mark(
                None if priority is None else Priority(priority), bool(pinned), bool(aloud), utc(expires, "expires_at"),
                msgspec.json.decode(metadata) if metadata else {},
            )
            for subject, priority, pinned, aloud, expires, metadata in rows
        }  # fmt: skip
    return marks


def ended_rows(db: Tables, at: float, *, archived: bool) -> list[int]:
    """Return the ids of records that have expired by a moment, and of stored thoughts that have ended; `archived`: archived ones do not count."""
    rows = db.query(
        "select cast(substr(subject, instr(subject, ':') + 1) as integer) from marks where expires <= :at union"
        " select id from stored_thoughts where expires <= :at union select id from stored_thoughts where valid_to <= :at"
        " union select id from stored_thoughts where lifecycle = 'ARCHIVED' and not :archived",
        {"at": at, "archived": archived},
    )
    return [number for (number,) in rows]


def _row_of(thought: ThoughtRecord) -> dict[str, Any]:
    return {
        "name": thought.thought_id,
        "type": thought.thought_type,
        "essence": thought.essence,
        "content": thought.content,
        "priority": thought.priority,
        "lifecycle": thought.lifecycle_status,
        "source": thought.source,
        "source_type": thought.source_type,
        "confidence": thought.confidence,
        "created_cycle": thought.created_cycle,
        "updated_cycle": thought.updated_cycle,
        "confirmations": thought.confirmation_count,
        "accesses": thought.access_count,
        "accessed": seconds(thought.last_accessed_at),
        "valid_from": seconds(thought.valid_from),
        "valid_to": seconds(thought.valid_until),
        "archived": seconds(thought.archived_at),
        "archived_cycle": thought.archived_at_cycle,
        "members": as_text(thought.consolidated_from) if thought.consolidated_from else None,
        "pinned": thought.pinned,
        "aloud": thought.aloud,
        "expires": seconds(thought.expires_at),
        "metadata": as_text(thought.metadata) if thought.metadata else None,
        "level": LEVELS.index(thought.level),
    }


def thought_of(row: Sequence[Any]) -> ThoughtRecord:
    """Return the record of a row with all columns, in their order."""
    given = dict(zip(STORED_THOUGHTS.names, row, strict=True))
    level, owner = LEVELS[given["level"]], given["owner"]
    return ThoughtRecord(
        thought_id=given["name"],
        thought_type=given["type"],
        essence=given["essence"],
        content=given["content"],
        priority=given["priority"],
        lifecycle_status=given["lifecycle"],
        source=given["source"],
        created_cycle=given["created_cycle"],
        updated_cycle=given["updated_cycle"],
        confidence=given["confidence"],
        source_type=given["source_type"],
        confirmation_count=given["confirmations"],
        consolidated_from=tuple(msgspec.json.decode(given["members"])) if given["members"] else (),
        visibility=visibility_of(level, owner),
        owner=owner,
        access_count=given["accesses"],
        last_accessed_at=utc(given["accessed"], "last_accessed_at"),
        created_at=utc(given["created"], "created_at"),
        updated_at=utc(given["id"] / 1e6, "updated_at"),
        expires_at=utc(given["expires"], "expires_at"),
        valid_from=utc(given["valid_from"], "valid_from"),
        valid_until=utc(given["valid_to"], "valid_until"),
        metadata=msgspec.json.decode(given["metadata"]) if given["metadata"] else {},
        pinned=bool(given["pinned"]),
        aloud=bool(given["aloud"]),
        archived_at_cycle=given["archived_cycle"],
        archived_at=utc(given["archived"], "archived_at"),
    )


def visibility_of(level: Level, owner: str | None) -> ThoughtVisibility:
    """Return a level by Engrava's name; what is private to somebody is selective, to nobody private."""
    if level == "private" and owner is None:
        return ThoughtVisibility.PRIVATE
    return ThoughtVisibility.PUBLIC if level == "shared" else ThoughtVisibility.SELECTIVE
