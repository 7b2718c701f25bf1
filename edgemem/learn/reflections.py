"""Reflections: plain sentences about several memories of one readership, with an edge to each of them.

A reflection is a stored thought of type REFLECTION. It keeps its id while its sentence changes, goes with the first of its sources that is
erased (`store.erase`), and is made again of what is left. What somebody has put into the archive stays there, and is not learnt again; of
that, nothing but the id outlives a source.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.fence import clean, storable
from edgemem.scopes import name_key
from edgemem.store.erase.delete_rows import erase_record
from edgemem.store.graph import STORED_EDGES, STORED_THOUGHTS, put_row
from edgemem.store.rights import LEVELS
from edgemem.store.thoughts import change_thought, find_rows, put_thought, read_thoughts, visibility_of
from edgemem.thoughts import (
    ESSENCE_CHARS,
    EdgeRecord,
    EdgeType,
    KnowledgeSource,
    LifecycleStatus,
    Priority,
    ThoughtRecord,
    ThoughtType,
    utc,
)

if TYPE_CHECKING:
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction

SOURCE = "learn:"
"""How the source of a reflection begins, before the name of its learner."""
MOST_SOURCES = 64
"""The newest sources of a reflection that it has edges to."""

_MEMBERS = """
  select t.name, ifnull(e.target_id, '') from stored_thoughts t
  left join stored_edges e on e.source_id = t.name and e.type = 'CONSOLIDATED_FROM'
  where t.type = 'REFLECTION' and t.lifecycle = 'ACTIVE' and not t.pinned and t.priority <> 'P1'
    and (e.id is not null or t.source_type = 'DREAMING')
"""


class Readership(NamedTuple):
    """Who may read something: a level by its number, and the owner of what is private."""

    level: int
    owner: str | None

    @classmethod
    def from_rights(cls, level: int, owner: str | None) -> Readership:
        """Return who may read a row by its level and owner, who counts for what is private alone."""
        return cls(level, owner if LEVELS[level] == "private" else None)


class Reflection(NamedTuple):
    """A sentence about some memories."""

    name: str
    """What it is about; it stays when the sentence changes, and is one within a readership and a learner."""
    essence: str
    sources: tuple[str, ...]
    """Ids of thoughts, the newest first."""
    begin: float
    """From when on it holds, in seconds since the epoch."""
    metadata: dict[str, Any]


def reflection_id(learner: str, readership: Readership, name: str) -> str:
    """Return the id of a reflection."""
    text = f"{readership.level} {name_key(readership.owner or '')} {name}"
    return f"{learner}.{blake2b(text.encode(), digest_size=8).hexdigest()}"


def put_reflection(tx: Transaction, learner: str, readership: Readership, reflection: Reflection) -> bool:
    """Store a reflection, or change the one of its name; tell whether it is news.

    Nothing is stored where a source is gone or not of this readership, and where somebody has archived the reflection or has a thought of its id.
    """
    sources = reflection.sources[:MOST_SOURCES]
    rows = find_rows(tx, sources)
    if not sources or any(not _is_of(rows.get(source), readership) for source in sources):
        return False
    name = reflection_id(learner, readership, reflection.name)
    before = read_thoughts(tx, [name]).get(name)
    text = clean(storable(reflection.essence), max_chars=ESSENCE_CHARS)
    if before is not None and (
        before.thought_type is not ThoughtType.REFLECTION
        or before.lifecycle_status is not LifecycleStatus.ACTIVE
        or (before.content, before.consolidated_from) == (text, sources)
    ):
        return False
    stored = put_thought(
        tx,
        ThoughtRecord(
            thought_id=name,
            thought_type=ThoughtType.REFLECTION,
            essence=text,
            content=text,
            priority=Priority.P3 if before is None else before.priority,
            lifecycle_status=LifecycleStatus.ACTIVE,
            source=f"{SOURCE}{learner}",
            source_type=KnowledgeSource.DREAMING,
            consolidated_from=sources,
            confirmation_count=0 if before is None else before.confirmation_count,
            access_count=0 if before is None else before.access_count,
            visibility=visibility_of(LEVELS[readership.level], readership.owner),
            owner=readership.owner,
            valid_from=utc(reflection.begin, "valid_from"),
            pinned=before is not None and before.pinned,
            aloud=before is None or before.aloud,
            metadata={**reflection.metadata, "learner": learner, "name": reflection.name},
        ),
    )
    tx.execute("delete from stored_edges where source_id = ? and type = 'CONSOLIDATED_FROM'", (name,))
    for source in sources:
        edge = EdgeRecord(
            edge_id=f"{name}>{source}",
            from_thought_id=name,
            to_thought_id=source,
            edge_type=EdgeType.CONSOLIDATED_FROM,
            weight=1 / len(sources),  # its share of the evidence: a missing one is noticed
            source=KnowledgeSource.DREAMING,
        )
        put_row(tx, STORED_EDGES, edge, level=readership.level, owner=stored.owner)  # as all that it joins
    return True


def drop_reflections(tx: Transaction, ids: Iterable[str]) -> None:
    """Erase reflections that do not hold any more; one in the archive stays, so that it is not learnt again."""
    for name, thought in read_thoughts(tx, [*ids]).items():
        if thought.lifecycle_status is LifecycleStatus.ACTIVE:
            erase_record(tx, STORED_THOUGHTS, name)


def retire_orphans(database: Database) -> int:
    """Retire reflections none of whose sources is active, but for pinned ones and P1; return how many.

    Those of learning are erased, and may be learnt again; others go into the archive.
    """
    members: dict[str, set[str]] = {}
    for name, source in database.query(_MEMBERS):
        members.setdefault(name, set()).add(source)
    rows = find_rows(database, sorted({source for some in members.values() for source in some}))
    active = {source for source, row in rows.items() if row["lifecycle"] == LifecycleStatus.ACTIVE}
    orphans = [name for name, some in members.items() if active.isdisjoint(some)]

    def retire(tx: Transaction) -> None:
        for name, thought in read_thoughts(tx, orphans).items():
            if thought.source.startswith(SOURCE):
                drop_reflections(tx, [name])
            elif thought.lifecycle_status is LifecycleStatus.ACTIVE:
                change_thought(tx, name, {"lifecycle_status": LifecycleStatus.ARCHIVED})

    if orphans:
        database.write(retire)
    return len(orphans)


def _is_of(row: Any, readership: Readership) -> bool:
    """Tell whether a row is there, and of those who may read a reflection and nobody else."""
    theirs = None if row is None else Readership.from_rights(row["level"], row["owner"])
    return theirs is not None and (theirs.level, name_key(theirs.owner or "")) == (
        readership.level,
        name_key(readership.owner or ""),
    )
