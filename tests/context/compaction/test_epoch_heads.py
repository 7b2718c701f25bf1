"""Epoch heads: instructions and tools that changed, also while the robot was off, begin a new epoch with today's date."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem import AgentLoop
from edgemem.clock import Clock
from edgemem.records import Message, Reply
from edgemem.session.tools import Tool
from edgemem.store.turns import latest_epoch

MONTH_S = 30 * 86_400.0
LOOK = Tool("look", "Look.", {"type": "object", "properties": {}}, lambda: "a cup")


class Robot:
    """A robot that is switched off for a month between any two of its days."""

    def __init__(self, home: Path) -> None:
        home.mkdir()
        (home / "edgemem.toml").write_text('[llama]\nembedder = ""\n')
        self.home = home
        self.now = 1_770_000_000.0
        self.dates: list[float] = []

    def complete(self, messages: Sequence[Message], *, now: float | None = None, **_: Any) -> Reply:
        self.dates.append(round((now or 0.0) - 1_770_000_000.0))
        return Reply("Fine.")

    def cut(self, heard_text: str) -> None:
        """Nothing to forget."""

    def day(self, *instructions: str, tools: Sequence[Tool] = (), aborted: bool = False) -> list[Any]:
        """Switch it on for a turn with each of the instructions; return why its epochs began so far."""
        clock = Clock(wall=lambda: self.now, monotonic=lambda: self.now)
        with edgemem.open(self.home, worker=False, clock=clock) as memory:
            for text in instructions:
                hooks = memory.hooks(session_id="k")
                loop = AgentLoop(self, hooks=hooks, tools=tools, speaker="alice", instructions=text)
                if aborted:
                    loop.prepare("hel")
                    loop.abort()
                loop.run("hello")
                assert loop.hooks.failures() == []
            memory.diagnostics.database.flush()
            begun = memory.diagnostics.database.query("select reason from epochs order by id")
            reasons = [reason for (reason,) in begun]
        self.now += MONTH_S
        return reasons


@pytest.fixture
def robot(tmp_path: Path) -> Robot:
    """Return a robot that has spoken once."""
    robot = Robot(tmp_path / "home")
    assert robot.day("You are Pip.") == ["begin"]
    return robot


@pytest.mark.parametrize("aborted", [False, True])
def test_instructions_that_changed_while_it_was_off_begin_an_epoch(robot: Robot, aborted: bool) -> None:
    """Once, at the first turn that is kept, and templates print that day's date from there on."""
    assert robot.day("You are Pip.") == ["begin"]
    assert set(robot.dates) == {0}
    assert robot.day("You are Pop.", "You are Pop.", aborted=aborted) == ["begin", "instructions"]
    assert set(robot.dates[2:]) == {2 * MONTH_S}
    assert robot.day("You are Pop.") == ["begin", "instructions"]
    assert robot.dates[-1] == 2 * MONTH_S


def test_tools_that_changed_while_it_was_off_do_too(robot: Robot) -> None:
    """Templates print them before everything as well."""
    assert robot.day("You are Pip.", tools=[LOOK]) == ["begin", "instructions"]
    assert robot.day("You are Pip.", tools=[LOOK]) == ["begin", "instructions"]


def test_each_of_two_changes_begins_one(robot: Robot) -> None:
    """One while it was off, and one while it was on."""
    assert robot.day("You are Pop.", "You are Pup.") == ["begin", "instructions", "instructions"]


def test_an_epoch_lasts(tmp_path: Path) -> None:
    """What was measured of the prompt before it says nothing of it: many turns fit before the next begins."""
    robot = Robot(tmp_path / "home")
    (robot.home / "edgemem.toml").write_text(
        '[llama]\nembedder = ""\n[context]\nwindow_tokens = 1200\nreply_tokens = 128\nsummary_tokens = 60\n'
    )
    begun: list[int] = []
    with edgemem.open(robot.home, worker=False) as memory:
        loop = AgentLoop(robot, hooks=memory.hooks(session_id="k"), speaker="alice")
        for _ in range(40):
            loop.run("A long question. " * 12)
            memory.idle(5)
            epoch = latest_epoch(memory.diagnostics.database, "k")
            if epoch is not None and epoch.first_turn not in begun:
                begun.append(epoch.first_turn)
    assert begun[0] == 0
    assert 4 <= len(begun) <= 8
    assert all(later - earlier >= 5 for earlier, later in pairwise(begun[1:]))
