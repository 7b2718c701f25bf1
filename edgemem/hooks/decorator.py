"""`@hook`: a plain function as a hook, as in EdgeVox."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from edgemem.errors import InvalidInputError
from edgemem.hooks.points import POINTS, HookResult

_WITH_POINT = 3  # arguments of a function that wants to know the point, before the context and the payload


class FunctionHook:
    """A function that acts at some points."""

    def __init__(self, act: Callable[..., HookResult | None], points: frozenset[str], priority: int) -> None:
        self.points = points
        self.priority = priority
        self.name = getattr(act, "__name__", type(act).__name__)
        self.__doc__ = act.__doc__
        self._act = act
        self._wants_point = len(inspect.signature(act).parameters) >= _WITH_POINT

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Call the function."""
        return self._act(point, ctx, payload) if self._wants_point else self._act(ctx, payload)


def hook(*points: str, priority: int = 0) -> Callable[[Callable[..., HookResult | None]], FunctionHook]:
    """Make a hook of a function that takes `(ctx, payload)` or `(point, ctx, payload)`.

    Args:
        points: where it acts, such as `"before_llm"`.
        priority: hooks of a higher one act first.

    Raises:
        InvalidInputError: no point is named, or one that does not exist.
    """
    known = ", ".join(sorted(POINTS))
    if not points or not all(isinstance(point, str) for point in points):
        raise InvalidInputError(
            f'Name the points at which the hook acts, as in @hook("before_llm"); there are: {known}'
        )
    unknown = sorted(set(points) - POINTS)
    if unknown:
        raise InvalidInputError(f"There is no point {unknown[0]!r}; there are: {known}")

    def made(act: Callable[..., HookResult | None]) -> FunctionHook:
        return FunctionHook(act, frozenset(points), priority)

    return made
