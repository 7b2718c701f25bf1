"""Users: what agents of Cognitia keep of each user, and the episodes of their work, in our one store.

A user is a speaker, and a topic a session: records stored here are recalled, closed, forgotten and exported like everything
else. `docs/cognitia.md` lists what differs from the package, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeVar

from edgemem.errors import InvalidInputError
from edgemem.fence import check_key
from edgemem.learn.regularities import KIND, keep_regularities, readers_of
from edgemem.recall.recall import Request
from edgemem.records import LATEST, Heard
from edgemem.scopes import scope_of
from edgemem.store import messages, users
from edgemem.store.episodes import (
    MAX_PAYLOAD_BYTES,
    TOOL_CALL,
    call_record,
    count_episodes,
    find_episodes,
    happened_at,
)
from edgemem.store.facts import TRUST, UNKNOWN
from edgemem.store.validation import (
    MOST,
    NULL,
    checked_count,
    checked_object,
    checked_text,
    item_count,
    json_text,
    whole_number,
)
from edgemem.thoughts import scalar_part

if TYPE_CHECKING:
    from edgemem.learn.regularities import KIND, Regularity
    from edgemem.recall.recall import Recall
    from edgemem.records import Episode as StoredEpisode
    from edgemem.records import StoredMessage
    from edgemem.scopes import Level
    from edgemem.store.erase.eraser import Eraser
    from edgemem.store.memory_store import SQLiteMemoryStore

T = TypeVar("T")

_FIELDS = ("name", "tool_calls", "metadata", "content_blocks")
_MOST_COUNTED = 1000  # episodes at once: their edges are written in one transaction
_LEAST = 0.04  # how relevant an episode with none of the words must be, 0 to 1


@dataclass(frozen=True)
class MemoryMessage:
    """A message of a conversation."""

    role: str
    content: str
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    metadata: dict[str, Any] | None = None
    content_blocks: list[dict[str, Any]] | None = None


@dataclass
class UserProfile:
    """A user, with the facts believed of them outside of topics."""

    user_id: str
    facts: dict[str, Any] = field(default_factory=dict)
    created_at: str = ""
    """When `ensure_user` first had them, in ISO 8601 and UTC; empty where it never had."""


@dataclass
class GoalState:
    """What a user is after."""

    goal_id: str
    title: str
    target_amount: int | None = None
    current_amount: int = 0
    phase: str = ""
    plan: dict[str, Any] | None = None
    is_main: bool = False


@dataclass
class PhaseState:
    """In which phase a user is."""

    user_id: str
    phase: str = ""
    notes: str = ""


@dataclass(frozen=True)
class ToolEvent:
    """One run of a tool."""

    topic_id: str
    tool_name: str
    input_json: dict[str, Any] | None = None
    output_json: dict[str, Any] | None = None
    latency_ms: int = 0


@dataclass(frozen=True)
class Episode:
    """What happened while an agent worked."""

    id: str
    summary: str
    key_decisions: tuple[str, ...] = ()
    tools_used: tuple[str, ...] = ()
    outcome: str = "unknown"
    session_id: str = ""
    timestamp: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)


class UserMemory:
    """The records of users in one database; `level` tells who may read messages."""

    def __init__(
        self, store: SQLiteMemoryStore, eraser: Eraser, *, level: Callable[[], Level] = lambda: "household"
    ) -> None:
        self._store, self._database = store, store.database
        self._eraser, self._level = eraser, level

    def save_message(
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
        """Store a message, durably: one of the user begins a turn, and the next ones join it."""
        values = (name, tool_calls, metadata, content_blocks)
        extra = {field: value for field, value in zip(_FIELDS, values, strict=True) if value is not None}
        json_text(extra, "a message")
        text, level = checked_text(content, "the content of a message"), self._level()
        message = messages.stored_message({"role": role, "content": text, **extra})
        self._database.write(lambda tx: users.append_message(tx, topic_id, user_id, message, level=level))

    def get_messages(self, user_id: str, topic_id: str, limit: int = 10) -> list[MemoryMessage]:
        """Return the newest messages, the oldest of them first."""
        return [_message(stored) for stored in users.read_messages(self._database, topic_id, user_id, limit)]

    def count_messages(self, user_id: str, topic_id: str) -> int:
        """Return how many messages there are."""
        return users.count_messages(self._database, topic_id, user_id)

    def delete_messages_before(self, user_id: str, topic_id: str, keep_last: int = 10) -> int:
        """Erase all but the newest messages, from every file and index; return how many went."""
        return self._eraser.messages(topic_id, user_id, keep=checked_count(keep_last, "keep_last"))

    def upsert_fact(
        self, user_id: str, key: str, value: Any, topic_id: str | None = None, source: str = "user"
    ) -> None:
        """Store a fact; beside one of more trust it is a doubt, and not believed."""
        trust, value = TRUST.get(source, UNKNOWN), NULL if value is None else value
        self._store.add_fact(key, value, scope=_scope(user_id), topic=topic_id, source=source, trust=trust)

    def get_facts(self, user_id: str, topic_id: str | None = None) -> dict[str, Any]:
        """Return the believed facts; a topic's replace those without a topic."""
        return self._store.user_facts(_scope(user_id), topic=topic_id or None)

    def save_goal(self, user_id: str, goal: GoalState) -> None:
        """Store a goal in place of the one with its id."""
        data = vars(_checked(goal, GoalState)).copy()
        for amount in ("target_amount", "current_amount"):
            data[amount] = None if data[amount] is None else whole_number(data[amount], amount)
        name, title = data.pop("goal_id"), data.pop("title")
        self._database.write(lambda tx: users.put_goal(tx, user_id, name, title, data))

    def get_active_goal(self, user_id: str, topic_id: str) -> GoalState | None:
        """Return the goal whose id is that of the topic."""
        for goal in users.read_goals(self._database, person=user_id, name=topic_id):
            # One that was taken over may be over, and has more fields.
            if goal.data.get("status", "active") == "active":
                fields = goal.data.keys() & vars(GoalState("", ""))
                data = {field: goal.data[field] for field in fields if goal.data[field] is not None}
                return GoalState(goal.name, goal.title, **data)
        return None

    def save_summary(self, user_id: str, topic_id: str, summary: str, messages_covered: int) -> None:
        """Store a topic's next summary; no prompt that runs changes by it."""
        self._database.write(lambda tx: users.put_summary(tx, topic_id, user_id, summary, messages_covered))

    def get_summary(self, user_id: str, topic_id: str) -> str | None:
        """Return a topic's newest summary."""
        return users.read_summary(self._database, topic_id, user_id)

    def ensure_user(self, external_id: str) -> str:
        """Keep somebody among the users; return their name as it was first written."""
        return self._database.write(lambda tx: users.ensure_user(tx, external_id))

    def get_user_profile(self, user_id: str) -> UserProfile:
        """Return a user with the facts believed of them."""
        since = users.user_since(self._database, user_id)
        created = "" if since is None else datetime.fromtimestamp(since, timezone.utc).isoformat()
        return UserProfile(user_id, self.get_facts(user_id), created)

    def save_session_state(
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
        skills = list(active_skill_ids)
        state: dict[str, Any] = {"role_id": role_id, "active_skill_ids": skills, "prompt_hash": prompt_hash}
        state |= {"delegated_from": delegated_from, "delegation_turn_count": delegation_turn_count}
        state |= {"pending_delegation": pending_delegation, "delegation_summary": delegation_summary}
        self._database.write(lambda tx: users.put_state(tx, topic_id, user_id, state))

    def get_session_state(self, user_id: str, topic_id: str) -> dict[str, Any] | None:
        """Return the state of a topic."""
        return users.read_state(self._database, topic_id, user_id)

    def save_phase_state(self, user_id: str, phase: str, notes: str = "") -> None:
        """Store a user's phase in place of the one before."""
        self._database.write(lambda tx: users.put_phase(tx, user_id, phase, notes))

    def get_phase_state(self, user_id: str) -> PhaseState | None:
        """Return a user's phase."""
        stored = users.read_phase(self._database, user_id)
        return None if stored is None else PhaseState(user_id, *stored)

    def save_tool_event(self, user_id: str, event: ToolEvent) -> None:
        """Store one run of a tool with the topic's newest turn."""
        check_key(user_id, what="a user")
        check_key(_checked(event, ToolEvent).tool_name, what="the name of a tool")
        payload, outcome = call_record(event.tool_name, event.input_json, event.output_json)
        json_text(payload, "a tool event")
        self._store.add_episode(
            TOOL_CALL,
            payload,
            outcome,
            session=event.topic_id,
            turn=users.newest_turn(self._database, event.topic_id, user_id),
            heard=Heard(speaker=user_id),
            level=self._level(),
            latency_ms=event.latency_ms,
        )


def _scope(user_id: str) -> str:
    check_key(user_id, what="a user")
    return scope_of(user_id)


def _checked(record: T, kind: type[T]) -> T:
    if isinstance(record, kind):
        return record
    raise InvalidInputError(f"This must be a {kind.__name__}, not {type(record).__name__}.")


def _message(stored: StoredMessage) -> MemoryMessage:
    name, *more = (stored.extra.get(field) for field in _FIELDS)
    return MemoryMessage(stored.role, stored.content or "", name, *more)


class EpisodicMemory:
    """What an agent did, as Cognitia's records; `recall` finds it."""

    def __init__(self, store: SQLiteMemoryStore, recall: Recall) -> None:
        self._store, self._recall = store, recall

    def store(self, episode: Episode) -> None:
        """Store an episode, in place of the one with its id; a timestamp without a zone is of UTC."""
        at = _checked(_checked(episode, Episode).timestamp, datetime)
        check_key(episode.id, what="the id of an episode")
        moment = at if at.tzinfo else at.replace(tzinfo=timezone.utc)
        self._store.add_episode(
            KIND,
            checked_object(episode.metadata, "the metadata of an episode", MAX_PAYLOAD_BYTES),
            episode.outcome,
            name=episode.id,
            summary=episode.summary,
            decisions=episode.key_decisions,
            tools=episode.tools_used,
            tags=episode.tags,
            session=episode.session_id or None,
            heard=Heard(event_time=min(moment.timestamp(), LATEST)),
            metadata=scalar_part(episode.metadata),  # lists come back, and no filter asks for one
        )

    def recall(self, query: str, *, top_k: int = 5) -> list[Episode]:
        """Return the episodes that a text is about, best first; of several in the same words, the newest."""
        most = asked = item_count(top_k, "top_k")
        while True:  # what tools did is passed over
            items = self._recall.recall(query, Request(reader=None, k=asked, kinds={"episode"}))
            ids = [item.id for item in items if item.score >= _LEAST or "words" in item.why]
            stored = map(self._store.get_episode, ids)
            episodes = [_episode(row) for row in stored if row is not None and row.kind == KIND]
            if len(episodes) >= most or len(ids) < asked:
                return episodes[:most]
            asked *= 4

    def recall_recent(self, n: int = 10) -> list[Episode]:
        """Return the newest episodes, by when they happened, newest first."""
        return self._newest(n)

    def recall_by_tag(self, tag: str) -> list[Episode]:
        """Return all episodes with a tag, newest first."""
        return self._newest(MOST, tag)

    def by_readers(self, n: int) -> list[tuple[str, list[Episode]]]:
        """Return the newest episodes of each readership, by the scope of its facts; none that is never said aloud."""
        return [(scope, self._newest(n, readers=scope)) for scope in readers_of(self._store.database, KIND)]

    def keep_learnt(self, scope: str, found: Iterable[Regularity], *, kind: str) -> list[str]:
        """Keep what was found in the episodes of a readership, in place of what was; return what is news."""
        return self._store.database.write(lambda tx: keep_regularities(tx, scope, found, kind=kind))

    def _newest(self, n: int, tag: str | None = None, readers: str | None = None) -> list[Episode]:
        rows = find_episodes(self._store.database, tag=tag, n=n, kind=KIND, readers=readers)
        return [_episode(row) for row in rows]

    def count(self) -> int:
        """Return how many episodes are stored."""
        return count_episodes(self._store.database, KIND)


def _episode(row: StoredEpisode) -> Episode:
    at = datetime.fromtimestamp(happened_at(row), timezone.utc)
    what = row.summary, row.decisions, row.tools, row.outcome, row.session
    return Episode(row.name or row.id, *what, at, row.tags, row.payload)
