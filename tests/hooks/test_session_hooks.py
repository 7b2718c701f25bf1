"""The hooks of a session: what is changed in the profile reaches each of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import edgemem
from edgemem.config import LlamaSettings
from edgemem.hooks import ON_RUN_START, HookRegistry, TurnContext
from edgemem.hooks.builtin import part_of
from edgemem.records import Session
from edgemem.session.log import log_of
from edgemem.session.points import Hook

Look = Callable[[list[Hook], TurnContext], Any]


@pytest.mark.parametrize(
    ("section", "key", "value", "look"),
    [
        ("memory", "default_level", "private", lambda _, ctx: log_of(ctx).prompt_log.default_level),
        ("store", "commit_wait_s", 0.75, lambda _, ctx: log_of(ctx).commit_wait_s),
        ("context", "summary_tokens", 123, lambda h, _: part_of(h, "compaction").planner.summary_tokens),
        ("context", "block_tokens", 61, lambda hooks, _: part_of(hooks, "memory").block_tokens),
        ("injection", "max_chars", 333, lambda hooks, _: part_of(hooks, "memory").max_chars),
        ("injection", "min_score", 0.91, lambda hooks, _: part_of(hooks, "memory").floors.any),
        ("notes", "inject_chars", 555, lambda hooks, _: part_of(hooks, "notes").max_chars),
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
        memory.diagnostics.settings.now = msgspec.structs.replace(profile, **{section: changed})
        registry.fire(ON_RUN_START, ctx, {"task": "Hello again."})
        assert look(hooks, ctx) == value
        assert not registry.failures()
