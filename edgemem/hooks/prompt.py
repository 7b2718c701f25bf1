"""The prompt as a loop sends it: what is shown of the log, how the window is divided, and the last word on how much is sent."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.context.budget import Budget, fit
from edgemem.context.messages import split_instructions
from edgemem.hooks.conversation import Conversation, SharedHook, conversation_of
from edgemem.llama.tokens.estimate import tokenizer_of
from edgemem.records import as_ours
from edgemem.session.points import (
    BEFORE_LLM,
    ON_RUN_END,
    ON_RUN_START,
    AgentResult,
    HookResult,
    SecondPlace,
    TurnContext,
)
from edgemem.session.registry import HookFailure
from edgemem.store.turn_steps import BeginEpoch, KeepHead
from edgemem.store.validation import whole_number

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer


class PromptLogHook(SharedHook):
    """Put the prompt log's view in place of the loop's message list: what the present listener may read, where it was shown.

    A hook of its own, because a failing hook is skipped: when recall fails, the turn goes on with what this one left,
    and not with the loop's raw list, in which other people's private turns stand. It guards that, so it fails closed.

    Other instructions or tools (the operator changed them, also while the robot was off; another agent took the
    conversation over) begin a new epoch: they stand before everything, so the model reads its whole prompt once, and a
    date in it may be today's.
    """

    points = frozenset({ON_RUN_START, BEFORE_LLM})
    # Before everything that adds to the prompt.
    priority = 85
    fail_closed = True

    def __init__(
        self,
        *,
        speaker: str | None = None,
        conversation: Conversation | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Make the hook.

        Args:
            speaker: who speaks where the loop does not say it.
            now: the wall time that a new epoch freezes, seconds since the epoch UTC.
        """
        super().__init__(conversation, speaker)
        self._now = now
        self._head: tuple[Any, str] = (None, "")
        """The instructions and tools of the newest prompt, and their hash."""

    def act(self, conversation: Conversation, ctx: Any, payload: Any) -> HookResult:
        """Lay the prompt out."""
        prompt_log = conversation.prompt_log
        if payload.get("hop", 0) == 0 and conversation is (self._conversation or conversation):
            self._look_at_head(conversation, payload.get("tools"))
        shown = {"messages": prompt_log.view(), "now": prompt_log.epoch.started_at or None}
        return HookResult.replace({**payload, **shown}, reason="prompt_log")

    def _look_at_head(self, conversation: Conversation, tools: Any) -> None:
        prompt_log = conversation.prompt_log
        head = (prompt_log.system, tools)
        if head != self._head[0]:
            encoded = msgspec.json.encode(head, enc_hook=repr)
            self._head = (head, hashlib.sha256(encoded).hexdigest()[:32])
        noted = self._head[1]
        before = prompt_log.epoch.head
        if before and before != noted and prompt_log.turns:
            changed = {"reason": "instructions", "started_at": self._now(), "id": 0, "head": noted}
            as_of = conversation.newest_forgetting()
            epoch = conversation.scrubbed(prompt_log.epoch, as_of)
            # What was carried may be out of date; what still holds is told anew.
            prompt_log.switch(msgspec.structs.replace(epoch, carried=(), **changed))
            conversation.opening.append(BeginEpoch(prompt_log.epoch, as_of))
        elif before != noted:
            prompt_log.epoch = msgspec.structs.replace(prompt_log.epoch, head=noted)
        conversation.also.append(KeepHead(prompt_log.session, noted))


WINDOW = "the model's window"
"""Under this name `check` finds what is noted here."""

_SIGNS = ("ContextOverflowError", "exceed context window", "exceeds the available context")
"""How our own models, llama-cpp-python and llama-server say that a prompt was too long."""

log = logging.getLogger("edgemem.hooks")


class TokenBudgetHook:
    """Drop the oldest whole turns from what is sent, until it fits, and never what was just asked; what was said stays.

    With a budget, this measures what instructions and tools take before other hooks put anything together.
    """

    points = frozenset({BEFORE_LLM, ON_RUN_END})
    priority = 60

    def __init__(
        self,
        max_context_tokens: int = 4000,
        keep_last: int = 4,
        *,
        low_water: float = 0.6,
        tokenizer: Tokenizer | None = None,
        budget: Budget | None = None,
        note_overflow: Callable[[HookFailure], None] = lambda _: None,
        conversation: Conversation | None = None,
    ) -> None:
        """Make the hook.

        Args:
            max_context_tokens: what the prompt may take, tools and template included.
            keep_last: kept for the seed's signature; whole turns are dropped, oldest first, and the newest stays.
            low_water: share of the budget to go down to when it is passed, because each cut costs the cache.
            budget: says what the prompt may take, in place of `max_context_tokens`.
            tokenizer: counts; None: the budget's, or whatever `tokenizer_of` finds in the context's `llm`.
            note_overflow: keeps for `check` that a prompt did not fit the model's window, though it was within the plan.
        """
        self._max_tokens = whole_number(max_context_tokens, "max_context_tokens")
        self.keep_last = keep_last
        self.low_water = low_water
        self.note = ""
        """Why the newest prompt does not fit although everything that may be dropped was; empty if it fits."""
        self.budget = budget
        self._tokenizer = tokenizer or (budget.tokenizer if budget is not None else None)
        self._note_overflow = note_overflow
        self._conversation = conversation
        self._overflows = 0

    @property
    def max_context_tokens(self) -> int:
        """Return what the prompt may take, tools and template included."""
        return self._max_tokens if self.budget is None else self.budget.plan.room

    @property
    def second_place(self) -> SecondPlace | None:
        """Return the hook's second place, where it measures the prompt: behind the prompt log, before all that adds to a prompt."""
        return None if self.budget is None else SecondPlace(frozenset({BEFORE_LLM}), 82, self._measure)

    def _is_own(self, ctx: Any) -> bool:
        """Tell whether this is no agent within a tool, which has a prompt of its own."""
        return self._conversation in (None, conversation_of(ctx, self._conversation))

    def _measure(self, point: str, ctx: Any, payload: Any) -> None:
        messages = payload["messages"]
        if self.budget is not None and payload.get("hop", 0) == 0 and self._is_own(ctx):
            self.budget.measure(split_instructions(messages)[0], payload.get("tools"))

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Cut the messages to the budget; at the end, listen whether the model had no room for them."""
        if point == ON_RUN_END:
            error = as_ours(payload, AgentResult).error
            if error and not self.note and any(sign in error for sign in _SIGNS) and self._is_own(ctx):
                self._overflows += 1
                message = error.removeprefix("ContextOverflowError: ")
                self._note_overflow(HookFailure(WINDOW, ON_RUN_END, self._overflows, message))
            return None
        tokenizer = self._tokenizer or tokenizer_of(as_ours(ctx, TurnContext).llm)
        messages = payload["messages"]
        counted = payload.get("counted")
        if counted is not None and counted[0] is messages and counted[1] <= self.max_context_tokens:
            self.note = ""
            return None
        # What was left out stays out, as long as the prompt begins as it did then.
        first = next((message for message in messages if message.get("role") != "system"), None)
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
