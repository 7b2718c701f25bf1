"""The async face of edgemem: `async with edgemem.aio.open(home) as memory`, and every method is awaited.

Nothing is done on the event loop's thread. `worker` has the threads, and makes coroutines of synchronous methods; `memory` lists
them, one line each; `conversation` is the door of a turn. A new method gets its line in `memory`; its work belongs below.
"""

from __future__ import annotations

# ruff: noqa: I001 - it would split the re-exports into a line for each name

from edgemem.aio.consolidation import (
    ConsolidationPipeline as ConsolidationPipeline,
    ConsolidationResult as ConsolidationResult,
    FactExtractor as FactExtractor,
    KeywordFactExtractor as KeywordFactExtractor,
)
from edgemem.aio.conversation import AsyncConversation as AsyncConversation
from edgemem.aio.conversation import AsyncTurn as AsyncTurn
from edgemem.aio.memory import AsyncMemory as AsyncMemory
from edgemem.aio.memory import open as open  # noqa: A004 - as `edgemem.open`
from edgemem.aio.protocols import (
    EpisodicMemory as EpisodicMemory,
    FactStore as FactStore,
    GoalStore as GoalStore,
    MemoryBankProvider as MemoryBankProvider,
    MessageStore as MessageStore,
    PhaseStore as PhaseStore,
    ProceduralMemory as ProceduralMemory,
    SessionStateStore as SessionStateStore,
    SummaryGenerator as SummaryGenerator,
    SummaryStore as SummaryStore,
    ToolEventStore as ToolEventStore,
    UserStore as UserStore,
)
from edgemem.aio.providers import (
    DatabaseMemoryBankProvider as DatabaseMemoryBankProvider,
    FilesystemMemoryBankProvider as FilesystemMemoryBankProvider,
    InMemoryEpisodicMemory as InMemoryEpisodicMemory,
    InMemoryMemoryProvider as InMemoryMemoryProvider,
    InMemoryProceduralMemory as InMemoryProceduralMemory,
    LlmSummaryGenerator as LlmSummaryGenerator,
    SqliteEpisodicMemory as SqliteEpisodicMemory,
    SQLiteMemoryProvider as SQLiteMemoryProvider,
    SqliteMemoryProvider as SqliteMemoryProvider,
    SqliteProceduralMemory as SqliteProceduralMemory,
    TemplateSummaryGenerator as TemplateSummaryGenerator,
    create_memory_bank_tools as create_memory_bank_tools,
    get_memory_bank_ddl as get_memory_bank_ddl,
)
from edgemem.errors import MemoryBankViolation as MemoryBankViolation
from edgemem.memory.users import (
    Episode as Episode,
    GoalState as GoalState,
    MemoryMessage as MemoryMessage,
    PhaseState as PhaseState,
    ToolEvent as ToolEvent,
    UserProfile as UserProfile,
)
from edgemem.records import Procedure as Procedure, ProcedureStep as ProcedureStep
from edgemem.store.bank.rules import (
    MemoryBankConfig as MemoryBankConfig,
    validate_memory_path as validate_memory_path,
)
