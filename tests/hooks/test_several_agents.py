"""Several agents: on one memory, on two channels, in two processes, and one conversation handed from one to another."""

import gc
from collections.abc import Sequence
from functools import partial
from inspect import cleandoc
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Any

from edgemem import AgentLoop, Memory
from edgemem.hooks.builtin import PartHook
from edgemem.memory.idle import IdleWorker
from edgemem.records import Message, Reply, Session, ToolCall
from edgemem.session.points import (
    BEFORE_TOOL,
    ON_IDLE,
    ON_RUN_END,
    ON_RUN_START,
    ON_SPEECH_START,
    HookRegistry,
    ToolCallRequest,
    TurnContext,
)
from edgemem.session.speech import UpkeepHold
from edgemem.session.tools import Tool
from support.homes import opened
from support.loops import side_by_side
from support.models import Unforgetting

HOME_SETTINGS = "[context]\nwindow_tokens = 16384\n"


class Model(Unforgetting):
    """Keeps a fact when it is told one (`keep key=value`), and otherwise answers."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.handed: list[list[Message]] = []
        self.calls: list[ToolCall] = []

    def complete(self, messages: Sequence[Message], **_: Any) -> Reply:
        self.handed.append(list(messages))
        last = messages[-1]
        _, keep, fact = str(last["content"]).rpartition("\n")[2].partition("keep ")
        if last["role"] == "user" and keep:
            key, _, value = fact.partition("=")
            return Reply("", (ToolCall("remember_fact", {"key": key, "value": value}),))
        if self.calls and last["role"] == "user":
            return Reply("", (self.calls.pop(0),))
        return Reply(f"{self.name} answers")


def agent(memory: Memory, session: str, *, speaker: str | None = "alice", **how: Any) -> AgentLoop:
    return AgentLoop(
        Model(session), hooks=memory.hooks(session_id=session), tools=memory.tools(), speaker=speaker, **how
    )


def prompt(loop: AgentLoop) -> str:
    return "\n".join(str(message["content"]) for message in loop.model.handed[-1])  # type: ignore[attr-defined]


def talk(loop: AgentLoop, turns: int) -> None:
    for n in range(turns):
        loop.run(f"{loop.model.name} says sentence {n}")  # type: ignore[attr-defined]
        loop.run(f"keep {loop.model.name}.{n}=word{n}")  # type: ignore[attr-defined]


def test_two_agents_in_two_threads_never_mix(tmp_path: Path) -> None:
    """Sessions stay apart and whole, every prompt grows, and the facts of both are in one memory."""
    with opened(tmp_path / "home", HOME_SETTINGS, worker=True) as memory:
        loops = [agent(memory, "hall"), agent(memory, "attic", speaker="bob")]
        side_by_side(*(partial(talk, loop, 15) for loop in loops))
        memory.diagnostics.database.flush()
        for loop, other in ((loops[0], "attic"), (loops[1], "hall")):
            assert loop.hooks.failures() == []
            said = [str(message) for message in loop.session.messages]
            assert not [text for text in said if f"{other} says" in text or f"{other} answers" in text]
            stored = memory.sessions.load(loop.model.name)  # type: ignore[attr-defined]
            assert stored is not None
            assert [m["content"] for m in stored.messages] == [m["content"] for m in loop.session.messages]
            handed = loop.model.handed  # type: ignore[attr-defined]
            assert all(after[: len(before)] == before for before, after in pairwise(handed))
        assert len(memory.store.facts()) == 30
        assert memory.diagnostics.upkeep.failures() == []


def test_what_one_is_told_the_other_knows_in_its_next_turn(memory: Memory) -> None:
    """A fact is put before both, once to each: what a prompt holds is counted by session."""
    hall, attic = agent(memory, "hall"), agent(memory, "attic")
    hall.run("keep dog.name=Rufus")
    for _ in range(2):
        attic.run("what is the name of the dog?")
    first, second = attic.model.handed  # type: ignore[attr-defined]
    assert "Rufus" in first[-1]["content"]
    assert "<memory>" not in second[-1]["content"]
    hall.run("what is the name of the dog?")
    assert "<memory>" not in hall.model.handed[-1][-1]["content"]  # type: ignore[attr-defined]
    hall.run("keep dog.name=Bella")
    attic.run("and now, what is the name of the dog?")
    assert "now Bella (before: Rufus)" in attic.model.handed[-1][-1]["content"]  # type: ignore[attr-defined]


class Agent:
    def __init__(self, worker: IdleWorker) -> None:
        self.hooks = HookRegistry([PartHook("upkeep", UpkeepHold(worker))])
        self.ctx = TurnContext(Session())

    def fire(self, point: str, ctx: TurnContext | None = None, **payload: Any) -> None:
        self.hooks.fire(point, ctx or self.ctx, payload)


def test_idle_work_waits_for_all_agents() -> None:
    """Neither another agent's end of turn starts it, nor that of one within a tool, which has the same hooks."""
    worker = IdleWorker({})
    first, second = Agent(worker), Agent(worker)
    inner = TurnContext(Session())
    first.fire(ON_SPEECH_START)
    second.fire(ON_RUN_START)
    first.fire(ON_RUN_START)
    first.fire(ON_RUN_END)
    assert worker.speaking
    second.hooks.fire(BEFORE_TOOL, second.ctx, ToolCallRequest("ask", {}))
    second.fire(ON_RUN_START, inner)
    second.fire(ON_RUN_END, inner)
    assert worker.speaking
    second.fire(ON_RUN_END)
    assert not worker.speaking


def test_an_agent_that_is_gone_holds_nothing() -> None:
    """A loop that was dropped in the middle of a turn does not stop upkeep for ever, nor does a sound without words."""
    worker = IdleWorker({})
    first, second = Agent(worker), Agent(worker)
    first.fire(ON_RUN_START)
    second.fire(ON_SPEECH_START)
    del first
    gc.collect()
    assert worker.speaking
    second.fire(ON_IDLE, seconds=0.0)
    assert not worker.speaking


def handed_over(memory: Memory) -> tuple[AgentLoop, AgentLoop]:
    """Return two agents of one conversation: a cook with a tool, and a host without it."""
    hooks = memory.hooks(session_id="kitchen", speaker="alice")
    stove = Tool("stove", "Turns the stove on.", {"type": "object", "properties": {}}, lambda: "it is hot")
    cook = AgentLoop(Model("cook"), hooks=hooks, instructions="You cook.", tools=[stove], agent_name="cook")
    host = AgentLoop(Model("host"), hooks=hooks, instructions="You welcome guests.", agent_name="host")
    return cook, host


def test_a_conversation_is_handed_over_and_back(memory: Memory) -> None:
    """Each sees its own instructions and all that was said, the other's tool calls whole; the session is one."""
    cook, host = handed_over(memory)
    cook.model.calls = [ToolCall("stove", {})]  # type: ignore[attr-defined]
    cook.run("make it hot, please")
    host.run("who is coming?")
    handed = host.model.handed[-1]  # type: ignore[attr-defined]
    roles = ["system", "user", "assistant", "tool", "assistant", "user"]
    assert [message["role"] for message in handed] == roles
    assert handed[0]["content"] == "You welcome guests."
    assert handed[3]["tool_call_id"] == handed[2]["tool_calls"][0]["id"]
    host.model.calls = [ToolCall("stove", {})]  # type: ignore[attr-defined]
    host.run("and the stove?")
    assert "there is no tool 'stove'" in prompt(host)
    cook.run("is it hot now?")
    back = cook.model.handed[-1]  # type: ignore[attr-defined]
    assert back[0]["content"] == "You cook."
    said = [(message["role"], message["content"]) for message in back[5:7]]
    assert said == [("user", "who is coming?"), ("assistant", "host answers")]
    assert cook.hooks.failures() == host.hooks.failures() == []
    stored = memory.sessions.load("kitchen")
    assert stored is not None
    assert [m["content"] for m in stored.messages] == [m["content"] for m in cook.session.messages]
    assert [episode.agent for episode in memory.store.recent_episodes(kind="tool_call")] == ["cook", "host"]


def test_the_example_of_the_docstring_runs(memory: Memory) -> None:
    """What `Memory.hooks` shows is what works."""
    shown = cleandoc(Memory.hooks.__doc__ or "")
    lines = [line for line in shown.splitlines() if line.startswith(("    hooks =", "    cook", "    host"))]
    code = dedent("\n".join(line for line in lines if "=" in line or ".run(" in line))
    stove = Tool("stove", "", {}, lambda: "hot")
    known: dict[str, Any] = {"memory": memory, "model": Model("Pip"), "stove": stove, "AgentLoop": AgentLoop}
    exec(code, known)
    assert known["host"].hooks.failures() == []
    assert "What shall we eat?" in prompt(known["host"])
