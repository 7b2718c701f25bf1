"""The wiring: which hooks a session gets, and with which numbers of the profile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from edgemem.config import InjectionSettings
from edgemem.context.epochs import EpochPlanner
from edgemem.context.layout import Layout
from edgemem.context.summarizer import ExtractiveSummarizer
from edgemem.hooks.compaction import ContextCompactionHook
from edgemem.hooks.conversation import Conversation
from edgemem.hooks.episode_logger import EpisodeLoggerHook
from edgemem.hooks.injection import MemoryInjectionHook, Recaller
from edgemem.hooks.layout_view import LayoutHook
from edgemem.hooks.notes_injector import NotesInjectorHook
from edgemem.hooks.persist import PersistSessionHook
from edgemem.hooks.points import Hook
from edgemem.hooks.token_budget import TokenBudgetHook
from edgemem.hooks.upkeep import UpkeepHook
from edgemem.records import Epoch, Kind, Reader, Recalled

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer
    from edgemem.memory import Memory

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
) -> list[Hook]:
    """Return the hooks of one session.

    Args:
        tokenizer: counts what the model will see.
        upkeep: holds idle work while somebody speaks.
        search: recalls, with the arguments of `Recall.recall`.
    """
    settings = memory.profile
    layout = Layout(session_id, default_level=settings.memory.default_level)
    layout.epoch = Epoch(session_id, 0, reason="begin", started_at=memory.clock.now())
    conversation = Conversation(layout, commit_wait_s=settings.store.commit_wait_s)
    context = settings.context
    planner = EpochPlanner(
        layout,
        tokenizer,
        ExtractiveSummarizer(memory.embedder, tokenizer),
        window_tokens=context.window_tokens,
        reply_tokens=context.reply_tokens,
        high_water=context.high_water,
        low_water=context.low_water,
        keep_last_turns=context.keep_last_turns,
        summary_tokens=context.summary_tokens,
        now=memory.clock.now,
    )
    # On the hot path there is no time to embed what leaves the prompt: words alone choose then.
    compaction = ContextCompactionHook(
        planner=planner, fallback=ExtractiveSummarizer(None, tokenizer), conversation=conversation
    )
    injection = settings.injection
    return [
        upkeep,
        PersistSessionHook(
            memory.sessions, session_id=session_id, speaker=speaker, conversation=conversation
        ),
        LayoutHook(speaker=speaker, conversation=conversation),
        MemoryInjectionHook(
            memory.store,
            injection.max_facts,
            injection.max_episodes,
            injection.header,
            max_chars=injection.max_chars,
            block_tokens=context.block_tokens,
            speaker=speaker,
            floors=_floors(injection),
            recall=_recaller(memory, conversation, search),
            tokenizer=tokenizer,
            conversation=conversation,
        ),
        NotesInjectorHook(
            memory.notes, settings.notes.inject_chars, speaker=speaker, conversation=conversation
        ),
        compaction,
        TokenBudgetHook(context.window_tokens - context.reply_tokens, tokenizer=tokenizer),
        EpisodeLoggerHook(memory.store, agent, speaker=speaker, conversation=conversation),
    ]


def _recaller(memory: Memory, conversation: Conversation, search: Callable[..., list[Recalled]]) -> Recaller:
    settings = memory.profile
    floors = _floors(settings.injection)

    def recall(utterance: str, reader: Reader | None) -> list[Recalled]:
        layout = conversation.layout
        return search(
            utterance,
            reader=reader,
            k=settings.recall.k,
            apart=SIGHTS,
            min_score=min(floors.values()),
            deadline_s=settings.recall.deadline_ms / 1e3,
            exclude=frozenset(layout.visible()),
            skip_turns=(layout.session, layout.visible_turns()),
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
