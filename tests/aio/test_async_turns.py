"""Turns of an async loop: hooks act in order on one thread, and a turn that is cancelled leaves nothing half done."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem.aio import AsyncMemory
from edgemem.errors import ClosedError, InvalidInputError
from edgemem.hooks import HookResult, TurnContext, hook
from edgemem.records import Session
from support.homes import BY_WORDS
from support.loops import Gate, Loop, on_loop, opened, until
from support.selection import cases


async def started(memory: AsyncMemory, *hooks: Any, session: str = "talk") -> Loop:
    """Return a loop with the hooks of a session, and others."""
    registry = await memory.hooks(session_id=session, speaker="Ann")
    return Loop(registry.extend(hooks), await memory.tools(speaker="Ann"))


def stored(home: Path) -> list[Any]:
    """Return what a home has of the talk."""
    with edgemem.open(home, profile=BY_WORDS, worker=False) as memory:
        session = memory.sessions.load("talk")
        return [] if session is None else session.messages


@on_loop
async def test_an_async_loop_is_told_what_was_said_before(tmp_path: Path) -> None:
    """What one turn keeps stands before the model in another session, and hooks of a user's own act as everywhere."""
    texts: list[str] = []

    @hook("before_llm", priority=-2000)
    def note(ctx: Any, payload: Any) -> HookResult:
        texts.append(payload["messages"][-1]["content"])
        return HookResult.replace(payload)

    async with opened(tmp_path) as memory:
        loop = await started(memory)
        await loop.turn("my tea is black", tool=True)
        other = await started(memory, note, session="other")
        await other.turn("which tea do I like?")
        assert len(list(other.registry)) == len(other.registry)
        assert "before_llm" in other.registry
        assert loop.registry.failures() == other.registry.failures() == []
    assert "my tea is black" in texts[0]


@pytest.mark.parametrize("point", ["on_run_start", "before_llm"])
@on_loop
async def test_a_turn_that_is_cancelled_before_the_model_is_aborted(tmp_path: Path, point: str) -> None:
    """The hooks return, then the turn is thrown away, before whatever is asked next; what stood before it stays."""
    gate = Gate(point)
    async with opened(tmp_path) as memory:
        loop = await started(memory, gate)
        loop.messages.extend([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}])
        gone = asyncio.create_task(loop.turn("forget that"))
        await until(gate.reached)
        gone.cancel()
        gate.opened.set()
        # Asked at once, while the task that was cancelled has not even noticed.
        await loop.turn("my tea is black")
        assert gone.cancelled()
        assert not memory.diagnostics.upkeep.held
        loop.registry.abort(loop.ctx)  # there is no turn any more
    kept = ["Hello", "Hi.", "my tea is black", "You said my tea is black."]
    assert [message["content"] for message in loop.messages] == kept
    assert "forget that" not in str(stored(tmp_path))


@on_loop
async def test_an_agent_within_a_tool_aborts_its_own_turn_only(tmp_path: Path) -> None:
    """The turn that it runs in goes on, and is kept."""

    @hook("after_llm")
    def cook(ctx: Any, payload: Any) -> None:
        loop.registry.abort(TurnContext(Session([{"role": "user", "content": "Cook!"}])))

    async with opened(tmp_path) as memory:
        loop = await started(memory, cook)
        await loop.turn("ask the cook")
    assert stored(tmp_path) == loop.messages != []


@on_loop
async def test_of_half_heard_sentences_only_the_newest_waits(tmp_path: Path) -> None:
    """A recogniser may tell more than the hooks can take; order among the points is kept."""
    gate = Gate("on_speech_start", "on_partial", "on_run_start")
    async with opened(tmp_path) as memory:
        loop = await started(memory, gate)
        post = loop.registry.post
        post("on_speech_start", loop.ctx, {})
        await until(gate.reached)
        for text in ("my", "my tea", "my tea is"):
            post("on_partial", loop.ctx, {"text": text})
        post("on_run_start", loop.ctx, {"task": "my tea is black"})
        post("on_partial", loop.ctx, {"text": "and"})
        gate.opened.set()
        await loop.fire("on_idle", {"seconds": 0.0})
    assert gate.seen == [{}, {"text": "my tea is"}, {"task": "my tea is black"}, {"text": "and"}]
    for _ in range(2):
        with pytest.raises(ClosedError):
            post("on_partial", loop.ctx, {"text": "so"})
    with pytest.raises(ClosedError):
        await loop.turn("so")


@on_loop
async def test_a_hook_that_is_a_coroutine_is_refused(tmp_path: Path) -> None:
    """The sentence says what to write instead; a point that does not exist is refused as by the synchronous registry."""

    class Later:
        points, priority = frozenset({"before_llm"}), 0

        async def __call__(self, point: str, ctx: Any, payload: Any) -> None: ...

    async with opened(tmp_path) as memory:
        registry = await memory.hooks()
        with pytest.raises(InvalidInputError, match="await before or behind fire"):
            registry.register(Later())  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="no point 'on_lunch'"):
            await registry.fire("on_lunch", None, {})


async def perhaps(dice: random.Random, work: Awaitable[Any]) -> bool:
    """Cancel work at once, after steps of the loop, or after a moment of other threads; return whether it was done."""
    task = asyncio.ensure_future(work)
    for _ in range(dice.choice([0, 1, 2, 5, 20])):
        await asyncio.sleep(0)
    await asyncio.sleep(dice.random() ** 3 * 0.03)
    if dice.random() < 0.8:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return not task.cancelled()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(cases(100)))
@on_loop
async def test_whatever_is_cancelled_the_home_has_whole_turns_alone(tmp_path: Path, seed: int) -> None:
    """After cancels at random, the file has the loop's own list: answered turns, whole, and none that was aborted."""
    dice, done = random.Random(seed), set()
    async with opened(tmp_path) as memory:
        loop = await started(memory)
        for n in range(25):
            if await perhaps(dice, loop.turn(f"sentence {n}", tool=dice.random() < 0.3)):
                done.add(f"sentence {n}")
        await loop.fire("on_idle", {"seconds": 0.0})
        assert loop.registry.failures() == []
    assert stored(tmp_path) == loop.messages
    asked = [message["content"] for message in loop.messages if message["role"] == "user"]
    answers = [
        text for message in loop.messages if message["role"] == "assistant" and (text := message["content"])
    ]
    assert answers == [f"You said {text}." for text in asked]
    assert done <= set(asked)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(cases(60)))
@on_loop
async def test_whatever_is_cancelled_writes_are_a_prefix(tmp_path: Path, seed: int) -> None:
    """Of writes that follow one another, those are there that were done, and at most the one that was cancelled."""
    dice, done = random.Random(seed), set()

    async def write(n: int) -> None:
        for k in range(5):
            await memory.store.add_fact(f"{n}.{k}", "x")
            done.add(f"{n}.{k}")

    async with opened(tmp_path) as memory:
        for n in range(10):
            await perhaps(dice, write(n))
    async with opened(tmp_path) as memory:
        facts = {fact.key for fact in await memory.store.facts()}
    assert done <= facts
    for n in range(10):
        written = {key for key in facts if key.startswith(f"{n}.")}
        assert written == {f"{n}.{k}" for k in range(len(written))}
        assert len(written - done) <= 1
