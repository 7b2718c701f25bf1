"""ContextCompactionHook: keeps the prompt within the window by beginning a new epoch, rarely."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.hooks.conversation import Conversation, conversation_of
from edgemem.hooks.points import BEFORE_LLM, ON_IDLE, ON_RUN_START, HookResult
from edgemem.store.tool_copies import summary_without
from edgemem.store.turn_steps import BeginEpoch

if TYPE_CHECKING:
    from edgemem.context.compactor import Compactor
    from edgemem.context.epochs import EpochPlanner
    from edgemem.context.summarizer import Summarizer
    from edgemem.records import Epoch, Message
    from edgemem.store.tool_copies import Erased


class ContextCompactionHook:
    """Compact whole turns into a summary: in idle time, or, when the user is faster, at once and simply."""

    points = frozenset({ON_RUN_START, BEFORE_LLM, ON_IDLE})
    # After memory and notes have put their lines in, before the budget has the last word.
    priority = 70

    def __init__(
        self,
        compactor: Compactor | None = None,
        llm_getter: Callable[[], Any] | None = None,
        *,
        planner: EpochPlanner | None = None,
        fallback: Summarizer | None = None,
        conversation: Conversation | None = None,
    ) -> None:
        """Make the hook.

        Args:
            compactor: compacts the loop's own message list; the way of the seed, for a loop without a memory.
            llm_getter: returns what counts tokens for the compactor.
            planner: plans epochs of the layout; then the list of what was said is never changed.
            fallback: a summarizer quick enough for the hot path.
        """
        self.compactor = compactor
        self.planner = planner
        self._llm_getter = llm_getter
        self._fallback = fallback
        self._conversation = conversation
        self._prepared: Epoch | None = None

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Prepare in idle time, switch between turns, and guard the window before the model is called."""
        planner = self.planner
        if planner is None:
            return self._compact(ctx, payload) if point == BEFORE_LLM else None
        conversation = conversation_of(ctx, self._conversation)
        if conversation.layout is not planner.layout:
            return None  # an agent within a tool has a prompt of its own
        if point == ON_IDLE:
            self.work(stop=payload.get("stop"))
            return None
        if point == ON_RUN_START:
            self._switch(conversation)
            return None
        return self._guard(planner, conversation, payload)

    def due(self) -> bool:
        """Tell whether there is something to prepare."""
        return self.planner is not None and self._prepared is None and self.planner.plan() is not None

    def work(self, *, stop: Callable[[], bool] | None = None) -> bool:
        """Prepare the next epoch if one is due; return whether anything was done."""
        if self.planner is None or self._prepared is not None:
            return False
        first = self.planner.plan()
        if first is None:
            return False
        self._prepared = self.planner.prepare(first, stop=stop)
        return self._prepared is not None

    def forget(self, erased: Erased) -> None:
        """Have the running conversation write nothing of a forgotten fact, nor take it into a summary."""
        if self._conversation is not None:
            self._conversation.forget(erased)

    def _switch(self, conversation: Conversation) -> None:
        epoch, self._prepared = self._prepared, None
        # A summary that was overtaken (a barge-in cut the reply it read, another epoch began) is dropped.
        if epoch is None or epoch.first_turn <= conversation.layout.epoch.first_turn:
            return
        self._begin(conversation, epoch)

    def _begin(self, conversation: Conversation, epoch: Epoch) -> None:
        # The turns that leave the prompt may still tell of what was forgotten meanwhile.
        epoch = msgspec.structs.replace(epoch, summary=summary_without(epoch.summary, conversation.erased))
        conversation.layout.switch(epoch)
        # Written with the next turn that is kept: an epoch without one would change nothing.
        conversation.opening.append(BeginEpoch(epoch))

    def _guard(
        self, planner: EpochPlanner, conversation: Conversation, payload: dict[str, Any]
    ) -> HookResult | None:
        hop = payload.get("hop", 0)
        # That the high-water mark is passed is found in idle time; here it only matters that the prompt fits.
        tokens = planner.gauge.tokens(payload["messages"], tools=payload.get("tools"), limit=planner.room)
        running = conversation.layout.running
        if hop == 0 and running is not None and planner.gauge.exact:
            planner.measured(running.n, tokens)
        if tokens <= planner.room:
            # The budget behind this hook need not count the same list once more.
            return HookResult.replace({**payload, "counted": (payload["messages"], tokens)})
        # Within a turn nothing is compacted any more; the budget behind this hook has the last word.
        first = planner.plan_now(payload["messages"], tokens) if hop == 0 else None
        if first is None:
            return None
        epoch = planner.prepare(first, summarizer=self._fallback, reason="did not fit")
        if epoch is None:
            return None
        self._begin(conversation, epoch)
        view = conversation.layout.view()
        tokens = planner.gauge.tokens(view, tools=payload.get("tools"), limit=planner.room)
        if running is not None:
            planner.measured(running.n, tokens)
        return HookResult.replace(
            {**payload, "messages": view, "counted": (view, tokens)}, reason="compacted"
        )

    def _compact(self, ctx: Any, payload: dict[str, Any]) -> HookResult | None:
        if self.compactor is None:
            return None
        llm = self._llm_getter() if self._llm_getter is not None else getattr(ctx, "llm", None)
        messages: list[Message] = payload["messages"]
        # The loop's list still begins with what was compacted. That stays compacted, byte for byte and at every hop:
        # to compact it anew with each turn would change the prompt's head each time.
        said, shown = ctx.hook_state.get(id(self), ([], []))
        stands = bool(said) and messages[: len(said)] == said
        view = [*shown, *messages[len(said) :]] if stands else messages
        if payload.get("hop", 0) == 0 and self.compactor.should_compact(view, llm):
            view = self.compactor.compact(view, llm)
            ctx.hook_state[id(self)] = (list(messages), view)
        return (
            HookResult.replace({**payload, "messages": view}, reason="compacted")
            if view != messages
            else None
        )
