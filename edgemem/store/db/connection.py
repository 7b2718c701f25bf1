"""Connections: to a file, to a copy of one that may not be written, and to another program's; and the schema of a file.

A schema is a list of steps that is only ever appended to. Ids and `recorded` are ticks of the robot's clock: microseconds since
the epoch, strictly increasing, so the order of ids is the order of learning. So a clock must know a file's newest tick (`Ticks`).
"""

from __future__ import annotations

import functools
import importlib.util
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import quote

from edgemem.clock import Clock
from edgemem.errors import CorruptError, ForeignError, InvalidInputError, NewerSchemaError, StoreError
from edgemem.store.db.files import to_store_error
from edgemem.store.db.wal import copied, write_copy

if TYPE_CHECKING:
    from edgemem.clock import Clock

Mode = Literal["rw", "ro", "ro&immutable=1"]

SQLITE_VERSION = sqlite3.sqlite_version
FOREIGN = (sqlite3.Error, OSError, UnicodeError, OverflowError)
"""Errors of SQLite and the system; `to_store_error` says them in edgemem's words."""

MARK = "tick:"  # keys of `meta` that begin with this hold ticks
_CLOCK = f"{MARK}clock"

_OWN_TABLES = (
    "migrations (name text primary key, recorded integer not null)",
    "meta (key text primary key, value) without rowid",
)

_AHEAD_S = 366 * 86400.0
_MOST_FOREIGN = 256 * 1024 * 1024
"""Bytes that are read of another program's database, `_ROW_BYTES` a row and its texts."""
_ROW_BYTES = 64
_MOST_VALUE = 16 * 1024 * 1024
"""Bytes of a text that a query of somebody's may make."""


class Migration(NamedTuple):
    """One step: a name that never changes, and the statements that it runs."""

    name: str
    statements: tuple[str, ...]


class Schema(NamedTuple):
    """The tables of a file."""

    steps: tuple[Migration, ...]  # their names are in the order of the alphabet
    ticks: Mapping[str, str]  # tables that hold ticks, each with the column of its newest one


def check_schema(connection: Any, schema: Schema) -> bool:
    """Tell whether the file is new; raise where another program, or an older or newer edgemem, wrote it."""
    steps = schema.steps
    tables = {row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")}
    if not tables:
        return True
    if "migrations" not in tables:
        raise ForeignError(
            "This database belongs to another program; name another file. `edgemem import swarmline`, `edgevox` or `engrava` takes theirs over."
        )
    names = sorted(row[0] for row in connection.execute("select name from migrations"))
    is_older = bool(names) and steps[0].name not in names  # or damaged: names may be no text then
    newer = [name for name in names if not is_older and name > steps[-1].name]
    if newer:
        raise NewerSchemaError(f"A newer edgemem wrote this database (it knows {newer[0]}); update edgemem.")
    ran = [statement.split() for step in steps if step.name in names for statement in step.statements]
    lacking = sorted({words[2] for words in ran if words[:2] == ["create", "table"]} - tables)
    if lacking or is_older:
        lacks = f" (it lacks the table {lacking[0]})" if lacking else ""
        raise StoreError(
            f"An edgemem of before the first release wrote this database{lacks}, or somebody changed it, and this one cannot"
            " read it; move it away and begin anew, or restore a backup."
        )
    return False


def missing_steps(connection: Any, schema: Schema) -> list[str]:
    """Return the names of the steps that a file which is not new has not seen, in their order."""
    run = {row[0] for row in connection.execute("select name from migrations")}
    return [step.name for step in schema.steps if step.name not in run]


def foreign_parts(query: Callable[[str], Iterable[tuple[Any, ...]]], schema: Schema) -> list[str]:
    """Return tables, indexes, triggers and views that a file has beside, or other than, those that its steps make, or lacks."""
    run = {name for (name,) in query("select name from migrations")}
    with closing(plain_connection(":memory:")) as made:
        migrate(made, [step for step in schema.steps if step.name in run], clock=Clock())
        return sorted({f"{kind} {name}" for kind, name, _ in _parts(made.execute) ^ _parts(query)})


def _parts(query: Callable[[str], Iterable[tuple[Any, ...]]]) -> set[tuple[str, str, str]]:
    # `analyze`, which an operator may have run, makes the tables of statistics.
    rows = query(
        "select type, name, sql from sqlite_master where sql is not null and name not glob 'sqlite_stat?'"
    )
    return {(kind, name, " ".join(sql.split())) for kind, name, sql in rows}


def migrate(connection: Any, steps: Sequence[Migration], *, clock: Clock) -> None:
    """Run the steps that the file has not seen, each in one transaction with the record that it ran."""
    tick = clock.tick()
    for step in steps:
        with all_or_none(connection):
            for table in _OWN_TABLES:
                connection.execute(f"create table if not exists {table}")
            if connection.execute("select 1 from migrations where name = ?", (step.name,)).fetchone():
                continue
            for statement in step.statements:
                connection.execute(statement)
            connection.execute("insert into migrations (name, recorded) values (?, ?)", (step.name, tick))


@contextmanager
def all_or_none(connection: Any) -> Iterator[None]:
    """Have all statements of a block written, or none of them."""
    connection.execute("begin immediate")
    try:
        yield
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


class Ticks:
    """The ticks of one file, as several connections see it.

    A derived file has ticks far ahead of its truth only if it is damaged; the clock takes none, or the truth would keep it.
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


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Give SQLite's and the system's errors their meaning."""
    try:
        yield
    except FOREIGN as error:
        raise to_store_error(error, path) from error


class Origin(NamedTuple):
    """Which truth a file holds, and how far it reaches."""

    truth: int  # the tick at which its schema was made: no two truths of a robot have the same
    newest: int  # its highest tick


def read_origin(path: Path, schema: Schema, *, thorough: bool = False) -> Origin | None:
    """Return which truth a file holds; None if this edgemem cannot read it. One without a log is looked at without a trace.

    `thorough` looks at the whole file for damage, some 5 ms a megabyte, and for parts that edgemem does not make.
    """
    try:
        if not path.stat().st_size:
            return None  # SQLite would take the log away from beside it
        log = path.with_name(path.name + "-wal")
        mode: Mode = "ro" if log.exists() and log.stat().st_size else "ro&immutable=1"
        with closing(connect(path, mode, 0.0)) as connection:
            if check_schema(connection, schema):
                return None
            if thorough and (
                connection.execute("pragma quick_check").fetchone() != ("ok",)
                or foreign_parts(connection.execute, schema)
            ):
                return None
            born = int(connection.execute("select min(recorded) from migrations").fetchone()[0])
            return Origin(born, Ticks(connection, schema, Clock(), path).newest(connection))
    except (sqlite3.Error, StoreError, OSError, TypeError, ValueError):
        return None


def read_value(path: Path, sql: str) -> Any:
    """Return one value of a file that is not opened otherwise; None if there is no row."""
    with translated_errors(path), closing(connect(path, "ro", 0.0)) as connection:
        row = connection.execute(sql).fetchone()
        return None if row is None else row[0]


def copy_database(source: Path, target: Path) -> None:
    """Write a complete and checked copy of a truth, wherever it is; `target` is replaced in one step.

    Beside one without a log nothing is written, so it is read where it lies.
    """
    mode: Mode = "rw" if (logged := source.with_name(f"{source.name}-wal").exists()) else "ro&immutable=1"
    with (
        translated_errors(source),
        copied(source) if logged else nullcontext(source) as file,
        closing(connect(file, mode, 0.0)) as connection,
    ):
        write_copy(connection, target, connect=plain_connection)


@contextmanager
def read_foreign(
    path: Path,
) -> Iterator[tuple[dict[str, list[str]], Callable[[str], list[dict[str, Any]]], int]]:
    """Lend the tables of another program's database with their columns, a way to read the rows of one, and its `user_version`.

    Bad UTF-8 is replaced. It is a copy, so that nothing changes beside it. Only what is stored is read: what a view or a column computes may have no end.
    """
    with translated_errors(path), copied(path) as copy, closing(sqlite3.connect(copy)) as connection:
        connection.execute("pragma query_only = on")
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        if sys.version_info >= (3, 11):
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_FOREIGN)
        stored = "select name from sqlite_master where type = 'table' and rootpage > 0"
        names = [name for (name,) in connection.execute(stored)]
        # Only now: before 3.41, an index over a JSON expression would pass for a damaged schema.
        connection.execute("pragma trusted_schema = off")
        tables = {
            name: [column for _, column, *_ in connection.execute(f"pragma table_info({_quoted(name)})")]
            for name in names
        }
        left = _MOST_FOREIGN

        def rows_of(table: str) -> list[dict[str, Any]]:
            nonlocal left
            columns, rows = tables[table], []
            sql = f"select {', '.join(map(_quoted, columns))} from {_quoted(table)} order by rowid"  # noqa: S608 - quoted
            for row in connection.execute(sql):
                left -= _ROW_BYTES + sum(len(value) for value in row if isinstance(value, (str, bytes)))
                if left < 0:  # a damaged file may have the same page many times
                    raise InvalidInputError(f"its tables have more than {_MOST_FOREIGN:,} bytes.")
                rows.append(dict(zip(columns, row, strict=True)))
            return rows

        yield tables, rows_of, connection.execute("pragma user_version").fetchone()[0]


def _quoted(name: object) -> str:
    return '"' + str(name).replace('"', '""') + '"'


def plain_connection(path: Path | str) -> sqlite3.Connection:
    """Return a connection that SQLite has set up alone; `:memory:` is a place too."""
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)


def connect(path: Path, mode: Mode, timeout_s: float) -> sqlite3.Connection:
    """Return a connection to a file that exists."""
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        timeout=timeout_s,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.execute("pragma temp_store = memory")
        connection.execute("pragma mmap_size = 0")
        if mode != "rw":
            connection.execute("pragma query_only = on")
    except BaseException:
        connection.close()
        raise
    return connection


class Answer(NamedTuple):
    """What a query of somebody's gives."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    is_whole: bool
    """Whether there are no more rows."""


def query_file(path: Path, sql: str, *, seconds: float, most: int) -> Answer:
    """Run a query of somebody's on a file, within bounds; it can only read.

    Raises:
        InvalidInputError: it is wrong, would do more than read, or takes too long.
    """
    with closing(connect(path, "ro", seconds)) as connection:
        return _query(connection, sql, seconds=seconds, most=most)


def query_tables(
    tables: Mapping[str, tuple[Sequence[str], Iterable[Sequence[Any]]]],
    sql: str,
    *,
    seconds: float,
    most: int,
) -> Answer:
    """Run a query of somebody's on these tables alone, given by their columns and rows, as `query_file` does."""
    with closing(plain_connection(":memory:")) as connection:
        for name, (columns, rows) in tables.items():
            connection.execute(f"create table {name} ({', '.join(columns)})")
            marks = ", ".join("?" * len(columns))
            connection.executemany(f"insert into {name} values ({marks})", rows)  # noqa: S608 - our own names
        return _query(connection, sql, seconds=seconds, most=most)


_READS = frozenset(
    (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
)


def _query(connection: sqlite3.Connection, sql: str, *, seconds: float, most: int) -> Answer:
    end = monotonic() + seconds
    if sys.version_info >= (3, 11):
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_VALUE)
    connection.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_OK if action in _READS else sqlite3.SQLITE_DENY
    )
    connection.set_progress_handler(lambda: int(monotonic() > end), 1000)
    try:
        cursor = connection.execute(sql)
        rows = cursor.fetchmany(most + 1)
    except (sqlite3.Error, sqlite3.Warning) as error:
        reason = f"it takes more than {seconds:g} s" if monotonic() > end else str(error)
        raise InvalidInputError(f"The query cannot be answered: {reason}; it may only select.") from error
    return Answer(tuple(name for name, *_ in cursor.description or ()), rows[:most], len(rows) <= most)


def vec0_version() -> str | None:
    """Return the version of sqlite-vec, with which labs compare; None where this Python's SQLite cannot load it."""
    if not register_vec0():
        return None
    with closing(plain_connection(":memory:")) as connection:
        return str(connection.execute("select vec_version()").fetchone()[0])


@functools.cache
def register_vec0() -> bool:
    """Give vec0 to every later connection of this process; tell whether that worked.

    It tells the library that `_sqlite3` is linked to: many Pythons are built without `enable_load_extension`.
    """
    import ctypes  # late: no robot needs it

    module, package = sys.modules.get("_sqlite3"), importlib.util.find_spec("sqlite_vec")
    if package is None or package.origin is None:
        return False
    try:
        # A module built into the interpreter has no file; its symbols are the interpreter's own.
        library = ctypes.CDLL(getattr(module, "__file__", None))
        vec0 = ctypes.CDLL(str(Path(package.origin).with_name("vec0.so")))
        return bool(library.sqlite3_auto_extension(ctypes.cast(vec0.sqlite3_vec_init, ctypes.c_void_p)) == 0)
    except (OSError, AttributeError):
        return False
