"""The hooks with EdgeVox's names, for loops that keep their own list of messages: each calls a part of the session at its points.

`edgemem.session.steps` has the order in which the door calls the same parts; here it follows from the priorities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.context.messages import split_instructions
from edgemem.hooks.persist import PersistSessionHook, PromptLogHook
from edgemem.hooks.shared import (
    TURN,
    SharedHook,
    log_of,
    reader_of,
)
from edgemem.records import Session
from edgemem.session.compaction import Compaction, ListCompaction
from edgemem.session.episodes import ToolEpisodes
from edgemem.session.figures import TurnLog
from edgemem.session.log import Moment, SessionLog
from edgemem.session.memory_block import MemoryBlock
from edgemem.session.notes_block import NotesBlock
from edgemem.session.points import (
    AFTER_LLM,
    AFTER_TOOL,
    BEFORE_LLM,
    BEFORE_TOOL,
    ON_ABORT,
    ON_IDLE,
    ON_PARTIAL,
    ON_RUN_END,
    ON_RUN_START,
    ON_SPEECH_START,
    Hook,
    HookResult,
    SecondPlace,
    attachable,
    given_store,
    header_line,
    needs,
)
from edgemem.session.prompt import WindowBudget
from edgemem.session.results import ToolResults
from edgemem.session.steps import Parts
from edgemem.session.upkeep import StateKeeping, UpkeepHold
from edgemem.store.validation import whole_number

if TYPE_CHECKING:
    from edgemem.context.budget import Budget
    from edgemem.context.compaction.compactor import Compactor
    from edgemem.llama.protocols import Tokenizer
    from edgemem.session.prefetch import SessionPrefetch
    from edgemem.session.proposals import Proposals
    from edgemem.session.registry import HookFailure
    from edgemem.store.notes import NotesFile
    from edgemem.store.protocols import MemoryStore


class MemoryInjectionHook(SharedHook):
    """Put recalled items into the newest user message, as a delta, once a turn."""

    points = TURN | {BEFORE_LLM}
    priority = 80

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
        log: SessionLog | None = None,
        part: MemoryBlock | None = None,
    ) -> None:
        """Make the hook.

        Args:
            memory_store: the same as `store`, as EdgeVox calls it.
            max_facts: at most this many facts are candidates.
            max_episodes: at most this many episodes are candidates.
            header: a line that opens the block.
            max_chars: at most this much text is candidate.
            speaker: who speaks where the loop does not say it.
            part: the part of a memory's session, in place of all but `speaker` and `log`.
        """
        super().__init__(log, speaker)
        if part is None:
            given = given_store(self, store, memory_store)
            needs(self, given, "facts", "get_fact", "recent_episodes", what="a memory store")
            part = MemoryBlock(
                given,
                max_facts=max_facts,
                max_episodes=max_episodes,
                header=header_line(self, header),
                max_chars=max_chars,
            )
        self.part = part

    @property
    def store(self) -> MemoryStore:
        """Return the memory store."""
        return self.part.store

    def act(self, moment: Moment) -> None:
        """Fill the block before the first call of the model."""
        self.part.fill(moment)
        moment.put_view()

    def end(self, moment: Moment) -> None:
        """Write what tools of this turn added."""
        self.part.end(moment)


class NotesInjectorHook(SharedHook):
    """Put the tail of the notes into the newest user message, and later only lines not shown yet."""

    points = TURN | {BEFORE_LLM}
    priority = 79

    def __init__(
        self,
        notes: NotesFile | None = None,
        max_chars: int = 1500,
        header: str = "Notes:",
        *,
        speaker: str | None = None,
        log: SessionLog | None = None,
        part: NotesBlock | None = None,
    ) -> None:
        """Make the hook.

        Args:
            max_chars: at most this much of the file's end is shown.
            header: a line before the notes.
            speaker: who speaks where the loop does not say it; the file's `level` says who may read it.
            part: the part of a memory's session, in place of all but `speaker` and `log`.
        """
        super().__init__(log, speaker)
        if part is None:
            needs(self, notes, "tail", what="a NotesFile")
            assert notes is not None  # noqa: S101 - `needs` has raised
            part = NotesBlock(notes, max_chars=max_chars, header=header_line(self, header))
        self.part = part

    def act(self, moment: Moment) -> None:
        """Add the notes before the first call of the model."""
        self.part.fill(moment)
        moment.put_view()


class ProposalHook(SharedHook):
    """Propose at most one known way to do something a turn, and count how it went."""

    points = TURN | {BEFORE_LLM, AFTER_TOOL}
    priority = 78

    def __init__(self, part: Proposals, *, speaker: str | None = None, log: SessionLog | None = None) -> None:
        super().__init__(log, speaker)
        self.part = part

    def act(self, moment: Moment) -> None:
        """Propose before the first call of the model; after a tool, note how it went."""
        if moment.log is not (self.log or moment.log):
            return  # of an agent within a tool, whose prompt is another
        if isinstance(moment.payload, dict):
            self.part.propose(moment)
            moment.put_view()
        else:
            self.part.note(moment)


class ContextCompactionHook:
    """Compact whole turns into a summary.

    With a memory, in idle time, or, when the user is faster, at once and simply; else the loop's own message list, as the seed does.
    """

    is_builtin = True
    points = frozenset({ON_RUN_START, BEFORE_LLM, ON_RUN_END, ON_IDLE})
    # After memory and notes have put their lines in, before the budget has the last word.
    priority = 70
    __repr__ = attachable

    def __init__(
        self,
        compactor: Compactor | None = None,
        llm_getter: Callable[[Any], Any] | None = None,
        *,
        log: SessionLog | None = None,
        part: Compaction | None = None,
    ) -> None:
        """Make the hook.

        Args:
            compactor: compacts the loop's own message list.
            llm_getter: returns, for the context of a turn, what counts tokens for the compactor.
            part: the part of a memory's session, in place of the compactor.
        """
        self.part = part
        self.seed = None if compactor is None else ListCompaction(compactor, llm_getter)
        self.log = log

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Prepare in idle time, switch between turns, and guard the window before the model is called."""
        moment = Moment(log_of(ctx, self.log), ctx, payload)
        if self.part is None:
            if point == BEFORE_LLM and self.seed is not None:
                self.seed.guard(moment)
        elif point == ON_IDLE:
            self.part.idle(moment)
        elif point == ON_RUN_START:
            self.part.switch(moment)
        elif point == ON_RUN_END:
            self.part.end(moment)
        else:
            self.part.guard(moment)
        return HookResult.replace(moment.payload) if moment.payload is not payload else None


class TokenBudgetHook:
    """Drop the oldest whole turns from the prompt until it fits, and never the newest utterance; the log keeps them."""

    is_builtin = True
    points = frozenset({BEFORE_LLM, ON_RUN_END})
    priority = 60

    def __init__(
        self,
        max_context_tokens: int = 4000,
        keep_last: int = 4,
        *,
        low_water: float = 0.6,
        tokenizer: Tokenizer | None = None,
        log: SessionLog | None = None,
        part: WindowBudget | None = None,
    ) -> None:
        """Make the hook.

        Args:
            max_context_tokens: what the prompt may take, tools and template included.
            keep_last: kept for the seed's signature; whole turns are dropped, oldest first, and the newest stays.
            low_water: share of the budget to go down to when it is passed, because each cut costs the cache.
            tokenizer: counts; None: whatever `tokenizer_of` finds in the context's `llm`.
            part: the part of a memory's session, in place of all of these.
        """
        most = whole_number(max_context_tokens, "max_context_tokens")
        self.keep_last = keep_last
        self.log = log
        self.part = part or WindowBudget(max_context_tokens=most, low_water=low_water, tokenizer=tokenizer)

    @property
    def max_context_tokens(self) -> int:
        """Return what the prompt may take, tools and template included."""
        return self.part.max_context_tokens

    @property
    def second_place(self) -> SecondPlace | None:
        """Return the hook's second place, where it measures the prompt: behind the prompt log, before all that adds to a prompt."""
        return (
            SecondPlace(frozenset({BEFORE_LLM}), 82, self._measure) if self.part.budget is not None else None
        )

    def _is_own(self, ctx: Any) -> bool:
        """Tell whether this is no agent within a tool, which has a prompt of its own."""
        return self.log in (None, log_of(ctx, self.log))

    def _measure(self, point: str, ctx: Any, payload: Any) -> None:
        if self.part.budget is not None and payload.get("hop", 0) == 0 and self._is_own(ctx):
            self.part.budget.measure(split_instructions(payload["messages"])[0], payload.get("tools"))

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Cut the messages to the budget; at the end, note whether the model had no room for them."""
        moment = Moment(self.log or SessionLog(), ctx, payload)
        if point == BEFORE_LLM:
            self.part.fit(moment)
        elif self._is_own(ctx):
            self.part.end(moment)
        return HookResult.replace(moment.payload, reason="budget") if moment.payload is not payload else None


class ToolOutputTruncatorHook:
    """Shorten results of tools to a number of characters, and to what the window has room for."""

    is_builtin = True
    points = frozenset({BEFORE_LLM, AFTER_TOOL})
    # Before any hook that keeps or shows the result.
    priority = 40

    def __init__(
        self,
        max_chars: int = 2000,
        *,
        budget: Budget | None = None,
        keep_bytes: int = 0,
        log: SessionLog | None = None,
        part: ToolResults | None = None,
    ) -> None:
        """Make the hook; the arguments are those of `ToolResults`.

        Args:
            part: the part of a memory's session, in place of these.
        """
        self.log = log
        self.part = part or ToolResults(max_chars, budget=budget, keep_bytes=keep_bytes)

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Begin to count with a turn, and replace a result that is too long."""
        moment = Moment(log_of(ctx, self.log), ctx, payload)
        if point == BEFORE_LLM:
            self.part.begin(moment)
        else:
            self.part.shorten(moment)
        return (
            HookResult.replace(moment.payload, reason="truncated") if moment.payload is not payload else None
        )


class EpisodeLoggerHook(SharedHook):
    """Log the outcome of every tool call; in the turn's own transaction where the session is kept in SQLite."""

    points = TURN | {AFTER_TOOL}
    priority = 0

    def __init__(
        self,
        store: MemoryStore | None = None,
        agent_name: str = "",
        *,
        memory_store: MemoryStore | None = None,
        speaker: str | None = None,
        log: SessionLog | None = None,
        part: ToolEpisodes | None = None,
    ) -> None:
        """Make the hook; `memory_store` is `store`, as EdgeVox calls it."""
        super().__init__(log, speaker)
        if part is None:
            given = given_store(self, store, memory_store)
            needs(self, given, "add_episode", what="a memory store")
            part = ToolEpisodes(given, agent_name)
        self.part = part

    @property
    def store(self) -> MemoryStore:
        """Return the memory store."""
        return self.part.store

    @property
    def second_place(self) -> SecondPlace:
        """Return the hook's second place, last before a tool, where it takes the time at which it begins."""
        return SecondPlace(frozenset({BEFORE_TOOL}), -1000, self._begin)

    def _begin(self, point: str, ctx: Any, payload: Any) -> None:
        self.part.begin(Moment(log_of(ctx, self.log), ctx, payload))

    def act(self, moment: Moment) -> None:
        """Keep the outcome of one call."""
        turn = moment.log.prompt_log.running
        if turn is not None and not turn.messages:  # no other hook has looked at the messages
            moment.log.prompt_log.take(moment.ctx.session.messages)
        self.part.note(moment)

    def end(self, moment: Moment) -> None:
        """Write what the store has not written yet."""
        self.part.end(moment)


class EarlyRecallHook:
    """Hand half-heard sentences to the thread that recalls ahead."""

    is_builtin = True
    points = frozenset({ON_SPEECH_START, ON_PARTIAL, ON_RUN_START, ON_RUN_END, ON_ABORT, ON_IDLE})
    # Behind the hooks that end a turn, so that what the prompt holds is what the next one will find; before upkeep.
    priority = -800

    def __init__(
        self, part: SessionPrefetch, *, speaker: str | None = None, log: SessionLog | None = None
    ) -> None:
        self.part = part
        self.speaker = speaker
        self.log = log

    def __call__(self, point: str, ctx: Any, payload: Any) -> None:
        """Note a half-heard sentence, or that it is over."""
        moment = Moment(self.log or log_of(ctx), ctx, payload)
        if point == ON_PARTIAL:
            moment.reader = reader_of(ctx, payload, speaker=self.speaker)
            self.part.partial(moment)
        elif point == ON_SPEECH_START:
            self.part.speech(moment)
        elif point == ON_IDLE:
            self.part.idle(moment)
        elif point == ON_RUN_START:
            self.part.begin(moment)
        else:
            self.part.end(moment)


class TurnLogHook:
    """Log one JSON object a turn: the first of all hooks takes the time, the last of all counts."""

    is_builtin = True
    points = frozenset({BEFORE_LLM, AFTER_LLM, ON_RUN_END, ON_ABORT})
    priority = -1000
    __repr__ = attachable

    def __init__(self, *, log: SessionLog | None = None, part: TurnLog | None = None) -> None:
        self.log = log
        self.part = part or TurnLog()

    @property
    def second_place(self) -> SecondPlace:
        """Return the hook's second place, where it takes the time at which a point begins: before all others."""
        return SecondPlace(frozenset({ON_RUN_START, AFTER_LLM, ON_RUN_END}), 1000, self._begin)

    def _begin(self, point: str, ctx: Any, payload: Any) -> None:
        moment = Moment(log_of(ctx, self.log), ctx, payload)
        if point == ON_RUN_START:
            self.part.begin(moment)
        elif point == AFTER_LLM:
            self.part.answer(moment)
        else:
            self.part.ending(moment)

    def __call__(self, point: str, ctx: Any, payload: Any) -> None:
        """Collect, and log when the turn has ended."""
        moment = Moment(log_of(ctx, self.log), ctx, payload)
        if point == BEFORE_LLM:
            self.part.call(moment)
        elif point == AFTER_LLM:
            self.part.count(moment)
        elif point == ON_RUN_END:
            self.part.end(moment)
        else:
            self.part.abort(moment)


class UpkeepHook:
    """Hold idle work from the first sound, before any other hook acts, until the end of the turn, when that is written.

    A loop that knows only the six classic points gets the same: upkeep then follows `on_run_end`.
    """

    is_builtin = True
    points = frozenset({ON_RUN_END, ON_ABORT, ON_IDLE})
    # Behind all others: the turn is not over before it is written.
    priority = -1001
    __repr__ = attachable

    def __init__(
        self, part: UpkeepHold, *, note_failure: Callable[[HookFailure], None] = lambda _: None
    ) -> None:
        """Make the hook.

        Args:
            note_failure: keeps what the registry says has failed, in whichever hook.
        """
        self.part = part
        self.note_failure = note_failure

    @property
    def second_place(self) -> SecondPlace:
        """Return the hook's second place, where it stops idle work: before recall, so that nothing competes with that."""
        return SecondPlace(frozenset({ON_SPEECH_START, ON_PARTIAL, ON_RUN_START}), 100, self._hold)

    def _hold(self, point: str, ctx: Any, payload: Any) -> None:
        moment = Moment(log_of(ctx), ctx, payload)
        if point == ON_SPEECH_START:
            self.part.speech(moment)
        elif point == ON_PARTIAL:
            self.part.partial(moment)
        else:
            self.part.begin(moment)

    def __call__(self, point: str, ctx: Any, payload: Any) -> None:
        """Let idle work go on; at `on_idle`, work."""
        moment = Moment(log_of(ctx), ctx, payload)
        if point == ON_IDLE:
            self.part.idle(moment)
        else:
            self.part.end(moment)


class KeepStateHook:
    """Keep the state of the model, in the thread of the turn."""

    is_builtin = True
    points = frozenset({ON_RUN_END})
    # After the commit, and before the figures of the turn are written.
    priority = -900

    def __init__(self, part: StateKeeping) -> None:
        self.part = part

    def __call__(self, point: str, ctx: Any, payload: Any) -> None:
        """Work, unless the turn was cut off."""
        self.part.end(Moment(log_of(ctx), ctx, payload))


def hooks_of(
    parts: Parts, log: SessionLog, *, speaker: str | None, note_failure: Callable[[HookFailure], None]
) -> list[Hook]:
    """Return the hooks that call the parts of a session.

    Args:
        speaker: who speaks where the loop does not say it.
        note_failure: keeps what the registry says has failed, in whichever hook.
    """
    hooks: list[Hook] = [
        PersistSessionHook(log=log, speaker=speaker, part=parts.session),
        PromptLogHook(log=log, speaker=speaker, part=parts.head),
    ]
    if parts.prefetch is not None:
        hooks.append(EarlyRecallHook(parts.prefetch, log=log, speaker=speaker))
    if parts.memory is not None:
        hooks.append(MemoryInjectionHook(log=log, speaker=speaker, part=parts.memory))
    if parts.notes is not None:
        hooks.append(NotesInjectorHook(log=log, speaker=speaker, part=parts.notes))
    if parts.proposals is not None:
        hooks.append(ProposalHook(parts.proposals, log=log, speaker=speaker))
    if parts.compaction is not None:
        hooks.append(ContextCompactionHook(log=log, part=parts.compaction))
    if parts.budget is not None:
        hooks.append(TokenBudgetHook(log=log, part=parts.budget))
    if parts.episodes is not None:
        hooks.append(EpisodeLoggerHook(log=log, speaker=speaker, part=parts.episodes))
    if parts.figures is not None:
        hooks.append(TurnLogHook(log=log, part=parts.figures))
    if parts.upkeep is not None:
        hooks.append(UpkeepHook(parts.upkeep, note_failure=note_failure))
    if parts.state is not None:
        hooks.append(KeepStateHook(parts.state))
    if parts.results is not None:
        hooks.append(ToolOutputTruncatorHook(log=log, part=parts.results))
    return hooks


class Door(NamedTuple):
    """What a conversation is made of, as hooks have it."""

    log: SessionLog
    parts: Parts
    speaker: str | None
    """Who speaks where the loop does not say it."""


def door_of(hooks: Iterable[Hook], session: Session | None = None) -> Door:
    """Return the log and parts that edgemem's own hooks among some call.

    Loops with the same hook for the session share its log: each goes on where the other stopped.

    Args:
        session: the record of a loop that brings one; a log that is in use has a record already.
    """
    parts, log, speaker = Parts(), None, None
    persist: PersistSessionHook | None = None
    for hook in hooks:
        if isinstance(hook, SharedHook):
            speaker = speaker or hook.speaker
        if isinstance(hook, PersistSessionHook):
            parts.session, persist, log = hook.part, hook, hook.log
        elif isinstance(hook, PromptLogHook):
            parts.head = hook.part
        elif isinstance(hook, MemoryInjectionHook):
            parts.memory = hook.part
        elif isinstance(hook, NotesInjectorHook):
            parts.notes = hook.part
        elif isinstance(hook, ProposalHook):
            parts.proposals = hook.part
        elif isinstance(hook, ContextCompactionHook):
            parts.compaction, parts.compactor = hook.part, hook.seed
        elif isinstance(hook, TokenBudgetHook):
            parts.budget = hook.part
        elif isinstance(hook, ToolOutputTruncatorHook):
            parts.results = hook.part
        elif isinstance(hook, EpisodeLoggerHook):
            parts.episodes = hook.part
        elif isinstance(hook, EarlyRecallHook):
            parts.prefetch = hook.part
        elif isinstance(hook, TurnLogHook):
            parts.figures = hook.part
        elif isinstance(hook, UpkeepHook):
            parts.upkeep = hook.part
        elif isinstance(hook, KeepStateHook):
            parts.state = hook.part
    if log is None:
        log = SessionLog()
        if persist is not None:
            persist.log = log
    if session is not None and not log.is_resumed:
        log.record = session
    return Door(log, parts, speaker)
