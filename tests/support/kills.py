"""Programs in processes of their own, and an end with -9."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_PLACES = (_ROOT, _ROOT / "tests", _ROOT / "tests" / "crash")


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a Python process that runs `code`, which may import from the tests."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, _PLACES))},
    )


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
