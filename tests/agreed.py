"""Calling a tool that asks first, and saying yes."""

from __future__ import annotations

from typing import Any

from edgemem.loop.toolbox import Tool, ToolTurn
from edgemem.records import Reader, Session


def after_a_yes(tool: Tool, /, *, speaker: str | None = None, **arguments: Any) -> str:
    """Return what a tool answers in the turn in which the same speaker says yes; its first answer, if it does not ask."""
    session = Session()
    for n, utterance in enumerate(("Forget that, please.", "Yes.")):
        turn = ToolTurn(utterance, Reader(speaker), session=session, n=n)
        answer = str(tool.run(turn, **arguments))
        if not answer.startswith("Not erased yet"):
            break
    return answer
