"""Connections: to a file, to a copy of one that may not be written, and to another program's.

The only module that imports sqlite3.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import sqlite3
import sys
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import quote

from edgemem.clock import Clock
from edgemem.errors import StoreError
from edgemem.store.db.files import to_store_error
from edgemem.store.db.migrations import Schema, Ticks, check_schema
from edgemem.store.db.wal import copied, write_copy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Mode = Literal["rw", "ro", "ro&immutable=1"]

_log = logging.getLogger(__name__)

_LOADS_EXTENSIONS = hasattr(sqlite3.Connection, "enable_load_extension")

FOREIGN = (sqlite3.Error, OSError, UnicodeError, OverflowError)
"""What SQLite and the system raise; `to_store_error` says it in edgemem's words."""


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Give SQLite's and the system's errors their meaning."""
    try:
        yield
    except FOREIGN as error:
        raise to_store_error(error, path) from error


class Origin(NamedTuple):
    """Which truth a file holds, and how far it reaches."""

    truth: int
    """The tick at which its schema was made: no two truths of a robot have the same."""
    newest: int
    """Its highest tick."""


def read_origin(path: Path, schema: Schema, *, thorough: bool = False) -> Origin | None:
    """Return which truth a file holds; None if this edgemem cannot read it. One without a log is looked at without a trace.

    Args:
        thorough: look at the whole file for damage; some 5 ms a megabyte.
    """
    try:
        if not path.stat().st_size:
            return None  # SQLite would take the log away from beside it
        log = path.with_name(path.name + "-wal")
        mode: Mode = "ro" if log.exists() and log.stat().st_size else "ro&immutable=1"
        with closing(connect(path, mode, 0.0, False)) as connection:
            if check_schema(connection, schema):
                return None
            if thorough and connection.execute("pragma quick_check").fetchone() != ("ok",):
                return None
            born = int(connection.execute("select min(recorded) from migrations").fetchone()[0])
            return Origin(born, Ticks(connection, schema, Clock(), path).newest(connection))
    except (sqlite3.Error, StoreError, OSError, TypeError, ValueError):
        return None


def read_value(path: Path, sql: str) -> Any:
    """Return one value of a file that is not opened otherwise; None if there is no row."""
    with translated_errors(path), closing(connect(path, "ro", 0.0, False)) as connection:
        row = connection.execute(sql).fetchone()
        return None if row is None else row[0]


def copy_database(source: Path, target: Path) -> None:
    """Write a complete and checked copy of a truth, wherever it is; `target` is replaced in one step."""
    with (
        translated_errors(source),
        copied(source) as copy,
        closing(connect(copy, "rw", 0.0, False)) as connection,
    ):
        write_copy(connection, target, connect=plain_connection)


@contextmanager
def read_foreign(path: Path) -> Iterator[Callable[[str], list[dict[str, Any]]]]:
    """Lend a way to read a database of another program: a copy is opened, so nothing changes, not even beside it.

    Text that is no UTF-8 is read as well as it can be.
    """
    with translated_errors(path), copied(path) as copy, closing(sqlite3.connect(copy)) as connection:
        connection.execute("pragma query_only = on")
        connection.execute("pragma trusted_schema = off")
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        connection.row_factory = sqlite3.Row

        def select(sql: str) -> list[dict[str, Any]]:
            return [dict(row) for row in connection.execute(sql)]

        yield select


def plain_connection(path: Path | str) -> sqlite3.Connection:
    """Return a connection that SQLite has set up alone; `:memory:` is a place too."""
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)


def connect(path: Path, mode: Mode, timeout_s: float, load_vec: bool) -> sqlite3.Connection:
    """Return a connection to a file that exists."""
    if load_vec and not _LOADS_EXTENSIONS:
        register_vec0()
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
        if load_vec:
            _load_vec0(connection)
        if mode != "rw":
            connection.execute("pragma query_only = on")
    except BaseException:
        connection.close()
        raise
    return connection


def _load_vec0(connection: sqlite3.Connection) -> None:
    if not _LOADS_EXTENSIONS:
        return  # `register_vec0` has seen to it before the connection was opened
    connection.enable_load_extension(True)
    try:
        connection.load_extension(_library())
    except sqlite3.OperationalError as error:
        _log.info("sqlite-vec cannot be loaded here: %s", error)
    finally:
        connection.enable_load_extension(False)


def vec0_version(connection: Any) -> str | None:
    """Return the version of vec0 that a connection has; None if it has none."""
    row = connection.execute("select 1 from pragma_function_list where name = 'vec_version'").fetchone()
    return str(connection.execute("select vec_version()").fetchone()[0]) if row else None


@functools.cache
def register_vec0() -> bool:
    """Make the SQLite library give vec0 to every connection that this process opens from now on.

    For Pythons built without `enable_load_extension`: the library that their `_sqlite3` is linked to is told
    directly. Return whether that was possible.
    """
    import ctypes  # late: most Pythons load extensions

    module = sys.modules.get("_sqlite3")
    try:
        # A module that is built into the interpreter has no file; its symbols are the interpreter's own.
        library = ctypes.CDLL(getattr(module, "__file__", None))
        vec0 = ctypes.CDLL(f"{_library()}.so")
        entry = ctypes.cast(vec0.sqlite3_vec_init, ctypes.c_void_p)
        return bool(library.sqlite3_auto_extension(entry) == 0)
    except (OSError, AttributeError):
        return False


def _library() -> str:
    """Return the path of sqlite-vec's library without its ending, as `sqlite_vec.loadable_path` does.

    Importing the package imports numpy, which takes 40 ms of every start and 10 MB, for types only.
    """
    spec = importlib.util.find_spec("sqlite_vec")
    if spec is None or spec.origin is None:
        raise ImportError("sqlite-vec is not installed")
    return str(Path(spec.origin).with_name("vec0"))
