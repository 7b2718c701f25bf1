"""Graph: the tables of stored thoughts, edges and marks, and the triggers by which edges and marks go with what they are about.

A stored thought has the id that its caller gave it. All else is shown as a thought under `kind:id` (`kinds.SHOWN`), without a row
here: a mark holds what somebody set beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.store.declaration import ID, LEVEL, OWNER, Column, Kind
from edgemem.store.validation import as_text
from edgemem.thoughts import EdgeType, KnowledgeSource, LifecycleStatus, Priority, ThoughtType, seconds

if TYPE_CHECKING:
    from edgemem.store.db.transaction import Transaction

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
        Column("created", "real not null", "time"),
        Column("accessed", "real", "time"),
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
        "create index stored_thoughts_by_validity on stored_thoughts (valid_to) where valid_to is not null",
        "create index stored_thoughts_archived on stored_thoughts (id) where lifecycle = 'ARCHIVED'",
        "create index stored_thoughts_unsaid on stored_thoughts (name) where aloud = 0",
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
    extras=(
        "create index marks_by_end on marks (expires) where expires is not null",
        "create index marks_dated on marks (subject, metadata) where instr(metadata, '\"at\":')",
        "create index marks_unsaid on marks (subject) where aloud = 0",
    ),
    place="r.subject",
    line="mark",
    unique=("subject",),
)

_FIELDS: Mapping[str, Mapping[str, str]] = {
    "stored_thoughts": {
        "name": "thought_id", "type": "thought_type", "lifecycle": "lifecycle_status", "confirmations": "confirmation_count",
        "accesses": "access_count", "created": "created_at", "accessed": "last_accessed_at", "valid_to": "valid_until",
        "archived": "archived_at", "archived_cycle": "archived_at_cycle", "members": "consolidated_from",
        "expires": "expires_at",
    },
    "stored_edges": {
        "name": "edge_id", "source_id": "from_thought_id", "target_id": "to_thought_id", "type": "edge_type",
        "source_type": "source", "valid_to": "valid_until",
    },
    "marks": {"expires": "expires_at"},
}  # fmt: skip
"""By table and column the field of the record, where it has another name."""


def fields_of(kind: Kind, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a record by a row's columns that hold something, all but its id and its rights."""
    names, fields = _FIELDS[kind.table], {}
    for column in kind.columns:
        value = row.get(column.name)
        if value is None or column.name in ("id", "level", "owner"):
            continue
        if column.role == "json":
            value = msgspec.json.decode(value)
        fields[names.get(column.name, column.name)] = bool(value) if column.shape is bool else value
    return fields


def put_row(tx: Transaction, kind: Kind, record: msgspec.Struct, **more: Any) -> None:
    """Write a record under a new id, in place of the row that has its name; `more` are columns that it has no field for, and rights."""
    fields, names = msgspec.structs.asdict(record), _FIELDS[kind.table]
    row: dict[str, Any] = {"id": tx.tick()}
    for column in kind.columns:
        value = fields.get(names.get(column.name, column.name))
        if column.role == "time":
            value = seconds(value)
        elif column.role == "json":
            value = as_text(value) if value else None
        row.setdefault(column.name, value)
    row |= more
    sets = ", ".join(f"{name} = excluded.{name}" for name in row)
    tx.execute(
        f"insert into {kind.table} ({', '.join(row)}) values (:{', :'.join(row)})"  # noqa: S608 - our own columns
        f" on conflict ({', '.join(kind.unique)}) do update set {sets}",
        row,
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


@contextmanager
def links_kept(tx: Transaction, subjects: Collection[str]) -> Iterator[None]:
    """Have edges and marks of records stay, whose rows the block deletes and writes again under their ids."""
    _rename(tx, subjects, "", "~")
    yield
    _rename(tx, subjects, "~", "")


def _rename(tx: Transaction, subjects: Collection[str], before: str, after: str) -> None:
    for table, column in (("marks", "subject"), ("stored_edges", "source_id"), ("stored_edges", "target_id")):
        sql = f"update {table} set {column} = ? where {column} = ?"  # noqa: S608 - our own names
        tx.executemany(sql, [(f"{after}{subject}", f"{before}{subject}") for subject in subjects])


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


MESSAGE_LEVEL = "case {m}.id when t.utterance then t.level else t.answer end"
"""Who may read a message of the table `m`."""
SPEAKER = "case when {m}.id = t.utterance then t.speaker end"
"""Who said a message of the table `m`; null: an agent."""
SUMMARIES = """
  (select e.id, e.session_id, e.summary, e.level, null as owner, exists (select 1 from epochs n
    where n.session_id = e.session_id and n.id > e.id and n.summary <> '') as done from epochs e where e.summary <> '')
"""
"""The summaries of sessions as rows with level and owner; done: a newer one took its place."""
_ARMS = (
    """
    select 'fact' as kind, f.id, iif(f.trust >= 2, 'OBSERVATION', 'BELIEF') as type,
      iif(p.id is null, 'DONE', 'ACTIVE') as lifecycle, k.key || ': ' || f.value as content, ifnull(f.speaker, f.source) as source,
      0 as cycle, f.asr_confidence as confidence, ifnull(p.valid_from, f.valid_from) as valid_from,
      iif(p.id is null, f.valid_to, p.valid_to) as valid_to, f.level, f.owner
    from facts f join fact_keys k on k.id = f.key_id
      left join facts p on p.id = (select b.id from facts b where b.key_id = f.key_id and b.known_to is null
        and b.origin = f.id order by b.valid_from desc limit 1)
    where f.id = f.origin and f.value is not null
    """,
    """
    select 'doubt', d.id, 'BELIEF', iif(d.settled is null, 'CREATED', 'DONE'), k.key || ': ' || d.value,
      ifnull(d.speaker, d.source), 0, d.asr_confidence, d.valid_from, d.valid_to, d.level, d.owner
    from doubts d join fact_keys k on k.id = d.key_id
    """,
    f"""
    select 'turn', m.id, iif(m.role = 'assistant', 'OUTPUT_DRAFT', 'OBSERVATION'), 'ACTIVE', m.content,
      ifnull({SPEAKER.format(m="m")}, m.role), t.cycle, iif(m.id = t.utterance, t.asr_confidence, null),
      null, null, {MESSAGE_LEVEL.format(m="m")}, t.owner
    from messages m join turns t on t.session_id = m.session_id and t.n = m.turn
    where m.dropped is null and m.content <> ''
    """,  # noqa: S608 - our own constants
    """
    select 'episode', id, 'OBSERVATION', 'ACTIVE', ifnull(summary, kind || ' ' || payload || ' ' || outcome),
      ifnull(speaker, agent), 0, asr_confidence, null, null, level, owner from episodes
    """,
    "select 'goal', id, 'TASK', 'ACTIVE', title, owner, 0, null, null, null, level, owner from goals",
    """
    select 'preference', id, 'BELIEF', 'ACTIVE', key || ': ' || value, ifnull(owner, ''), 0, null, null, null, level, owner
    from preferences
    """,
    f"""
    select 'summary', id, 'NOTE', iif(done, 'DONE', 'ACTIVE'), summary, ifnull(owner, ''), 0, null, null, null, level, owner
    from (select id, summary, level, owner, done from {SUMMARIES}
      union all select id, summary, level, owner, 0 from session_summaries)
    """,  # noqa: S608 - our own constant
)
SHOWN_COLUMNS = (
    "name", "id", "type", "lifecycle", "priority", "content", "source", "created_cycle", "updated_cycle", "confidence", "created",
    "valid_from", "valid_to", "expires", "pinned", "aloud", "metadata", "level", "owner",
)  # fmt: skip
"""The columns of `stored_thoughts` that `shown_thoughts` has too."""
_LIFECYCLE = "iif(lifecycle = 'ACTIVE' and valid_to <= {now}, 'DONE', lifecycle)"
SHOWN_ROW = ", ".join(SHOWN_COLUMNS).replace("lifecycle", f"{_LIFECYCLE.format(now=':now')} as lifecycle")
"""These columns of a row of `shown_thoughts`, as they are at the moment `:now`."""
VIEWS = (
    # What is shown as a thought, by the kind and the number of its id, with its mark.
    f"""
    create view shown_thoughts (kind, {", ".join(SHOWN_COLUMNS)}) as
      select s.kind, s.kind || ':' || s.id, s.id, s.type, s.lifecycle, ifnull(m.priority, 'P3'), s.content,
        ifnull(s.source, ''), s.cycle, s.cycle, s.confidence, s.id / 1e6, s.valid_from, s.valid_to, m.expires,
        ifnull(m.pinned, 0), ifnull(m.aloud, 1), m.metadata, s.level, s.owner
      from ({" union all ".join(_ARMS)}) s left join marks m on m.subject = s.kind || ':' || s.id
    """,  # noqa: S608 - our own constants
    f"""
    create view thoughts as
      select name as id, type, lifecycle, priority, essence, content, source, created_cycle as cycle, confidence, valid_from,
        valid_to, expires, pinned, aloud, metadata, level, owner from stored_thoughts
      union all
      select name, type, {_LIFECYCLE.format(now="julianday('now') * 86400.0 - 210866760000.0")}, priority,
        substr(content, 1, 200), content, source, created_cycle, confidence, valid_from, valid_to, expires, pinned, aloud,
        metadata, level, owner
      from shown_thoughts
    """,  # noqa: S608 - our own constants
    # Edges that other tables tell: which doubt contests a fact, which value a fact took the place of, in which message a tool was
    # told it (the turn was open then, so its messages come soon behind it), and which utterance a reply answers.
    """
    create view shown_edges (source_kind, source_ref, target_kind, target_ref, type) as
      select 'fact', s.id, 'doubt', d.id, 'CONTESTED_BY' from facts s
        join facts b on b.key_id = s.key_id and b.origin = s.id join doubts d on d.key_id = s.key_id
        where d.settled is null and b.known_to is null and b.value is not null
          and b.valid_from < coalesce(d.valid_to, 9e999) and coalesce(b.valid_to, 9e999) > d.valid_from
      union all
      select 'fact', f.id, 'fact', o.id, 'DERIVED_FROM' from facts f join facts o
        on o.key_id = f.key_id and o.id = (select origin from facts where id = f.supersedes)
        where f.id = f.origin and f.supersedes is not null
      union all
      select 'fact', f.id, 'turn', (
          select t.utterance from (select session_id, turn from messages where id > f.id order by id limit 200) m
            join turns t on t.session_id = m.session_id and t.n = m.turn
          where t.recorded <= f.id and t.first_message > f.id and t.speaker is f.speaker limit 1), 'DERIVED_FROM'
        from facts f where f.origin is f.id and f.source = 'llm'
      union all
      select 'turn', m.id, 'turn', u.id, 'MESSAGE_OF' from messages u
        join turns t on t.session_id = u.session_id and t.n = u.turn and t.utterance = u.id
        join messages m on m.session_id = t.session_id and m.turn = t.n and m.id between t.first_message and t.last_message
        where m.role = 'assistant' and m.dropped is null
    """,
    """
    create view edges as
      select name as id, source_id, target_id, type, weight, created_cycle as cycle, valid_from, valid_to, metadata, level, owner
        from stored_edges
      union all
      select distinct source_kind || ':' || source_ref || '>' || target_kind || ':' || target_ref,
        source_kind || ':' || source_ref, target_kind || ':' || target_ref, type, 1.0, 0, null, null, null, 0, null
        from shown_edges where target_ref is not null
    """,
    """
    create view contested as
      select 'fact:' || c.source_ref as id, k.key, f.value, 'doubt:' || c.target_ref as doubt, d.value as other,
        d.speaker, max(f.level, d.level) as level, iif(d.level = 2, d.owner, f.owner) as owner
      from shown_edges c join facts f on f.id = c.source_ref join fact_keys k on k.id = f.key_id
        join doubts d on d.id = c.target_ref where c.type = 'CONTESTED_BY'
    """,
)
"""What a person, and `edgemem query`, reads of the graph; how a record is shown as a thought stands here alone."""
