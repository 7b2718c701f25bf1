"""The parts of a memory: the files of a home, opened one upon the other and closed in the opposite order, and its small models."""

from __future__ import annotations

import logging
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.errors import BusyError, ForeignError, InvalidInputError, ModelError, ReadOnlyError
from edgemem.llama.models.catalog import find_model
from edgemem.llama.protocols import Embedder, Reranker
from edgemem.memory.truth import TruthFile
from edgemem.provisions import lay_in
from edgemem.recall.index.index import Index
from edgemem.recall.recall import Recall
from edgemem.store.backups import Backups
from edgemem.store.db.schema import keeping_apart
from edgemem.store.db.wal import copied, scratch_folder
from edgemem.store.erase.eraser import Eraser, Place
from edgemem.store.memory_store import SQLiteMemoryStore
from edgemem.store.notes import NotesFile
from edgemem.store.sessions import SQLiteSessionStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.clock import Clock
    from edgemem.config import Profile, Settings
    from edgemem.memory.running import Running

_log = logging.getLogger(__name__)


class Parts:
    """The truth with its stores and backups, the notes, the index, and the recall that reads them all."""

    def __init__(
        self,
        home: Path,
        settings: Settings,
        models: SmallModels,
        *,
        running: Running,
        wake: Callable[[], None],
        clock: Clock,
        restore: str | None = None,
    ) -> None:
        """Open the files; where one cannot be opened, those before it are closed again.

        `running` is told what is forgotten, for what running conversations will still say.
        """
        profile = settings.now
        with ExitStack() as opened:
            self.truth = TruthFile(
                home,
                clock=clock,
                timeout_s=profile.store.busy_timeout_s,
                migrations=keeping_apart(profile.called()),
            )
            opened.callback(self.truth.close)
            self.database = self.truth.open(profile.store, restore=restore)
            opened.callback(self.database.close)
            self.backups = Backups(self.truth.backups, self.database, settings)
            self.store = SQLiteMemoryStore(self.database, any_scope=False, settings=settings)
            self.sessions = SQLiteSessionStore(self.database)
            opened.callback(self.sessions.close)
            self.notes = NotesFile(home / "NOTES.md", clock=clock, settings=settings)
            self.index_fault = ""
            """Why the index stands in memory, for this process alone; empty: it is the home's own."""
            self.index = self._open_index(home / "db" / "index.db", opened, models.embedder, settings)
            self.recall = Recall(
                self.database,
                self.index,
                embedder=models.embedder,
                reranker=models.reranker,
                notes=self.notes,
                clock=clock,
                settings=settings,
            )
            self.eraser = Eraser(
                self.sessions,
                (
                    Place(
                        "kept states",
                        lambda forgotten, _stop: _remove_states(self.database.path.parent, forgotten),
                    ),
                    Place(self.index.path.name, lambda _forgotten, stop: self.index.erase(stop)),
                    Place("backups", lambda _forgotten, stop: self.backups.erase(stop)),
                ),
                on_forgotten=running.forget,
                wake=wake,
                wait_s=profile.store.busy_timeout_s,
            )
            self._opened = opened.pop_all()

    def _open_index(
        self, path: Path, opened: ExitStack, embedder: Embedder | None, settings: Settings
    ) -> Index:
        """Open the index, or where that is impossible one in memory, which begins as a copy of what may only be read."""

        def index_at(place: Path) -> Index:
            index = Index(place, self.database, embedder=embedder, notes=self.notes, settings=settings)
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

    def warm(self, stop: Callable[[], bool]) -> bool:
        """Make, and bring into memory, what the next question is answered with; return whether anything was missing."""
        worked = lay_in(stop)
        return self.index.warm(stop=stop) or worked

    def adopt(self, embedder: Embedder) -> None:
        """Index and find by meaning from now on."""
        self.index.adopt(embedder)
        self.recall.adopt(embedder)

    def close(self) -> None:
        """Write what is queued, and close everything."""
        self._opened.close()


def _remove_states(folder: Path, forgotten: int) -> bool:
    from edgemem.llama.state import remove_states

    remove_states(folder, before=forgotten)
    return True


class SmallModels:
    """The two models that memory itself computes with; one that is damaged does not keep the robot from talking."""

    def __init__(
        self,
        home: Path,
        profile: Profile,
        *,
        embedder: Embedder | None = None,
        reranker: Reranker | None = None,
    ) -> None:
        """Take the caller's, or else open what the profile names and is on this machine."""
        for given, kind in ((embedder, Embedder), (reranker, Reranker)):
            if given is not None and not isinstance(given, kind):
                name = kind.__name__
                raise InvalidInputError(
                    f"{type(given).__name__} is no {name.lower()}; derive it from edgemem.llama.{name}"
                )
        self._home = home
        self.embedder_fault = ""
        self.reranker_fault = ""
        self.embedder = embedder if embedder is not None else self.open_embedder(profile)
        self.reranker = reranker if reranker is not None else self._open_reranker(profile)

    def open_embedder(self, profile: Profile) -> Embedder | None:
        """Open the model that a profile names; None if it is not there, or damaged, which `embedder_fault` tells then."""
        settings = profile.llama
        if not settings.embedder or find_model(settings.embedder, home=self._home) is None:
            return None
        from edgemem.llama.embedder import open_embedder

        try:
            return open_embedder(
                settings.embedder,
                home=self._home,
                n_ctx=settings.embed_context,
                threads=settings.embed_threads,
            )
        except ModelError as error:
            self.embedder_fault = str(error)
            return None

    def adopt(self, embedder: Embedder) -> None:
        """Go on with an embedder that came while the memory was open."""
        self.embedder, self.embedder_fault = embedder, ""

    def warm(self) -> None:
        """Begin to load both, and return at once."""
        for model in (self.embedder, self.reranker):
            if model is not None:
                model.warm()

    def give_way(self) -> None:
        """Stop what is embedded in idle time, in the middle of a text."""
        if self.embedder is not None:
            self.embedder.give_way()

    def close(self) -> None:
        """Free both."""
        for model in (self.embedder, self.reranker):
            if model is not None:
                model.close()

    def _open_reranker(self, profile: Profile) -> Reranker | None:
        name, settings = profile.recall.rerank, profile.llama
        if not name:
            return None
        from edgemem.llama.reranker import open_reranker

        try:
            return open_reranker(
                name, home=self._home, n_ctx=settings.embed_context, threads=settings.embed_threads
            )
        except ModelError as error:
            self.reranker_fault = str(error)
            return None
