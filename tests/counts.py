"""How many cases a test tries: a twentieth of them or fewer in `make test`, all of them in `make test-long`."""

from __future__ import annotations

import os

LONG = bool(os.environ.get("EDGEMEM_LONG"))
"""Whether this is `make test-long`."""


def cases(full: int, *, of: int = 20) -> int:
    """Return how many of the `full` cases of a long test to try now: all, or one in so many."""
    return full if LONG else max(1, full // of)
