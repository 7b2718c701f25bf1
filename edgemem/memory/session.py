"""One session: its hooks, what they look through for a turn, and the extra hooks that an operator switches on.

Each hook reads its numbers from the settings and the budget that hold now. An extra hook that cannot be made does not keep
a robot from talking: it is left out, told in the log, and shown by `check`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.context.block.select import floors_of
from edgemem.context.compaction.extractive import ExtractiveSummarizer, QuickSummarizer
from edgemem.context.compaction.planner import EpochPlanner
from edgemem.context.prompt.log import PromptLog
from edgemem.errors import StoreError
from edgemem.hooks.compaction import ContextCompactionHook
from edgemem.hooks.conversation import Conversation
from edgemem.hooks.early_recall import EarlyRecallHook
from edgemem.hooks.episode_logger import EpisodeLoggerHook
from edgemem.hooks.injection import MemoryInjectionHook
from edgemem.hooks.loader import LOADING, load_entry_points
from edgemem.hooks.notes_injector import NotesInjectorHook
from edgemem.hooks.persist import PersistSessionHook
from edgemem.hooks.points import Hook
from edgemem.hooks.prompt import LayoutHook, TokenBudgetHook, WindowPlanHook
from edgemem.hooks.registry import HookFailure
from edgemem.hooks.turn_log import TurnLogHook
from edgemem.hooks.upkeep import Warming
from edgemem.recall.people.hints import SOMEBODY_HERE
from edgemem.records import Epoch, Kind

if TYPE_CHECKING:
    from edgemem.clock import Clock
    from edgemem.config import HookSettings, Profile
    from edgemem.context.budget import Budget
    from edgemem.context.compaction.extractive import Summarizer
    from edgemem.hooks.audit_log import AuditLogHook
    from edgemem.hooks.conversation import Conversation
    from edgemem.hooks.tool_output import ToolOutputTruncatorHook
    from edgemem.hooks.upkeep import UpkeepHook
    from edgemem.llama.protocols import ChatModel
    from edgemem.memory import Memory
    from edgemem.records import Reader

_log = logging.getLogger(__name__)

AUDIT_BYTES = 1_000_000
"""Bytes of the audit log before a new file begins."""

AUDIT_FILES = 3
"""Older files of the audit log that are kept."""

log = logging.getLogger("edgemem.hooks")

SIGHTS: tuple[frozenset[Kind], ...] = (
    frozenset(("fact", "preference")),
    frozenset(("note",)),
    frozenset(("episode", "turn")),
)
"""What a turn recalls apart: turns and notes are many and long, and would leave no place for the few facts. A summary is
too long for a block, and says what turns say."""

LOOKED_UP: tuple[frozenset[Kind], ...] = (*SIGHTS, frozenset(("summary",)))
"""What a model looks through when it asks."""


class SessionHooks:
    """The hooks of one session.

    Args:
        speaker: who speaks where the loop does not say it.
        agent: the name that episodes carry.
        budget: divides the model's window, and has what counts its tokens.
        model: the chat model of the session, which may write its summaries.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        session_id: str,
        speaker: str | None,
        agent: str,
        budget: Budget,
        model: ChatModel | None,
    ) -> None:
        self._memory, self._budget, self._model = memory, budget, model
        self._session_id, self._speaker, self._agent = session_id, speaker, agent
        self._settings = settings = memory.settings
        self._layout = PromptLog(session_id, settings=settings)
        self._layout.epoch = Epoch(session_id, 0, reason="begin", started_at=memory.clock.now())
        self._conversation = Conversation(self._layout, settings=settings)
        self._planner = EpochPlanner(
            self._layout,
            budget,
            self._summarizer(),
            current=lambda facts: self._memories.current(facts, SOMEBODY_HERE),
            now=memory.clock.now,
        )
        self._early = EarlyRecallHook(
            memory.ahead,
            arguments=lambda reader: searching(settings.now, self._conversation, reader),
            conversation=self._conversation,
            speaker=speaker,
        )
        self._memories = MemoryInjectionHook(
            memory.store,
            settings=settings,
            budget=budget,
            speaker=speaker,
            recall=self._early.recall,
            tokenizer=budget.tokenizer,
            sizes=self._planner.prompt_size.cache,
            conversation=self._conversation,
            now=memory.clock.now,
        )

    def all(self, upkeep: UpkeepHook) -> list[Hook]:
        """Return them.

        Args:
            upkeep: holds idle work while somebody speaks.
        """
        memory, settings, conversation = self._memory, self._settings, self._conversation
        last_word = TokenBudgetHook(budget=self._budget)
        compaction = ContextCompactionHook(
            planner=self._planner,
            # On the hot path there is no time to compare sentences, or to embed them.
            fallback=QuickSummarizer(self._budget.tokenizer),
            conversation=conversation,
            warming=self._warming(),
        )
        turn_log = TurnLogHook(
            write=lambda: settings.now.log.turn,
            keep=memory.figures.note,
            recalled=memory.last_recall,
            early=lambda: (memory.ahead.counts.turns, memory.ahead.counts.ready),
            now=memory.clock.now,
            conversation=conversation,
        )
        persist = PersistSessionHook(
            memory.sessions,
            session_id=self._session_id,
            speaker=self._speaker,
            conversation=conversation,
            settings=settings,
        )
        return [
            turn_log.first,
            upkeep.first,
            persist,
            LayoutHook(speaker=self._speaker, conversation=conversation, now=memory.clock.now),
            WindowPlanHook(
                self._budget,
                fits=lambda: not last_word.note,
                note=memory.failures.note,
                conversation=conversation,
            ),
            self._early,
            self._memories,
            NotesInjectorHook(
                memory.notes,
                settings=settings,
                budget=self._budget,
                speaker=self._speaker,
                conversation=conversation,
            ),
            compaction,
            last_word,
            EpisodeLoggerHook(memory.store, self._agent, speaker=self._speaker, conversation=conversation),
            *self._shortening(),
            persist.accept_last(),
            turn_log,
            upkeep,
        ]

    def _shortening(self) -> list[ToolOutputTruncatorHook]:
        most = self._settings.now.hooks.tool_output_chars
        if not most:
            return []
        from edgemem.hooks.tool_output import KEPT_BYTES, ToolOutputTruncatorHook

        return [
            ToolOutputTruncatorHook(
                most,
                budget=self._budget,
                keep_bytes=KEPT_BYTES,
                conversation=self._conversation,
            )
        ]

    def _summarizer(self) -> Summarizer:
        """Return what makes the summaries in idle time."""
        extractive = ExtractiveSummarizer(lambda: self._memory.embedder, self._budget.tokenizer)
        compaction = self._settings.now.compaction
        if compaction.summarizer == "extractive" or self._model is None:
            return extractive
        beside = getattr(self._model, "beside", None)
        side = beside and beside(n_ctx=compaction.summary_ctx, threads=1)
        if side is None:
            _log.warning(
                '[compaction] summarizer = "model" needs a model in this process, or a second slot of its server'
                " (-np 2); summaries are made of sentences that were said."
            )
            return extractive
        # Its checks of what a model wrote are a dozen modules, which most robots never need.
        from edgemem.context.compaction.model import ModelSummarizer

        return ModelSummarizer(side, extractive)

    def _warming(self) -> Warming | None:
        """Return what has the model read a new epoch's prompt before it begins."""
        if not self._settings.now.compaction.warm or self._model is None:
            return None
        ahead = getattr(self._model, "ahead", None)
        if ahead is None:
            _log.warning(
                "[compaction] warm needs a model in this process; a new epoch's prompt is read with its first turn."
            )
            return None
        return Warming(ahead(), self._layout)


class Extras:
    """The extra hooks of one home; its sessions share one audit log."""

    def __init__(self, home: Path, clock: Clock, *, note: Callable[[HookFailure], None]) -> None:
        """Make no hook yet.

        Args:
            home: relative paths mean files in it.
            note: keeps a failure for `check`.
        """
        self._home = home
        self._clock = clock
        self._note = note
        self._audit: AuditLogHook | None = None
        self._audited: HookSettings | None = None

    def hooks(self, profile: Profile) -> list[Hook]:
        """Return the hooks of one session."""
        settings, hooks = profile.hooks, list[Hook]()
        # Imported here: most robots need none of them.
        if settings.tool_retries:
            from edgemem.hooks.tool_retry import ToolErrorRetryHook

            hooks.append(ToolErrorRetryHook(settings.tool_retries))
        if profile.log.hooks:
            from edgemem.hooks.turn_log import TimingHook

            hooks.append(TimingHook(log=True))
        if settings.packages:
            loaded = load_entry_points(only=settings.packages)
            hooks += loaded.hooks.values()
            for failure in loaded.failures:
                self._note(failure)
        audit = self._audit_log(settings)
        return [*hooks, audit] if audit is not None else hooks

    def logs(self, profile: Profile) -> tuple[Path, ...]:
        """Return the files in which words of a person may stand."""
        path = self._audit_path(profile.hooks)
        return () if path is None else (path,)

    def close(self) -> None:
        """Close the audit log; a second call does nothing."""
        audit, self._audit = self._audit, None
        if audit is not None:
            audit.close()

    def _audit_path(self, settings: HookSettings) -> Path | None:
        return self._home / Path(settings.audit_log).expanduser() if settings.audit_log else None

    def _audit_log(self, settings: HookSettings) -> AuditLogHook | None:
        path = self._audit_path(settings)
        if path is None:
            return None
        if self._audit is not None and self._audited == settings:
            return self._audit
        from edgemem.hooks.audit_log import AuditLogHook

        try:
            audit_log = AuditLogHook(
                path,
                max_bytes=AUDIT_BYTES,
                keep=AUDIT_FILES,
                text=None if settings.audit_text == "none" else settings.audit_text,
                clock=self._clock,
            )
        except StoreError as error:
            log.warning("%s Turns are not written to it.", error)
            self._note(HookFailure("AuditLogHook", LOADING, 1, str(error)))
            return None
        # Sessions that began with an older one go on with it; it is closed with the last of them.
        self._audit, self._audited = audit_log, settings
        return audit_log


def searching(profile: Profile, conversation: Conversation, reader: Reader | None) -> dict[str, Any]:
    """Return how to search for a reader's next turn, given what the prompt holds now."""
    # A copy: while somebody speaks, the layout is still that of the reader before.
    layout = copy(conversation.layout)
    layout.reader = reader
    visible, floors = layout.visible(), floors_of(profile.injection)
    return {
        "reader": reader,
        "asked": False,
        # A turn that only asks is left out behind this, and must not have taken the place of one that tells.
        "k": 2 * profile.recall.k,
        "apart": SIGHTS,
        "min_score": floors.lowest,
        "deadline_s": profile.recall.deadline_ms / 1e3,
        "exclude": visible.others,
        # A fact that the prompt holds is still the best answer: without it, a worse one would be said.
        "known": visible.valued,
        "skip_turns": (layout.session, layout.visible_turns()),
        "called": profile.called(),
    }
