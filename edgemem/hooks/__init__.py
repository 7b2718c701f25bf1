"""Hooks: the points of a turn, the registry that calls them, and the built-in ones."""

from __future__ import annotations

from edgemem.hooks.compaction import ContextCompactionHook
from edgemem.hooks.conversation import Conversation
from edgemem.hooks.episode_logger import EpisodeLoggerHook
from edgemem.hooks.injection import MemoryInjectionHook
from edgemem.hooks.layout_view import LayoutHook
from edgemem.hooks.loader import available, load
from edgemem.hooks.notes_injector import NotesInjectorHook
from edgemem.hooks.persist import PersistSessionHook
from edgemem.hooks.points import (
    AFTER_LLM,
    AFTER_TOOL,
    BEFORE_LLM,
    BEFORE_TOOL,
    ON_ABORT,
    ON_IDLE,
    ON_INTERRUPT,
    ON_PARTIAL,
    ON_RUN_END,
    ON_RUN_START,
    ON_SPEECH_START,
    POINTS,
    AgentResult,
    Hook,
    HookResult,
    ToolCallRequest,
    ToolCallResult,
    TurnContext,
)
from edgemem.hooks.registry import HookFailure, HookRegistry
from edgemem.hooks.token_budget import TokenBudgetHook
from edgemem.hooks.upkeep import UpkeepHook

__all__ = [
    "AFTER_LLM",
    "AFTER_TOOL",
    "BEFORE_LLM",
    "BEFORE_TOOL",
    "ON_ABORT",
    "ON_IDLE",
    "ON_INTERRUPT",
    "ON_PARTIAL",
    "ON_RUN_END",
    "ON_RUN_START",
    "ON_SPEECH_START",
    "POINTS",
    "AgentResult",
    "ContextCompactionHook",
    "Conversation",
    "EpisodeLoggerHook",
    "Hook",
    "HookFailure",
    "HookRegistry",
    "HookResult",
    "LayoutHook",
    "MemoryInjectionHook",
    "NotesInjectorHook",
    "PersistSessionHook",
    "TokenBudgetHook",
    "ToolCallRequest",
    "ToolCallResult",
    "TurnContext",
    "UpkeepHook",
    "available",
    "load",
]
