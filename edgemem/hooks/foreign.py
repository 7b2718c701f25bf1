"""Hooks of another framework: what was written for EdgeVox acts in our registry as it is."""

from __future__ import annotations

from typing import Any

from edgemem.errors import InvalidInputError
from edgemem.hooks.points import POINTS, Hook, HookResult


class ForeignHook:
    """A hook that has no priority, or that names points of its own framework."""

    def __init__(self, hook: Any) -> None:
        """Wrap a hook; points that only its own framework has never come up here.

        Raises:
            InvalidInputError: none of its points exist here.
        """
        known = frozenset(hook.points) & POINTS
        if not known:
            named = ", ".join(sorted(map(str, hook.points))) or "none"
            raise InvalidInputError(
                f"{type(hook).__name__} acts at points that do not exist here ({named}); there are: {', '.join(sorted(POINTS))}"
            )
        self.hook = hook
        self.points = known
        self.priority = int(getattr(hook, "priority", 0) or 0)
        self.fail_closed = bool(getattr(hook, "fail_closed", False))
        self.name = getattr(hook, "name", None) or getattr(hook, "__name__", None) or type(hook).__name__

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Call the hook; the registry reads its answer whatever its class."""
        answer: HookResult | None = self.hook(point, ctx, payload)
        return answer


def adapted(hook: Any) -> Hook:
    """Return the hook itself where it has all that a registry needs, or one that stands for it."""
    return hook if isinstance(hook, Hook) and frozenset(hook.points) <= POINTS else ForeignHook(hook)
