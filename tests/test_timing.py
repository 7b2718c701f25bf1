"""Timing: what each hook took, and the model and the tools between the points, from any number of threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from edgemem import TimingHook
from edgemem.hooks.points import (
    AFTER_LLM,
    AFTER_TOOL,
    BEFORE_LLM,
    BEFORE_TOOL,
    ON_RUN_END,
    ON_RUN_START,
    HookResult,
    ToolCallRequest,
    ToolCallResult,
    TurnContext,
)
from edgemem.hooks.registry import HookRegistry
from edgemem.loop.loop import AgentLoop
from edgemem.loop.toolbox import Tool
from edgemem.records import Message, Reply, Session, ToolCall


class Stopwatch:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Model:
    """Calls a tool, then answers; each takes a while."""

    def __init__(self, watch: Stopwatch) -> None:
        self.watch = watch
        self.calls = [Reply("", (ToolCall("wait", {}),))]

    def complete(self, messages: Sequence[Message], **_: Any) -> Reply:
        self.watch.seconds += 0.2
        return self.calls.pop() if self.calls else Reply("ok")

    def cut(self, heard_text: str) -> None:
        """Nothing to forget."""


class Slow:
    """A hook of some name that fails at one point."""

    points = frozenset({ON_RUN_START, BEFORE_LLM})
    priority = 5

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        if point == BEFORE_LLM:
            raise OSError("no disk")
        return None


def test_hooks_model_tools_and_turn_are_measured() -> None:
    """Each hook is counted at each of its points, also when it fails; the spans are exact."""
    watch = Stopwatch()
    timing = TimingHook(now=watch)

    def wait() -> str:
        watch.seconds += 0.05
        return "waited"

    loop = AgentLoop(Model(watch), hooks=[timing, Slow()], tools=[Tool("wait", "", {}, wait)])
    loop.run("go")
    assert timing.at(ON_RUN_START)["Slow"].count == 1
    assert timing.at(BEFORE_LLM)["Slow"].count == 2
    assert timing.at(BEFORE_LLM)["TimingHook"].count == 2
    model = timing.at(AFTER_LLM)["model"]
    assert (model.count, round(model.total_ms), round(model.max_ms), round(model.mean_ms)) == (
        2,
        400,
        200,
        200,
    )
    assert round(timing.at(AFTER_TOOL)["tool"].last_ms) == 50
    assert round(timing.at(ON_RUN_END)["turn"].last_ms) == 450
    assert timing.timings()[0].hook == "turn"
    timing.clear()
    assert timing.timings() == []


def test_tools_that_run_side_by_side_are_told_apart() -> None:
    """Eight threads fire the points of their own calls, and no call is lost or mixed up."""
    timing = TimingHook()
    registry = HookRegistry([timing])
    ctx = TurnContext(Session())
    together = threading.Barrier(8)

    def call(name: str) -> None:
        for n in range(50):
            together.wait()
            registry.fire(BEFORE_TOOL, ctx, ToolCallRequest("t", {}, id=f"{name}{n}" if n % 2 else ""))
            registry.fire(AFTER_TOOL, ctx, ToolCallResult("t", {}, id=f"{name}{n}" if n % 2 else ""))

    threads = [threading.Thread(target=call, args=(f"{i}.",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert timing.at(AFTER_TOOL)["tool"].count == 400
    assert timing.at(BEFORE_TOOL)["TimingHook"].count == 400
    assert timing._open == {}


def test_an_aborted_turn_is_not_counted() -> None:
    """What was begun and thrown away leaves nothing open."""
    timing = TimingHook()
    loop = AgentLoop(Model(Stopwatch()), hooks=[timing])
    loop.prepare("go")
    loop.abort()
    assert timing.at(ON_RUN_END) == {}
    assert timing._open == {}


def test_lost_ends_do_not_pile_up() -> None:
    """A loop that never ends what it begins costs a bounded amount of memory."""
    timing = TimingHook()
    contexts = [TurnContext(Session()) for _ in range(400)]
    for ctx in contexts:
        timing(BEFORE_LLM, ctx, {})
    assert len(timing._open) == 256
