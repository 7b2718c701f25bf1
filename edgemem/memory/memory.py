"""Memory: opens a home directory, wires every floor below, and closes it again.

    edgemem.toml   the profile           NOTES.md   notes to read and edit
    db/memory.db   the truth             db/index.db   derived, may be deleted at any time
    db/state-*     what a chat model need not read again after a restart; derived too
    models/  bank/  backups/             hooks/     hooks of your own, if the profile names them

One `Memory` belongs to one process; several processes may open the same home.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import msgspec

from edgemem.context.budget import Budget
from edgemem.fence import check_session_id
from edgemem.hooks.loader import OwnHook
from edgemem.hooks.points import Hook
from edgemem.memory.opened import OpenHome
from edgemem.memory.session import audit_logs, default_tools, extra_hooks, session_hooks
from edgemem.recall.index.sources import checked_kinds
from edgemem.recall.people.hints import SOMEBODY_HERE, find_hints
from edgemem.recall.results import MESSAGES, sessions_of
from edgemem.records import Check, Kind, Reader, Recalled, RecalledSession
from edgemem.store.erase.erasings import last_forgotten
from edgemem.store.validation import checked_number, checked_text, item_count

if TYPE_CHECKING:
    from edgemem.llama.protocols import ChatModel, Tokenizer
    from edgemem.loop.toolbox import Tool
    from edgemem.store.erase.eraser import Forgotten
    from edgemem.store.transfer.merge import ImportReport


class Memory(OpenHome):
    """The memory of one robot.

    Args:
        home: the directory; `~` is expanded.
        profile: a profile, the name of a shipped one (`"pi5"`), or a file; default: the home's `edgemem.toml`.
        embedder: finds meaning; default: the profile's model, if it was fetched.
        reranker: puts in order what was found; default: the profile's model, if it names one.
        tokenizer: counts tokens; give your chat model's. Without one, counts are estimates and say so.
        clock: for tests and replays; default: the machine's.
        worker: do upkeep in a thread of its own. False: only when `idle()` is called.
        watch: pick up changes of the profile, notes, hooks and models while running; default: as `worker`.
        restore: "newest": for a robot that nobody stands beside. A truth that was lost or is damaged is replaced by the newest
            good backup; where there is none, it is put aside and the memory begins empty. `check` tells of either until
            `edgemem check --acknowledge`. The whole file is read at each start, some 5 ms a megabyte. None: see below.

    Raises:
        ConfigError: the profile, or a hook that it names, cannot be read.
        InvalidInputError: this cannot be a home, or holds something else.
        StoreError: the truth cannot be opened: `BusyError`, `ReadOnlyError`, `DiskFullError`, `CorruptError`,
            `NewerSchemaError` say why, and `LostTruthError` that it is missing, empty or another one. A damaged index or model
            is no reason: `check` tells of them.
    """

    def recall(
        self,
        query: str,
        *,
        speaker: str | msgspec.UnsetType | None = msgspec.UNSET,
        k: int | None = None,
        kinds: Collection[Kind] | None = None,
        min_score: float = 0.0,
        asked: bool = True,
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
            asked: whether the memory is asked; else the query is what somebody said, which may want nothing of it, and scores
                less then.
            include_past: whether facts that do not hold are wanted; None: the question decides.
            valid_at: facts as they held then, instead of now; seconds since the epoch, as in `store.facts_as_of`. What was
                said and done, noted and summed up is found all the same.
            known_at: only what was known then: facts as they were believed, at `valid_at` or then, and of everything
                else what had been learnt.

        Raises:
            InvalidInputError: the query is no text, k is below 0, a kind is unknown, a score or a time is no
                number of seconds, or memory knew nothing then.
        """
        self._check_open()
        return self.search.recall(
            checked_text(query, "the query"),
            reader=None if isinstance(speaker, msgspec.UnsetType) else Reader(speaker),
            k=self._most(k),
            kinds=checked_kinds(kinds),
            min_score=checked_number(min_score, "min_score"),
            asked=asked,
            called=self.profile.called(),
            include_past=include_past,
            valid_at=valid_at,
            known_at=known_at,
        )

    def recall_sessions(
        self,
        query: str,
        *,
        speaker: str | msgspec.UnsetType | None = msgspec.UNSET,
        k: int | None = None,
        min_score: float = 0.0,
        known_at: float | None = None,
    ) -> list[RecalledSession]:
        """Return the sessions in which something was talked about, best first, each with the messages that tell so.

        "When did we talk about the holidays?" A session is ranked by all of its messages that this reader may read (see
        `recall.sessions_found`), and one of which they may read nothing is none for them.

        Args:
            speaker: who reads, as in `recall`.
            k: at most this many sessions; default: the profile's.
            min_score: only what reaches this score, 0 to 1, the same as that of a message.
            known_at: only what had been said then, seconds since the epoch.

        Raises:
            InvalidInputError: as in `recall`.
        """
        most, least = self._most(k), checked_number(min_score, "min_score")
        self._check_open()
        messages = self.search.recall(
            checked_text(query, "the query"),
            reader=None if isinstance(speaker, msgspec.UnsetType) else Reader(speaker),
            k=MESSAGES,
            kinds={"turn"},
            called=self.profile.called(),
            known_at=known_at,
            repeated=True,
        )
        return [session for session in sessions_of(messages) if session.score >= least][:most]

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
        hooks = session_hooks(
            self, session_id=session_id, speaker=speaker, agent=agent, budget=budget, model=model
        )
        hooks += [OwnHook(file, self) for file in self.reload.hook_files]
        hooks += extra_hooks(self)
        self.sessions.journal.reserve()
        return hooks

    def tools(self, *, speaker: str | None = None, include: Collection[str] | None = None) -> list[Tool]:
        """Return tools with which a model remembers, looks up and forgets, within the rights of whoever speaks.

        Args:
            speaker: who speaks where the loop does not say it; None: an unknown voice, which has what is shared.
            include: some of those that `edgemem.memory_tools` knows, of `notes`, which reads and writes NOTES.md, and of
                `read_more`, which reads on in results that were shortened; None: all.
        """
        self._check_open()
        return default_tools(self, include=include, speaker=speaker)

    def budget(self, *, tokenizer: Tokenizer | None = None, model: ChatModel | None = None) -> Budget:
        """Return how the window of a chat model is divided; `check` tells of the model for as long as this is held.

        Args:
            tokenizer: the chat model's, if it is not the memory's; one that came with a model knows its window too.
        """
        self._check_open()
        counting = tokenizer or (model.tokenizer if model is not None else self.tokenizer)
        budget = Budget(self.settings, counting, model=model if model is not None else counting)
        self.diagnostics.budgets_in_use.add(budget)
        return budget

    def keep_state(self, chat: ChatModel) -> list[Hook]:
        """Let a model begin with what it had evaluated before a restart, and return the hook that keeps it.

        Nothing where the profile's `[chat] keep_state` is "off", and for a model in another process.

        Args:
            chat: a model that was just opened; close it before or after the memory.
        """
        self._check_open()
        from edgemem.hooks.upkeep import KeepStateHook
        from edgemem.llama.chat import LlamaChat
        from edgemem.llama.state import KeptState, remove_states

        settings, folder = self.profile.chat, self.home / "db"
        if settings.keep_state == "off":
            with suppress(OSError):  # a disk that cannot be written must not keep the robot from starting
                remove_states(folder)
            return []
        if not isinstance(chat, LlamaChat):
            return []
        kept = KeptState(
            chat,
            folder,
            keep=settings.keep_state,
            max_mb=settings.keep_state_mb,
            now=self.database.now,
            forgotten=lambda: last_forgotten(self.database),
        )
        kept.load()
        self.diagnostics.states_in_use.add(kept)
        return [KeepStateHook(kept)]

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

    def forget(self, key: str, *, scope: str = "global", wait_s: float | None = None) -> Forgotten:
        """Erase a fact with its whole history, in the truth and in every copy; what is returned is true if there was one.

        What the memory's own tools repeated of it goes too, also from what running conversations will write. Their
        prompts keep it until their epochs end (law 2); the model is told that it is gone.

        Nobody recalls it any more once it is committed. Then this waits until its bytes are gone from every file, for
        `[store] busy_timeout_s` seconds; what is `pending` then, because another program reads it, goes in idle time,
        also after a restart.

        Args:
            wait_s: seconds to wait for turns that must be written before; None: as long as the database waits for others.

        Raises:
            StoreError: they could not be written, so nothing was erased; BusyError where only the time was too short.
        """
        self._check_open()
        return self.eraser.fact(key, scope=scope, wait_s=wait_s)

    def forget_episode(self, episode_id: str) -> Forgotten:
        """Erase one episode by its id, as `forget` does a fact."""
        self._check_open()
        return self.eraser.episode(episode_id)

    def forget_session(self, session_id: str) -> Forgotten:
        """Erase a conversation as `forget` does a fact, also its lines in the profile's audit log."""
        self._check_open()
        return self.eraser.session(session_id, logs=audit_logs(self))

    def forget_person(self, name: str, *, logs: Iterable[Path] = ()) -> Forgotten:
        """Erase what a person said or owns, as `forget` does a fact: in the truth, every index, every backup, and logs.

        What others said of them, and NOTES.md, stays; the result says where the name still stands.

        Args:
            logs: audit logs, whose lines of this person are erased too; the profile's own always is.
        """
        self._check_open()
        return self.eraser.person(
            name,
            called=self.profile.others(name),
            logs={*audit_logs(self), *logs},
            notes=self.notes,
        )

    def export(self, *, speaker: str | None = None) -> Iterator[str]:
        """Yield everything that is remembered as JSON lines, which `import_lines` takes.

        Args:
            speaker: only what this person said or owns; None is all of it, with the notes.
        """
        self._check_open()
        from edgemem.store.transfer.export import export_lines

        return export_lines(self.database, notes=self.notes, speaker=speaker)

    def import_lines(self, lines: Iterable[bytes]) -> ImportReport:
        """Take in the lines of an export, in one transaction; what is here already stays.

        Raises:
            InvalidInputError: a line is none of an export, or its end is missing; nothing was taken in then.
        """
        self._check_open()
        from edgemem.store.transfer.merge import import_lines

        return import_lines(self.database, lines, notes=self.notes)

    def idle(self, seconds: float = 1.0, *, thorough: bool = True) -> bool:
        """Run maintenance now; return whether nothing is left to do.

        Args:
            seconds: no step is begun after so many; one that runs is finished.
            thorough: also index a few rows at once; the worker waits until a commit of the index pays.

        Raises:
            InvalidInputError: that is no number.
        """
        self._check_open()
        return self.upkeep.run_all(checked_number(seconds, "seconds"), thorough=thorough)

    def check(self) -> list[Check]:
        """Look at everything that this memory stands on."""
        self._check_open()
        # What looks for faults knows every model and server; a robot that only talks need not load that.
        from edgemem.memory.health import check

        return check(self)

    def _most(self, k: int | None) -> int:
        """Return how many items are wanted at most."""
        return self.profile.recall.k if k is None else item_count(k, "k")

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
