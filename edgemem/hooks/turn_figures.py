"""Figures of a turn: numbers only, so that they may be logged and kept; the newest stand in a file for `edgemem stats`."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)


class TurnFigures(msgspec.Struct, frozen=True):
    """What one turn took. No field may ever hold a word that was said, stored or shown, nor anybody's name."""

    at: float
    """When it ended, in seconds since the epoch by the robot's clock."""
    turn: int
    """Its number in its session."""
    hops: int = 0
    recall_ms: float = 0.0
    """Finding, the embedding of the question included."""
    embed_ms: float = 0.0
    hooks_ms: float = 0.0
    """All hooks between the end of the utterance and the first call of the model."""
    model_ms: float = 0.0
    commit_ms: float = 0.0
    """All hooks at the end of the turn, the commit among them."""
    new_tokens: int = 0
    """Tokens of all hops' prompts that the model had to evaluate."""
    reused_tokens: int = 0
    """Tokens of them that it had evaluated before."""
    counted: bool = False
    """Whether the model told these two; otherwise they are a quarter of the texts' bytes."""
    block_tokens: int = 0
    """Of the memory block: as its budget counted it, with 12 for the tags, and of notes a quarter of their bytes."""
    candidates: int = 0
    """What recall weighed."""
    late: bool = False
    """Whether recall's deadline cut something off."""
    interrupted: bool = False
    failed: bool = False
    session: int = 0
    """Which conversation it was of: `named` of its id; 0: one that is not kept, of an agent within another's tool."""
    agent: int = 0
    """Whose turn it was: `named` of the agent's name; 0: it has none."""
    heard_early: int = 0
    """Turns of this process until then whose sentence was heard before its end."""
    ready_early: int = 0
    """Those of them for which nothing was left to recall at its end."""


def named(name: str) -> int:
    """Return the number that stands for a name in figures: its CRC-32, so the same in every run."""
    return crc32(name.encode(errors="replace"))


class FigureFile:
    """The figures of the newest turn, for a process that looks from outside."""

    def __init__(self, path: Path, *, every_s: float = 60.0, now: Callable[[], float] = monotonic) -> None:
        """Name the file; nothing is written yet.

        Args:
            every_s: at most one write in this many seconds, to spare the card.
            now: seconds since some moment, never running backwards.
        """
        self.path = path
        self._every_s = every_s
        self._now = now
        self._newest: TurnFigures | None = None
        self._written: TurnFigures | None = None
        self._written_at: float | None = None

    def note(self, figures: TurnFigures) -> None:
        """Take the figures of a turn, without touching the disk."""
        self._newest = figures

    def write(self, *, at_once: bool = False) -> bool:
        """Write what is new, unless that was done a moment ago; return whether anything was written."""
        newest = self._newest
        if newest is None or newest is self._written:
            return False
        recent = self._written_at is not None and self._now() - self._written_at < self._every_s
        if recent and not at_once:
            return False
        self._written, self._written_at = newest, self._now()
        part = self.path.with_suffix(".part")
        try:
            part.write_bytes(msgspec.json.encode(newest))
            part.chmod(0o600)
            part.replace(self.path)
        except OSError as error:
            # They are for looking only: a full disk must not count as failed upkeep for their sake.
            _log.warning("The figures of the newest turn could not be kept: %s", error.strerror)
            with suppress(OSError):
                part.unlink(missing_ok=True)
            return False
        return True

    def read(self) -> TurnFigures | None:
        """Return the newest figures that any process has written; None if there are none."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=TurnFigures)
        except (FileNotFoundError, msgspec.DecodeError):
            return None
