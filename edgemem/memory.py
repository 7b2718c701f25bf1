"""Memory: opens a home directory, wires every floor below, and closes it again.

    edgemem.toml   the profile           NOTES.md   notes to read and edit
    db/memory.db   the truth             db/index.db   derived, may be deleted at any time
    db/state-*     what a chat model need not read again after a restart; derived too
    models/  bank/  backups/             hooks/     hooks of your own, if the profile names them

One `Memory` belongs to one process; several processes may open the same home.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING
from weakref import WeakSet

import msgspec

from edgemem.clock import Clock
from edgemem.config import Profile
from edgemem.context.plan import Budget
from edgemem.errors import ClosedError, ModelError
from edgemem.extras import Extras
from edgemem.fence import check_session_id
from edgemem.home import make_home, profile_file, profile_of
from edgemem.hooks.compaction import ContextCompactionHook
from edgemem.hooks.failure_log import FailureLog
from edgemem.hooks.own import OwnHook
from edgemem.hooks.points import Hook
from edgemem.hooks.turn_figures import FigureFile
from edgemem.hooks.upkeep import UpkeepHook
from edgemem.idle import IdleFailure, IdleWorker, Step, Stop
from edgemem.llama.catalog import find_model
from edgemem.llama.estimate import EstimateTokenizer
from edgemem.recall.ahead import Ahead
from edgemem.recall.hints import SOMEBODY_HERE, find_hints
from edgemem.recall.index import Index
from edgemem.recall.paragraphs import notes_stamp
from edgemem.recall.recall import Recall
from edgemem.records import Check, Kind, Reader, Recalled
from edgemem.reload import Reload
from edgemem.store.backups import Backups, naming_the_newest
from edgemem.store.database import Database
from edgemem.store.erasing import Forgotten, erase_fact, erase_person
from edgemem.store.forgotten import last_forgotten
from edgemem.store.line_log import forget_in_log
from edgemem.store.memory_store import SQLiteMemoryStore
from edgemem.store.mentions import find_mentions
from edgemem.store.notes import NotesFile
from edgemem.store.sessions import SQLiteSessionStore
from edgemem.store.tool_copies import read_erased
from edgemem.wiring import default_hooks, default_tools

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edgemem.context.summarizer import Summarizer
    from edgemem.hooks.warming import Prefix
    from edgemem.llama.kept_state import KeptState
    from edgemem.llama.protocols import ChatModel, Embedder, Reranker, Tokenizer
    from edgemem.loop import Tool
    from edgemem.recall.search import RecallStats
    from edgemem.store.intake import ImportReport


def open_memory(
    home: str | Path,
    *,
    profile: Profile | str | Path | None = None,
    embedder: Embedder | None = None,
    reranker: Reranker | None = None,
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
        reranker: puts in order what was found; default: the profile's model, if it names one.
        tokenizer: counts tokens; give your chat model's. Without one, counts are estimates and say so.
        clock: for tests and replays; default: the machine's.
        worker: do upkeep in a thread of its own. False: only when `idle()` is called.
        watch: pick up changes of the profile, notes, hooks and models while running; default: as `worker`.
    """
    return Memory(
        home,
        profile=profile,
        embedder=embedder,
        reranker=reranker,
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
        reranker: Reranker | None = None,
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
        self.reranker_fault = ""
        """Why the reranker that the profile names could not be opened."""
        self.reranker = reranker if reranker is not None else self._find_reranker(self.profile)
        with ExitStack() as opened:  # what was opened when something behind it could not be
            for model in (self.embedder, self.reranker):
                if model is not None:
                    opened.callback(model.close)
            path, backups = self.home / "db" / "memory.db", self.home / "backups"
            with naming_the_newest(backups, path):
                self.database = Database(
                    path,
                    clock=self.clock,
                    busy_timeout_s=settings.store.busy_timeout_s,
                    wal_limit_mb=settings.store.wal_limit_mb,
                )
            opened.callback(self.database.close)
            self.backups = Backups(backups, self.database)
            self._use_backups(settings)
            self.store = SQLiteMemoryStore(
                self.database,
                max_episodes=settings.store.max_episodes,
                doubtful_below=settings.memory.doubtful_below,
            )
            self.sessions = SQLiteSessionStore(self.database)
            opened.callback(self.sessions.close)
            self.sessions.journal.outbox.most = settings.store.waiting_turns
            self.notes = NotesFile(
                self.home / "NOTES.md",
                max_size_chars=settings.notes.max_chars,
                low_water_chars=settings.notes.low_water_chars,
                clock=self.clock,
                level=settings.notes.level,
            )
            self.index = Index(
                self.home / "db" / "index.db",
                self.database,
                embedder=self.embedder,
                notes=self.notes,
                settings=settings.recall,
            )
            opened.callback(self.index.close)
            self._recall = Recall(
                self.database,
                self.index,
                embedder=self.embedder,
                reranker=self.reranker,
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
        self.ahead = Ahead(
            self._recall.recall,
            stamp=self._stamp,
            late=lambda: self._recall.last.late,
            warm=lambda stop: self.index.warm(stop=stop),
            now=self.clock.now,
        )
        self._use_ahead(settings)
        self.failures = FailureLog(self.home / "db" / "failures.json")
        self.figures = FigureFile(self.home / "db" / "turn.json")
        self._extras = Extras(self.home, self.clock, note=self.failures.note)
        self._thorough = False
        self._compactions: WeakSet[ContextCompactionHook] = WeakSet()
        self._kept: WeakSet[KeptState] = WeakSet()
        self._budgets: WeakSet[Budget] = WeakSet()
        self._worker = IdleWorker(
            (
                Step("settings", self._renew),
                Step("waiting turns", self._write_waiting),
                Step("compact", self._compact),
                Step("index", self._catch_up),
                Step("embed", self._embed),
                Step("read ahead", self._read_ahead),
                Step("merge", lambda stop: self.index.merge_words(stop=stop)),
                Step("warm", lambda stop: self.index.warm(stop=stop)),
                Step("back up", self.backups.work),
                Step("figures", lambda _stop: self.figures.write(at_once=self._thorough)),
            ),
            settle_s=settings.idle.settle_s,
            on_hold=self._give_way,
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
        speaker: str | msgspec.UnsetType | None = msgspec.UNSET,
        k: int | None = None,
        kinds: Collection[Kind] | None = None,
        min_score: float = 0.0,
        include_past: bool | None = None,
        valid_at: float | None = None,
        known_at: float | None = None,
    ) -> list[Recalled]:
        """Return what is remembered about something, best first.

        Facts that do not hold any more are among it where the question asks about the past ("what did Mara drink
        before?"); they are marked as `past`, and their text says until when they held.

        Args:
            speaker: read as this person; None is a voice that nobody recognised, who is told only what is shared.
                Not given, it is the operator who reads, and sees everything.
            k: at most this many; default: the profile's.
            kinds: only these kinds.
            min_score: only what reaches this score, 0 to 1.
            include_past: whether facts that do not hold are wanted; None: the question decides.
            valid_at: facts as they held then, instead of now; seconds since the epoch, as in `store.facts_as_of`. What was
                said and done, noted and summed up is found all the same.
            known_at: only what was known then: facts as they were believed, at `valid_at` or then, and of everything
                else what had been learnt.

        Raises:
            InvalidInputError: a time is no number of seconds, or memory knew nothing then.
        """
        self._check_open()
        reader = None if isinstance(speaker, msgspec.UnsetType) else Reader(speaker)
        return self._recall.recall(
            query,
            reader=reader,
            k=k or self.profile.recall.k,
            kinds=kinds,
            min_score=min_score,
            called=self.profile.called(),
            include_past=include_past,
            valid_at=valid_at,
            known_at=known_at,
        )

    def hooks(
        self,
        *,
        session_id: str = "default",
        speaker: str | None = None,
        agent: str = "",
        tokenizer: Tokenizer | None = None,
        model: ChatModel | None = None,
        instructions: str = "",
        tools: Iterable[Tool] = (),
    ) -> list[Hook]:
        """Return everything that a loop needs for one session, in no particular order.

        Agents that each talk for themselves, and one that talks on two channels, take hooks for each session: what they
        learn is shared, what was said is not repeated to the other, though it is remembered. Agents that hand one
        conversation over take the very same hooks; whoever is asked goes on where the other stopped:

            hooks = memory.hooks(session_id="kitchen", speaker="alice")
            cook = AgentLoop(model, hooks=hooks, instructions="You cook.", tools=[stove], agent_name="cook")
            host = AgentLoop(model, hooks=hooks, instructions="You welcome guests.", agent_name="host")
            cook.run("What shall we eat?")
            host.run("And who is coming?")      # knows what was said; another prompt's head, so all of it is read once

        Args:
            session_id: the conversation; one that exists is taken up where it was.
            speaker: who speaks where the loop does not say it; None: an unknown voice, which reads what is shared.
            agent: the name that episodes carry; without it, the `agent_name` of the loop.
            tokenizer: the chat model's, if it is not the memory's.
            model: the chat model itself, whose own window counts where it is smaller than the profile's. With `[compaction]
                summarizer = "model"` it also writes the summaries, in a second context. Close it before this memory.
            instructions: what the loop will tell its model, to be measured now and not at the first turn.
            tools: what the loop will offer, to be measured too.

        Raises:
            ContextOverflowError: the instructions and tools leave no room for a turn in the window.
        """
        self._check_open()
        # Hooks must not fail a reply, so an id that can never be stored would lose every turn silently.
        check_session_id(session_id)
        schemas = [tool.schema() for tool in tools]
        budget = self.budget(tokenizer=tokenizer, model=model)
        budget.measure([{"role": "system", "content": instructions}] if instructions else [], schemas)
        budget.check_head()
        hooks = default_hooks(
            self,
            session_id=session_id,
            speaker=speaker,
            agent=agent,
            budget=budget,
            upkeep=UpkeepHook(self._worker, wake=self._warm, note_failure=self.failures.note),
            ahead=self.ahead,
            model=model,
        )
        hooks += [OwnHook(file, self) for file in self.reload.hook_files]
        hooks += self._extras.hooks(self.profile)
        self._compactions.update(hook for hook in hooks if isinstance(hook, ContextCompactionHook))
        return hooks

    def tools(self, *, speaker: str | None = None, include: Collection[str] | None = None) -> list[Tool]:
        """Return tools with which a model remembers, looks up and forgets, within the rights of whoever speaks.

        Args:
            speaker: who speaks where the loop does not say it; None: an unknown voice, which has what is shared.
            include: some of those that `edgemem.memory_tools` knows, and of `read_more`, which reads on in results that
                were shortened; None: all.
        """
        self._check_open()
        return default_tools(self, include=include, speaker=speaker, search=self._recall.recall)

    def budget(self, *, tokenizer: Tokenizer | None = None, model: ChatModel | None = None) -> Budget:
        """Return how the window of a chat model is divided; `check` tells of the model for as long as this is held.

        Args:
            tokenizer: the chat model's, if it is not the memory's; one that came with a model knows its window too.
        """
        self._check_open()
        counting = tokenizer or (model.tokenizer if model is not None else self.tokenizer)
        holder = model if model is not None else counting
        budget = Budget(self.profile.context, counting, n_ctx=lambda: getattr(holder, "n_ctx", None))
        self._budgets.add(budget)
        return budget

    def budgets(self) -> list[Budget]:
        """Return how the windows of the chat models in use are divided, one for each session."""
        return list(self._budgets)

    def keep_state(self, chat: ChatModel) -> list[Hook]:
        """Let a model begin with what it had evaluated before a restart, and return the hook that keeps it.

        Nothing where the profile's `[chat] keep_state` is "off", and for a model in another process.

        Args:
            chat: a model that was just opened; close it before or after the memory.
        """
        self._check_open()
        from edgemem.hooks.keep_state import KeepStateHook
        from edgemem.llama.chat import LlamaChat
        from edgemem.llama.kept_state import KeptState
        from edgemem.llama.state_file import remove_states

        settings, folder = self.profile.chat, self.home / "db"
        if settings.keep_state == "off":
            with suppress(OSError):  # a disk that cannot be written must not keep the robot from starting
                remove_states(folder)
        if settings.keep_state == "off" or not isinstance(chat, LlamaChat):
            return []
        kept = KeptState(
            chat,
            folder,
            keep=settings.keep_state,
            max_mb=settings.keep_state_mb,
            every_h=settings.keep_state_every_h,
            now=self.database.now,
            forgotten=lambda: last_forgotten(self.database),
        )
        kept.load()
        self._kept.add(kept)
        return [KeepStateHook(kept)]

    def kept_states(self) -> list[KeptState]:
        """Return what is kept of the models that are open now."""
        return [kept for kept in self._kept if not kept.closed]

    def prefixes(self) -> list[Prefix]:
        """Return what reads the prompts of new epochs ahead, one for each session with a model."""
        return [hook.warming.prefix for hook in list(self._compactions) if hook.warming is not None]

    def summarizers(self) -> list[Summarizer]:
        """Return what writes the summaries of the sessions of this process."""
        return [hook.planner.summarizer for hook in list(self._compactions) if hook.planner is not None]

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

    def forget(self, key: str, *, scope: str = "global", wait_s: float | None = None) -> bool:
        """Erase a fact with its whole history, in the truth and in every index; return whether there was one.

        What the memory's own tools repeated of it goes too, also from what running conversations will write. Their
        prompts keep it until their epochs end (law 2); the model is told that it is gone.

        Args:
            wait_s: how long to wait for turns that must be written before; BusyError then says that nothing was done.
        """
        self._check_open()
        self.sessions.journal.settle(wait_s=wait_s)
        erased, found = self.database.write(
            lambda tx: (read_erased(tx, key, scope=scope), erase_fact(tx, key, scope=scope))
        )
        if found:
            for hook in list(self._compactions):
                hook.forget(erased)
        return self._erased(found)

    def forget_session(self, session_id: str) -> bool:
        """Erase a conversation, in the truth and in every index; return whether there was one."""
        self._check_open()
        self.sessions.journal.settle()
        return self._erased(self.sessions.delete(session_id))

    def forget_person(self, name: str, *, logs: Iterable[Path] = ()) -> Forgotten:
        """Erase what a person said or owns: in the truth, every index, every backup, and logs.

        What others said of them, and NOTES.md, stays; the result says where the name still stands.

        Args:
            logs: audit logs, whose lines of this person are erased too; the profile's own always is.
        """
        self._check_open()
        self.sessions.journal.settle()
        erased = self.database.write(lambda tx: erase_person(tx, name))
        self._erased(bool(erased))
        lines = sum(forget_in_log(log, name) for log in {*self._extras.logs(self.profile), *logs})
        called = self.profile.speakers.get(name, ())
        return Forgotten(
            {**erased, "log lines": lines} if lines else erased,
            find_mentions(self.database, (name, *called), notes=self.notes),
            tuple(str(path) for path in sorted((self.home / "db").glob("*.damaged*"))),
        )

    def export(self, *, speaker: str | None = None) -> Iterator[str]:
        """Yield everything that is remembered as JSON lines, which `import_lines` takes.

        Args:
            speaker: only what this person said or owns; None is all of it, with the notes.
        """
        self._check_open()
        from edgemem.exporting import export_lines

        return export_lines(self.database, notes=self.notes, speaker=speaker)

    def import_lines(self, lines: Iterable[bytes]) -> ImportReport:
        """Take in the lines of an export, in one transaction; what is here already stays."""
        self._check_open()
        from edgemem.importing import import_lines

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

    def signals_of(
        self, query: str, *, speaker: str | None = None
    ) -> tuple[list[str], NDArray[np.float32], float]:
        """Return the messages that were considered for a question, as recall names them, their signals, and what is known.

        For `edgemem bench fit`; see `recall.signals` and `recall.certainty`. A speaker of None is the operator.
        """
        return self._recall.signals_of(query, reader=None if speaker is None else Reader(speaker))

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
        # What looks for faults knows every model and server; a robot that only talks need not load that.
        from edgemem.health import check

        return check(self)

    def idle_failures(self) -> list[IdleFailure]:
        """Return the kinds of upkeep that failed."""
        return self._worker.failures()

    def _compact(self, stop: Stop) -> bool:
        return any(hook.work(stop=stop) for hook in list(self._compactions))

    def _read_ahead(self, stop: Stop) -> bool:
        return any(hook.warm(stop=stop) for hook in list(self._compactions))

    def _use_backups(self, profile: Profile) -> None:
        settings = profile.backup
        self.backups.every_h, self.backups.keep = settings.every_h, settings.keep
        self.backups.max_mb = settings.max_mb

    def _use_ahead(self, profile: Profile) -> None:
        self.ahead.pace.share = profile.recall.ahead_share
        self.ahead.pace.settle_s = profile.recall.ahead_settle_ms / 1e3

    def _stamp(self) -> object:
        """Return what is unequal once anything has changed that recall looks at."""
        return self.database.version(), notes_stamp(self.notes), self.profile, self.embedder

    def _write_waiting(self, stop: Stop) -> bool:
        return not stop() and self.sessions.journal.outbox.work(stop)

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
            self._use_backups(changed)
            self.sessions.journal.outbox.most = changed.store.waiting_turns
            self.store.doubtful_below = changed.memory.doubtful_below
            self.notes.max_size_chars = changed.notes.max_chars
            self.notes.low_water_chars = changed.notes.low_water_chars
            self.notes.level = changed.notes.level
            self._recall.use(changed.recall)
            self._use_ahead(changed)
            self.index.settings = changed.recall
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
            self.backups.remove_forgotten()
            self._forget_states()
            self.index.take_erased()
            self.database.checkpoint()
        return found

    def _forget_states(self) -> None:
        """Delete what is kept of models: it holds text."""
        from edgemem.llama.state_file import remove_states  # late: few forget, and opening need not wait

        for kept in list(self._kept):
            kept.remove()
        remove_states(self.home / "db")

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

    def _find_reranker(self, profile: Profile) -> Reranker | None:
        name, settings = profile.recall.rerank, profile.llama
        if not name:
            return None
        from edgemem.llama.reranker import open_reranker

        try:
            return open_reranker(
                name, home=self.home, n_ctx=settings.embed_context, threads=settings.embed_threads
            )
        except ModelError as error:
            self.reranker_fault = str(error)
            return None

    def _give_way(self) -> None:
        """Stop what is embedded or read ahead in idle time, in the middle of a text."""
        # Asked by name: an isinstance of a Protocol takes longer than everything else that a turn begins with.
        give_way = getattr(self.embedder, "give_way", None)
        if give_way is not None:
            give_way()
        for prefix in self.prefixes():
            prefix.give_way()

    def _warm(self) -> None:
        for model in (self.embedder, self.reranker):
            warm = getattr(model, "warm", None)
            if warm is not None:
                warm()

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError("This memory is closed; open the home again with edgemem.open().")

    def close(self) -> None:
        """Finish what is queued and close everything; a second call does nothing."""
        if self.closed:
            return
        for kept in list(self._kept):
            kept.close()
        self.closed = True
        self.ahead.close()
        self.reload.close()
        self._worker.close()
        self.figures.write(at_once=True)
        self._extras.close()
        self.index.close()
        try:
            self.sessions.close()
        finally:
            self.database.close()
            for model in (self.embedder, self.reranker):
                if model is not None:
                    model.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
