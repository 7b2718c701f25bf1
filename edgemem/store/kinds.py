"""Kinds: every table of what the robot remembers, declared once.

A kind says which columns it has and what each of them holds. The schema, the names in use, the erasing of a person, the
search for mentions, the export, the import, the docs of the index and the statistics follow from that. To add a kind,
write a module of its own with its functions, and declare its table here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

Goes = Literal["row", "fact", "conversation"]
"""How a row is forgotten: by itself, with the history of its fact, or with its conversation."""

Role = Literal["", "tick", "time", "level", "person", "scope", "key", "text", "json"]
"""What a column holds.

- `tick`: a moment of the robot's clock, in microseconds; `time`: seconds since the epoch.
- `level`: who may read the row; `person`: somebody's name as `names` spells it; `scope`: a scope.
- `key`: the name of a value; `text`: words; `json`: a structure with words in it. In all three a name may stand.
"""

WORDS: tuple[Role, ...] = ("key", "text", "json")
"""Roles of columns in which somebody's name may stand."""


IN_THEIR_TURNS = """
  (session, turn) in (select s.name, t.n from turns t join sessions s on s.id = t.session_id
    where t.owner = :name or t.speaker = :name)
"""
"""The condition under which a row came from a turn of the person `:name`."""


class Column(NamedTuple):
    """A column of a table."""

    name: str
    sql: str
    """Its type and constraints."""
    role: Role = ""


class Parent(NamedTuple):
    """The row of another table that a row belongs to."""

    table: str
    column: str
    """The column of the child that holds the parent's id."""
    key: str
    """The parent's column that names it to people."""


class Kind(NamedTuple):
    """A table, and everything that the store must know of it.

    The statements that read it call its rows `r`, and those of its parent `p`.
    """

    table: str
    label: str
    """One of its rows, as people call it."""
    columns: tuple[Column, ...]
    constraints: tuple[str, ...] = ()
    rowid: bool = True
    """False: the table is kept in the order of its primary key."""
    extras: tuple[str, ...] = ()
    """Further statements of the schema: indexes, triggers, views."""
    primary: tuple[str, ...] = ("id",)
    parent: Parent | None = None
    place: str = ""
    """The expression that tells people where a row is; empty: its parent's key, or its scope."""
    by: str = ""
    """The expression that tells who said it; empty: its speaker or its owner."""
    texts: str = ""
    """The condition under which the words of a row count as said; empty: always."""
    newest: str = "id"
    """The column that holds the tick of its writing; empty: it has none."""
    doc: str = ""
    """The kind under which recall finds it, and blocks name it; empty: it is not found."""
    found_by: tuple[str, ...] = ()
    """The columns that make its text."""
    goes: Goes = "row"
    mine: str = ""
    """The condition under which a row is the person's `:name`; empty: the row bears that name."""
    blanks: Mapping[str, str] = MappingProxyType({})
    """The columns that lose what they hold where the speaker or the conversation of a row is forgotten, and the row stays.

    A column of JSON keeps its objects; each loses the values below the key that is given for it.
    """
    lead: str = ""
    """The expression of the text before its words where people see them; empty: none."""

    @property
    def plural(self) -> str:
        """Return its rows, as reports call them."""
        return "files" if self.label == "file" else self.table.replace("_", " ")

    def place_in_sql(self) -> str:
        """Return the expression that tells people where a row is."""
        if self.place:
            return self.place
        if self.parent:
            return f"ifnull(p.{self.parent.key}, '')"
        return "r.scope" if "scope" in self.names else "''"

    def join(self) -> str:
        """Return the join that adds a row's parent `p`."""
        above = self.parent
        return f" left join {above.table} p on p.id = r.{above.column}" if above else ""

    def columns_of(self, *roles: Role) -> tuple[str, ...]:
        """Return the names of the columns that have one of these roles."""
        return tuple(column.name for column in self.columns if column.role in roles)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all columns."""
        return tuple(column.name for column in self.columns)

    def statements(self) -> tuple[str, ...]:
        """Return the statements that make the table."""
        parts = [f"{column.name} {column.sql}" for column in self.columns]
        body = ",\n  ".join((*parts, *self.constraints))
        return (
            f"create table {self.table} (\n  {body}\n){'' if self.rowid else ' without rowid'}",
            *self.extras,
        )

    def of_person(self, alias: str = "") -> str:
        """Return the condition under which a row bears the name `:name`; empty where none can."""
        dot = f"{alias}." if alias else ""
        parts = [f"{dot}{column} = :name" for column in self.columns_of("person")]
        parts += [f"{dot}{column} = 'user:' || :name" for column in self.columns_of("scope")]
        return " or ".join(parts)

    def where_mine(self) -> str:
        """Return the condition under which a row is the person's `:name`, or came from one of their turns."""
        parts = [self.mine or self.of_person()]
        if {"session", "turn"}.issubset(self.names) and not self.blanks:
            parts.append(IN_THEIR_TURNS)
        return " or ".join(parts)


_ID = Column("id", "integer primary key", "tick")
_LEVEL = Column("level", "integer not null", "level")
_OWNER = Column("owner", "text", "person")
_OF_SOMEBODY = Column("owner", "text not null", "person")
_HEARD = (
    Column("speaker", "text", "person"),
    Column("speaker_confidence", "real"),
    Column("asr_confidence", "real"),
    Column("device", "text", "text"),
    Column("room", "text", "text"),
    Column("event_time", "real", "time"),
)
"""Columns of every record that came from speech."""
_STATED = (
    Column("source", "text not null default ''", "text"),
    _LEVEL,
    _OWNER,
    *_HEARD,
    # The value as it was given, where that was no text; `value` then says it in words.
    Column("json", "text"),
    # See `facts.trust_of`.
    Column("trust", "integer not null default 3"),
)
_FROM = (Column("session", "text"), Column("turn", "integer"))
"""The session and the turn that a row came from, by name: it stays when these go."""
_OF_SESSION = Column("session_id", "integer not null references sessions (id) on delete cascade")
_SESSION = Parent("sessions", "session_id", "name")

FACT_KEYS = Kind(
    "fact_keys",
    "fact",
    (
        Column("id", "integer primary key"),
        Column("scope", "text not null", "scope"),
        Column("key", "text not null", "key"),
        # The conversation that a fact of a user is about, as `edgemem.aio` has it; null: about all. Its key bears it too.
        Column("topic", "text"),
    ),
    ("unique (scope, key)",),
    by="(select speaker from facts where key_id = r.id and id = origin order by recorded desc limit 1)",
    newest="",
    goes="fact",
)

FACTS = Kind(
    "facts",
    "fact",
    # A rectangle in valid time x transaction time. The rectangles of one key never overlap and leave no gap after its
    # first version, so a question (when, known when) has one answer. value null: no value. origin: the row that said so
    # first; where a correction splits a rectangle, the rest of it is written again. version counts the transactions of a
    # key; node: see facts_known.
    (
        _ID,
        Column("key_id", "integer not null references fact_keys (id)"),
        Column("value", "text", "text"),
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
        # in the index for each of the log2(n) nodes above a version finds what was believed.
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
    parent=Parent("fact_keys", "key_id", "scope"),
    texts="r.id = r.origin",  # each statement once, also one that is not believed any more
    doc="fact",
    goes="fact",
    lead="(select key || ': ' from fact_keys where id = r.key_id)",
)

DOUBTS = Kind(
    "doubts",
    "doubt",
    # A statement that is not believed, so it is no rectangle. settled: the tick at which something was believed of the same
    # time; confirmed_by: the fact that says the same, else it was refuted.
    (
        _ID,
        Column("key_id", "integer not null references fact_keys (id)"),
        Column("value", "text not null", "text"),
        Column("valid_from", "real not null", "time"),
        Column("valid_to", "real", "time"),
        Column("settled", "integer", "tick"),
        Column("confirmed_by", "integer", "tick"),
        *_STATED,
        # Whether it was heard badly, as decided when it was said; 0: it is a doubt because of who said so.
        Column("badly", "integer not null default 1"),
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
    parent=Parent("fact_keys", "key_id", "scope"),
    mine="owner = :name or speaker = :name",
    lead="(select key || ': ' from fact_keys where id = r.key_id)",
)

PREFERENCES = Kind(
    "preferences",
    "preference",
    # Its id is in the order of writing; a preference that changes gets a new one.
    (
        _ID,
        Column("scope", "text not null", "scope"),
        Column("key", "text not null", "key"),
        Column("value", "text not null", "text"),
        Column("recorded", "integer not null", "tick"),
        _LEVEL,
        _OWNER,
    ),
    ("unique (scope, key)",),
    newest="recorded",
    doc="preference",
    found_by=("key", "value"),
    lead="r.key || ': '",
)

EPISODES = Kind(
    "episodes",
    "episode",
    # name: the id that a caller gave. summary: what happened, in words; null: kind and payload say it. details: decisions,
    # tools and tags, as JSON. latency: of a call of a tool, in milliseconds.
    (
        _ID,
        Column("kind", "text not null", "text"),
        Column("payload", "text not null", "json"),
        Column("outcome", "text not null", "text"),
        Column("agent", "text not null default ''", "text"),
        _LEVEL,
        _OWNER,
        *_HEARD,
        Column("name", "text"),
        Column("summary", "text", "text"),
        Column("details", "text", "json"),
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
)

PROCEDURES = Kind(
    "procedures",
    "procedure",
    # name: its id for callers. It gets a new row id when it is stored again, and keeps its counts.
    (
        _ID,
        Column("name", "text not null unique"),
        Column("title", "text not null", "text"),
        Column("description", "text not null", "text"),
        Column("trigger", "text not null", "text"),
        Column("steps", "text not null", "json"),
        Column("successes", "integer not null default 0"),
        Column("failures", "integer not null default 0"),
        Column("tags", "text", "json"),
        Column("metadata", "text", "json"),
        *_FROM,
        _LEVEL,
        _OWNER,
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
)

SESSIONS = Kind(
    "sessions",
    "session state",
    (
        _ID,
        Column("name", "text not null unique"),
        Column("state", "text not null default '{}'", "json"),
        Column("recorded", "integer not null", "tick"),
    ),
    place="r.name",
    newest="recorded",
    goes="conversation",
)

TURNS = Kind(
    "turns",
    "turn",
    # No secondary index: a turn's row and its messages are appended at the end of two trees, which keeps a commit at few
    # pages. state: 0 open, 1 complete, 2 interrupted, 3 unfinished. shown: the entries of the block's lines
    # (records.BlockLine), as a list in JSON. They stand in the page that the block spills into, at no cost; a row for each
    # line would stand in a tree of its own, and each turn write more pages (tests/lab/tuning.md).
    (
        Column("session_id", "integer not null references sessions (id)"),
        Column("n", "integer not null"),
        Column("first_message", "integer not null", "tick"),
        Column("last_message", "integer not null", "tick"),
        Column("state", "integer not null"),
        Column("block", "text", "text"),
        Column("shown", "text", "json"),
        _LEVEL,
        _OWNER,
        Column("recorded", "integer not null", "tick"),
        *_HEARD,
    ),
    ("primary key (session_id, n)",),
    rowid=False,
    # Who may read a summary hangs on the private turns before it: few, in sessions of many thousand turns.
    extras=("create index turns_private on turns (session_id, n, owner) where level = 2",),
    primary=("session_id", "n"),
    parent=_SESSION,
    place="p.name || ' ' || r.n",
    newest="",
    goes="conversation",
)

MESSAGES = Kind(
    "messages",
    "turn",
    # dropped: the tick at which save() replaced this message by another version of the conversation.
    (
        _ID,
        Column("session_id", "integer not null"),
        Column("turn", "integer not null"),
        Column("role", "text not null"),
        Column("content", "text", "text"),
        Column("unheard", "text", "text"),
        Column("extra", "text", "json"),
        Column("tokens", "blob"),
        Column("dropped", "integer", "tick"),
    ),
    extras=(
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
)

EPOCHS = Kind(
    "epochs",
    "summary",
    # head: a hash of the instructions and tools before the epoch; null where nobody noted it. carried: the lines of memory
    # in the epoch's head, in the form of turns.shown; null if there are none.
    (
        _ID,
        Column("session_id", "integer not null references sessions (id)"),
        Column("first_turn", "integer not null"),
        Column("summary", "text not null default ''", "text"),
        Column("reason", "text not null default ''"),
        Column("started_at", "real not null", "time"),
        Column("head", "text"),
        Column("carried", "text", "json"),
    ),
    extras=("create index epochs_by_session on epochs (session_id, id)",),
    parent=_SESSION,
    by="''",
    doc="summary",
    found_by=("summary",),
    goes="conversation",
)

TOOL_OUTPUTS = Kind(
    "tool_outputs",
    "turn",
    # What tools answered in full, where the message holds only its beginning; bounded, and erased with its turn. bytes
    # stands before content: all sizes can be added up without reading the texts.
    (
        Column("id", "integer primary key"),
        Column("session_id", "integer not null"),
        Column("turn", "integer not null"),
        Column("pointer", "text not null"),
        Column("bytes", "integer not null"),
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
)

USERS = Kind("users", "user", (_ID, Column("name", "text not null unique", "person")), place="r.name")

GOALS = Kind(
    "goals",
    "goal",
    # data: the rest of its fields, as JSON. A goal that changes gets a new row id.
    (
        _ID,
        _OF_SOMEBODY,
        Column("name", "text not null"),
        Column("title", "text not null", "text"),
        Column("data", "text not null", "json"),
        _LEVEL,
    ),
    ("unique (owner, name)",),
    place="r.name",
    doc="goal",
    found_by=("title", "data"),
)

PHASES = Kind(
    "phases",
    "phase",
    (
        _ID,
        Column("owner", "text not null unique", "person"),
        Column("phase", "text not null", "text"),
        Column("notes", "text not null", "text"),
    ),
    place="r.owner",
)

SESSION_STATES = Kind(
    "session_states",
    "session state",
    # What an agent keeps of one person in a session.
    (_ID, _OF_SESSION, _OF_SOMEBODY, Column("data", "text not null", "json")),
    ("unique (session_id, owner)",),
    parent=_SESSION,
)

SESSION_SUMMARIES = Kind(
    "session_summaries",
    "summary",
    # The summary that an agent wrote of what one person said in a session.
    (
        _ID,
        _OF_SESSION,
        _OF_SOMEBODY,
        Column("summary", "text not null", "text"),
        Column("covered", "integer not null"),
        Column("version", "integer not null"),
        _LEVEL,
    ),
    ("unique (session_id, owner)",),
    parent=_SESSION,
    doc="summary",
    found_by=("summary",),
)

BANK_FILES = Kind(
    "bank_files",
    "file",
    # Files of the bank, where the profile keeps it in the database; scope: user:…, household or shared.
    (
        _ID,
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
)

KINDS = (
    FACT_KEYS, FACTS, DOUBTS, PREFERENCES, EPISODES, PROCEDURES, SESSIONS, TURNS, MESSAGES, EPOCHS, TOOL_OUTPUTS, USERS,
    GOALS, PHASES, SESSION_STATES, SESSION_SUMMARIES, BANK_FILES,
)  # fmt: skip
