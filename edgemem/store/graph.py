"""Graph: the tables of stored thoughts, edges and marks, and the triggers by which edges and marks go with what they are about.

A stored thought has the id that its caller gave it. All else is shown as a thought under `kind:id` (`kinds.SHOWN`), without a row
here: a mark holds what somebody set beside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from edgemem.store.declaration import ID, LEVEL, OWNER, Column, Kind
from edgemem.thoughts import EdgeType, KnowledgeSource, LifecycleStatus, Priority, ThoughtType

_MARKED = (
    Column("pinned", "integer not null default 0", shape=bool),
    Column("aloud", "integer not null default 1", shape=bool),
    Column("expires", "real", "time"),
    Column("metadata", "text", "json", shape=dict[str, Any]),
)

STORED_THOUGHTS = Kind(
    "stored_thoughts",
    "thought",
    # name: the caller's id. A thought that changes gets a new row id; its counts change in place. members: what it was made of.
    (
        ID,
        Column("name", "text not null unique"),
        Column("type", "text not null", shape=ThoughtType),
        Column("essence", "text not null", "value"),
        Column("content", "text not null", "text"),
        Column("priority", "text not null", shape=Priority),
        Column("lifecycle", "text not null", shape=LifecycleStatus),
        Column("source", "text not null", "text"),
        Column("source_type", "text not null", shape=KnowledgeSource),
        Column("confidence", "real"),
        Column("created_cycle", "integer not null"),
        Column("updated_cycle", "integer not null"),
        Column("confirmations", "integer not null default 0", "count"),
        Column("accesses", "integer not null default 0", "count"),
        Column("accessed", "real", "time"),
        Column("created", "real not null", "time"),
        Column("valid_from", "real", "time"),
        Column("valid_to", "real", "time"),
        Column("archived", "real", "time"),
        Column("archived_cycle", "integer"),
        Column("members", "text", "json", shape=tuple[str, ...]),
        *_MARKED,
        LEVEL,
        OWNER,
    ),
    extras=(
        "create index stored_thoughts_by_cycle on stored_thoughts (updated_cycle)",
        "create index stored_thoughts_by_content on stored_thoughts (substr(content, 1, 64))",
        "create index stored_thoughts_by_source on stored_thoughts (source, type)",
        "create index stored_thoughts_by_end on stored_thoughts (expires) where expires is not null",
    ),
    place="r.name",
    doc="thought",
    found_by=("essence", "content"),
    line="thought",
    unique=("name",),
    counted="thoughts",
)

STORED_EDGES = Kind(
    "stored_edges",
    "edge",
    # Its ends are ids of thoughts, stored or shown. Its level and owner are its own: it is read by who may read both ends too.
    (
        ID,
        Column("name", "text not null unique"),
        Column("source_id", "text not null"),
        Column("target_id", "text not null"),
        Column("type", "text not null", shape=EdgeType),
        Column("weight", "real not null"),
        Column("created_cycle", "integer not null"),
        Column("source_type", "text not null", shape=KnowledgeSource),
        Column("valid_from", "real", "time"),
        Column("valid_to", "real", "time"),
        Column("metadata", "text", "json", shape=dict[str, Any]),
        LEVEL,
        OWNER,
    ),
    ("unique (source_id, target_id, type)",),
    extras=("create index stored_edges_by_target on stored_edges (target_id)",),
    place="r.name",
    line="edge",
    unique=("source_id", "target_id", "type"),
    counted="edges",
)

MARKS = Kind(
    "marks",
    "mark",
    # What somebody set beside a record that is shown as a thought. subject: its id; level and owner: the record's.
    (
        ID,
        Column("subject", "text not null unique"),
        Column("priority", "text", shape=Priority),
        *_MARKED,
        LEVEL,
        OWNER,
    ),
    extras=("create index marks_by_end on marks (expires) where expires is not null",),
    place="r.subject",
    line="mark",
    unique=("subject",),
)

_UNLINKED = """
  create trigger {table}_unlinked after delete on {table} begin
    delete from stored_edges where source_id = {name} or target_id = {name};
    delete from marks where subject = {name};
  end
"""
_RELINKED = """
  create trigger {table}_relinked after update of id on {table} when new.id <> old.id begin
    update stored_edges set source_id = '{shown}:' || new.id where source_id = {name};
    update stored_edges set target_id = '{shown}:' || new.id where target_id = {name};
    update marks set subject = '{shown}:' || new.id where subject = {name};
  end
"""


def follow_rows(shown: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the triggers by which edges and marks go with a row, and follow it to another id.

    Args:
        shown: tables whose rows are shown as thoughts, each behind the first part of such an id.
    """
    triggers = [_UNLINKED.format(table=STORED_THOUGHTS.table, name="old.name")]
    for first, table in shown:
        name = f"'{first}:' || old.id"
        triggers += [
            template.format(table=table, name=name, shown=first) for template in (_UNLINKED, _RELINKED)
        ]
    return tuple(triggers)
