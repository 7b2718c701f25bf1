"""WindowPlanHook: measures instructions and tools, and notes when the model says that a prompt was too long."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from edgemem.hooks.conversation import Conversation, conversation_of
from edgemem.hooks.points import BEFORE_LLM, ON_RUN_END, HookResult
from edgemem.hooks.registry import HookFailure

if TYPE_CHECKING:
    from edgemem.context.budget import Budget

WINDOW = "the model's window"
"""Under this name `check` finds what is noted here."""

_SIGNS = ("ContextOverflowError", "exceed context window", "exceeds the available context")
"""How our own models, llama-cpp-python and llama-server say that a prompt was too long."""


class WindowPlanHook:
    """Have the budget know what instructions and tools take, before other hooks put anything together."""

    points = frozenset({BEFORE_LLM, ON_RUN_END})
    # Behind the layout, before all that adds to a prompt.
    priority = 82

    def __init__(
        self,
        budget: Budget,
        *,
        fits: Callable[[], bool] = lambda: True,
        note: Callable[[HookFailure], None] = lambda _: None,
        conversation: Conversation | None = None,
    ) -> None:
        """Make the hook.

        Args:
            fits: tells whether the newest prompt was within the plan; one that was not has been told of already.
            note: keeps for `check` that a prompt did not fit the model's window.
        """
        self.budget = budget
        self._fits = fits
        self._note = note
        self._conversation = conversation
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
        return None

    def _listen(self, error: str) -> None:
        if not any(sign in error for sign in _SIGNS) or not self._fits():
            return
        self._overflows += 1
        told = error.removeprefix("ContextOverflowError: ")
        self._note(HookFailure(WINDOW, ON_RUN_END, self._overflows, told))
