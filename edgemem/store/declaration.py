"""Declarations: the words in which a kind says what its table holds.

Some columns mean the same in every table, by their names. `id` is the tick of the row, and `name` the id that a caller gave it.
`level` and `owner` say who may read it; a kind with a `doc` has both, and `id`. A row with `session` and `turn` came from that turn
and is erased with it, one with `session_id` with its conversation. All columns of `Heard` together are one field of an export.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from edgemem.records import Kind as DocKind

Goes = Literal["row", "fact", "conversation", "person"]
"""How a row is forgotten: by itself, with the history of its fact, with its conversation, or with the last row of its person."""

Role = Literal[
    "", "tick", "time", "level", "person", "scope", "key", "value", "text", "json", "count", "local"
]
"""What a column holds.

- `tick`: a moment of the robot's clock, in microseconds; `time`: seconds since the epoch.
- `level`: who may read the row; `person`: somebody's name as `names` spells it; `scope`: a scope.
- `key`: the name of a value; `value`: words of at most 16 KiB; `text`: words; `json`: a structure with words in it.
- `count`: how often something happened; `local`: a number that means nothing in another file.
"""

WORDS: tuple[Role, ...] = ("key", "value", "text", "json")  # that may hold somebody's name

IN_THEIR_TURNS = """
  (session, turn) in (select s.name, t.n from turns t join sessions s on s.id = t.session_id
    where t.owner = :name or t.speaker = :name)
"""
"""The condition under which a row came from a turn of the person `:name`."""


class Column(NamedTuple):
    """A column of a table."""

    name: str
    sql: str  # its type and constraints
    role: Role = ""
    field: str = ""  # its name in an export; empty: the same
    shape: Any = None  # the type of what an export holds; None: by its SQL type

    @property
    def optional(self) -> bool:
        """Tell whether it may be null."""
        return "not null" not in self.sql and "primary key" not in self.sql


class Parent(NamedTuple):
    """The row of another table that a row belongs to."""

    table: str
    column: str  # of the child; holds the parent's id
    fields: tuple[tuple[str, str], ...]
    """The fields of an export that name the parent, each with its column; the first one tells people where a row is."""


class Kind(NamedTuple):
    """A table, and all that the store must know of it. Statements call its rows `r`, and those of its parent `p`."""

    table: str
    label: str  # one of its rows, as people call it
    columns: tuple[Column, ...]
    constraints: tuple[str, ...] = ()
    rowid: bool = True  # False: the table is kept in the order of its primary key
    extras: tuple[str, ...] = ()  # further statements of the schema: indexes, triggers, views
    primary: tuple[str, ...] = ("id",)
    parent: Parent | None = None
    place: str = ""  # expression of where a row is, for people; empty: its parent's key, or its scope
    by: str = ""  # expression of who said it; empty: its speaker or its owner
    texts: str = ""  # condition under which its words count as said; empty: always
    newest: str = "id"  # the column with the tick of its writing; empty: it has none
    line: str = ""  # its `record` in an export; empty: its rows are in lines of other kinds
    unique: tuple[str, ...] = ()  # of two rows with the same values in these, an import keeps the newer one
    later: tuple[str, ...] = ()
    """Columns that have no value at first; once the first of them has one, none of them changes."""
    order: tuple[str, ...] = ()  # the order of its lines, by columns; empty: its primary key
    doc: DocKind | Literal[""] = ""  # the kind by which recall and blocks name it; empty: it is not found
    found_by: tuple[str, ...] = ()  # the columns that make its text
    goes: Goes = "row"
    mine: str = ""  # condition under which a row is the person's `:name`; empty: it bears that name
    blanks: Mapping[str, str] = MappingProxyType({})
    """Columns that are emptied where a row's speaker or conversation is forgotten, and the row stays.

    A column of JSON keeps its objects; each loses the values below the given key.
    """
    counted: str = ""  # the name of its number in statistics; empty: not counted
    lead: str = ""  # expression of the text before its words, for people; empty: none
    step: str = "v001_initial"  # the migration that makes its table; after a release, one of its own

    @property
    def plural(self) -> str:
        """Return its rows, as reports call them."""
        return "files" if self.label == "file" else self.table.replace("_", " ")

    def place_in_sql(self) -> str:
        """Return the expression that tells people where a row is."""
        if self.place:
            return self.place
        if self.parent:
            return f"ifnull(p.{self.parent.fields[0][1]}, '')"
        return "r.scope" if "scope" in self.names else "''"

    def join(self) -> str:
        """Return the join that adds a row's parent `p`."""
        above = self.parent
        return f" left join {above.table} p on p.id = r.{above.column}" if above else ""

    def columns_of(self, *roles: Role) -> tuple[str, ...]:
        """Return the names of the columns that have one of these roles."""
        return tuple(column.name for column in self.columns if column.role in roles)

    def time(self, alias: str) -> str:
        """Return the first column that holds a time, as a statement names it: when a doc's row happened; else null."""
        return next((f"{alias}.{column}" for column in self.columns_of("time")), "null")

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all columns."""
        return tuple(column.name for column in self.columns)

    def statements(self) -> tuple[str, ...]:
        """Return the statements that make the table."""
        body = ",\n  ".join((*[f"{column.name} {column.sql}" for column in self.columns], *self.constraints))
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


ID = Column("id", "integer primary key", "tick")
LEVEL = Column("level", "integer not null", "level")
OWNER = Column("owner", "text", "person")
