"""The run that an agent's run is a part of: EdgeVox's workflows and handoffs run several agents for one utterance.

EdgeVox tells a hook nothing of them, so the stack of the thread is read: the outermost frame that runs agents is the run of
what was said. One agent alone ends with its own run, others with the event that EdgeVox sends at their end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

_AGENTS = "edgevox.agents."
_RUNS = frozenset(("run", "_run_child", "body", "run_one"))
"""Functions of EdgeVox in which agents run: its own, and those that it hands to other threads."""
_SILENT = frozenset(("Retry", "Timeout"))
"""Workflows of one agent, which send no event at their end."""


class OuterRun:
    """One run of what somebody said, as seen from an agent's run within it."""

    def __init__(self, frame: FrameType, depth: int) -> None:
        """Look at a run.

        Args:
            frame: of the outermost run.
            depth: how many runs there are within it; 0: it is the agent's own.
        """
        self.frame, self.depth = frame, depth
        self.ctx: Any = frame.f_locals["ctx"]
        workflow = frame.f_locals.get("self")
        self.name = "" if workflow is None else str(workflow.name)
        """The name in its event; empty: that of none of its agents."""
        self.is_silent = type(workflow).__name__ in _SILENT
        self.agents: set[str] = set()
        self.stop: Callable[[], None] = lambda: None
        """Stops listening for its end."""

    def holds(self, other: OuterRun) -> bool:
        """Tell whether another run is a part of this one."""
        beside = not self.name and not other.name and self.ctx is other.ctx  # in threads of one workflow
        return other.depth > 0 and (self.frame is other.frame or beside)

    def listen(self, close: Callable[[str], None]) -> None:
        """Call `close` with the reply when the run is over."""

        def follow(event: Any) -> None:
            is_other = event.agent_name not in self.agents if not self.name else event.agent_name == self.name
            if event.kind == "agent_end" and is_other:
                self.stop()
                close(str(event.payload.get("reply") or "") if isinstance(event.payload, dict) else "")

        self.stop = self.ctx.bus.subscribe_all(follow)


def outer_run() -> OuterRun | None:
    """Return the outermost run of EdgeVox in this thread; None where it runs none."""
    frame: FrameType | None = sys._getframe(1)
    outermost, depth = None, -1
    while frame is not None:
        if frame.f_code.co_name in _RUNS and str(frame.f_globals.get("__name__", "")).startswith(_AGENTS):
            outermost, depth = frame, depth + 1
        frame = frame.f_back
    return None if outermost is None else OuterRun(outermost, depth)
