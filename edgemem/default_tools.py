"""The default tools: memory as a model uses it, with the numbers of the profile."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from edgemem import notes_tool, read_more
from edgemem.records import Reader, Recalled
from edgemem.rights import SCOPES
from edgemem.searching import LOOKED_UP
from edgemem.tools import NAMES, memory_tools

if TYPE_CHECKING:
    from edgemem.memory import Memory
    from edgemem.store.erase.eraser import Eraser
    from edgemem.toolbox import Tool


BEHIND = 0.05
"""How far behind the best a tool looks: who searches wants to see of each kind what there is."""


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
    settings = memory.profile
    most, wait_s = settings.tools.max_items, settings.tools.write_wait_s

    def recall(query: str, reader: Reader | None) -> list[Recalled]:
        profile = memory.profile
        least = profile.injection.min_score
        found = search(
            query,
            reader=reader,
            k=most,
            apart=LOOKED_UP,
            min_score=BEHIND * least,
            deadline_s=profile.recall.deadline_ms / 1e3,
            called=profile.called(),
        )
        return found if any(item.score >= least for item in found) else []

    # Every tool is paid for in every prompt: this one is offered where results are shortened at all.
    reads_on, takes_notes = bool(settings.hooks.tool_output_chars), True
    if include is not None and not isinstance(include, str):
        reads_on, takes_notes = read_more.NAME in include, notes_tool.NAME in include
        include = [name for name in include if name not in (read_more.NAME, notes_tool.NAME)]
    tools = memory_tools(
        memory.store,
        include=NAMES if include is None else include,
        recall=recall,
        forget=lambda key, scope: bool(eraser.fact(key, scope=scope, wait_s=wait_s, at_once=False)),
        forget_episode=lambda episode_id: bool(eraser.episode(episode_id, wait_s=wait_s, at_once=False)),
        speaker=speaker,
        scope=SCOPES[settings.memory.default_level],
        confirm=settings.tools.confirm,
        max_chars=settings.tools.max_chars,
        max_items=most,
        wait_s=wait_s,
    )
    if takes_notes:
        tools.append(
            notes_tool.notes_tool(
                memory.notes, clock=memory.clock, speaker=speaker, max_chars=settings.tools.max_chars
            )
        )
    if reads_on:
        tools.append(read_more.read_more_tool(memory.database, speaker=speaker))
    return tools
