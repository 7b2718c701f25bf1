"""The extra hooks that an operator switches on.

One that cannot be made does not keep a robot from talking: it is left out, told in the log, and shown by `check`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.errors import StoreError
from edgemem.hooks.loader import LOADING
from edgemem.hooks.points import Hook
from edgemem.hooks.registry import HookFailure

if TYPE_CHECKING:
    from edgemem.clock import Clock
    from edgemem.config import HookSettings, Profile
    from edgemem.hooks.audit_log import AuditLogHook

AUDIT_BYTES = 1_000_000
"""Bytes of the audit log before a new file begins."""

AUDIT_FILES = 3
"""Older files of the audit log that are kept."""

log = logging.getLogger("edgemem.hooks")


class Extras:
    """The extra hooks of one home."""

    def __init__(self, home: Path, clock: Clock, *, note: Callable[[HookFailure], None]) -> None:
        """Make no hook yet. Relative paths mean files in the home; `note` keeps a failure for `check`."""
        self._home = home
        self._clock = clock
        self._note = note

    def hooks(self, profile: Profile) -> list[Hook]:
        """Return the hooks of one session."""
        settings, hooks = profile.hooks, list[Hook]()
        # Imported here: most robots need none of them.
        if settings.tool_retries:
            from edgemem.hooks.tool_retry import ToolErrorRetryHook

            hooks.append(ToolErrorRetryHook(settings.tool_retries))
        if profile.log.hooks:
            from edgemem.hooks.turn_log import TimingHook

            hooks.append(TimingHook(log=True))
        for path in self.logs(profile):
            hooks += self._audit_log(settings, path)
        return hooks

    def logs(self, profile: Profile) -> tuple[Path, ...]:
        """Return the files in which words of a person may stand."""
        name = profile.hooks.audit_log
        return (self._home / Path(name).expanduser(),) if name else ()

    def _audit_log(self, settings: HookSettings, path: Path) -> list[AuditLogHook]:
        from edgemem.hooks.audit_log import AuditLogHook

        try:
            return [
                AuditLogHook(
                    path,
                    max_bytes=AUDIT_BYTES,
                    keep=AUDIT_FILES,
                    text=None if settings.audit_text == "none" else settings.audit_text,
                    clock=self._clock,
                )
            ]
        except StoreError as error:
            log.warning("%s Turns are not written to it.", error)
            self._note(HookFailure("AuditLogHook", LOADING, 1, str(error)))
            return []
