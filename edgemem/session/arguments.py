"""Arguments: what a loop or a hook hands to the door of a turn, checked in one place; each check raises InvalidInputError."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from edgemem.context.bargein import heard_part
from edgemem.context.messages import INSTRUCTIONS, call_arguments, call_name
from edgemem.errors import InvalidInputError
from edgemem.fence import MAX_KEY_CHARS
from edgemem.records import Heard, Message, ToolCall, text_of
from edgemem.store.messages import copied

ROLES = ("assistant", "tool", "user", *INSTRUCTIONS)
"""Of messages that a turn gets: the model's, a tool's, an agent's, and instructions."""

WORDS = frozenset(("type", "text", "content", "cache_control"))
"""Keys of a part that holds nothing but text."""


def checked_speaker(speaker: Any) -> str | None:
    """Return the name of a speaker as text: recognisers also number the voices that they tell apart."""
    if speaker is None:
        return None
    if isinstance(speaker, bool) or not isinstance(speaker, (str, int)):
        raise InvalidInputError(
            f"`speaker` must be a name, or None for an unknown voice; got {type(speaker).__name__}."
        )
    name = str(speaker)
    if len(name) > MAX_KEY_CHARS:
        raise InvalidInputError(
            f"a name has {len(name):,} characters; at most {MAX_KEY_CHARS} are kept, so shorten it."
        )
    return name if name.strip() else None  # as some recognisers say that they know nobody


def checked_audience(audience: Any) -> tuple[str, ...]:
    """Return the names of those who listen; an unknown voice is the empty name."""
    if isinstance(audience, (str, bytes)) or not isinstance(audience, Iterable):
        raise InvalidInputError(f"`audience` must be a list of names; got {type(audience).__name__}.")
    names = list(audience)
    if not all(who is None or (isinstance(who, (str, int)) and not isinstance(who, bool)) for who in names):
        raise InvalidInputError("`audience` must be a list of names; one of them is none.")
    return tuple(checked_speaker(name) or "" for name in names)


def checked_flag(flag: Any, name: str) -> bool:
    """Return True or False."""
    if not isinstance(flag, bool):
        raise InvalidInputError(f"`{name}` must be True or False; got {type(flag).__name__}.")
    return flag


def checked_hearing(heard: Any) -> Heard | None:
    """Return how an utterance was heard."""
    if heard is not None and not isinstance(heard, Heard):
        raise InvalidInputError(f"`heard` must be an edgemem.Heard; got {type(heard).__name__}.")
    return heard


def checked_report(heard_text: Any, heard_ms: Any, words: Any) -> dict[str, Any]:
    """Return the given parts of a voice's report, as `heard_part` takes them."""
    if words is not None and (isinstance(words, (str, bytes)) or not isinstance(words, Iterable)):
        raise InvalidInputError(f"`words` must be a list of words with times; got {type(words).__name__}.")
    given = {"heard_text": heard_text, "heard_ms": heard_ms, "words": None if words is None else tuple(words)}
    report = {name: value for name, value in given.items() if value is not None}
    heard_part("", **report)
    return report


def checked_utterance(utterance: Any) -> Any:
    """Return an utterance as text or a list of parts; an empty one is refused."""
    content = checked_content(utterance, "utterance")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    if any("role" in part for part in parts):
        raise InvalidInputError("`utterance` must be text or parts; got a message: pass its content.")
    if not text_of({"content": content}).strip() and not any(part.keys() - WORDS for part in parts):
        raise InvalidInputError("Nothing was said: the utterance is empty.")
    return content


def check_role(message: Message) -> None:
    """Raise InvalidInputError for a message of a role that no turn has."""
    if message["role"] not in ROLES:
        roles = ", ".join(map(repr, ROLES[:-1]))
        raise InvalidInputError(
            f"The `role` of an added message must be {roles} or {ROLES[-1]!r}; got {message['role']!r:.40}."
        )


def checked_message(message: Any) -> Message:
    """Return a copy of a message with content that is text, a list of parts, or None."""
    if not isinstance(message, Mapping):
        raise InvalidInputError(f"A message must be a dict with `role`; got {type(message).__name__}.")
    role = message.get("role")
    if not isinstance(role, str) or not role.strip():
        raise InvalidInputError(f"A message must say its `role`, such as 'assistant'; got {role!r:.40}.")
    calls = message.get("tool_calls")
    if calls is not None and not (isinstance(calls, (list, tuple)) and all(map(_is_call, calls))):
        raise InvalidInputError(f"`tool_calls` must be a list of calls of tools; got {calls!r:.40}.")
    content = message.get("content")
    if role == "tool" and not _is_told(content):  # a result as it is
        content = json.dumps(content, ensure_ascii=False, default=str)
    if content is None and isinstance(sound := message.get("audio"), Mapping):  # a spoken reply
        content = sound.get("transcript")
    content = checked_content(content, "content", is_optional=True)
    return {**_copy(dict(message), "message"), "content": content}


def _is_told(content: Any) -> bool:
    """Tell whether the content of a message is text or parts, and no plain value."""
    parts = content if isinstance(content, (list, tuple)) else [content]
    return content is None or all(
        isinstance(part, str) or (isinstance(part, Mapping) and "type" in part) for part in parts
    )


def checked_content(content: Any, name: str, *, is_optional: bool = False) -> Any:
    """Return content as text, a copy of a list of parts, or None."""
    if isinstance(content, str) or (content is None and is_optional):
        return content
    if isinstance(content, Mapping):  # some programs hand over one part alone
        content = [content]
    if isinstance(content, (list, tuple)) and all(isinstance(part, (str, Mapping)) for part in content):
        return _copy([part if isinstance(part, str) else dict(part) for part in content], name)
    raise InvalidInputError(f"`{name}` must be text or a list of parts; got {type(content).__name__}.")


def checked_tokens(tokens: Any) -> tuple[int, ...]:
    """Return token ids, whole numbers of 32 bits."""
    if isinstance(tokens, (str, bytes)) or not isinstance(tokens, Sequence):
        raise InvalidInputError(f"`tokens` must be a list of ids; got {type(tokens).__name__}.")
    if not all(
        isinstance(number, int) and not isinstance(number, bool) and -(2**31) <= number < 2**31
        for number in tokens
    ):
        raise InvalidInputError("`tokens` must be a list of ids, which are whole numbers of 32 bits.")
    return tuple(tokens)


def checked_call(call: Any) -> ToolCall:
    """Return a call of a tool."""
    if isinstance(call, Mapping) and _is_call(call) and ("function" in call or "name" in call):
        call = call_of(call)
    if not isinstance(call, ToolCall):
        raise InvalidInputError("A call must be a ToolCall, or an entry of a message's `tool_calls`.")
    return call


def check_payload(before: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
    """Check that a hook has put nothing of another kind into a payload; `before` is the payload that it was handed."""
    if missing := before.keys() - payload.keys():
        raise InvalidInputError(f"it took {min(missing)!r} out of its payload.")
    for key, check in _CHECKS.items():
        if key in payload and (key not in before or payload[key] != before[key]):
            check(payload[key])


def _check_messages(messages: Any) -> None:
    if not isinstance(messages, list) or not all(isinstance(message, Mapping) for message in messages):
        raise InvalidInputError("`messages` must be a list of messages.")


def _check_tools(tools: Any) -> None:
    if tools is not None and not (
        isinstance(tools, (list, tuple)) and all(isinstance(tool, Mapping) for tool in tools)
    ):
        raise InvalidInputError("`tools` must be a list of schemas.")


def _check_calls(calls: Any) -> None:
    if not isinstance(calls, (list, tuple, type(None))):
        raise InvalidInputError(f"`tool_calls` must be a list of calls; got {type(calls).__name__}.")
    for call in calls or ():
        checked_call(call)


_CHECKS: dict[str, Callable[[Any], object]] = {
    "task": checked_utterance, "speaker": checked_speaker, "audience": checked_audience,
    "private": lambda private: checked_flag(private, "private"), "heard": checked_hearing,
    "messages": _check_messages, "content": lambda content: checked_content(content, "content", is_optional=True),
    "tool_calls": _check_calls, "tools": _check_tools,
}  # fmt: skip


def call_of(call: Mapping[str, Any]) -> ToolCall:
    """Return a call of a message as a `ToolCall`."""
    return ToolCall(call_name(call), call_arguments(call), str(call.get("id") or ""))


def calling(call: ToolCall) -> dict[str, Any]:
    """Return a call as an entry of a message."""
    arguments = json.dumps(call.arguments, ensure_ascii=False, default=str)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _is_call(call: Any) -> bool:
    return isinstance(call, Mapping) and isinstance(call.get("function", {}), Mapping)


def _copy(value: Any, name: str) -> Any:
    try:
        return copied(value)
    except RecursionError as error:
        raise InvalidInputError(f"`{name}` is nested too deep; hand over a flatter one.") from error
