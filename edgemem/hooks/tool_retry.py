"""ToolErrorRetryHook: a model may try a failed tool again a few times in a turn, and is then told to stop.

The hook never calls a tool by itself: a robot that has moved half its way must not be moved again because a
reply got lost. What it does is advice to the model, and a stop when the advice is not taken.
"""

from __future__ import annotations

import copy
from typing import Any

from edgemem.errors import InvalidInputError
from edgemem.hooks.points import AFTER_TOOL, BEFORE_TOOL, ON_RUN_START, HookResult
from edgemem.store.validation import whole_number

TRY_AGAIN = "correct the arguments and call it again"
GIVE_UP = "do not call it again; say that it did not work"

_NOT_CALLED = "not called: it failed {} times"

_MOST_TOOLS = 64
"""Tools that a turn counts apart; a model that makes up more names than that gets no further tries."""


class ToolErrorRetryHook:
    """Count the failures of each tool within a turn; `max_retries` after the first one, refuse the tool."""

    points = frozenset({ON_RUN_START, BEFORE_TOOL, AFTER_TOOL})
    # Before whatever keeps or shows the result, behind what decides whether a tool may run at all.
    priority = 40

    def __init__(self, max_retries: int = 2) -> None:
        """Make the hook.

        Args:
            max_retries: how often a tool may be called again after it failed; a success counts from zero again.

        Raises:
            InvalidInputError: `max_retries` is negative.
        """
        if whole_number(max_retries, "max_retries") < 0:
            raise InvalidInputError(f"max_retries must be at least 0; it is {max_retries}.")
        self.max_retries = max_retries

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Begin to count, refuse, or tell the model what to do about a failure."""
        # Kept by the context and not here: one hook may serve several loops, and tools may run side by side.
        if point == ON_RUN_START:
            ctx.hook_state[id(self)] = {}
            return None
        failures: dict[str, list[None]] = ctx.hook_state.setdefault(id(self), {})
        if point == BEFORE_TOOL:
            return self._refused(payload, len(failures.get(payload.name, ())))
        if payload.error is None and not _is_refusal(payload.result):
            failures.pop(payload.name, None)
            return None
        if payload.error is None or (payload.name not in failures and len(failures) >= _MOST_TOOLS):
            return self._advised(payload, self.max_retries + 1)
        # Appending is one step for the interpreter; adding to a number that two threads read is not.
        failures.setdefault(payload.name, []).append(None)
        return self._advised(payload, len(failures[payload.name]))

    def _refused(self, payload: Any, failed: int) -> HookResult | None:
        if failed <= self.max_retries or payload.skip_dispatch:
            return None
        refused = copy.copy(payload)
        refused.skip_dispatch = True
        refused.skip_reason = "retries_exhausted"
        refused.synthetic_result = {"error": _NOT_CALLED.format(failed), **self._advice(failed)}
        return HookResult.replace(refused, reason="retries_exhausted")

    def _advised(self, payload: Any, failed: int) -> HookResult:
        advice = self._advice(failed)
        advised = copy.copy(payload)
        # A refused call has a result in the tool's place; whoever keeps outcomes shall see that it failed.
        advised.error = payload.error if payload.error is not None else payload.result["error"]
        advised.result = advice
        return HookResult.replace(
            advised, reason="retries_exhausted" if advice["retries_exhausted"] else "retry"
        )

    def _advice(self, failed: int) -> dict[str, Any]:
        left = self.max_retries + 1 - failed
        if left <= 0:
            return {"retries_exhausted": True, "advice": GIVE_UP}
        return {"retries_exhausted": False, "retries_left": left, "advice": TRY_AGAIN}


def _is_refusal(result: Any) -> bool:
    return isinstance(result, dict) and result.get("retries_exhausted") is True and "error" in result
