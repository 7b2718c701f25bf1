"""EpisodeLoggerHook: remembers what each tool did and how it went."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from edgemem.fence import storable
from edgemem.hooks.conversation import Conversation, conversation_of
from edgemem.hooks.points import AFTER_TOOL, ON_ABORT, ON_RUN_END, ON_RUN_START, HookResult
from edgemem.store.protocols import LevelledStore

if TYPE_CHECKING:
    from edgemem.store.protocols import MemoryStore

RESULT_CHARS = 500
"""A longer result or argument is cut in the episode; the session keeps the whole of it."""

MOST_ARGUMENTS = 16
"""Arguments that an episode keeps; with their longest names and values they stay below what a payload may have."""

NAME_CHARS = 64

MEMORY_TOOLS = frozenset({"remember_fact", "forget_fact", "recall_fact", "list_facts", "search_memory"})
"""Tools of the memory itself: what they did is a fact already, and need not be an episode too."""


class EpisodeLoggerHook:
    """Log the outcome of every tool call; in the turn's own transaction where the session is kept in SQLite.

    A store that writes later is told to write when the turn ends.
    """

    points = frozenset({ON_RUN_START, AFTER_TOOL, ON_RUN_END, ON_ABORT})
    priority = 0

    def __init__(
        self,
        store: MemoryStore,
        agent_name: str = "",
        *,
        speaker: str | None = None,
        conversation: Conversation | None = None,
    ) -> None:
        self.store = store
        self.agent_name = agent_name
        self.speaker = speaker
        self._conversation = conversation

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Keep the outcome of one call; at the end of the turn, all that the store has not written yet."""
        conversation = conversation_of(ctx, self._conversation)
        if point == ON_RUN_START:
            # Who speaks, and whether it is private, decides who may read of it.
            conversation.begin(ctx, payload, speaker=self.speaker)
            return None
        database = getattr(self.store, "database", None)
        joined = database is not None and database is getattr(conversation.journal, "database", None)
        if point != AFTER_TOOL:
            conversation.end(point, ctx)
            flush = getattr(self.store, "flush", None)
            if flush is not None and not joined:
                flush()
            return None
        if payload.name in MEMORY_TOOLS:
            return None
        outcome = "ok" if payload.error is None else "failed"
        record = {"name": payload.name[:NAME_CHARS], "args": _short_arguments(payload.arguments)}
        if payload.error is None:
            record["result"] = _short(payload.result)
        else:
            record["error"] = _short(payload.error)
        turn = conversation.layout.running
        level, owner = conversation.layout.level_of(turn) if turn is not None else (None, None)
        heard = turn.heard if turn is not None else None
        if joined:
            from edgemem.store.episodes import append_episode

            agent, keep = self.agent_name, getattr(self.store, "max_episodes", 500)
            conversation.also.append(
                lambda tx: append_episode(
                    tx,
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
            self.store.add_episode(
                "tool_call", record, outcome, agent=self.agent_name, heard=heard, level=level, owner=owner
            )
        elif level != "private":
            # Such a store shows an episode to the whole household.
            self.store.add_episode("tool_call", record, outcome, agent=self.agent_name)
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
