"""An opened home: its files and models, and what works on them beside the turns; closed in the opposite order.

`Memory` adds what a program asks of it. `health` and `session` are handed this object, so they need not know `Memory`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.clock import Clock
from edgemem.config import Profile, Settings
from edgemem.errors import ClosedError, EdgememError
from edgemem.hooks.registry import FailureLog
from edgemem.hooks.turn_log import FigureFile
from edgemem.llama.tokens.estimate import EstimateTokenizer
from edgemem.memory.files import OpenFiles
from edgemem.memory.home import make_home, profile_file, profile_of
from edgemem.memory.idle import AGAIN_S, IdleWorker, Step, Stop
from edgemem.memory.reload import Reload
from edgemem.recall.index.sources import notes_stamp
from edgemem.recall.prefetch import Prefetch

if TYPE_CHECKING:
    from edgemem.llama.protocols import Embedder, Reranker, Tokenizer

INDEX_WAIT_S = 600.0
"""Seconds after which rows are indexed even if they are few, so that their meaning is found as well."""

_ERASE_AGAIN_S = 2.0
"""Seconds until an erasing that somebody's reading keeps from its end is tried again."""

_log = logging.getLogger("edgemem.idle")


class OpenHome(OpenFiles):
    """Opens a home directory, wires every floor below, and closes it again."""

    upkeep: Upkeep

    def __init__(
        self,
        home: str | Path,
        *,
        profile: Profile | str | Path | None = None,
        embedder: Embedder | None = None,
        reranker: Reranker | None = None,
        tokenizer: Tokenizer | None = None,
        clock: Clock | None = None,
        worker: bool = True,
        watch: bool | None = None,
        restore: str | None = None,
    ) -> None:
        self.closed = True
        self._process = os.getpid()
        path = make_home(Path(home).expanduser().absolute())
        self.tokenizer: Tokenizer = tokenizer or EstimateTokenizer()
        with ExitStack() as opened:  # what was opened when something behind it could not be is closed again
            super().__init__(
                opened,
                path,
                Settings(profile_of(path, profile)),
                embedder=embedder,
                reranker=reranker,
                clock=clock or Clock(),
                restore=restore,
            )
            self._begin_work(opened, profile_file(self.home, profile))
            self._opened = opened.pop_all()
        self.closed = False
        if worker:
            self.upkeep.start()
        if worker if watch is None else watch:
            self.reload.watcher.start()

    def _begin_work(self, opened: ExitStack, source: Path | None) -> None:
        """Make what works beside the turns: early recall, logs, upkeep, and what follows the home's files."""
        self.failures = FailureLog(self.home / "db" / "failures.json")
        self.figures = FigureFile(self.home / "db" / "turn.json")
        opened.callback(lambda: self.figures.write(at_once=True))
        self.upkeep = Upkeep(self, self.figures, renew=self._renew_all)
        opened.callback(self.upkeep.close)
        self.reload = Reload(self, source=source)
        opened.callback(self.reload.close)
        self.prefetch = Prefetch(
            self.search.recall,
            stamp=lambda: (self.database.version(), notes_stamp(self.notes), self.profile, self.embedder),
            late=lambda: self.search.last.late,
            warm=self.preload,
            share=lambda: self.settings.now.recall.ahead_share,
            now=self.clock.now,
        )
        opened.callback(self.prefetch.close)
        opened.callback(self._close_states)

    def _close_states(self) -> None:
        """Write what is to be kept of the models that are open."""
        for kept in self.diagnostics.kept_states():
            kept.close()

    def pending(self) -> dict[str, int]:
        """Return what idle time has still to do, by kind."""
        self._check_open()
        return self.search.pending()

    def erasing(self) -> dict[str, str]:
        """Return the files that still hold bytes of what was forgotten, and why; idle time goes on with them."""
        self._check_open()
        return self.eraser.pending()

    def renew(self) -> Profile:
        """Take settings that were changed in the profile's file, if they were; return those that hold now."""
        changed = self.reload.take_profile()
        if changed is not None:
            self.settings.now = changed
        return self.profile

    def _renew_all(self) -> bool:
        """Take what came or was changed in the home's files; return whether there was any."""
        before, embedder = self.profile, self.reload.take_embedder()
        self.renew()
        if embedder is not None:
            self.adopt(embedder)
        return embedder is not None or self.profile is not before

    def close(self) -> None:
        """Finish what is queued and close everything; a second call does nothing."""
        if self.closed:
            return
        self.closed = True
        if os.getpid() == self._process:
            self._opened.close()
            return
        # A forked child has no threads, and the files are its parent's.
        for file in (self.sessions, self.index.database, self.database):
            file.close()

    def _check_open(self) -> None:
        """Raise ClosedError once it is closed."""
        if self.closed:
            raise ClosedError("This memory is closed; open the home again with edgemem.open().")


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
            "warm": files.preload,
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
