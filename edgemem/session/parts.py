"""The parts of a session: what a turn of it has steps of. A part that a session lacks is None, and its steps are left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgemem.session.prompt import PromptHead
from edgemem.session.stored import StoredSession

if TYPE_CHECKING:
    from edgemem.session.compaction import Compaction
    from edgemem.session.episodes import ToolEpisodes
    from edgemem.session.figures import TurnLog
    from edgemem.session.memory_block import MemoryBlock
    from edgemem.session.notes_block import NotesBlock
    from edgemem.session.prefetch import SessionPrefetch
    from edgemem.session.procedures import ProcedureProposals
    from edgemem.session.prompt import WindowBudget
    from edgemem.session.results import ToolResults
    from edgemem.session.upkeep import StateKeeping, UpkeepHold


@dataclass
class Parts:
    """The parts of one session."""

    session: StoredSession = field(default_factory=StoredSession)
    head: PromptHead = field(default_factory=PromptHead)
    memory: MemoryBlock | None = None
    notes: NotesBlock | None = None
    procedures: ProcedureProposals | None = None
    compaction: Compaction | None = None
    budget: WindowBudget | None = None
    results: ToolResults | None = None
    episodes: ToolEpisodes | None = None
    prefetch: SessionPrefetch | None = None
    figures: TurnLog | None = None
    upkeep: UpkeepHold | None = None
    state: StateKeeping | None = None
