"""The hooks of a session: what is changed in the profile reaches each of them with the next turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

import edgemem
from edgemem.config import LlamaSettings
from edgemem.hooks import ON_RUN_START, HookRegistry, TurnContext
from edgemem.hooks.compaction import ContextCompactionHook
from edgemem.hooks.conversation import conversation_of
from edgemem.hooks.injection import MemoryInjectionHook
from edgemem.hooks.notes_injector import NotesInjectorHook
from edgemem.hooks.points import Hook
from edgemem.hooks.prompt import TokenBudgetHook
from edgemem.records import Session

T = TypeVar("T")


def one(kind: type[T], hooks: list[Hook]) -> T:
    """Return the hook of a kind."""
    return next(hook for hook in hooks if isinstance(hook, kind))


Look = Callable[[list[Hook], TurnContext], Any]


@pytest.mark.parametrize(
    ("section", "key", "value", "look"),
    [
        ("memory", "default_level", "private", lambda _, ctx: conversation_of(ctx).layout.default_level),
        ("store", "commit_wait_s", 0.75, lambda _, ctx: conversation_of(ctx).commit_wait_s),
        (
            "context",
            "summary_tokens",
            123,
            lambda hooks, _: one(ContextCompactionHook, hooks).planner.summary_tokens,
        ),
        ("context", "block_tokens", 61, lambda hooks, _: one(MemoryInjectionHook, hooks).block_tokens),
        ("context", "notes_tokens", 77, lambda hooks, _: one(NotesInjectorHook, hooks).max_tokens),
        ("injection", "max_chars", 333, lambda hooks, _: one(MemoryInjectionHook, hooks).max_chars),
        ("injection", "min_score", 0.91, lambda hooks, _: one(MemoryInjectionHook, hooks).floors.any),
        ("notes", "inject_chars", 555, lambda hooks, _: one(NotesInjectorHook, hooks).max_chars),
    ],
)
def test_a_changed_setting_reaches_its_hook(
    tmp_path: Path, section: str, key: str, value: object, look: Look
) -> None:
    """The session reads it where it uses it."""
    profile = edgemem.Profile(llama=LlamaSettings(embedder=""))
    with edgemem.open(tmp_path / "home", profile=profile, worker=False) as memory:
        hooks = memory.hooks(session_id="kitchen", speaker="alice")
        registry, ctx = HookRegistry(hooks), TurnContext(Session())
        registry.fire(ON_RUN_START, ctx, {"task": "Hello."})
        assert look(hooks, ctx) != value
        changed = msgspec.structs.replace(getattr(profile, section), **{key: value})
        memory.settings.now = msgspec.structs.replace(profile, **{section: changed})
        registry.fire(ON_RUN_START, ctx, {"task": "Hello again."})
        assert look(hooks, ctx) == value
        assert not registry.failures()


def test_what_must_fit_follows_the_answer_s_share(tmp_path: Path) -> None:
    """The last word on a prompt, and what a tool may answer, are bounded by what the answer leaves."""
    profile = edgemem.Profile(llama=LlamaSettings(embedder=""))
    with edgemem.open(tmp_path / "home", profile=profile, worker=False) as memory:
        hooks = memory.hooks(session_id="kitchen")
        registry, ctx = HookRegistry(hooks), TurnContext(Session())
        registry.fire(ON_RUN_START, ctx, {"task": "Hello."})
        room = one(TokenBudgetHook, hooks).max_context_tokens
        context = msgspec.structs.replace(profile.context, reply_tokens=profile.context.reply_tokens + 100)
        memory.settings.now = msgspec.structs.replace(profile, context=context)
        registry.fire(ON_RUN_START, ctx, {"task": "Hello again."})
        assert one(TokenBudgetHook, hooks).max_context_tokens == room - 100
        assert one(ContextCompactionHook, hooks).planner.room == room - 100
