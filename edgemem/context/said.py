"""Said: the messages of a turn, as they were heard, and as every template takes them."""

from __future__ import annotations

from collections.abc import Sequence

from edgemem.config import ContextSettings
from edgemem.context.grouping import INSTRUCTIONS, repair_orphans, tool_calls
from edgemem.context.spoken import speeches_of
from edgemem.fence import storable
from edgemem.llama.template import text_of
from edgemem.records import Message

UTTERANCE_BYTES = ContextSettings().utterance_bytes
"""As much is kept of an utterance where no profile says how much."""

CUT = "… (cut here)"
"""Ends an utterance that was longer."""

UNANSWERED: Message = {"role": "assistant", "content": "…"}
"""Stands in the prompt where a turn never got its answer."""


def newest_user(said: Sequence[Message]) -> int | None:
    """Return the number of the newest user message, or None."""
    return next((n for n in range(len(said) - 1, -1, -1) if said[n].get("role") == "user"), None)


def instructions(messages: Sequence[Message]) -> int:
    """Return how many system messages a list begins with."""
    return next((n for n, message in enumerate(messages) if message.get("role") != "system"), len(messages))


def heard_in(said: Sequence[Message]) -> str:
    """Return what was said in a turn, before tools ran and behind them."""
    return " ".join(text for n in speeches_of(said) if (text := text_of(said[n])).strip())


def is_part(message: Message, uncut: Message) -> bool:
    """Tell whether a message is another one, or begins as that does and ends earlier."""
    if message == uncut:
        return True
    alike = {**message, "content": None} == {**uncut, "content": None}
    return alike and text_of(uncut).startswith(text_of(message))


def whole(said: Sequence[Message]) -> list[Message]:
    """Return a turn as every template takes it, however it was cut off.

    Strict ones refuse a call without a result, two user messages in a row, and a reply without a word.
    """
    tools = any(message.get("role") == "tool" or tool_calls(message) for message in said)
    out = repair_orphans(said) if tools else list(said)
    out = [{**message, **UNANSWERED} if _is_mute(message) else message for message in out]
    last = next(
        (role for message in reversed(out) if (role := message.get("role")) not in INSTRUCTIONS), None
    )
    return out if last in ("assistant", None) else [*out, dict(UNANSWERED)]


def _is_mute(message: Message) -> bool:
    return message.get("role") == "assistant" and not tool_calls(message) and not text_of(message).strip()


def bounded(message: Message, most_bytes: int) -> Message:
    """Return a message with at most so many bytes of text, the mark of the cut among them; 0: all of it.

    Args:
        message: one whose text fits is returned itself; of a content list, what is no text stays.
    """
    content = message.get("content")
    if not most_bytes or not isinstance(content, (str, list)):
        return message
    if isinstance(content, str):
        kept = _beginning(content, most_bytes)
        return message if kept is content else {**message, "content": kept}
    left, parts = most_bytes, []
    for part in content:
        text = part.get("text") if isinstance(part, dict) else None
        if isinstance(text, str):
            kept = _beginning(text, left)
            left -= len(storable(kept).encode())
            parts.append(part if kept is text else {**part, "text": kept})
        else:
            parts.append(part)
    return (
        message
        if all(kept is part for kept, part in zip(parts, content, strict=True))
        else {**message, "content": parts}
    )


def _beginning(text: str, most_bytes: int) -> str:
    """Return the text, or as much of it as fits with a mark behind it."""
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
