"""The default tools: memory as a model uses it, with the numbers of the profile."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from edgemem.loop.memory_tools import NAMES, memory_tools
from edgemem.loop.text_tools import notes_tool, read_more_tool
from edgemem.memory.session import LOOKED_UP
from edgemem.records import NOTES, READ_MORE, Reader, Recalled

if TYPE_CHECKING:
    from edgemem.loop.toolbox import Tool
    from edgemem.memory import Memory
    from edgemem.store.erase.eraser import Eraser


MAX_ITEMS = 10
"""Lines that one call tells; each takes some 20 tokens to evaluate."""

BEHIND = 0.05
"""The share of the least score down to which a search lists results, once one reaches that score: a few of each kind."""


def default_tools(
    memory: Memory,
    *,
    include: Collection[str] | None,
    speaker: str | None,
    search: Callable[..., list[Recalled]],
    eraser: Eraser,
) -> list[Tool]:
    """Return the memory's tools for a model.

    Args:
        include: some of them; None: all.
        search: recalls, with the arguments of `Recall.recall`.
        eraser: forgets; its bytes are left to idle time, because somebody waits for the answer.
    """
    settings = memory.settings

    def recall(query: str, reader: Reader | None) -> list[Recalled]:
        profile = settings.now
        least = profile.injection.min_score
        results = search(
            query,
            reader=reader,
            k=MAX_ITEMS,
            apart=LOOKED_UP,
            min_score=BEHIND * least,
            deadline_s=profile.recall.deadline_ms / 1e3,
            called=profile.called(),
        )
        return results if any(item.score >= least for item in results) else []

    # Every tool is paid for in every prompt: this one is offered where results are shortened at all.
    with_notes, with_more = True, bool(settings.now.hooks.tool_output_chars)
    if include is not None and not isinstance(include, str):
        with_notes, with_more = NOTES in include, READ_MORE in include
        include = [name for name in include if name not in (NOTES, READ_MORE)]
    tools = memory_tools(
        memory.store,
        include=NAMES if include is None else include,
        recall=recall,
        forget=lambda key, scope: bool(
            eraser.fact(key, scope=scope, wait_s=settings.now.tools.write_wait_s, at_once=False)
        ),
        forget_episode=lambda episode_id: bool(
            eraser.episode(episode_id, wait_s=settings.now.tools.write_wait_s, at_once=False)
        ),
        speaker=speaker,
        settings=settings,
        max_items=MAX_ITEMS,
    )
    if with_notes:
        tools.append(notes_tool(memory.notes, clock=memory.clock, speaker=speaker, settings=settings))
    if with_more:
        tools.append(read_more_tool(memory.database, speaker=speaker))
    return tools
