"""Offline memory runtime for voice agents on robots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgemem.clock import Clock as Clock
    from edgemem.config import Profile as Profile
    from edgemem.config import load_profile as load_profile
    from edgemem.context.compaction.compactor import Compactor as Compactor
    from edgemem.context.compaction.model import ModelSummarizer as ModelSummarizer
    from edgemem.errors import EdgememError as EdgememError
    from edgemem.hooks import ContextCompactionHook as ContextCompactionHook
    from edgemem.hooks import EpisodeLoggerHook as EpisodeLoggerHook
    from edgemem.hooks import HookRegistry as HookRegistry
    from edgemem.hooks import HookResult as HookResult
    from edgemem.hooks import MemoryInjectionHook as MemoryInjectionHook
    from edgemem.hooks import NotesInjectorHook as NotesInjectorHook
    from edgemem.hooks import PersistSessionHook as PersistSessionHook
    from edgemem.hooks import TokenBudgetHook as TokenBudgetHook
    from edgemem.hooks import ToolOutputTruncatorHook as ToolOutputTruncatorHook
    from edgemem.hooks import TurnLogHook as TurnLogHook
    from edgemem.hooks import hook as hook
    from edgemem.llama.embedder import llama_embed as llama_embed
    from edgemem.llama.tokens.estimate import estimate_tokens as estimate_tokens
    from edgemem.loop.loop import AgentLoop as AgentLoop
    from edgemem.loop.memory_tools import memory_tools as memory_tools
    from edgemem.memory import Memory as Memory
    from edgemem.recall.vector_store import VectorMemoryStore as VectorMemoryStore
    from edgemem.records import Episode as Episode
    from edgemem.records import Fact as Fact
    from edgemem.records import Heard as Heard
    from edgemem.records import Preference as Preference
    from edgemem.records import Procedure as Procedure
    from edgemem.records import ProcedureStep as ProcedureStep
    from edgemem.records import Reader as Reader
    from edgemem.records import Recalled as Recalled
    from edgemem.records import RecalledSession as RecalledSession
    from edgemem.records import Session as Session
    from edgemem.session.conversation import Conversation as Conversation
    from edgemem.session.tools import Tool as Tool
    from edgemem.session.tools import ToolTurn as ToolTurn
    from edgemem.store.json.memory import JSONMemoryStore as JSONMemoryStore
    from edgemem.store.json.sessions import JSONSessionStore as JSONSessionStore
    from edgemem.store.memory_store import SQLiteMemoryStore as SQLiteMemoryStore
    from edgemem.store.notes import NotesFile as NotesFile
    from edgemem.store.protocols import MemoryStore as MemoryStore
    from edgemem.store.protocols import SessionStore as SessionStore
    from edgemem.store.sessions import SQLiteSessionStore as SQLiteSessionStore
    from edgemem.takeover.edgevox import default_memory_dir as default_memory_dir
    from edgemem.takeover.edgevox import new_session_id as new_session_id

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
__all__ = sorted({name for names in _HOMES.values() for name in names.split()} - {"open"})  # noqa: PLE0605


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
