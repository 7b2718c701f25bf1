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
from edgemem.records import Recalled
from edgemem.store.episodes import episode_text

if TYPE_CHECKING:
    from edgemem.context.laid_turn import LaidTurn

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
        for says in self._says:
            for key in says.told_of:
                given.pop(key, None)
            given.update(says.given)
        return given

    @cached_property
    def _lines(self) -> frozenset[str]:
        return frozenset().union(*(says.lines for says in self._says))

    @cached_property
    def _outcomes(self) -> frozenset[str]:
        return frozenset().union(*(says.outcomes for says in self._says))

    @cached_property
    def _says(self) -> list[Says]:
        # Every prompt has all turns of the epoch; each of them is looked through once.
        for turn in self._turns:
            if turn.says is None:
                turn.says = Says(turn)
        return [turn.says for turn in self._turns if turn.says is not None]


class Says:
    """What one committed turn says of things that memory may tell, found out when it is first asked for."""

    def __init__(self, turn: LaidTurn) -> None:
        self._turn = turn

    @cached_property
    def told_of(self) -> list[str]:
        """The keys that its block gives a value."""
        return [item.about[2] for item in self._turn.shown if item.about is not None]

    @cached_property
    def given(self) -> dict[str, object]:
        """The values that the model itself gave to facts."""
        arguments = [_arguments(call) for call in _calls(self._turn) if call_name(call) in REMEMBERING]
        return {str(given.get("key")): given.get("value") for given in arguments}

    @cached_property
    def lines(self) -> frozenset[str]:
        """The lines of its block, and of what the model gave to tools."""
        block = (line.strip().removeprefix("- ") for line in self._turn.block.splitlines())
        given = (
            text for call in _calls(self._turn) for text in _arguments(call).values() if isinstance(text, str)
        )
        return frozenset((*block, *(line.strip() for text in given for line in text.splitlines())))

    @cached_property
    def outcomes(self) -> frozenset[str]:
        """Each outcome of a tool as an episode of it is told."""
        return frozenset(_told(self._turn))


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
