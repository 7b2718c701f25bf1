"""Memory: opens a home directory, wires every floor below, and closes it again.

    edgemem.toml   the profile           NOTES.md   notes to read and edit
    db/memory.db   the truth             db/index.db   derived, may be deleted at any time
    db/state-*     what a chat model need not read again after a restart; derived too
    models/  bank/  backups/             hooks/     hooks of your own, if the profile names them

One `Memory` belongs to one process; several processes may open the same home.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.context.messages import with_prompt
from edgemem.errors import InvalidInputError
from edgemem.fence import check_session_id
from edgemem.hooks.builtin import hooks_of
from edgemem.hooks.loader import OwnHook
from edgemem.learn.upcoming import Upcoming
from edgemem.memory.opened import Equipment, Home
from edgemem.memory.session import default_tools, session_log, session_parts
from edgemem.memory.users import EpisodicMemory, UserMemory
from edgemem.recall.index.sources import checked_kinds
from edgemem.recall.people.hints import SOMEBODY_HERE, find_hints
from edgemem.recall.recall import Request
from edgemem.recall.results import MESSAGES, sessions_of
from edgemem.records import Check, Forgotten, Kind, Reader, Recalled, RecalledSession
from edgemem.session.conversation import Conversation, checked_tools
from edgemem.session.points import Hook, HookRegistry
from edgemem.session.steps import Steps
from edgemem.store.db.files import Closable
from edgemem.store.edges import Reasons, reasons_for
from edgemem.store.kinds import EPISODES
from edgemem.store.thoughts import LINE
from edgemem.store.turns import turn_of
from edgemem.store.validation import checked_number, checked_text, item_count, whole_number
from edgemem.thoughts import checked_filters

if TYPE_CHECKING:
    from edgemem.clock import Clock
    from edgemem.config import Profile
    from edgemem.llama.protocols import ChatModel, Embedder, Tokenizer
    from edgemem.session.log import SessionLog
    from edgemem.session.steps import Parts
    from edgemem.session.tools import Tool
    from edgemem.store.transfer.merge import ImportReport


class Memory(Closable):
    """The memory of one robot.

    Args:
        home: the directory; `~` is expanded.
        profile: itself, the name of a shipped one (`"pi5"`), or a file; default: the home's `edgemem.toml`.
        embedder: finds meaning; default: the profile's model, if it was fetched.
        tokenizer: your chat model's; without one, counts are estimates and say so.
        clock: for tests and replays.
        worker: do upkeep in a thread. False: only when `idle()` is called.
        watch: pick up changes of the profile, notes, bank and hooks while running; default: as `worker`.
        restore: "newest": for a robot that nobody watches. A lost or damaged truth is put aside for the newest good backup, or
            else for an empty one; `check` tells of it until `edgemem check --acknowledge`. Each start then reads the whole
            file, some 5 ms a megabyte.

    Raises:
        ConfigError: the profile cannot be read; the first session raises it for a hook file that it names.
        InvalidInputError: this cannot be a home, or holds something else.
        StoreError: the truth cannot be opened; the subclass says why, `LostTruthError` that it is missing, empty or another
            one. A damaged index or model is no reason: `check` tells of them.
    """

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
        restore: str | None = None,
    ) -> None:
        self._home = Home(home, profile, Equipment(embedder, tokenizer, clock), restore=restore)
        self._home.start(worker=worker, watch=worker if watch is None else watch)
        self.store = self._home.store
        """Facts, preferences and episodes."""
        self.sessions = self._home.sessions
        """The conversations."""
        self.notes = self._home.notes
        """NOTES.md."""
        self.procedures = self._home.procedures
        """Ways of doing things, and how often each worked."""
        self.thoughts = self._home.thoughts
        """Typed thoughts and the edges between them; all else that is remembered is shown there too."""
        self.retention = self._home.retention
        """What ages: what would go, why, and its going."""
        self.learning = self._home.learning
        """What idle time made of what was said and done, to see and to undo."""
        self.people = self._home.people
        """Who is known; somebody is renamed, merged or split here, or gets a turn."""
        self.bank = self._home.bank
        """Files of text: each person's own by topic, the household's and anyone's."""
        self.episodes = EpisodicMemory(self.store, self._home.search)
        """What an agent did, under the names of Cognitia, as all that follow here."""
        level = lambda: self.profile.memory.default_level  # noqa: E731
        self.users = UserMemory(self.store, self._home.eraser, level=level)
        """What an agent keeps of each user: the eight stores."""
        self.messages = self.facts = self.goals = self.summaries = self.users
        self.session_state = self.phases = self.tool_events = self.users
        self.diagnostics = self._home
        """The parts, which a robot's program does not need; any version may change them."""

    @property
    def home(self) -> Path:
        """Return the directory."""
        return self._home.path

    @property
    def profile(self) -> Profile:
        """Return the profile that holds now."""
        return self._home.profile

    def recall(
        self,
        query: str,
        *,
        speaker: str | msgspec.UnsetType | None = msgspec.UNSET,
        k: int | None = None,
        kinds: Collection[Kind] | None = None,
        min_score: float = 0.0,
        session: str = "",
        asked: bool = True,
        include_past: bool | None = None,
        valid_at: float | None = None,
        known_at: float | None = None,
        filters: Mapping[str, Any] | None = None,
    ) -> list[Recalled]:
        """Return memories about something, best first.

        Where the question asks about the past ("what did Mara drink before?"), facts that do not hold any more are among them,
        marked as `past`; their text says until when they held.

        Args:
            speaker: who reads; None is an unknown voice, which reads shared records. Not given: the operator, who sees all.
            k: at most this many; default: the profile's.
            min_score: 0 to 1.
            session: the conversation in which it is asked: where the query names no subject ("when does she come?"), those of its last
                three exchanges within ten minutes count, as far as the speaker may know them.
            asked: False: the query is what somebody said, which may want nothing of the memory, and scores less then.
            include_past: None: the question decides.
            valid_at: facts and stored thoughts as they held then, seconds since the epoch, as in `store.facts_as_of`; all else,
                which is true of no time, is found all the same.
            known_at: facts as they were believed then (of `valid_at`, if given), and all else that had been learnt by then.
            filters: only records with this metadata: `{"room": "kitchen", "place.floor": [1, 2]}`; a list means one of these.

        Raises:
            InvalidInputError: a value is of the wrong kind or out of range, or memory knew nothing then.
        """
        return self._home.checked().search.recall(
            checked_text(query, "the query"),
            Request(
                reader=None if isinstance(speaker, msgspec.UnsetType) else Reader(speaker),
                k=self._most(k),
                kinds=checked_kinds(kinds),
                min_score=checked_number(min_score, "min_score"),
                session=checked_text(session, "the session"),
                asked=asked,
                called=self.profile.called(),
                include_past=include_past,
                valid_at=valid_at,
                known_at=known_at,
                filters=checked_filters(filters),
            ),
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
        `recall.sessions_found`). Arguments and errors are those of `recall`; `k` counts sessions.
        """
        most, least = self._most(k), checked_number(min_score, "min_score")
        messages = self._home.checked().search.recall(
            checked_text(query, "the query"),
            Request(
                reader=None if isinstance(speaker, msgspec.UnsetType) else Reader(speaker),
                k=MESSAGES,
                kinds={"turn"},
                called=self.profile.called(),
                known_at=known_at,
                repeated=True,
            ),
        )
        return [session for session in sessions_of(messages) if session.score >= least][:most]

    def why(self, thought_id: str, *, reader: Reader | None = None) -> Reasons | None:
        """Return who said something, in which words, what it took the place of and what contests it; None: there is none to read.

        Args:
            thought_id: of a stored thought, or of any record, such as `fact:N`.
            reader: who asks, and who else hears it; None: the operator.
        """
        shown = self.thoughts.get_thought(thought_id, reader=reader)
        if shown is not None and LINE.match(thought_id):
            return Reasons(shown, (), (), ())
        return None if shown is None else reasons_for(self._home.database, thought_id, reader=reader)

    def upcoming(self, *, reader: Reader | None = None, until: float | None = None) -> list[Upcoming]:
        """Return appointments, goals and reminders that are still to come, the earliest first.

        Args:
            reader: who asks, and who else hears it; None: the operator.
            until: seconds since the epoch; None: of the next 30 days.
        """
        return self._home.checked().agenda.upcoming(reader=reader, until=until)

    def on_due(self, callback: Callable[[Upcoming], None]) -> None:
        """Have a function called when something is due: at its time, or at eight on its day; see `Agenda.on_due`."""
        self._home.checked().agenda.on_due(callback)
        self._home.upkeep.wake()

    def session(
        self,
        id: str,  # noqa: A002 - the name that session stores give it
        *,
        model: ChatModel | None = None,
        tokenizer: Tokenizer | None = None,
        instructions: str = "",
        tools: Iterable[Tool] = (),
        speaker: str | None = None,
        agent: str = "",
    ) -> Conversation:
        """Return the door of a conversation, which is told there turn by turn.

            conversation = memory.session("kitchen", instructions="You help.", speaker="alice")
            with conversation.turn("Can I eat this cake?") as turn:
                turn.reply(ask_your_model(turn.messages))

        Conversations with one id share their log, each with its own instructions, tools and agent; a stored one goes on. Raise
        ContextOverflowError where the instructions and tools leave no room for a turn in the window.

        Args:
            model: the chat model, whose own window counts where it is smaller than the profile's. What it has evaluated is kept
                over a restart (`[chat] keep_state`); with `[compaction] summarizer = "model"` it also writes the summaries, in a
                second context. Close it before this memory.
            tokenizer: the chat model's, if it is not the memory's.
            speaker: who speaks where a turn does not say it; None: an unknown voice, which reads shared records.
            agent: the name that episodes carry.
        """
        offered = checked_tools(tools)
        checked_text(instructions, "instructions")
        log, parts = self._conversation(
            id, (instructions, offered), tokenizer, model, agent=checked_text(agent, "agent")
        )
        hooks = (OwnHook(file, self) for file in self._home.reload.hook_files())
        steps = Steps(parts, HookRegistry(hooks, note_failure=self._home.failures.note))
        return Conversation(
            log, steps, instructions=instructions, tools=offered, model=model, speaker=speaker, agent=agent
        )

    def _conversation(
        self,
        session_id: str,
        head: tuple[str, Iterable[Tool]],
        tokenizer: Tokenizer | None,
        model: ChatModel | None,
        *,
        agent: str,
    ) -> tuple[SessionLog, Parts]:
        """Return the log and parts of a session; an id that can never be stored is refused now: its turns would all be lost."""
        home, (instructions, tools) = self._home.checked(), head
        check_session_id(session_id)
        budget = home.budget(tokenizer=tokenizer, model=model)
        system = [{"role": "system", "content": instructions}] if instructions else []
        budget.measure(with_prompt(system, home.bank.prompt()), [tool.schema() for tool in tools])
        budget.check_head()
        log = home.in_use.log_of(session_id, partial(session_log, home, session_id))
        self.sessions.journal.reserve()
        return log, session_parts(home, log, agent=agent, budget=budget, model=model)

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

        Agents that each talk for themselves, or on two channels, take hooks for each session: what they learn is shared, an
        utterance is not repeated to the other. Agents that hand one conversation over take the very same hooks:

            hooks = memory.hooks(session_id="kitchen", speaker="alice")
            cook = AgentLoop(model, hooks=hooks, instructions="You cook.", tools=[stove], agent_name="cook")
            host = AgentLoop(model, hooks=hooks, instructions="You welcome guests.", agent_name="host")
            cook.run("What shall we eat?")
            host.run("And who is coming?")      # knows the conversation; another prompt's head, so all of it is read once

        Args:
            speaker: who speaks where the loop does not say it; None: an unknown voice, which reads shared records.
            agent: the name that episodes carry; without it, the `agent_name` of the loop.
            tokenizer, model: as in `session`.
            instructions, tools: the loop's, to be measured now (as in `session`) and not at the first turn.
        """
        log, parts = self._conversation(session_id, (instructions, tools), tokenizer, model, agent=agent)
        note, now = self._home.failures.note, self._home.clock.now
        hooks = hooks_of(parts, log, speaker=speaker, agent=agent, note_failure=note, now=now)
        return [*hooks, *(OwnHook(file, self) for file in self._home.reload.hook_files())]

    def tools(self, *, speaker: str | None = None, include: Collection[str] | None = None) -> list[Tool]:
        """Return tools with which a model remembers, looks up and forgets, within the rights of the speaker.

        Args:
            speaker: who speaks where the loop does not say it; None: an unknown voice, which has shared records.
            include: names of `edgemem.memory_tools`, `notes` (for NOTES.md), `memory_read`, `memory_write`, `memory_append`,
                `memory_list`, `memory_delete` (for the bank); None: all but `off_the_record`, the bank's where `[bank] backend`
                says where it is.
        """
        return default_tools(self._home.checked(), include=include, speaker=speaker)

    def hints(self, limit: int = 60, speaker: str | None = None) -> list[str]:
        """Return names and terms that a speech recogniser should expect, the most important first; none that is never aloud.

        Without a `speaker`, somebody of the household is going to speak, and nothing private is among them.
        """
        home, reader = self._home.checked(), SOMEBODY_HERE if speaker is None else Reader(speaker)
        hints = find_hints(
            home.database, reader=reader, now=home.clock.now(), names=self.profile.names(), limit=limit
        )
        return [hint for hint in hints if home.store.never_aloud().redact(hint, reader, []) == hint]

    def forget(
        self,
        key: str | None = None,
        *,
        scope: str = "global",
        episode: str | None = None,
        session: str | None = None,
        turn: int | None = None,
        message: str | int | None = None,
        person: str | None = None,
    ) -> Forgotten:
        """Erase one thing in the truth and in every copy; the result is true if there was one.

        A fact goes with its whole history, and with what the memory's own tools repeated of it, also from what running
        conversations will write. Their prompts keep it until their epochs end (law 2); the model is told that it is gone. Turns that
        were erased leave the prompt with the next turn, and results of their tools that nobody has read go with them. With a turn go
        the facts that its tools alone have told, and the summaries of its session; what others said in other turns stays. Of a
        person, everything goes that they said or own, in every backup too. What others said of them, and NOTES.md, stays; the
        result says where the name is still written.

        Once it is committed nobody recalls it. Then this waits up to `[store] busy_timeout_s` seconds until its bytes are gone
        from every file; a file `pending` then, because another program reads it, is emptied in idle time, also after a restart.

        Args:
            turn: its number in the `session`.
            message: the id of a message, as recall tells it: what was said and what was answered, its whole turn.

        Raises:
            InvalidInputError: not exactly one of key, episode, session, turn, message and person was given.
            StoreError: turns that must be written before could not be, so nothing was erased.
        """
        given = {"key": key, "episode": episode, "turn": turn, "message": message, "person": person}
        given["session"] = session if turn is None else None
        named = [(kind, name) for kind, name in given.items() if name is not None]
        if len(named) != 1:
            raise InvalidInputError(
                "forget() takes exactly one of key, episode, session, turn, message and person."
            )
        home, (kind, name) = self._home.checked(), named[0]
        if kind == "turn":
            return home.eraser.turn(checked_text(session, "session"), whole_number(name, "turn"))  # type: ignore[arg-type]  # or it says so
        if kind == "message":
            place = turn_of(home.database, str(name))
            return Forgotten({}, {}) if place is None else home.eraser.turn(*place)
        name = checked_text(name, kind)  # type: ignore[arg-type]  # it says what it must be
        if kind == "key":
            return home.eraser.fact(name, scope=scope)
        if kind == "episode":
            return home.eraser.record(EPISODES, name)
        if kind == "session":
            return home.eraser.session(name)
        return home.eraser.person(name, called=self.profile.others(name), notes=self.notes, bank=self.bank)

    def export(self, *, speaker: str | None = None) -> Iterator[str]:
        """Yield as JSON lines, for `import_lines`, everything with the notes, or only what `speaker` said or owns."""
        database = self._home.checked().database
        from edgemem.store.transfer.export import export_lines

        return export_lines(database, notes=self.notes, bank=self.bank, speaker=speaker)

    def import_lines(self, lines: Iterable[bytes | str]) -> ImportReport:
        """Take in an export, or nothing of one that is damaged or cut short (InvalidInputError); stored records stay."""
        database = self._home.checked().database
        from edgemem.store.transfer.merge import import_lines

        return import_lines(database, lines, notes=self.notes, bank=self.bank)

    def idle(self, seconds: float = 1.0, *, thorough: bool = True) -> bool:
        """Run maintenance now; return whether nothing is left to do.

        No step begins after `seconds`; one that runs is finished. `thorough` also indexes a few rows at once; the worker waits
        until a commit of the index pays.
        """
        return self._home.checked().upkeep.run_all(checked_number(seconds, "seconds"), thorough=thorough)

    def check(self) -> list[Check]:
        """Look at every part of this memory."""
        # Health knows every model and server, which a robot that only talks need not load.
        from edgemem.memory.health import check

        return check(self._home.checked())

    def close(self) -> None:
        """Finish queued work and close everything; a second call does nothing."""
        self._home.close()

    def _most(self, k: int | None) -> int:
        return self.profile.recall.k if k is None else item_count(k, "k")
