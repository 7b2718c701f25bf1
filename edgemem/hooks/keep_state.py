"""KeepStateHook: keeps what the model has evaluated, once a turn is over and its reply is being spoken."""

from __future__ import annotations

from typing import Any, Protocol

from edgemem.hooks.points import ON_RUN_END, HookResult


class Kept(Protocol):
    """The state of a model, kept over a reboot."""

    def work(self) -> bool:
        """Keep it if it is due; return whether anything was copied."""
        ...


class KeepStateHook:
    """Copy the state in the thread of the turn: no other may touch the model."""

    points = frozenset({ON_RUN_END})
    # After the commit, and before the figures of the turn are written.
    priority = -900

    def __init__(self, kept: Kept) -> None:
        self.kept = kept

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Work, unless the turn was cut off: whoever did that is speaking."""
        if not getattr(payload, "interrupted", False):
            self.kept.work()
        return None
