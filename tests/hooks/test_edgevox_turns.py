"""Turns of a real EdgeVox agent that go another way: handed over, broken off, with calls in words, interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from edgevox_agent import calls, calls_in_words, grows, make_agent, new_context, tool
from talking import opened

from edgemem.errors import InvalidInputError
from edgemem.hooks import load
from edgemem.memory import Memory

pytestmark = pytest.mark.usefixtures("patient", "edgevox")

WAYS = ("agent", "context")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Return an open memory."""
    with opened(tmp_path / "home") as memory:
        yield memory


def attached(way: str, agent: Any, ctx: Any, memory: Memory, **how: Any) -> Any:
    """Attach the memory to an agent, or to the hooks of the context that it runs in."""
    return load("edgevox_loop").attach(
        agent if way == "agent" else ctx.hooks, memory, session_id="kitchen", **{"speaker": "alice", **how}
    )


def stored(memory: Memory) -> list[tuple[str | None, str, list[tuple[str, str | None]]]]:
    """Return the stored turns: who spoke, how it ended, and what was said."""
    memory.database.flush()
    return [
        (
            turn.heard.speaker if turn.heard else None,
            turn.state,
            [(message.role, message.content) for message in turn.messages],
        )
        for turn in memory.sessions.journal.read_turns("kitchen")
    ]


class Private:
    """A hook of the robot that marks what holds a word as private."""

    points = frozenset({"on_run_start"})
    priority = 200

    def __init__(self, word: str) -> None:
        self.word = word

    def __call__(self, point: str, ctx: Any, payload: Any) -> Any:
        from edgevox.agents import HookResult

        return HookResult.replace({**payload, "private": True}) if self.word in payload["task"] else None


@pytest.mark.parametrize("way", WAYS)
def test_calls_in_words_are_kept_as_calls(memory: Memory, way: str) -> None:
    """EdgeVox tells their results in the person's name, with an order behind; neither is the person's."""
    shelf = tool("look", lambda place: f"a red cup in the {place}", place="string")
    agent, model = make_agent(
        calls_in_words("look", "One moment. ", place="cellar"),
        "A red cup.",
        calls_in_words("look", place="attic"),
        calls_in_words("look", place="attic"),
        "Nothing more.",
        tools=[shelf],
    )
    ctx = new_context()
    ears = attached(way, agent, ctx, memory)
    agent.run("What is in the cellar?", ctx)
    agent.run("And in the attic?", ctx)
    agent.run("Thank you.", ctx)
    assert ears.failures() == []
    assert grows(model.handed)
    assert "red cup in the cellar" in model.handed[1][-1]["content"]
    assert not [m for handed in model.handed for m in handed if "Now answer" in str(m["content"])]
    first, second, _ = memory.sessions.journal.read_turns("kitchen")
    assert [m.role for m in first.messages] == ["user", "assistant", "tool", "assistant"]
    assert first.messages[1].content == "One moment."
    (call,) = first.messages[1].extra["tool_calls"]
    assert call["function"] == {"name": "look", "arguments": '{"place": "cellar"}'}
    assert first.messages[2].extra["tool_call_id"] == call["id"]
    assert "red cup in the cellar" in str(first.messages[2].content)
    assert [m.role for m in second.messages] == ["user", *["assistant", "tool"] * 2, "assistant"]
    said = [m.content for turn in (first, second) for m in turn.messages if m.role == "user"]
    assert said == ["What is in the cellar?", "And in the attic?"]
    found = memory.recall("red cup cellar", speaker="alice")
    assert found
    assert not [item for item in found if item.source == "user" and "cup" in item.text]


@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("second", WAYS)
def test_attaching_twice_keeps_each_word_once(memory: Memory, first: str, second: str) -> None:
    """The same session again, at the agent or at its context, is the same attachment, for whoever was named last."""
    ctx = new_context()
    agent, model = make_agent()
    memory.store.add_fact("tea", "black", scope="household")
    ears = attached(first, agent, ctx, memory, memory_tools=False)
    agent.run("Hello.", ctx)
    assert attached(second, agent, ctx, memory, memory_tools=False, speaker="bob") is ears
    agent.run("What tea do we have?", ctx)
    assert stored(memory) == [
        ("alice", "complete", [("user", "Hello."), ("assistant", "ok")]),
        ("bob", "complete", [("user", "What tea do we have?"), ("assistant", "ok")]),
    ]
    assert model.handed[-1][-1]["content"].count("tea: black") == 1
    assert grows(model.handed)
    assert ears.failures() == []


def test_hooks_by_hand_keep_a_session_once(memory: Memory) -> None:
    """More hooks come to those that are there; a second one that keeps the session is refused in one sentence."""
    agent, _ = make_agent()
    ctx = new_context()
    loop = load("edgevox_loop")
    hooks = memory.hooks(session_id="kitchen")
    ears = loop.attach_hooks(agent, hooks, speaker="alice")
    assert loop.attach_hooks(agent, [*hooks, Private("ring")], speaker="alice") is ears
    agent.run("The ring is in the piano.", ctx)
    assert [turn.level for turn in memory.sessions.journal.read_turns("kitchen")] == ["private"]
    with pytest.raises(InvalidInputError, match="keeps the session 'kitchen' already"):
        loop.attach_hooks(agent, memory.hooks(session_id="kitchen"))
    agent.run("Where is it?", ctx)
    assert len(stored(memory)) == 2
    assert ears.failures() == []


@pytest.mark.parametrize("way", WAYS)
def test_an_agent_within_a_tool_has_no_turn_of_its_own(memory: Memory, way: str) -> None:
    """What it says to the other agent was said by nobody; its answer is the tool's result."""
    from edgevox.agents import agent_as_tool

    cook, _ = make_agent("Twenty minutes.", name="cook")
    agent, model = make_agent(
        calls("cook", task="cook rice"),
        "Twenty.",
        calls_in_words("cook", task="again"),
        tools=[agent_as_tool(cook)],
    )
    ctx = new_context()
    ears = attached(way, agent, ctx, memory, memory_tools=False)
    agent.run("How long does rice take?", ctx)
    agent.run("Really?", ctx)
    first, second = memory.sessions.journal.read_turns("kitchen")
    for turn in (first, second):
        assert [m.role for m in turn.messages] == ["user", "assistant", "tool", "assistant"]
    assert first.messages[0].content == "How long does rice take?"
    assert "Twenty minutes." in str(first.messages[2].content)
    assert grows(model.handed)
    assert ears.failures() == []


@pytest.mark.parametrize("way", WAYS)
def test_a_turn_is_kept_while_its_model_thinks(memory: Memory, way: str) -> None:
    """Whoever pulls the plug then has lost nothing of what was said, nor who said it."""
    seen = []

    def think(_: Any) -> str:
        seen.extend(stored(memory))
        return "Hello."

    agent, _ = make_agent(think)
    ctx = new_context()
    attached(way, agent, ctx, memory)
    agent.run("Good evening.", ctx)
    assert seen == [("alice", "open", [("user", "Good evening.")])]


@pytest.mark.parametrize("call", [calls, calls_in_words])
@pytest.mark.parametrize("way", WAYS)
def test_a_turn_is_its_speakers_alone_while_a_tool_runs(memory: Memory, way: str, call: Any) -> None:
    """What the tool will tell is not known yet, also where the model wrote its call as text; the end tells."""

    def levels() -> list[tuple[str, str | None]]:
        memory.database.flush()
        return [(turn.level, turn.owner) for turn in memory.sessions.journal.read_turns("kitchen")]

    seen = []
    shelf = tool("look", lambda: seen.extend(levels()) or "a red cup")
    agent, _ = make_agent(call("look"), "A red cup.", tools=[shelf])
    ctx = new_context()
    attached(way, agent, ctx, memory)
    agent.run("What is on the shelf?", ctx)
    assert (seen, levels()) == ([("private", "alice")], [("household", "alice")])
