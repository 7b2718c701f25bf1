"""Offline memory runtime for voice agents on robots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgemem.clock import Clock
    from edgemem.config import Profile, load_profile
    from edgemem.context.compaction.compactor import Compactor
    from edgemem.errors import EdgememError
    from edgemem.hooks import (
        AuditLogHook,
        ContextCompactionHook,
        EpisodeLoggerHook,
        HookRegistry,
        HookResult,
        MemoryInjectionHook,
        NotesInjectorHook,
        PersistSessionHook,
        TimingHook,
        TokenBudgetHook,
        ToolErrorRetryHook,
        ToolOutputTruncatorHook,
        TurnLogHook,
        hook,
    )
    from edgemem.llama.embedder import llama_embed
    from edgemem.llama.tokens.estimate import estimate_tokens
    from edgemem.loop.loop import AgentLoop
    from edgemem.loop.memory_tools import memory_tools
    from edgemem.loop.toolbox import Tool, ToolTurn
    from edgemem.memory import Memory, open_memory
    from edgemem.recall.vector_store import VectorMemoryStore
    from edgemem.records import Episode, Fact, Heard, Preference, Reader, Recalled, RecalledSession, Session
    from edgemem.seed_names import default_memory_dir, new_session_id
    from edgemem.store.json.memory import JSONMemoryStore
    from edgemem.store.json.sessions import JSONSessionStore
    from edgemem.store.memory_store import SQLiteMemoryStore
    from edgemem.store.notes import NotesFile
    from edgemem.store.protocols import MemoryStore, SessionStore
    from edgemem.store.sessions import SQLiteSessionStore

    open = open_memory  # noqa: A001 - `edgemem.open` is the front door

__version__ = "0.1.0"

# Where each public name lives. Nothing is imported before it is used, so that `import edgemem` stays cheap.
_HOMES = {
    "AgentLoop": "edgemem.loop.loop",
    "AuditLogHook": "edgemem.hooks.audit_log",
    "Clock": "edgemem.clock",
    "Compactor": "edgemem.context.compaction.compactor",
    "ContextCompactionHook": "edgemem.hooks.compaction",
    "EdgememError": "edgemem.errors",
    "Episode": "edgemem.records",
    "EpisodeLoggerHook": "edgemem.hooks.episode_logger",
    "Fact": "edgemem.records",
    "Heard": "edgemem.records",
    "HookRegistry": "edgemem.hooks.registry",
    "HookResult": "edgemem.hooks.points",
    "JSONMemoryStore": "edgemem.store.json.memory",
    "JSONSessionStore": "edgemem.store.json.sessions",
    "Memory": "edgemem.memory",
    "MemoryInjectionHook": "edgemem.hooks.injection",
    "MemoryStore": "edgemem.store.protocols",
    "NotesFile": "edgemem.store.notes",
    "NotesInjectorHook": "edgemem.hooks.notes_injector",
    "PersistSessionHook": "edgemem.hooks.persist",
    "Preference": "edgemem.records",
    "Profile": "edgemem.config",
    "Reader": "edgemem.records",
    "Recalled": "edgemem.records",
    "RecalledSession": "edgemem.records",
    "SQLiteMemoryStore": "edgemem.store.memory_store",
    "SQLiteSessionStore": "edgemem.store.sessions",
    "Session": "edgemem.records",
    "SessionStore": "edgemem.store.protocols",
    "TimingHook": "edgemem.hooks.turn_log",
    "TokenBudgetHook": "edgemem.hooks.prompt",
    "Tool": "edgemem.loop.toolbox",
    "ToolErrorRetryHook": "edgemem.hooks.tool_retry",
    "ToolOutputTruncatorHook": "edgemem.hooks.tool_output",
    "ToolTurn": "edgemem.loop.toolbox",
    "TurnLogHook": "edgemem.hooks.turn_log",
    "VectorMemoryStore": "edgemem.recall.vector_store",
    "default_memory_dir": "edgemem.seed_names",
    "estimate_tokens": "edgemem.llama.tokens.estimate",
    "hook": "edgemem.hooks.loader",
    "llama_embed": "edgemem.llama.embedder",
    "load_profile": "edgemem.config",
    "memory_tools": "edgemem.loop.memory_tools",
    "new_session_id": "edgemem.seed_names",
    "open": "edgemem.memory",
}

# Not `open`: a star import would take the built-in one away from whoever wrote it.
__all__ = [
    "AgentLoop",
    "AuditLogHook",
    "Clock",
    "Compactor",
    "ContextCompactionHook",
    "EdgememError",
    "Episode",
    "EpisodeLoggerHook",
    "Fact",
    "Heard",
    "HookRegistry",
    "HookResult",
    "JSONMemoryStore",
    "JSONSessionStore",
    "Memory",
    "MemoryInjectionHook",
    "MemoryStore",
    "NotesFile",
    "NotesInjectorHook",
    "PersistSessionHook",
    "Preference",
    "Profile",
    "Reader",
    "Recalled",
    "RecalledSession",
    "SQLiteMemoryStore",
    "SQLiteSessionStore",
    "Session",
    "SessionStore",
    "TimingHook",
    "TokenBudgetHook",
    "Tool",
    "ToolErrorRetryHook",
    "ToolOutputTruncatorHook",
    "ToolTurn",
    "TurnLogHook",
    "VectorMemoryStore",
    "default_memory_dir",
    "estimate_tokens",
    "hook",
    "llama_embed",
    "load_profile",
    "memory_tools",
    "new_session_id",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'edgemem' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), "open_memory" if name == "open" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__", "open"]
