"""The schema, as a list of steps that is only ever appended to.

Each step runs in one transaction together with the record that it ran. Truth and index are two sets: the
truth is migrated with care for ever, the index may also be deleted and rebuilt. Levels are stored as
integers: 0 shared, 1 household, 2 private. Ids and `recorded` are ticks of the robot's clock: microseconds
since the epoch, strictly increasing, so that the order of ids is the order in which the robot learnt things.

A clock must know the newest tick that a file holds (`Ticks`), so that whatever it hands out next is later.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.errors import CorruptError, ForeignError, NewerSchemaError, StoreError
from edgemem.scopes import name_key
from edgemem.store.db.transaction import Transaction
from edgemem.store.spellings import join_spellings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from edgemem.clock import Clock


class Migration(NamedTuple):
    """One step: a name that never changes, the statements that it runs, and what SQL cannot do, done after them."""

    name: str
    statements: tuple[str, ...]
    work: Callable[[Transaction], object] | None = None


# Columns that every record from speech carries (design, section 4).
_HEARD = """
  speaker text, speaker_confidence real, asr_confidence real, device text, room text, event_time real
"""

_FACTS = (
    "create table meta (key text primary key, value) without rowid",
    """
    create table fact_keys (
      id integer primary key,
      scope text not null,
      key text not null,
      unique (scope, key)
    )
    """,
    # A rectangle in valid time x transaction time. The rectangles of one key never overlap and leave no gap
    # after its first version, so a question (when, known when) has one answer. value null: no value held.
    # origin: the row that said so first; where a correction splits a rectangle, what is left of it is written
    # again. version counts the transactions of a key; node: see facts_known.
    f"""
    create table facts (
      id integer primary key,
      key_id integer not null references fact_keys (id),
      value text,
      valid_from real not null,
      valid_to real,
      recorded integer not null,
      known_to integer,
      version integer not null,
      node integer,
      origin integer not null,
      supersedes integer,
      source text not null default '',
      level integer not null,
      owner text,
      {_HEARD},
      check (valid_to is null or valid_to > valid_from),
      check (known_to is null or known_to > recorded),
      check ((known_to is null) = (node is null))
    )
    """,
    "create unique index facts_believed on facts (key_id, valid_from desc) where known_to is null",
    # An interval tree over versions: node is the version with the most trailing zero bits among those in which
    # the rectangle was believed. Rectangles of one node were all believed then, so their valid times are
    # disjoint: one step in the index for each of the log2(n) nodes above a version finds what was believed.
    "create index facts_known on facts (key_id, node, valid_from desc) where node is not null",
    # Which version was the newest at a moment.
    "create index facts_by_recorded on facts (key_id, recorded, version) where id = origin",
    # Believed rectangles are disjoint, so only the last one that begins before the new one ends can overlap it.
    """
    create trigger facts_one_value before insert on facts when new.known_to is null and (
      select coalesce(valid_to, 9e999) from facts where key_id = new.key_id and known_to is null
        and valid_from < coalesce(new.valid_to, 9e999) order by valid_from desc limit 1) > new.valid_from
    begin select raise(abort, 'two values of one fact at the same moment'); end
    """,
    """
    create trigger facts_only_closed before update on facts when
      old.known_to is not null or new.known_to is null or new.key_id is not old.key_id
      or new.value is not old.value or new.valid_from is not old.valid_from
      or new.valid_to is not old.valid_to or new.recorded is not old.recorded
      or new.version is not old.version or new.origin is not old.origin
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

_LIFE = (
    # What is recalled has an id, in the order of writing; a preference that changes gets a new one.
    """
    create table preferences (
      id integer primary key,
      scope text not null,
      key text not null,
      value text not null,
      recorded integer not null,
      level integer not null,
      owner text,
      unique (scope, key)
    )
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
)

_SESSIONS = (
    """
    create table sessions (
      id integer primary key,
      name text not null unique,
      state text not null default '{}',
      recorded integer not null
    )
    """,
    # No secondary index: a turn's row and its messages are appended at the end of two trees, which keeps
    # a commit at few pages. state: 0 open, 1 complete, 2 interrupted, 3 unfinished. shown: the entries of the block's lines
    # (records.BlockLine), as a list in JSON. They stand in the page that the block spills into, at no cost; a row for each line
    # would stand in a tree of its own, and each turn write more pages (tests/lab/tuning.md).
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
    # Who may read a summary hangs on the private turns before it: few, in sessions of many thousand turns.
    "create index turns_private on turns (session_id, n, owner) where level = 2",
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
    # head: a hash of the instructions and tools that stood before the epoch; null where nobody noted it. carried: what of
    # memory stands in the epoch's head, in the form of turns.shown; null if nothing does.
    """
    create table epochs (
      id integer primary key,
      session_id integer not null references sessions (id),
      first_turn integer not null,
      summary text not null default '',
      reason text not null default '',
      started_at real not null,
      head text,
      carried text
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

_DOUBTS = (
    # What was heard badly and contradicts what was heard well: not believed, so no rectangle. settled: the tick at
    # which something was believed of the same time; confirmed_by: the fact that says the same, else it was refuted.
    f"""
    create table doubts (
      id integer primary key,
      key_id integer not null references fact_keys (id),
      value text not null,
      valid_from real not null,
      valid_to real,
      settled integer,
      confirmed_by integer,
      source text not null default '',
      level integer not null,
      owner text,
      {_HEARD},
      check (valid_to is null or valid_to > valid_from),
      check (confirmed_by is null or settled is not null)
    )
    """,
    "create index doubts_by_key on doubts (key_id)",
    "create index doubts_open on doubts (id) where settled is null",
    """
    create view facts_doubted as
      select k.scope, k.key, d.value, datetime(d.id / 1e6, 'unixepoch') as heard, d.speaker, d.asr_confidence
      from doubts d join fact_keys k on k.id = d.key_id where d.settled is null
    """,
)

_TOOL_OUTPUTS = (
    # What tools answered in full, where the message holds only its beginning; bounded, and erased with its turn.
    # bytes stands before content: all sizes can be added up without reading the texts.
    """
    create table tool_outputs (
      id integer primary key,
      session_id integer not null,
      turn integer not null,
      pointer text not null,
      bytes integer not null,
      content text not null
    )
    """,
    "create index tool_outputs_by_pointer on tool_outputs (pointer)",
    "create index tool_outputs_by_turn on tool_outputs (session_id, turn)",
    # A turn that is written again is replaced, and a replaced row fires no trigger.
    """
    create trigger tool_outputs_of_turn after delete on turns begin
      delete from tool_outputs where session_id = old.session_id and turn = old.n;
    end
    """,
)

NAMES_STEP = "m008_names"
_M008_NAMES = (
    # A person's name as it was first written, which is how every row spells it, by what all its spellings have in
    # common (scopes.name_key): SQL cannot fold names, and whoever writes does.
    "create table names (key text primary key, name text not null) without rowid",
)

_M009_ERASING = (
    # A forgetting whose bytes may still stand in some file; its id is the tick of the transaction. folder: whose
    # folder is still to be removed from which bank, as JSON; null if none.
    "create table erasings (id integer primary key, folder text)",
    # One that was cut off before there was this table is finished now.
    "insert into erasings (id) select value from meta where key = 'forgotten'",
)

_M010_STATED = (
    # topic: the conversation that a fact of a user is about, as `edgemem.aio` has it; null: about all. Its key bears it too.
    "alter table fact_keys add column topic text",
    # json: the value as JSON where it is no text; `value` then says it in words. trust: see `facts.trust_of`.
    "alter table facts add column json text",
    "alter table doubts add column json text",
    "alter table facts add column trust integer not null default 3",
    "alter table doubts add column trust integer not null default 3",
    # Whether it was heard badly, as decided when it was said; 0: it is a doubt because of who said so.
    "alter table doubts add column badly integer not null default 1",
)

_EXPERIENCE = (
    "drop trigger facts_only_closed",
    *(
        f"""
        update {table} set trust = case
          when ifnull(trim(speaker), '') = '' then case when source = 'llm'
            or coalesce(speaker, speaker_confidence, asr_confidence, device, room, event_time) is not null then 0 else 3 end
          when owner is speaker or (select scope from fact_keys where id = key_id) = 'user:' || speaker then 3 else 2 end
        """  # noqa: S608 - our own names
        for table in ("facts", "doubts")
    ),
    """
    create trigger facts_only_closed before update on facts when
      old.known_to is not null or new.known_to is null or new.key_id is not old.key_id
      or new.value is not old.value or new.json is not old.json or new.valid_from is not old.valid_from
      or new.valid_to is not old.valid_to or new.recorded is not old.recorded or new.trust is not old.trust
      or new.version is not old.version or new.origin is not old.origin
    begin select raise(abort, 'a version of a fact can be closed or erased, not changed'); end
    """,
    # name: the id that a caller gave. summary: what happened, in words; null: kind and payload say it. details: decisions,
    # tools and tags, as JSON. session and turn: in which it happened. latency: of a call of a tool, in milliseconds.
    "alter table episodes add column name text",
    "alter table episodes add column summary text",
    "alter table episodes add column details text",
    "alter table episodes add column session text",
    "alter table episodes add column turn integer",
    "alter table episodes add column latency real",
    "create unique index episodes_by_name on episodes (name) where name is not null",
    """
    create table episode_tags (
      tag text not null,
      episode integer not null references episodes (id) on delete cascade,
      primary key (tag, episode)
    ) without rowid
    """,
    "create index episode_tags_of on episode_tags (episode)",
    # name: its id for callers. steps, tags and metadata: JSON. It gets a new row id when it is stored again, and keeps its counts.
    f"""
    create table procedures (
      id integer primary key,
      name text not null unique,
      title text not null,
      description text not null,
      trigger text not null,
      steps text not null,
      successes integer not null default 0,
      failures integer not null default 0,
      tags text,
      metadata text,
      session text,
      turn integer,
      level integer not null,
      owner text,
      {_HEARD}
    )
    """,
    # What people are after, by person; data: the rest of its fields, as JSON. A goal that changes gets a new row id.
    """
    create table goals (
      id integer primary key,
      owner text not null,
      name text not null,
      title text not null,
      data text not null,
      level integer not null,
      unique (owner, name)
    )
    """,
    "create table phases (id integer primary key, owner text not null unique, phase text not null, notes text not null)",
    "create table users (id integer primary key, name text not null unique)",
    # What an agent keeps of one person in a session, as JSON, and the summary that it wrote of what they said there.
    """
    create table session_states (
      id integer primary key,
      session_id integer not null references sessions (id) on delete cascade,
      owner text not null,
      data text not null,
      unique (session_id, owner)
    )
    """,
    """
    create table session_summaries (
      id integer primary key,
      session_id integer not null references sessions (id) on delete cascade,
      owner text not null,
      summary text not null,
      covered integer not null,
      version integer not null,
      level integer not null,
      unique (session_id, owner)
    )
    """,
    # Files of the bank, where the profile keeps it in the database; scope: user:…, household or shared.
    """
    create table bank_files (
      id integer primary key,
      scope text not null,
      topic text not null,
      path text not null,
      content text not null,
      created real not null,
      updated real not null,
      unique (scope, topic, path)
    )
    """,
)

# Where truth and index keep ticks of the clock. meta holds one more once the rows that bore the newest are erased, and
# which records of each spool are done: what is put there from now on must be newer.
_TICKS = {
    "facts": "(select max(id) from facts)",
    "doubts": "(select max(id) from doubts)",
    "episodes": "(select max(id) from episodes)",
    "messages": "(select max(id) from messages)",
    "epochs": "(select max(id) from epochs)",
    "index_queue": "(select max(id) from index_queue)",
    "procedures": "(select max(id) from procedures)",
    "goals": "(select max(id) from goals)",
    "phases": "(select max(id) from phases)",
    "users": "(select max(id) from users)",
    "session_states": "(select max(id) from session_states)",
    "session_summaries": "(select max(id) from session_summaries)",
    "bank_files": "(select max(id) from bank_files)",
    "preferences": "(select max(recorded) from preferences)",
    "sessions": "(select max(recorded) from sessions)",
    "vectors": "(select max(seq) from vectors)",
    "removals": "(select max(seq) from removals)",
}

TRUTH: tuple[Migration, ...] = (
    # What seven steps made, in one; a file that has them ran the last of these.
    Migration("m007_private_turns", _FACTS + _LIFE + _SESSIONS + _DOUBTS + _TOOL_OUTPUTS),
    # Before the names: what these join is said again, with all that a statement has.
    Migration("m010_columns", _M010_STATED),
    Migration(NAMES_STEP, _M008_NAMES, join_spellings),
    Migration("m009_erasing", _M009_ERASING),
    Migration("m010_experience", _EXPERIENCE),
)
"""`db/memory.db`."""


def check_schema(connection: Any, steps: Sequence[Migration]) -> bool:
    """Tell whether the file is new; raise where another program or a newer edgemem wrote it."""
    tables = {row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")}
    if not tables:
        return True
    if "migrations" not in tables:
        raise ForeignError("This database belongs to another program; name another file.")
    names = sorted(row[0] for row in connection.execute("select name from migrations"))
    if names and steps[0].name not in names:
        raise StoreError(
            "An early edgemem wrote this database, before its schema had settled; export it there, and import it here."
        )
    newer = [name for name in names if name > steps[-1].name]
    if newer:
        raise NewerSchemaError(f"A newer edgemem wrote this database (it knows {newer[0]}); update edgemem.")
    return False


def missing_steps(connection: Any, steps: Sequence[Migration]) -> list[str]:
    """Return the names of the steps that a file which is not new has not seen, in their order."""
    run = {row[0] for row in connection.execute("select name from migrations")}
    return [step.name for step in steps if step.name not in run]


def keeping_apart(called: Mapping[str, str]) -> tuple[Migration, ...]:
    """Return the steps of the truth, with which spellings of one name may stay those of different people.

    Args:
        called: whom names mean that are no spelling of theirs, as `[speakers]` says it.
    """
    others = {name: who for name, who in called.items() if name_key(name) != name_key(who)}
    work = partial(join_spellings, apart=others)
    return tuple(step._replace(work=work) if step.work is join_spellings else step for step in TRUTH)


def migrate(connection: Any, steps: Sequence[Migration], *, clock: Clock) -> None:
    """Run the steps that the file has not seen, each in one transaction with the record that it ran."""
    tick, is_new = clock.tick(), False
    for step in steps:
        connection.execute("begin immediate")
        try:
            connection.execute(
                "create table if not exists migrations (name text primary key, recorded integer not null)"
            )
            if connection.execute("select 1 from migrations where name = ?", (step.name,)).fetchone():
                connection.execute("rollback")
                continue
            is_new = is_new or step is steps[0]
            for statement in step.statements:
                connection.execute(statement)
            if step.work is not None and not is_new:  # a new file holds nothing to work on
                tables = {row[0] for row in connection.execute("select name from sqlite_master")}
                clock.witness(connection.execute(newest_tick(tables)).fetchone()[0])
                step.work(Transaction(connection, clock))
            connection.execute("insert into migrations (name, recorded) values (?, ?)", (step.name, tick))
            connection.execute("commit")
        except BaseException:
            if connection.in_transaction:
                connection.execute("rollback")
            raise


def newest_tick(tables: set[str]) -> str:
    """Return the statement that finds the highest tick in a file; empty if none of its tables holds ticks."""
    parts = [part for table, part in _TICKS.items() if table in tables]
    if not parts:
        return ""
    parts.append("(select max(value) from meta where key = 'clock' or key between 'spool:' and 'spool;')")
    return f"select max(0, {', '.join(f'coalesce({part}, 0)' for part in parts)})"


_AHEAD_S = 366 * 86400.0


class Ticks:
    """The ticks of one file, as several connections see it.

    Args:
        connection: any of them, once the schema is there.
        path: of the file.
        derived: the file is made from another one, the truth, which was opened before with the same clock. Its ticks are far
            ahead of the truth's only if it is damaged; the clock does not take such a tick, or the truth would keep it for ever.
    """

    def __init__(self, connection: Any, clock: Clock, path: Path, *, derived: bool = False) -> None:
        tables = {row[0] for row in connection.execute("select name from sqlite_master")}
        self._sql = newest_tick(tables)
        self._clock = clock
        self._path = path
        self._derived = derived

    def newest(self, connection: Any) -> int:
        """Return the highest tick in the file; 0 if it holds none."""
        if not self._sql:
            return 0
        newest = connection.execute(self._sql).fetchone()[0]
        if not isinstance(newest, int) or (
            self._derived and newest > (self._clock.now() + _AHEAD_S) * 1_000_000
        ):
            raise CorruptError(
                f"{self._path} is damaged: {str(newest)[:40]!r} is no moment at which it was written."
            )
        return newest

    def look(self, connection: Any, version: int) -> int:
        """Tell the clock what others have written since this connection saw a version; return the one of now."""
        now = int(connection.execute("pragma data_version").fetchone()[0])
        if now != version:
            self._clock.witness(self.newest(connection))
        return now

    def keep(self, connection: Any, newest: int) -> None:
        """Keep a tick whose rows may be the ones that were erased."""
        if self._sql and self.newest(connection) < newest:
            connection.execute("insert or replace into meta values ('clock', ?)", (newest,))
