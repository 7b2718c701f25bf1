"""The toolbox: what a robot can do, and how what its model asks for is done, with the hooks before and after each call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from edgemem.context.messages import NO_RESULT
from edgemem.errors import EdgememError
from edgemem.hooks.points import AFTER_TOOL, BEFORE_TOOL, ToolCallRequest, ToolCallResult, TurnContext
from edgemem.hooks.registry import HookRegistry
from edgemem.records import Heard, Message, Reader, Session


def never() -> bool:
    """Tell that nobody has cut anybody off."""
    return False


class ToolCall(msgspec.Struct, frozen=True):
    """A call that the model asks for."""

    name: str
    arguments: dict[str, Any]
    id: str = ""


class ToolTurn(msgspec.Struct, frozen=True):
    """The turn in which a tool is called: who asked for what, as the hooks left it at the turn's start."""

    utterance: str
    reader: Reader
    """Who spoke, and who else hears the answer."""
    heard: Heard | None = None
    private: bool = False
    """Whether only the speaker may ever be reminded of this turn."""
    session: Session = msgspec.field(default_factory=Session)
    n: int = 0
    """Counts the turns of the loop."""
    stop: Callable[[], bool] = never
    """Whether the robot was cut off: a long tool asks now and then, and one that runs another agent hands it on."""


class Tool(msgspec.Struct, frozen=True):
    """Something the robot can do."""

    name: str
    description: str
    parameters: dict[str, Any]
    """A JSON schema."""
    run: Callable[..., Any]
    wants_turn: bool = False
    """Whether `run` takes the ToolTurn before the arguments."""

    def __repr__(self) -> str:
        """Say how an EdgeVox agent takes it; EdgeVox quotes that where it refuses a tool of ours."""
        call = "edgemem.hooks.load('edgevox_loop').attach_tools(agent, tools)"
        return f"<edgemem Tool {self.name}; for an EdgeVox agent: {call}>"

    def schema(self) -> dict[str, Any]:
        """Return the schema that a chat template prints."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}


class Toolbox:
    """The tools of one agent."""

    def __init__(self, tools: Iterable[Tool], hooks: HookRegistry, ctx: TurnContext) -> None:
        self.tools = {tool.name: tool for tool in tools}
        self.schemas = [tool.schema() for tool in self.tools.values()]
        self._hooks, self._ctx = hooks, ctx

    def call(
        self,
        content: str,
        calls: Sequence[ToolCall],
        *,
        hop: int,
        turn: ToolTurn | None,
        stopped: Callable[[], bool],
        done: list[ToolCallResult],
    ) -> None:
        """Do what the model asks for, one after the other, and put the calls and their outcomes into the session.

        Args:
            content: what the model said beside.
            hop: which answer of the turn it was, from 0.
            turn: what tools that want it are told.
            stopped: once it is true, what was not begun is not done any more.
            done: takes each outcome as soon as it is there.
        """
        named = [(call, call.id or f"call_{hop}_{i}") for i, call in enumerate(calls)]
        session = self._ctx.session
        session.messages.append(_asking(content, named))
        for call, name in named:
            if stopped():
                session.messages.append(_outcome(name, call.name, NO_RESULT))
                continue
            result = self._call(ToolCallRequest(call.name, dict(call.arguments), hop, name), turn)
            done.append(result)
            session.messages.append(_outcome(name, result.name, _told(result)))

    def _call(self, asked: ToolCallRequest, turn: ToolTurn | None) -> ToolCallResult:
        """Do one call, as the hooks before it leave it, and return the outcome as those after it do."""
        before = self._hooks.fire(BEFORE_TOOL, self._ctx, asked)
        request = before.payload if isinstance(before.payload, ToolCallRequest) else asked
        done = ToolCallResult(request.name, request.arguments, hop=asked.hop, id=asked.id)
        if before.is_end:
            done.error = str(before.payload)
        elif request.skip_dispatch:
            done.result = request.synthetic_result
        else:
            self._dispatch(request, done, turn)
        after = self._hooks.fire(AFTER_TOOL, self._ctx, done)
        return after.payload if isinstance(after.payload, ToolCallResult) else done

    def _dispatch(self, request: ToolCallRequest, done: ToolCallResult, turn: ToolTurn | None) -> None:
        tool = self.tools.get(request.name)
        if tool is None:
            done.error = f"there is no tool {request.name!r}"
            return
        try:
            given = (turn,) if tool.wants_turn else ()
            done.result = tool.run(*given, **request.arguments)
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is its outcome, told to the model
            done.error = str(error) if isinstance(error, EdgememError) else f"{type(error).__name__}: {error}"


def _asking(content: str, named: Iterable[tuple[ToolCall, str]]) -> Message:
    """Return the message in which a model asks for its calls."""
    calls = [
        {
            "id": name,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
        }
        for call, name in named
    ]
    return {"role": "assistant", "content": content or None, "tool_calls": calls}


def _outcome(call_id: str, tool: str, text: str) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "name": tool, "content": text}


def _told(done: ToolCallResult) -> str:
    """Return what the model reads of an outcome."""
    told = done.result
    if done.error is not None:
        # A hook may have put advice where a failed tool has no result.
        advice = done.result if isinstance(done.result, dict) else {}
        told = {"error": done.error, **advice}
    return told if isinstance(told, str) else json.dumps(told, ensure_ascii=False, default=str)
