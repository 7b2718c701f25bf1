"""Hooks with EdgeVox's names, for loops that keep their own list of messages, and hook files of the operator's."""

from __future__ import annotations

# ruff: noqa: I001 - it would split the re-exports into a line for each name

from edgemem.hooks.builtin import (
    ContextCompactionHook as ContextCompactionHook,
    EpisodeLoggerHook as EpisodeLoggerHook,
    MemoryInjectionHook as MemoryInjectionHook,
    NotesInjectorHook as NotesInjectorHook,
    PersistSessionHook as PersistSessionHook,
    TokenBudgetHook as TokenBudgetHook,
    ToolOutputTruncatorHook as ToolOutputTruncatorHook,
    TurnLogHook as TurnLogHook,
)
from edgemem.hooks.loader import available as available, hook as hook, load as load
from edgemem.session.points import (
    AFTER_LLM as AFTER_LLM,
    AFTER_TOOL as AFTER_TOOL,
    BEFORE_LLM as BEFORE_LLM,
    BEFORE_TOOL as BEFORE_TOOL,
    ON_ABORT as ON_ABORT,
    ON_IDLE as ON_IDLE,
    ON_INTERRUPT as ON_INTERRUPT,
    ON_PARTIAL as ON_PARTIAL,
    ON_RUN_END as ON_RUN_END,
    ON_RUN_START as ON_RUN_START,
    ON_SPEECH_START as ON_SPEECH_START,
    POINTS as POINTS,
    AgentResult as AgentResult,
    Hook as Hook,
    HookRegistry as HookRegistry,
    HookResult as HookResult,
    ToolCallRequest as ToolCallRequest,
    ToolCallResult as ToolCallResult,
    TurnContext as TurnContext,
)
