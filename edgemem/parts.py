"""The parts of a memory: the files of a home, opened one upon the other, and closed in the opposite order."""

from __future__ import annotations

import logging
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.errors import BusyError, ForeignError, InvalidInputError, ReadOnlyError
from edgemem.provisions import lay_in
from edgemem.recall.index.index import Index
from edgemem.recall.recall import Recall
from edgemem.store.backups import Backups
from edgemem.store.copying import copied, scratch_folder
from edgemem.store.erase.eraser import Eraser, Place
from edgemem.store.memory_store import SQLiteMemoryStore
from edgemem.store.migrations import keeping_apart
from edgemem.store.notes import NotesFile
from edgemem.store.sessions import SQLiteSessionStore
from edgemem.store.spool import ROOM
from edgemem.truth import TruthFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.clock import Clock
    from edgemem.config import Profile, RecallSettings
    from edgemem.llama.protocols import Embedder
    from edgemem.running import Running
    from edgemem.small_models import SmallModels

_log = logging.getLogger(__name__)


class Parts:
    """The truth with its stores and backups, the notes, the index, and the recall that reads them all."""

    def __init__(
        self,
        home: Path,
        profile: Profile,
        models: SmallModels,
        *,
        running: Running,
        wake: Callable[[], None],
        clock: Clock,
        restore: str | None = None,
    ) -> None:
        """Open the files; where one cannot be opened, those before it are closed again.

        Args:
            running: is told what is forgotten, for what running conversations will still say.
            wake: has idle time look for work.
            restore: see `TruthFile.open`.
        """
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
            self.backups = Backups(self.truth.backups, self.database)
            self.store = SQLiteMemoryStore(self.database, any_scope=False)
            self.sessions = SQLiteSessionStore(self.database)
            opened.callback(self.sessions.close)
            self.notes = NotesFile(home / "NOTES.md", clock=clock)
            self.index_fault = ""
            """Why the index stands in memory, for this process alone; empty: it is the home's own."""
            self.index = self._open_index(home / "db" / "index.db", opened, models.embedder, profile.recall)
            self.recall = Recall(
                self.database,
                self.index,
                embedder=models.embedder,
                reranker=models.reranker,
                notes=self.notes,
                clock=clock,
                settings=profile.recall,
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
            self.use(profile)
            self._opened = opened.pop_all()

    def _open_index(
        self, path: Path, opened: ExitStack, embedder: Embedder | None, settings: RecallSettings
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

    def use(self, profile: Profile) -> None:
        """Take from a profile what may change while the files are open."""
        self.backups.every_h, self.backups.keep = profile.backup.every_h, profile.backup.keep
        self.backups.max_mb = profile.backup.max_mb
        self.store.max_episodes = profile.store.max_episodes
        self.store.doubtful_below = profile.memory.doubtful_below
        self.sessions.journal.outbox.most = profile.store.waiting_turns
        self.sessions.journal.outbox.room = max(ROOM, 4 * profile.context.utterance_bytes)
        self.notes.max_size_chars = profile.notes.max_chars
        self.notes.low_water_chars = profile.notes.low_water_chars
        self.notes.level = profile.notes.level
        self.index.settings = profile.recall
        self.recall.use(profile.recall)

    def warm(self, stop: Callable[[], bool]) -> bool:
        """Make, and bring into memory, what the next question is answered with; return whether anything was missing."""
        made = lay_in(stop)
        return self.index.warm(stop=stop) or made

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
