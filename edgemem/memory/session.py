"""One session: its hooks, what they look through for a turn, and the tools of its model; numbers are those in force."""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING

from edgemem.context.block.render import Today
from edgemem.context.budget import Budget
from edgemem.context.compaction.extractive import QUICK_CHARS, ExtractiveSummarizer
from edgemem.context.compaction.planner import EpochPlanner
from edgemem.context.prompt import PromptLog
from edgemem.languages.words import is_safety_key
from edgemem.recall.people.hints import SOMEBODY_HERE
from edgemem.recall.recall import Request
from edgemem.records import BANK_TOOLS, NOTES, Epoch, Kind, Reader, Recalled
from edgemem.session.figures import TurnLog
from edgemem.session.log import SessionLog
from edgemem.session.memory_block import MemoryBlock, NotesBlock
from edgemem.session.prompt import Compaction, PromptHead, WindowBudget
from edgemem.session.proposals import Proposals
from edgemem.session.speech import SessionPrefetch, StateKeeping, UpkeepHold
from edgemem.session.steps import Parts
from edgemem.session.stored import StoredSession
from edgemem.session.tools import ToolEpisodes, redacted_tool
from edgemem.store.pending_erasures import last_forgotten

if TYPE_CHECKING:
    from edgemem.config import Profile
    from edgemem.context.compaction.extractive import Summarizer
    from edgemem.llama.chat import LlamaChat
    from edgemem.llama.protocols import ChatModel
    from edgemem.memory.opened import Home
    from edgemem.session.tools import Tool

_log = logging.getLogger(__name__)

TURN_KIND_GROUPS: tuple[frozenset[Kind], ...] = (
    frozenset(("fact", "preference")),
    frozenset(("note", "bank", "thought")),
    frozenset(("episode", "turn")),
)
"""What a turn recalls apart: turns and notes are many and long, and leave no place for the few facts; a summary repeats turns."""

TOOL_KIND_GROUPS: tuple[frozenset[Kind], ...] = (*TURN_KIND_GROUPS, frozenset(("summary", "goal")))

TOOL_SCORE_SHARE = 0.05
"""The share of the least score down to which a search lists results, once one reaches that score: a few of each kind."""


def session_log(home: Home, session_id: str) -> SessionLog:
    """Return the log of a session that begins; one that is stored is taken up at its first turn."""
    prompt_log = PromptLog(session_id, settings=home.settings, prompt=home.bank.prompt())
    prompt_log.epoch = Epoch(session_id, 0, reason="begin", started_at=home.clock.now())
    prompt_log.never_aloud = home.store.never_aloud
    return SessionLog(prompt_log, settings=home.settings)


def session_parts(
    home: Home, log: SessionLog, *, agent: str, budget: Budget, model: ChatModel | None
) -> Parts:
    """Return the parts of one session; episodes carry `agent`, and the state of `model` is kept over a restart."""
    settings, now = home.settings, home.clock.now
    session_id = log.prompt_log.session
    planner = EpochPlanner(
        log.prompt_log,
        budget,
        _summarizer(home, budget, model),
        current=lambda facts: memory.current(facts, SOMEBODY_HERE),
        now=now,
    )
    prefetch = SessionPrefetch(home.prefetch, request=lambda reader: searching(settings.now, log, reader))
    sizes = planner.prompt_size.cache
    memory = MemoryBlock(
        home.store,
        settings=settings,
        budget=budget,
        recall=prefetch.recall,
        sizes=sizes,
        clock=home.clock,
        agenda=home.agenda,
    )
    compaction = Compaction(
        planner,
        log,
        # On the hot path there is no time to read all of it, or to embed it.
        fallback=ExtractiveSummarizer(budget.tokenizer, max_chars=QUICK_CHARS),
        model=_in_process(model),
    )
    home.in_use.compactions.add(compaction)
    results = None
    if most := settings.now.hooks.tool_output_chars:
        from edgemem.session.tools import KEPT_BYTES, ToolResults

        results = ToolResults(most, budget=budget, keep_bytes=KEPT_BYTES)
    return Parts(
        session=StoredSession(home.sessions, session_id, settings=settings, erase=home.eraser.turn),
        head=PromptHead(now=now),
        memory=memory,
        notes=NotesBlock(home.notes, settings=settings, budget=budget, bank=home.bank),
        proposals=Proposals(
            home.procedures,
            home.database,
            exist=lambda: home.search.may_hold("procedures"),
            budget=budget,
            sizes=sizes,
            today=lambda: Today(now(), settings.now.time.tzinfo()),
        ),
        compaction=compaction,
        budget=WindowBudget(budget=budget, note_overflow=home.failures.note),
        results=results,
        episodes=ToolEpisodes(home.store, agent),
        prefetch=prefetch,
        figures=TurnLog(
            settings=settings, keep=home.figures.note, search=home.search, early=home.prefetch.counts, now=now
        ),
        upkeep=UpkeepHold(home.upkeep, wake=home.load_models, renew=settings.renew),
        state=state_keeping(home, model),
    )


def _in_process(model: ChatModel | None) -> LlamaChat | None:
    if model is None:
        return None
    from edgemem.llama.chat import LlamaChat

    return model if isinstance(model, LlamaChat) else None


def state_keeping(home: Home, model: ChatModel | None) -> StateKeeping | None:
    """Let a model begin with its state from before a restart; return what keeps it, or None if it is elsewhere or this is off."""
    if model is None:
        return None
    from edgemem.llama.state import KeptState, remove_states

    settings, folder = home.profile.chat, home.path / "db"
    if settings.keep_state == "off":
        with suppress(OSError):  # a disk that cannot be written must not keep the robot from starting
            remove_states(folder)
        return None
    chat = _in_process(model)
    if chat is None:
        return None
    kept = next((kept for kept in home.in_use.kept_states() if kept.chat is chat), None)
    if kept is None:
        kept = KeptState(
            chat,
            folder,
            keep=settings.keep_state,
            max_mb=settings.keep_state_mb,
            now=home.database.now,
            forgotten=lambda: last_forgotten(home.database),
        )
        kept.load()
        home.in_use.states.add(kept)
    return StateKeeping(kept)


def _summarizer(home: Home, budget: Budget, model: ChatModel | None) -> Summarizer:
    extractive = ExtractiveSummarizer(budget.tokenizer)
    compaction = home.profile.compaction
    if compaction.summarizer == "extractive" or model is None:
        return extractive
    side_chat = getattr(model, "side_chat", None)  # a model of the caller's own may have none
    side = side_chat and side_chat(n_ctx=compaction.summary_ctx, threads=1)
    if side is None:
        _log.warning(
            '[compaction] summarizer = "model" needs a model in this process, or a second slot of its server'
            " (-np 2); summaries are made of sentences that were said."
        )
        return extractive
    # Its checks are a dozen modules, which most robots never need.
    from edgemem.context.compaction.model import ModelSummarizer

    return ModelSummarizer(side, extractive)


def searching(profile: Profile, log: SessionLog, reader: Reader | None) -> Request:
    """Return how to search for a reader's next turn, given what the prompt holds now."""
    # A copy: while somebody speaks, the log's reader is still the one before.
    prompt_log = copy(log.prompt_log)
    prompt_log.reader = reader
    committed = prompt_log.committed()
    return Request(
        reader=reader,
        asked=False,
        # Turns that only ask are left out afterwards, and must not take the place of those that tell.
        k=2 * profile.recall.k,
        apart=TURN_KIND_GROUPS,
        min_score=profile.injection.floor,
        deadline_s=profile.recall.deadline_ms / 1e3,
        exclude=committed.visible.others,
        # A fact that the prompt holds is still the best answer: without it, a worse one would be said.
        known=committed.visible.valued,
        session=prompt_log.session,
        skip_turns=committed.numbers,
        called=profile.called(),
    )


def default_tools(home: Home, *, include: Collection[str] | None, speaker: str | None) -> list[Tool]:
    """Return the memory's tools for a model; what they forget is left to idle time, because somebody waits for the answer."""
    from edgemem.loop.file_tools import bank_tools, notes_tool
    from edgemem.loop.memory_tools import MAX_ITEMS, NAMES, memory_tools

    settings = home.settings

    def recall(query: str, reader: Reader | None) -> list[Recalled]:
        profile = settings.now
        least = profile.injection.floor
        results = home.search.recall(
            query,
            Request(
                reader=reader,
                k=MAX_ITEMS,
                apart=TOOL_KIND_GROUPS,
                min_score=TOOL_SCORE_SHARE * least,
                deadline_s=profile.recall.deadline_ms / 1e3,
                called=profile.called(),
                safety=is_safety_key(query),
            ),
        )
        return results if any(item.score >= least for item in results) else type(results)()

    def utterances(words: str, reader: Reader) -> tuple[list[Recalled], int]:
        return home.search.utterances(words, reader, own=True, most=MAX_ITEMS)

    of_files: Collection[str] = (NOTES, *(BANK_TOOLS if home.bank.limits().enabled else ()))
    if include is not None and not isinstance(include, str):
        of_files = [name for name in include if name in (NOTES, *BANK_TOOLS)]
        include = [name for name in include if name not in of_files]
    tools = memory_tools(
        home.store,
        include=NAMES if include is None else include,
        recall=recall,
        eraser=home.eraser,
        utterances=utterances,
        speaker=speaker,
        settings=settings,
    )
    notes = notes_tool(home.notes, clock=home.clock, speaker=speaker, settings=settings)
    files = (tool for tool in (notes, *bank_tools(home.bank, speaker=speaker)) if tool.name in of_files)
    return [*tools, *(redacted_tool(tool, home.store.never_aloud, speaker) for tool in files)]
