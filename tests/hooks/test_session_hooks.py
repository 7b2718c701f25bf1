"""The hooks of a session: what is changed in the profile reaches each of them, and each key switches one more on."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
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
from edgemem.loop.loop import AgentLoop
from edgemem.loop.toolbox import Tool
from edgemem.memory import Memory
from edgemem.records import Reply, Session, ToolCall

T = TypeVar("T")


def one(kind: type[T], hooks: list[Hook]) -> T:
    """Return the hook of a kind."""
    return next(hook for hook in hooks if isinstance(hook, kind))


Look = Callable[[list[Hook], TurnContext], Any]


@pytest.mark.parametrize(
    ("section", "key", "value", "look"),
    [
        ("memory", "default_level", "private", lambda _, ctx: conversation_of(ctx).prompt_log.default_level),
        ("store", "commit_wait_s", 0.75, lambda _, ctx: conversation_of(ctx).commit_wait_s),
        (
            "context",
            "summary_tokens",
            123,
            lambda hooks, _: one(ContextCompactionHook, hooks).planner.summary_tokens,
        ),
        ("context", "block_tokens", 61, lambda hooks, _: one(MemoryInjectionHook, hooks).block_tokens),
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
        memory.diagnostics.settings.now = msgspec.structs.replace(profile, **{section: changed})
        registry.fire(ON_RUN_START, ctx, {"task": "Hello again."})
        assert look(hooks, ctx) == value
        assert not registry.failures()


SECRET = "the blue pills"


class Caller:
    """Calls a tool at the first hop of each turn, and then says something."""

    def __init__(self, name: str, **arguments: str) -> None:
        self.call = ToolCall(name, arguments)
        self.handed: list[list[dict[str, Any]]] = []

    def complete(self, messages: Sequence[dict[str, Any]], **_: Any) -> Reply:
        """Call, or answer a result."""
        self.handed.append(list(messages))
        return Reply(f"Here is {SECRET}.") if messages[-1]["role"] == "tool" else Reply("", (self.call,))

    def cut(self, heard_text: str) -> None:
        """Do nothing."""


def opened(home: Path, settings: str, **options: Any) -> Memory:
    """Open a home whose profile says something under `[hooks]` or elsewhere."""
    home.mkdir(exist_ok=True)
    (home / "edgemem.toml").write_text(f'[llama]\nembedder = ""\n{settings}')
    return edgemem.open(home, worker=False, **options)


def robot(memory: Memory, model: Caller, run: Any, **options: Any) -> AgentLoop:
    """Return a loop with one tool."""
    tool = Tool(model.call.name, "", {}, run)
    return AgentLoop(model, hooks=memory.hooks(speaker="ann", **options), tools=[tool])


def packages(memory: Memory, name: str) -> str:
    """Return what the check of that name tells."""
    return next(one.detail for one in memory.check() if one.name == name)


def audit(home: Path) -> list[dict[str, Any]]:
    """Return the lines of the home's audit log."""
    return [json.loads(line) for line in (home / "audit.jsonl").read_text().splitlines()]


def test_a_tool_that_fails_is_told_when_to_stop(tmp_path: Path) -> None:
    """`tool_retries` bounds how often a failed tool is called again in a turn."""
    model = Caller("look")
    model.complete = lambda messages, **_: Reply("", (model.call,))  # type: ignore[method-assign]
    calls = []

    def fail() -> None:
        calls.append(1)
        raise OSError("no camera")

    with opened(tmp_path, "[hooks]\ntool_retries = 1\n") as memory:
        loop = robot(memory, model, fail)
        loop.max_hops = 6
        loop.run("Look.")
    assert len(calls) == 2


def test_who_is_forgotten_is_forgotten_in_the_audit_log(tmp_path: Path) -> None:
    """Erasing a person takes their lines out of the profile's own log, and the open log goes on behind."""
    with opened(tmp_path, '[hooks]\naudit_log = "audit.jsonl"\naudit_text = "household"\n') as memory:
        loop = robot(memory, Caller("look"), lambda: "a cup")
        loop.run("Look.", speaker="ann")
        loop.run("Look.", speaker="bo")
        memory.forget(person="ann")
        assert {line["speaker"] for line in audit(tmp_path)} == {"bo"}
        loop.run("Look.", speaker="cy")
    assert {line["speaker"] for line in audit(tmp_path)} == {"bo", "cy"}


def test_an_audit_log_that_cannot_be_written_keeps_nobody_from_talking(tmp_path: Path) -> None:
    """The robot answers, and `check` says why there is no log."""
    (tmp_path / "file").write_text("")
    with opened(tmp_path / "home", f'[hooks]\naudit_log = "{tmp_path}/file/audit.jsonl"\n') as memory:
        loop = robot(memory, Caller("look"), lambda: "a cup")
        assert loop.run("Look.").reply
        assert "cannot be opened" in packages(memory, "hooks")


def test_the_time_of_each_hook_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """`[log] hooks = true` gives a line of JSON a turn, with milliseconds and names of hooks only."""
    with (
        opened(tmp_path, "[log]\nhooks = true\n") as memory,
        caplog.at_level(logging.INFO, logger="edgemem.timing"),
    ):
        loop = robot(memory, Caller("look"), lambda: "a cup")
        loop.run("Look.")
        loop.run("Look.")
    first, second = (
        json.loads(record.getMessage()) for record in caplog.records if record.name == "edgemem.timing"
    )
    for told in (first, second):
        assert {"MemoryInjectionHook", "PromptLogHook"} <= told["before_llm"].keys()
        assert told["after_llm"]["model"] >= 0
        assert told["on_run_end"]["turn"] > told["before_llm"]["MemoryInjectionHook"] > 0
    assert "pills" not in caplog.text
