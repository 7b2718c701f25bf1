"""An opened home: its files and models, and the work on them between turns; modules of this package are handed it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4
from weakref import WeakSet, WeakValueDictionary

from edgemem.clock import Clock
from edgemem.config import Profile, Settings
from edgemem.context.budget import Budget
from edgemem.errors import (
    BusyError,
    ClosedError,
    EdgememError,
    ForeignError,
    InvalidInputError,
    ModelError,
    ReadOnlyError,
)
from edgemem.learn.chains import ChainLearner
from edgemem.learn.learning import Learning
from edgemem.learn.regularities import RegularityLearner
from edgemem.learn.routines import RoutineLearner
from edgemem.learn.statements import StatementLearner
from edgemem.learn.upcoming import Agenda
from edgemem.llama.models.catalog import find_model
from edgemem.llama.protocols import Embedder
from edgemem.llama.tokens.estimate import EstimateTokenizer
from edgemem.memory.home import TruthFile, make_home, profile_file, profile_of
from edgemem.memory.idle import AGAIN_S, IdleWorker, Stop
from edgemem.memory.reload import Reload
from edgemem.memory.thoughts import Thoughts
from edgemem.preload import preload
from edgemem.recall.index.index import Index
from edgemem.recall.index.sources import BankSections, notes_stamp
from edgemem.recall.prefetch import Prefetch
from edgemem.recall.recall import Recall
from edgemem.records import has_methods
from edgemem.session.figures import FailureLog, FigureFile
from edgemem.store.backups import Backups
from edgemem.store.bank.bank import MemoryBank
from edgemem.store.db.files import translated_errors
from edgemem.store.db.wal import copied, scratch_folder
from edgemem.store.erase.eraser import Eraser, Place
from edgemem.store.memory_store import SQLiteMemoryStore
from edgemem.store.notes import NotesFile
from edgemem.store.people import People
from edgemem.store.procedures import Procedures
from edgemem.store.retention import Retention
from edgemem.store.sessions import SQLiteSessionStore
from edgemem.store.thoughts import archive_thoughts

if TYPE_CHECKING:
    from edgemem.learn.extraction import Extractor
    from edgemem.learn.learning import Learner
    from edgemem.llama.protocols import ChatModel, Tokenizer
    from edgemem.llama.state import KeptState
    from edgemem.session.log import SessionLog
    from edgemem.session.prompt import Compaction
    from edgemem.store.erase.copies import Erased

INDEX_WAIT_S = 600.0
"""Seconds after which rows are indexed even if they are few, so that their meaning is found as well."""

_ERASE_AGAIN_S = 2.0  # seconds until an erasing that somebody's reading keeps from its end is tried again

_log = logging.getLogger(__name__)


class LiveSessions:
    """The sessions and chat models that use a memory; held weakly, so one that is dropped is gone here too."""

    def __init__(self) -> None:
        self.compactions: WeakSet[Compaction] = WeakSet()
        self.budgets: WeakSet[Budget] = WeakSet()
        """How the windows of the chat models are divided, one for each session."""
        self.states: WeakSet[KeptState] = WeakSet()
        self._logs: WeakValueDictionary[str, SessionLog] = WeakValueDictionary()
        self._lock = threading.Lock()

    def log_of(self, session_id: str, make: Callable[[], SessionLog]) -> SessionLog:
        """Return the log of a session: one id has one log in a process."""
        with self._lock:
            log = self._logs.get(session_id)
            if log is None:
                log = self._logs[session_id] = make()
            return log

    def leave_out(self, session_id: str, first_turn: int) -> None:
        """Have the prompt of a session go on with a turn, without those before it."""
        if (log := self._logs.get(session_id)) is not None:
            log.leave_out(first_turn)

    def close(self) -> None:
        """End the turns that are open; no other one begins."""
        for log in list(self._logs.values()):
            with log.lock:
                log.is_closed = True
                if log.open_turn is not None:
                    log.open_turn.end()

    def kept_states(self) -> list[KeptState]:
        """Return the kept states of the open models."""
        return [kept for kept in self.states if not kept.closed]


class Equipment(NamedTuple):
    """The parts that a caller brings along; None: those that the profile names, or the machine's."""

    embedder: Embedder | None
    tokenizer: Tokenizer | None
    clock: Clock | None


class Home:
    """Opens a home directory, wires every floor below, and closes it again."""

    def __init__(
        self,
        home: str | Path,
        profile: Profile | str | Path | None,
        equipment: Equipment,
        *,
        restore: str | None,
    ) -> None:
        self.closed = True
        self._process = os.getpid()
        if equipment.embedder is not None and not isinstance(equipment.embedder, Embedder):
            raise InvalidInputError(
                f"{type(equipment.embedder).__name__} is no embedder; derive it from edgemem.llama.Embedder"
            )
        with translated_errors(Path(home)):
            self.path = make_home(Path(home).expanduser().absolute())
        self.settings = Settings(profile_of(self.path, profile))
        self.clock = equipment.clock or Clock()
        self.tokenizer: Tokenizer = equipment.tokenizer or EstimateTokenizer()
        self.in_use = LiveSessions()
        with ExitStack() as opened:  # a failure closes the parts that are open already
            self._open_models(opened, equipment)
            self._open_files(opened, restore)
            self._begin_work(opened, profile_file(self.path, profile))
            self._opened = opened.pop_all()
        self.closed = False

    def start(self, *, worker: bool, watch: bool) -> None:
        """Start the threads of upkeep and of what follows the home's files."""
        if worker:
            self.upkeep.start()
        if watch:
            self.reload.start()

    @property
    def profile(self) -> Profile:
        """Return the profile that holds now."""
        return self.settings.now

    def _open_models(self, opened: ExitStack, equipment: Equipment) -> None:
        self.embedder_fault = ""
        """Why a model that is there could not be opened; empty if nothing is wrong."""
        self.embedder = equipment.embedder
        llama = self.profile.llama
        if (
            self.embedder is None
            and llama.embedder
            and find_model(llama.embedder, home=self.path) is not None
        ):
            from edgemem.llama.embedder import open_embedder

            try:
                self.embedder = open_embedder(
                    llama.embedder, home=self.path, n_ctx=llama.embed_context, threads=llama.embed_threads
                )
            except ModelError as error:
                self.embedder_fault = str(error)
        if self.embedder is not None:
            opened.callback(self.embedder.close)

    def _open_files(self, opened: ExitStack, restore: str | None) -> None:
        settings, store = self.settings, self.profile.store
        self.truth = TruthFile(self.path, clock=self.clock, timeout_s=store.busy_timeout_s)
        opened.callback(self.truth.close)
        self.database = self.truth.open(store, restore=restore)
        opened.callback(self.database.close)
        self.backups = Backups(self.truth.backups, self.database, settings)
        self.store = SQLiteMemoryStore(self.database, any_scope=False, settings=settings)
        self.sessions = SQLiteSessionStore(self.database)
        opened.callback(self.sessions.close)
        self.notes = NotesFile(self.path / "NOTES.md", clock=self.clock, settings=settings)
        self.bank = MemoryBank(
            self.path / "bank",
            self.database,
            clock=self.clock,
            settings=settings,
            never_aloud=self.store.never_aloud,
        )
        self.sections = BankSections(self.bank)
        self.index_fault = ""
        """Why the index is in memory, for this process alone; empty if nothing is wrong."""
        # What is recalled, and by which model.
        parts: dict[str, Any] = {"embedder": self.embedder, "settings": settings}
        parts |= {"notes": self.notes, "sections": self.sections}
        self.index = self._open_index(self.path / "db" / "index.db", opened, parts)
        self.search = Recall(self.database, self.index, **parts)
        self.eraser = Eraser(
            self.database,
            self.sessions.journal,
            (
                Place("kept states", lambda forgotten, _stop: _remove_states(self.truth.folder, forgotten)),
                Place(self.index.path.name, lambda _forgotten, stop: self.index.erase(stop)),
                Place("backups", lambda _forgotten, stop: self.backups.erase(stop)),
            ),
            on_forgotten=self._forget,
            on_deleted=self.in_use.leave_out,
            wake=lambda: self.upkeep.wake(),  # noqa: PLW0108 - the worker is made after this
            wait_s=store.busy_timeout_s,
        )
        self.retention = Retention(
            self.database,
            settings,
            archive=lambda names: self.database.write(partial(archive_thoughts, names=names)),
            erase=self.eraser.aged,
            retain=self.bank.retain,
        )
        self.people = People(self.database, self.sessions.journal, self.bank, follow=self.index.take_changes)
        self.procedures = Procedures(self.database, recall=self.search.procedures, eraser=self.eraser)
        self.agenda = Agenda(self.store, self.search, settings, self.clock)
        extractors: list[Extractor] = []
        learners: list[Learner] = [
            StatementLearner(self.database, settings, extractors),
            ChainLearner(self.database, settings),
            RegularityLearner(self.database),
            RoutineLearner(self.database, settings),
        ]
        self.learning = Learning(self.database, settings, learners, extractors)
        self.thoughts = Thoughts(
            self.store, search=self.search, eraser=self.eraser, new_id=lambda: str(uuid4())
        )

    def _open_index(self, path: Path, opened: ExitStack, parts: dict[str, Any]) -> Index:
        """Open the index, or where that is impossible one in memory, which begins as a copy of what may only be read."""

        def index_at(place: Path) -> Index:
            index = Index(place, self.database, **parts)
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

    def _begin_work(self, opened: ExitStack, source: Path | None) -> None:
        self.failures = FailureLog(self.path / "db" / "failures.json")
        self.figures = FigureFile(self.path / "db" / "turn.json")
        opened.callback(lambda: self.figures.write(at_once=True))
        self.upkeep = Upkeep(self)
        opened.callback(self.upkeep.close)
        self.reload = Reload(
            self.path,
            self.settings,
            source=source,
            notes=self.notes.path,
            bank=self.bank.folder.places,
            wake=self.upkeep.wake,
        )
        opened.callback(self.reload.close)
        self.prefetch = Prefetch(
            self.search.recall,
            stamp=lambda: (self.database.version(), notes_stamp(self.notes), self.bank.stamp(), self.profile),
            late=lambda: self.search.last.late,
            warm=self.preload,
            share=lambda: self.settings.now.recall.ahead_share,
            now=self.clock.now,
        )
        opened.callback(self.prefetch.close)
        opened.callback(self._close_states)
        if not self.database.read_only:
            self.people.merge_voices(self.profile.called())

    def preload(self, stop: Callable[[], bool]) -> bool:
        """Make, and bring into memory, what the next question is answered with; return whether anything was missing."""
        worked = preload(stop)
        return self.index.warm(stop=stop) or worked

    def load_models(self) -> None:
        """Begin to load the models, and return at once."""
        if self.embedder is not None:
            self.embedder.warm()

    def _forget(self, erased: Erased) -> None:
        """Have no session say or write erased text; their prompts keep it until their epochs end (law 2)."""
        for hook in list(self.in_use.compactions):
            hook.forget(erased)

    def _close_states(self) -> None:
        for kept in self.in_use.kept_states():
            kept.close()

    def budget(self, *, tokenizer: Tokenizer | None, model: ChatModel | None = None) -> Budget:
        """Return how a chat model's window is divided; `check` tells of the model for as long as this is held."""
        if model is not None and not has_methods(model, "stream"):
            raise InvalidInputError(
                f"`model` must be a chat model, such as LlamaChat; got {type(model).__name__}."
            )
        if tokenizer is not None and not has_methods(tokenizer, "encode", "render"):
            raise InvalidInputError(f"`tokenizer` must count tokens; got {type(tokenizer).__name__}.")
        counting = tokenizer or (model.tokenizer if model is not None else self.tokenizer)
        budget = Budget(self.settings, counting, model=counting if model is None else model)
        self.in_use.budgets.add(budget)
        return budget

    def close(self) -> None:
        """Finish queued work and close everything in the opposite order; a second call does nothing."""
        if self.closed:
            return
        if os.getpid() == self._process:
            self.in_use.close()
        self.closed = True
        if os.getpid() == self._process:
            self._opened.close()
            return
        # A forked child has no threads, and the files are its parent's.
        for file in (self.sessions, self.index.database, self.database):
            file.close()

    def checked(self) -> Home:
        """Return this home; raise ClosedError once it is closed."""
        if self.closed:
            raise ClosedError("This memory is closed; open the home again with edgemem.open().")
        return self


def _remove_states(folder: Path, forgotten: int) -> bool:
    from edgemem.llama.state import remove_states

    remove_states(folder, before=forgotten)
    for stray in folder.glob("memory.index.db*"):  # of a version that let a store be opened there by path
        stray.unlink(missing_ok=True)
    return True


class Upkeep(IdleWorker):
    """The worker with the steps of one memory's upkeep."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._thorough = False
        settings, search, index, eraser = home.settings, home.search, home.index, home.eraser

        def erase(stop: Stop) -> bool:
            erased = eraser.work(stop)
            # A reader of a file that must be emptied is gone soon.
            self.again_s = _ERASE_AGAIN_S if eraser.left else AGAIN_S
            return erased

        def look_ahead(_stop: Stop) -> bool:
            self.again_s = min(self.again_s, home.agenda.wait_s())
            return False

        def catch_up(stop: Stop) -> bool:
            idle = settings.now.idle
            least = 0 if self._thorough else idle.index_rows
            return index.catch_up(idle.batch, stop=stop, least=least, wait_s=INDEX_WAIT_S) > 0

        def texts() -> int:
            """Return how many texts one step embeds: a query stops it, so this only bounds repeated work."""
            return min(16, max(4, settings.now.idle.batch // 4))

        steps: dict[str, Callable[[Stop], bool]] = {
            "settings": lambda _stop: settings.renew(),
            "waiting turns": home.sessions.journal.retry,
            "people": lambda _stop: home.people.merge_voices(settings.now.called()),
            "erase": erase,
            "due": home.agenda.step,
            "due next": look_ahead,  # of its own: each round looks, also where somebody's callback has failed
            "age": home.retention.work,
            "compact": lambda stop: any(hook.work(stop=stop) for hook in list(home.in_use.compactions)),
            "index": catch_up,
            "embed new": lambda stop: search.embed_new(texts(), stop=stop) > 0,
            "embed": lambda stop: index.embed_pending(texts(), stop=stop) > 0,
            "learn": home.learning.step,
            "read ahead": lambda stop: any(
                hook.read_ahead(stop=stop) for hook in list(home.in_use.compactions)
            ),
            "warm": home.preload,
            "back up": home.backups.work,
            "figures": lambda _stop: home.figures.write(at_once=self._thorough),
        }
        super().__init__(
            steps,
            settle_s=lambda: settings.now.idle.settle_s,
            on_hold=None if home.embedder is None else home.embedder.yield_to_speech,
        )

    def run_all(
        self, seconds: float, *, thorough: bool, yielding: bool = False, stop: Stop = lambda: False
    ) -> bool:
        """Work now, as `run` does; return whether nothing is left to do. `thorough`: also what the worker would let wait."""
        self._thorough = thorough
        try:
            return self.run(seconds, yielding=yielding, stop=stop) and not self._home.eraser.pending()
        finally:
            self._thorough = False

    def close(self) -> None:
        """Stop the worker; what it has embedded goes into the index file, so that the next start need not do it again."""
        super().close()
        try:
            self._home.index.keep_new(self._home.profile.idle.batch)
        except EdgememError as error:
            _log.warning("What was embedded last is embedded again at the next start: %s", error)
