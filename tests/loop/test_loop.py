"""The reference loop: what it offers its model, and who speaks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem.loop.loop import NO_ANSWER, AgentLoop
from edgemem.records import Reply, ToolCall
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


TIMER = Tool(
    "timer", "Set a timer.", {"type": "object", "properties": {}}, lambda minutes: f"{minutes} minutes"
)
CALL = Reply("", (ToolCall("timer", {"minutes": 6}),))


def test_the_tools_stand_unchanged_in_every_hop() -> None:
    """The head of the prompt is the same at each hop, also at the last one."""
    model = Toolbox(CALL, CALL, CALL)
    loop = AgentLoop(model, tools=[TIMER])
    assert loop.run("go").reply == NO_ANSWER
    assert model.offered == [[TIMER.schema()]] * 3


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
