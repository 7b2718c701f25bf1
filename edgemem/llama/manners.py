"""The manners of a chat template: which messages it can take, and messages made to fit.

What a template refuses, or passes over in silence, is put another way: as text, in a role that it has. The same messages
always fit the same way, so a prompt that grows still only grows.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.records import Message

SILENCE = "…"
"""Stands where a template that demands alternation wants somebody to speak who did not."""

_SHORT = 9  # characters that Mistral's templates want an id of a call to have


class Manners(msgspec.Struct, frozen=True):
    """What a template cannot take as it is."""

    no_system: bool = False
    """It has no system role: the instructions head the first user message."""
    one_system: bool = False
    """It shows one system message only: several become one."""
    early_system: bool = False
    """It shows system messages at the head only: what a later one says, the user says."""
    alternates: bool = False
    """Users and assistants must take turns, a user first."""
    lists_tools: bool = False
    """It wants an empty list where no tool is offered."""
    text_arguments: bool = False
    """It glues the arguments of a call to other text, so they must be JSON text."""
    short_ids: bool = False
    """It refuses ids of calls that are not nine letters and digits."""
    no_calls: bool = False
    """It does not show which tools were called: calls stand in the reply's text."""
    no_results: bool = False
    """It has no role for tools: results stand in user messages."""
    one_call: bool = False
    """It takes one call a message: several follow one another, each with its result."""

    def fit(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages that the template can take; content is text, arguments are objects or text."""
        fitted = list(messages)
        # Where the head is made of all system messages, a later one would rewrite what the model has read.
        if self.early_system or self.no_system:
            fitted = _without_late_system(fitted)
        if self.one_call:
            fitted = _one_by_one(fitted)
        if self.no_calls or self.no_results or self.text_arguments or self.short_ids:
            fitted = [self._tools_of(message) for message in fitted]
        if self.no_results:
            fitted = _joined_results(fitted)
        if self.alternates:
            fitted = _alternating(fitted)
        if self.no_system:
            return _without_system(fitted)
        return _one_system(fitted) if self.one_system else fitted

    def _tools_of(self, message: Message) -> Message:
        shown = dict(message)
        calls = message.get("tool_calls")
        if calls and self.no_calls:
            texts = [str(message.get("content") or ""), *map(_call_text, calls)]
            shown["content"] = "\n".join(filter(None, texts))
            del shown["tool_calls"]
        elif calls:
            shown["tool_calls"] = [self._call(call) for call in calls]
        if message.get("role") == "tool":
            if self.no_results:
                return {
                    "role": "user",
                    "content": f"<tool_response>\n{message.get('content')}\n</tool_response>",
                }
            if self.short_ids and message.get("tool_call_id"):
                shown["tool_call_id"] = _short(str(message["tool_call_id"]))
        return shown

    def _call(self, call: dict[str, Any]) -> dict[str, Any]:
        function = dict(call["function"])
        if self.text_arguments and not isinstance(function.get("arguments"), str):
            function["arguments"] = json.dumps(function.get("arguments"), ensure_ascii=False)
        made = {**call, "function": function}
        if self.short_ids and call.get("id"):
            made["id"] = _short(str(call["id"]))
        return made


def _system(text: str) -> Message:
    return {"role": "system", "content": text}


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _short(name: str) -> str:
    return (
        name if len(name) == _SHORT and name.isalnum() else hashlib.sha256(name.encode()).hexdigest()[:_SHORT]
    )


def _call_text(call: dict[str, Any]) -> str:
    """Return a call in the form that small models write and loops read."""
    function = call.get("function") or {}
    said = {"name": function.get("name"), "arguments": function.get("arguments")}
    return f"<tool_call>\n{json.dumps(said, ensure_ascii=False)}\n</tool_call>"


def _one_by_one(messages: Sequence[Message]) -> list[Message]:
    """Put each of several calls into a message of its own, and its result behind it."""
    out: list[Message] = []
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        calls = message.get("tool_calls") or ()
        if len(calls) < 2:
            out.append(message)
            continue
        results = list(itertools.takewhile(lambda one: one.get("role") == "tool", messages[at:]))
        at += len(results)
        for n, call in enumerate(calls):
            out.append({**message, "content": message.get("content") if n == 0 else "", "tool_calls": [call]})
            last = n == len(calls) - 1
            # A result without an id belongs to the call at its place.
            own = (
                results
                if last
                else [one for one in results if one.get("tool_call_id") == call.get("id")] or results[:1]
            )
            out += own
            results = [one for one in results if not any(one is taken for taken in own)]
    return out


def _joined_results(messages: Sequence[Message]) -> list[Message]:
    """Put the results of one reply's calls into one user message."""
    out: list[Message] = []
    for message in messages:
        if out and _is_result(message) and _is_result(out[-1]):
            out[-1] = {**out[-1], "content": f"{out[-1]['content']}\n{message['content']}"}
        else:
            out.append(message)
    return out


def _is_result(message: Message) -> bool:
    return message.get("role") == "user" and str(message.get("content")).startswith("<tool_response>\n")


def _alternating(messages: Sequence[Message]) -> list[Message]:
    """Let the other side say nothing wherever one side speaks twice, or the assistant first.

    Two messages are not made one: the model may have been shown the first as a message of its own.
    """
    out: list[Message] = []
    due = "user"
    for message in messages:
        role = message.get("role")
        if role == "user" or (role == "assistant" and not message.get("tool_calls")):
            if role != due:
                out.append({"role": due, "content": SILENCE})
            due = "assistant" if role == "user" else "user"
        elif role == "assistant" and due == "user":  # a call is an answer too
            out.append({"role": "user", "content": SILENCE})
            due = "assistant"
        out.append(message)
    return out


def _is_system(message: Message) -> bool:
    return message.get("role") == "system"


def _one_system(messages: Sequence[Message]) -> list[Message]:
    head = list(itertools.takewhile(_is_system, messages))
    return [_system(_orders(head)), *messages[len(head) :]] if len(head) > 1 else list(messages)


def _without_late_system(messages: Sequence[Message]) -> list[Message]:
    head = sum(1 for _ in itertools.takewhile(_is_system, messages))
    rest = (_user(message["content"]) if _is_system(message) else message for message in messages[head:])
    return [*messages[:head], *rest]


def _without_system(messages: Sequence[Message]) -> list[Message]:
    orders = _orders(messages)
    rest = [message for message in messages if message.get("role") != "system"]
    if not orders:
        return rest
    first = next((n for n, message in enumerate(rest) if message.get("role") == "user"), None)
    if first is None:
        return [_user(orders), *rest]
    rest[first] = {**rest[first], "content": f"{orders}\n\n{rest[first]['content']}"}
    return rest


def _orders(messages: Sequence[Message]) -> str:
    return "\n\n".join(str(message["content"]) for message in messages if message.get("role") == "system")
