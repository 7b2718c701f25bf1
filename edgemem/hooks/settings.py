"""SettingsHook: lets a session take changed settings when a turn begins, and never within one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgemem.config import Profile
from edgemem.hooks.points import ON_RUN_START, HookResult


class SettingsHook:
    """Hold the profile of the running turn, and hand a new one to the session's other hooks."""

    points = frozenset({ON_RUN_START})
    # Before every hook that reads a setting.
    priority = 95

    def __init__(
        self, profile: Profile, *, newest: Callable[[], Profile], apply: Callable[[Profile], None]
    ) -> None:
        """Make the hook.

        Args:
            profile: what the other hooks were made with.
            newest: returns the profile that holds now.
            apply: gives the other hooks their new numbers.
        """
        self.profile = profile
        self._newest = newest
        self._apply = apply

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Compare, and apply what is new."""
        newest = self._newest()
        if newest is not self.profile:
            self.profile = newest
            self._apply(newest)
        return None
