"""Turns of an async loop: hooks act in order on one thread, and a turn that is cancelled leaves nothing half done."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from by_words import BY_WORDS

import edgemem.aio
from edgemem.aio import AsyncMemory, HookRegistry
from edgemem.errors import ClosedError, InvalidInputError
from edgemem.hooks import AgentResult, HookResult, ToolCallRequest, ToolCallResult, TurnContext, hook
from edgemem.loop.toolbox import ToolTurn
from edgemem.records import Reader, Session, ToolCall

RUN_START, BEFORE_LLM, AFTER_LLM, RUN_END = "on_run_start", "before_llm", "after_llm", "on_run_end"


def opened(home: Path) -> AsyncMemory:
    """Open a home that finds by words, without threads of its own."""
    return edgemem.aio.open(home, profile=BY_WORDS, worker=False)


class Gate:
    """A hook that holds up the thread of the turns at some points, until it is opened, and notes what it saw."""

    def __init__(self, *points: str) -> None:
        self.points, self.priority = frozenset(points), 1000
        self.reached, self.opened = threading.Event(), threading.Event()
        self.seen: list[tuple[str, Any]] = []

    def __call__(self, point: str, ctx: Any, payload: Any) -> None:
        self.seen.append((point, payload))
        self.reached.set()
        assert self.opened.wait(60)


async def until(event: threading.Event) -> None:
    """Wait for another thread."""
    assert await asyncio.to_thread(event.wait, 60)


class Loop:
    """An async agent loop as `docs/async.md` has it, whose model says what it heard."""

    def __init__(self, memory: AsyncMemory, registry: HookRegistry) -> None:
        self.memory, self.registry = memory, registry
        self.ctx = TurnContext(Session())

    @property
    def said(self) -> list[Any]:
        """Return the loop's list."""
        return self.ctx.session.messages

    async def fire(self, point: str, payload: Any) -> Any:
        return (await self.registry.fire(point, self.ctx, payload)).payload

    async def turn(self, text: str, *, tool: bool = False) -> None:
        """Answer an utterance; whoever cancels this, wherever, has never spoken, or was answered."""
        try:
            await self.fire(RUN_START, {"task": text, "speaker": "Ann"})
            self.said.append({"role": "user", "content": text})
            await self.ask(hop=0)
            if tool:
                await self.call("remember_fact", {"key": text, "value": "yes"})
                await self.ask(hop=1)
            reply = f"You said {text}."
            await self.answer(reply, [])
            self.said.append({"role": "assistant", "content": reply})
            await self.fire(RUN_END, AgentResult(reply))
        except asyncio.CancelledError:
            self.registry.abort(self.ctx)
            raise

    async def ask(self, hop: int) -> None:
        """Wait for the hooks, then for a model."""
        await self.fire(BEFORE_LLM, {"messages": self.said, "hop": hop, "tools": []})
        await asyncio.sleep(0)

    async def answer(self, content: str, calls: list[Any]) -> None:
        """Tell the hooks what the model said."""
        await self.fire(AFTER_LLM, {"content": content, "tool_calls": calls, "tokens": (), "hop": 0})

    async def call(self, name: str, arguments: dict[str, Any]) -> None:
        """Have the memory remember something in the middle of a turn."""
        await self.answer("", [ToolCall(name, arguments, "1")])
        call = {"id": "1", "type": "function", "function": {"name": name, "arguments": "{}"}}
        self.said.append({"role": "assistant", "content": None, "tool_calls": [call]})
        await self.fire("before_tool", ToolCallRequest(name, arguments, id="1"))
        tools = {tool.name: tool for tool in await self.memory.tools(speaker="Ann")}
        turn = ToolTurn(name, Reader("Ann"), session=self.ctx.session)
        result = await tools[name].run(turn, **arguments)
        self.said.append({"role": "tool", "tool_call_id": "1", "name": name, "content": str(result)})
        await self.fire("after_tool", ToolCallResult(name, arguments, result, id="1"))


async def started(memory: AsyncMemory, *hooks: Any) -> Loop:
    """Return a loop with the hooks of a session, and others."""
    return Loop(memory, (await memory.hooks(session_id="talk", speaker="Ann")).extend(hooks))


def stored(home: Path) -> list[Any]:
    """Return what a home has of the talk."""
    with edgemem.open(home, profile=BY_WORDS, worker=False) as memory:
        session = memory.sessions.load("talk")
        return [] if session is None else session.messages


def test_an_async_loop_is_told_what_was_said_before(tmp_path: Path) -> None:
    """What one turn keeps stands before the model in a later session, and hooks of a user's own act as everywhere."""
    texts: list[str] = []

    @hook(BEFORE_LLM, priority=-2000)
    def note(ctx: Any, payload: Any) -> HookResult:
        texts.append(payload["messages"][-1]["content"])
        return HookResult.replace(payload)

    async def script() -> None:
        async with opened(tmp_path) as memory:
            loop = await started(memory)
            await loop.turn("my tea is black", tool=True)
            other = Loop(memory, (await memory.hooks(session_id="other", speaker="Ann")).register(note))
            await other.turn("which tea do I like?")
            assert len(list(other.registry)) == len(other.registry)
            assert BEFORE_LLM in other.registry
            assert loop.registry.failures() == other.registry.failures() == []

    asyncio.run(script(), debug=True)
    assert "my tea is black" in texts[0]


@pytest.mark.parametrize("point", [RUN_START, BEFORE_LLM])
def test_a_turn_that_is_cancelled_before_the_model_is_aborted(tmp_path: Path, point: str) -> None:
    """The hooks return, then the turn is thrown away, before whatever the loop asks next; nothing of it is kept."""

    async def script() -> list[Any]:
        gate = Gate(point)
        async with opened(tmp_path) as memory:
            loop = await started(memory, gate)
            gone = asyncio.create_task(loop.turn("forget that"))
            await until(gate.reached)
            gone.cancel()
            gate.opened.set()
            # Asked at once, while the task that was cancelled has not even noticed.
            await loop.turn("my tea is black")
            assert gone.cancelled()
            assert not memory.diagnostics.upkeep.held
            return loop.said

    said = asyncio.run(script())
    assert [message["content"] for message in said] == ["my tea is black", "You said my tea is black."]
    assert stored(tmp_path) == said


def test_of_half_heard_sentences_only_the_newest_waits(tmp_path: Path) -> None:
    """A recogniser may tell more than the hooks can take; order among the points is kept."""

    async def script() -> list[Any]:
        gate = Gate("on_speech_start", "on_partial", RUN_START)
        async with opened(tmp_path) as memory:
            loop = await started(memory, gate)
            loop.registry.post("on_speech_start", loop.ctx, {})
            await until(gate.reached)
            for text in ("my", "my tea", "my tea is"):
                loop.registry.post("on_partial", loop.ctx, {"text": text})
            loop.registry.post(RUN_START, loop.ctx, {"task": "my tea is black"})
            loop.registry.post("on_partial", loop.ctx, {"text": "and"})
            gate.opened.set()
            await loop.fire("on_idle", {"seconds": 0.0})
        with pytest.raises(ClosedError):
            loop.registry.post("on_partial", loop.ctx, {"text": "so"})
        with pytest.raises(ClosedError):
            await loop.turn("so")
        return [payload.get("text") or payload.get("task") for _, payload in gate.seen[1:]]

    assert asyncio.run(script()) == ["my tea is", "my tea is black", "and"]


def test_a_hook_that_is_a_coroutine_is_refused(tmp_path: Path) -> None:
    """The sentence says what to write instead; a point that does not exist is refused as by the synchronous registry."""

    class Later:
        points, priority = frozenset({BEFORE_LLM}), 0

        async def __call__(self, point: str, ctx: Any, payload: Any) -> None: ...

    async def script() -> None:
        async with opened(tmp_path) as memory:
            registry = await memory.hooks()
            with pytest.raises(InvalidInputError, match="await before or behind fire"):
                registry.register(Later())  # type: ignore[arg-type]
            with pytest.raises(InvalidInputError, match="no point 'on_lunch'"):
                await registry.fire("on_lunch", None, {})

    asyncio.run(script())


class Cancelling:
    """Cancels tasks at random moments: at once, after some steps of the loop, or after a moment of the other threads."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    async def run(self, work: Awaitable[Any]) -> bool:
        """Return whether the work was done to its end."""
        task = asyncio.ensure_future(work)
        for _ in range(self.random.choice([0, 1, 2, 5, 20])):
            await asyncio.sleep(0)
        await asyncio.sleep(self.random.random() ** 3 * 0.03)
        if self.random.random() < 0.8:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return not task.cancelled()


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_cancelled_the_home_has_whole_turns_alone(tmp_path: Path, seed: int) -> None:
    """After cancels at random, the file has the loop's own list: answered turns, whole, and none that was aborted."""
    cancelling = Cancelling(seed)

    async def script() -> tuple[list[Any], list[str]]:
        kept: list[str] = []
        async with opened(tmp_path) as memory:
            loop = await started(memory)
            for n in range(25):
                done = await cancelling.run(loop.turn(f"sentence {n}", tool=cancelling.random.random() < 0.3))
                if done:
                    kept.append(f"sentence {n}")
            await loop.fire("on_idle", {"seconds": 0.0})
            assert loop.registry.failures() == []
            return loop.said, kept

    said, kept = asyncio.run(script(), debug=seed % 2 == 0)
    assert stored(tmp_path) == said
    asked = [message["content"] for message in said if message["role"] == "user"]
    answered = [
        message["content"] for message in said if message["role"] == "assistant" and message["content"]
    ]
    assert answered == [f"You said {text}." for text in asked]
    assert set(kept) <= set(asked)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_cancelled_writes_are_a_prefix(tmp_path: Path, seed: int) -> None:
    """Of writes that follow one another, those are there that were done, and at most the one that was cancelled."""
    cancelling, done = Cancelling(seed), []

    async def write(memory: AsyncMemory, n: int) -> None:
        for k in range(5):
            await memory.store.add_fact(f"{n}.{k}", "x")
            done.append(f"{n}.{k}")

    async def script() -> list[str]:
        async with opened(tmp_path) as memory:
            for n in range(10):
                await cancelling.run(write(memory, n))
        async with opened(tmp_path) as memory:
            return [fact.key for fact in await memory.store.facts()]

    facts = set(asyncio.run(script()))
    assert set(done) <= facts
    for n in range(10):
        written = sorted(key for key in facts if key.startswith(f"{n}."))
        assert written == [f"{n}.{k}" for k in range(len(written))]
        assert len(set(written) - set(done)) <= 1
