"""Messages: a loop's list cut into turns and repaired, and the messages of a turn as every template takes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from edgemem.fence import clean_result, storable
from edgemem.records import Message, text_of

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer

NO_RESULT = "no result: interrupted"
"""Replaces a missing tool result; templates want one for each call."""

INSTRUCTIONS = ("system", "developer")

TOOL_USE, TOOL_RESULT = "tool_use", "tool_result"
"""Types of the parts in which Anthropic's messages call tools and answer them."""


def split_turns(messages: Sequence[Message]) -> tuple[list[Message], list[list[Message]]]:
    """Return the instructions and the turns, as the same message objects.

    A turn starts at a user message and holds everything up to the next one, with tool calls and their results. Any other
    message before the first user message (a greeting) is a turn of its own; a system message behind it counts as instructions.
    """
    head: list[Message] = []
    turns: list[list[Message]] = []
    for message in messages:
        role = message.get("role")
        if role in INSTRUCTIONS and (not turns or turns[0][0].get("role") != "user") and len(turns) < 2:
            head.append(message)
        elif role == "user" or not turns:
            turns.append([message])
        else:
            turns[-1].append(message)
    return head, turns


def repair_orphans(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with exactly one result behind each tool call, and no result without its call.

    A result after its turn is dropped too, because by then the model has been shown that there was none. Messages that need no
    repair stay the same objects; repairing twice changes nothing.
    """
    out: list[Message] = []
    waiting: list[dict[str, Any]] = []
    for n, message in enumerate(messages):
        role = message.get("role")
        if results := result_parts(message):
            known = [call.get("id") for call in waiting]
            answered_ids = [part.get("tool_use_id") for part in results]
            waiting = [call for call in waiting if call.get("id") not in answered_ids]
            if not is_spoken(message) and not set(known).intersection(answered_ids):
                continue
        elif role == "tool":
            answered = next((i for i, call in enumerate(waiting) if _answers(message, call)), None)
            if answered is None:
                continue
            del waiting[answered]
        elif role not in INSTRUCTIONS:
            with_ids = waiting if all(call.get("id") for call in waiting) else []
            answered_later = [call for call in with_ids if _is_read_later(call, messages[n:])]
            out += (_no_result(call) for call in waiting if call not in answered_later)
            waiting = [*answered_later, *tool_calls(message)]
        out.append(message)
    return out + list(map(_no_result, waiting))


def awaits_results(messages: Sequence[Message]) -> bool:
    """Tell whether the newest calls have no result yet: nothing else stands behind them then."""
    repaired = repair_orphans(messages)
    return bool(repaired) and all(repaired[-1] is not message for message in messages)


def tool_calls(message: Message) -> list[dict[str, Any]]:
    """Return the tool calls of an assistant message, also Anthropic's, which are parts of it."""
    if message.get("role") != "assistant":
        return []
    calls = message.get("tool_calls")
    if isinstance(calls, (list, tuple)) and calls:
        return [call for call in calls if isinstance(call, dict)]
    return [
        {"id": part.get("id"), "name": part.get("name"), "arguments": part.get("input"), "type": TOOL_USE}
        for part in _parts(message, TOOL_USE)
    ]


def result_parts(message: Message) -> list[dict[str, Any]]:
    """Return the tool results that Anthropic's API wants as parts of a user message."""
    return _parts(message, TOOL_RESULT) if message.get("role") == "user" else []


def answered_ids(message: Message) -> list[str]:
    """Return the ids of the calls that a message has results of; a stand-in for a missing one is none."""
    results = [(part.get("tool_use_id"), part) for part in result_parts(message)]
    if message.get("role") == "tool":
        results.append((message.get("tool_call_id"), message))
    return [str(call_id) for call_id, result in results if call_id and result.get("content") != NO_RESULT]


def fenced(message: Message) -> Message:
    """Return a message in which the results of tools are safe to show (`fence.clean_result`); itself where it has none."""
    given = content = message.get("content")
    if message.get("role") == "tool":
        content = _fenced(given)
    elif results := result_parts(message):
        content = [_fenced(part) if part in results else part for part in given or ()]
    return message if content == given else {**message, "content": content}


def _fenced(content: Any) -> Any:
    if isinstance(content, str):
        return clean_result(content)
    if isinstance(content, Mapping):
        return {key: _fenced(part) if key in ("text", "content") else part for key, part in content.items()}
    return list(map(_fenced, content)) if isinstance(content, (list, tuple)) else content


def is_spoken(message: Message) -> bool:
    """Tell whether a user message is more than the results of tools."""
    return message.get("role") == "user" and not (
        isinstance(content := message.get("content"), list)
        and content
        and len(result_parts(message)) == len(content)
    )


def _parts(message: Message, kind: str) -> list[dict[str, Any]]:
    content = message.get("content")
    if not isinstance(content, list):
        return []
    return [part for part in content if isinstance(part, dict) and part.get("type") == kind]


def call_name(call: Mapping[str, Any]) -> str:
    """Return the tool's name, in OpenAI's nested or in the flat spelling."""
    function = call.get("function")
    return str((function if isinstance(function, Mapping) else call).get("name") or "")


def call_arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call; unreadable ones are empty."""
    function = call.get("function")
    arguments = (function if isinstance(function, Mapping) else call).get("arguments")
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):
            arguments = json.loads(arguments)
    return dict(arguments) if isinstance(arguments, Mapping) else {}


def speeches_of(messages: Sequence[Message]) -> list[int]:
    """Return the numbers of the messages that were spoken since the newest user message; a bare tool call was not."""
    begin = newest_user(messages)
    return [
        n
        for n in range(0 if begin is None else begin, len(messages))
        if messages[n].get("role") == "assistant"
        and (messages[n].get("content") is not None or not tool_calls(messages[n]))
    ]


def _answers(result: Message, call: dict[str, Any]) -> bool:
    given, called = result.get("tool_call_id"), call.get("id")
    if given and called:
        return bool(given == called)
    # Small models and older templates leave ids out; then the name tells, and failing that the order.
    return not result.get("name") or result["name"] == call_name(call)


def _is_read_later(call: dict[str, Any], messages: Sequence[Message]) -> bool:
    """Tell whether a result came behind a reply of its turn, and was read there: another reply stands behind it."""
    call_id = str(call.get("id") or "")
    turn = list(takewhile(lambda message: not is_spoken(message), messages))
    for n, message in enumerate(turn):
        if any(call_id == str(other.get("id")) for other in tool_calls(message)):
            return False
        if call_id in answered_ids(message):
            return any(behind.get("role") == "assistant" for behind in turn[n + 1 :])
    return False


def _no_result(call: dict[str, Any]) -> Message:
    if call.get("type") == TOOL_USE:
        part = {"type": TOOL_RESULT, "tool_use_id": call.get("id"), "content": NO_RESULT}
        return {"role": "user", "content": [part]}
    message: Message = {"role": "tool"}
    if call.get("id"):
        message["tool_call_id"] = call["id"]
    if name := call_name(call):
        message["name"] = name
    message["content"] = NO_RESULT
    return message


UTTERANCE_BYTES = 16_384
"""Longer utterances are cut; some 18 minutes of speech."""

CUT = "… (cut here)"

UNANSWERED: Message = {"role": "assistant", "content": "…"}
"""Fills the prompt where a turn never got its answer."""


def newest_user(messages: Sequence[Message]) -> int | None:
    """Return the number of the newest user message."""
    return next((n for n in range(len(messages) - 1, -1, -1) if is_spoken(messages[n])), None)


def split_instructions(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """Return the leading system messages, and the messages after them."""
    system = list(takewhile(lambda message: message.get("role") == "system", messages))
    return system, list(messages[len(system) :])


def with_prompt(system: list[Message], prompt: str) -> list[Message]:
    """Return system messages followed by an operator's text, unless they have it already."""
    if not prompt or (system and text_of(system[-1]).endswith(prompt)):
        return system
    if not system or not isinstance(system[-1].get("content"), str):
        return [*system, {"role": "system", "content": prompt}]
    return [*system[:-1], {**system[-1], "content": f"{system[-1]['content']}\n\n{prompt}"}]


def heard_in(messages: Sequence[Message]) -> str:
    """Return the replies of a turn, before tools ran and after them."""
    return " ".join(text for n in speeches_of(messages) if (text := text_of(messages[n])).strip())


def completed(messages: Sequence[Message]) -> list[Message]:
    """Return a turn as every template takes it: strict ones refuse a call without result, two users in a row, an empty reply."""
    tools = any(message.get("role") == "tool" or tool_calls(message) for message in messages)
    out = repair_orphans(messages) if tools else list(messages)
    for n, message in enumerate(out):
        if message.get("role") == "assistant" and not text_of(message).strip() and not tool_calls(message):
            out[n] = {**message, **UNANSWERED}
    roles = [role for message in out if (role := message.get("role")) not in INSTRUCTIONS]
    return out if roles[-1:] in ([], ["assistant"]) else [*out, dict(UNANSWERED)]


def bounded(message: Message, most_bytes: int) -> Message:
    """Return a message cut to so many bytes of text, the mark included; itself if it fits. Parts that are no text stay."""
    content = message.get("content")
    if isinstance(content, str):
        kept = _beginning(content, most_bytes)
        return message if kept is content else {**message, "content": kept}
    if not isinstance(content, list):
        return message
    left, parts = most_bytes, []
    for part in content:
        text = part.get("text") if isinstance(part, dict) else None
        if isinstance(text, str):
            kept = _beginning(text, left)
            left -= len(storable(kept).encode())
            parts.append(part if kept is text else {**part, "text": kept})
        else:
            parts.append(part)
    cut = any(kept is not part for kept, part in zip(parts, content, strict=True))
    return {**message, "content": parts} if cut else message


def bounded_tokens(message: Message, text: str, most_tokens: int, tokenizer: Tokenizer) -> Message:
    """Return a message with only so many tokens of the beginning of its text."""
    size = len(text.encode(errors="replace"))
    # No vocabulary takes more tokens for a text than it has bytes.
    while size > most_tokens and (tokens := len(tokenizer.encode(text))) > most_tokens:
        message = bounded(message, min(size - 1, size * most_tokens // tokens))
        if len(shorter := text_of(message)) >= len(text):
            break
        text, size = shorter, len(shorter.encode(errors="replace"))
    return message


def _beginning(text: str, most_bytes: int) -> str:
    if 4 * len(text) <= most_bytes:
        return text  # no character has more bytes than that
    data = storable(text[: max(0, most_bytes) + 1]).encode()
    if len(text) <= most_bytes and len(data) <= most_bytes:
        return text
    room = most_bytes - len(CUT.encode())
    return data[:room].decode(errors="ignore").rstrip() + CUT if room > 0 else ""


def prefixed(message: Message, lead: str) -> Message:
    """Return a message with a text before its own; a content list keeps its parts."""
    content = message.get("content")
    if isinstance(content, list):
        return {**message, "content": [{"type": "text", "text": lead}, *content]}
    return {**message, "content": lead + (content or "")}
