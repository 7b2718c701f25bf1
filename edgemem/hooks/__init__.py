"""Hooks: the points of a turn, the registry that calls them, and the built-in ones."""

from __future__ import annotations

from edgemem.hooks.compaction import ContextCompactionHook
from edgemem.hooks.episode_logger import EpisodeLoggerHook
from edgemem.hooks.injection import MemoryInjectionHook
from edgemem.hooks.loader import available, hook, load
from edgemem.hooks.notes_injector import NotesInjectorHook
from edgemem.hooks.persist import PersistSessionHook
from edgemem.hooks.prompt import TokenBudgetHook
from edgemem.hooks.tool_output import ToolOutputTruncatorHook
from edgemem.hooks.turn_log import TurnLogHook
from edgemem.session.points import (
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
from edgemem.session.registry import HookRegistry

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
    "EpisodeLoggerHook",
    "Hook",
    "HookRegistry",
    "HookResult",
    "MemoryInjectionHook",
    "NotesInjectorHook",
    "PersistSessionHook",
    "TokenBudgetHook",
    "ToolCallRequest",
    "ToolCallResult",
    "ToolOutputTruncatorHook",
    "TurnContext",
    "TurnLogHook",
    "available",
    "hook",
    "load",
]
