"""Upkeep: what idle time does for a memory, step by step, in the order in which the next turn needs it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from edgemem.errors import EdgememError
from edgemem.idle import AGAIN_S, IdleWorker, Step, Stop

if TYPE_CHECKING:
    from edgemem.config import IdleSettings
    from edgemem.hooks.turn_figures import FigureFile
    from edgemem.parts import Parts
    from edgemem.running import Running

_log = logging.getLogger(__name__)

_ERASE_AGAIN_S = 2.0
"""Seconds until an erasing that somebody's reading keeps from its end is tried again."""


class Upkeep:
    """The steps of a memory's upkeep, and the worker that runs them.

    Args:
        settings: returns those that hold now.
        renew: takes what was changed in the profile, and a model that came; returns whether there was any.
        give_way: stops what a step computes, because somebody speaks.
    """

    def __init__(
        self,
        parts: Parts,
        running: Running,
        figures: FigureFile,
        *,
        settings: Callable[[], IdleSettings],
        renew: Callable[[], bool],
        give_way: Callable[[], None],
    ) -> None:
        self._parts = parts
        self._figures = figures
        self._settings = settings
        self._renew = renew
        self._thorough = False
        self._eraser = parts.eraser
        self.worker = IdleWorker(
            (
                Step("settings", lambda stop: not stop() and self._renew()),
                Step("waiting turns", self._write_waiting),
                Step("erase", self._erase),
                Step("compact", running.compact),
                Step("index", self._catch_up),
                Step("embed new", self._embed_new),
                Step("embed", self._embed),
                Step("read ahead", running.read_ahead),
                Step("warm", parts.warm),
                Step("back up", parts.backups.work),
                Step("figures", lambda _stop: self._figures.write(at_once=self._thorough)),
            ),
            settle_s=settings().settle_s,
            on_hold=give_way,
        )

    def run(self, seconds: float, *, thorough: bool) -> bool:
        """Work now, for at most so long; return whether nothing is left to do.

        Args:
            thorough: also what the worker would let wait until there is more of it.
        """
        self._thorough = thorough
        try:
            return self.worker.run(seconds) and not self._eraser.pending()
        finally:
            self._thorough = False

    def close(self) -> None:
        """Stop the worker; what it has embedded goes into the index file, so that the next start need not do it again."""
        self.worker.close()
        try:
            self._parts.index.keep_new(self._settings().batch)
        except EdgememError as error:
            _log.warning("What was embedded last is embedded again at the next start: %s", error)

    def _write_waiting(self, stop: Stop) -> bool:
        return not stop() and self._parts.sessions.journal.outbox.retry(stop)

    def _erase(self, stop: Stop) -> bool:
        erased = not stop() and self._eraser.work(stop)
        # Whoever reads a file that must be emptied is gone soon.
        self.worker.again_s = _ERASE_AGAIN_S if self._eraser.left else AGAIN_S
        return erased

    def _catch_up(self, stop: Stop) -> bool:
        if stop():
            return False
        idle = self._settings()
        least = 0 if self._thorough else idle.index_rows
        return self._parts.index.catch_up(idle.batch, stop=stop, least=least, wait_s=idle.index_wait_s) > 0

    def _embed_new(self, stop: Stop) -> bool:
        return not stop() and self._parts.recall.embed_new(self._settings().embed_batch, stop=stop) > 0

    def _embed(self, stop: Stop) -> bool:
        return not stop() and self._parts.index.embed_pending(self._settings().embed_batch, stop=stop) > 0
