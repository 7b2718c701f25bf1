"""An async memory: every method is awaited, cancelling gives up waiting, and closing ends what waits."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from by_words import BY_WORDS
from hash_embedder import HashEmbedder

import edgemem.aio
from edgemem.aio import AsyncMemory
from edgemem.errors import ClosedError, ConfigError, InvalidInputError


def opened(home: Path) -> AsyncMemory:
    """Open a home that finds by words, without threads of its own."""
    return edgemem.aio.open(home, profile=BY_WORDS, worker=False)


class Gate:
    """Lines of an import that come once it is opened; until then the thread of what takes long is held up."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def lines(self) -> Iterator[bytes]:
        self.reached.set()
        assert self.opened.wait(60)
        yield b'{"record":"edgemem","format":3}'
        yield b'{"record":"end","lines":0}'


async def until(event: threading.Event) -> None:
    """Wait for another thread."""
    assert await asyncio.to_thread(event.wait, 60)


async def raised(*waited: Awaitable[Any]) -> list[type]:
    """Return the classes of what awaits raise or return."""
    return [type(outcome) for outcome in await asyncio.gather(*waited, return_exceptions=True)]


def live(script: Callable[[], Any]) -> Any:
    """Run a test on a loop that tells of what blocks it in a wrong way."""
    return asyncio.run(script(), debug=True)


def test_what_is_awaited_is_done_as_by_a_synchronous_memory(tmp_path: Path) -> None:
    """Facts, notes, sessions, recall, tools, an export and an import go through the same stores."""

    async def script() -> None:
        async with opened(tmp_path / "a") as memory:
            await memory.store.add_fact("tea", "black")
            await memory.notes.append("The kettle is in the cellar.")
            await memory.sessions.save("hall", edgemem.Session([{"role": "user", "content": "Hello"}]))
            assert [item.text for item in await memory.recall("which tea?", kinds={"fact"})] == ["tea: black"]
            assert await memory.sessions.list_ids() == ["hall"]
            assert isinstance(await memory.hints(), list)
            tools = {tool.name: tool for tool in await memory.tools()}
            assert "black" in str(await tools["recall_fact"].run(None, key="tea"))
            lines = [line.encode() async for line in memory.export()]
            assert await memory.idle(60)
            assert all(check.state != "fail" for check in await memory.check())
            assert await memory.forget("tea")
        memory = await opened(tmp_path / "b")
        assert (await memory.import_lines(lines)).added["facts"] == 1
        assert await memory.store.get_fact("tea") == "black"
        assert "cellar" in await memory.notes.read()
        await memory.close()

    live(script)


_opened_here: list[tuple[str, str]] = []
"""Files of a home that were opened, each with the name of the thread."""
_watched: list[str] = []


def _see(event: str, args: tuple[Any, ...]) -> None:
    if _watched and event in {"open", "sqlite3.connect"} and str(args[0]).startswith(_watched[0]):
        _opened_here.append((str(args[0]), threading.current_thread().name))


def test_no_file_is_opened_on_the_thread_of_the_loop(tmp_path: Path) -> None:
    """From opening to closing, the home is the business of other threads."""

    async def script() -> None:
        async with opened(tmp_path) as memory:
            await memory.store.add_fact("tea", "black")
            await memory.notes.append("The kettle is in the cellar.")
            await memory.recall("tea")
            registry = await memory.hooks()
            await registry.fire("on_idle", None, {"seconds": 0.0})
            await memory.idle(60)
            await memory.check()
            assert [line async for line in memory.export()]

    sys.addaudithook(_see)
    _watched.append(str(tmp_path))
    live(script)
    _watched.clear()
    assert _opened_here
    assert threading.current_thread().name not in {thread for _, thread in _opened_here}


def test_what_had_not_begun_does_not_begin_once_its_task_is_cancelled(tmp_path: Path) -> None:
    """A call that waits for its thread is dropped, and those behind it are served."""

    async def script() -> str | None:
        async with opened(tmp_path) as memory:
            await memory.store.add_fact("tea", "black")
            gate = Gate()
            ahead = asyncio.create_task(memory.import_lines(gate.lines()))
            await until(gate.reached)
            forgotten = asyncio.create_task(memory.forget("tea"))
            await asyncio.sleep(0)
            forgotten.cancel()
            gate.opened.set()
            assert await raised(forgotten) == [asyncio.CancelledError]
            await ahead
            await memory.idle(0.0)
            return await memory.store.get_fact("tea")

    assert live(script) == "black"


def test_an_import_that_is_given_up_takes_nothing_in(tmp_path: Path) -> None:
    """It ends at its next line, and what it had read is in no table."""

    async def script() -> int:
        async with opened(tmp_path / "a") as memory:
            await memory.store.add_fact("tea", "black")
            lines = [line.encode() async for line in memory.export()]
        async with opened(tmp_path / "b") as memory:
            gate = Gate()

            def slow() -> Iterator[bytes]:
                yield from lines[:-1]
                yield from gate.lines()

            given_up = asyncio.create_task(memory.import_lines(slow()))
            await until(gate.reached)
            given_up.cancel()
            assert await raised(given_up) == [asyncio.CancelledError]
            gate.opened.set()
            return len(await memory.store.facts())

    assert live(script) == 0


class EndlessEmbedder(HashEmbedder):
    """Embeds stored text for as long as it may."""

    reached = threading.Event()

    def embed_until(self, texts: Sequence[str], stop: Callable[[], bool]) -> list[Any]:
        self.reached.set()
        while not stop():
            threading.Event().wait(0.001)
        return []


def test_idle_stops_when_its_task_is_cancelled_and_when_somebody_speaks(tmp_path: Path) -> None:
    """An hour of upkeep makes room at once: for what waits behind it, and for whoever speaks."""

    async def script() -> None:
        embedder = EndlessEmbedder()
        async with edgemem.aio.open(tmp_path, embedder=embedder, worker=False) as memory:
            await memory.store.add_fact("tea", "black")
            given_up = asyncio.create_task(memory.idle(3600))
            await until(embedder.reached)
            given_up.cancel()
            assert await raised(given_up) == [asyncio.CancelledError]
            embedder.reached.clear()
            quiet = asyncio.create_task(memory.idle(3600))
            await until(embedder.reached)
            registry = await memory.hooks()
            registry.post("on_speech_start", edgemem.hooks.TurnContext(edgemem.Session()), {"speaker": None})
            assert await quiet is False

    live(script)


def test_calls_that_wait_when_a_memory_is_closed_end_with_one_error(tmp_path: Path) -> None:
    """What had begun ends as it can, what waits behind it is refused, and so is whatever comes later."""

    async def script() -> None:
        memory = await opened(tmp_path)
        gate = Gate()
        begun = asyncio.create_task(memory.import_lines(gate.lines()))
        await until(gate.reached)
        waiting = [asyncio.create_task(call) for call in (memory.check(), memory.forget("tea"))]
        await asyncio.sleep(0)
        closing = [asyncio.create_task(memory.close()) for _ in range(2)]
        await asyncio.sleep(0)
        gate.opened.set()
        assert await raised(begun, *waiting) == [ClosedError] * 3
        assert await raised(*closing, memory.close()) == [type(None)] * 3
        late = (
            memory.recall("tea"),
            memory.store.facts(),
            memory.idle(),
            memory.hooks(),
            anext(memory.export()),
        )
        assert await raised(*late) == [ClosedError] * 5
        with pytest.raises(ClosedError, match="open the home again with edgemem"):
            await memory.notes.read()
        with pytest.raises(ClosedError):
            await memory
        assert memory.home == tmp_path

    live(script)


def test_a_memory_is_used_from_two_loops(tmp_path: Path) -> None:
    """Each task goes on in its own loop."""

    async def script() -> list[str]:
        async with opened(tmp_path) as memory:

            async def tell(n: int) -> threading.Thread:
                for k in range(20):
                    await memory.store.add_fact(f"key {n} {k}", "x")
                    await memory.recall(f"key {n}")
                return threading.current_thread()

            other = asyncio.to_thread(lambda: asyncio.run(tell(1)))
            here, there = await asyncio.gather(tell(0), other)
            assert here is threading.current_thread() is not there
            return [fact.key for fact in await memory.store.facts()]

    assert len(live(script)) == 40


def test_what_cannot_be_opened_says_why_and_leaves_no_thread(tmp_path: Path) -> None:
    """The error is that of `edgemem.open`; one that was never opened, or whose opening was given up, is closed."""

    async def script() -> None:
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

    live(script)
    while any(thread.name.startswith("edgemem") for thread in threading.enumerate()):
        threading.Event().wait(0.01)
