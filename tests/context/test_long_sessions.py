"""Sessions of thousands of turns: what a turn costs does not grow with what was said before its epoch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgemem import AgentLoop
from edgemem.context.prompt import PromptLog
from edgemem.records import Epoch, Message
from edgemem.session.log import log_of
from support.homes import opened
from support.models import Model
from support.selection import LONG


def live(loop: AgentLoop, prompt_log: PromptLog, turns: int) -> None:
    """Put turns straight into the loop and its prompt log, as a process that has lived through them holds them."""
    for n in range(turns):
        said: list[Message] = [
            {"role": "user", "content": f"hello number {n}"},
            {"role": "assistant", "content": f"hello yourself, number {n}"},
        ]
        loop.session.messages += said
        prompt_log.begin().messages = list(said)
        prompt_log.commit()


def calls_of(work: Callable[[], Any]) -> int:
    """Return how many functions are called while some work is done in this thread, of C too."""
    calls = 0

    def count(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.long
def test_a_turn_costs_the_same_after_ten_thousand(tmp_path: Path) -> None:
    """All hooks together do as much in a turn after 10,000 turns (700 if it must be quick) as after 100."""
    with opened(tmp_path / "home") as memory:
        model = Model(otherwise="It stands on the second shelf, I think.")
        hooks = memory.hooks(session_id="s")
        loop = AgentLoop(model, hooks=hooks, instructions="You are Pip.", speaker="alice")
        loop.run("hello")
        prompt_log = log_of(loop.ctx).prompt_log
        costs, prompts = [], []
        many = 9_900 if LONG else 600
        for turns in (100, many):
            live(loop, prompt_log, turns)
            prompt_log.switch(Epoch("s", prompt_log.next_n - 3, started_at=1.0))
            for _ in range(3):
                loop.run("hello")
            memory.idle(10)
            costs.append(min(calls_of(lambda: loop.run("hello")) for _ in range(3)))
            prompts.append(len(model.handed[-1]))
        assert loop.hooks.failures() == []
    assert len(loop.session.messages) > 2 * many
    assert prompts[0] == prompts[1]
    # recall looks at some more turns; each message would be some thousands
    assert costs[1] < 2 * costs[0], costs
