"""An async memory: every method is awaited, cancelling gives up waiting, and closing ends what waits."""

import asyncio
import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import edgemem.aio
from edgemem.errors import ClosedError, ConfigError, InvalidInputError
from edgemem.records import Session
from support.embedders import HashEmbedder
from support.homes import BY_WORDS
from support.loops import on_loop, opened, raised, until

SEED = {"messages", "facts", "goals", "summaries", "users", "session_state", "phases", "tool_events"}
"""Cognitia's eight protocols."""


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
        await memory.bank.for_person("Ann").write("plan.md", "Buy a kettle.")
        assert await memory.bank.for_person("ann").list() == ["plan.md"]
        assert await memory.bank.household.read("plan.md") is None
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
    """No public name is missing, and none is more but those of Cognitia's protocols."""
    async with opened(tmp_path) as memory:
        assert (memory.home, memory.profile) == (tmp_path, BY_WORDS)
        seen = {name for name in dir(memory) if not name.startswith("_")}
    with edgemem.open(tmp_path, profile=BY_WORDS) as plain:
        assert seen - SEED == {name for name in dir(plain) if not name.startswith("_")} - {"hooks"}
