"""How many cases a test tries: a twentieth of them in `make test`, all of them in `make test-long`."""

from __future__ import annotations

import os

LONG = bool(os.environ.get("EDGEMEM_LONG"))
"""Whether this is `make test-long`."""


def cases(full: int) -> int:
    """Return how many of the `full` cases of a long test to try now: all, or a twentieth."""
    return full if LONG else max(1, full // 20)
