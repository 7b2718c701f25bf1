"""Load sqlite-vec into a connection, also where Python was built without extension loading."""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path
from typing import Any


def load_vec0(connection: Any) -> None:
    """Give an SQLite connection the vec0 module; raise SQLite's error where that fails.

    Where Python has no `enable_load_extension`, `register_vec0` before the connection was opened has done so.
    """
    if hasattr(connection, "enable_load_extension"):
        connection.enable_load_extension(True)
        try:
            connection.load_extension(_library())
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
