"""FailureLog: what hooks and upkeep failed at, kept in a file of the home until somebody looks."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

import msgspec

from edgemem.hooks.registry import HookFailure

_log = logging.getLogger("edgemem.health")


class FailureLog:
    """Keeps what hooks and upkeep failed at, for `edgemem check` in another process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[tuple[str, str], HookFailure] | None = None

    def note(self, failure: HookFailure) -> None:
        """Keep a failure; a frequent one is written ever more rarely, to spare the disk."""
        if failure.count & (failure.count - 1):
            return
        known = self._known if self._known is not None else {(f.hook, f.point): f for f in self.read()}
        known[failure.hook, failure.point] = failure
        self._known = known
        part = self.path.with_suffix(".part")
        try:
            part.write_bytes(msgspec.json.format(msgspec.json.encode(list(known.values()))))
            part.chmod(0o600)
            part.replace(self.path)
        except OSError as error:
            # Often the disk itself is what failed; the reply goes on, and the loop's registry has the failure too.
            _log.warning("A failure could not be kept in %s: %s", self.path, error.strerror)
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def read(self) -> list[HookFailure]:
        """Return what was kept."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=list[HookFailure])
        except (FileNotFoundError, msgspec.DecodeError):
            return []
