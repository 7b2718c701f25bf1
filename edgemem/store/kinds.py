"""Kinds: every table of what the robot remembers, declared once, and the schema of the truth, which follows from them.

So do the names in use, the erasing of a person, the search for mentions, the export, the import, the docs of the index and the
statistics. To add a kind, write a module of its own with its functions, and declare its table here; its record, and the name under
which recall finds it, are in `records`, its door in `memory.opened` and `memory.memory`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import msgspec

from edgemem.records import ProcedureStep, TurnState
from edgemem.store.db.connection import Migration, Origin, Schema, read_origin
from edgemem.store.db.database import Database
from edgemem.store.declaration import ID, LEVEL, OWNER, Column, Kind, Parent
from edgemem.store.graph import MARKS, STORED_EDGES, STORED_THOUGHTS, VIEWS, follow_rows

_OF_SOMEBODY = Column("owner", "text not null", "person")
_HEARD = (
    Column("speaker", "text", "person"),
    Column("speaker_confidence", "real"),
    Column("asr_confidence", "real"),
    Column("device", "text", "text"),
    Column("room", "text", "text"),
    Column("event_time", "real", "time"),
)  # of every record that came from speech
_STATED = (
    Column("source", "text not null default ''", "text"),
    LEVEL,
    OWNER,
    *_HEARD,
    # The value as it was given, where that was no text; `value` then says it in words.
    Column("json", "text"),
    # See `facts.trust_of`.
    Column("trust", "integer not null default 3", shape=Annotated[int, msgspec.Meta(ge=0, le=3)]),
)
_FROM = (Column("session", "text"), Column("turn", "integer"))
"""By name, so they stay when the session or the turn goes."""
_OF_SESSION = Column("session_id", "integer not null references sessions (id) on delete cascade")
_SESSION = Parent("sessions", "session_id", (("session", "name"),))
_KEY = Parent("fact_keys", "key_id", (("scope", "scope"), ("key", "key"), ("topic", "topic")))
FACT_KEYS = Kind(
    "fact_keys",
    "fact",
    (
        Column("id", "integer primary key"),
        Column("scope", "text not null", "scope"),
        Column("key", "text not null", "key"),
        # The conversation that a fact of a user is about (`edgemem.aio`), which its key bears too; null: about all.
        Column("topic", "text"),
    ),
    ("unique (scope, key)",),
    by="(select speaker from facts where key_id = r.id and id = origin order by recorded desc limit 1)",
    newest="",
    goes="fact",
    counted="facts",
)

FACTS = Kind(
    "facts",
    "fact",
    # A rectangle in valid time x transaction time; those of one key never overlap, and leave no gap after its first version.
    # value null: no value. origin: the row that said so first; where a correction splits a rectangle, the rest of it is
    # written again. version counts the transactions of a key; node: see facts_known.
    (
        ID,
        Column("key_id", "integer not null references fact_keys (id)"),
        Column("value", "text", "value"),
        Column("valid_from", "real not null", "time"),
        Column("valid_to", "real", "time"),
        Column("recorded", "integer not null", "tick"),
        Column("known_to", "integer", "tick"),
        Column("version", "integer not null"),
        Column("node", "integer"),
        Column("origin", "integer not null", "tick"),
        Column("supersedes", "integer", "tick"),
        *_STATED,
    ),
    (
        "check (valid_to is null or valid_to > valid_from)",
        "check (known_to is null or known_to > recorded)",
        "check ((known_to is null) = (node is null))",
    ),
    extras=(
        "create unique index facts_believed on facts (key_id, valid_from desc) where known_to is null",
        # An interval tree over versions: node is the version with the most trailing zero bits among those in which the
        # rectangle was believed. Rectangles of one node were all believed then, so their valid times are disjoint: one step
        # in the index for each of the log2(n) nodes above a version finds the one that was believed.
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
          or new.value is not old.value or new.json is not old.json or new.valid_from is not old.valid_from
          or new.valid_to is not old.valid_to or new.recorded is not old.recorded or new.trust is not old.trust
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
    ),
    parent=_KEY,
    texts="r.id = r.origin",  # each statement once, also one that is not believed any more
    doc="fact",
    goes="fact",
    lead="(select key || ': ' from fact_keys where id = r.key_id)",
    line="fact",
    later=("known_to", "node"),
    counted="fact_versions",
)

DOUBTS = Kind(
    "doubts",
    "doubt",
    # A statement that is not believed, so no rectangle. settled: the tick at which something was believed of the same time;
    # confirmed_by: the fact that says the same, else it was refuted.
    (
        ID,
        Column("key_id", "integer not null references fact_keys (id)"),
        Column("value", "text not null", "value"),
        Column("valid_from", "real not null", "time"),
        Column("valid_to", "real", "time"),
        Column("settled", "integer", "tick"),
        Column("confirmed_by", "integer", "tick"),
        *_STATED,
        # Whether it was heard badly, as decided when it was said; 0: it is a doubt because of who said so.
        Column("low_confidence", "integer not null default 1", shape=bool),
    ),
    (
        "check (valid_to is null or valid_to > valid_from)",
        "check (confirmed_by is null or settled is not null)",
    ),
    extras=(
        "create index doubts_by_key on doubts (key_id)",
        "create index doubts_open on doubts (id) where settled is null",
        """
        create view facts_doubted as
          select k.scope, k.key, d.value, datetime(d.id / 1e6, 'unixepoch') as heard, d.speaker, d.asr_confidence
          from doubts d join fact_keys k on k.id = d.key_id where d.settled is null
        """,
    ),
    parent=_KEY,
    mine="owner = :name or speaker = :name",
    lead="(select key || ': ' from fact_keys where id = r.key_id)",
    line="doubt",
    later=("settled", "confirmed_by"),
)

PREFERENCES = Kind(
    "preferences",
    "preference",
    # Its id is in the order of writing: a preference that changes gets a new one.
    (
        ID,
        Column("scope", "text not null", "scope"),
        Column("key", "text not null", "key"),
        Column("value", "text not null", "value"),
        Column("recorded", "integer not null", "tick"),
        LEVEL,
        OWNER,
    ),
    ("unique (scope, key)",),
    newest="recorded",
    doc="preference",
    found_by=("key", "value"),
    lead="r.key || ': '",
    line="preference",
    unique=("scope", "key"),
    order=("scope", "key"),
    counted="preferences",
)

EPISODES = Kind(
    "episodes",
    "episode",
    # name: the caller's id. summary: null: kind and payload say it. details: decisions, tools and tags, as JSON. latency: of a
    # call of a tool, in milliseconds.
    (
        ID,
        Column("kind", "text not null", "text"),
        Column("payload", "text not null", "json"),
        Column("outcome", "text not null", "text"),
        Column("agent", "text not null default ''", "text"),
        LEVEL,
        OWNER,
        *_HEARD,
        Column("name", "text"),
        Column("summary", "text", "text"),
        Column("details", "text", "json", shape=dict[str, tuple[str, ...]]),
        *_FROM,
        Column("latency", "real"),
    ),
    extras=(
        "create unique index episodes_by_name on episodes (name) where name is not null",
        """
        create table episode_tags (
          tag text not null,
          episode integer not null references episodes (id) on delete cascade,
          primary key (tag, episode)
        ) without rowid
        """,
        "create index episode_tags_of on episode_tags (episode)",
    ),
    place="r.kind",
    doc="episode",
    found_by=("kind", "payload", "outcome", "summary", "details"),
    line="episode",
    unique=("name",),
    counted="episodes",
)

PROCEDURES = Kind(
    "procedures",
    "procedure",
    # name: its id for callers. It gets a new row id when it is stored again, and keeps its counts. recent: `Procedure.recent`.
    (
        ID,
        Column("name", "text not null unique"),
        Column("title", "text not null", "text"),
        Column("description", "text not null", "text"),
        Column("trigger", "text not null", "text"),
        Column("steps", "text not null", "json", shape=tuple[ProcedureStep, ...]),
        Column("successes", "integer not null default 0", "count"),
        Column("failures", "integer not null default 0", "count"),
        Column("recent", "text not null default ''"),
        Column("tags", "text", "json", shape=tuple[str, ...]),
        Column("metadata", "text", "json", shape=dict[str, Any]),
        *_FROM,
        LEVEL,
        OWNER,
        *_HEARD,
    ),
    place="r.name",
    doc="procedure",
    found_by=("trigger", "title", "description", "tags"),
    mine="owner = :name",
    blanks=MappingProxyType(
        {
            "steps": "args_template",
            "metadata": "",
            "session": "",
            "turn": "",
            **{column.name: "" for column in _HEARD},
        }
    ),
    line="procedure",
    unique=("name",),
    counted="procedures",
)

SESSIONS = Kind(
    "sessions",
    "session state",
    (
        ID,
        Column("name", "text not null unique"),
        Column("state", "text not null default '{}'", "json", shape=dict[str, Any]),
        Column("recorded", "integer not null", "tick"),
    ),
    place="r.name",
    newest="recorded",
    goes="conversation",
    line="session",
    counted="sessions",
)

TURNS = Kind(
    "turns",
    "turn",
    # No secondary index: a turn's row and its messages are appended at the end of two trees, which keeps a commit at few
    # pages. state: 1 complete, 2 interrupted, 3 unfinished; an open turn is in no row. shown: the block's lines
    # (records.BlockLine) as a list in JSON, in the page that the block spills into, at no cost; a row for each would write more
    # pages (tests/lab/tuning.md).
    (
        Column("session_id", "integer not null references sessions (id)"),
        Column("n", "integer not null"),
        Column("first_message", "integer not null", "tick", "first"),
        Column("last_message", "integer not null", "tick", "last"),
        Column("state", "integer not null", shape=TurnState),
        Column("block", "text", "text"),
        Column("shown", "text", "json", shape=tuple[str, ...]),
        # Of the message that was said to the robot, and of all else in the turn, never lower.
        LEVEL,
        Column("answer", "integer not null", "level"),
        # The id of the message that was said to the robot; null: nobody said one.
        Column("utterance", "integer", "tick"),
        OWNER,
        Column("recorded", "integer not null", "tick"),
        Column("cycle", "integer not null default 0"),  # counts the turns of all conversations
        *_HEARD,
    ),
    ("primary key (session_id, n)",),
    rowid=False,
    primary=("session_id", "n"),
    parent=_SESSION,
    # No later turn has an erased one's cycle.
    extras=(
        """
        create trigger turns_cycle after delete on turns begin
          insert into meta values ('cycle', old.cycle)
            on conflict (key) do update set value = max(value, excluded.value);
        end
        """,
    ),
    place="p.name || ' ' || r.n",
    newest="",
    goes="conversation",
    line="turn",
    counted="turns",
)

MESSAGES = Kind(
    "messages",
    "turn",
    # dropped: the tick at which save() replaced this message by another version of the conversation.
    (
        ID,
        Column("session_id", "integer not null"),
        Column("turn", "integer not null"),
        Column("role", "text not null"),
        Column("content", "text", "text"),
        Column("unheard", "text", "text"),
        Column("extra", "text", "json", shape=dict[str, Any]),
        Column("tokens", "blob", shape=tuple[Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)], ...]),
        Column("dropped", "integer", "tick"),
    ),
    extras=(
        "create index messages_dropped on messages (session_id, turn) where dropped is not null",
        """
        create view conversation as
          select s.name as session, m.turn, m.role, m.content, t.speaker,
            datetime(m.id / 1e6, 'unixepoch') as recorded
          from messages m join sessions s on s.id = m.session_id
            join turns t on t.session_id = m.session_id and t.n = m.turn
          where m.dropped is null order by m.id
        """,
    ),
    parent=_SESSION,
    place="p.name || ' ' || r.turn",
    by="case r.role when 'user' then (select speaker from turns where session_id = r.session_id and n = r.turn) else r.role end",
    doc="turn",
    found_by=("content",),
    goes="conversation",
    counted="messages",
)

EPOCHS = Kind(
    "epochs",
    "summary",
    # head: a hash of the instructions and tools before the epoch, if somebody noted it. carried: the lines of memory in the
    # epoch's head, as in turns.shown; null if there are none.
    (
        ID,
        Column("session_id", "integer not null references sessions (id)"),
        Column("first_turn", "integer not null"),
        Column("summary", "text not null default ''", "text"),
        Column("reason", "text not null default ''"),
        Column("started_at", "real not null", "time"),
        Column("head", "text", "local"),
        Column("carried", "text", "json", shape=tuple[str, ...]),
        LEVEL,
    ),
    extras=("create index epochs_by_session on epochs (session_id, id)",),
    parent=_SESSION,
    by="''",
    doc="summary",
    found_by=("summary",),
    goes="conversation",
    line="epoch",
    counted="epochs",
)

TOOL_OUTPUTS = Kind(
    "tool_outputs",
    "turn",
    # What tools answered in full, where the message holds only its beginning; bounded, and erased with its turn. bytes comes
    # before content: all sizes can be added up without reading the texts.
    (
        Column("id", "integer primary key", "local"),
        Column("session_id", "integer not null"),
        Column("turn", "integer not null"),
        Column("pointer", "text not null"),
        Column("bytes", "integer not null", "local"),
        Column("content", "text not null", "text"),
    ),
    extras=(
        "create index tool_outputs_by_pointer on tool_outputs (pointer)",
        "create index tool_outputs_by_turn on tool_outputs (session_id, turn)",
        # A turn that is written again is replaced, and a replaced row fires no trigger.
        """
        create trigger tool_outputs_of_turn after delete on turns begin
          delete from tool_outputs where session_id = old.session_id and turn = old.n;
        end
        """,
    ),
    parent=_SESSION,
    place="p.name || ' ' || r.turn",
    by="'tool'",
    newest="",
    goes="conversation",
    line="output",
)

USERS = Kind(
    "users",
    "user",
    (ID, Column("name", "text not null unique", "person")),
    place="r.name",
    line="user",
    unique=("name",),
)

GOALS = Kind(
    "goals",
    "goal",
    # data: the rest of its fields, as JSON. A goal that changes gets a new row id.
    (
        ID,
        _OF_SOMEBODY,
        Column("name", "text not null"),
        Column("title", "text not null", "value"),
        Column("data", "text not null", "json", shape=dict[str, Any]),
        LEVEL,
    ),
    ("unique (owner, name)",),
    place="r.name",
    doc="goal",
    found_by=("title", "data"),
    line="goal",
    unique=("owner", "name"),
    counted="goals",
)

PHASES = Kind(
    "phases",
    "phase",
    (
        ID,
        Column("owner", "text not null unique", "person"),
        Column("phase", "text not null", "value"),
        Column("notes", "text not null", "value"),
    ),
    place="r.owner",
    line="phase",
    unique=("owner",),
)

SESSION_STATES = Kind(
    "session_states",
    "session state",
    (ID, _OF_SESSION, _OF_SOMEBODY, Column("data", "text not null", "json", shape=dict[str, Any])),
    ("unique (session_id, owner)",),
    parent=_SESSION,
    line="state",
    unique=("session_id", "owner"),
)

SESSION_SUMMARIES = Kind(
    "session_summaries",
    "summary",
    (
        ID, _OF_SESSION, _OF_SOMEBODY, Column("summary", "text not null", "value"),
        Column("covered", "integer not null"), Column("version", "integer not null"), LEVEL,
    ),
    ("unique (session_id, owner)",),
    parent=_SESSION,
    doc="summary",
    found_by=("summary",),
    line="summary",
    unique=("session_id", "owner"),
)  # fmt: skip

BANK_FILES = Kind(
    "bank_files",
    "file",
    # Where the profile keeps the bank in the database; scope: user:…, household or shared.
    (
        ID,
        Column("scope", "text not null", "scope"),
        Column("topic", "text not null"),
        Column("path", "text not null"),
        Column("content", "text not null", "text"),
        Column("created", "real not null", "time"),
        Column("updated", "real not null", "time"),
    ),
    ("unique (scope, topic, path)",),
    place="r.path",
    texts="0",  # its lines are read from the bank, wherever that keeps its files
    unique=("scope", "topic", "path"),
)

NAMES = Kind(
    "names",
    "name",
    # A person's name as first written, which every row uses, by what all spellings of it, or of another name of theirs, have in
    # common (scopes.name_key): SQL cannot fold names, so each writer does.
    (Column("key", "text primary key", field="called"), Column("name", "text not null")),
    rowid=False,
    primary=("key",),
    newest="",
    goes="person",
    mine="name = :name",
    line="name",
)

KINDS = (
    FACT_KEYS, FACTS, DOUBTS, PREFERENCES, USERS, GOALS, PHASES, EPISODES, PROCEDURES, SESSIONS, TURNS, MESSAGES,
    SESSION_STATES, SESSION_SUMMARIES, EPOCHS, TOOL_OUTPUTS, BANK_FILES, STORED_THOUGHTS, STORED_EDGES, MARKS, NAMES,
)  # fmt: skip
"""In the order of an export: parents before the rows that belong to them."""

SHOWN: Mapping[str, tuple[Kind, ...]] = {
    "fact": (FACTS,), "doubt": (DOUBTS,), "turn": (MESSAGES,), "episode": (EPISODES,), "goal": (GOALS,),
    "preference": (PREFERENCES,), "summary": (EPOCHS, SESSION_SUMMARIES),
}  # fmt: skip
"""The kinds whose rows are shown as thoughts, by the first part of such an id: `fact:` and the row's id."""

_PLAIN = (
    # A forgetting whose bytes may still be in some file; its id is the tick of the transaction. folder: whose folder is still to
    # be removed from which bank, as JSON.
    "create table erasings (id integer primary key, folder text)",
    # Rows that changed or vanished after they were written; new ones are found by their ids instead.
    "create table index_queue (id integer primary key, kind text not null, ref integer not null)",
)


def schema_of(kinds: Sequence[Kind]) -> Schema:
    """Return the schema of a truth with these kinds. Levels are stored as integers: 0 shared, 1 household, 2 private."""
    steps: dict[str, tuple[str, ...]] = {"v001_initial": _PLAIN}
    for kind in kinds:
        steps[kind.step] = (*steps.get(kind.step, ()), *kind.statements())
    followed = [(shown, kind.table) for shown, some in SHOWN.items() for kind in some if kind in kinds]
    steps[STORED_EDGES.step] += (*follow_rows(followed), *VIEWS)
    ticks = {"index_queue": "id"} | {kind.table: kind.newest for kind in kinds if kind.newest}
    return Schema(tuple(Migration(*step) for step in sorted(steps.items())), ticks)


TRUTH = schema_of(KINDS)


def origin_of(path: Path, *, thorough: bool = False) -> Origin | None:
    """Return which truth a file holds, as `read_origin` does."""
    return read_origin(path, TRUTH, thorough=thorough)


def open_truth(path: str | Path, **settings: Any) -> Database:
    """Open a truth, making it if there is none; `settings` are those of `Database`."""
    return Database(path, schema=TRUTH, **settings)
