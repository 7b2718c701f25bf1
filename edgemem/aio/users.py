"""Users: what agents of Cognitia keep of each user, in our one store.

A user is a speaker, and a topic a session: records stored here are recalled, closed, forgotten and exported like everything
else. `docs/cognitia.md` lists what differs from the package, and why.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeVar

from edgemem.aio.protocols import GoalState, MemoryMessage, PhaseState, ToolEvent, UserProfile
from edgemem.aio.worker import Face, asynchronous
from edgemem.errors import InvalidInputError
from edgemem.fence import check_key
from edgemem.records import Heard
from edgemem.scopes import scope_of
from edgemem.store import messages, users
from edgemem.store.episodes import TOOL_CALL, call_record
from edgemem.store.facts import TRUST, UNKNOWN
from edgemem.store.validation import NULL, checked_count, checked_text

if TYPE_CHECKING:
    from edgemem.memory.memory import Memory
    from edgemem.records import StoredMessage
    from edgemem.scopes import Level
    from edgemem.store.erase.eraser import Eraser
    from edgemem.store.memory_store import SQLiteMemoryStore

T = TypeVar("T")

_FIELDS = ("name", "tool_calls", "metadata", "content_blocks")


class UserMemory:
    """The records of users in one database; `level` tells who may read messages."""

    def __init__(
        self, store: SQLiteMemoryStore, eraser: Eraser, *, level: Callable[[], Level] = lambda: "household"
    ) -> None:
        self._store, self._database = store, store.database
        self._eraser, self._level = eraser, level

    @classmethod
    def in_home(cls, memory: Memory) -> UserMemory:
        """Return that of an open home."""
        level = lambda: memory.profile.memory.default_level  # noqa: E731
        return cls(memory.store, memory.diagnostics.eraser, level=level)

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
        _check_json(extra, "A message")
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
        check_key(user_id, what="a user")
        trust, value = TRUST.get(source, UNKNOWN), NULL if value is None else value
        self._store.add_fact(key, value, scope=scope_of(user_id), topic=topic_id, source=source, trust=trust)

    def get_facts(self, user_id: str, topic_id: str | None = None) -> dict[str, Any]:
        """Return the believed facts; a topic's replace those without a topic."""
        return self._store.user_facts(scope_of(user_id), topic=topic_id or None)

    def save_goal(self, user_id: str, goal: GoalState) -> None:
        """Store a goal in place of the one with its id."""
        data = vars(_checked(goal, GoalState)).copy()
        name, title = data.pop("goal_id"), data.pop("title")
        self._database.write(lambda tx: users.put_goal(tx, user_id, name, title, data))

    def get_active_goal(self, user_id: str, topic_id: str) -> GoalState | None:
        """Return the goal whose id is that of the topic."""
        for goal in users.read_goals(self._database, person=user_id, name=topic_id):
            # One that was taken over may be over, and has more fields.
            if goal.data.get("status", "active") == "active":
                data = {field: goal.data[field] for field in goal.data.keys() & vars(GoalState("", ""))}
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
        _check_json(payload, "a tool event")
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


def _checked(record: T, kind: type[T]) -> T:
    if isinstance(record, kind):
        return record
    raise InvalidInputError(f"This must be a {kind.__name__}, not {type(record).__name__}.")


def _check_json(value: Any, what: str) -> None:
    """Raise InvalidInputError where a value would not come back from JSON as it is."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"{what} holds something that JSON cannot: {error}.") from error


def _message(stored: StoredMessage) -> MemoryMessage:
    name, *more = (stored.extra.get(field) for field in _FIELDS)
    return MemoryMessage(stored.role, stored.content or "", name, *more)


class AsyncUserMemory(Face[UserMemory]):
    """All that is kept of users, for programs that run on an event loop: it is each of the eight stores."""

    save_message = asynchronous(UserMemory.save_message, lane="store")
    get_messages = asynchronous(UserMemory.get_messages, lane="store")
    count_messages = asynchronous(UserMemory.count_messages, lane="store")
    delete_messages_before = asynchronous(UserMemory.delete_messages_before, lane="long")
    upsert_fact = asynchronous(UserMemory.upsert_fact, lane="store")
    get_facts = asynchronous(UserMemory.get_facts, lane="store")
    save_goal = asynchronous(UserMemory.save_goal, lane="store")
    get_active_goal = asynchronous(UserMemory.get_active_goal, lane="store")
    save_summary = asynchronous(UserMemory.save_summary, lane="store")
    get_summary = asynchronous(UserMemory.get_summary, lane="store")
    ensure_user = asynchronous(UserMemory.ensure_user, lane="store")
    get_user_profile = asynchronous(UserMemory.get_user_profile, lane="store")
    save_session_state = asynchronous(UserMemory.save_session_state, lane="store")
    get_session_state = asynchronous(UserMemory.get_session_state, lane="store")
    save_phase_state = asynchronous(UserMemory.save_phase_state, lane="store")
    get_phase_state = asynchronous(UserMemory.get_phase_state, lane="store")
    save_tool_event = asynchronous(UserMemory.save_tool_event, lane="store")
