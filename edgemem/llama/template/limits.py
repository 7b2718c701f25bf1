"""Limits of a chat template, found by asking it, and messages made to fit them.

Parts that a template refuses, or passes over in silence, become text, in a role that it has. The same messages always fit the
same way, so a prompt that grows still only grows.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import TemplateError

if TYPE_CHECKING:
    from edgemem.records import Message

    Show = Callable[[Sequence[Message], Sequence[dict[str, Any]] | None], str]

SILENCE = "…"
"""Filler for templates that require user and assistant to alternate."""
_SHORT = 9  # characters of a call's id in Mistral's templates
PROBE_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "probe",
        "description": "Look a cup up.",
        "parameters": {"type": "object", "properties": {"key": {"type": "string", "description": "What."}}},
    },
}
"""Offered while probing."""


class UnboundedError(TemplateError):
    """The template runs without end, or its output grows without end."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The model's chat template was stopped ({reason}); pass another template")


class TemplateLimits(msgspec.Struct, frozen=True):
    """Messages that a chat template cannot take as they are; `fit` puts them another way."""

    no_system: bool = False
    """No system role: the instructions head the first user message."""
    one_system: bool = False
    """Shows one system message: several become one."""
    early_system: bool = False
    """Shows system messages at the head only: a later one becomes the user's."""
    alternates: bool = False
    """Wants users and assistants to take turns, a user first."""
    lists_tools: bool = False
    """Wants an empty list where no tool is offered."""
    short_ids: bool = False
    """Refuses ids of calls that are not nine letters and digits."""
    no_calls: bool = False
    """Does not show calls: they are put into the reply's text."""
    no_results: bool = False
    """No role for tools: results go into user messages."""
    one_call: bool = False
    """Takes one call a message: several follow one another, each with its result."""

    def fit(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages that the template can take, with text content and arguments as objects or text."""
        fitted = list(messages)
        # Where the head is made of all system messages, a later one would rewrite what the model has read.
        if self.early_system or self.no_system:
            fitted = _without_late_system(fitted)
        if self.one_call:
            fitted = _one_by_one(fitted)
        if self.no_calls or self.no_results or self.short_ids:
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
        elif calls and self.short_ids:
            shown["tool_calls"] = [{**call, "id": _short(str(call.get("id")))} for call in calls]
        if message.get("role") == "tool":
            if self.no_results:
                return _say("user", f"<tool_response>\n{message.get('content')}\n</tool_response>")
            if self.short_ids and message.get("tool_call_id"):
                shown["tool_call_id"] = _short(str(message["tool_call_id"]))
        return shown


def _say(role: str, text: str) -> Message:
    return {"role": role, "content": text}


def _short(name: str) -> str:
    if len(name) == _SHORT and name.isalnum():
        return name
    return hashlib.sha256(name.encode()).hexdigest()[:_SHORT]


def _call_text(call: dict[str, Any]) -> str:
    function = call.get("function") or {}
    spelled = {"name": function.get("name"), "arguments": function.get("arguments")}
    return f"<tool_call>\n{json.dumps(spelled, ensure_ascii=False)}\n</tool_call>"


def _one_by_one(messages: Sequence[Message]) -> list[Message]:
    out: list[Message] = []
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        calls = message.get("tool_calls") or ()
        if len(calls) < 2:
            out.append(message)
            continue
        results = list(itertools.takewhile(lambda result: result.get("role") == "tool", messages[at:]))
        at += len(results)
        for n, call in enumerate(calls):
            out.append({**message, "content": message.get("content") if n == 0 else "", "tool_calls": [call]})
            own = [result for result in results if result.get("tool_call_id") == call.get("id")]
            out += results if n == len(calls) - 1 else own
            results = [result for result in results if result not in own]
    return out


def _joined_results(messages: Sequence[Message]) -> list[Message]:
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
    """Insert filler where one side speaks twice, or the assistant first; to merge two would change what the model has read."""
    out: list[Message] = []
    due = "user"
    for message in messages:
        role = message.get("role")
        if role == "user" or (role == "assistant" and not message.get("tool_calls")):
            if role != due:
                out.append(_say(due, SILENCE))
            due = "assistant" if role == "user" else "user"
        elif role == "assistant" and due == "user":  # a call is an answer too
            out.append(_say("user", SILENCE))
            due = "assistant"
        out.append(message)
    return out


def _split_head(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    head = list(itertools.takewhile(lambda message: message.get("role") == "system", messages))
    return head, list(messages[len(head) :])


def _joined(messages: Sequence[Message]) -> str:
    return "\n\n".join(str(message["content"]) for message in messages)


def _one_system(messages: Sequence[Message]) -> list[Message]:
    head, rest = _split_head(messages)
    return [_say("system", _joined(head)), *rest] if len(head) > 1 else [*head, *rest]


def _without_late_system(messages: Sequence[Message]) -> list[Message]:
    head, rest = _split_head(messages)
    return [*head, *(_say("user", m["content"]) if m.get("role") == "system" else m for m in rest)]


def _without_system(messages: Sequence[Message]) -> list[Message]:
    head, rest = _split_head(messages)
    if not head:
        return rest
    first = next((n for n, message in enumerate(rest) if message.get("role") == "user"), None)
    if first is None:
        return [_say("user", _joined(head)), *rest]
    rest[first] = {**rest[first], "content": f"{_joined(head)}\n\n{rest[first]['content']}"}
    return rest


_ONE, _TWO = _say("user", "First question."), _say("user", "Second question.")
_REPLY, _OTHER = _say("assistant", "First answer."), _say("assistant", "Other answer.")
_ORDERS, _MORE = _say("system", "Be kind."), _say("system", "Be brief.")


def find_limits(show: Show) -> TemplateLimits:
    """Find a template's limits; `show` renders messages and tools as the template itself does."""

    def rendered(limits: TemplateLimits, messages: Sequence[Message], *, tools: bool = False) -> str | None:
        try:
            offered = [PROBE_TOOL] if tools else ([] if limits.lists_tools else None)
            return show(limits.fit(messages), offered)
        except UnboundedError:
            raise  # each further try would take as long
        except TemplateError:
            return None

    def shows(
        limits: TemplateLimits, messages: Sequence[Message], *needles: str, tools: bool = False
    ) -> bool:
        """Tell whether every needle is shown, in order unless tools are called."""
        text = rendered(limits, messages, tools=tools)
        at = 0
        for needle in needles:
            at = -1 if text is None else text.find(needle, 0 if tools else at)  # calls may come one by one
            if at < 0:
                return False
        return True

    def better(
        limits: TemplateLimits, messages: list[Message], *needles: str, tools: bool = False, **more: bool
    ) -> TemplateLimits:
        """Take to other limits where, without them, something would not be shown."""
        if shows(limits, messages, *needles, tools=tools):
            return limits
        changed = msgspec.structs.replace(limits, **more)
        return changed if shows(changed, messages, *needles, tools=tools) else limits

    limits = better(TemplateLimits(), [_ONE], "First question.", lists_tools=True)
    if rendered(limits, [_ONE]) is not None and not shows(limits, [_ONE], "First question."):
        raise TemplateError(
            "The model's chat template does not print what the user says, so the model would answer to nothing; "
            "pass another template"
        )
    limits = better(limits, [_ORDERS, _ONE], "Be kind.", "First question.", no_system=True)
    limits = better(
        limits, [_ORDERS, _MORE, _ONE], "Be kind.", "Be brief.", "First question.", one_system=True
    )
    for messages in ([_ONE, _TWO], [_REPLY, _ONE], [_ONE, _REPLY, _OTHER, _TWO]):
        limits = better(limits, messages, *(message["content"] for message in messages), alternates=True)
    # A later system message has its place, and displaces nothing that the template says by itself.
    opening = (rendered(limits, [_ONE]) or "").partition("First question.")
    late = (opening[0] if opening[1] else "", "First answer.", "Be brief.", "Second question.")
    limits = better(limits, [_ONE, _REPLY, _MORE, _TWO], *late, early_system=True)

    def takes(changes: dict[str, bool]) -> bool:
        text = rendered(msgspec.structs.replace(limits, **changes), _called("needle"), tools=True) or ""
        # Python's quotes tell that an object was glued to text.
        return "needle" in text and "Found number 0." in text and "'needle'" not in text

    # Several faults with calls may come together, so they are tried together, the mildest first.
    calls: list[dict[str, bool]] = [
        {}, {"short_ids": True}, {"no_calls": True}, {"no_calls": True, "no_results": True},
    ]  # fmt: skip
    chosen = next(filter(takes, calls), {})
    return better(
        msgspec.structs.replace(limits, **chosen),
        _called("needle", "thread"),
        *("needle", "thread", "Found number 0.", "Found number 1."),
        tools=True,
        one_call=True,
    )


def _called(*values: str) -> list[Message]:
    calls = [
        {"id": f"call_0_{n}", "type": "function", "function": {"name": "probe", "arguments": {"key": value}}}
        for n, value in enumerate(values)
    ]
    results: list[Message] = [
        {"role": "tool", "name": "probe", "tool_call_id": f"call_0_{n}", "content": f"Found number {n}."}
        for n in range(len(values))
    ]
    return [_ONE, {"role": "assistant", "content": "", "tool_calls": calls}, *results, _REPLY, _TWO]
