"""Prepare, abort, interrupt, commit and restart in any order, over a real home: the prompt is that of what was kept."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edgemem
from edgemem import AgentLoop
from edgemem.fence import fence
from edgemem.hooks.builtin import part_of
from edgemem.records import Message, Reply, ToolCall
from edgemem.session.tools import Tool
from support.homes import home_of
from support.models import Unforgetting
from support.selection import cases

QUIET = """
[time]
line = false
[llama]
embedder = ""
[store]
commit_wait_s = 0.0
[injection]
useless_per_useful = 2e9
[recall]
deadline_ms = 60000
"""
"""Only facts are injected, in however long a time, so that the reference can tell every line: what is said only asks. No turn
waits for the disk."""

FACTS = {"cup": "red shelf", "boat": "blue lake"}
INSTRUCTIONS = {"role": "system", "content": "You are Pip."}
SCHEMA = {"type": "object", "properties": {}}

HEARD = ["beginning", "spelt", "nothing", "all", "other"]


class Step(NamedTuple):
    """A turn: its subject, what its tool does, how much is heard of it ("older": of the reply before), and how it ends."""

    topic: str
    tool: str
    during: str | None
    ending: str


class Kept(NamedTuple):
    """A committed turn of the reference: its messages as the model shall see them, and its whole reply."""

    messages: list[Message]
    reply: str
    lines: frozenset[str]
    heard: str | None
    untold: bool = False


steps = st.one_of(
    st.builds(
        Step,
        st.sampled_from(["cup", "boat", "weather"]),
        st.sampled_from(["", "", "looks", "is cut off"]),
        st.sampled_from([None, None, *HEARD, "older", "older"]),
        st.sampled_from(["commit", "commit", "abort", "replaced"]),
    ),
    st.sampled_from([*HEARD, *HEARD, "restart"]),
)


def heard_of(reply: str, kind: str) -> tuple[str, str]:
    """Return what the voice tells, and what of the reply that is."""
    begun = reply[: reply.find("?") + 1]
    return {
        "beginning": (begun, begun), "spelt": (begun.lower().replace(",", " ").replace(":", ""), begun),
        "nothing": ("", ""), "all": (reply, reply), "other": ("nobody ever said so", ""),
    }[kind]  # fmt: skip


class House(Unforgetting):
    """A home that is opened again and again, with a loop in it; plays the steps and compares with a plain list."""

    def __init__(self, home: Path) -> None:
        self.home = home_of(home, QUIET)
        self.counter = itertools.count()
        self.dropped: set[str] = set()
        self.sessions: list[str] = []
        self.memory = edgemem.open(home, worker=False)
        for key, value in FACTS.items():
            self.memory.store.add_fact(key, value)

    def begin(self, session: str) -> None:
        self.session = session
        look = Tool("look", "Look.", SCHEMA, self.look)
        hooks = self.memory.hooks(session_id=session)
        part_of(hooks, "memory").max_episodes = 0
        self.loop = AgentLoop(self, hooks=hooks, instructions="You are Pip.", tools=[look], speaker="alice")
        self.fresh = True

    def restart(self) -> None:
        self.memory.close()
        self.memory = edgemem.open(self.home, worker=False)
        self.begin(self.session)

    def complete(self, messages: Sequence[Message], **_: Any) -> Reply:
        self.handed.append(list(messages))
        if self.step.tool and len(self.handed) == 1:
            return Reply("", (ToolCall("look", {}, "c1"),))
        if self.step.during == "older":
            if self.older is not None:
                self.loop.interrupt(self.older)
        elif self.step.during is not None:
            self.loop.interrupt(heard_of(self.reply, self.step.during)[0])
        return Reply(self.reply)

    def look(self) -> str:
        if self.step.tool == "is cut off":
            self.loop.interrupt("")
        return "seen"

    def play(self, orders: Sequence[Step | str]) -> None:
        if len(self.sessions) == 3:
            self.check()
        self.begin(f"s{next(self.counter)}")
        self.sessions.append(self.session)
        kept: list[Kept] = []
        for step in [*orders, Step("cup", "", None, "commit")]:
            if step == "restart":
                self.restart()
                # Whoever has spoken since is taken to have been told.
                kept[:-1] = [turn._replace(untold=False) for turn in kept[:-1]]
            elif isinstance(step, str):
                self.late(kept, step)
            else:
                self.turn(kept, step)
        assert self.loop.hooks.failures() == []

    def check(self) -> None:
        """Look for what was dropped in every table, and empty the sessions, so that recall stays the same."""
        database = self.memory.diagnostics.database
        database.flush()
        tables = [name for (name,) in database.query("select name from sqlite_master where type = 'table'")]
        held = repr([database.query(f"select * from {table}") for table in tables])
        found = [mark for mark in self.dropped if mark in held]
        for session in self.sessions:
            self.memory.sessions.delete(session)
        self.sessions.clear()
        self.dropped.clear()
        assert "zq" in held
        assert not found

    def late(self, kept: list[Kept], kind: str) -> None:
        """Interrupt the speech that outlasts its turn; after a restart nothing is spoken."""
        if self.fresh:
            return
        told, heard = heard_of(kept[-1].reply if kept else "", kind)
        self.loop.interrupt(told)
        if kept and kind != "other":  # no reply begins so
            self.cut_newest(kept, heard)

    @staticmethod
    def cut_newest(kept: list[Kept], heard: str) -> None:
        """Keep of the newest reply what was heard."""
        said = [*kept[-1].messages[:-1], {"role": "assistant", "content": heard or "…"}]
        kept[-1] = kept[-1]._replace(messages=said, heard=heard, untold=True)

    def turn(self, kept: list[Kept], step: Step) -> None:
        """Prepare a turn, compare the prompts, and end it."""
        mark = f"zq{next(self.counter):06d}"
        self.step, self.handed, self.fresh = step, [], False
        self.reply = f"Reply, {mark}: is it near? Or is it far?"
        asked = f"Where is the {step.topic}, {mark}?"
        plays = bool(kept) and kept[-1].heard is None
        self.older = heard_of(kept[-1].reply, "beginning")[0] if plays else None
        self.loop.prepare(asked)
        lines = []
        told = next((n for n in reversed(range(len(kept))) if kept[n].untold), -1)
        if told >= 0:
            after = f" after: {kept[told].heard}" if kept[told].heard else ""
            lines.append(f"- you were interrupted{after}")
        fact = f"- {step.topic}: {FACTS.get(step.topic)}"
        if step.topic in FACTS and not any(fact in turn.lines for turn in kept):
            lines.append(fact)
        block = fence(lines) if lines else ""
        messages: list[Message] = [{"role": "user", "content": block + asked}]
        before = [INSTRUCTIONS, *(message for turn in kept for message in turn.messages)]
        assert self.handed[0] == [*before, *messages]
        if step.tool:
            function = {"name": "look", "arguments": "{}"}
            calls = [{"id": "c1", "type": "function", "function": function}]
            messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            messages.append({"role": "tool", "tool_call_id": "c1", "name": "look", "content": "seen"})
        reply, heard = self.reply, None
        if step.tool == "is cut off":
            reply = heard = ""
        else:
            assert self.handed[-1] == [*before, *messages]
            if step.during == "older" and self.older is not None:
                self.cut_newest(kept, self.older)
            elif step.during not in (None, "older"):
                heard = heard_of(reply, step.during)[1]
        if step.ending != "commit":
            self.dropped.add(mark)
            if step.ending == "abort":
                self.loop.abort()
            else:
                self.turn(kept, Step(step.topic, "", None, "commit"))
            return
        self.loop.commit()
        said = reply if heard is None else heard
        messages.append({"role": "assistant", "content": said or "…"})
        kept[: told + 1] = [turn._replace(untold=False) for turn in kept[: told + 1]]
        kept.append(Kept(messages, reply, frozenset(lines), heard, heard is not None))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    house = House(tmp_path_factory.mktemp("orders") / "home")
    yield house
    house.check()
    house.memory.close()


@pytest.mark.long
@settings(max_examples=cases(4000), deadline=None, database=None)
@given(st.lists(steps, max_size=3))
def test_the_prompt_is_that_of_the_committed_history(house: House, orders: list[Step | str]) -> None:
    """What was dropped was never shown, and what was shown stands byte for byte where it was put."""
    house.play(orders)
