"""Seen: what the model can read already in the turns that its prompt holds, so that nobody tells it twice.

A block says only a delta. What it showed before is known by its items; a note that the model wrote with a tool, and what
a tool did, stand in the conversation itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from edgemem.context.grouping import call_name, tool_calls
from edgemem.llama.template import text_of
from edgemem.recall.sources import episode_text
from edgemem.records import Recalled

if TYPE_CHECKING:
    from edgemem.context.layout import LaidTurn

REMEMBERING = frozenset({"remember_fact"})


class Seen:
    """What some turns say, looked up when it is first asked for.

    Args:
        turns: those that the prompt holds word for word, as far as the present reader may be shown them.
    """

    def __init__(self, turns: Sequence[LaidTurn]) -> None:
        self._turns = turns

    def holds(self, item: Recalled) -> bool:
        """Tell whether a recalled fact, note or outcome of a tool stands in these turns."""
        if item.kind == "fact":
            return item.doubt is None and self.holds_fact(item.key or "", item.value or "")
        if item.kind == "note":
            return all(self.holds_note(line) for line in item.text.splitlines() if line.strip())
        return item.kind == "episode" and item.text in self._outcomes

    def holds_note(self, line: str) -> bool:
        """Tell whether a line of the notes was shown, or written by the model itself in a tool call."""
        return line.strip() in self._lines

    def holds_fact(self, key: str, value: str) -> bool:
        """Tell whether the newest that stands there of a fact is the model's own call that gave it this value."""
        return key in self._given and bool(self._given[key] == value)

    @cached_property
    def _given(self) -> dict[str, object]:
        """The values that the model itself gave to facts, where no later block says anything of the key."""
        given: dict[str, object] = {}
        for turn in self._turns:
            for item in turn.shown:
                if item.about is not None:
                    given.pop(item.about[2], None)
            for call in _calls(turn):
                if call_name(call) in REMEMBERING:
                    arguments = _arguments(call)
                    given[str(arguments.get("key"))] = arguments.get("value")
        return given

    @cached_property
    def _lines(self) -> frozenset[str]:
        """The lines of blocks, and of what the model gave to tools."""
        blocks = (line.strip().removeprefix("- ") for turn in self._turns for line in turn.block.splitlines())
        calls = (call for turn in self._turns for call in _calls(turn))
        given = (text for call in calls for text in _arguments(call).values() if isinstance(text, str))
        return frozenset((*blocks, *(line.strip() for text in given for line in text.splitlines())))

    @cached_property
    def _outcomes(self) -> frozenset[str]:
        return frozenset(text for turn in self._turns for text in _told(turn))


def _calls(turn: LaidTurn) -> list[dict[str, Any]]:
    return [call for message in turn.said for call in tool_calls(message)]


def _arguments(call: dict[str, Any]) -> dict[str, Any]:
    """Return what a model gave to a tool; empty where that cannot be read."""
    function = call.get("function")
    given = (function if isinstance(function, dict) else call).get("arguments")
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return {}
    return given if isinstance(given, dict) else {}


def _told(turn: LaidTurn) -> list[str]:
    """Return each outcome of a turn as an episode of it is told."""
    results = {
        message["tool_call_id"]: text_of(message) for message in turn.said if message.get("tool_call_id")
    }
    told = []
    for call in _calls(turn):
        if call.get("id") in results:
            payload = {
                "name": call_name(call),
                "args": _arguments(call),
                "result": results[call["id"]],
            }
            told.append(episode_text("tool_call", payload, "ok"))
    return told
