"""EpisodeLoggerHook: remembers what each tool did and how it went."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from edgemem.context.level import values_in
from edgemem.fence import storable
from edgemem.hooks.arguments import attachable, given_store, needs
from edgemem.hooks.conversation import Conversation, conversation_of
from edgemem.hooks.points import AFTER_TOOL, ON_ABORT, ON_RUN_END, ON_RUN_START, HookResult
from edgemem.records import MEMORY_TOOLS
from edgemem.store.later import Later, settled
from edgemem.store.protocols import LevelledStore

if TYPE_CHECKING:
    from edgemem.store.protocols import MemoryStore

RESULT_CHARS = 500
"""A longer result or argument is cut in the episode; the session keeps the whole of it."""

MOST_ARGUMENTS = 16
"""Arguments that an episode keeps; with their longest names and values they stay below what a payload may have."""

NAME_CHARS = 64


class EpisodeLoggerHook:
    """Log the outcome of every tool call; in the turn's own transaction where the session is kept in SQLite.

    A store that writes later is told to write when the turn ends. A store that cannot be written now keeps no turn
    waiting: its episodes are written as soon as that is possible.
    """

    points = frozenset({ON_RUN_START, AFTER_TOOL, ON_RUN_END, ON_ABORT})
    priority = 0
    __repr__ = attachable

    def __init__(
        self,
        store: MemoryStore | None = None,
        agent_name: str = "",
        *,
        memory_store: MemoryStore | None = None,
        speaker: str | None = None,
        conversation: Conversation | None = None,
    ) -> None:
        """Make the hook; `memory_store` is `store`, as EdgeVox calls it."""
        store = given_store(self, store, memory_store)
        needs(self, store, "add_episode", what="a memory store")
        self.store: MemoryStore = store
        self.agent_name = agent_name
        self.speaker = speaker
        self._conversation = conversation
        self._later = Later(store)

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Keep the outcome of one call; at the end of the turn, all that the store has not written yet."""
        conversation = conversation_of(ctx, self._conversation)
        if point == ON_RUN_START:
            # Who speaks, and whether it is private, decides who may read of it.
            conversation.begin(ctx, payload, speaker=self.speaker, by=self)
            return None
        database = getattr(self.store, "database", None)
        joined = database is not None and database is getattr(conversation.journal, "database", None)
        if point != AFTER_TOOL:
            conversation.end(point, ctx)
            if not joined:
                self._later.retry()
                settled(self._later.flush(), conversation.commit_wait_s)
            return None
        name = self.agent_name or getattr(ctx, "agent_name", None) or ""
        if payload.name in MEMORY_TOOLS:  # what they did is a fact already, and need not be an episode too
            return None
        outcome = "ok" if payload.error is None else "failed"
        record = {"name": payload.name[:NAME_CHARS], "args": _short_arguments(payload.arguments)}
        if payload.error is None:
            record["result"] = _short(payload.result)
        else:
            record["error"] = _short(payload.error)
        turn = conversation.layout.running
        if turn is not None and not turn.messages:  # no other hook has looked at what was said
            conversation.layout.take(ctx.session.messages)
        given = values_in(payload.arguments)
        level, owner = conversation.layout.level_of(turn, *given) if turn is not None else ("household", None)
        if level == "private" and owner is None:
            return None  # an unknown voice in private: no store keeps what nobody could ever be told
        heard = turn.heard if turn is not None else None
        if joined:
            from edgemem.store.turn_steps import AddEpisode

            agent, keep = name, getattr(self.store, "max_episodes", 500)
            conversation.also.append(
                AddEpisode(
                    "tool_call",
                    record,
                    outcome,
                    agent=agent,
                    heard=heard,
                    level=level,
                    owner=owner,
                    keep=keep,
                )
            )
        elif isinstance(self.store, LevelledStore):
            more: dict[str, Any] = {"heard": heard, "level": level, "owner": owner}
            # Nobody waits for a disk here; what is waited for at the end of the turn has a bound.
            self._later.write(
                lambda: self.store.add_episode("tool_call", record, outcome, agent=name, **more)
            )
        elif level != "private":
            # Such a store shows an episode to the whole household.
            self.store.add_episode("tool_call", record, outcome, agent=name)
        return None


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = storable(text)
    return text if len(text) <= RESULT_CHARS else text[:RESULT_CHARS] + "…"


def _short_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with long values cut: a payload that is refused would take its turn with it."""
    kept: dict[str, Any] = {}
    for name, value in list(arguments.items())[:MOST_ARGUMENTS]:
        text = _short(value)
        kept[str(name)[:NAME_CHARS]] = value if len(text) <= RESULT_CHARS else text
    return kept
