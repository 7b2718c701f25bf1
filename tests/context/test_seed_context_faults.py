"""Faults of EdgeVox's turns (research/edgevox.md, sections 3.2 and 3.3) that must not be found here, by number."""

import threading
from typing import Any

import pytest

from edgemem import AgentLoop, Memory
from edgemem.hooks.builtin import part_of
from edgemem.records import Reply, ToolCall
from edgemem.session.points import ON_RUN_START
from edgemem.session.tools import Tool, ToolTurn
from support.models import Model

pytestmark = pytest.mark.usefixtures("patient")

HOME_SETTINGS = """
[context]
window_tokens = 700
reply_tokens = 40
block_tokens = 40
summary_tokens = 60
"""


def spoken(session: Any) -> list[tuple[str, Any]]:
    return [(message["role"], message["content"]) for message in session.messages]


def test_19_no_summary_is_written_while_somebody_waits(memory: Memory) -> None:
    """A turn that begins only switches: what summarises is called in idle time."""
    hooks = memory.hooks(session_id="s")
    compaction = part_of(hooks, "compaction")
    loop = AgentLoop(Model(), hooks=hooks, speaker="alice")
    speaking: list[bool] = []
    running = False

    class Noting:
        def summarize(self, *_: Any, **__: Any) -> str:
            speaking.append(running)
            return "They talked about cups."

    assert compaction.planner is not None
    compaction.planner.summarizer = Noting()
    for n in range(40):
        running = True
        loop.run(f"turn {n}: the red cup number {n} stands on the shelf beside the window")
        running = False
        memory.idle(5)
    assert len(speaking) >= 2
    assert not any(speaking)
    assert loop.hooks.failures() == []


def test_31_a_cut_at_the_very_beginning_of_a_turn_is_not_wiped() -> None:
    """Whoever cuts in while hooks still look things up hears nothing: the model is not asked."""

    class CutIn:
        points = frozenset({ON_RUN_START})
        priority = 0

        def __call__(self, point: str, ctx: Any, payload: Any) -> None:
            other = threading.Thread(target=loop.interrupt, args=("",))
            other.start()
            other.join()

    model = Model()
    loop = AgentLoop(model, hooks=[CutIn()])
    result = loop.run("drive to the door")
    assert result.interrupted
    assert model.handed == []
    assert spoken(loop.session) == [("user", "drive to the door"), ("assistant", "")]


def test_31_a_cut_reaches_the_agent_within_the_tool() -> None:
    """Somebody cuts the outer agent off while the inner one answers: neither is asked again, and both say so."""
    inside = Model(Reply("", (ToolCall("move", {}),)), Reply("I moved."))
    moved: list[int] = []
    inner = AgentLoop(inside, tools=[Tool("move", "", {}, lambda: moved.append(1))])
    inside.meanwhile = lambda: outer.interrupt("")
    results = []

    def ask(turn: ToolTurn) -> str:
        results.append(inner.run("move, please", stop=turn.stop))
        return results[-1].reply

    model = Model(Reply("", (ToolCall("ask", {}), ToolCall("ask", {}))), Reply("Done."))
    outer = AgentLoop(model, tools=[Tool("ask", "", {}, ask, wants_turn=True)])
    result = outer.run("send somebody")
    assert result.interrupted
    assert [inner_result.interrupted for inner_result in results] == [True]
    assert (len(model.handed), len(inside.handed), moved) == (1, 1, [])
    # The next turn of both begins without the old cut.
    assert not outer.run("and now?").interrupted
    inside.meanwhile = lambda: None
    assert not inner.run("and now?").interrupted
