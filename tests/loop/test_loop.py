"""The reference loop: every point at its place, whatever happens in the turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem.loop.loop import NO_ANSWER, AgentLoop
from edgemem.records import Reply, ToolCall
from edgemem.session.points import (
    AFTER_LLM,
    AFTER_TOOL,
    BEFORE_LLM,
    BEFORE_TOOL,
    ON_RUN_END,
    ON_RUN_START,
    ON_SPEECH_START,
    POINTS,
    HookResult,
)
from edgemem.session.tools import Tool
from support.homes import BY_WORDS
from support.models import Model


class Toolbox(Model):
    """A model that keeps the tools that it was offered."""

    def __init__(self, *answers: Reply) -> None:
        super().__init__(*answers)
        self.offered: list[Any] = []

    def complete(self, messages: Any, *, tools: Any = (), **rest: Any) -> Reply:
        self.offered.append(list(tools))
        return super().complete(messages, **rest)


class Tap:
    """Writes down every point with its payload."""

    points = POINTS
    priority = 0

    def __init__(self, answer: Callable[[str, Any], HookResult | None] = lambda point, payload: None) -> None:
        self.seen: list[tuple[str, Any]] = []
        self.answer = answer

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        self.seen.append((point, payload))
        return self.answer(point, payload)

    @property
    def order(self) -> list[str]:
        return [point for point, _ in self.seen]


TIMER = Tool(
    "timer", "Set a timer.", {"type": "object", "properties": {}}, lambda minutes: f"{minutes} minutes"
)
CALL = Reply("", (ToolCall("timer", {"minutes": 6}),))


def test_a_turn_with_a_tool_fires_every_classic_point_in_order() -> None:
    """Two hops, one tool: the order is the documented one."""
    tap = Tap()
    loop = AgentLoop(Model(CALL, Reply("Done.")), hooks=[tap], tools=[TIMER], instructions="Be Pip.")
    assert loop.run("six minutes please").reply == "Done."
    assert tap.order == [
        ON_RUN_START,
        BEFORE_LLM,
        AFTER_LLM,
        BEFORE_TOOL,
        AFTER_TOOL,
        BEFORE_LLM,
        AFTER_LLM,
        ON_RUN_END,
    ]
    assert [m["role"] for m in loop.session.messages] == ["user", "assistant", "tool", "assistant"]
    assert loop.session.messages[2]["content"] == "6 minutes"


def test_the_tools_stand_unchanged_in_every_hop() -> None:
    """The head of the prompt is the same at each hop, also at the last one."""
    model = Toolbox(CALL, CALL, CALL)
    loop = AgentLoop(model, tools=[TIMER])
    assert loop.run("go").reply == NO_ANSWER
    assert model.offered == [[TIMER.schema()]] * 3


def test_a_failing_tool_is_told_to_the_model() -> None:
    """An error in a tool, or a tool that does not exist, is a result like any other."""
    calls = Reply("", (ToolCall("timer", {}), ToolCall("oven", {})))
    loop = AgentLoop(Model(calls, Reply("It failed.")), tools=[TIMER])
    result = loop.run("go")
    assert [tool.ok for tool in result.tools] == [False, False]
    assert "there is no tool 'oven'" in loop.session.messages[3]["content"]


def test_an_error_of_the_model_keeps_the_utterance() -> None:
    """The turn ends with on_run_end, and what was said is there."""
    tap = Tap()
    loop = AgentLoop(Model(RuntimeError("out of memory")), hooks=[tap])
    with pytest.raises(RuntimeError, match="out of memory"):
        loop.run("hello")
    assert tap.order[-1] == ON_RUN_END
    assert tap.seen[-1][1].error == "RuntimeError: out of memory"
    assert loop.session.messages == [{"role": "user", "content": "hello"}]


def test_speech_events_reach_the_hooks() -> None:
    """The points before a turn carry the speaker."""
    tap = Tap()
    loop = AgentLoop(Model(), hooks=[tap], speaker="alice")
    loop.speech_start()
    loop.partial("what is")
    loop.idle(1.0)
    assert tap.seen[0] == (ON_SPEECH_START, {"speaker": "alice"})
    assert tap.seen[1][1] == {"text": "what is", "speaker": "alice"}


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("speaker", [0, 1])
def test_a_speaker_may_be_a_number(tmp_path: Path, speaker: int) -> None:
    """Recognisers that only tell voices apart number them; what a number says is its own, and a reply comes."""
    with edgemem.open(tmp_path / "home", profile=BY_WORDS, worker=False) as memory:
        model = Model(
            Reply("", (ToolCall("remember_fact", {"key": "tea", "value": "green", "scope": "me"}),))
        )
        loop = AgentLoop(model, hooks=memory.hooks(session_id="s"), tools=memory.tools(), speaker="alice")
        assert loop.run("remember green tea for me", speaker=speaker).reply == "ok"  # type: ignore[arg-type]
        assert loop.run("hello", speaker=speaker, audience=(speaker,)).reply == "ok"  # type: ignore[arg-type,arg-type]
        assert loop.hooks.failures() == []
        assert memory.store.get_fact("tea", scope=f"user:{speaker}") == "green"
