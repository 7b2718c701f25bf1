"""Hooks: the points of a turn, the registry that calls them, and the built-in ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.hooks.compaction import ContextCompactionHook
from edgemem.hooks.conversation import Conversation
from edgemem.hooks.episode_logger import EpisodeLoggerHook
from edgemem.hooks.injection import MemoryInjectionHook
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
from edgemem.hooks.prompt import LayoutHook, TokenBudgetHook
from edgemem.hooks.registry import HookFailure, HookRegistry
from edgemem.hooks.turn_log import TurnFigures, TurnLogHook
from edgemem.hooks.upkeep import UpkeepHook

if TYPE_CHECKING:
    from edgemem.hooks.audit_log import AuditLogHook
    from edgemem.hooks.loader import FunctionHook, hook
    from edgemem.hooks.tool_output import ToolOutputTruncatorHook
    from edgemem.hooks.tool_retry import ToolErrorRetryHook
    from edgemem.hooks.turn_log import Timing, TimingHook

# Hooks that a robot may do without are imported when they are first used.
_LATER = {
    "AuditLogHook": "edgemem.hooks.audit_log",
    "FunctionHook": "edgemem.hooks.loader",
    "Timing": "edgemem.hooks.turn_log",
    "TimingHook": "edgemem.hooks.turn_log",
    "ToolErrorRetryHook": "edgemem.hooks.tool_retry",
    "ToolOutputTruncatorHook": "edgemem.hooks.tool_output",
    "hook": "edgemem.hooks.loader",
}

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
    "AuditLogHook",
    "ContextCompactionHook",
    "Conversation",
    "EpisodeLoggerHook",
    "FunctionHook",
    "Hook",
    "HookFailure",
    "HookRegistry",
    "HookResult",
    "LayoutHook",
    "MemoryInjectionHook",
    "NotesInjectorHook",
    "PersistSessionHook",
    "Timing",
    "TimingHook",
    "TokenBudgetHook",
    "ToolCallRequest",
    "ToolCallResult",
    "ToolErrorRetryHook",
    "ToolOutputTruncatorHook",
    "TurnContext",
    "TurnFigures",
    "TurnLogHook",
    "UpkeepHook",
    "available",
    "hook",
    "load",
]


def __getattr__(name: str) -> Any:
    """Import one of the less common hooks when it is first used."""
    home = _LATER.get(name)
    if home is None:
        raise AttributeError(f"module 'edgemem.hooks' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
