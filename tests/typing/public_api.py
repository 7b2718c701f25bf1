"""What a type checker must know of the public names; read by mypy --strict, never run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typing_extensions import assert_type

import edgemem.aio
from edgemem.hooks import Hook, HookRegistry, HookResult, load
from edgemem.loop.loop import TurnResult
from edgemem.records import Check


def open_and_recall(home: str | Path) -> None:
    """Open a home and recall records with typed fields."""
    with edgemem.open(home, profile="pi5") as memory:
        assert_type(memory, edgemem.Memory)
        found = memory.recall("what can I cook?", speaker="alice", k=5, kinds={"fact", "note"})
        assert_type(found, list[edgemem.Recalled])
        assert_type(found[0].score, float)
        assert_type(found[0].why, tuple[str, ...])
        assert_type(found[0].valid_from, float | None)
        assert_type(memory.hints(), list[str])
        assert_type(memory.idle(2), bool)
        assert_type(memory.tools(speaker="alice"), list[edgemem.Tool])
        assert_type(memory.check(), list[Check])
        assert_type(memory.export(), Iterator[str])
        assert_type(memory.profile, edgemem.Profile)


def stores(memory: edgemem.Memory) -> None:
    """Get records from stores made by a path or an open database."""
    assert_type(memory.store, edgemem.SQLiteMemoryStore)
    assert_type(memory.store.facts(scope="global"), list[edgemem.Fact])
    assert_type(memory.store.facts_as_of(1.0, known_at=2.0), list[edgemem.Fact])
    assert_type(memory.store.get_fact("tea"), str | None)
    assert_type(memory.store.recent_episodes(3), list[edgemem.Episode])
    assert_type(memory.sessions.load("kitchen"), edgemem.Session | None)
    assert_type(memory.notes.tail(), str)
    store: edgemem.MemoryStore = edgemem.SQLiteMemoryStore(memory.diagnostics.database)
    sessions: edgemem.SessionStore = edgemem.SQLiteSessionStore("x.db")
    written: edgemem.MemoryStore = edgemem.JSONMemoryStore("x.json")
    files: edgemem.SessionStore = edgemem.JSONSessionStore("sessions")
    assert_type(edgemem.JSONMemoryStore("x.json").fact_history("tea"), list[edgemem.Fact])
    store.add_fact("tea", "black")
    sessions.save("kitchen", edgemem.Session())
    written.forget_fact("tea")
    assert_type(files.list_ids(), list[str])


def at_the_door(home: str | Path) -> None:
    """Tell a turn; a misspelt argument is an error of types."""
    with edgemem.open(home) as memory:
        kitchen = memory.session("kitchen", instructions="You help.", tools=memory.tools())
        assert_type(kitchen, edgemem.Conversation)
        with kitchen.turn("Hello.", speaker="alice", audience=("ben",), private=True) as turn:
            assert_type(turn.messages, list[dict[str, Any]])
            assert_type(turn.hook_reply, str | None)
            assert_type(turn.reply("Hi."), str)
        assert_type(kitchen.interrupt("H"), str | None)
        kitchen.turn("Hello.", speakr="alice")  # type: ignore[call-arg]
        kitchen.turn(1)  # type: ignore[arg-type]


async def on_a_loop(home: str | Path) -> None:
    """Await what a synchronous memory returns."""
    async with edgemem.aio.open(home, profile="pi5") as memory:
        assert_type(memory, edgemem.aio.AsyncMemory)
        assert_type(await memory.recall("what can I cook?", speaker="alice", k=5), list[edgemem.Recalled])
        assert_type(await memory.store.get_fact("tea", scope="household"), str | None)
        assert_type(await memory.store.facts(), list[edgemem.Fact])
        assert_type(await memory.sessions.load("kitchen"), edgemem.Session | None)
        assert_type(await memory.notes.tail(), str)
        assert_type(await memory.idle(2), bool)
        assert_type(await memory.tools(speaker="alice"), list[edgemem.Tool])
        door = await memory.session("kitchen", speaker="alice")
        assert_type(door, edgemem.aio.AsyncConversation)
        async with door.turn("Hello.") as turn:
            assert_type(turn, edgemem.aio.AsyncTurn)
            assert_type(await turn.reply("Hi."), str)
        assert_type([line async for line in memory.export()], list[str])
        await memory.recall(1)  # type: ignore[arg-type]
        await memory.store.add_fact("tea")  # type: ignore[call-arg]
    assert_type(await edgemem.aio.open(home), edgemem.aio.AsyncMemory)


class Shout:
    """A hook of a user's own, without a base class."""

    points = frozenset({"on_run_end"})
    priority = 1

    def __call__(self, point: str, ctx: object, payload: object) -> HookResult | None:
        """Change nothing."""
        return HookResult.cont()


def hooks(memory: edgemem.Memory, loop: edgemem.AgentLoop) -> None:
    """Put hooks of ours and of a user's own into one registry."""
    given = memory.hooks(session_id="kitchen", speaker="alice")
    assert_type(given, list[Hook])
    mine: Hook = Shout()
    registry = HookRegistry([*given, mine])
    assert_type(registry.register(Shout()), HookRegistry)
    assert_type(loop.run("hello"), TurnResult)
    assert_type(loop.run("hello").reply, str)
    load("llama_cpp_loop")


def wrong(memory: edgemem.Memory) -> None:
    """Misspell what a checker must find: an ignore that is not needed is an error, too."""
    memory.recall("x", spaeker="alice")  # type: ignore[call-arg]
    memory.recall("x", kinds={"fax"})  # type: ignore[arg-type]
    memory.store.add_fact(3, "tea")  # type: ignore[arg-type]
    memory.hooks(session_id=7)  # type: ignore[arg-type]


async def names_of_cognitia(path: Path) -> None:
    """Each provider is what its protocols ask for, also to a type checker."""
    async with edgemem.aio.SQLiteMemoryProvider(path) as memory:
        messages: edgemem.aio.MessageStore = memory
        assert_type(await messages.get_messages("ann", "hall"), list[edgemem.aio.MemoryMessage])
        assert_type(await memory.get_facts("ann"), dict[str, Any])
    episodes: edgemem.aio.EpisodicMemory = edgemem.aio.InMemoryEpisodicMemory()
    procedures: edgemem.aio.ProceduralMemory = edgemem.aio.SqliteProceduralMemory(path)
    bank: edgemem.aio.MemoryBankProvider = edgemem.aio.DatabaseMemoryBankProvider(path, "ann", "hall")
    summaries: edgemem.aio.SummaryGenerator = edgemem.aio.LlmSummaryGenerator()
    assert_type(await episodes.recall("tea"), list[edgemem.aio.Episode])
    assert_type(await procedures.get("x"), edgemem.Procedure | None)
    assert_type(await bank.read_file("MEMORY.md"), str | None)
    assert_type(summaries.summarize([]), str)
