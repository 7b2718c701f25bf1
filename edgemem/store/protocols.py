"""What hooks and loops need of a store; any object with these methods will do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from edgemem.records import Episode, Fact, Preference, Session


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
        """Store a conversation; a part that is stored already costs nothing."""

    def load(self, id: str) -> Session | None:  # noqa: A002
        """Return a conversation, or None if there is none."""

    def delete(self, id: str) -> bool:  # noqa: A002
        """Erase a conversation; tell whether there was one."""

    def list_ids(self) -> list[str]:
        """Return the ids of all conversations."""


class Abilities(NamedTuple):
    """What a store may have or do beside its protocol, as stores of ours do; None: it does not."""

    database: Any
    flush: Callable[[], object] | None
    max_episodes: int | None
    facts_version: Callable[[], tuple[int, ...] | None] | None
    fact_history: Callable[..., list[Any]] | None
    read_values: Callable[..., dict[tuple[str, str], Any]] | None
    recall_facts: Callable[..., list[Any]] | None
    search_facts: Callable[..., list[Any]] | None
    embed_pending: Callable[..., int] | None
    never_aloud: Callable[[], Any] | None


def abilities_of(store: Any) -> Abilities:
    """Return what any store has or does beside its protocol."""
    return Abilities(*(getattr(store, name, None) for name in Abilities._fields))
