"""Turns that are cut off around their tools: whatever happens, the history is one that every template takes."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemem import AgentLoop, Memory
from edgemem.context.messages import repair_orphans
from edgemem.records import Message, Reply, ToolCall
from edgemem.session.points import AFTER_TOOL, BEFORE_TOOL
from edgemem.session.tools import Tool
from support.homes import opened
from support.models import Unforgetting

WHICH = {"type": "integer", "description": "Which."}
SCHEMA = {"type": "object", "properties": {"n": WHICH}, "required": ["n"]}


class Plan(msgspec.Struct, frozen=True):
    """One turn: how many tools are called at each hop, and where it is cut off."""

    hops: tuple[int, ...]
    how: str = ""
    """`model`, `before`, `within`, `after` a tool, `late`, `error`, `crash`, or nothing."""
    place: tuple[int, int] = (0, 0)
    """At which hop and call."""
    heard: str = ""
    speaks: bool = False
    """Whether something is said with a call, before its tool runs."""


class CrashError(BaseException):
    """The process ends here."""


class Robot(Unforgetting):
    """A loop whose model and tool do what a plan says."""

    def __init__(self, memory: Memory) -> None:
        self.plan = Plan(())
        self.hop = 0
        self.called = 0
        self.handed: list[list[Message]] = []
        self.points = frozenset({BEFORE_TOOL, AFTER_TOOL})
        self.priority = 0
        look = Tool("look", "Looks.", SCHEMA, self.look)
        hooks = [*memory.hooks(session_id="s", speaker="alice"), self]
        self.loop = AgentLoop(self, hooks=hooks, instructions="You are Pip.", tools=[look])
        self.loop.max_hops = 4

    def __call__(self, point: str, ctx: Any, payload: Any) -> None:
        if point == BEFORE_TOOL:
            self.called += 1
        self.cut_at("before" if point == BEFORE_TOOL else "after")

    def look(self, n: int) -> str:
        self.cut_at("within")
        return f"cup {n}"

    def cut_at(self, where: str) -> None:
        here = self.plan.place == (self.hop - 1, self.called - 1)
        if here and self.plan.how == where:
            self.loop.interrupt(self.plan.heard)
        if here and where == "within" and self.plan.how == "crash":
            raise CrashError

    def complete(self, messages: Sequence[Message], **_: Any) -> Reply:
        self.handed.append(list(messages))
        hop, self.hop, self.called = self.hop, self.hop + 1, 0
        if self.plan.place[0] == hop and self.plan.how == "model":
            self.loop.interrupt(self.plan.heard)
            return Reply("I was going", interrupted=True)
        if self.plan.place[0] == hop and self.plan.how == "error":
            raise OSError("the model is gone")
        calls = self.plan.hops[hop] if hop < len(self.plan.hops) else 0
        said = f"hop {hop} says something"
        looks = tuple(ToolCall("look", {"n": n}) for n in range(calls))
        return Reply("" if calls and not self.plan.speaks else said, looks)

    def turn(self, plan: Plan) -> bool:
        self.plan, self.hop = plan, 0
        try:
            self.loop.prepare("what is there?")
        except CrashError:
            return False
        except OSError:
            pass
        self.loop.commit()
        if plan.how == "late":
            self.loop.interrupt(plan.heard)
        assert self.loop.hooks.failures() == []
        return True


def check_whole(messages: Sequence[Message]) -> None:
    """Fail where a strict template would: roles out of turn, a call without its result, a reply without a word."""
    assert messages[0]["role"] == "system"
    before, waiting = "assistant", list[str]()
    for message in messages[1:]:
        role = message["role"]
        if waiting:
            assert role == "tool"
            waiting.remove(message["tool_call_id"])
            before = "tool"
            continue
        assert role == ("user" if before == "assistant" else "assistant"), (before, role)
        if role == "assistant":
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
            assert waiting or message["content"].strip()
        before = role
    assert waiting == []


PLAN = st.builds(
    Plan,
    st.lists(st.integers(1, 3), max_size=2).map(tuple),
    st.sampled_from(["", "", "model", "before", "within", "after", "late", "error", "crash"]),
    st.tuples(st.integers(0, 1), st.integers(0, 2)),
    st.sampled_from(["", "hop", "hop 0 says something hop", "I was"]),
    st.booleans(),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(PLAN, min_size=1, max_size=6))
def test_every_prompt_is_whole_wherever_turns_are_cut(plans: list[Plan]) -> None:
    """Before, within and after one of several tools, by a cut, an error or a crash: every prompt is one that is taken."""
    with tempfile.TemporaryDirectory() as folder:
        memory = opened(Path(folder) / "home")
        try:
            robot = Robot(memory)
            for plan in plans:
                if not robot.turn(plan):
                    memory.close()
                    memory = opened(Path(folder) / "home")
                    robot = Robot(memory)
            robot.turn(Plan(()))
            said = robot.loop.session.messages
            assert repair_orphans(said) == said
            for messages in robot.handed:
                check_whole(messages)
        finally:
            memory.close()
