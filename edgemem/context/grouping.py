"""Turns: a message list cut where it may be cut, never between a tool call and its result."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.records import Message

NO_RESULT = "no result: interrupted"
"""What stands in for the result of a tool that never answered; templates want one for each call."""

INSTRUCTIONS = ("system", "developer")
"""Roles of whoever runs the robot."""


class TurnSpan(msgspec.Struct, frozen=True):
    """One turn of a message list: `messages[start:stop]`."""

    start: int
    stop: int


def group_turns(messages: Sequence[Message]) -> list[TurnSpan]:
    """Return the turns, which follow one another without a gap up to the end of the list.

    A turn starts at a user message and holds everything up to the next one, so tool calls and their results
    stay together. The system messages at the head are in no turn. Whatever else stands before the first user
    message (a greeting) is a turn of its own, the only one that may lack a user message.
    """
    first = 0
    while first < len(messages) and messages[first].get("role") in INSTRUCTIONS:
        first += 1
    starts = [i for i in range(first, len(messages)) if i == first or messages[i].get("role") == "user"]
    return [TurnSpan(*span) for span in pairwise([*starts, len(messages)])]


def split_turns(messages: Sequence[Message]) -> tuple[list[Message], list[list[Message]]]:
    """Return the instructions and the turns, as the same message objects.

    A system message that stands behind a greeting, but before the first user message, counts as instructions.
    """
    turns = [list(messages[span.start : span.stop]) for span in group_turns(messages)]
    head = list(messages[: len(messages) - sum(map(len, turns))])
    if turns and turns[0][0].get("role") != "user":
        head += [message for message in turns[0] if message.get("role") in INSTRUCTIONS]
        turns[0] = [message for message in turns[0] if message.get("role") not in INSTRUCTIONS]
        turns = [turn for turn in turns if turn]
    return head, turns


def repair_orphans(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with exactly one result behind each tool call, and no result without its call.

    A result without a call is dropped; so is one that comes after the turn went on, because by then the
    model has been shown that there was none, and what it was shown does not change. A call without a result
    gets one that says so. Messages that need no repair stay the same objects; repairing twice changes nothing.
    """
    out: list[Message] = []
    waiting: list[dict[str, Any]] = []
    for message in messages:
        role = message.get("role")
        if role == "tool":
            answered = next((i for i, call in enumerate(waiting) if _answers(message, call)), None)
            if answered is None:
                continue
            del waiting[answered]
        elif role not in INSTRUCTIONS:
            out += map(_no_result, waiting)
            waiting = tool_calls(message)
        out.append(message)
    return out + list(map(_no_result, waiting))


def tool_calls(message: Message) -> list[dict[str, Any]]:
    """Return the tool calls of an assistant message; none for any other message."""
    calls = message.get("tool_calls") if message.get("role") == "assistant" else None
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, (list, tuple)) else []


def call_name(call: dict[str, Any]) -> str:
    """Return the name of the tool that is called, in OpenAI's nested or in the flat spelling."""
    function = call.get("function")
    return str((function if isinstance(function, dict) else call).get("name") or "")


def _answers(result: Message, call: dict[str, Any]) -> bool:
    given, wanted = result.get("tool_call_id"), call.get("id")
    if given and wanted:
        return bool(given == wanted)
    # Small models and older templates leave ids out; then the name tells, and failing that the order.
    return not result.get("name") or result["name"] == call_name(call)


def _no_result(call: dict[str, Any]) -> Message:
    message: Message = {"role": "tool"}
    if call.get("id"):
        message["tool_call_id"] = call["id"]
    if name := call_name(call):
        message["name"] = name
    message["content"] = NO_RESULT
    return message
