"""Memory: opens a home directory, wires every floor below, and closes it again.

    edgemem.toml   the profile           NOTES.md   notes to read and edit
    db/memory.db   the truth             db/index.db   derived, may be deleted at any time
    models/  bank/  backups/             hooks/     hooks of your own, if the profile names them

One `Memory` belongs to one process; several processes may open the same home.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING
from weakref import WeakSet

import msgspec

from edgemem.clock import Clock
from edgemem.config import Profile
from edgemem.errors import ClosedError, ModelError
from edgemem.exporting import export_lines
from edgemem.fence import check_session_id
from edgemem.health import Check, FailureLog, check
from edgemem.home import make_home, profile_file, profile_of
from edgemem.hooks.compaction import ContextCompactionHook
from edgemem.hooks.own import OwnHook
from edgemem.hooks.points import Hook
from edgemem.hooks.turn_figures import FigureFile
from edgemem.hooks.upkeep import UpkeepHook
from edgemem.idle import IdleFailure, IdleWorker, Step, Stop
from edgemem.importing import import_lines
from edgemem.llama.catalog import find_model
from edgemem.llama.estimate import EstimateTokenizer
from edgemem.recall.hints import SOMEBODY_HERE, find_hints
from edgemem.recall.index import Index
from edgemem.recall.recall import Recall
from edgemem.records import Kind, Reader, Recalled
from edgemem.reload import Reload
from edgemem.store.database import Database
from edgemem.store.erasing import erase_fact, erase_person
from edgemem.store.memory_store import SQLiteMemoryStore
from edgemem.store.notes import NotesFile
from edgemem.store.sessions import SQLiteSessionStore
from edgemem.wiring import default_hooks, default_tools

if TYPE_CHECKING:
    from edgemem.llama.protocols import Embedder, Tokenizer
    from edgemem.loop import Tool
    from edgemem.recall.search import RecallStats
    from edgemem.store.intake import ImportReport


def open_memory(
    home: str | Path,
    *,
    profile: Profile | str | Path | None = None,
    embedder: Embedder | None = None,
    tokenizer: Tokenizer | None = None,
    clock: Clock | None = None,
    worker: bool = True,
    watch: bool | None = None,
) -> Memory:
    """Open a home directory, making it if there is none.

    Args:
        home: the directory; `~` is expanded.
        profile: a profile, the name of a shipped one (`"pi5"`), or a file; default: the home's `edgemem.toml`.
        embedder: finds meaning; default: the profile's model, if it was fetched.
        tokenizer: counts tokens; give your chat model's. Without one, counts are estimates and say so.
        clock: for tests and replays; default: the machine's.
        worker: do upkeep in a thread of its own. False: only when `idle()` is called.
        watch: pick up changes of the profile, notes, hooks and models while running; default: as `worker`.
    """
    return Memory(
        home,
        profile=profile,
        embedder=embedder,
        tokenizer=tokenizer,
        clock=clock,
        worker=worker,
        watch=watch,
    )


class Memory:
    """The memory of one robot."""

    def __init__(
        self,
        home: str | Path,
        *,
        profile: Profile | str | Path | None = None,
        embedder: Embedder | None = None,
        tokenizer: Tokenizer | None = None,
        clock: Clock | None = None,
        worker: bool = True,
        watch: bool | None = None,
    ) -> None:
        self.closed = True
        self.home = make_home(Path(home).expanduser().absolute())
        self.profile = profile_of(self.home, profile)
        self.clock = clock or Clock()
        settings = self.profile
        self.tokenizer: Tokenizer = tokenizer or EstimateTokenizer()
        self.embedder_fault = ""
        """Why the embedder could not be opened although it is there."""
        self.embedder = embedder if embedder is not None else self._find_embedder(self.profile)
        with ExitStack() as opened:  # what was opened when something behind it could not be
            if self.embedder is not None:
                opened.callback(self.embedder.close)
            self.database = Database(
                self.home / "db" / "memory.db",
                clock=self.clock,
                busy_timeout_s=settings.store.busy_timeout_s,
                wal_limit_mb=settings.store.wal_limit_mb,
            )
            opened.callback(self.database.close)
            self.store = SQLiteMemoryStore(
                self.database,
                max_episodes=settings.store.max_episodes,
                doubtful_below=settings.memory.doubtful_below,
            )
            self.sessions = SQLiteSessionStore(self.database)
            self.notes = NotesFile(
                self.home / "NOTES.md",
                max_size_chars=settings.notes.max_chars,
                low_water_chars=settings.notes.low_water_chars,
                clock=self.clock,
            )
            self.index = Index(
                self.home / "db" / "index.db", self.database, embedder=self.embedder, notes=self.notes
            )
            opened.callback(self.index.close)
            self._recall = Recall(
                self.database,
                self.index,
                embedder=self.embedder,
                notes=self.notes,
                clock=self.clock,
                settings=settings.recall,
            )
            self.reload = Reload(
                self.home,
                settings,
                source=profile_file(self.home, profile),
                notes=self.notes.path,
                embedder=self.embedder,
                open_embedder=self._find_embedder,
                wake=self._wake,
            )
            opened.pop_all()
        self.failures = FailureLog(self.home / "db" / "failures.json")
        self.figures = FigureFile(self.home / "db" / "turn.json")
        self._thorough = False
        self._compactions: WeakSet[ContextCompactionHook] = WeakSet()
        self._worker = IdleWorker(
            (
                Step("settings", self._renew),
                Step("compact", self._compact),
                Step("index", self._catch_up),
                Step("embed", self._embed),
                Step("merge", lambda stop: self.index.merge_words(stop=stop)),
                Step("warm", lambda stop: self.index.warm(stop=stop)),
                Step("figures", lambda _stop: self.figures.write(at_once=self._thorough)),
            ),
            settle_s=settings.idle.settle_s,
        )
        self.closed = False
        if worker:
            self._worker.start()
        if worker if watch is None else watch:
            self.reload.watcher.start()

    # -- what it is for ------------------------------------------------------------------------------

    def recall(
        self,
        query: str,
        *,
        speaker: str | None = None,
        k: int | None = None,
        kinds: Collection[Kind] | None = None,
        min_score: float = 0.0,
    ) -> list[Recalled]:
        """Return what is remembered about something, best first.

        Args:
            speaker: read as this person; None is the operator, who sees everything.
            k: at most this many; default: the profile's.
            kinds: only these kinds.
            min_score: only what reaches this score, 0 to 1.
        """
        self._check_open()
        reader = Reader(speaker) if speaker is not None else None
        return self._recall.recall(
            query,
            reader=reader,
            k=k or self.profile.recall.k,
            kinds=kinds,
            min_score=min_score,
            called=self.profile.called(),
        )

    def hooks(
        self,
        *,
        session_id: str = "default",
        speaker: str | None = None,
        agent: str = "",
        tokenizer: Tokenizer | None = None,
    ) -> list[Hook]:
        """Return everything that a loop needs for one session, in no particular order.

        Args:
            session_id: the conversation; one that exists is taken up where it was.
            speaker: who speaks where the loop does not say it; None: an unknown voice, which reads what is shared.
            agent: the name that episodes carry.
            tokenizer: the chat model's, if it is not the memory's.
        """
        self._check_open()
        # Hooks must not fail a reply, so an id that can never be stored would lose every turn silently.
        check_session_id(session_id)
        hooks = default_hooks(
            self,
            session_id=session_id,
            speaker=speaker,
            agent=agent,
            tokenizer=tokenizer or self.tokenizer,
            upkeep=UpkeepHook(self._worker, wake=self._warm, note_failure=self.failures.note),
            search=self._recall.recall,
        )
        hooks += [OwnHook(file, self) for file in self.reload.hook_files]
        self._compactions.update(hook for hook in hooks if isinstance(hook, ContextCompactionHook))
        return hooks

    def tools(self, *, speaker: str | None = None, include: Collection[str] | None = None) -> list[Tool]:
        """Return tools with which a model remembers, looks up and forgets, within the rights of whoever speaks.

        Args:
            speaker: who speaks where the loop does not say it; None: an unknown voice, which has what is shared.
            include: some of those that `edgemem.memory_tools` knows; None: all.
        """
        self._check_open()
        return default_tools(self, include=include, speaker=speaker, search=self._recall.recall)

    def hints(self, limit: int = 60, speaker: str | None = None) -> list[str]:
        """Return names and terms that a speech recogniser should expect, the most important first.

        Args:
            limit: at most so many.
            speaker: who is going to speak; None: one of the household, so that nothing private is among them.
        """
        self._check_open()
        reader = SOMEBODY_HERE if speaker is None else Reader(speaker)
        return find_hints(
            self.database, reader=reader, now=self.clock.now(), names=self.profile.names(), limit=limit
        )

    def forget(self, key: str, *, scope: str = "global") -> bool:
        """Erase a fact with its whole history, in the truth and in every index; return whether there was one."""
        self._check_open()
        found = self.database.write(lambda tx: erase_fact(tx, key, scope=scope))
        return self._erased(found)

    def forget_session(self, session_id: str) -> bool:
        """Erase a conversation, in the truth and in every index; return whether there was one."""
        self._check_open()
        return self._erased(self.sessions.delete(session_id))

    def forget_person(self, name: str) -> dict[str, int]:
        """Erase what a person said or owns, in the truth and in every index; return how much, by kind."""
        self._check_open()
        erased = self.database.write(lambda tx: erase_person(tx, name))
        self._erased(bool(erased))
        return erased

    def export(self, *, speaker: str | None = None) -> Iterator[str]:
        """Yield everything that is remembered as JSON lines, which `import_lines` takes.

        Args:
            speaker: only what this person said or owns; None is all of it, with the notes.
        """
        self._check_open()
        return export_lines(self.database, notes=self.notes, speaker=speaker)

    def import_lines(self, lines: Iterable[bytes]) -> ImportReport:
        """Take in the lines of an export, in one transaction; what is here already stays."""
        self._check_open()
        return import_lines(self.database, lines, notes=self.notes)

    # -- upkeep --------------------------------------------------------------------------------------

    def idle(self, seconds: float = 1.0, *, thorough: bool = True) -> bool:
        """Run maintenance now, for at most this long; return whether nothing is left to do.

        Args:
            thorough: also index a few rows at once; the worker waits until a commit of the index pays.
        """
        self._check_open()
        self._thorough = thorough
        try:
            return self._worker.run(seconds)
        finally:
            self._thorough = False

    def last_recall(self) -> RecallStats:
        """Return how the newest recall went."""
        return self._recall.last

    def pending(self) -> dict[str, int]:
        """Return what idle time has still to do, by kind."""
        self._check_open()
        return self._recall.pending()

    def check(self) -> list[Check]:
        """Look at everything that this memory stands on."""
        self._check_open()
        return check(self)

    def idle_failures(self) -> list[IdleFailure]:
        """Return the kinds of upkeep that failed."""
        return self._worker.failures()

    def _compact(self, stop: Stop) -> bool:
        return any(hook.work(stop=stop) for hook in list(self._compactions))

    def _catch_up(self, stop: Stop) -> bool:
        idle = self.profile.idle
        if stop():
            return False
        least = 0 if self._thorough else idle.index_rows
        return self.index.catch_up(idle.batch, stop=stop, least=least, wait_s=idle.index_wait_s) > 0

    def _embed(self, stop: Stop) -> bool:
        if stop():
            return False
        return self.index.embed_pending(self.profile.idle.embed_batch, stop=stop) > 0

    def renew(self) -> Profile:
        """Take settings that were changed in the profile's file, if they were; return those that hold now."""
        changed = self.reload.take_profile()
        if changed is not None:
            self.profile = changed
            self.store.max_episodes = changed.store.max_episodes
            self.store.doubtful_below = changed.memory.doubtful_below
            self.notes.max_size_chars = changed.notes.max_chars
            self.notes.low_water_chars = changed.notes.low_water_chars
            self._recall.use(changed.recall)
            self._worker.settle_s = changed.idle.settle_s
        return self.profile

    def _wake(self) -> None:
        self._worker.wake()

    def _renew(self, stop: Stop) -> bool:
        if stop():
            return False
        before = self.profile
        self.renew()
        embedder = self.reload.take_embedder()
        if embedder is not None:
            self.index.adopt(embedder)
            self._recall.adopt(embedder)
            self.embedder, self.embedder_fault = embedder, ""
            # Another object with the same settings: sessions look again what there is.
            self.profile = msgspec.structs.replace(self.profile)
        return self.profile is not before

    def _erased(self, found: bool) -> bool:
        """Take what was erased out of the index and the log too."""
        if found:
            while self.index.catch_up(10_000):
                pass
            self.database.checkpoint()
        return found

    # -- parts ---------------------------------------------------------------------------------------

    def _find_embedder(self, profile: Profile) -> Embedder | None:
        settings = profile.llama
        if not settings.embedder or find_model(settings.embedder, home=self.home) is None:
            return None
        from edgemem.llama.embedder import open_embedder

        try:
            return open_embedder(
                settings.embedder,
                home=self.home,
                n_ctx=settings.embed_context,
                threads=settings.embed_threads,
            )
        except ModelError as error:
            # A damaged model must not keep the robot from talking; `check` says what is wrong.
            self.embedder_fault = str(error)
            return None

    def _warm(self) -> None:
        warm = getattr(self.embedder, "warm", None)
        if warm is not None:
            warm()

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError("This memory is closed; open the home again with edgemem.open().")

    def close(self) -> None:
        """Finish what is queued and close everything; a second call does nothing."""
        if self.closed:
            return
        self.closed = True
        self.reload.close()
        self._worker.close()
        self.figures.write(at_once=True)
        self.index.close()
        self.database.close()
        if self.embedder is not None:
            self.embedder.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
