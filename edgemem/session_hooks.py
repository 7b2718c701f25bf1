"""The hooks of a session: made once, each with its numbers of the profile, and given new ones when those change."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from edgemem.context.compaction.extractive import ExtractiveSummarizer, QuickSummarizer
from edgemem.context.compaction.planner import EpochPlanner
from edgemem.context.prompt.log import PromptLog
from edgemem.hooks.compaction import ContextCompactionHook
from edgemem.hooks.conversation import Conversation
from edgemem.hooks.early_recall import EarlyRecallHook
from edgemem.hooks.episode_logger import EpisodeLoggerHook
from edgemem.hooks.injection import MemoryInjectionHook
from edgemem.hooks.layout_view import LayoutHook
from edgemem.hooks.notes_injector import NotesInjectorHook
from edgemem.hooks.persist import PersistSessionHook
from edgemem.hooks.points import Hook
from edgemem.hooks.settings import SettingsHook
from edgemem.hooks.token_budget import TokenBudgetHook
from edgemem.hooks.turn_log import TurnLogHook
from edgemem.hooks.warming import Warming
from edgemem.hooks.window_plan import WindowPlanHook
from edgemem.recall.people.hints import SOMEBODY_HERE
from edgemem.records import Epoch
from edgemem.searching import floors_of, searching

if TYPE_CHECKING:
    from edgemem.config import Profile
    from edgemem.context.budget import Budget, Plan
    from edgemem.context.compaction.extractive import Summarizer
    from edgemem.hooks.tool_output import ToolOutputTruncatorHook
    from edgemem.hooks.upkeep import UpkeepHook
    from edgemem.llama.protocols import ChatModel
    from edgemem.memory import Memory

_log = logging.getLogger(__name__)


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
        settings = memory.profile
        self._layout = PromptLog(session_id, default_level=settings.memory.default_level)
        self._layout.utterance_bytes = settings.context.utterance_bytes
        self._layout.epoch = Epoch(session_id, 0, reason="begin", started_at=memory.clock.now())
        self._conversation = Conversation(self._layout, commit_wait_s=settings.store.commit_wait_s)
        self._planner = self._make_planner()
        self._early = EarlyRecallHook(
            memory.ahead,
            arguments=lambda reader: searching(self._turn.profile, self._conversation, reader),
            conversation=self._conversation,
            speaker=speaker,
        )
        self._memories = self._make_injection()
        self._notes = NotesInjectorHook(
            memory.notes,
            settings.notes.inject_chars,
            max_tokens=budget.plan["notes"],
            tokenizer=budget.tokenizer,
            speaker=speaker,
            conversation=self._conversation,
        )
        self._last_word = TokenBudgetHook(budget.plan.room, tokenizer=budget.tokenizer)
        self._shortening = self._make_shortening()
        self._window = WindowPlanHook(
            budget,
            apply=self._divide,
            fits=lambda: not self._last_word.note,
            note=memory.failures.note,
            conversation=self._conversation,
        )
        self._turn = SettingsHook(settings, newest=memory.renew, apply=self._take)

    def all(self, upkeep: UpkeepHook) -> list[Hook]:
        """Return them.

        Args:
            upkeep: holds idle work while somebody speaks.
        """
        memory, conversation = self._memory, self._conversation
        compaction = ContextCompactionHook(
            planner=self._planner,
            # On the hot path there is no time to compare sentences, or to embed them.
            fallback=QuickSummarizer(self._budget.tokenizer),
            conversation=conversation,
            warming=self._warming(),
        )
        turn_log = TurnLogHook(
            write=lambda: memory.profile.log.turn,
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
            chars_per_s=memory.profile.context.speech_chars_s,
        )
        return [
            turn_log.first,
            upkeep.first,
            self._turn,
            persist,
            LayoutHook(speaker=self._speaker, conversation=conversation, now=memory.clock.now),
            self._window,
            self._early,
            self._memories,
            self._notes,
            compaction,
            self._last_word,
            EpisodeLoggerHook(memory.store, self._agent, speaker=self._speaker, conversation=conversation),
            *self._shortening,
            persist.accept_last(),
            turn_log,
            upkeep,
        ]

    # -- what changes while it runs ------------------------------------------------------------------

    def _take(self, profile: Profile) -> None:
        """Take what was changed in the profile."""
        self._layout.default_level = profile.memory.default_level
        self._layout.utterance_bytes = profile.context.utterance_bytes
        self._conversation.commit_wait_s = profile.store.commit_wait_s
        planner, context, injection = self._planner, profile.context, profile.injection
        extractive = ExtractiveSummarizer(self._memory.embedder, self._budget.tokenizer)
        if hasattr(planner.summarizer, "fallback"):
            planner.summarizer.fallback = extractive
        else:
            planner.summarizer = extractive
        planner.high_water, planner.low_water = context.high_water, context.low_water
        planner.keep_last_turns = context.keep_last_turns
        self._memories.max_facts = injection.max_facts
        self._memories.max_episodes = injection.max_episodes
        self._memories.header = injection.header.strip()
        self._memories.max_chars = injection.max_chars
        self._memories.floors = floors_of(injection)
        self._notes.max_chars = profile.notes.inject_chars
        self._budget.context = context
        self._window.take()

    def _divide(self, plan: Plan) -> None:
        """Give everybody their share of the window."""
        planner = self._planner
        planner.window_tokens, planner.reply_tokens = plan.window_tokens, plan["answer"]
        planner.summary_tokens = plan["summary"]
        self._memories.block_tokens = plan["memory"]
        self._notes.max_tokens = plan["notes"]
        self._last_word.max_context_tokens = plan.room
        for hook in self._shortening:
            hook.room_tokens = plan.room

    # -- how they are made ---------------------------------------------------------------------------

    def _make_planner(self) -> EpochPlanner:
        plan, context = self._budget.plan, self._memory.profile.context
        return EpochPlanner(
            self._layout,
            self._budget.tokenizer,
            self._summarizer(),
            window_tokens=plan.window_tokens,
            reply_tokens=plan["answer"],
            high_water=context.high_water,
            low_water=context.low_water,
            keep_last_turns=context.keep_last_turns,
            summary_tokens=plan["summary"],
            current=lambda facts: self._memories.current(facts, SOMEBODY_HERE),
            now=self._memory.clock.now,
        )

    def _make_injection(self) -> MemoryInjectionHook:
        injection = self._memory.profile.injection
        return MemoryInjectionHook(
            self._memory.store,
            injection.max_facts,
            injection.max_episodes,
            injection.header,
            max_chars=injection.max_chars,
            block_tokens=self._budget.plan["memory"],
            speaker=self._speaker,
            floors=floors_of(injection),
            recall=self._early.recall,
            tokenizer=self._budget.tokenizer,
            sizes=self._planner.prompt_size.cache,
            conversation=self._conversation,
            now=self._memory.clock.now,
        )

    def _make_shortening(self) -> list[ToolOutputTruncatorHook]:
        settings = self._memory.profile.hooks
        if not settings.tool_output_chars:
            return []
        from edgemem.hooks.tool_output import ToolOutputTruncatorHook

        return [
            ToolOutputTruncatorHook(
                settings.tool_output_chars,
                room_tokens=self._budget.plan.room,
                share=settings.tool_output_share,
                tokenizer=self._budget.tokenizer,
                keep_bytes=int(settings.tool_output_mb * 1e6),
                conversation=self._conversation,
            )
        ]

    def _summarizer(self) -> Summarizer:
        """Return what makes the summaries in idle time."""
        extractive = ExtractiveSummarizer(self._memory.embedder, self._budget.tokenizer)
        settings = self._memory.profile.compaction
        if settings.summarizer == "extractive" or self._model is None:
            return extractive
        beside = getattr(self._model, "beside", None)
        side = beside and beside(n_ctx=settings.summary_ctx, threads=settings.summary_threads)
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
        if not self._memory.profile.compaction.warm or self._model is None:
            return None
        ahead = getattr(self._model, "ahead", None)
        if ahead is None:
            _log.warning(
                "[compaction] warm needs a model in this process; a new epoch's prompt is read with its first turn."
            )
            return None
        return Warming(ahead(), self._layout)
