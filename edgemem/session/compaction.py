"""Compaction: the prompt stays within the window, because now and then a new epoch begins."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from edgemem.errors import ClosedError, ModelError
from edgemem.llama.tokens.estimate import tokenizer_of
from edgemem.records import Epoch, Message, as_ours
from edgemem.session.log import Moment, SessionLog
from edgemem.session.points import TurnContext
from edgemem.store.turn_steps import BeginEpoch

if TYPE_CHECKING:
    from edgemem.context.compaction.compactor import Compactor
    from edgemem.context.compaction.extractive import Summarizer
    from edgemem.context.compaction.planner import EpochPlanner
    from edgemem.llama.chat import LlamaChat
    from edgemem.store.erase.copies import Erased

_log = logging.getLogger("edgemem.hooks")


class Compaction:
    """Compacts whole turns into a summary: in idle time, or, when the user is faster, at once and simply."""

    name = "compaction"

    def __init__(
        self,
        planner: EpochPlanner,
        log: SessionLog,
        *,
        fallback: Summarizer | None = None,
        model: LlamaChat | None = None,
    ) -> None:
        """Make the part.

        Args:
            planner: plans the epochs of the prompt log.
            log: its session's.
            fallback: a summarizer quick enough for the hot path.
            model: reads the prompt of a prepared epoch in idle time.
        """
        self.planner = planner
        self._model = model
        self._fallback = fallback
        self._log = log
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
        if epoch is not None and epoch.first_turn >= first + bool(epoch.summary):
            self._begin(self._ready(epoch))

    def guard(self, moment: Moment) -> None:
        """Measure the prompt, and begin an epoch where it does not fit."""
        if moment.log is self._log:
            with self._measuring:
                self._guard(moment)

    def end(self, moment: Moment) -> None:
        """Measure the next prompt, where there was no idle time for that."""
        if moment.log is self._log:
            self._unsettled = self._log.prompt_log.running is None
            if not self._rests:
                self._settle()

    def idle(self, moment: Moment) -> None:
        """Prepare the next epoch."""
        self.work(stop=moment.payload.get("stop"))

    def due(self) -> bool:
        """Tell whether there is something to prepare."""
        return self.prepared is None and self.planner.plan() is not None

    def work(self, *, stop: Callable[[], bool] | None = None) -> bool:
        """Prepare the next epoch if one is due; return whether anything was done.

        Once the model is closed nothing is due: its next turn will say so, and the other sessions have work of their own.
        """
        self._rests = True
        try:
            if stop is None or not stop():
                self._settle()
            first = self.planner.plan() if self.prepared is None else None
            if first is None:
                return False
            # First the newest forgetting, then the values: a forgetting in between is noticed.
            self._prepared_as_of = self._log.newest_forgetting()
            deletions = self._deletions
            epoch = self.planner.prepare(first, stop=stop)
            if self._deletions == deletions:
                self.prepared = epoch
        except ClosedError as error:
            _log.debug("no epoch is prepared: %s", error)
        return self.prepared is not None

    def read_ahead(self, *, stop: Callable[[], bool]) -> bool:
        """Have the model read a little of the prompt that a prepared epoch begins with; return whether it did."""
        epoch, model, prompt_log = self.prepared, self._model, self._log.prompt_log
        if epoch is None or model is None or prompt_log.running is not None:
            return False
        tools = list(self._tools) if self._tools else None
        if model.head != (prompt_log.system, tools, prompt_log.epoch.started_at or None):
            return False  # another conversation talks with this model, and would lose its cache
        view = prompt_log.view_in(self._ready(epoch))
        return model.read_ahead(view, tools=tools, now=epoch.started_at or None, stop=stop)

    def forget(self, erased: Erased) -> None:
        """Have the running conversation write nothing of a forgotten fact, nor take it into a summary."""
        self._log.forget(erased)
        self.planner.forget()

    def leave_out(self, session: str, first_turn: int) -> None:
        """Have the next turn of a session begin an epoch that knows nothing of the turns before one: these were deleted."""
        planner = self.planner
        if planner.log.session == session:
            self._deletions += 1
            self._prepared_as_of = self._log.newest_forgetting()
            self.prepared = planner.bare(max(first_turn, planner.log.epoch.first_turn))

    def _ready(self, epoch: Epoch) -> Epoch:
        """Return a prepared epoch as it may begin now, without what has been forgotten or closed while it waited."""
        return self.planner.still_holding(self._log.scrubbed(epoch, self._prepared_as_of))

    def _begin(self, epoch: Epoch) -> None:
        self.prepared = None
        self._log.prompt_log.switch(epoch)
        # Written with the next turn that is kept: an epoch without one would change nothing.
        self._log.epoch_writes.append(BeginEpoch(epoch, self._prepared_as_of))

    def _guard(self, moment: Moment) -> None:
        planner, payload = self.planner, moment.payload
        tools = self._tools = payload.get("tools")
        # That the high-water mark is passed is found in idle time; here it only matters that the prompt fits. Nothing
        # is counted for that where an epoch can begin: a bound is some tokens too high, and one may begin a little early.
        size, messages, room = planner.prompt_size, payload["messages"], planner.room
        tokens = size.bound(messages, tools=tools, limit=room) if moment.is_first_hop else None
        if tokens is None:
            tokens = size.tokens(messages, tools=tools, limit=room)
        self._tokens = tokens
        running = self._log.prompt_log.running
        if moment.is_first_hop and running is not None and size.exact:
            planner.measured(running.n, tokens)
        if tokens > room:
            # Within a turn nothing is compacted any more; the budget behind this step has the last word.
            epoch = self._epoch_now(messages, tokens) if moment.is_first_hop else None
            if epoch is None:
                return
            self._begin(epoch)
            messages = self._log.prompt_log.view()
            tokens = self._tokens = size.tokens(messages, tools=tools, limit=room)
            if running is not None:
                planner.measured(running.n, tokens)
        # The budget behind this step need not count the same list once more.
        moment.payload = {**payload, "messages": messages, "counted": (messages, tokens)}

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
                _log.debug("the prompt was not measured ahead: %s", error)

    def _epoch_now(self, messages: Sequence[Message], tokens: int) -> Epoch | None:
        """Return the epoch that begins because a prompt did not fit."""
        first = self.planner.plan_now(messages, tokens)
        if first is None:
            return None
        self._prepared_as_of = self._log.newest_forgetting()
        epoch = self.planner.prepare(first, summarizer=self._fallback, reason="did not fit")
        return None if epoch is None else self._log.scrubbed(epoch, self._prepared_as_of)


class ListCompaction:
    """Compacts the prompt of a session without a plan, as the seed does: a summary in place of old turns."""

    name = "compaction"

    def __init__(self, compactor: Compactor, llm_getter: Callable[[Any], Any] | None = None) -> None:
        """Make the part.

        Args:
            llm_getter: returns, for the context of a turn, what counts tokens for the compactor; None: its `llm`.
        """
        self.compactor = compactor
        self._llm_getter = llm_getter

    def guard(self, moment: Moment) -> None:
        """Compact the prompt where it is too long."""
        ctx, payload = moment.ctx, moment.payload
        llm = self._llm_getter(ctx) if self._llm_getter is not None else as_ours(ctx, TurnContext).llm
        messages: list[Message] = payload["messages"]
        # The prompt still begins with the compacted messages. They stay compacted, byte for byte and at every hop:
        # to compact it anew with each turn would change the prompt's head each time.
        source, shown = ctx.hook_state.get(id(self), ([], []))
        begins = bool(source) and messages[: len(source)] == source
        view = [*shown, *messages[len(source) :]] if begins else messages
        if moment.is_first_hop and self.compactor.should_compact(view, llm):
            # Nobody waits here for a model to write: it only counts.
            view = self.compactor.compact(view, tokenizer_of(llm))
            ctx.hook_state[id(self)] = (list(messages), view)
        if view != messages:
            moment.payload = {**payload, "messages": view}
