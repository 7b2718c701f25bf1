"""WindowPlanHook: gives every part of a prompt its share of the window, and notes when the model says it was too much."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from edgemem.hooks.conversation import Conversation, conversation_of
from edgemem.hooks.points import BEFORE_LLM, ON_RUN_END, HookResult
from edgemem.hooks.registry import HookFailure

if TYPE_CHECKING:
    from edgemem.context.budget import Budget, Plan

WINDOW = "the model's window"
"""Under this name `check` finds what is noted here."""

_SIGNS = ("ContextOverflowError", "exceed context window", "exceeds the available context")
"""How our own models, llama-cpp-python and llama-server say that a prompt was too long."""


class WindowPlanHook:
    """Hand the plan to the other hooks of a session whenever it has changed, before they put anything together."""

    points = frozenset({BEFORE_LLM, ON_RUN_END})
    # Behind the layout, before all that adds to a prompt.
    priority = 82

    def __init__(
        self,
        budget: Budget,
        *,
        apply: Callable[[Plan], None],
        fits: Callable[[], bool] = lambda: True,
        note: Callable[[HookFailure], None] = lambda _: None,
        conversation: Conversation | None = None,
    ) -> None:
        """Make the hook.

        Args:
            apply: gives the other hooks their numbers.
            fits: tells whether the newest prompt was within the plan; one that was not has been told of already.
            note: keeps for `check` that a prompt did not fit the model's window.
        """
        self.budget = budget
        self._apply = apply
        self._fits = fits
        self._note = note
        self._conversation = conversation
        self._applied: Plan | None = None
        self._overflows = 0

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Measure instructions and tools at the first call of the model, and listen for what it says at the end."""
        if self._conversation not in (None, conversation_of(ctx, self._conversation)):
            return None  # an agent within a tool has a prompt of its own
        if point == ON_RUN_END:
            self._listen(getattr(payload, "error", None) or "")
            return None
        if payload.get("hop", 0) == 0:
            messages = payload["messages"]
            system = takewhile(lambda message: message.get("role") == "system", messages)
            self.budget.measure(list(system), payload.get("tools"))
            self.take()
        return None

    def take(self) -> None:
        """Hand over the plan that holds now."""
        plan = self.budget.plan
        if plan is not self._applied:
            self._applied = plan
            self._apply(plan)

    def _listen(self, error: str) -> None:
        if not any(sign in error for sign in _SIGNS) or not self._fits():
            return
        self._overflows += 1
        told = error.removeprefix("ContextOverflowError: ")
        self._note(HookFailure(WINDOW, ON_RUN_END, self._overflows, told))
