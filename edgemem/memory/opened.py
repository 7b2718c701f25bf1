"""An opened home: files, models, settings and upkeep, wired once; `Memory` adds what a program asks of it.

`health`, `session` and `tools` are handed this object, so they need not know `Memory`.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.clock import Clock
from edgemem.config import Profile, Settings
from edgemem.errors import ClosedError
from edgemem.hooks.registry import FailureLog
from edgemem.hooks.turn_log import FigureFile
from edgemem.llama.tokens.estimate import EstimateTokenizer
from edgemem.memory.extras import Extras
from edgemem.memory.home import make_home, profile_file, profile_of
from edgemem.memory.idle import Upkeep
from edgemem.memory.parts import Parts, SmallModels
from edgemem.memory.reload import Reload
from edgemem.memory.running import Running
from edgemem.recall.index.sources import notes_stamp
from edgemem.recall.prefetch import Prefetch
from edgemem.records import Reader

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edgemem.context.budget import Budget
    from edgemem.context.compaction.extractive import Summarizer
    from edgemem.llama.protocols import Embedder, Reranker, Tokenizer
    from edgemem.llama.state import KeptState
    from edgemem.llama.warm_prefix import WarmPrefix
    from edgemem.memory.idle import IdleFailure
    from edgemem.recall.rank.gate import Fit, Utterance
    from edgemem.recall.rank.replacing import Messages
    from edgemem.recall.search.search import RecallStats


class OpenHome:
    """Opens a home directory, wires every floor below, and closes it again."""

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
        self.home = make_home(Path(home).expanduser().absolute())
        self.settings = Settings(profile_of(self.home, profile))
        """The settings that hold now; what reads them has an edit of the profile at once."""
        self.clock = clock or Clock()
        self.tokenizer: Tokenizer = tokenizer or EstimateTokenizer()
        with ExitStack() as opened:  # what was opened when something behind it could not be
            self._models = models = SmallModels(self.home, self.profile, embedder=embedder, reranker=reranker)
            opened.callback(models.close)
            self._running = Running()
            self._parts = parts = Parts(
                self.home,
                self.settings,
                models,
                running=self._running,
                wake=self._wake,
                clock=self.clock,
                restore=restore,
            )
            opened.callback(parts.close)
            self.reload = Reload(
                self.home,
                self.profile,
                source=profile_file(self.home, profile),
                notes=parts.notes.path,
                embedder=models.embedder,
                open_embedder=models.open_embedder,
                wake=self._wake,
            )
            opened.pop_all()
        self.database, self.backups, self.truth = parts.database, parts.backups, parts.truth
        self.store, self.sessions, self.notes = parts.store, parts.sessions, parts.notes
        self.index = parts.index
        self.ahead = Prefetch(
            parts.recall.recall,
            stamp=self._stamp,
            late=lambda: parts.recall.last.late,
            warm=parts.warm,
            share=lambda: self.settings.now.recall.ahead_share,
            now=self.clock.now,
        )
        self.failures = FailureLog(self.home / "db" / "failures.json")
        self.figures = FigureFile(self.home / "db" / "turn.json")
        self._extras = Extras(self.home, self.clock, note=self.failures.note)
        self._upkeep = Upkeep(
            parts,
            self._running,
            self.figures,
            settings=self.settings,
            renew=self._renew,
            give_way=self._give_way,
        )
        self.diagnostics = Diagnostics(parts, self._running, self._upkeep)
        self.closed = False
        self._process = os.getpid()
        if worker:
            self._upkeep.worker.start()
        if worker if watch is None else watch:
            self.reload.watcher.start()

    @property
    def profile(self) -> Profile:
        """Return the profile that holds now."""
        return self.settings.now

    @property
    def embedder(self) -> Embedder | None:
        """Return the model that finds meaning; None: there is none."""
        return self._models.embedder

    @property
    def embedder_fault(self) -> str:
        """Return why the embedder could not be opened although it is there; empty if nothing is wrong."""
        return self._models.embedder_fault

    @property
    def reranker(self) -> Reranker | None:
        """Return the model that puts in order what was found; None: there is none."""
        return self._models.reranker

    @property
    def reranker_fault(self) -> str:
        """Return why the reranker that the profile names could not be opened; empty if nothing is wrong."""
        return self._models.reranker_fault

    @property
    def index_fault(self) -> str:
        """Return why the index stands in memory, for this process alone; empty if nothing is wrong."""
        return self._parts.index_fault

    def last_recall(self) -> RecallStats:
        """Return how the newest recall went."""
        return self._parts.recall.last

    def pending(self) -> dict[str, int]:
        """Return what idle time has still to do, by kind."""
        self._check_open()
        return self._parts.recall.pending()

    def erasing(self) -> dict[str, str]:
        """Return the files that still hold bytes of what was forgotten, and why; idle time goes on with them."""
        self._check_open()
        return self._parts.eraser.pending()

    def renew(self) -> Profile:
        """Take settings that were changed in the profile's file, if they were; return those that hold now."""
        changed = self.reload.take_profile()
        if changed is not None:
            self.settings.now = changed
        return self.profile

    def _check_open(self) -> None:
        """Raise ClosedError once it is closed."""
        if self.closed:
            raise ClosedError("This memory is closed; open the home again with edgemem.open().")

    def close(self) -> None:
        """Finish what is queued and close everything; a second call does nothing."""
        if self.closed:
            return
        if os.getpid() != self._process:
            # A forked child has no threads, and the files are its parent's.
            self.closed = True
            for opened in (self.sessions, self.index.database, self.database):
                opened.close()
            return
        self._running.close()
        self.closed = True
        self.ahead.close()
        self.reload.close()
        self._upkeep.close()
        self.figures.write(at_once=True)
        try:
            self._parts.close()
        finally:
            self._models.close()

    def _stamp(self) -> object:
        """Return what is unequal once anything has changed that recall looks at."""
        return self.database.version(), notes_stamp(self.notes), self.profile, self.embedder

    def _wake(self) -> None:
        self._upkeep.worker.wake()

    def _renew(self) -> bool:
        """Take what came or was changed in the home's files; return whether there was any."""
        before = self.profile
        self.renew()
        embedder = self.reload.take_embedder()
        if embedder is not None:
            self._parts.adopt(embedder)
            self._models.adopt(embedder)
        return embedder is not None or self.profile is not before

    def _give_way(self) -> None:
        """Stop what is embedded or read ahead in idle time, in the middle of a text."""
        self._models.give_way()
        self._running.give_way()


class Diagnostics:
    """What only tests, benchmarks and `check` look at in a memory; it may change.

    Where a method takes a speaker, None is the operator, who sees everything.
    """

    def __init__(self, parts: Parts, running: Running, upkeep: Upkeep) -> None:
        self._recall, self._running, self._upkeep = parts.recall, running, upkeep

    def messages_of(self, query: str, *, speaker: str | None = None) -> tuple[list[str], Messages]:
        """Return the messages that recall considered for a question, by their ids, and their features."""
        return self._recall.messages_of(query, reader=None if speaker is None else Reader(speaker))

    def best_of(self, query: str, *, speaker: str | None = None) -> tuple[Utterance, Fit]:
        """Return what the gate of recall knows of an utterance."""
        return self._recall.best_of(query, reader=None if speaker is None else Reader(speaker))

    def fact_features_of(
        self, query: str, *, speaker: str | None = None
    ) -> tuple[list[str], NDArray[np.float32]]:
        """Return the facts and preferences that recall considered, as `kind:id`, and their features."""
        return self._recall.fact_features_of(query, reader=None if speaker is None else Reader(speaker))

    def budgets(self) -> list[Budget]:
        """Return how the windows of the chat models in use are divided, one for each session."""
        return list(self._running.budgets)

    def kept_states(self) -> list[KeptState]:
        """Return what is kept of the models that are open now."""
        return self._running.kept_states()

    def prefixes(self) -> list[WarmPrefix]:
        """Return what reads the prompts of new epochs in idle time, one for each session with a model."""
        return self._running.prefixes()

    def summarizers(self) -> list[Summarizer]:
        """Return what writes the summaries of the sessions of this process."""
        return self._running.summarizers()

    def idle_failures(self) -> list[IdleFailure]:
        """Return the kinds of upkeep that failed."""
        return self._upkeep.worker.failures()
