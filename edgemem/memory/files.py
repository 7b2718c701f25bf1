"""The files and models of an opened home, one opened upon the other, and the sessions that use them."""

from __future__ import annotations

import logging
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from edgemem.clock import Clock
from edgemem.config import Profile, Settings
from edgemem.errors import (
    BusyError,
    ForeignError,
    InvalidInputError,
    ModelError,
    ReadOnlyError,
)
from edgemem.llama.models.catalog import find_model
from edgemem.llama.protocols import Embedder, Reranker
from edgemem.memory.home import TruthFile
from edgemem.preload import preload
from edgemem.recall.index.index import Index
from edgemem.recall.recall import Recall
from edgemem.records import Reader
from edgemem.store.backups import Backups
from edgemem.store.db.schema import keeping_apart
from edgemem.store.db.wal import copied, scratch_folder
from edgemem.store.erase.eraser import Eraser, Place
from edgemem.store.memory_store import SQLiteMemoryStore
from edgemem.store.notes import NotesFile
from edgemem.store.sessions import SQLiteSessionStore

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.context.budget import Budget
    from edgemem.context.compaction.extractive import Summarizer
    from edgemem.hooks.compaction import ContextCompactionHook
    from edgemem.llama.second_context import WarmPrefix
    from edgemem.llama.state import KeptState
    from edgemem.memory.idle import IdleFailure, IdleWorker
    from edgemem.recall.rank.gate import Fit, Utterance
    from edgemem.recall.rank.replacing import Messages
    from edgemem.recall.search.search import RecallStats
    from edgemem.store.erase.copies import Erased

_log = logging.getLogger(__name__)


class OpenFiles:
    """The models, the truth with its stores and backups, the notes, the index, and the recall that reads them all."""

    upkeep: IdleWorker
    """What works on them while nobody speaks; whoever opens them makes it."""

    def __init__(
        self,
        opened: ExitStack,
        home: Path,
        settings: Settings,
        *,
        embedder: Embedder | None,
        reranker: Reranker | None,
        clock: Clock,
        restore: str | None,
    ) -> None:
        """Open the files. Each is closed by `opened`, also where a later one cannot be opened."""
        self.home, self.settings, self.clock = home, settings, clock
        for given, kind in ((embedder, Embedder), (reranker, Reranker)):
            if given is not None and not isinstance(given, kind):
                name = kind.__name__
                raise InvalidInputError(
                    f"{type(given).__name__} is no {name.lower()}; derive it from edgemem.llama.{name}"
                )
        self._open_models(opened, embedder, reranker)
        self._open_files(opened, restore)
        self.diagnostics = Diagnostics(self)

    @property
    def profile(self) -> Profile:
        """Return the profile that holds now."""
        return self.settings.now

    def _open_models(self, opened: ExitStack, embedder: Embedder | None, reranker: Reranker | None) -> None:
        """Take the caller's models, or else those that the profile names and that are on this machine."""
        self.embedder_fault = self.reranker_fault = ""
        """Why a model that is there could not be opened; empty if nothing is wrong."""
        self.embedder, self.reranker = embedder, reranker
        opened.callback(self._close_models)
        if embedder is None:
            self.embedder = self.open_embedder(self.profile)
        name, llama = self.profile.recall.rerank, self.profile.llama
        if reranker is None and name:
            from edgemem.llama.reranker import open_reranker

            try:
                self.reranker = open_reranker(
                    name, home=self.home, n_ctx=llama.embed_context, threads=llama.embed_threads
                )
            except ModelError as error:
                self.reranker_fault = str(error)

    def _close_models(self) -> None:
        for model in (self.embedder, self.reranker):
            if model is not None:
                model.close()

    def open_embedder(self, profile: Profile) -> Embedder | None:
        """Open the model that a profile names; None if it is not here, or damaged, which `embedder_fault` tells then."""
        llama = profile.llama
        if not llama.embedder or find_model(llama.embedder, home=self.home) is None:
            return None
        from edgemem.llama.embedder import open_embedder

        try:
            return open_embedder(
                llama.embedder, home=self.home, n_ctx=llama.embed_context, threads=llama.embed_threads
            )
        except ModelError as error:
            self.embedder_fault = str(error)
            return None

    def _open_files(self, opened: ExitStack, restore: str | None) -> None:
        """Open the truth with its stores and backups, the notes, the index, and the recall that reads them all."""
        settings, store = self.settings, self.profile.store
        self.truth = TruthFile(
            self.home,
            clock=self.clock,
            timeout_s=store.busy_timeout_s,
            migrations=keeping_apart(self.profile.called()),
        )
        opened.callback(self.truth.close)
        self.database = self.truth.open(store, restore=restore)
        opened.callback(self.database.close)
        self.backups = Backups(self.truth.backups, self.database, settings)
        self.store = SQLiteMemoryStore(self.database, any_scope=False, settings=settings)
        self.sessions = SQLiteSessionStore(self.database)
        opened.callback(self.sessions.close)
        self.notes = NotesFile(self.home / "NOTES.md", clock=self.clock, settings=settings)
        self.index_fault = ""
        """Why the index stands in memory, for this process alone; empty if nothing is wrong."""
        self.index = self._open_index(self.home / "db" / "index.db", opened)
        self.search = Recall(
            self.database,
            self.index,
            embedder=self.embedder,
            reranker=self.reranker,
            notes=self.notes,
            clock=self.clock,
            settings=settings,
        )
        self.eraser = Eraser(
            self.sessions,
            (
                Place("kept states", lambda forgotten, _stop: _remove_states(self.truth.folder, forgotten)),
                Place(self.index.path.name, lambda _forgotten, stop: self.index.erase(stop)),
                Place("backups", lambda _forgotten, stop: self.backups.erase(stop)),
            ),
            on_forgotten=self._forget,
            wake=self._wake,
            wait_s=store.busy_timeout_s,
        )

    def _open_index(self, path: Path, opened: ExitStack) -> Index:
        """Open the index, or where that is impossible one in memory, which begins as a copy of what may only be read."""

        def index_at(place: Path) -> Index:
            index = Index(
                place, self.database, embedder=self.embedder, notes=self.notes, settings=self.settings
            )
            opened.callback(index.close)
            return index

        if self.database.read_only:
            self.index_fault = f"{path} cannot be written"
            if path.is_file():
                with suppress(OSError, BusyError):
                    return index_at(opened.enter_context(copied(path)))
        else:
            try:
                return index_at(path)
            except (ForeignError, InvalidInputError, ReadOnlyError) as error:
                self.index_fault = f"{path} cannot be used: {error}"
                _log.error("The index is kept in memory: %s", self.index_fault)
        return index_at(opened.enter_context(scratch_folder()) / path.name)

    def last_recall(self) -> RecallStats:
        """Return how the newest recall went."""
        return self.search.last

    def adopt(self, embedder: Embedder) -> None:
        """Index and find with an embedder that came while the memory was open."""
        self.index.adopt(embedder)
        self.search.adopt(embedder)
        self.embedder, self.embedder_fault = embedder, ""

    def preload(self, stop: Callable[[], bool]) -> bool:
        """Make, and bring into memory, what the next question is answered with; return whether anything was missing."""
        worked = preload(stop)
        return self.index.warm(stop=stop) or worked

    def warm_models(self) -> None:
        """Begin to load the models, and return at once."""
        for model in (self.embedder, self.reranker):
            if model is not None:
                model.warm()

    def give_way(self) -> None:
        """Stop what is embedded or read ahead in idle time, in the middle of a text."""
        if self.embedder is not None:
            self.embedder.give_way()
        for prefix in self.diagnostics.prefixes():
            prefix.give_way()

    def _wake(self) -> None:
        self.upkeep.wake()

    def _forget(self, erased: Erased) -> None:
        """Have no session say or write what was erased; their prompts keep it until their epochs end (law 2)."""
        for hook in self.diagnostics.compactions():
            hook.forget(erased)


def _remove_states(folder: Path, forgotten: int) -> bool:
    from edgemem.llama.state import remove_states

    remove_states(folder, before=forgotten)
    return True


class Diagnostics:
    """The sessions and chat models that use a memory, and what only tests, benchmarks and `check` ask; it may change.

    Sessions are held weakly, so one that is dropped is gone here too. Where a method takes a speaker, None is the operator.
    """

    def __init__(self, files: OpenFiles) -> None:
        self._files = files
        self.hooks_in_use: WeakSet[ContextCompactionHook] = WeakSet()
        self.budgets_in_use: WeakSet[Budget] = WeakSet()
        self.states_in_use: WeakSet[KeptState] = WeakSet()

    def messages_of(self, query: str, *, speaker: str | None = None) -> tuple[list[str], Messages]:
        """Return the messages that recall considered for a question, by their ids, and their features."""
        return self._files.search.messages_of(query, reader=None if speaker is None else Reader(speaker))

    def best_of(self, query: str, *, speaker: str | None = None) -> tuple[Utterance, Fit]:
        """Return what the gate of recall knows of an utterance."""
        return self._files.search.best_of(query, reader=None if speaker is None else Reader(speaker))

    def fact_features_of(
        self, query: str, *, speaker: str | None = None
    ) -> tuple[list[str], NDArray[np.float32]]:
        """Return the facts and preferences that recall considered, as `kind:id`, and their features."""
        reader = None if speaker is None else Reader(speaker)
        return self._files.search.fact_features_of(query, reader=reader)

    def budgets(self) -> list[Budget]:
        """Return how the windows of the chat models in use are divided, one for each session."""
        return list(self.budgets_in_use)

    def kept_states(self) -> list[KeptState]:
        """Return what is kept of the models that are open now."""
        return [kept for kept in self.states_in_use if not kept.closed]

    def compactions(self) -> list[ContextCompactionHook]:
        """Return the compactions of the sessions."""
        return list(self.hooks_in_use)

    def prefixes(self) -> list[WarmPrefix]:
        """Return what reads the prompts of new epochs in idle time, one for each session with a model."""
        return [hook.warming.prefix for hook in self.compactions() if hook.warming is not None]

    def summarizers(self) -> list[Summarizer]:
        """Return what writes the summaries of the sessions of this process."""
        return [hook.planner.summarizer for hook in self.compactions() if hook.planner is not None]

    def idle_failures(self) -> list[IdleFailure]:
        """Return the kinds of upkeep that failed."""
        return self._files.upkeep.failures()
