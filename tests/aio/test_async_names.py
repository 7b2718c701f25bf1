"""The async faces have the names, arguments and results of the synchronous objects, up to what an await is."""

from __future__ import annotations

import inspect
from pathlib import Path

import edgemem.aio
from support.homes import BY_WORDS
from support.loops import on_loop, opened

SEED = {"messages", "facts", "goals", "summaries", "users", "session_state", "phases", "tool_events"}
"""Cognitia's eight protocols."""


def test_open_takes_what_edgemem_open_takes() -> None:
    """Whoever moves to an event loop changes the import and awaits."""
    assert inspect.signature(edgemem.aio.open) == inspect.signature(edgemem.open)


@on_loop
async def test_an_async_memory_shows_the_names_of_a_memory(tmp_path: Path) -> None:
    """No public name is missing, and none is more but those of Cognitia's protocols."""
    async with opened(tmp_path) as memory:
        assert (memory.home, memory.profile) == (tmp_path, BY_WORDS)
        seen = {name for name in dir(memory) if not name.startswith("_")}
    with edgemem.open(tmp_path, profile=BY_WORDS) as plain:
        assert seen - SEED == {name for name in dir(plain) if not name.startswith("_")} - {"hooks"}
