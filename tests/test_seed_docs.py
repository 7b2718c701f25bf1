"""The documented code of EdgeVox's memory module, with the imports changed to edgemem: all of it runs.

Where its page makes an agent, edgemem's reference loop stands in; where it loads an embedding model, MiniLM does.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from llama_cpp import Llama

from edgemem import (
    AgentLoop,
    AuditLogHook,
    Compactor,
    ContextCompactionHook,
    EpisodeLoggerHook,
    Fact,
    JSONMemoryStore,
    JSONSessionStore,
    MemoryInjectionHook,
    MemoryStore,
    NotesFile,
    NotesInjectorHook,
    PersistSessionHook,
    Session,
    SessionStore,
    SQLiteMemoryStore,
    SQLiteSessionStore,
    TimingHook,
    TokenBudgetHook,
    ToolErrorRetryHook,
    ToolOutputTruncatorHook,
    VectorMemoryStore,
    estimate_tokens,
    llama_embed,
    memory_tools,
)
from edgemem.loop.toolbox import Tool
from edgemem.records import Message, Reply, ToolCall


class Cook:
    """Answers, or calls the tools that a test wrote down; keeps what it was handed."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.handed: list[list[Message]] = []

    def complete(self, messages: Sequence[Message], **_: Any) -> Reply:
        self.handed.append(list(messages))
        return self.replies.pop(0) if self.replies else Reply("Certainly.")

    def cut(self, heard_text: str) -> None:
        """Nothing to forget."""


def agent_with(*replies: Reply, **settings: Any) -> tuple[AgentLoop, Cook]:
    """Return the reference loop where the page makes an LLMAgent, and its model."""
    model = Cook(*replies)
    return AgentLoop(model, instructions="You help in the kitchen.", **settings), model


def test_semantic_search(tmp_path: Path, minilm: Path) -> None:
    """The first program of the page: facts by meaning, the nearest first."""
    embedder = Llama(
        model_path=str(minilm), embedding=True, n_ctx=512, n_batch=512, n_ubatch=512, verbose=False
    )
    try:
        with VectorMemoryStore(tmp_path / "vec.db", embed_fn=llama_embed(embedder)) as store:
            store.add_fact("user.allergies", "peanuts, shellfish")
            store.add_fact("kitchen.fridge.contents", "milk, eggs, cheese")
            store.add_fact("garage.door.code", "four digits on the blue card")
            found = store.search_facts("what's safe to cook?", k=3)
            printed = [f"{distance:.3f}  {fact.key}: {fact.value}" for fact, distance in found]
    finally:
        embedder.close()
    assert len(printed) == 3
    assert printed[-1].endswith("garage.door.code: four digits on the blue card")
    assert [distance for _, distance in found] == sorted(distance for _, distance in found)


@pytest.mark.parametrize("kind", [JSONSessionStore, SQLiteSessionStore])
def test_a_conversation_is_resumed_after_a_restart(tmp_path: Path, kind: Any) -> None:
    """Swapping the session store changes one line and nothing else."""
    for task in ("I am planning a soup", "which dish was it?"):
        with kind(tmp_path / "sessions.db") as sessions:
            agent, model = agent_with(
                hooks=[PersistSessionHook(session_store=sessions, session_id="user-42")]
            )
            agent.run(task)
            assert agent.hooks.failures() == []
    assert [m["content"] for m in model.handed[-1]][1:] == [
        "I am planning a soup",
        "Certainly.",
        "which dish was it?",
    ]


@pytest.mark.parametrize("kind", [JSONSessionStore, SQLiteSessionStore])
def test_the_session_store_protocol(tmp_path: Path, kind: Any) -> None:
    """Save, load, delete and list, by id."""
    with kind(tmp_path / "sessions.db") as sessions:
        assert isinstance(sessions, SessionStore)
        session = Session([{"role": "user", "content": "hi"}], {"mood": "good", "__private": object()})
        sessions.save("kitchen", session)
        loaded = sessions.load("kitchen")
        assert (loaded.messages, loaded.state) == (session.messages, {"mood": "good"})
        assert sessions.list_ids() == ["kitchen"]
        assert (sessions.delete("kitchen"), sessions.delete("kitchen")) == (True, False)
        assert sessions.load("kitchen") is None


def memory_stores(folder: Path) -> list[Any]:
    """Return the three stores of the page, empty."""

    def embed(text: str) -> list[float]:
        return [float(len(text)), float(text.count("a")), 1.0]

    return [
        SQLiteMemoryStore(folder / "m.db"),
        JSONMemoryStore(folder / "m.json"),
        VectorMemoryStore(folder / "v.db", embed_fn=embed, embedding_dim=3),
    ]


def test_all_stores_share_their_meaning(tmp_path: Path) -> None:
    """Facts, preferences and episodes behave alike, and the prompt is the same whichever store is used."""
    rendered = []
    for store in memory_stores(tmp_path):
        with store:
            assert isinstance(store, MemoryStore)
            store.add_fact("stove", "gas", scope="env:kitchen", source="alice")
            store.add_fact("guests", "two")
            store.add_fact("guests", "three")
            store.set_preference("units", "metric")
            store.add_episode("tool_call", {"name": "timer"}, "ok", agent="kitchen")
            assert store.get_fact("guests") == "three"
            assert {fact.key for fact in store.facts()} == {"stove", "guests"}
            assert [fact.key for fact in store.facts(scope="env:kitchen")] == ["stove"]
            assert [(p.key, p.value) for p in store.preferences()] == [("units", "metric")]
            assert [e.kind for e in store.recent_episodes(n=5, kind="tool_call")] == ["tool_call"]
            rendered.append(store.render_for_prompt(max_facts=20, max_episodes=5))
            assert store.forget_fact("guests") is True
            assert store.forget_fact("guests") is False
    assert rendered[0].strip()
    assert rendered == [rendered[0]] * 3


def test_what_was_believed_is_not_lost(tmp_path: Path) -> None:
    """A new value ends the old one, names it, and the past can be asked for."""
    for store in memory_stores(tmp_path):
        with store:
            store.add_fact("bin.day", "Tuesday")
            time.sleep(0.002)
            between = store.facts()[0].valid_from + 0.001
            store.add_fact("bin.day", "Friday")
            old, new = sorted(store.fact_history("bin.day"), key=lambda fact: fact.valid_from or 0.0)
            assert (old.value, new.value) == ("Tuesday", "Friday")
            assert new.supersedes == old.id
            assert old.valid_to == new.valid_from
            assert (old.is_active, new.is_active) == (False, True)
            assert [fact.value for fact in store.facts_as_of(between)] == ["Tuesday"]
    assert Fact("key", "value", "global", source="me").is_active


def test_notes(tmp_path: Path) -> None:
    """A scratchpad with a bound: the newest stays, and a marker says that there was more."""
    notes = NotesFile(tmp_path / "kitchen-notes.md", max_size_chars=400)
    for n in range(40):
        notes.append(f"note number {n}", heading="log")
    assert "note number 39" in notes.tail(200)
    assert "(earlier notes truncated)" in notes.read()
    assert len(notes.read()) <= 400
    unbounded = NotesFile(tmp_path / "all.md", max_size_chars=0)
    for _ in range(40):
        unbounded.append("x" * 100)
    assert "truncated" not in unbounded.read()
    notes.clear()
    assert notes.read() == ""


def test_typical_wiring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kitchen agent of the page, every hook of it, over two runs of the program."""
    monkeypatch.setenv("HOME", str(tmp_path))
    ring = Reply("", (ToolCall("set_timer", {"minutes": 6}),))
    for run in range(2):
        store = JSONMemoryStore("~/.edgevox/memory/kitchen.json")
        notes = NotesFile("~/.edgevox/memory/kitchen-notes.md")
        sessions = JSONSessionStore("~/.edgevox/memory/sessions")
        if run == 0:
            store.add_fact("user.allergies", "peanuts")
            notes.append("The oven runs hot.")
        agent, model = agent_with(
            ring,
            agent_name="kitchen",
            tools=[Tool("set_timer", "Set a timer.", {}, lambda minutes: f"{minutes} minutes")],
            hooks=[
                MemoryInjectionHook(store),
                NotesInjectorHook(notes),
                TokenBudgetHook(max_context_tokens=3500),
                ContextCompactionHook(Compactor(trigger_tokens=3000)),
                EpisodeLoggerHook(store, agent_name="kitchen"),
                PersistSessionHook(session_store=sessions, session_id="kitchen"),
            ],
        )
        agent.run("six minutes please")
        assert agent.hooks.failures() == []
        assert model.handed[0][0] == {"role": "system", "content": "You help in the kitchen."}
        shown = str(model.handed[0])
        assert ("peanuts" in shown, "oven runs hot" in shown) == (True, True)
        assert shown.count("six minutes please") == run + 1
        (episode, *_) = store.recent_episodes(1)
        assert (episode.payload["name"], episode.outcome, episode.agent) == ("set_timer", "ok", "kitchen")
        store.close()
        sessions.close()


def test_memory_as_tools(tmp_path: Path) -> None:
    """The model keeps, looks up and drops a fact by itself, and a tool can be left out."""
    store = JSONMemoryStore(tmp_path / "memory.json")
    agent, model = agent_with(
        Reply("", (ToolCall("remember_fact", {"key": "oven", "value": "runs hot", "scope": "global"}),)),
        Reply("", (ToolCall("recall_fact", {"key": "oven"}),)),
        Reply("I know."),
        tools=memory_tools(store),
    )
    assert set(agent.tools) == {"remember_fact", "forget_fact", "recall_fact"}
    agent.run("remember that the oven runs hot")
    assert "runs hot" in str(model.handed[-1][-1]["content"])
    assert store.get_fact("oven") == "runs hot"
    store.flush()
    store.close()
    with JSONMemoryStore(tmp_path / "memory.json") as again:
        assert again.get_fact("oven") == "runs hot"
        (only,) = memory_tools(again, include=("recall_fact",))
        assert only.name == "recall_fact"


def test_compaction_by_hand() -> None:
    """Instructions stay, the newest turns stay, what is between becomes shorter, tool outcomes are kept if asked."""
    messages: list[Message] = [{"role": "system", "content": "You are Pip."}]
    for n in range(40):
        messages += [
            {
                "role": "user",
                "content": f"Jar number {n} of plum jam stands on shelf {n}, please remember that.",
            },
            {"role": "assistant", "content": "", "tool_calls": [{"id": f"c{n}", "name": "note"}]},
            {"role": "tool", "tool_call_id": f"c{n}", "name": "note", "content": f"noted {n}"},
            {"role": "assistant", "content": "Noted."},
        ]
    compactor = Compactor(
        trigger_tokens=1200, keep_last_turns=4, summary_max_tokens=150, preserve_tool_calls=True
    )
    assert compactor.should_compact(messages, llm=None)
    compacted = compactor.compact(messages, llm=None, stop_event=None)
    assert compacted[0] == messages[0]
    assert compacted[-15:] == messages[-15:]
    assert "note -> noted 35" in compacted[1]["content"]
    assert estimate_tokens(compacted) < 1200 < estimate_tokens(messages)


def test_tokens_are_counted_by_the_model_where_there_is_one() -> None:
    """`estimate_tokens` takes the page's kind of model, or none."""

    class Counting:
        def count_tokens(self, text: str) -> int:
            return len(text)

    messages = [{"role": "user", "content": "năm ngón tay"}]
    assert estimate_tokens(messages, llm=Counting()) > estimate_tokens(messages) > 4


def test_the_other_hooks_of_the_seed(tmp_path: Path) -> None:
    """Audit, truncation, retry and timing take the arguments that they take there."""
    calls = Reply("", (ToolCall("read", {}), ToolCall("broken", {})))
    with AuditLogHook(tmp_path / "audit.jsonl") as audit:
        timing = TimingHook()
        agent, model = agent_with(
            calls,
            hooks=[audit, timing, ToolOutputTruncatorHook(max_chars=2000), ToolErrorRetryHook(max_retries=2)],
            tools=[Tool("read", "", {}, lambda: "page\n" * 10_000)],
        )
        agent.run("read to me")
        assert agent.hooks.failures() == []
    read, broken = model.handed[-1][-2:]
    assert len(read["content"]) <= 2000
    assert '"retries_left": 2' in broken["content"]
    assert timing.at("after_llm")["model"].count == 2
    assert len((tmp_path / "audit.jsonl").read_text().splitlines()) == 5
