"""Hooks of the operator's own: a file named in the profile, loaded again when it was edited."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgemem.errors import ConfigError
from edgemem.hooks.loader import load
from edgemem.hooks.points import ON_RUN_START, POINTS, Hook, HookResult


class HookFile:
    """A Python file that defines `hook(memory)`, which returns the hook of one session.

    Args:
        path: loaded at once; raises ConfigError where that fails.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.version = 0
        self._make: Callable[[Any], object]
        self.load()

    def load(self) -> None:
        """Load the file, or, if that fails, go on with what was loaded before.

        Raises:
            ConfigError: the file is not there, fails, or defines no such function.
        """
        make = getattr(load(self.path), "hook", None)
        if not callable(make):
            raise ConfigError(f"{self.path} defines no function hook(memory); write one that returns a hook.")
        self._make = make
        self.version += 1

    def make(self, memory: Any) -> Hook:
        """Return a hook for a session of this memory."""
        hook = self._make(memory)
        unknown = sorted(set(getattr(hook, "points", ())) - POINTS)
        if not isinstance(hook, Hook) or not callable(hook) or unknown:
            wrong = f"names the unknown point {unknown[0]!r}" if unknown else "is no hook"
            raise ConfigError(
                f"What hook(memory) in {self.path} returns {wrong}; it needs points, priority and __call__."
            )
        return hook


class OwnHook:
    """The newest version of a file's hook for one session; a new one begins with a turn.

    Order and failing closed are those of the first version: a registry has sorted it in.
    """

    points = POINTS

    def __init__(self, file: HookFile, memory: Any) -> None:
        self.name = file.path.stem
        self._file = file
        self._memory = memory
        self._version = file.version
        self._hook = file.make(memory)
        self.priority = self._hook.priority
        self.fail_closed = bool(getattr(self._hook, "fail_closed", False))

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Act as the file's hook does."""
        if point == ON_RUN_START and self._version != self._file.version:
            # Counted as taken before it is made: one that cannot be made is reported once, and the old one stays.
            self._version = self._file.version
            self._hook = self._file.make(self._memory)
        return self._hook(point, ctx, payload) if point in self._hook.points else None
