"""Offline memory runtime for voice agents on robots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgemem.clock import Clock
    from edgemem.config import Profile, load_profile
    from edgemem.context.compaction.compactor import Compactor
    from edgemem.context.compaction.model import ModelSummarizer
    from edgemem.errors import EdgememError
    from edgemem.hooks import (
        ContextCompactionHook,
        EpisodeLoggerHook,
        HookRegistry,
        HookResult,
        MemoryInjectionHook,
        NotesInjectorHook,
        PersistSessionHook,
        TokenBudgetHook,
        ToolOutputTruncatorHook,
        TurnLogHook,
        hook,
    )
    from edgemem.llama.embedder import llama_embed
    from edgemem.llama.tokens.estimate import estimate_tokens
    from edgemem.loop.loop import AgentLoop
    from edgemem.loop.memory_tools import memory_tools
    from edgemem.memory import Memory
    from edgemem.recall.vector_store import VectorMemoryStore
    from edgemem.records import (
        Episode,
        Fact,
        Heard,
        Preference,
        Procedure,
        ProcedureStep,
        Reader,
        Recalled,
        RecalledSession,
        Session,
    )
    from edgemem.session.conversation import Conversation
    from edgemem.session.tools import Tool, ToolTurn
    from edgemem.store.json.memory import JSONMemoryStore
    from edgemem.store.json.sessions import JSONSessionStore
    from edgemem.store.memory_store import SQLiteMemoryStore
    from edgemem.store.notes import NotesFile
    from edgemem.store.protocols import MemoryStore, SessionStore
    from edgemem.store.sessions import SQLiteSessionStore
    from edgemem.takeover.edgevox import default_memory_dir, new_session_id

    open = Memory  # noqa: A001 - `edgemem.open` is the front door

__version__ = "0.1.0"

# Which public names live in each module. Nothing is imported before it is used, so that `import edgemem` stays cheap.
_HOMES = {
    "edgemem.clock": "Clock",
    "edgemem.config": "Profile load_profile",
    "edgemem.context.compaction.compactor": "Compactor",
    "edgemem.context.compaction.model": "ModelSummarizer",
    "edgemem.errors": "EdgememError",
    "edgemem.hooks.builtin": (
        "ContextCompactionHook EpisodeLoggerHook MemoryInjectionHook NotesInjectorHook PersistSessionHook"
        " TokenBudgetHook ToolOutputTruncatorHook TurnLogHook"
    ),
    "edgemem.hooks.loader": "hook",
    "edgemem.session.points": "HookRegistry HookResult",
    "edgemem.llama.embedder": "llama_embed",
    "edgemem.llama.tokens.estimate": "estimate_tokens",
    "edgemem.loop.loop": "AgentLoop",
    "edgemem.loop.memory_tools": "memory_tools",
    "edgemem.memory": "Memory open",
    "edgemem.recall.vector_store": "VectorMemoryStore",
    "edgemem.records": "Episode Fact Heard Preference Procedure ProcedureStep Reader Recalled RecalledSession Session",
    "edgemem.takeover.edgevox": "default_memory_dir new_session_id",
    "edgemem.session.conversation": "Conversation",
    "edgemem.session.tools": "Tool ToolTurn",
    "edgemem.store.json.memory": "JSONMemoryStore",
    "edgemem.store.json.sessions": "JSONSessionStore",
    "edgemem.store.memory_store": "SQLiteMemoryStore",
    "edgemem.store.notes": "NotesFile",
    "edgemem.store.protocols": "MemoryStore SessionStore",
    "edgemem.store.sessions": "SQLiteSessionStore",
}

# Not `open`: a star import would hide the built-in one.
__all__ = [
    "AgentLoop", "Clock", "Compactor", "ContextCompactionHook", "Conversation", "EdgememError",
    "Episode", "EpisodeLoggerHook", "Fact", "Heard", "HookRegistry", "HookResult", "JSONMemoryStore",
    "JSONSessionStore", "Memory", "MemoryInjectionHook", "MemoryStore", "ModelSummarizer", "NotesFile",
    "NotesInjectorHook", "PersistSessionHook", "Preference", "Procedure", "ProcedureStep", "Profile",
    "Reader", "Recalled", "RecalledSession", "SQLiteMemoryStore", "SQLiteSessionStore", "Session",
    "SessionStore", "TokenBudgetHook", "Tool", "ToolOutputTruncatorHook", "ToolTurn", "TurnLogHook",
    "VectorMemoryStore", "default_memory_dir", "estimate_tokens", "hook", "llama_embed",
    "load_profile", "memory_tools", "new_session_id",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    home = next((module for module, names in _HOMES.items() if name in names.split()), None)
    if home is None:
        raise AttributeError(f"module 'edgemem' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), "Memory" if name == "open" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__", "open"]
