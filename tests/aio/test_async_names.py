"""The async faces have the names, arguments and results of the synchronous objects, up to what an await is."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import edgemem.aio
from edgemem import Memory, NotesFile, SQLiteMemoryStore, SQLiteSessionStore
from edgemem.aio import AsyncMemory
from edgemem.aio import memory as faces
from edgemem.session.conversation import Conversation
from edgemem.session.turn import OpenTurn
from edgemem.store.bank.bank import MemoryBank, ScopedBank
from edgemem.store.procedures import Procedures
from support.homes import BY_WORDS
from support.loops import on_loop, opened

FACES = {
    AsyncMemory: Memory,
    faces.AsyncStore: SQLiteMemoryStore,
    faces.AsyncSessions: SQLiteSessionStore,
    faces.AsyncNotes: NotesFile,
    faces.AsyncProcedures: Procedures,
    faces.AsyncBank: MemoryBank,
    faces.AsyncScopedBank: ScopedBank,
    edgemem.aio.AsyncConversation: Conversation,
    edgemem.aio.AsyncTurn: OpenTurn,
}
PARTS = {
    SQLiteMemoryStore: {"close"},  # with its home
    SQLiteSessionStore: {"close", "erase", "erase_said"},
    Memory: {"hooks"},  # for loops that keep their own list
    OpenTurn: {
        "abort",
        "begin",
        "take_results",
        "end",
        "closing",
        "note",
        "note_inner",
        "note_interrupted",
        "tool_turn",
    },
    Procedures: {"fitting", "exist"},
    MemoryBank: {
        "for_scope",
        "limits",
        "memory_files",
        "prompt",
        "store",
        "stamp",
        "texts",
        "retain",
        "faults",
    },
}
"""What hooks and upkeep, or nobody, ask of such an object in an async program."""
AT_ONCE = {"failures", "for_person", "turn"}
"""What looks at nothing but lists in memory is no coroutine."""
SEED = {"messages", "facts", "goals", "summaries", "users", "session_state", "phases", "tool_events"}
"""Cognitia's eight protocols."""
METHODS = [
    (face, plain, name)
    for face, plain in FACES.items()
    for name, method in inspect.getmembers(plain, inspect.isfunction)
    if not name.startswith("_") and name not in PARTS.get(plain, ())
]


def shape(method: Callable[..., Any]) -> list[tuple[str, Any, Any, str]]:
    """Return what a caller must know of the arguments and the result."""
    signature = inspect.signature(method)
    result = str(signature.return_annotation).replace("Async", "")
    arguments = [(p.name, p.kind, p.default, str(p.annotation)) for p in signature.parameters.values()]
    return [*arguments, ("return", None, None, result)]


@pytest.mark.parametrize(("face", "plain", "name"), METHODS)
def test_each_method_has_the_arguments_of_the_synchronous_one(face: type, plain: type, name: str) -> None:
    """Names, defaults and annotations are the same, and the method is awaited, or iterated with `async for`."""
    method = getattr(face, name)
    assert shape(method) == shape(getattr(plain, name))
    awaited = inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)
    assert awaited == (name not in AT_ONCE)
    assert inspect.getdoc(method)


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
