"""What tests of async memories share: a home that finds by words, threads that wait for a test, and a loop that answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from by_words import BY_WORDS

import edgemem.aio
from edgemem.aio import AsyncMemory, HookRegistry
from edgemem.hooks import AgentResult, ToolCallRequest, ToolCallResult, TurnContext
from edgemem.loop.toolbox import Tool, ToolTurn
from edgemem.records import Reader, Session, ToolCall


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on an event loop of its own."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def opened(home: Path) -> AsyncMemory:
    """Open a home that finds by words, without threads of its own."""
    return edgemem.aio.open(home, profile=BY_WORDS, worker=False)


async def until(event: threading.Event) -> None:
    """Wait for another thread."""
    assert await asyncio.to_thread(event.wait, 60)


async def raised(*waited: Awaitable[Any]) -> list[type]:
    """Return the classes of what awaits raise or return."""
    return [type(outcome) for outcome in await asyncio.gather(*waited, return_exceptions=True)]


class Gate:
    """A hook that holds up the thread of the turns at some points, until it is opened, and keeps what it saw."""

    def __init__(self, *points: str) -> None:
        self.points, self.priority = frozenset(points), 1000
        self.reached, self.opened = threading.Event(), threading.Event()
        self.seen: list[Any] = []

    def __call__(self, point: str, ctx: Any, payload: Any) -> None:
        self.seen.append(payload)
        self.reached.set()
        assert self.opened.wait(60)


class Loop:
    """An agent loop whose model says what it heard; whoever cancels a turn aborts it. Without a registry, it has no memory."""

    speaker = "Ann"

    def __init__(self, registry: HookRegistry | None, tools: Iterable[Tool] = ()) -> None:
        self.registry, self.ctx = registry, TurnContext(Session())
        self.tools = {tool.name: tool for tool in tools}

    @property
    def messages(self) -> list[Any]:
        """Return the loop's list."""
        return self.ctx.session.messages

    async def fire(self, point: str, payload: Any) -> Any:
        """Tell the hooks, and return what they leave."""
        return (
            (await self.registry.fire(point, self.ctx, payload)).payload
            if self.registry is not None
            else payload
        )

    async def turn(self, text: str, *, tool: bool = False) -> None:
        """Answer an utterance, or nothing of it was ever said."""
        try:
            await self.fire("on_run_start", {"task": text, "speaker": self.speaker})
            self.messages.append({"role": "user", "content": text})
            await self.ask(hop=0)
            if tool:
                await self.call("remember_fact", {"key": text, "value": "yes"})
                await self.ask(hop=1)
            reply = f"You said {text}."
            await self.say({"content": reply})
            await self.fire("on_run_end", AgentResult(reply))
        except asyncio.CancelledError:
            if self.registry is not None:
                self.registry.abort(self.ctx)
            raise

    async def ask(self, hop: int) -> None:
        """Wait for the hooks, then for a model."""
        await self.fire("before_llm", {"messages": self.messages, "hop": hop, "tools": []})
        await asyncio.sleep(0)

    async def say(self, message: dict[str, Any], calls: Sequence[ToolCall] = ()) -> None:
        """Tell the hooks what the model said, and note it."""
        answer = {"content": message["content"], "tool_calls": list(calls), "tokens": (), "hop": 0}
        await self.fire("after_llm", answer)
        self.messages.append({"role": "assistant", **message})

    async def call(self, name: str, arguments: dict[str, Any]) -> None:
        """Call a tool of the memory in the middle of a turn."""
        call = {"id": "1", "type": "function", "function": {"name": name, "arguments": "{}"}}
        await self.say({"content": None, "tool_calls": [call]}, [ToolCall(name, arguments, "1")])
        await self.fire("before_tool", ToolCallRequest(name, arguments, id="1"))
        turn = ToolTurn(name, Reader(self.speaker), session=self.ctx.session)
        result = await self.tools[name].run(turn, **arguments)
        self.messages.append({"role": "tool", "tool_call_id": "1", "name": name, "content": str(result)})
        await self.fire("after_tool", ToolCallResult(name, arguments, result, id="1"))
