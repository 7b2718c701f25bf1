"""A robot whose model calls what a test says, for tests of memory as tools."""

from __future__ import annotations

from typing import Any

from edgemem.inspect.replay import Line, ScriptedCall, ScriptedModel
from edgemem.loop.loop import AgentLoop, TurnResult
from edgemem.loop.toolbox import Tool
from edgemem.memory import Memory


class Robot:
    """A loop with all hooks and tools, whose model calls what a test says."""

    def __init__(
        self, memory: Memory, *, speaker: str | None = None, tools: list[Tool] | None = None
    ) -> None:
        self.model = ScriptedModel()
        self.loop = AgentLoop(
            self.model,
            hooks=memory.hooks(session_id="kitchen", speaker=speaker),
            tools=memory.tools(speaker=speaker) if tools is None else tools,
        )

    def turn(self, say: str, name: str, /, *, speaker: str | None = "alice", **rest: Any) -> TurnResult:
        """Run a turn in which the model calls one tool with the remaining arguments."""
        how = {key: rest.pop(key) for key in ("heard", "private", "audience") if key in rest}
        call = ScriptedCall(name, rest)
        self.model.expect(Line(say=say, reply="ok", at=1_770_000_000.0, session="kitchen", tools=(call,)))
        return self.loop.run(say, speaker=speaker, **how)

    def answer(self, say: str, name: str, /, **rest: Any) -> str:
        """Return what the tool of such a turn told the model."""
        (result,) = self.turn(say, name, **rest).tools
        assert result.error is None, result.error
        return result.result

    def forget(self, say: str, key: str, /, **rest: Any) -> str:
        """Return what the model is told of a forgetting after a yes; the first answer, if the tool does not ask."""
        answer = self.answer(say, "forget_fact", key=key, **rest)
        if answer.startswith("Not erased yet"):
            answer = self.answer("Yes, please.", "forget_fact", key=key, **rest)
        return answer


def of(tools: list[Tool], name: str) -> Tool:
    """Return the tool of a name."""
    return next(tool for tool in tools if tool.name == name)
