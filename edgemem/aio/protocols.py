"""Protocols: what agents of Cognitia need of a memory, with its names, signatures and defaults."""

from __future__ import annotations

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
    ) -> None:
        """Store a message."""

    async def get_messages(self, user_id: str, topic_id: str, limit: int = 10) -> list[MemoryMessage]:
        """Return the newest messages, the oldest of them first."""

    async def count_messages(self, user_id: str, topic_id: str) -> int:
        """Return how many messages there are."""

    async def delete_messages_before(self, user_id: str, topic_id: str, keep_last: int = 10) -> int:
        """Erase all but the newest messages; return how many went."""


@runtime_checkable
class FactStore(Protocol):
    """Facts about users."""

    async def upsert_fact(
        self, user_id: str, key: str, value: Any, topic_id: str | None = None, source: str = "user"
    ) -> None:
        """Store a fact, unless the stored one comes from a source of more trust."""

    async def get_facts(self, user_id: str, topic_id: str | None = None) -> dict[str, Any]:
        """Return the believed facts; a topic's replace those without a topic."""


@runtime_checkable
class GoalStore(Protocol):
    """What users are after."""

    async def save_goal(self, user_id: str, goal: GoalState) -> None:
        """Store a goal in place of the one with its id."""

    async def get_active_goal(self, user_id: str, topic_id: str) -> GoalState | None:
        """Return the goal whose id is that of the topic."""


@runtime_checkable
class SummaryStore(Protocol):
    """Summaries of topics."""

    async def save_summary(self, user_id: str, topic_id: str, summary: str, messages_covered: int) -> None:
        """Store a topic's next summary."""

    async def get_summary(self, user_id: str, topic_id: str) -> str | None:
        """Return a topic's newest summary."""


@runtime_checkable
class UserStore(Protocol):
    """Users."""

    async def ensure_user(self, external_id: str) -> str:
        """Keep somebody among the users; return their name."""

    async def get_user_profile(self, user_id: str) -> UserProfile:
        """Return a user with the facts believed of them."""


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
    ) -> None:
        """Store the state of a topic in place of the one before."""

    async def get_session_state(self, user_id: str, topic_id: str) -> dict[str, Any] | None:
        """Return the state of a topic."""


@runtime_checkable
class PhaseStore(Protocol):
    """In which phases users are."""

    async def save_phase_state(self, user_id: str, phase: str, notes: str = "") -> None:
        """Store a user's phase in place of the one before."""

    async def get_phase_state(self, user_id: str) -> PhaseState | None:
        """Return a user's phase."""


@runtime_checkable
class ToolEventStore(Protocol):
    """Which tools ran."""

    async def save_tool_event(self, user_id: str, event: ToolEvent) -> None:
        """Store one run of a tool."""


@runtime_checkable
class SummaryGenerator(Protocol):
    """What makes a summary."""

    def summarize(self, messages: list[MemoryMessage]) -> str:
        """Return the summary of some messages, the oldest of which comes first."""


@runtime_checkable
class EpisodicMemory(Protocol):
    """What happened, to be found again."""

    async def store(self, episode: Episode) -> None:
        """Store an episode, in place of the one with its id."""

    async def recall(self, query: str, *, top_k: int = 5) -> list[Episode]:
        """Return the episodes that a text is about, best first."""

    async def recall_recent(self, n: int = 10) -> list[Episode]:
        """Return the newest episodes, newest first."""

    async def recall_by_tag(self, tag: str) -> list[Episode]:
        """Return all episodes with a tag."""

    async def count(self) -> int:
        """Return how many episodes are stored."""


@runtime_checkable
class MemoryBankProvider(Protocol):
    """The files of one user and topic."""

    async def read_file(self, path: str) -> str | None:
        """Return the text of a file; None: there is none."""

    async def write_file(self, path: str, content: str) -> None:
        """Write a file whole."""

    async def append_to_file(self, path: str, content: str) -> None:
        """Append a line to a file."""

    async def list_files(self, prefix: str = "") -> list[str]:
        """Return the paths that begin with a prefix."""

    async def delete_file(self, path: str) -> None:
        """Delete a file, if there is one."""


@runtime_checkable
class ProceduralMemory(Protocol):
    """How things are done."""

    async def store(self, procedure: Procedure) -> None:
        """Store a procedure, in place of the one with its id."""

    async def suggest(self, query: str, *, top_k: int = 3) -> list[Procedure]:
        """Return the procedures that fit a task, best first."""

    async def record_outcome(self, proc_id: str, *, success: bool) -> object:
        """Count a success or a failure."""

    async def get(self, proc_id: str) -> Procedure | None:
        """Return a procedure by its id."""

    async def count(self) -> int:
        """Return how many procedures are stored."""


@runtime_checkable
class MemoryProvider(
    MessageStore,
    FactStore,
    GoalStore,
    SummaryStore,
    UserStore,
    SessionStateStore,
    PhaseStore,
    ToolEventStore,
    Protocol,
):
    """All eight stores."""
