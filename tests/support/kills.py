"""Programs in processes of their own, and an end with -9."""

import os
import sqlite3
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
TRUTH = ("sessions", "turns", "messages", "epochs", "facts", "episodes")  # the tables of what was said
_PLACES = (_ROOT, _ROOT / "tests", _ROOT / "tests" / "crash")


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a Python process that runs `code`, which may import from the tests."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *map(str, arguments)], stdout=subprocess.PIPE,
        text=True, cwd=_ROOT, env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, _PLACES))},
    )  # fmt: skip


def kill_after(process: subprocess.Popen[str], lines: int, *, pause_s: float = 0.0) -> list[str]:
    """Kill a process once it has printed so many lines, or all; return the lines that it printed whole."""
    assert process.stdout is not None
    with process.stdout as told:
        printed = [line for line in (told.readline() for _ in range(lines)) if line]
        time.sleep(pause_s)
        process.kill()
        printed += [line for line in told if line.endswith("\n")]
    process.wait(10)
    return printed


def select(home: Path, sql: str) -> list[tuple[Any, ...]]:
    """Read the truth of a home as a person would, while the robot runs or after it died."""
    with closing(sqlite3.connect(f"file:{home}/db/memory.db?mode=ro", uri=True)) as database:
        return database.execute(sql).fetchall()


def rows(home: Path) -> dict[str, list[tuple[Any, ...]]]:
    return {table: select(home, f"select * from {table}") for table in TRUTH}
