"""The wiring: which hooks and tools a session gets, and with which numbers of the profile."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from edgemem.config import InjectionSettings, Profile
from edgemem.context.epochs import EpochPlanner
from edgemem.context.layout import Layout
from edgemem.context.model_summarizer import ModelSummarizer
from edgemem.context.quick_summary import QuickSummarizer
from edgemem.context.summarizer import ExtractiveSummarizer
from edgemem.hooks.compaction import ContextCompactionHook
from edgemem.hooks.conversation import Conversation
from edgemem.hooks.episode_logger import EpisodeLoggerHook
from edgemem.hooks.injection import MemoryInjectionHook, Recaller
from edgemem.hooks.layout_view import LayoutHook
from edgemem.hooks.notes_injector import NotesInjectorHook
from edgemem.hooks.persist import PersistSessionHook
from edgemem.hooks.points import Hook
from edgemem.hooks.settings import SettingsHook
from edgemem.hooks.token_budget import TokenBudgetHook
from edgemem.hooks.turn_log import TurnLogHook
from edgemem.hooks.upkeep import UpkeepHook
from edgemem.records import Epoch, Kind, Reader, Recalled

if TYPE_CHECKING:
    from edgemem.context.summarizer import Summarizer
    from edgemem.llama.protocols import ChatModel, Tokenizer
    from edgemem.loop import Tool
    from edgemem.memory import Memory

_log = logging.getLogger(__name__)

SIGHTS: tuple[frozenset[Kind], ...] = (
    frozenset(("fact", "preference", "note")),
    frozenset(("episode", "turn", "summary")),
)
"""What a turn recalls apart: turns are many and long, and would leave no place for the few facts."""


def default_hooks(
    memory: Memory,
    *,
    session_id: str,
    speaker: str | None,
    agent: str,
    tokenizer: Tokenizer,
    upkeep: UpkeepHook,
    search: Callable[..., list[Recalled]],
    model: ChatModel | None = None,
) -> list[Hook]:
    """Return the hooks of one session.

    Args:
        tokenizer: counts what the model will see.
        upkeep: holds idle work while somebody speaks.
        search: recalls, with the arguments of `Recall.recall`.
        model: the chat model of the session, which may write its summaries.
    """
    settings = memory.profile
    layout = Layout(session_id, default_level=settings.memory.default_level)
    layout.epoch = Epoch(session_id, 0, reason="begin", started_at=memory.clock.now())
    conversation = Conversation(layout, commit_wait_s=settings.store.commit_wait_s)
    context = settings.context
    planner = EpochPlanner(
        layout,
        tokenizer,
        _summarizer(memory, tokenizer, model),
        window_tokens=context.window_tokens,
        reply_tokens=context.reply_tokens,
        high_water=context.high_water,
        low_water=context.low_water,
        keep_last_turns=context.keep_last_turns,
        summary_tokens=context.summary_tokens,
        now=memory.clock.now,
    )
    # On the hot path there is no time to compare sentences, or to embed them.
    compaction = ContextCompactionHook(
        planner=planner, fallback=QuickSummarizer(tokenizer), conversation=conversation
    )
    injection = settings.injection
    memories = MemoryInjectionHook(
        memory.store,
        injection.max_facts,
        injection.max_episodes,
        injection.header,
        max_chars=injection.max_chars,
        block_tokens=context.block_tokens,
        speaker=speaker,
        floors=_floors(injection),
        recall=_recaller(lambda: turn.profile, conversation, search),
        tokenizer=tokenizer,
        conversation=conversation,
    )
    notes = NotesInjectorHook(
        memory.notes, settings.notes.inject_chars, speaker=speaker, conversation=conversation
    )
    budget = TokenBudgetHook(planner.room, tokenizer=tokenizer)

    def apply(profile: Profile) -> None:
        layout.default_level = profile.memory.default_level
        conversation.commit_wait_s = profile.store.commit_wait_s
        extractive = ExtractiveSummarizer(memory.embedder, tokenizer)
        if isinstance(planner.summarizer, ModelSummarizer):
            planner.summarizer.fallback = extractive
        else:
            planner.summarizer = extractive
        _plan(planner, profile)
        _inject(memories, profile)
        notes.max_chars = profile.notes.inject_chars
        budget.max_context_tokens = planner.room

    shortening: list[Hook] = []
    if settings.hooks.tool_output_chars:
        from edgemem.hooks.tool_output import ToolOutputTruncatorHook

        shortening.append(
            ToolOutputTruncatorHook(
                settings.hooks.tool_output_chars,
                max_tokens=int(settings.hooks.tool_output_share * planner.room),
                tokenizer=tokenizer,
                keep_bytes=int(settings.hooks.tool_output_mb * 1e6),
                conversation=conversation,
            )
        )
    turn = SettingsHook(settings, newest=memory.renew, apply=apply)
    turn_log = TurnLogHook(
        write=lambda: memory.profile.log.turn,
        keep=memory.figures.note,
        recalled=memory.last_recall,
        now=memory.clock.now,
        conversation=conversation,
    )
    return [
        turn_log.first,
        upkeep,
        turn,
        PersistSessionHook(
            memory.sessions,
            session_id=session_id,
            speaker=speaker,
            conversation=conversation,
            chars_per_s=memory.profile.context.speech_chars_s,
        ),
        LayoutHook(speaker=speaker, conversation=conversation, now=memory.clock.now),
        memories,
        notes,
        compaction,
        budget,
        EpisodeLoggerHook(memory.store, agent, speaker=speaker, conversation=conversation),
        *shortening,
        turn_log,
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
            apart=SIGHTS,
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
    if beside is None:
        _log.warning(
            '[compaction] summarizer = "model" needs a model in this process; summaries are made of sentences that were'
            " said."
        )
        return extractive
    return ModelSummarizer(beside(n_ctx=settings.summary_ctx, threads=settings.summary_threads), extractive)


def _plan(planner: EpochPlanner, profile: Profile) -> None:
    """Give a planner its numbers."""
    context = profile.context
    planner.window_tokens = context.window_tokens
    planner.reply_tokens = context.reply_tokens
    planner.high_water = context.high_water
    planner.low_water = context.low_water
    planner.keep_last_turns = context.keep_last_turns
    planner.summary_tokens = context.summary_tokens


def _inject(hook: MemoryInjectionHook, profile: Profile) -> None:
    """Give the injection its numbers."""
    injection = profile.injection
    hook.max_facts = injection.max_facts
    hook.max_episodes = injection.max_episodes
    hook.header = injection.header.strip()
    hook.max_chars = injection.max_chars
    hook.block_tokens = profile.context.block_tokens
    hook.floors = _floors(injection)


def _recaller(
    profile: Callable[[], Profile], conversation: Conversation, search: Callable[..., list[Recalled]]
) -> Recaller:
    def recall(utterance: str, reader: Reader | None) -> list[Recalled]:
        layout, settings = conversation.layout, profile()
        floors = _floors(settings.injection)
        return search(
            utterance,
            reader=reader,
            k=settings.recall.k,
            apart=SIGHTS,
            min_score=min(floors.values()),
            deadline_s=settings.recall.deadline_ms / 1e3,
            exclude=frozenset(layout.visible()),
            skip_turns=(layout.session, layout.visible_turns()),
            called=settings.called(),
        )

    return recall


def _floors(injection: InjectionSettings) -> dict[str, float]:
    """Return the least score at which something is put before the model, by kind."""
    return {
        "fact": injection.min_score,
        "asked": injection.min_asked_score,
        "episode": injection.min_episode_score,
        "turn": injection.min_turn_score,
    }
