"""TokenBudgetHook: the last word on how much is sent; it always ends, and never drops what was just asked."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from edgemem.context.budget import fit
from edgemem.hooks.points import BEFORE_LLM, HookResult
from edgemem.llama.tokens.estimate import tokenizer_of
from edgemem.store.validation import whole_number

if TYPE_CHECKING:
    from edgemem.context.budget import Budget
    from edgemem.llama.protocols import Tokenizer

log = logging.getLogger("edgemem.hooks")


class TokenBudgetHook:
    """Drop the oldest whole turns from what is sent, until it fits; what was said stays as it is."""

    points = frozenset({BEFORE_LLM})
    priority = 60

    def __init__(
        self,
        max_context_tokens: int = 4000,
        keep_last: int = 4,
        *,
        low_water: float = 0.6,
        tokenizer: Tokenizer | None = None,
        budget: Budget | None = None,
    ) -> None:
        """Make the hook.

        Args:
            max_context_tokens: what the prompt may take, tools and template included.
            keep_last: kept for the seed's signature; whole turns are dropped, oldest first, and the newest stays.
            low_water: share of the budget to go down to when it is passed, because each cut costs the cache.
            budget: says what the prompt may take, in place of `max_context_tokens`.
            tokenizer: counts; None: the budget's, or whatever `tokenizer_of` finds in the context's `llm`.
        """
        self._max_tokens = whole_number(max_context_tokens, "max_context_tokens")
        self.keep_last = keep_last
        self.low_water = low_water
        self.note = ""
        """Why the newest prompt does not fit although everything that may be dropped was; empty if it fits."""
        self._budget = budget
        self._tokenizer = tokenizer or (budget.tokenizer if budget is not None else None)

    @property
    def max_context_tokens(self) -> int:
        """Return what the prompt may take, tools and template included."""
        return self._max_tokens if self._budget is None else self._budget.plan.room

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Cut the messages to the budget."""
        tokenizer = self._tokenizer or tokenizer_of(getattr(ctx, "llm", None))
        messages = payload["messages"]
        counted = payload.get("counted")
        if counted is not None and counted[0] is messages and counted[1] <= self.max_context_tokens:
            self.note = ""
            return None
        # What was left out stays out, as long as the prompt begins as it did then.
        first = next((m for m in messages if m.get("role") != "system"), None)
        begun, dropped = ctx.hook_state.get(id(self), (None, 0))
        result = fit(
            messages,
            tokenizer=tokenizer,
            budget_tokens=self.max_context_tokens,
            target_tokens=int(self.low_water * self.max_context_tokens),
            tools=payload.get("tools"),
            dropped_turns=dropped if begun == first else 0,
        )
        ctx.hook_state[id(self)] = (first, result.dropped_turns)
        note = "" if result.fits else result.note
        if note and note != self.note:
            log.warning("%s", note)
        self.note = note
        if result.messages == messages:
            return None
        counted = result.messages, result.tokens
        return HookResult.replace(
            {**payload, "messages": result.messages, "counted": counted}, reason="budget"
        )
