"""The prompt of a turn: its head, how the window is divided, when a new epoch begins, and the last word on how much is sent."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.context.budget import Budget, fit
from edgemem.context.prompt import DELETED
from edgemem.errors import ClosedError, ModelError
from edgemem.llama.tokens.estimate import tokenizer_of
from edgemem.records import Epoch, Message
from edgemem.session.log import Moment, Prompt, SessionLog
from edgemem.session.points import ON_RUN_END, HookFailure
from edgemem.store.turn_steps import BeginEpoch, KeepHead

if TYPE_CHECKING:
    from edgemem.context.compaction.compactor import Compactor
    from edgemem.context.compaction.extractive import Summarizer
    from edgemem.context.compaction.planner import EpochPlanner
    from edgemem.llama.chat import LlamaChat
    from edgemem.llama.protocols import Tokenizer
    from edgemem.store.erase.copies import Erased

WINDOW = "the model's window"
"""The name under which `check` finds these notes."""

_SIGNS = ("ContextOverflowError", "exceed context window", "exceeds the available context")
"""How our own models, llama-cpp-python and llama-server say that a prompt was too long."""

log = logging.getLogger("edgemem.hooks")


class PromptHead:
    """Begins an epoch where the prompt's head changed.

    What was erased leaves with an epoch, too. Other instructions or tools (from the operator, also while the robot was off, or of another agent) come before everything, so
    the model reads its whole prompt once, and a date in it may be today's.
    """

    name = "prompt"

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._head: tuple[Any, str] = (None, "")

    def compare(self, moment: Moment) -> None:
        """Compare the head with the one of the epoch, at the first call of the model."""
        if moment.prompt.hop > 0:
            return
        log, prompt_log = moment.log, moment.log.prompt_log
        if log.leaves_out:
            log.leaves_out = False
            first = max(prompt_log.epoch.first_turn, log.kept_from)
            log.forget_blocks(first)
            prompt_log.switch(Epoch(prompt_log.session, first, reason=DELETED, started_at=self._now()))
            log.epoch_writes.append(BeginEpoch(prompt_log.epoch, log.newest_forgetting()))
        head = (prompt_log.system, moment.prompt.tools)
        if head != self._head[0]:
            encoded = msgspec.json.encode(head, enc_hook=repr)
            self._head = (head, hashlib.sha256(encoded).hexdigest()[:32])
        noted = self._head[1]
        before = prompt_log.epoch.head
        if before and before != noted and prompt_log.turns:
            changed = {"session": prompt_log.session, "started_at": self._now(), "id": 0, "head": noted}
            as_of = log.newest_forgetting()
            epoch = log.scrubbed(prompt_log.epoch, as_of)
            # Carried values may be out of date; those that still hold are told anew.
            prompt_log.switch(msgspec.structs.replace(epoch, carried=(), reason="instructions", **changed))
            log.epoch_writes.append(BeginEpoch(prompt_log.epoch, as_of))
        elif before != noted:
            prompt_log.epoch = msgspec.structs.replace(prompt_log.epoch, head=noted)
        log.turn_writes.append(KeepHead(prompt_log.session, noted))

    def view(self, moment: Moment) -> None:
        """Replace the messages by the present listener's view, with memory where it was shown."""
        prompt_log = moment.log.prompt_log
        moment.prompt.messages, moment.prompt.now = prompt_log.view(), prompt_log.epoch.started_at or None


class WindowBudget:
    """Drops the oldest whole turns from the prompt until it fits, and never the newest utterance; the log keeps them.

    With a budget, this measures instructions and tools before other steps put anything together.

    Args:
        max_context_tokens: the whole prompt, tools and template included, unless `budget` says it.
        low_water: share of the budget to go down to when it is passed, because each cut costs the cache.
        tokenizer: None: the budget's, or whatever `tokenizer_of` finds in the context's `llm`.
        note_overflow: keeps for `check` that a prompt did not fit the model's window, though it was within the plan.
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
        self._max_tokens = max_context_tokens
        self.low_water = low_water
        self.note = ""
        """Why the newest prompt does not fit although all was dropped that may be; empty if it fits."""
        self.budget = budget
        self._tokenizer = tokenizer or (budget.tokenizer if budget is not None else None)
        self._note_overflow = note_overflow
        self._overflows = 0

    @property
    def max_context_tokens(self) -> int:
        """Return the most tokens of the prompt, tools and template included."""
        return self._max_tokens if self.budget is None else self.budget.plan.room

    def measure(self, moment: Moment) -> None:
        """Measure instructions and tools, at the first call of the model."""
        if self.budget is not None and moment.prompt.hop == 0 and not moment.log.is_detached:
            self.budget.measure(moment.log.prompt_log.system, moment.prompt.tools)

    def end(self, moment: Moment) -> None:
        """Note where the model had no room for a prompt."""
        error = moment.payload.error
        is_told = not (self.note or moment.log.is_detached or moment.log.is_quiet)
        if error and is_told and any(sign in error for sign in _SIGNS):
            self._overflows += 1
            message = error.removeprefix("ContextOverflowError: ")
            self._note_overflow(HookFailure(WINDOW, ON_RUN_END, self._overflows, message))

    def fit(self, moment: Moment) -> None:
        """Cut the messages to the budget."""
        ctx, prompt = moment.ctx, moment.prompt
        messages, room = prompt.messages, self.max_context_tokens
        if prompt.tokens is not None and prompt.tokens <= room:
            self.note = ""
            return
        # Turns that were left out stay out, as long as the prompt begins as it did then.
        first = next((message for message in messages if message.get("role") != "system"), None)
        begun, dropped = ctx.hook_state.get(id(self), (None, 0))
        result = fit(
            messages,
            tokenizer=self._tokenizer or tokenizer_of(ctx.llm),
            budget_tokens=room,
            target_tokens=int(self.low_water * room),
            tools=prompt.tools,
            dropped_turns=dropped if begun == first else 0,
        )
        ctx.hook_state[id(self)] = (first, result.dropped_turns)
        note = "" if result.fits else result.note
        if note and note != self.note:
            log.warning("%s", note)
        self.note = note
        prompt.messages, prompt.tokens = result.messages, result.tokens


class Compaction:
    """Compacts whole turns into a summary: in idle time, or, when the user is faster, at once and simply.

    Args:
        fallback: a summarizer quick enough for the hot path.
        model: reads the prompt of a prepared epoch in idle time.
    """

    name = "compaction"

    def __init__(
        self,
        planner: EpochPlanner,
        log: SessionLog,
        *,
        fallback: Summarizer | None = None,
        model: LlamaChat | None = None,
    ) -> None:
        self.planner = planner
        self._model = model
        self._fallback = fallback
        self._log = log
        self.prepared: Epoch | None = None
        """The epoch that begins with the next turn."""
        self._prepared_as_of: int | None = None
        """The newest forgetting that was known when it was prepared."""
        self._tools: Sequence[dict[str, Any]] | None = None
        self._tokens = 0
        """An upper bound of the newest prompt."""
        self._unsettled = False
        """Whether the newest turn is over, and nothing is prepared for a next one whose prompt does not fit."""
        self._rests = False
        """Whether idle time came after the turn before, so that this can be left to it."""
        self._measuring = threading.Lock()

    def switch(self, moment: Moment) -> None:
        """Begin a prepared epoch with a turn."""
        if moment.log is not self._log:
            return  # an agent within a tool has a prompt of its own
        if self._unsettled:
            self._rests = False
            self._settle()
        epoch, self.prepared = self.prepared, None
        # A summary that was overtaken (a barge-in cut the reply it read, another epoch began) is dropped.
        first = self._log.prompt_log.epoch.first_turn
        if not self._log.leaves_out and epoch is not None and epoch.first_turn >= first + bool(epoch.summary):
            self._begin(self._ready(epoch))

    def guard(self, moment: Moment) -> None:
        """Measure the prompt, and begin an epoch where it does not fit."""
        if moment.log is self._log:
            with self._measuring:
                self._guard(moment.prompt)

    def end(self, moment: Moment) -> None:
        """Measure the next prompt, where there was no idle time for that."""
        if moment.log is self._log:
            self._unsettled = self._log.prompt_log.running is None
            if not self._rests:
                self._settle()

    def idle(self, _moment: Moment) -> None:
        """Prepare the next epoch."""
        self.work()

    def due(self) -> bool:
        """Tell whether there is something to prepare."""
        return self.prepared is None and self.planner.plan() is not None

    def work(self, *, stop: Callable[[], bool] | None = None) -> bool:
        """Prepare the next epoch if one is due, none with a closed model; return whether anything was done."""
        self._rests = True
        try:
            if stop is None or not stop():
                self._settle()
            first = self.planner.plan() if self.prepared is None else None
            if first is None or self._log.leaves_out:
                return False
            # First the newest forgetting, then the values: a forgetting in between is noticed.
            self._prepared_as_of = self._log.newest_forgetting()
            began = self._log.prompt_log.epoch
            epoch = self.planner.prepare(first, stop=stop)
            if self._log.prompt_log.epoch is began:  # else it may tell of what was erased
                self.prepared = epoch
        except ClosedError as error:
            log.debug("no epoch is prepared: %s", error)
        return self.prepared is not None

    def read_ahead(self, *, stop: Callable[[], bool]) -> bool:
        """Have the model read a little of the prompt of a prepared epoch; return whether it did."""
        epoch, model, prompt_log = self.prepared, self._model, self._log.prompt_log
        if epoch is None or model is None or prompt_log.running is not None:
            return False
        tools = list(self._tools) if self._tools else None
        if model.head != (prompt_log.system, tools, prompt_log.epoch.started_at or None):
            return False  # another conversation talks with this model, and would lose its cache
        view = prompt_log.view_in(self._ready(epoch))
        return model.read_ahead(view, tools=tools, now=epoch.started_at or None, stop=stop)

    def forget(self, erased: Erased) -> None:
        """Keep a forgotten fact out of all records and summaries of the running conversation."""
        self._log.forget(erased)
        self.planner.prompt_size.forget()

    def _ready(self, epoch: Epoch) -> Epoch:
        """Return a prepared epoch as it may begin now, without what was forgotten or closed while it waited."""
        return self.planner.still_holding(self._log.scrubbed(epoch, self._prepared_as_of))

    def _begin(self, epoch: Epoch) -> None:
        self.prepared = None
        for turn in self._log.prompt_log.turns:  # a summary has nothing of those off the record
            turn.erased = turn.erased or turn.unkept
        self._log.prompt_log.switch(epoch)
        # Written with the next turn that is kept: an epoch without one would change nothing.
        self._log.epoch_writes.append(BeginEpoch(epoch, self._prepared_as_of))

    def _guard(self, prompt: Prompt) -> None:
        planner, is_first = self.planner, prompt.hop == 0
        tools = self._tools = prompt.tools
        # The high-water mark is for idle time; here it only matters that the prompt fits. Nothing is counted for that where an
        # epoch can begin: a bound is some tokens too high, and one may begin a little early.
        size, room = planner.prompt_size, planner.budget.plan.room
        tokens = size.bound(prompt.messages, tools=tools, limit=room) if is_first else None
        if tokens is None:
            tokens = size.tokens(prompt.messages, tools=tools, limit=room)
        running = self._log.prompt_log.running
        if is_first and running is not None and size.exact:
            planner.measured(running.n, tokens)
        # Within a turn nothing is compacted any more; the budget behind this step has the last word.
        epoch = self._epoch_now(prompt.messages, tokens) if tokens > room and is_first else None
        if epoch is not None:
            self._begin(epoch)
            prompt.messages = self._log.prompt_log.view()
            tokens = size.tokens(prompt.messages, tools=tools, limit=room)
            if running is not None:
                planner.measured(running.n, tokens)
        self._tokens = prompt.tokens = tokens

    def _settle(self) -> None:
        """Prepare for a next turn whose prompt does not fit, once the newest one is history."""
        with self._measuring:
            if not self._unsettled:
                return
            self._unsettled = False
            try:
                self.planner.settle(self._tokens, tools=self._tools)
            except ModelError as error:
                # The next turn measures its prompt by itself, and tells the fault.
                log.debug("the prompt was not measured ahead: %s", error)

    def _epoch_now(self, messages: Sequence[Message], tokens: int) -> Epoch | None:
        first = self.planner.plan_now(messages, tokens)
        if first is None:
            return None
        self._prepared_as_of = self._log.newest_forgetting()
        epoch = self.planner.prepare(first, summarizer=self._fallback, reason="did not fit")
        return None if epoch is None else self._log.scrubbed(epoch, self._prepared_as_of)


class ListCompaction:
    """Compacts the prompt of a session without a plan, as the seed does; `llm_getter` returns the counter of tokens."""

    name = "compaction"

    def __init__(self, compactor: Compactor, llm_getter: Callable[[Any], Any] | None = None) -> None:
        self.compactor = compactor
        self._llm_getter = llm_getter

    def guard(self, moment: Moment) -> None:
        """Compact the prompt where it is too long."""
        ctx, messages = moment.ctx, moment.prompt.messages
        llm = self._llm_getter(ctx) if self._llm_getter is not None else ctx.llm
        # The compacted messages stay, byte for byte and at every hop: to compact anew would change the prompt's head each time.
        source, shown = ctx.hook_state.get(id(self), ([], []))
        begins = bool(source) and messages[: len(source)] == source
        view = [*shown, *messages[len(source) :]] if begins else messages
        if moment.prompt.hop == 0 and self.compactor.should_compact(view, llm):
            # Nobody waits here for a model to write: it only counts.
            view = self.compactor.compact(view, tokenizer_of(llm))
            ctx.hook_state[id(self)] = (messages, view)
        if view != messages:
            moment.prompt.messages, moment.prompt.tokens = view, None
