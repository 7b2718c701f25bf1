"""An async memory and its turns: every method is awaited, hooks act in order, and what is cancelled leaves nothing half done."""

import asyncio
import inspect
import random
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import edgemem.aio
from edgemem.aio import AsyncMemory
from edgemem.errors import ClosedError, ConfigError, InvalidInputError, TurnEndedError
from edgemem.hooks import HookResult, hook
from edgemem.records import Session
from edgemem.session.tools import Tool
from support.embedders import HashEmbedder
from support.homes import BY_WORDS
from support.loops import Gate, Loop, on_loop, opened, raised, until
from support.selection import cases


class Slow:
    """Lines of an import, the last two of which come once it is opened; until then the long calls are held up."""

    def __init__(self, *lines: bytes) -> None:
        self._lines = lines
        self.reached, self.opened = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        yield from self._lines
        self.reached.set()
        assert self.opened.wait(60)
        yield b'{"record":"edgemem","format":3}'
        yield b'{"record":"end","lines":0}'


@on_loop
async def test_what_is_awaited_is_done_as_by_a_synchronous_memory(tmp_path: Path) -> None:
    """Facts, notes, sessions, recall, tools, hooks, an export and an import; no file is opened on the thread of the loop."""
    threads = set[threading.Thread]()

    def see(event: str, args: tuple[Any, ...]) -> None:
        if event in {"open", "sqlite3.connect"} and str(args[0]).startswith(str(tmp_path)):
            threads.add(threading.current_thread())

    sys.addaudithook(see)
    async with opened(tmp_path / "a") as memory:
        await memory.store.add_fact("tea", "black")
        await memory.notes.append("The kettle is in the cellar.")
        await memory.sessions.save("hall", Session([{"role": "user", "content": "Hello"}]))
        assert [item.text for item in await memory.recall("which tea?", kinds={"fact"})] == ["tea: black"]
        assert await memory.sessions.list_ids() == ["hall"]
        assert isinstance(await memory.hints(), list)
        await memory.bank.for_person("Ann").write_file("plan.md", "Buy a kettle.")
        assert await memory.bank.for_person("ann").list_files() == ["plan.md"]
        assert await memory.bank.household.read_file("plan.md") is None
        assert await memory.procedures.suggest("boil water") == []
        tools = {tool.name: tool for tool in await memory.tools()}
        assert "black" in str(await tools["recall_fact"].run(None, key="tea"))
        lines = [line.encode() async for line in memory.export()]
        await (await memory.session("talk")).idle(0.0)
        assert await memory.idle(60)
        assert all(check.state != "fail" for check in await memory.check())
        assert await memory.forget("tea")
    memory = await opened(tmp_path / "b")
    assert (await memory.import_lines(lines)).added["facts"] == 1
    assert await memory.store.get_fact("tea") == "black"
    assert "cellar" in await memory.notes.read()
    await memory.close()
    assert threads
    assert threading.current_thread() not in threads


@on_loop
async def test_an_import_that_is_given_up_takes_nothing_in(tmp_path: Path) -> None:
    """It ends at its next line, and what it had read is in no table; a call that waited behind it never begins."""
    async with opened(tmp_path / "a") as memory:
        await memory.store.add_fact("tea", "black")
        slow = Slow(*[line.encode() async for line in memory.export()][:-1])
    async with opened(tmp_path / "b") as memory:
        await memory.store.add_fact("milk", "cold")
        imported = asyncio.create_task(memory.import_lines(slow))
        await until(slow.reached)
        forgotten = asyncio.create_task(memory.forget("milk"))
        await asyncio.sleep(0)
        imported.cancel()
        forgotten.cancel()
        assert await raised(imported, forgotten) == [asyncio.CancelledError] * 2
        slow.opened.set()
        await memory.check()
        assert [fact.key for fact in await memory.store.facts()] == ["milk"]


class EndlessEmbedder(HashEmbedder):
    """Embeds stored text for as long as it may."""

    reached = threading.Event()

    def embed_until(self, texts: Sequence[str], stop: Callable[[], bool]) -> list[Any]:
        self.reached.set()
        while not stop():
            threading.Event().wait(0.001)
        return []


@on_loop
async def test_idle_stops_when_its_task_is_cancelled_and_when_somebody_speaks(tmp_path: Path) -> None:
    """An hour of upkeep makes room at once: for what waits behind it, and for whoever speaks."""
    embedder = EndlessEmbedder()
    async with edgemem.aio.open(tmp_path, embedder=embedder, worker=False) as memory:
        await memory.store.add_fact("tea", "black")
        given_up = asyncio.create_task(memory.idle(3600))
        await until(embedder.reached)
        given_up.cancel()
        assert await raised(given_up) == [asyncio.CancelledError]
        door = await memory.session("talk")
        for quiet in (memory.idle(3600), door.idle(3600.0)):
            embedder.reached.clear()
            waiting = asyncio.create_task(quiet)
            await until(embedder.reached)
            await door.speech_start()
            assert not isinstance(await waiting, BaseException)
            await door.idle(0.0)


@on_loop
async def test_calls_that_wait_when_a_memory_is_closed_end_with_one_error(tmp_path: Path) -> None:
    """What had begun ends as it can, what waits behind it is refused, and so is whatever comes later."""
    memory = await opened(tmp_path)
    slow = Slow()
    begun = asyncio.create_task(memory.import_lines(slow))
    await until(slow.reached)
    waiting = [asyncio.create_task(call) for call in (memory.check(), memory.forget("tea"))]
    await asyncio.sleep(0)
    closing = [asyncio.create_task(memory.close()) for _ in range(2)]
    await asyncio.sleep(0)
    slow.opened.set()
    assert await raised(begun, *waiting) == [ClosedError] * 3
    assert await raised(*closing, memory.close()) == [type(None)] * 3
    late = [memory.recall("tea"), memory.store.facts(), memory.idle(), memory.session("talk")]
    late.append(anext(memory.export()))
    assert await raised(*late) == [ClosedError] * 5
    with pytest.raises(ClosedError, match="open the home again with edgemem"):
        await memory.notes.read()
    with pytest.raises(ClosedError):
        await memory
    assert memory.home == tmp_path


@on_loop
async def test_a_memory_is_used_from_two_loops(tmp_path: Path) -> None:
    """Each task goes on in its own loop."""
    async with opened(tmp_path) as memory:

        async def tell(n: int) -> threading.Thread:
            for k in range(20):
                await memory.store.add_fact(f"key {n} {k}", "x")
                await memory.recall(f"key {n}")
            return threading.current_thread()

        other = asyncio.to_thread(lambda: asyncio.run(tell(1)))
        threads = await asyncio.gather(tell(0), other)
        assert threads[0] is threading.current_thread() is not threads[1]
        assert len(await memory.store.facts()) == 40


@on_loop
async def test_what_cannot_be_opened_says_why_and_leaves_no_thread(tmp_path: Path) -> None:
    """The error is that of `edgemem.open`; what was never opened, or whose opening was given up, is closed."""
    with pytest.raises(ConfigError):
        await edgemem.aio.open(tmp_path, profile="no such profile")
    unopened = opened(tmp_path)
    with pytest.raises(ClosedError, match="not open"):
        await unopened.recall("tea")
    await unopened.close()
    given_up = asyncio.ensure_future(opened(tmp_path / "given up").__aenter__())
    await asyncio.sleep(0)
    given_up.cancel()
    assert await raised(given_up) == [asyncio.CancelledError]
    async with opened(tmp_path) as memory:
        with pytest.raises(InvalidInputError):
            await memory.idle("long")  # type: ignore[arg-type]
    while any(thread.name.startswith("edgemem") for thread in threading.enumerate()):
        await asyncio.sleep(0.01)


def test_open_takes_what_edgemem_open_takes() -> None:
    """Whoever moves to an event loop changes the import and awaits."""
    assert inspect.signature(edgemem.aio.open) == inspect.signature(edgemem.open)


@on_loop
async def test_an_async_memory_shows_the_names_of_a_memory(tmp_path: Path) -> None:
    """No public name is missing, and none is more."""
    async with opened(tmp_path) as memory:
        assert (memory.home, memory.profile) == (tmp_path, BY_WORDS)
        seen = {name for name in dir(memory) if not name.startswith("_")}
    with edgemem.open(tmp_path, profile=BY_WORDS) as plain:
        assert seen == {name for name in dir(plain) if not name.startswith("_")} - {"hooks"}


async def started(memory: AsyncMemory, *hooks: Any, session: str = "talk") -> Loop:
    """Return a loop with the door of a session, and hooks of its own."""
    door = await memory.session(session, tools=await memory.tools(speaker="Ann"))
    door.hooks.extend(hooks)
    return Loop(door)


def stored(home: Path) -> list[Any]:
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
        assert other.door is not None
        assert other.door.failures() == []
    assert "tea is black" in texts[0]


@on_loop
async def test_an_async_conversation_takes_other_instructions_and_another_speaker(tmp_path: Path) -> None:
    """They hold from the next turn on, as at the synchronous door; its tools stay, and a closed memory takes nothing."""
    async with opened(tmp_path) as memory:
        kitchen = await memory.session("kitchen", instructions="You help.")
        kitchen.instructions, kitchen.speaker = "You cook.", "alice"
        async with kitchen.turn("Hello.") as turn:
            assert (await turn.messages)[0]["content"] == kitchen.instructions == "You cook."
            await turn.reply("Hi.")
        assert (kitchen.ctx.speaker, kitchen.speaker) == ("alice", "alice")
        with pytest.raises(AttributeError):
            kitchen.tools = {}  # type: ignore[misc]
        with pytest.raises(InvalidInputError, match="instructions must be text"):
            kitchen.instructions = None  # type: ignore[assignment]
    steps = [kitchen.result("c1", "x"), kitchen.interrupt(), kitchen.partial("x"), kitchen.speech_start()]
    for call in (*steps, kitchen.idle(1)):
        with pytest.raises(ClosedError, match="is closed"):
            await call


@pytest.mark.parametrize("point", ["on_run_start", "before_llm"])
@on_loop
async def test_a_turn_that_is_cancelled_before_the_model_is_aborted(tmp_path: Path, point: str) -> None:
    """The steps return, then the turn is thrown away, before whatever is asked next."""
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
        assert not memory.diagnostics.upkeep.speaking
    kept = ["my tea is black", "You said my tea is black."]
    assert [message["content"] for message in loop.messages] == kept
    assert [message["content"] for message in stored(tmp_path)] == kept


@on_loop
async def test_a_turn_that_is_cancelled_later_is_kept_unfinished(tmp_path: Path) -> None:
    """The model was asked: the utterance stays its speaker's, and the next turn goes on."""
    async with opened(tmp_path) as memory:
        door = await memory.session("talk")
        asked = asyncio.Event()

        async def turn() -> None:
            async with door.turn("my tea is black", speaker="Ann") as turn:
                await turn.messages
                asked.set()
                await asyncio.sleep(60)

        task = asyncio.create_task(turn())
        await asked.wait()
        task.cancel()
        assert await raised(task) == [asyncio.CancelledError]
        async with door.turn("and?", speaker="Ann") as again:
            assert [m["role"] for m in await again.messages] == ["user", "assistant", "user"]
            assert await again.reply("Yes.") == "Yes."
        with pytest.raises(TurnEndedError):
            await again.reply("too late")
    assert [message["content"] for message in stored(tmp_path)] == ["my tea is black", "and?", "Yes."]


@on_loop
async def test_a_turn_without_a_block_is_awaited(tmp_path: Path) -> None:
    """It begins when it is awaited, and is committed or aborted; interruptions and quiet are awaited as well."""
    async with opened(tmp_path) as memory, await memory.session("talk", speaker="Ann") as door:
        await door.speech_start()
        await door.partial("my tea")
        turn = door.turn("my tea is black")
        with pytest.raises(TurnEndedError, match="has not begun"):
            await turn.messages
        await turn
        await turn.messages
        assert turn.tools == []
        assert turn.hook_reply is None
        await turn.reply("I know.")
        await turn.commit()
        assert await door.interrupt("I kn") == "I kn"
        gone = await door.turn("no")
        await gone.abort()
        await door.idle(0.0)
        assert not gone.is_open
        never = door.turn("no")
        await never.abort()
        with pytest.raises(TurnEndedError, match="has ended"):
            await never
        left = await door.turn("left open")
        for seconds in ("x", None, float("nan")):
            with pytest.raises(InvalidInputError):
                await door.idle(seconds)  # type: ignore[arg-type]
        assert left.is_open
        await left.abort()
    assert [message["content"] for message in stored(tmp_path)] == ["my tea is black", "I kn"]


@on_loop
async def test_a_tool_holds_up_nothing_and_may_ask_the_loop(tmp_path: Path) -> None:
    """While it runs, the robot is cut off and recall answers; an agent within it is nobody's words."""
    begun, ended = threading.Event(), threading.Event()

    async def ask_cook() -> str:
        async with cook.turn("is it hot?") as inner:
            await inner.messages
            return await inner.reply("It is hot.")

    def taste() -> str:
        begun.set()
        assert ended.wait(60)
        return asyncio.run_coroutine_threadsafe(ask_cook(), loop).result(60)

    loop = asyncio.get_running_loop()
    async with opened(tmp_path) as memory:
        cook = await memory.session("cook", speaker="Ann")
        door = await memory.session("talk", speaker="Ann", tools=[Tool("taste", "", {}, taste)])
        async with door.turn("taste the soup") as turn:
            await turn.messages
            tasting = asyncio.create_task(turn.call({"name": "taste", "arguments": {}}))
            await until(begun)
            assert await memory.recall("soup") == []
            ended.set()
            assert (await tasting).result == "It is hot."
            await turn.reply("Hot.")
    with edgemem.open(tmp_path, profile=BY_WORDS, worker=False) as plain:
        (inner,) = plain.sessions.journal.read_turns("cook")
    assert inner.heard is None or inner.heard.speaker is None


@on_loop
async def test_a_hook_or_tool_that_is_a_coroutine_is_refused(tmp_path: Path) -> None:
    """The sentence says what to do instead."""

    class DeferredWrites:
        points, priority = frozenset({"before_llm"}), 0

        async def __call__(self, point: str, ctx: Any, payload: Any) -> None: ...

    async def look() -> str:
        return "a cake"

    async with opened(tmp_path) as memory:
        door = await memory.session("talk")
        with pytest.raises(InvalidInputError, match="plain function"):
            door.hooks.register(DeferredWrites())  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match=r"with add\(\)"):
            await memory.session("talk", tools=[Tool("look", "", {}, look)])


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
        assert loop.door is not None
        await loop.door.idle(0.0)
        assert loop.door.failures() == []
    assert stored(tmp_path) == loop.messages
    asked = [message["content"] for message in loop.messages if message["role"] == "user"]
    answers = [m["content"] for m in loop.messages if m["role"] == "assistant" and m["content"]]
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
