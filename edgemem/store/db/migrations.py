"""Migrations: the schema of a file as a list of steps that is only ever appended to.

Each step runs in one transaction together with the record that it ran. Ids and `recorded` are ticks of the robot's clock:
microseconds since the epoch, strictly increasing, so that the order of ids is the order in which the robot learnt things.
A clock must know the newest tick that a file holds (`Ticks`), so that each further one is later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.errors import CorruptError, ForeignError, NewerSchemaError, StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from edgemem.clock import Clock

MARK = "tick:"
"""Keys of `meta` that begin with this hold ticks."""
_CLOCK = f"{MARK}clock"

_OWN_TABLES = (
    "migrations (name text primary key, recorded integer not null)",
    "meta (key text primary key, value) without rowid",
)
"""The tables that every file has: which steps it has seen, and notes by their keys."""

_AHEAD_S = 366 * 86400.0


class Migration(NamedTuple):
    """One step: a name that never changes, and the statements that it runs."""

    name: str
    statements: tuple[str, ...]


class Schema(NamedTuple):
    """The tables of a file."""

    steps: tuple[Migration, ...]
    """Their names are in the order of the alphabet."""
    ticks: Mapping[str, str]
    """Tables that hold ticks, each with the column whose highest value is the newest one."""


def check_schema(connection: Any, schema: Schema) -> bool:
    """Tell whether the file is new; raise where another program, or an older or newer edgemem, wrote it."""
    steps = schema.steps
    tables = {row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")}
    if not tables:
        return True
    if "migrations" not in tables:
        raise ForeignError("This database belongs to another program; name another file.")
    names = sorted(row[0] for row in connection.execute("select name from migrations"))
    if names and steps[0].name not in names:
        raise StoreError(
            "An edgemem of before the first release wrote this database, and this one cannot read it; move it away and"
            " begin anew."
        )
    newer = [name for name in names if name > steps[-1].name]
    if newer:
        raise NewerSchemaError(f"A newer edgemem wrote this database (it knows {newer[0]}); update edgemem.")
    return False


def missing_steps(connection: Any, schema: Schema) -> list[str]:
    """Return the names of the steps that a file which is not new has not seen, in their order."""
    run = {row[0] for row in connection.execute("select name from migrations")}
    return [step.name for step in schema.steps if step.name not in run]


def migrate(connection: Any, steps: Sequence[Migration], *, clock: Clock) -> None:
    """Run the steps that the file has not seen, each in one transaction with the record that it ran."""
    tick = clock.tick()
    for step in steps:
        connection.execute("begin immediate")
        try:
            for table in _OWN_TABLES:
                connection.execute(f"create table if not exists {table}")
            if connection.execute("select 1 from migrations where name = ?", (step.name,)).fetchone():
                connection.execute("rollback")
                continue
            for statement in step.statements:
                connection.execute(statement)
            connection.execute("insert into migrations (name, recorded) values (?, ?)", (step.name, tick))
            connection.execute("commit")
        except BaseException:
            if connection.in_transaction:
                connection.execute("rollback")
            raise


class Ticks:
    """The ticks of one file, as several connections see it.

    Args:
        connection: any of them, once the schema is there.
        path: of the file.
        derived: the file is made from another one, the truth, which was opened before with the same clock. Its ticks are far
            ahead of the truth's only if it is damaged; the clock does not take such a tick, or the truth would keep it for ever.
    """

    def __init__(
        self, connection: Any, schema: Schema, clock: Clock, path: Path, *, derived: bool = False
    ) -> None:
        tables = {row[0] for row in connection.execute("select name from sqlite_master")}
        parts = [
            f"(select max({column}) from {table})"  # noqa: S608 - our own constants
            for table, column in schema.ticks.items()
            if table in tables
        ]
        parts.append(f"(select max(value) from meta where key between '{MARK}' and '{MARK[:-1]};')")  # noqa: S608 - ours
        self._sql = f"select max(0, {', '.join(f'coalesce({part}, 0)' for part in parts)})"
        self._keeps = "meta" in tables
        self._clock = clock
        self._path = path
        self._derived = derived

    def newest(self, connection: Any) -> int:
        """Return the highest tick in the file; 0 if it holds none."""
        newest = connection.execute(self._sql).fetchone()[0] if self._keeps else 0
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
        if self._keeps and self.newest(connection) < newest:
            connection.execute("insert or replace into meta values (?, ?)", (_CLOCK, newest))


def note_tick(tx: Any, tick: int) -> None:
    """Have the file hold a tick that no row may bear."""
    tx.execute(
        "insert into meta values (?, ?) on conflict (key) do update set value = max(value, excluded.value)",
        (_CLOCK, tick),
    )
