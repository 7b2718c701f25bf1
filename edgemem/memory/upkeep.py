"""The upkeep of one memory: what idle time does for it, most urgent first."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from edgemem.errors import EdgememError
from edgemem.memory.idle import AGAIN_S, IdleWorker, Step, Stop

if TYPE_CHECKING:
    from edgemem.hooks.turn_log import FigureFile
    from edgemem.memory.files import OpenFiles

INDEX_WAIT_S = 600.0
"""Seconds after which rows are indexed even if they are few, so that their meaning is found as well."""

_ERASE_AGAIN_S = 2.0
"""Seconds until an erasing that somebody's reading keeps from its end is tried again."""

_log = logging.getLogger("edgemem.idle")


class Upkeep(IdleWorker):
    """The worker with the steps of one memory's upkeep."""

    def __init__(self, files: OpenFiles, figures: FigureFile, *, renew: Callable[[], bool]) -> None:
        """Make the worker; `renew` takes what came or was changed in the home's files, and returns whether there was any."""
        self._files = files
        self._thorough = False
        settings, search, index, eraser = files.settings, files.search, files.index, files.eraser

        def erase(stop: Stop) -> bool:
            erased = eraser.work(stop)
            # Whoever reads a file that must be emptied is gone soon.
            self.again_s = _ERASE_AGAIN_S if eraser.left else AGAIN_S
            return erased

        def catch_up(stop: Stop) -> bool:
            idle = settings.now.idle
            least = 0 if self._thorough else idle.index_rows
            return index.catch_up(idle.batch, stop=stop, least=least, wait_s=INDEX_WAIT_S) > 0

        def texts() -> int:
            """Return how many texts one step embeds: a query stops it, so this only bounds what is done again."""
            return min(16, max(4, settings.now.idle.batch // 4))

        steps: dict[str, Callable[[Stop], bool]] = {
            "settings": lambda _stop: renew(),
            "waiting turns": files.sessions.journal.retry,
            "erase": erase,
            "compact": lambda stop: any(hook.work(stop=stop) for hook in files.diagnostics.compactions()),
            "index": catch_up,
            "embed new": lambda stop: search.embed_new(texts(), stop=stop) > 0,
            "embed": lambda stop: index.embed_pending(texts(), stop=stop) > 0,
            "read ahead": lambda stop: any(hook.warm(stop=stop) for hook in files.diagnostics.compactions()),
            "warm": files.lay_in,
            "back up": files.backups.work,
            "figures": lambda _stop: figures.write(at_once=self._thorough),
        }
        super().__init__(
            [Step(name, run) for name, run in steps.items()],
            settle_s=lambda: settings.now.idle.settle_s,
            on_hold=files.give_way,
        )

    def run_all(self, seconds: float, *, thorough: bool) -> bool:
        """Work now, for at most so long; return whether nothing is left to do. `thorough`: also what the worker would let wait."""
        self._thorough = thorough
        try:
            return self.run(seconds) and not self._files.eraser.pending()
        finally:
            self._thorough = False

    def close(self) -> None:
        """Stop the worker; what it has embedded goes into the index file, so that the next start need not do it again."""
        super().close()
        try:
            self._files.index.keep_new(self._files.profile.idle.batch)
        except EdgememError as error:
            _log.warning("What was embedded last is embedded again at the next start: %s", error)
