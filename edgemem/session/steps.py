"""The steps of a turn, moment by moment in this order, and the parts of a session that take them.

A step that fails is counted and left out, as a hook is: a failing memory never stops a reply.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from edgemem.session.figures import TurnLog
from edgemem.session.log import Moment
from edgemem.session.memory_block import MemoryBlock, NotesBlock
from edgemem.session.points import (
    AFTER_LLM,
    AFTER_TOOL,
    BEFORE_LLM,
    BEFORE_TOOL,
    FAIL_CLOSED_REPLY,
    ON_ABORT,
    ON_IDLE,
    ON_PARTIAL,
    ON_RUN_END,
    ON_RUN_START,
    ON_SPEECH_START,
    HookRegistry,
    ToolCallResult,
)
from edgemem.session.prompt import Compaction, ListCompaction, PromptHead, WindowBudget
from edgemem.session.proposals import Proposals
from edgemem.session.speech import SessionPrefetch, StateKeeping, UpkeepHold
from edgemem.session.stored import StoredSession
from edgemem.session.tools import ToolEpisodes, ToolResults
from edgemem.store.messages import copied


@dataclass
class Parts:
    """The parts of one session. One that it lacks is None, and its steps are left out."""

    session: StoredSession = field(default_factory=StoredSession)
    head: PromptHead = field(default_factory=PromptHead)
    memory: MemoryBlock | None = None
    notes: NotesBlock | None = None
    proposals: Proposals | None = None
    compaction: Compaction | None = None
    compactor: ListCompaction | None = None
    budget: WindowBudget | None = None
    results: ToolResults | None = None
    episodes: ToolEpisodes | None = None
    prefetch: SessionPrefetch | None = None
    figures: TurnLog | None = None
    upkeep: UpkeepHold | None = None
    state: StateKeeping | None = None


class Step(NamedTuple):
    """One step."""

    name: str
    """The part's name, under which failures are counted."""
    act: Callable[[Moment], object]
    point: str = ""
    """The point of a step that calls hooks of the user's own; without hooks it is skipped."""


class Hooks:
    """The hooks of the user's own at one point, as a step."""

    name = "hooks"

    def __init__(self, registry: HookRegistry, point: str) -> None:
        self._registry, self.point = registry, point

    def fire(self, moment: Moment) -> None:
        """Call them; a hook that ends the turn gives the moment its reply."""
        fired = self._registry.fire_own(self.point, moment.ctx, moment.payload)
        if fired.is_end:
            moment.reply = str(fired.payload)
            if fired.payload == FAIL_CLOSED_REPLY and isinstance(moment.payload, ToolCallResult):
                # Nobody has looked at it.
                moment.payload.result, moment.payload.error = None, FAIL_CLOSED_REPLY
        else:
            moment.payload = fired.payload

    def fire_prompt(self, moment: Moment) -> None:
        """Call them with the prompt; one put in its place goes to the model, and enters no history."""
        prompt = moment.prompt
        messages, tools = copied(prompt.messages), copied(list(prompt.tools or ()))
        moment.payload = {"messages": messages, "tools": tools, "hop": prompt.hop, "now": prompt.now}
        self.fire(moment)
        changed = moment.payload
        prompt.messages, prompt.tools, prompt.now = changed["messages"], changed["tools"], changed["now"]


def _steps(*pairs: tuple[Any, Callable[[Any, Moment], object]]) -> tuple[Step, ...]:
    return tuple(
        Step(part.name, partial(act, part), part.point if isinstance(part, Hooks) else "")
        for part, act in pairs
        if part is not None
    )


class Steps:
    """The steps of each moment of a turn."""

    def __init__(self, parts: Parts, registry: HookRegistry) -> None:
        self.parts, self.registry = parts, registry
        p, fire = parts, Hooks.fire

        def hooks(point: str) -> Hooks:
            return Hooks(registry, point)

        # Somebody begins to speak, and goes on.
        self.speech = _steps(
            (p.upkeep, UpkeepHold.speech),
            (hooks(ON_SPEECH_START), fire),
            (p.prefetch, SessionPrefetch.speech),
        )
        self.partial = _steps(
            (p.upkeep, UpkeepHold.partial), (hooks(ON_PARTIAL), fire), (p.prefetch, SessionPrefetch.partial)
        )
        # They have spoken: before the log opens the turn, and behind that.
        self.begin = _steps(
            (p.figures, TurnLog.begin),
            (p.upkeep, UpkeepHold.begin),
            (p.session, StoredSession.begin),
            (hooks(ON_RUN_START), fire),
        )
        self.adopt = _steps((p.session, StoredSession.adopt))
        self.open = _steps((p.compaction, Compaction.switch), (p.prefetch, SessionPrefetch.begin))
        self.prompt = _steps(
            (p.head, PromptHead.compare),
            (p.budget, WindowBudget.measure),
            (p.memory, MemoryBlock.fill),
            (p.notes, NotesBlock.fill),
            (p.proposals, Proposals.propose),
            (p.head, PromptHead.view),
            (p.compaction, Compaction.guard),
            (p.compactor, ListCompaction.guard),
            (p.budget, WindowBudget.fit),
            (hooks(BEFORE_LLM), Hooks.fire_prompt),
            (p.session, StoredSession.accept),
            (p.figures, TurnLog.call),
        )
        # Before the log takes the answer.
        self.answer = _steps((p.figures, TurnLog.answer), (hooks(AFTER_LLM), fire))
        self.accept = _steps((p.session, StoredSession.accept))
        # A tool runs, and has run: before the log takes the result.
        self.call = _steps(
            (hooks(BEFORE_TOOL), fire), (p.session, StoredSession.accept), (p.episodes, ToolEpisodes.begin)
        )
        self.result = _steps(
            (p.proposals, Proposals.note),
            (hooks(AFTER_TOOL), fire),
            (p.results, ToolResults.shorten),
            (p.episodes, ToolEpisodes.note),
        )
        # A tool answers after the turn of its call: before the log takes the result, and behind that.
        self.told = _steps((hooks(AFTER_TOOL), fire), (p.results, ToolResults.shorten))
        self.late = _steps((p.session, StoredSession.keep_result), (p.episodes, ToolEpisodes.keep_result))
        # The turn ends, or is thrown away.
        self.end = _steps(
            (p.session, StoredSession.heed),
            (p.session, StoredSession.commit),
            (p.memory, MemoryBlock.end),
            (p.episodes, ToolEpisodes.end),
            (p.compaction, Compaction.end),
            (p.budget, WindowBudget.end),
            (hooks(ON_RUN_END), fire),
            (p.prefetch, SessionPrefetch.end),
            (p.state, StateKeeping.end),
            (p.figures, TurnLog.end),
            (p.upkeep, UpkeepHold.end),
        )
        self.abort = _steps(
            (p.session, StoredSession.abort),
            (p.memory, MemoryBlock.end),
            (p.episodes, ToolEpisodes.end),
            (hooks(ON_ABORT), fire),
            (p.prefetch, SessionPrefetch.end),
            (p.figures, TurnLog.abort),
            (p.upkeep, UpkeepHold.end),
        )
        self.idle = _steps(
            (p.compaction, Compaction.idle),
            (hooks(ON_IDLE), fire),
            (p.prefetch, SessionPrefetch.idle),
            (p.upkeep, UpkeepHold.idle),
        )

    def run(self, steps: tuple[Step, ...], point: str, moment: Moment) -> None:
        """Take the steps of a moment, one after the other; failures are counted under `point`."""
        for step in steps:
            if step.point and step.point not in self.registry.own:
                continue
            try:
                step.act(moment)
            except Exception as error:  # noqa: BLE001 - isolation is this method's work; the failure is counted and shown
                self.registry.note(step.name, point, error, moment.ctx)
