"""Preloading: patterns and tables that are made once, when they are first needed, or ahead of that while nobody waits.

Those for every question take 80 ms to make (one x86-64 core): too long for opening a memory, and for a turn. So `preload`
makes the missing ones in idle time and as soon as somebody begins to speak; else the first question makes what it needs.
Short patterns stay with `re.compile`.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache, cached_property, wraps
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

    import numpy

T = TypeVar("T")

_making = threading.RLock()
"""Held while something is made: two threads at once would do all the work twice, and end the process in msgspec (0.22), which
shows a class to the other thread before it has read the types of its fields."""

_missing: deque[Callable[[], object]] = deque()


def preloaded(make: Callable[[], T]) -> _lru_cache_wrapper[T]:
    """Decorate a function that makes something once for the whole process, and takes some milliseconds."""
    once = cache(make)

    @wraps(make)
    def make_alone() -> T:
        with _making:
            return once()

    cached = cache(make_alone)
    preload_later(cached)
    return cached


def preload_later(make: Callable[[], object]) -> None:
    """Have something made ahead; it must be cheap where it has been made already."""
    _missing.append(make)


def preload(stop: Callable[[], bool] | None = None) -> bool:
    """Make the missing values, one after another, until `stop()` is true; return whether anything was made."""
    worked = False
    while not (stop and stop()):
        try:
            make = _missing.popleft()
        except IndexError:  # also where another thread took the last one
            break
        make()
        worked = True
    return worked


class Pattern:
    """A regular expression at the top of a module; asked like a `re.Pattern`, from any thread.

    A method is looked up once and kept: that costs 50 ns a call.
    """

    search: Callable[..., re.Match[str] | None]
    match: Callable[..., re.Match[str] | None]
    fullmatch: Callable[..., re.Match[str] | None]
    findall: Callable[[str], list[str]]
    finditer: Callable[..., Iterator[re.Match[str]]]
    sub: Callable[..., str]
    split: Callable[..., list[str]]

    def __init__(self, *expressions: str, flags: int = 0) -> None:
        self._expressions = expressions
        self._flags = flags
        preload_later(lambda: self.compiled)

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """Return the pattern of the standard library."""
        return re.compile("|".join(f"(?:{expression})" for expression in self._expressions), self._flags)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self.compiled, name)
        self.__dict__[name] = method
        return method


class _Numpy:
    """numpy, imported with its first use, so that opening a memory need not wait; what it has is looked up once and kept."""

    def __getattr__(self, name: str) -> object:
        value: object = attrgetter(name)(import_module("numpy"))
        self.__dict__[name] = value
        return value


if TYPE_CHECKING:
    np = numpy
else:
    np = _Numpy()
