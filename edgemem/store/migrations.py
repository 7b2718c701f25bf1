"""The schema, as a list of steps that is only ever appended to.

Each step runs in one transaction together with the record that it ran. Truth and index are two sets: the
truth is migrated with care for ever, the index may also be deleted and rebuilt. Levels are stored as
integers: 0 shared, 1 household, 2 private. Ids and `recorded` are ticks of the robot's clock: microseconds
since the epoch, strictly increasing, so that the order of ids is the order in which the robot learnt things.
"""

from __future__ import annotations

from typing import NamedTuple


class Migration(NamedTuple):
    """One step: a name that never changes, and the statements that it runs."""

    name: str
    statements: tuple[str, ...]


# Columns that every record from speech carries (design, section 4).
_HEARD = """
  speaker text, speaker_confidence real, asr_confidence real, device text, room text, event_time real
"""

_M001_FACTS = (
    "create table meta (key text primary key, value) without rowid",
    """
    create table fact_keys (
      id integer primary key,
      scope text not null,
      key text not null,
      unique (scope, key)
    )
    """,
    # A rectangle in valid time x transaction time. The rectangles of one key never overlap, so a question
    # (when, known when) has at most one answer. value null: known that no value held.
    f"""
    create table facts (
      id integer primary key,
      key_id integer not null references fact_keys (id),
      value text,
      valid_from real not null,
      valid_to real,
      recorded integer not null,
      known_to integer,
      origin integer not null,
      supersedes integer,
      source text not null default '',
      level integer not null,
      owner text,
      {_HEARD},
      check (valid_to is null or valid_to > valid_from),
      check (known_to is null or known_to > recorded)
    )
    """,
    "create unique index facts_believed on facts (key_id, valid_from desc) where known_to is null",
    "create index facts_by_valid on facts (key_id, valid_from desc, recorded desc)",
    "create index facts_by_recorded on facts (key_id, recorded desc, valid_from desc)",
    """
    create trigger facts_one_value before insert on facts when new.known_to is null and exists (
      select 1 from facts where key_id = new.key_id and known_to is null
        and valid_from < coalesce(new.valid_to, 9e999) and coalesce(valid_to, 9e999) > new.valid_from)
    begin select raise(abort, 'two values of one fact at the same moment'); end
    """,
    """
    create trigger facts_only_closed before update on facts when
      old.known_to is not null or new.known_to is null or new.key_id is not old.key_id
      or new.value is not old.value or new.valid_from is not old.valid_from
      or new.valid_to is not old.valid_to or new.recorded is not old.recorded
    begin select raise(abort, 'a version of a fact can be closed or erased, not changed'); end
    """,
    """
    create view facts_now as
      select k.scope, k.key, f.value, datetime(f.valid_from, 'unixepoch') as since,
        datetime(f.recorded / 1e6, 'unixepoch') as learnt, f.speaker, f.source
      from facts f join fact_keys k on k.id = f.key_id
      where f.known_to is null and f.value is not null and f.valid_to is null
    """,
)

_M001_LIFE = (
    """
    create table preferences (
      scope text not null,
      key text not null,
      value text not null,
      recorded integer not null,
      level integer not null,
      owner text,
      primary key (scope, key)
    ) without rowid
    """,
    f"""
    create table episodes (
      id integer primary key,
      kind text not null,
      payload text not null,
      outcome text not null,
      agent text not null default '',
      level integer not null,
      owner text,
      {_HEARD}
    )
    """,
    "create index episodes_by_kind on episodes (kind, id)",
)

_M001_SESSIONS = (
    """
    create table sessions (
      id integer primary key,
      name text not null unique,
      state text not null default '{}',
      recorded integer not null
    )
    """,
    # No secondary index: a turn's row and its messages are appended at the end of two trees, which keeps
    # a commit at few pages. state: 0 open, 1 complete, 2 interrupted, 3 unfinished.
    f"""
    create table turns (
      session_id integer not null references sessions (id),
      n integer not null,
      first_message integer not null,
      last_message integer not null,
      state integer not null,
      block text,
      shown text,
      level integer not null,
      owner text,
      recorded integer not null,
      {_HEARD},
      primary key (session_id, n)
    ) without rowid
    """,
    # dropped: the tick at which save() replaced this message by another version of the conversation.
    """
    create table messages (
      id integer primary key,
      session_id integer not null,
      turn integer not null,
      role text not null,
      content text,
      unheard text,
      extra text,
      tokens blob,
      dropped integer
    )
    """,
    """
    create table epochs (
      id integer primary key,
      session_id integer not null references sessions (id),
      first_turn integer not null,
      summary text not null default '',
      hidden text,
      reason text not null default '',
      started_at real not null
    )
    """,
    "create index epochs_by_session on epochs (session_id, id)",
    # What changed or vanished after it was written; new rows are found by their ids instead.
    """
    create table index_queue (
      id integer primary key,
      kind text not null,
      ref integer not null
    )
    """,
    """
    create view conversation as
      select s.name as session, m.turn, m.role, m.content, t.speaker,
        datetime(m.id / 1e6, 'unixepoch') as recorded
      from messages m join sessions s on s.id = m.session_id
        join turns t on t.session_id = m.session_id and t.n = m.turn
      where m.dropped is null order by m.id
    """,
)

TRUTH: tuple[Migration, ...] = (Migration("m001_truth", _M001_FACTS + _M001_LIFE + _M001_SESSIONS),)
"""`db/memory.db`."""

_M001_INDEX = (
    "create table meta (key text primary key, value) without rowid",
)

INDEX: tuple[Migration, ...] = (Migration("m001_index", _M001_INDEX),)
"""`db/index.db`: derived, deletable."""
