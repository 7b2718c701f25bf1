"""The hooks with EdgeVox's names, for loops that keep their own list of messages: each brings a part of its session.

At each point the first of them that a loop calls has the adapter take the steps of all, in the order of `edgemem.session.steps`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.fence import check_session_id
from edgemem.hooks.adapter import LoopAdapter
from edgemem.records import Session
from edgemem.session.figures import TurnLog
from edgemem.session.log import SessionLog
from edgemem.session.memory_block import MemoryBlock, NotesBlock
from edgemem.session.points import (
    CLASSIC_POINTS,
    ON_RUN_START,
    POINTS,
    Hook,
    HookResult,
    given_store,
    header_line,
    needs,
)
from edgemem.session.prompt import ListCompaction, WindowBudget
from edgemem.session.steps import Parts
from edgemem.session.stored import StoredSession
from edgemem.session.tools import ToolEpisodes, ToolResults
from edgemem.store.validation import whole_number

if TYPE_CHECKING:
    from edgemem.config import Settings
    from edgemem.context.budget import Budget
    from edgemem.context.compaction.compactor import Compactor
    from edgemem.llama.protocols import Tokenizer
    from edgemem.session.points import HookFailure
    from edgemem.store.notes import NotesFile
    from edgemem.store.protocols import MemoryStore, SessionStore

_KEY = "__edgemem_loop"  # where the state of a loop's session keeps its adapter


class PartHook:
    """A hook that brings one part of a session, `field` of its `Parts`.

    `speaker` speaks where the loop does not say who. `adapter` is a memory's session's; None: one for each session of a loop.
    """

    is_builtin = True
    points = CLASSIC_POINTS
    own_points = POINTS
    priority = 80  # behind the hooks of safety, before those that change and observe

    def __init__(
        self, field: str, part: Any, *, speaker: str | None = None, adapter: LoopAdapter | None = None
    ) -> None:
        self.field, self.part = field, part
        self.speaker = speaker
        self.adapter = adapter
        self.note_failure: Callable[[HookFailure], None] | None = None  # takes the failures of any hook

    @property
    def name(self) -> str:
        """Return the name under which failures of the hook itself are counted."""
        return type(self).__name__ if type(self) is not PartHook else str(self.part.name)

    @property
    def failures(self) -> Callable[[], list[HookFailure]] | None:
        """Return what tells which steps have failed."""
        return None if self.adapter is None else self.adapter.registry.failures

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Have the steps of a point taken, once for all hooks of the session."""
        adapter = self._adapter(ctx)
        if point == ON_RUN_START:
            adapter.join(self)
        elif not adapter.joined:  # a loop that tells of no start
            adapter.join(*(adapter.offered or (self,)))
        return adapter.act(point, ctx, payload) if adapter.joined[:1] == [self] else None

    def _adapter(self, ctx: Any) -> LoopAdapter:
        state = ctx.session.state
        if self.adapter is None or not self.adapter.is_shared:
            kept = state.get(_KEY)
            is_one = isinstance(kept, LoopAdapter)
            self.adapter = kept if is_one else LoopAdapter(SessionLog(), speaker=self.speaker)
        state[_KEY] = self.adapter
        return self.adapter


class PersistSessionHook(PartHook):
    """Keep the session: resume at the first turn, one durable transaction at the end of each.

    Loops that share this hook share the conversation: each goes on where the other stopped.
    """

    priority = 90  # before the others: they join the session that it keeps

    def __init__(
        self,
        session_store: SessionStore | None = None,
        *,
        session_id: str = "",
        resume: bool = True,
        speaker: str | None = None,
        settings: Settings | None = None,
    ) -> None:
        """Make the hook; `resume` takes the stored session up, and `speaker` speaks where the loop does not say who.

        `settings` tell how fast the robot speaks, where a loop tells only for how long it was heard.
        """
        needs(self, session_store, "save", "load", what="a session store")
        check_session_id(session_id)
        part = StoredSession(session_store, session_id, resume=resume, settings=settings)
        adapter = LoopAdapter(SessionLog(), speaker=speaker, is_shared=True)
        super().__init__("session", part, speaker=speaker, adapter=adapter)


class MemoryInjectionHook(PartHook):
    """Put recalled items into the newest user message, as a delta, once a turn."""

    def __init__(
        self,
        store: MemoryStore | None = None,
        max_facts: int = 20,
        max_episodes: int = 5,
        header: str = "",
        *,
        memory_store: MemoryStore | None = None,
        max_chars: int = 1200,
        speaker: str | None = None,
    ) -> None:
        """Make the hook; facts, episodes and characters are at most so many candidates, and `header` opens the block.

        `memory_store` is `store`, as EdgeVox calls it. `speaker` speaks where the loop does not say who.
        """
        given = given_store(self, store, memory_store)
        needs(self, given, "facts", "get_fact", "recent_episodes", what="a memory store")
        header = header_line(self, header)
        part = MemoryBlock(
            given, max_facts=max_facts, max_episodes=max_episodes, header=header, max_chars=max_chars
        )
        super().__init__("memory", part, speaker=speaker)


class NotesInjectorHook(PartHook):
    """Put the tail of the notes into the newest user message, and later only lines not shown yet."""

    def __init__(
        self,
        notes: NotesFile | None = None,
        max_chars: int = 1500,
        header: str = "Notes:",
        *,
        speaker: str | None = None,
    ) -> None:
        """Make the hook; at most `max_chars` of the file's end are shown, behind `header`."""
        needs(self, notes, "tail", what="a NotesFile")
        assert notes is not None  # noqa: S101 - `needs` has raised
        part = NotesBlock(notes, max_chars=max_chars, header=header_line(self, header))
        super().__init__("notes", part, speaker=speaker)


class ContextCompactionHook(PartHook):
    """Compact whole turns of the prompt into a summary, as the seed does; a memory's session does so in idle time."""

    def __init__(
        self, compactor: Compactor | None = None, llm_getter: Callable[[Any], Any] | None = None
    ) -> None:
        """Make the hook; `llm_getter` returns, for the context of a turn, what counts tokens for the compactor."""
        super().__init__("compactor", None if compactor is None else ListCompaction(compactor, llm_getter))


class TokenBudgetHook(PartHook):
    """Drop the oldest whole turns from the prompt until it fits, and never the newest utterance; the log keeps them."""

    def __init__(
        self,
        max_context_tokens: int = 4000,
        keep_last: int = 4,
        *,
        low_water: float = 0.6,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        """Make the hook; `max_context_tokens` is what the prompt may take, tools and template included.

        A cut goes down to the share `low_water` of it, because each costs the cache. `keep_last` has no effect: the seed's
        signature has it. `tokenizer` counts; None: whatever `tokenizer_of` finds in the context's `llm`.
        """
        most = whole_number(max_context_tokens, "max_context_tokens")
        part = WindowBudget(max_context_tokens=most, low_water=low_water, tokenizer=tokenizer)
        super().__init__("budget", part)


class ToolOutputTruncatorHook(PartHook):
    """Shorten results of tools to a number of characters, and to what the window has room for."""

    def __init__(self, max_chars: int = 2000, *, budget: Budget | None = None, keep_bytes: int = 0) -> None:
        super().__init__("results", ToolResults(max_chars, budget=budget, keep_bytes=keep_bytes))


class EpisodeLoggerHook(PartHook):
    """Log the outcome of every tool call; in the turn's own transaction where the session is kept in SQLite."""

    def __init__(
        self,
        store: MemoryStore | None = None,
        agent_name: str = "",
        *,
        memory_store: MemoryStore | None = None,
        speaker: str | None = None,
    ) -> None:
        """Make the hook; `memory_store` is `store`, as EdgeVox calls it."""
        given = given_store(self, store, memory_store)
        needs(self, given, "add_episode", what="a memory store")
        super().__init__("episodes", ToolEpisodes(given, agent_name), speaker=speaker)


class TurnLogHook(PartHook):
    """Log one JSON object a turn."""

    def __init__(self) -> None:
        super().__init__("figures", TurnLog())


def hooks_of(
    parts: Parts,
    log: SessionLog,
    *,
    speaker: str | None,
    agent: str,
    note_failure: Callable[[HookFailure], None],
    now: Callable[[], float],
) -> list[Hook]:
    """Return the hooks that bring the parts of a session, with one adapter; the arguments are as in `LoopAdapter`.

    `note_failure` is also told what the loop's registry says has failed, in whichever hook.
    """
    adapter = LoopAdapter(log, speaker=speaker, agent=agent, note_failure=note_failure, now=now)
    adapter.is_shared = True
    brought = {field: part for field, part in vars(parts).items() if part is not None}
    hooks = [PartHook(field, part, speaker=speaker, adapter=adapter) for field, part in brought.items()]
    hooks[0].note_failure = note_failure
    adapter.offered = hooks
    return list(hooks)


def part_of(hooks: Iterable[Hook], field: str) -> Any:
    """Return the part of a name that some hooks bring; None: none does."""
    return next((hook.part for hook in hooks if isinstance(hook, PartHook) and hook.field == field), None)


class Door(NamedTuple):
    """What a conversation is made of, as hooks have it."""

    log: SessionLog
    parts: Parts
    speaker: str | None  # who speaks where the loop does not say it


def door_of(hooks: Iterable[Hook], session: Session | None = None) -> Door:
    """Return the log and parts that edgemem's own hooks among some bring; a log not yet in use takes `session` as its record.

    Loops with the same hook for the session share its log: each goes on where the other stopped.
    """
    own = [hook for hook in hooks if isinstance(hook, PartHook)]
    parts = dataclasses.replace(Parts(), **{hook.field: hook.part for hook in own})
    shared = [hook.adapter for hook in own if hook.adapter is not None and hook.adapter.is_shared]
    log = shared[0].log if shared else SessionLog()
    if session is not None and not log.is_resumed:
        log.record = session
    return Door(log, parts, next((hook.speaker for hook in own if hook.speaker), None))
