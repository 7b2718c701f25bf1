"""Hooks that are made with the wrong things say so at once, and functions become hooks."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import pytest

import edgemem
from edgemem import (
    AuditLogHook,
    Compactor,
    ContextCompactionHook,
    EpisodeLoggerHook,
    JSONMemoryStore,
    MemoryInjectionHook,
    NotesFile,
    NotesInjectorHook,
    PersistSessionHook,
    SQLiteMemoryStore,
    TokenBudgetHook,
    ToolErrorRetryHook,
    ToolOutputTruncatorHook,
)
from edgemem.errors import InvalidInputError
from edgemem.hooks import HookRegistry, HookResult, TurnContext, hook
from edgemem.records import Session

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize("wrong", [None, "./memory.db", SQLiteMemoryStore])
@pytest.mark.parametrize(
    "make",
    [
        MemoryInjectionHook,
        EpisodeLoggerHook,
        NotesInjectorHook,
        lambda store: PersistSessionHook(store, session_id="s"),
    ],
)
def test_a_hook_without_a_store_cannot_be_made(make: Callable[[Any], object], wrong: Any) -> None:
    """None, a path or a class in the place of an open store is told at once, in one sentence."""
    with pytest.raises(InvalidInputError, match="open one and pass it"):
        make(wrong)


@pytest.mark.parametrize("make", [MemoryInjectionHook, EpisodeLoggerHook])
def test_a_store_has_two_names(make: Any, tmp_path: Path) -> None:
    """`store` is ours, `memory_store` EdgeVox's; given under both it is refused."""
    with JSONMemoryStore(tmp_path / "m.json") as store:
        assert make(store).store is make(store=store).store is make(memory_store=store).store is store
        with pytest.raises(InvalidInputError, match="not both"):
            make(store, memory_store=store)
        with pytest.raises(InvalidInputError, match="open one and pass it"):
            make()


def test_the_llm_getter_is_told_the_turn() -> None:
    """It is called with the context, as EdgeVox does, so that it can tell agents apart."""
    asked = []
    ctx = TurnContext(Session())
    compaction = ContextCompactionHook(Compactor(3000), asked.append)
    compaction("before_llm", ctx, {"messages": [{"role": "user", "content": "hello"}], "hop": 0})
    assert asked == [ctx]


def test_a_header_must_be_text(tmp_path: Path) -> None:
    """None is no header; an empty one is."""
    with JSONMemoryStore(tmp_path / "m.json") as store:
        notes = NotesFile(tmp_path / "n.md")
        for make in (
            lambda header: MemoryInjectionHook(store, header=header),
            lambda header: NotesInjectorHook(notes, header=header),
        ):
            make("")
            with pytest.raises(InvalidInputError, match="header"):
                make(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [None, "3000"])
@pytest.mark.parametrize(
    "make",
    [
        TokenBudgetHook,
        Compactor,
        ToolErrorRetryHook,
        ToolOutputTruncatorHook,
        lambda number: Compactor(3000, number),
    ],
)
def test_a_bound_must_be_a_number(make: Callable[[Any], object], wrong: Any) -> None:
    """A number as text, as a file of settings gives it, is told at once."""
    with pytest.raises(InvalidInputError, match="whole number"):
        make(wrong)


def test_an_audit_log_needs_a_path() -> None:
    """None is no path."""
    with pytest.raises(InvalidInputError, match="path"):
        AuditLogHook(None)  # type: ignore[arg-type]


def test_a_star_import_leaves_the_builtin_open_alone() -> None:
    """`edgemem.open` is there, and stays out of the names that a star import takes."""
    names: dict[str, Any] = {}
    exec("from edgemem import *", names)
    assert "open" not in names
    assert names["AgentLoop"] is edgemem.AgentLoop
    assert edgemem.open is not builtins.open
    assert "open" in dir(edgemem)


def test_a_function_becomes_a_hook() -> None:
    """As in EdgeVox: with two arguments or three, at its points and in the order of its priority."""
    order: list[str] = []

    @hook("before_llm", priority=80)
    def shorten(ctx: Any, payload: Any) -> HookResult:
        order.append("shorten")
        return HookResult.replace({**payload, "messages": payload["messages"][-1:]})

    @hook("before_llm", "on_run_start")
    def tap(point: str, ctx: Any, payload: Any) -> None:
        order.append(point)

    registry = HookRegistry([tap, shorten])
    ctx = TurnContext(Session())
    registry.fire("on_run_start", ctx, {"task": "hi"})
    fired = registry.fire("before_llm", ctx, {"messages": [1, 2], "hop": 0, "tools": []})
    assert fired.payload["messages"] == [2]
    assert order == ["on_run_start", "shorten", "before_llm"]
    assert (shorten.name, shorten.priority, tap.priority) == ("shorten", 80, 0)


@pytest.mark.parametrize("points", [(), ("before_breakfast",), (print,)])
def test_a_function_needs_points_that_exist(points: Any) -> None:
    """`@hook` without its points, or with wrong ones, names those that there are."""
    with pytest.raises(InvalidInputError, match="before_llm"):
        hook(*points)


def test_small_names_of_the_seed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A program that changed only its import goes on finding its files, and begins new sessions."""
    monkeypatch.setenv("EDGEVOX_MEMORY_DIR", str(tmp_path))
    assert edgemem.default_memory_dir() == tmp_path
    monkeypatch.delenv("EDGEVOX_MEMORY_DIR")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert edgemem.default_memory_dir() == tmp_path / ".edgevox" / "memory"
    ids = {edgemem.new_session_id() for _ in range(50)}
    assert len(ids) == 50
    assert all(len(each) == 12 and int(each, 16) >= 0 for each in ids)
