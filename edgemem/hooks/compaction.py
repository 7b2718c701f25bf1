"""ContextCompactionHook: keeps the prompt within the window by beginning a new epoch, rarely."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from edgemem.errors import ClosedError, ModelError
from edgemem.hooks.conversation import Conversation, conversation_of
from edgemem.llama.tokens.estimate import tokenizer_of
from edgemem.records import Epoch, Message, as_ours
from edgemem.session.points import (
    BEFORE_LLM,
    ON_IDLE,
    ON_RUN_END,
    ON_RUN_START,
    HookResult,
    TurnContext,
    attachable,
)
from edgemem.store.turn_steps import BeginEpoch

if TYPE_CHECKING:
    from edgemem.context.compaction.compactor import Compactor
    from edgemem.context.compaction.extractive import Summarizer
    from edgemem.context.compaction.planner import EpochPlanner
    from edgemem.llama.chat import LlamaChat
    from edgemem.store.erase.copies import Erased

_log = logging.getLogger("edgemem.hooks")


class ContextCompactionHook:
    """Compact whole turns into a summary: in idle time, or, when the user is faster, at once and simply."""

    points = frozenset({ON_RUN_START, BEFORE_LLM, ON_RUN_END, ON_IDLE})
    # After memory and notes have put their lines in, before the budget has the last word.
    priority = 70
    __repr__ = attachable

    def __init__(
        self,
        compactor: Compactor | None = None,
        llm_getter: Callable[[Any], Any] | None = None,
        *,
        planner: EpochPlanner | None = None,
        fallback: Summarizer | None = None,
        conversation: Conversation | None = None,
        model: LlamaChat | None = None,
    ) -> None:
        """Make the hook.

        Args:
            compactor: compacts the loop's own message list; the way of the seed, for a loop without a memory.
            llm_getter: returns, for the context of a turn, what counts tokens for the compactor.
            planner: plans epochs of the prompt log; then the list of what was said is never changed.
            fallback: a summarizer quick enough for the hot path.
            model: reads the prompt of a prepared epoch in idle time.
        """
        self.compactor = compactor
        self.planner = planner
        self._model = model
        self._llm_getter = llm_getter
        self._fallback = fallback
        self._conversation = conversation or Conversation()
        self.prepared: Epoch | None = None
        """The epoch that begins with the next turn."""
        self._deletions = 0
        """How often turns were deleted; a summary that was begun before may tell of them."""
        self._prepared_as_of: int | None = None
        """The newest forgetting that was known when it was prepared."""
        self._tools: Sequence[dict[str, Any]] | None = None
        """What the model was offered in the newest turn."""
        self._tokens = 0
        """What the newest prompt had at most."""
        self._unsettled = False
        """Whether the newest turn is over, and nothing is prepared for a next one whose prompt does not fit."""
        self._rests = False
        """Whether idle time came after the turn before, so that this can be left to it."""
        self._measuring = threading.Lock()

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Prepare in idle time, switch between turns, and guard the window before the model is called."""
        planner = self.planner
        if planner is None:
            return self._compact(ctx, payload) if point == BEFORE_LLM else None
        conversation = conversation_of(ctx, self._conversation)
        if conversation is not self._conversation:
            return None  # an agent within a tool has a prompt of its own
        if point == ON_IDLE:
            self.work(stop=payload.get("stop"))
        elif point == ON_RUN_START:
            if self._unsettled:
                self._rests = False
                self._settle()
            epoch = self.prepared
            # A summary that was overtaken (a barge-in cut the reply it read, another epoch began) is dropped.
            first = conversation.prompt_log.epoch.first_turn
            if epoch is None or epoch.first_turn < first + bool(epoch.summary):
                self.prepared = None
            else:
                self._begin(conversation, self._ready(epoch))
        elif point == ON_RUN_END:
            self._unsettled = conversation.prompt_log.running is None
            if not self._rests:
                self._settle()
        else:
            with self._measuring:
                return self._guard(planner, conversation, payload)
        return None

    def due(self) -> bool:
        """Tell whether there is something to prepare."""
        return self.planner is not None and self.prepared is None and self.planner.plan() is not None

    def work(self, *, stop: Callable[[], bool] | None = None) -> bool:
        """Prepare the next epoch if one is due; return whether anything was done.

        Once the model is closed nothing is due: its next turn will say so, and the other sessions have work of their own.
        """
        self._rests = True
        try:
            if stop is None or not stop():
                self._settle()
            first = self.planner.plan() if self.planner is not None and self.prepared is None else None
            if self.planner is None or first is None:
                return False
            # First what is known, then what is read: a forgetting in between is noticed.
            self._prepared_as_of = self._conversation.newest_forgetting()
            deletions = self._deletions
            epoch = self.planner.prepare(first, stop=stop)
            if self._deletions == deletions:
                self.prepared = epoch
        except ClosedError as error:
            _log.debug("no epoch is prepared: %s", error)
        return self.prepared is not None

    def read_ahead(self, *, stop: Callable[[], bool]) -> bool:
        """Have the model read a little of the prompt that a prepared epoch begins with; return whether it did."""
        epoch, model, prompt_log = self.prepared, self._model, self._conversation.prompt_log
        if epoch is None or model is None or prompt_log.running is not None:
            return False
        tools = list(self._tools) if self._tools else None
        if model.head != (prompt_log.system, tools, prompt_log.epoch.started_at or None):
            return False  # another conversation talks with this model, and would lose its cache
        view = prompt_log.view_in(self._ready(epoch))
        return model.read_ahead(view, tools=tools, now=epoch.started_at or None, stop=stop)

    def forget(self, erased: Erased) -> None:
        """Have the running conversation write nothing of a forgotten fact, nor take it into a summary."""
        self._conversation.forget(erased)
        if self.planner is not None:
            self.planner.forget()

    def leave_out(self, session: str, first_turn: int) -> None:
        """Have the next turn of a session begin an epoch that knows nothing of the turns before one: these were deleted."""
        planner = self.planner
        if planner is not None and planner.log.session == session:
            self._deletions += 1
            self._prepared_as_of = self._conversation.newest_forgetting()
            self.prepared = planner.bare(max(first_turn, planner.log.epoch.first_turn))

    def _ready(self, epoch: Epoch) -> Epoch:
        """Return a prepared epoch as it may begin now, without what has been forgotten or closed while it waited."""
        epoch = self._conversation.scrubbed(epoch, self._prepared_as_of)
        return epoch if self.planner is None else self.planner.still_holding(epoch)

    def _begin(self, conversation: Conversation, epoch: Epoch) -> None:
        self.prepared = None
        conversation.prompt_log.switch(epoch)
        # Written with the next turn that is kept: an epoch without one would change nothing.
        conversation.opening.append(BeginEpoch(epoch, self._prepared_as_of))

    def _guard(
        self, planner: EpochPlanner, conversation: Conversation, payload: dict[str, Any]
    ) -> HookResult | None:
        hop = payload.get("hop", 0)
        tools = self._tools = payload.get("tools")
        # That the high-water mark is passed is found in idle time; here it only matters that the prompt fits. Nothing
        # is counted for that where an epoch can begin: a bound is some tokens too high, and one may begin a little early.
        size, messages, room = planner.prompt_size, payload["messages"], planner.room
        tokens = size.bound(messages, tools=tools, limit=room) if hop == 0 else None
        if tokens is None:
            tokens = size.tokens(messages, tools=tools, limit=room)
        self._tokens = tokens
        running = conversation.prompt_log.running
        if hop == 0 and running is not None and size.exact:
            planner.measured(running.n, tokens)
        if tokens <= room:
            # The budget behind this hook need not count the same list once more.
            return HookResult.replace({**payload, "counted": (messages, tokens)})
        # Within a turn nothing is compacted any more; the budget behind this hook has the last word.
        epoch = self._epoch_now(planner, messages, tokens) if hop == 0 else None
        if epoch is None:
            return None
        self._begin(conversation, epoch)
        view = conversation.prompt_log.view()
        tokens = self._tokens = size.tokens(view, tools=tools, limit=room)
        if running is not None:
            planner.measured(running.n, tokens)
        return HookResult.replace(
            {**payload, "messages": view, "counted": (view, tokens)}, reason="compacted"
        )

    def _settle(self) -> None:
        """Prepare for a next turn whose prompt does not fit, once the newest one is history."""
        with self._measuring:
            if self.planner is None or not self._unsettled:
                return
            self._unsettled = False
            try:
                self.planner.settle(self._tokens, tools=self._tools)
            except ModelError as error:
                # The next turn measures its prompt by itself, and tells what is wrong.
                _log.debug("the prompt was not measured ahead: %s", error)

    def _epoch_now(self, planner: EpochPlanner, messages: Sequence[Message], tokens: int) -> Epoch | None:
        """Return the epoch that begins because a prompt did not fit."""
        first = planner.plan_now(messages, tokens)
        if first is None:
            return None
        self._prepared_as_of = self._conversation.newest_forgetting()
        epoch = planner.prepare(first, summarizer=self._fallback, reason="did not fit")
        return None if epoch is None else self._conversation.scrubbed(epoch, self._prepared_as_of)

    def _compact(self, ctx: Any, payload: dict[str, Any]) -> HookResult | None:
        if self.compactor is None:
            return None
        llm = self._llm_getter(ctx) if self._llm_getter is not None else as_ours(ctx, TurnContext).llm
        messages: list[Message] = payload["messages"]
        # The loop's list still begins with what was compacted. That stays compacted, byte for byte and at every hop:
        # to compact it anew with each turn would change the prompt's head each time.
        source, shown = ctx.hook_state.get(id(self), ([], []))
        stands = bool(source) and messages[: len(source)] == source
        view = [*shown, *messages[len(source) :]] if stands else messages
        if payload.get("hop", 0) == 0 and self.compactor.should_compact(view, llm):
            # Nobody waits here for a model to write: it only counts.
            view = self.compactor.compact(view, tokenizer_of(llm))
            ctx.hook_state[id(self)] = (list(messages), view)
        if view == messages:
            return None
        return HookResult.replace({**payload, "messages": view}, reason="compacted")
