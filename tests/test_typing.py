"""The public names keep their types, as a user's own type checker sees them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_public_api_is_typed() -> None:
    """Strict mypy agrees with every type that `tests/typing` states, for the oldest Python."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores", "tests/typing/public_api.py"],
        capture_output=True,
        text=True,
        timeout=280,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
