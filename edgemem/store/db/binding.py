"""Binding: many values in one statement, in numbers that SQLite binds, and under few different texts."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeVar

    T = TypeVar("T")

_BATCH = 500


def in_batches(ids: Sequence[T]) -> Iterable[Sequence[T]]:
    """Yield ids, or other values, in numbers that SQLite binds in one statement."""
    return (ids[start : start + _BATCH] for start in range(0, len(ids), _BATCH))


def placeholders(ids: Sequence[Any]) -> str:
    """Return the names under which `bound` binds ids.

    Their number is rounded up, so that a few statements serve all questions: SQLite takes longer to prepare one for sixty
    ids (.2 ms) than to find them.
    """
    return _marks(_rounded(len(ids)))


def bound(ids: Sequence[Any]) -> dict[str, Any]:
    """Return ids under the names that `placeholders` writes; the last one fills the rest of them."""
    names = _names(_rounded(len(ids)))
    filled = [*ids, *[ids[-1]] * (len(names) - len(ids))] if ids else []
    return dict(zip(names, filled, strict=True))


def _rounded(n: int) -> int:
    """Return the next larger of 1, 2, 3, 4, 6, 8, 12, 16, 24, …; 0 of 0."""
    step = 1 << max(0, n.bit_length() - 2)
    return -(-n // step) * step


@functools.cache
def _names(n: int) -> tuple[str, ...]:
    return tuple(f"i{number}" for number in range(n))


@functools.cache
def _marks(n: int) -> str:
    return ",".join(f":{name}" for name in _names(n))
