"""The async face of edgemem: `async with edgemem.aio.open(home) as memory`, and every method is awaited.

Nothing is done on the event loop's thread. `worker` has the threads, and how a method of a synchronous object becomes a
coroutine; `memory` lists the methods, one line each; `hooks` has what an async loop fires. A new method of `Memory` or of its
stores gets its line in `memory`; what it does belongs below.
"""

from __future__ import annotations

from edgemem.aio.hooks import HookRegistry
from edgemem.aio.memory import AsyncMemory, open  # noqa: A004 - as `edgemem.open`
from edgemem.aio.protocols import (
    Episode,
    EpisodicMemory,
    FactStore,
    GoalState,
    GoalStore,
    MemoryBankProvider,
    MemoryMessage,
    MemoryProvider,
    MessageStore,
    PhaseState,
    PhaseStore,
    ProceduralMemory,
    SessionStateStore,
    SummaryGenerator,
    SummaryStore,
    ToolEvent,
    ToolEventStore,
    UserProfile,
    UserStore,
)
from edgemem.aio.providers import (
    DatabaseMemoryBankProvider,
    FilesystemMemoryBankProvider,
    InMemoryEpisodicMemory,
    InMemoryMemoryProvider,
    InMemoryProceduralMemory,
    SqliteEpisodicMemory,
    SQLiteMemoryProvider,
    SqliteProceduralMemory,
    create_memory_bank_tools,
)
from edgemem.aio.summaries import LlmSummaryGenerator, TemplateSummaryGenerator
from edgemem.errors import MemoryBankViolation
from edgemem.records import Procedure, ProcedureStep
from edgemem.store.bank.rules import MemoryBankConfig, get_memory_bank_ddl, validate_memory_path

__all__ = [
    "AsyncMemory",
    "DatabaseMemoryBankProvider",
    "Episode",
    "EpisodicMemory",
    "FactStore",
    "FilesystemMemoryBankProvider",
    "GoalState",
    "GoalStore",
    "HookRegistry",
    "InMemoryEpisodicMemory",
    "InMemoryMemoryProvider",
    "InMemoryProceduralMemory",
    "LlmSummaryGenerator",
    "MemoryBankConfig",
    "MemoryBankProvider",
    "MemoryBankViolation",
    "MemoryMessage",
    "MemoryProvider",
    "MessageStore",
    "PhaseState",
    "PhaseStore",
    "ProceduralMemory",
    "Procedure",
    "ProcedureStep",
    "SQLiteMemoryProvider",
    "SessionStateStore",
    "SqliteEpisodicMemory",
    "SqliteProceduralMemory",
    "SummaryGenerator",
    "SummaryStore",
    "TemplateSummaryGenerator",
    "ToolEvent",
    "ToolEventStore",
    "UserProfile",
    "UserStore",
    "create_memory_bank_tools",
    "get_memory_bank_ddl",
    "open",
    "validate_memory_path",
]  # fmt: skip
