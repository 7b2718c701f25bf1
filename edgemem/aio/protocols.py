"""Protocols: what agents of Cognitia need of a memory, with its names, signatures and defaults."""

from __future__ import annotations

# ruff: noqa: D102 - what each method does is said where it is implemented, in `edgemem.memory.users`
from typing import Any, Protocol, runtime_checkable

from edgemem.memory.users import Episode, GoalState, MemoryMessage, PhaseState, ToolEvent, UserProfile
from edgemem.records import Procedure


@runtime_checkable
class MessageStore(Protocol):
    """Messages, by user and topic."""

    async def save_message(
        self,
        user_id: str,
        topic_id: str,
        role: str,
        content: str,
        tool_calls: list[dict[str, Any]] | None = None,
        *,
        name: str | None = None,
        metadata: dict[str, Any] | None = None,
        content_blocks: list[dict[str, Any]] | None = None,
    ) -> None: ...
    async def get_messages(self, user_id: str, topic_id: str, limit: int = 10) -> list[MemoryMessage]: ...
    async def count_messages(self, user_id: str, topic_id: str) -> int: ...
    async def delete_messages_before(self, user_id: str, topic_id: str, keep_last: int = 10) -> int: ...


@runtime_checkable
class FactStore(Protocol):
    """Facts about users."""

    async def upsert_fact(
        self, user_id: str, key: str, value: Any, topic_id: str | None = None, source: str = "user"
    ) -> None: ...
    async def get_facts(self, user_id: str, topic_id: str | None = None) -> dict[str, Any]: ...


@runtime_checkable
class GoalStore(Protocol):
    """What users are after."""

    async def save_goal(self, user_id: str, goal: GoalState) -> None: ...
    async def get_active_goal(self, user_id: str, topic_id: str) -> GoalState | None: ...


@runtime_checkable
class SummaryStore(Protocol):
    """Summaries of topics."""

    async def save_summary(
        self, user_id: str, topic_id: str, summary: str, messages_covered: int
    ) -> None: ...
    async def get_summary(self, user_id: str, topic_id: str) -> str | None: ...


@runtime_checkable
class UserStore(Protocol):
    """Users."""

    async def ensure_user(self, external_id: str) -> str: ...
    async def get_user_profile(self, user_id: str) -> UserProfile: ...


@runtime_checkable
class SessionStateStore(Protocol):
    """What an agent keeps of a topic."""

    async def save_session_state(
        self,
        user_id: str,
        topic_id: str,
        role_id: str,
        active_skill_ids: list[str],
        prompt_hash: str = "",
        *,
        delegated_from: str | None = None,
        delegation_turn_count: int = 0,
        pending_delegation: str | None = None,
        delegation_summary: str | None = None,
    ) -> None: ...
    async def get_session_state(self, user_id: str, topic_id: str) -> dict[str, Any] | None: ...


@runtime_checkable
class PhaseStore(Protocol):
    """In which phases users are."""

    async def save_phase_state(self, user_id: str, phase: str, notes: str = "") -> None: ...
    async def get_phase_state(self, user_id: str) -> PhaseState | None: ...


@runtime_checkable
class ToolEventStore(Protocol):
    """Which tools ran."""

    async def save_tool_event(self, user_id: str, event: ToolEvent) -> None: ...


@runtime_checkable
class SummaryGenerator(Protocol):
    """What makes a summary."""

    def summarize(self, messages: list[MemoryMessage]) -> str: ...


@runtime_checkable
class EpisodicMemory(Protocol):
    """What happened, to be found again."""

    async def store(self, episode: Episode) -> None: ...
    async def recall(self, query: str, *, top_k: int = 5) -> list[Episode]: ...
    async def recall_recent(self, n: int = 10) -> list[Episode]: ...
    async def recall_by_tag(self, tag: str) -> list[Episode]: ...
    async def count(self) -> int: ...


@runtime_checkable
class MemoryBankProvider(Protocol):
    """The files of one user and topic."""

    async def read_file(self, path: str) -> str | None: ...
    async def write_file(self, path: str, content: str) -> None: ...
    async def append_to_file(self, path: str, content: str) -> None: ...
    async def list_files(self, prefix: str = "") -> list[str]: ...
    async def delete_file(self, path: str) -> None: ...


@runtime_checkable
class ProceduralMemory(Protocol):
    """How things are done."""

    async def store(self, procedure: Procedure) -> None: ...
    async def suggest(self, query: str, *, top_k: int = 3) -> list[Procedure]: ...
    async def record_outcome(self, proc_id: str, *, success: bool) -> object: ...
    async def get(self, proc_id: str) -> Procedure | None: ...
    async def count(self) -> int: ...
