"""The prompt of a turn: its head, how the window is divided, and the last word on how much is sent."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.context.budget import Budget, fit
from edgemem.llama.tokens.estimate import tokenizer_of
from edgemem.records import as_ours
from edgemem.session.log import Moment
from edgemem.session.points import ON_RUN_END, AgentResult, TurnContext
from edgemem.session.registry import HookFailure
from edgemem.store.turn_steps import BeginEpoch, KeepHead

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer


class PromptHead:
    """Begins an epoch where the prompt's head changed.

    Other instructions or tools (the operator changed them, also while the robot was off; another agent took the
    conversation over) begin a new epoch: they come before everything, so the model reads its whole prompt once, and a
    date in it may be today's.
    """

    name = "prompt"

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        """Make the part.

        Args:
            now: the wall time that a new epoch freezes, seconds since the epoch UTC.
        """
        self._now = now
        self._head: tuple[Any, str] = (None, "")
        """The instructions and tools of the newest prompt, and their hash."""

    def compare(self, moment: Moment) -> None:
        """Compare the head with the one of the epoch, at the first call of the model."""
        if not moment.is_first_hop:
            return
        log, prompt_log = moment.log, moment.log.prompt_log
        head = (prompt_log.system, moment.payload.get("tools"))
        if head != self._head[0]:
            encoded = msgspec.json.encode(head, enc_hook=repr)
            self._head = (head, hashlib.sha256(encoded).hexdigest()[:32])
        noted = self._head[1]
        before = prompt_log.epoch.head
        if before and before != noted and prompt_log.turns:
            changed = {"reason": "instructions", "started_at": self._now(), "id": 0, "head": noted}
            as_of = log.newest_forgetting()
            epoch = log.scrubbed(prompt_log.epoch, as_of)
            # Carried values may be out of date; those that still hold are told anew.
            prompt_log.switch(msgspec.structs.replace(epoch, carried=(), **changed))
            log.epoch_writes.append(BeginEpoch(prompt_log.epoch, as_of))
        elif before != noted:
            prompt_log.epoch = msgspec.structs.replace(prompt_log.epoch, head=noted)
        log.turn_writes.append(KeepHead(prompt_log.session, noted))

    def view(self, moment: Moment) -> None:
        """Put the log's view in place of the messages of a prompt."""
        moment.put_view()


WINDOW = "the model's window"
"""The name under which `check` finds these notes."""

_SIGNS = ("ContextOverflowError", "exceed context window", "exceeds the available context")
"""How our own models, llama-cpp-python and llama-server say that a prompt was too long."""

log = logging.getLogger("edgemem.hooks")


class WindowBudget:
    """Drops the oldest whole turns from the prompt until it fits, and never the newest utterance; the log keeps them.

    With a budget, this measures instructions and tools before other steps put anything together.
    """

    name = "budget"

    def __init__(
        self,
        *,
        max_context_tokens: int = 4000,
        low_water: float = 0.6,
        tokenizer: Tokenizer | None = None,
        budget: Budget | None = None,
        note_overflow: Callable[[HookFailure], None] = lambda _: None,
    ) -> None:
        """Make the part.

        Args:
            max_context_tokens: what the prompt may take, tools and template included.
            low_water: share of the budget to go down to when it is passed, because each cut costs the cache.
            budget: says what the prompt may take, in place of `max_context_tokens`.
            tokenizer: counts; None: the budget's, or whatever `tokenizer_of` finds in the context's `llm`.
            note_overflow: keeps for `check` that a prompt did not fit the model's window, though it was within the plan.
        """
        self._max_tokens = max_context_tokens
        self.low_water = low_water
        self.note = ""
        """Why the newest prompt does not fit although everything that may be dropped was; empty if it fits."""
        self.budget = budget
        self._tokenizer = tokenizer or (budget.tokenizer if budget is not None else None)
        self._note_overflow = note_overflow
        self._overflows = 0

    @property
    def max_context_tokens(self) -> int:
        """Return what the prompt may take, tools and template included."""
        return self._max_tokens if self.budget is None else self.budget.plan.room

    def measure(self, moment: Moment) -> None:
        """Measure instructions and tools, at the first call of the model."""
        if self.budget is not None and moment.is_first_hop and not moment.log.is_detached:
            self.budget.measure(moment.log.prompt_log.system, moment.payload.get("tools"))

    def end(self, moment: Moment) -> None:
        """Note where the model had no room for a prompt."""
        error = as_ours(moment.payload, AgentResult).error
        if error and not self.note and not moment.log.is_detached and any(sign in error for sign in _SIGNS):
            self._overflows += 1
            message = error.removeprefix("ContextOverflowError: ")
            self._note_overflow(HookFailure(WINDOW, ON_RUN_END, self._overflows, message))

    def fit(self, moment: Moment) -> None:
        """Cut the messages to the budget."""
        ctx, payload = moment.ctx, moment.payload
        tokenizer = self._tokenizer or tokenizer_of(as_ours(ctx, TurnContext).llm)
        messages = payload["messages"]
        counted = payload.get("counted")
        if counted is not None and counted[0] is messages and counted[1] <= self.max_context_tokens:
            self.note = ""
            return
        # Turns that were left out stay out, as long as the prompt begins as it did then.
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
        if result.messages != messages:
            counted = result.messages, result.tokens
            moment.payload = {**payload, "messages": result.messages, "counted": counted}
