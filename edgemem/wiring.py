"""The wiring: which hooks and tools a session gets, and with which numbers of the profile."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from copy import copy
from typing import TYPE_CHECKING, Any

from edgemem.config import InjectionSettings, Profile
from edgemem.context.block import lowest
from edgemem.context.epochs import EpochPlanner
from edgemem.context.layout import Layout
from edgemem.context.plan import Budget, Plan
from edgemem.context.quick_summary import QuickSummarizer
from edgemem.context.repeated import tells_more
from edgemem.context.summarizer import ExtractiveSummarizer
from edgemem.hooks.compaction import ContextCompactionHook
from edgemem.hooks.conversation import Conversation
from edgemem.hooks.early_recall import EarlyRecallHook
from edgemem.hooks.episode_logger import EpisodeLoggerHook
from edgemem.hooks.injection import MemoryInjectionHook
from edgemem.hooks.layout_view import LayoutHook
from edgemem.hooks.notes_injector import NotesInjectorHook
from edgemem.hooks.persist import PersistSessionHook
from edgemem.hooks.points import Hook
from edgemem.hooks.settings import SettingsHook
from edgemem.hooks.token_budget import TokenBudgetHook
from edgemem.hooks.turn_log import TurnLogHook
from edgemem.hooks.upkeep import UpkeepHook
from edgemem.hooks.warming import Warming
from edgemem.hooks.window_plan import WindowPlanHook
from edgemem.recall.hints import SOMEBODY_HERE
from edgemem.records import Epoch, Kind, Reader, Recalled

if TYPE_CHECKING:
    from edgemem.context.summarizer import Summarizer
    from edgemem.hooks.tool_output import ToolOutputTruncatorHook
    from edgemem.llama.protocols import ChatModel, Tokenizer
    from edgemem.loop import Tool
    from edgemem.memory import Memory
    from edgemem.recall.ahead import Ahead

_log = logging.getLogger(__name__)

SIGHTS: tuple[frozenset[Kind], ...] = (
    frozenset(("fact", "preference")),
    frozenset(("note",)),
    frozenset(("episode", "turn")),
)
"""What a turn recalls apart: turns and notes are many and long, and would leave no place for the few facts. A summary is
too long for a block, and says what turns say."""

_LOOKED_UP: tuple[frozenset[Kind], ...] = (*SIGHTS, frozenset(("summary",)))
"""What a model looks through when it asks."""


def default_hooks(
    memory: Memory,
    *,
    session_id: str,
    speaker: str | None,
    agent: str,
    budget: Budget,
    upkeep: UpkeepHook,
    ahead: Ahead,
    model: ChatModel | None = None,
) -> list[Hook]:
    """Return the hooks of one session.

    Args:
        budget: divides the model's window, and has what counts its tokens.
        upkeep: holds idle work while somebody speaks.
        ahead: recalls, also while somebody speaks.
        model: the chat model of the session, which may write its summaries.
    """
    settings, tokenizer, plan = memory.profile, budget.tokenizer, budget.plan
    layout = Layout(session_id, default_level=settings.memory.default_level)
    layout.epoch = Epoch(session_id, 0, reason="begin", started_at=memory.clock.now())
    conversation = Conversation(layout, commit_wait_s=settings.store.commit_wait_s)
    context = settings.context
    planner = EpochPlanner(
        layout,
        tokenizer,
        _summarizer(memory, tokenizer, model),
        window_tokens=plan.window_tokens,
        reply_tokens=plan["answer"],
        high_water=context.high_water,
        low_water=context.low_water,
        keep_last_turns=context.keep_last_turns,
        summary_tokens=plan["summary"],
        current=lambda facts: memories.current(facts, SOMEBODY_HERE),
        now=memory.clock.now,
    )
    # On the hot path there is no time to compare sentences, or to embed them.
    compaction = ContextCompactionHook(
        planner=planner,
        fallback=QuickSummarizer(tokenizer),
        conversation=conversation,
        warming=_warming(memory, layout, model),
    )
    early = EarlyRecallHook(
        ahead,
        arguments=lambda reader: _searching(turn.profile, conversation, reader),
        conversation=conversation,
        speaker=speaker,
    )
    injection = settings.injection
    memories = MemoryInjectionHook(
        memory.store,
        injection.max_facts,
        injection.max_episodes,
        injection.header,
        max_chars=injection.max_chars,
        block_tokens=plan["memory"],
        speaker=speaker,
        floors=_floors(injection),
        recall=early.recall,
        tokenizer=tokenizer,
        conversation=conversation,
        now=memory.clock.now,
    )
    notes = NotesInjectorHook(
        memory.notes,
        settings.notes.inject_chars,
        max_tokens=plan["notes"],
        tokenizer=tokenizer,
        speaker=speaker,
        conversation=conversation,
    )
    last_word = TokenBudgetHook(plan.room, tokenizer=tokenizer)

    def apply(profile: Profile) -> None:
        layout.default_level = profile.memory.default_level
        conversation.commit_wait_s = profile.store.commit_wait_s
        extractive = ExtractiveSummarizer(memory.embedder, tokenizer)
        if hasattr(planner.summarizer, "fallback"):
            planner.summarizer.fallback = extractive
        else:
            planner.summarizer = extractive
        _marks(planner, profile)
        _inject(memories, profile)
        notes.max_chars = profile.notes.inject_chars
        budget.context = profile.context
        window.take()

    shortening: list[ToolOutputTruncatorHook] = []
    if settings.hooks.tool_output_chars:
        from edgemem.hooks.tool_output import ToolOutputTruncatorHook

        shortening.append(
            ToolOutputTruncatorHook(
                settings.hooks.tool_output_chars,
                room_tokens=plan.room,
                share=settings.hooks.tool_output_share,
                tokenizer=tokenizer,
                keep_bytes=int(settings.hooks.tool_output_mb * 1e6),
                conversation=conversation,
            )
        )

    def use(plan: Plan) -> None:
        planner.window_tokens, planner.reply_tokens = plan.window_tokens, plan["answer"]
        planner.summary_tokens = plan["summary"]
        memories.block_tokens = plan["memory"]
        notes.max_tokens = plan["notes"]
        last_word.max_context_tokens = plan.room
        for hook in shortening:
            hook.room_tokens = plan.room

    window = WindowPlanHook(
        budget,
        apply=use,
        fits=lambda: not last_word.note,
        note=memory.failures.note,
        conversation=conversation,
    )
    turn = SettingsHook(settings, newest=memory.renew, apply=apply)
    turn_log = TurnLogHook(
        write=lambda: memory.profile.log.turn,
        keep=memory.figures.note,
        recalled=memory.last_recall,
        early=lambda: (ahead.counts.turns, ahead.counts.ready),
        now=memory.clock.now,
        conversation=conversation,
    )
    return [
        turn_log.first,
        upkeep.first,
        turn,
        PersistSessionHook(
            memory.sessions,
            session_id=session_id,
            speaker=speaker,
            conversation=conversation,
            chars_per_s=memory.profile.context.speech_chars_s,
        ),
        LayoutHook(speaker=speaker, conversation=conversation, now=memory.clock.now),
        window,
        early,
        memories,
        notes,
        compaction,
        last_word,
        EpisodeLoggerHook(memory.store, agent, speaker=speaker, conversation=conversation),
        *shortening,
        turn_log,
        upkeep,
    ]


def default_tools(
    memory: Memory,
    *,
    include: Collection[str] | None,
    speaker: str | None,
    search: Callable[..., list[Recalled]],
) -> list[Tool]:
    """Return the memory's tools for a model.

    Args:
        include: some of them; None: all.
        search: recalls, with the arguments of `Recall.recall`.
    """
    from edgemem import read_more  # late: whoever opens a memory need not wait for what only models need
    from edgemem.rights import SCOPES
    from edgemem.tools import NAMES, memory_tools

    settings = memory.profile
    most = settings.tools.max_items

    def recall(query: str, reader: Reader | None) -> list[Recalled]:
        profile = memory.profile
        return search(
            query,
            reader=reader,
            k=most,
            apart=_LOOKED_UP,
            min_score=profile.injection.min_asked_score,
            deadline_s=profile.recall.deadline_ms / 1e3,
            called=profile.called(),
        )

    # Every tool is paid for in every prompt: this one is offered where results are shortened at all.
    reads_on = bool(settings.hooks.tool_output_chars)
    if include is not None and not isinstance(include, str):
        reads_on = read_more.NAME in include
        include = [name for name in include if name != read_more.NAME]
    tools = memory_tools(
        memory.store,
        include=NAMES if include is None else include,
        recall=recall,
        forget=lambda key, scope: memory.forget(key, scope=scope, wait_s=settings.tools.write_wait_s),
        speaker=speaker,
        scope=SCOPES[settings.memory.default_level],
        confirm=settings.tools.confirm,
        max_chars=settings.tools.max_chars,
        max_items=most,
        wait_s=settings.tools.write_wait_s,
    )
    return [*tools, read_more.read_more_tool(memory.database, speaker=speaker)] if reads_on else tools


def _summarizer(memory: Memory, tokenizer: Tokenizer, model: ChatModel | None) -> Summarizer:
    """Return what makes the summaries in idle time."""
    extractive = ExtractiveSummarizer(memory.embedder, tokenizer)
    settings = memory.profile.compaction
    if settings.summarizer == "extractive" or model is None:
        return extractive
    beside = getattr(model, "beside", None)
    side = beside and beside(n_ctx=settings.summary_ctx, threads=settings.summary_threads)
    if side is None:
        _log.warning(
            '[compaction] summarizer = "model" needs a model in this process, or a second slot of its server (-np 2);'
            " summaries are made of sentences that were said."
        )
        return extractive
    # Its checks of what a model wrote are a dozen modules, which most robots never need.
    from edgemem.context.model_summarizer import ModelSummarizer

    return ModelSummarizer(side, extractive)


def _warming(memory: Memory, layout: Layout, model: ChatModel | None) -> Warming | None:
    """Return what has the model read a new epoch's prompt before it begins."""
    if not memory.profile.compaction.warm or model is None:
        return None
    ahead = getattr(model, "ahead", None)
    if ahead is None:
        _log.warning(
            "[compaction] warm needs a model in this process; a new epoch's prompt is read with its first turn."
        )
        return None
    return Warming(ahead(), layout)


def _marks(planner: EpochPlanner, profile: Profile) -> None:
    """Give a planner what the plan of the window does not say."""
    context = profile.context
    planner.high_water = context.high_water
    planner.low_water = context.low_water
    planner.keep_last_turns = context.keep_last_turns


def _inject(hook: MemoryInjectionHook, profile: Profile) -> None:
    """Give the injection its numbers."""
    injection = profile.injection
    hook.max_facts = injection.max_facts
    hook.max_episodes = injection.max_episodes
    hook.header = injection.header.strip()
    hook.max_chars = injection.max_chars
    hook.floors = _floors(injection)


def _searching(profile: Profile, conversation: Conversation, reader: Reader | None) -> dict[str, Any]:
    """Return how to search for a reader's next turn, given what the prompt holds now."""
    # A copy: while somebody speaks, the layout is still that of the reader before.
    layout = copy(conversation.layout)
    layout.reader = reader
    visible, floors = layout.visible(), _floors(profile.injection)
    return {
        "reader": reader,
        "k": profile.recall.k,
        "apart": SIGHTS,
        "min_score": lowest(floors),
        "deadline_s": profile.recall.deadline_ms / 1e3,
        "exclude": frozenset(name for name, item in visible.items() if item.about is None),
        # A fact that the prompt holds is still the best answer: without it, a worse one would be said.
        "known": frozenset(name for name, item in visible.items() if item.about is not None),
        "skip_turns": (layout.session, layout.visible_turns()),
        "called": profile.called(),
        "tells": tells_more,
    }


def _floors(injection: InjectionSettings) -> dict[str, float]:
    """Return the least score at which something is put before the model, by kind."""
    return {
        "fact": injection.min_score,
        "asked": injection.min_asked_score,
        "episode": injection.min_episode_score,
        "note": injection.min_note_score,
        "turn": injection.min_turn_score,
        "unasked": injection.min_unasked_score,
        "unasked_turn": injection.min_unasked_turn_score,
        "beside": injection.min_beside_score,
    }
