"""AsyncMemory: what `edgemem.open` returns, for programs that run on an event loop."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from functools import partial, wraps
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec

from edgemem.aio.conversation import AsyncConversation, async_tools, run_upkeep
from edgemem.aio.worker import Face, Worker, asynchronous, converted
from edgemem.errors import ClosedError
from edgemem.learn.learning import Learning
from edgemem.memory.memory import Memory
from edgemem.memory.opened import Home
from edgemem.memory.thoughts import Thoughts
from edgemem.memory.users import EpisodicMemory, UserMemory
from edgemem.store.bank.bank import MemoryBank, ScopedBank
from edgemem.store.memory_store import SQLiteMemoryStore
from edgemem.store.notes import NotesFile
from edgemem.store.people import People
from edgemem.store.procedures import Procedures
from edgemem.store.retention import Retention
from edgemem.store.sessions import SQLiteSessionStore
from edgemem.store.validation import checked_number

if TYPE_CHECKING:
    from edgemem.config import Profile
    from edgemem.store.transfer.merge import ImportReport

P = ParamSpec("P")

_SWITCH_S = 0.001  # after which a busy thread gives up Python's lock; Python's own 5 ms double the loop's lag
_LINES = 100  # of an export that are read at once: some milliseconds


class AsyncStore(Face[SQLiteMemoryStore]):
    """Facts, preferences and episodes."""

    add_fact = asynchronous(SQLiteMemoryStore.add_fact, lane="store")
    get_fact = asynchronous(SQLiteMemoryStore.get_fact, lane="store")
    read_values = asynchronous(SQLiteMemoryStore.read_values, lane="store")
    facts = asynchronous(SQLiteMemoryStore.facts, lane="store")
    facts_as_of = asynchronous(SQLiteMemoryStore.facts_as_of, lane="store")
    fact_history = asynchronous(SQLiteMemoryStore.fact_history, lane="store")
    facts_version = asynchronous(SQLiteMemoryStore.facts_version, lane="store")
    doubts = asynchronous(SQLiteMemoryStore.doubts, lane="store")
    user_facts = asynchronous(SQLiteMemoryStore.user_facts, lane="store")
    retract_fact = asynchronous(SQLiteMemoryStore.retract_fact, lane="store")
    forget_fact = asynchronous(SQLiteMemoryStore.forget_fact, lane="store")
    set_preference = asynchronous(SQLiteMemoryStore.set_preference, lane="store")
    preferences = asynchronous(SQLiteMemoryStore.preferences, lane="store")
    forget_preference = asynchronous(SQLiteMemoryStore.forget_preference, lane="store")
    add_episode = asynchronous(SQLiteMemoryStore.add_episode, lane="store")
    get_episode = asynchronous(SQLiteMemoryStore.get_episode, lane="store")
    episodes = asynchronous(SQLiteMemoryStore.episodes, lane="store")
    recent_episodes = asynchronous(SQLiteMemoryStore.recent_episodes, lane="store")
    forget_episode = asynchronous(SQLiteMemoryStore.forget_episode, lane="store")
    render_for_prompt = asynchronous(SQLiteMemoryStore.render_for_prompt, lane="store")
    flush = asynchronous(SQLiteMemoryStore.flush, lane="store")


class AsyncSessions(Face[SQLiteSessionStore]):
    """The conversations."""

    save = asynchronous(SQLiteSessionStore.save, lane="store")
    load = asynchronous(SQLiteSessionStore.load, lane="store")
    delete = asynchronous(SQLiteSessionStore.delete, lane="store")
    list_ids = asynchronous(SQLiteSessionStore.list_ids, lane="store")


class AsyncNotes(Face[NotesFile]):
    """NOTES.md."""

    read = asynchronous(NotesFile.read, lane="store")
    tail = asynchronous(NotesFile.tail, lane="store")
    sections = asynchronous(NotesFile.sections, lane="store")
    read_section = asynchronous(NotesFile.read_section, lane="store")
    append = asynchronous(NotesFile.append, lane="store")
    clear = asynchronous(NotesFile.clear, lane="store")


class AsyncProcedures(Face[Procedures]):
    """Ways of doing things, and how often each worked."""

    store = asynchronous(Procedures.store, lane="store")
    suggest = asynchronous(Procedures.suggest)
    record_outcome = asynchronous(Procedures.record_outcome, lane="store")
    get = asynchronous(Procedures.get, lane="store")
    list = asynchronous(Procedures.list, lane="store")
    count = asynchronous(Procedures.count, lane="store")
    forget = asynchronous(Procedures.forget, lane="long")


class AsyncUserMemory(Face[UserMemory]):
    """All that is kept of users, for programs that run on an event loop: it is each of the eight stores."""

    save_message = asynchronous(UserMemory.save_message, lane="store")
    get_messages = asynchronous(UserMemory.get_messages, lane="store")
    count_messages = asynchronous(UserMemory.count_messages, lane="store")
    delete_messages_before = asynchronous(UserMemory.delete_messages_before, lane="long")
    upsert_fact = asynchronous(UserMemory.upsert_fact, lane="store")
    get_facts = asynchronous(UserMemory.get_facts, lane="store")
    save_goal = asynchronous(UserMemory.save_goal, lane="store")
    get_active_goal = asynchronous(UserMemory.get_active_goal, lane="store")
    save_summary = asynchronous(UserMemory.save_summary, lane="store")
    get_summary = asynchronous(UserMemory.get_summary, lane="store")
    ensure_user = asynchronous(UserMemory.ensure_user, lane="store")
    get_user_profile = asynchronous(UserMemory.get_user_profile, lane="store")
    save_session_state = asynchronous(UserMemory.save_session_state, lane="store")
    get_session_state = asynchronous(UserMemory.get_session_state, lane="store")
    save_phase_state = asynchronous(UserMemory.save_phase_state, lane="store")
    get_phase_state = asynchronous(UserMemory.get_phase_state, lane="store")
    save_tool_event = asynchronous(UserMemory.save_tool_event, lane="store")


class AsyncEpisodes(Face[EpisodicMemory]):
    """What an agent did."""

    store = asynchronous(EpisodicMemory.store, lane="store")
    recall = asynchronous(EpisodicMemory.recall)
    recall_recent = asynchronous(EpisodicMemory.recall_recent, lane="store")
    recall_by_tag = asynchronous(EpisodicMemory.recall_by_tag, lane="store")
    by_readers = asynchronous(EpisodicMemory.by_readers, lane="store")
    keep_learnt = asynchronous(EpisodicMemory.keep_learnt, lane="store")
    count = asynchronous(EpisodicMemory.count, lane="store")


class AsyncScopedBank(Face[ScopedBank]):
    """One bank."""

    read_file = asynchronous(ScopedBank.read_file, lane="store")
    write_file = asynchronous(ScopedBank.write_file, lane="store")
    append_to_file = asynchronous(ScopedBank.append_to_file, lane="store")
    list_files = asynchronous(ScopedBank.list_files, lane="store")
    delete_file = asynchronous(ScopedBank.delete_file, lane="store")
    redact = asynchronous(ScopedBank.redact, lane="store")


class AsyncBank(Face[MemoryBank]):
    """Files of text: each person's own by topic, the household's and anyone's."""

    files = asynchronous(MemoryBank.files, lane="store")

    def for_person(self, user: str, topic: str = "default") -> AsyncScopedBank:
        """Return the bank of a person in a topic, which is theirs alone; a name that no bank can have is refused in use."""
        return AsyncScopedBank(self._worker, lambda: self._of().for_person(user, topic))

    @property
    def household(self) -> AsyncScopedBank:
        """Return the bank whose files are for recognised speakers."""
        return AsyncScopedBank(self._worker, lambda: self._of().household)

    @property
    def shared(self) -> AsyncScopedBank:
        """Return the bank whose files are for anyone."""
        return AsyncScopedBank(self._worker, lambda: self._of().shared)


class AsyncThoughts(Face[Thoughts]):
    """Typed thoughts, and the edges between them."""

    remember = asynchronous(Thoughts.remember, lane="store")
    create_thought = asynchronous(Thoughts.create_thought, lane="store")
    bulk_store = asynchronous(Thoughts.bulk_store, lane="store")
    get_or_create = asynchronous(Thoughts.get_or_create, lane="store")
    upsert_by_hash = asynchronous(Thoughts.upsert_by_hash, lane="store")
    get_thought = asynchronous(Thoughts.get_thought, lane="store")
    update_thought = asynchronous(Thoughts.update_thought, lane="store")
    restore_thought = asynchronous(Thoughts.restore_thought, lane="store")
    invalidate_thought = asynchronous(Thoughts.invalidate_thought, lane="store")
    delete_thought = asynchronous(Thoughts.delete_thought, lane="long")
    list_thoughts = asynchronous(Thoughts.list_thoughts, lane="store")
    count_thoughts = asynchronous(Thoughts.count_thoughts, lane="store")
    max_cycle = asynchronous(Thoughts.max_cycle, lane="store")
    thought_exists_by_source = asynchronous(Thoughts.thought_exists_by_source, lane="store")
    record_access = asynchronous(Thoughts.record_access, lane="store")
    cleanup_expired = asynchronous(Thoughts.cleanup_expired, lane="store")
    create_edge = asynchronous(Thoughts.create_edge, lane="store")
    update_edge = asynchronous(Thoughts.update_edge, lane="store")
    invalidate_edge = asynchronous(Thoughts.invalidate_edge, lane="store")
    get_edges = asynchronous(Thoughts.get_edges, lane="store")
    list_edges = asynchronous(Thoughts.list_edges, lane="store")
    delete_edge = asynchronous(Thoughts.delete_edge, lane="store")
    related = asynchronous(Thoughts.related, lane="store")
    search = asynchronous(Thoughts.search)


class AsyncLearning(Face[Learning]):
    """The learners, and the log of their work."""

    add = asynchronous(Learning.add, lane="store")
    now = asynchronous(Learning.now, lane="long")
    log = asynchronous(Learning.log, lane="store")
    undo = asynchronous(Learning.undo, lane="store")


class AsyncPeople(Face[People]):
    """The people who spoke: renamed, merged, split."""

    list = asynchronous(People.list, lane="long")
    rename = asynchronous(People.rename, lane="long")
    merge = asynchronous(People.merge, lane="long")
    split = asynchronous(People.split, lane="long")
    give = asynchronous(People.give, lane="long")
    undo = asynchronous(People.undo, lane="long")


class AsyncRetention(Face[Retention]):
    """What ages, why, and how it goes."""

    doubt = asynchronous(Retention.doubt, lane="long")
    plan = asynchronous(Retention.plan, lane="long")
    erase = asynchronous(Retention.erase, lane="long")


class AsyncMemory(Face[Memory]):
    """The memory of one robot on an event loop: every method is that of `Memory`, and is awaited.

    Turns, tools of the memory and recall have one thread, the stores one, `export`, `import_lines`, `check` and `forget` a third,
    `idle` one of its own. To cancel an `await` is to give up waiting: a job that has begun happens whole or not at all.
    Python's switch interval is 1 ms from then on.
    """

    def __init__(self, make: Callable[[], Memory]) -> None:
        super().__init__(Worker(), self._opened)
        self._make = make
        self._memory: Memory | None = None
        self.store = AsyncStore(self._worker, lambda: self._opened().store)
        self.sessions = AsyncSessions(self._worker, lambda: self._opened().sessions)
        self.notes = AsyncNotes(self._worker, lambda: self._opened().notes)
        self.procedures = AsyncProcedures(self._worker, lambda: self._opened().procedures)
        self.bank = AsyncBank(self._worker, lambda: self._opened().bank)
        self.thoughts = AsyncThoughts(self._worker, lambda: self._opened().thoughts)
        self.learning = AsyncLearning(self._worker, lambda: self._opened().learning)
        self.people = AsyncPeople(self._worker, lambda: self._opened().people)
        self.retention = AsyncRetention(self._worker, lambda: self._opened().retention)
        self.episodes = AsyncEpisodes(self._worker, lambda: self._opened().episodes)
        self.users = AsyncUserMemory(self._worker, lambda: self._opened().users)
        self.messages = self.facts = self.goals = self.summaries = self.users
        self.session_state = self.phases = self.tool_events = self.users

    recall = asynchronous(Memory.recall)
    recall_sessions = asynchronous(Memory.recall_sessions)
    session = converted(Memory.session, AsyncConversation)
    tools = converted(Memory.tools, async_tools)
    why = asynchronous(Memory.why, lane="store")
    hints = asynchronous(Memory.hints)
    upcoming = asynchronous(Memory.upcoming)
    on_due = asynchronous(Memory.on_due, lane="store")
    forget = asynchronous(Memory.forget, lane="long")
    check = asynchronous(Memory.check, lane="long")

    @property
    def home(self) -> Path:
        """Return the directory."""
        return self._opened().home

    @property
    def profile(self) -> Profile:
        """Return the profile that holds now."""
        return self._opened().profile

    @property
    def diagnostics(self) -> Home:
        """Return what a robot's program does not need; its methods are no coroutines."""
        return self._opened().diagnostics

    async def export(self, *, speaker: str | None = None) -> AsyncIterator[str]:
        """Yield everything that is remembered as JSON lines, as `Memory.export` does; other long calls run between them."""
        lines = await self._worker.run("long", lambda: self._opened().export(speaker=speaker))
        while some := await self._worker.run("long", lambda: list(islice(lines, _LINES))):
            for line in some:
                yield line

    async def import_lines(self, lines: Iterable[bytes | str]) -> ImportReport:
        """Take in the lines of an export, as `Memory.import_lines` does; they are read on another thread."""
        given_up = threading.Event()

        def until_given_up() -> Iterable[bytes | str]:
            from edgemem.store.transfer.export import checked_lines

            for line in checked_lines(lines):
                if given_up.is_set() or self._worker.closed:
                    raise ClosedError("The import was given up; nothing was imported.")
                yield line

        work = partial(self._opened().import_lines, until_given_up())
        return await self._worker.run("long", work, given_up=lambda _: given_up.set())

    async def idle(self, seconds: float = 1.0, *, thorough: bool = True) -> bool:
        """Run maintenance now, as `Memory.idle` does, but yield to people who speak meanwhile."""
        seconds, upkeep = checked_number(seconds, "seconds"), self.diagnostics.upkeep
        work = partial(upkeep.run_all, seconds, thorough=thorough, yielding=True)
        return await run_upkeep(self._worker, upkeep, work)

    async def close(self) -> None:
        """Finish what has begun and close everything; calls that wait for their turn end with ClosedError. May be repeated."""
        if self._memory is not None:
            self._memory.diagnostics.upkeep.hold(self)
        # A caller that gives up waiting does not stop it.
        await asyncio.shield(asyncio.wrap_future(self._worker.close(self._close)))

    def _opened(self) -> Memory:
        if self._memory is None:
            raise ClosedError("This memory is not open; use `async with edgemem.aio.open(home) as memory`.")
        return self._memory

    def _open(self) -> None:
        if self._memory is None:
            self._memory = self._make()
            sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_S))

    def _close(self) -> None:
        if self._memory is not None:
            self._memory.close()

    async def __aenter__(self) -> AsyncMemory:
        try:
            await self._worker.run("turn", self._open)
        except BaseException:
            self._worker.close(self._close)
            raise
        return self

    def __await__(self) -> Generator[None, None, AsyncMemory]:
        return self.__aenter__().__await__()

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _opening(make: Callable[P, Memory]) -> Callable[P, AsyncMemory]:
    @wraps(make, updated=())
    def open_async(*args: P.args, **kwargs: P.kwargs) -> AsyncMemory:
        return AsyncMemory(partial(make, *args, **kwargs))

    return open_async


open = _opening(Memory)  # noqa: A001 - as `edgemem.open`
