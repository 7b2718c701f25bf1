"""Provisions: what is made once, when it is first needed, or ahead of that while nobody waits.

Patterns and tables that every question is read with take 80 ms to make (one x86-64 core): too long to open a memory, and too
long for a turn. So modules only say how they are made; `lay_in` makes what is still missing, in idle time and as soon as
somebody begins to speak. Where neither comes first, the first question makes what it needs.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from functools import _lru_cache_wrapper

T = TypeVar("T")

_missing: deque[Callable[[], object]] = deque()
"""What nobody has made ahead, in the order in which modules were imported."""


def provided(make: Callable[[], T]) -> _lru_cache_wrapper[T]:
    """Decorate a function that makes something once for the whole process, and takes some milliseconds."""
    cached = cache(make)
    later(cached)
    return cached


def later(make: Callable[[], object]) -> None:
    """Have something made ahead; it must be cheap where it has been made already."""
    _missing.append(make)


def lay_in(stop: Callable[[], bool] | None = None) -> bool:
    """Make what is missing, one after another, until `stop()` is true; return whether anything was."""
    worked = False
    while not (stop and stop()):
        try:
            make = _missing.popleft()
        except IndexError:  # also where another thread took the last one
            break
        make()
        worked = True
    return worked
