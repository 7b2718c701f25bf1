"""What hooks and loops need of a store; any object with these methods will do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from edgemem.records import Episode, Fact, Preference, Session

    Ours = TypeVar("Ours", Fact, Preference, Episode)


@runtime_checkable
class MemoryStore(Protocol):
    """Lasting facts, preferences and episodes, as in the EdgeVox memory module."""

    def add_fact(self, key: str, value: str, *, scope: str = "global", source: str = "") -> None:
        """Store a value that holds from now on."""

    def get_fact(self, key: str, *, scope: str = "global") -> str | None:
        """Return the value that holds now."""

    def facts(self, *, scope: str | None = None) -> list[Fact]:
        """Return all facts that hold now."""

    def forget_fact(self, key: str, *, scope: str = "global") -> bool:
        """Erase a fact with its history."""

    def set_preference(self, key: str, value: str) -> None:
        """Store a preference."""

    def preferences(self) -> list[Preference]:
        """Return all preferences."""

    def add_episode(self, kind: str, payload: dict[str, Any], outcome: str, *, agent: str = "") -> None:
        """Store what the robot did, and how it ended."""

    def recent_episodes(self, n: int = 5, *, kind: str | None = None) -> list[Episode]:
        """Return the newest episodes, oldest of them first."""

    def render_for_prompt(self, *, max_facts: int = 20, max_episodes: int = 5) -> str:
        """Return facts, preferences and episodes as Markdown."""


@runtime_checkable
class SessionStore(Protocol):
    """Whole conversations by id."""

    def save(self, id: str, session: Session) -> None:  # noqa: A002 - a caller's keyword
        """Store a conversation; what is stored already costs nothing."""

    def load(self, id: str) -> Session | None:  # noqa: A002
        """Return a conversation, or None if there is none."""

    def delete(self, id: str) -> bool:  # noqa: A002
        """Erase a conversation; tell whether there was one."""

    def list_ids(self) -> list[str]:
        """Return the ids of all conversations."""


def as_ours(record: Any, kind: type[Ours]) -> Ours:
    """Return a record of any store as ours; what it does not know is as our record has it by default."""
    if isinstance(record, kind):
        return record
    known = {name: getattr(record, name) for name in kind.__struct_fields__ if hasattr(record, name)}
    return kind(**known)
