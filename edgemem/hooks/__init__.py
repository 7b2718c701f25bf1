"""Hooks with EdgeVox's names, for loops that keep their own list of messages, and hook files of the operator's."""

from __future__ import annotations

from edgemem.hooks.builtin import (
    ContextCompactionHook,
    EpisodeLoggerHook,
    MemoryInjectionHook,
    NotesInjectorHook,
    PersistSessionHook,
    TokenBudgetHook,
    ToolOutputTruncatorHook,
    TurnLogHook,
)
from edgemem.hooks.loader import available, hook, load
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
