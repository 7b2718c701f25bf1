"""What of edgemem stands in a real EdgeVox agent by itself: its compactor, and its hooks and tools as they are."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from edgevox_agent import calls, make_agent, new_context, tool
from word_tokenizer import WordTokenizer

import edgemem
from edgemem import Compactor, memory_tools
from edgemem.fence import is_fenced
from edgemem.hooks import ToolOutputTruncatorHook

pytestmark = pytest.mark.usefixtures("patient")


def test_edgevox_compacts_with_our_compactor(edgevox: ModuleType) -> None:
    """Its own hook leaves a conversation alone below the trigger, and cuts it rarely, with a summary, above."""
    for trigger, sizes in ((100_000, [6] * 8), (1000, [100] * 40)):
        counts = WordTokenizer()
        compaction = edgevox.ContextCompactionHook(Compactor(trigger, tokenizer=counts))
        agent, _ = make_agent(hooks=[compaction])
        ctx = new_context()
        cuts = []
        for n, size in enumerate(sizes):
            before = list(ctx.session.messages)
            agent.run(f"I put {n} jars of jam on shelf {n}." + " word" * (size - 12), ctx)
            if before and before[1] not in ctx.session.messages:
                cuts.append(n)
                assert is_fenced(ctx.session.messages[1]["content"])
        if trigger == 100_000:
            assert len(ctx.session.messages) == 17
        else:
            assert cuts
            assert all(later - earlier >= 4 for earlier, later in pairwise(cuts))
        assert counts.count(ctx.session.messages) <= trigger + 100


def test_the_counter_is_the_agents_model(edgevox: ModuleType) -> None:
    """`llm_getter` is called with the context in EdgeVox, and in ours."""
    asked: list[Any] = []
    ours = edgemem.ContextCompactionHook(Compactor(1000), asked.append)
    theirs = edgevox.ContextCompactionHook(Compactor(1000), llm_getter=asked.append)
    agent, _ = make_agent(hooks=[theirs])
    ctx = new_context()
    edgemem.hooks.load("edgevox_loop").attach_hooks(agent, [ours])
    agent.run("Hello.", ctx)
    agent.run("Hello.", ctx)
    assert [seen.hook_state is ctx.hook_state for seen in asked] == [True] * 3


def test_hooks_and_tools_say_which_call_attaches_them(edgevox: ModuleType, tmp_path: Path) -> None:
    """EdgeVox's agent refuses them as they are, at once, and quotes the sentence that they carry."""
    with (
        edgemem.JSONMemoryStore(tmp_path / "m.json") as store,
        edgemem.open(tmp_path / "home", worker=False) as memory,
    ):
        notes = edgemem.NotesFile(tmp_path / "n.md")
        for hooks in (
            memory.hooks(),
            [edgemem.MemoryInjectionHook(memory_store=store)],
            [edgemem.EpisodeLoggerHook(memory_store=store)],
            [edgemem.NotesInjectorHook(notes)],
            [edgemem.ContextCompactionHook(Compactor())],
            [edgemem.PersistSessionHook(memory.sessions, session_id="kitchen")],
            [edgemem.TimingHook()],
            [edgemem.AuditLogHook(tmp_path / "audit.jsonl")],
        ):
            with pytest.raises(ValueError, match=r"'edgevox_loop'\).attach_hooks\(agent, hooks\)"):
                make_agent(hooks=hooks)
        for tools in (memory.tools(), memory_tools(store)):
            with pytest.raises(TypeError, match=r"'edgevox_loop'\).attach_tools\(agent, tools\)"):
                make_agent(tools=tools)


def test_hooks_and_tools_made_by_hand_act_when_attached(edgevox: ModuleType, tmp_path: Path) -> None:
    """Those of the seed, with EdgeVox's names of arguments, remember, log and compact behind its agent."""
    with edgemem.JSONMemoryStore(tmp_path / "m.json") as store:
        store.add_fact("tea", "black")
        agent, model = make_agent(
            "ok", calls("remember_fact", key="oven", value="runs hot"), tools=[tool("look", lambda: "a cup")]
        )
        loop, ctx = edgemem.hooks.load("edgevox_loop"), new_context()
        ears = loop.attach_hooks(
            agent,
            [
                edgemem.MemoryInjectionHook(memory_store=store, max_facts=20),
                edgemem.EpisodeLoggerHook(memory_store=store, agent_name="kitchen"),
                edgemem.ContextCompactionHook(Compactor(3000)),
                edgemem.TimingHook(),
            ],
            speaker="alice",
        )
        loop.attach_tools(agent, memory_tools(store))
        agent.run("What tea is there?", ctx)
        agent.run("Remember that the oven runs hot.", ctx)
        model.said = [calls("look")]
        agent.run("What do you see?", ctx)
        assert "tea: black" in model.handed[0][-1]["content"]
        assert store.get_fact("oven", scope="global") or store.get_fact("oven", scope="household")
        (episode,) = store.recent_episodes(5)
        assert (episode.payload["name"], episode.outcome, episode.agent) == ("look", "ok", "kitchen")
        assert ears.failures() == []


def test_hooks_at_points_of_edgevox_act_as_they_are(edgevox: ModuleType) -> None:
    """Those that need nothing else are taken by EdgeVox straight."""
    counts = WordTokenizer()
    pages = tool("read", lambda: "page " * 10_000)
    agent, model = make_agent(
        calls("read"),
        tools=[pages],
        hooks=[
            ToolOutputTruncatorHook(max_chars=2000),
            edgemem.ToolErrorRetryHook(max_retries=2),
            edgemem.TokenBudgetHook(1000, tokenizer=counts),
        ],
    )
    ctx = new_context()
    for n in range(20):
        agent.run(f"{n}" + " word" * 80, ctx)
    assert len(model.handed[1][-1]["content"]) < 2100
    assert all(counts.count(prompt) <= 1000 for prompt in model.handed)
