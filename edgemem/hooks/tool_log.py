"""ToolLogHook: keeps which tools ran in a turn, how they did and how long they took, and an episode of that turn."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from edgemem.fence import storable
from edgemem.hooks.conversation import Conversation, conversation_of
from edgemem.hooks.points import AFTER_TOOL, BEFORE_TOOL, SecondPlace, TurnContext, attachable
from edgemem.records import as_ours
from edgemem.store.tool_events import ToolRun
from edgemem.store.turn_steps import KeepTools

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.store.memory_store import SQLiteMemoryStore

NAME_CHARS = 64


class ToolLogHook:
    """Have the calls of tools written in the turn's own transaction, where the session is kept in the store's file.

    It acts last before a tool and first after it, so that the time between is the tool's own.
    """

    points = frozenset({BEFORE_TOOL})
    priority = -1000
    __repr__ = attachable

    def __init__(
        self,
        store: SQLiteMemoryStore,
        agent_name: str = "",
        *,
        conversation: Conversation | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Make the hook.

        Args:
            agent_name: whose episodes these are; empty: the loop's own name.
            clock: seconds since some moment, never running backwards.
        """
        self.store = store
        self.agent_name = agent_name
        self._conversation = conversation
        self._clock = clock
        self._lock = threading.Lock()

    @property
    def second_place(self) -> SecondPlace:
        """Return the hook's second place, where it takes the time at which a tool has ended."""
        return SecondPlace(frozenset({AFTER_TOOL}), 1000, self._ended)

    def __call__(self, point: str, ctx: Any, payload: Any) -> None:
        """Take the time at which a tool begins."""
        self._begun(ctx)[_call(payload)] = self._clock()

    def _begun(self, ctx: Any) -> dict[str, float]:
        begun: dict[str, float] = ctx.hook_state.setdefault(id(self), {})
        return begun

    def _ended(self, point: str, ctx: Any, payload: Any) -> None:
        now, begun = self._clock(), self._begun(ctx).pop(_call(payload), None)
        conversation = conversation_of(ctx, self._conversation)
        if not conversation.is_kept_in(self.store.database):
            return
        latency = None if begun is None else round((now - begun) * 1e3, 1)
        run = ToolRun(storable(str(payload.name))[:NAME_CHARS], payload.error is None, latency)
        agent = self.agent_name or as_ours(ctx, TurnContext).agent_name or ""
        with self._lock:  # some frameworks run several tools at once, each in a thread
            step = next((step for step in conversation.also if isinstance(step, KeepTools)), None)
            if step is None:
                session, keep = conversation.prompt_log.session, self.store.max_episodes
                conversation.also.append(KeepTools(session, [run], agent, keep))
            else:
                step.runs.append(run)


def _call(payload: Any) -> str:
    """Return what tells a call from others that run now; frameworks without ids run both points in its thread."""
    return str(getattr(payload, "id", "") or threading.get_ident())
