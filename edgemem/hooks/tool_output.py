"""ToolOutputTruncatorHook: a tool that answers with pages does not fill the window, and what is missing is said.

Where the conversation is kept in SQLite, the whole text is kept with it, and the model is told its name: `read_more`
(in `edgemem.tools`) reads on from there. The name is made of the text, so a turn that is taken up again has the same.
"""

from __future__ import annotations

import copy
import json
import unicodedata
from typing import TYPE_CHECKING, Any

from edgemem.errors import InvalidInputError
from edgemem.hooks.conversation import Conversation, conversation_of
from edgemem.hooks.points import AFTER_TOOL, HookResult
from edgemem.store.arguments import whole_number
from edgemem.store.tool_copies import MEMORY_TOOLS
from edgemem.store.tool_outputs import pointer_to
from edgemem.store.turn_steps import KeepOutput

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer

LEAST_CHARS = 200
"""A smaller bound would hold little but the note about what was left out."""

_LONGEST_SIGN = 16
"""Characters that may belong to one visible sign."""

READ_MORE = "… all of it: read_more {pointer}"
"""What the model is told of a text that is kept."""

_MOST_DEPTH = 8
"""A value that is nested deeper is shown as text from here on."""


class ToolOutputTruncatorHook:
    """Shorten results of tools: text at a line or a whole character, JSON by whole values, so that it stays JSON."""

    points = frozenset({AFTER_TOOL})
    # Before whatever keeps or shows the result.
    priority = 40

    def __init__(
        self,
        max_chars: int = 2000,
        *,
        max_tokens: int | None = None,
        tokenizer: Tokenizer | None = None,
        keep_bytes: int = 0,
        conversation: Conversation | None = None,
    ) -> None:
        """Make the hook.

        Args:
            max_chars: the most characters of a result, its note about what was left out included; at least 200.
            max_tokens: the most tokens of it, as `tokenizer` counts them.
            keep_bytes: how much of what was shortened is kept whole, of all sessions together, oldest dropped first;
                0: nothing. Only a session that is kept in SQLite keeps anything.

        Raises:
            InvalidInputError: `max_chars` is less than that.
        """
        if whole_number(max_chars, "max_chars") < LEAST_CHARS:
            raise InvalidInputError(f"max_chars must be at least {LEAST_CHARS}; it is {max_chars}.")
        self.max_chars = max_chars
        self.max_tokens = max_tokens
        self.keep_bytes = keep_bytes
        self._tokenizer = tokenizer
        self._conversation = conversation

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Replace a result that is too long."""
        result = payload.result
        # The memory's own tools know their bounds, and can be asked again.
        if result is None or payload.name in MEMORY_TOOLS:
            return None
        text = result if isinstance(result, str) else _dump(result)
        room = self._room(text)
        if len(text) <= room:
            return None
        # A copy: the payload of another framework is no record of ours, and others may hold it.
        shortened = copy.copy(payload)
        pointer = self._keep(conversation_of(ctx, self._conversation), text)
        shortened.result = shorten(result, room, pointer=pointer)
        return HookResult.replace(shortened, reason="truncated")

    def _room(self, text: str) -> int:
        """Return how many characters may stay: a text of few letters a token is cut earlier."""
        if self.max_tokens is None or self._tokenizer is None:
            return self.max_chars
        # No script takes more than four tokens a character, and what is cut anyway need not be counted.
        if min(len(text), self.max_chars) * 4 <= self.max_tokens:
            return self.max_chars
        head = text[: self.max_chars]
        room = self.max_chars
        while room > LEAST_CHARS and (tokens := len(self._tokenizer.encode(head))) > self.max_tokens:
            room = max(LEAST_CHARS, min(len(head) * self.max_tokens // tokens, len(head) - 1))
            head = head[:room]
        return room

    def _keep(self, conversation: Conversation, text: str) -> str:
        """Have the whole text written with its turn; return its name, or nothing if it cannot be kept."""
        if (
            getattr(conversation.journal, "outbox", None) is None
            or len(text.encode(errors="replace")) > self.keep_bytes
        ):
            return ""
        session = conversation.layout.session
        pointer = pointer_to(session, text)
        step = KeepOutput(session, pointer, text, self.keep_bytes)
        if step not in conversation.also:
            conversation.also.append(step)
        return pointer


def shorten(value: Any, max_chars: int, *, pointer: str = "") -> Any:
    """Return the value with at most `max_chars` characters as text or JSON, saying how much was left out.

    Text that is JSON comes back as JSON. Keys keep their order; a list keeps its first items.

    Args:
        pointer: the name under which the whole of it can be read; said at the end.
    """
    told = READ_MORE.format(pointer=pointer) if pointer else ""
    room = max_chars - len(told) - 6 if told else max_chars  # with quotes, a comma and spaces
    if not isinstance(value, str):
        return _telling(_shortened(json.loads(_dump(value)), room, depth=0), told)
    if value.lstrip()[:1] in ("{", "["):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return _telling(_cut(value, room), told)
        return _dump(_telling(_shortened(parsed, room, depth=0), told))
    return _telling(_cut(value, room), told)


def _telling(value: Any, told: str) -> Any:
    """Return a shortened value that says where the rest is."""
    if not told:
        return value
    if isinstance(value, list):
        return [*value, told]
    if isinstance(value, dict):
        key, _, rest = told.partition(": ")
        return {**value, key: rest}
    return f"{value}\n{told}"


def _shortened(value: Any, room: int, *, depth: int) -> Any:
    if len(_dump(value)) <= room:
        return value
    if isinstance(value, list) and depth < _MOST_DEPTH:
        return _fewer(value, room, depth=depth)
    if isinstance(value, dict) and depth < _MOST_DEPTH:
        return _smaller(value, room, depth=depth)
    text = value if isinstance(value, str) else _dump(value)
    # Quotes and control characters take more room in JSON than in the text itself.
    spare = len(_dump(text)) / max(1, len(text))
    cut = _cut(text, max(1, int((room - 2) / spare)))
    while len(cut) > 1 and len(_dump(cut)) > room:
        cut = _cut(text, len(cut) * 3 // 4)
    return cut


def _fewer(items: list[Any], room: int, *, depth: int) -> list[Any]:
    out: list[Any] = []
    left = room - len(_items_note(len(items), len(items))) - 6
    for item in items:
        size = len(_dump(item)) + 2
        if size > left:
            break
        out.append(item)
        left -= size
    if not out and left > 0:
        out.append(_shortened(items[0], left, depth=depth + 1))
    if len(out) < len(items):
        out.append(_items_note(len(items) - len(out), len(items)))
    return out


def _smaller(members: dict[str, Any], room: int, *, depth: int) -> dict[str, Any]:
    """Keep short members whole, and let the long ones share what is left."""
    note = 60
    sizes = {key: len(_dump(key)) + len(_dump(value)) + 4 for key, value in members.items()}
    left, waiting = room - note, len(members)
    shares: dict[str, int] = {}
    for key in sorted(sizes, key=sizes.__getitem__):
        share = left // waiting
        shares[key] = min(sizes[key], share)
        left -= shares[key]
        waiting -= 1
    out = {}
    for key, value in members.items():
        inner = shares[key] - len(_dump(key)) - 4
        if shares[key] == sizes[key]:
            out[key] = value
        elif inner >= 40:
            out[key] = _shortened(value, inner, depth=depth + 1)
    missing = len(members) - len(out)
    if missing:
        out["left out"] = f"{missing:,} of {len(members):,} members"
    return out


def _items_note(missing: int, of: int) -> str:
    return f"… ({missing:,} of {of:,} items left out)"


def _cut(text: str, max_chars: int) -> str:
    """Return the beginning of the text up to a line's end near the bound, or else a whole character, and a note."""
    if len(text) <= max_chars:
        return text
    room = max_chars - len(_note(len(text), len(text))) - 1
    if room < 1:
        return "…"
    end = text.rfind("\n", room * 3 // 4, room + 1)
    between = "\n" if end >= 0 else ""
    head = text[: end if between else _whole(text, room)].rstrip()
    return head + between + _note(len(text) - len(head), len(text))


def _note(missing: int, of: int) -> str:
    return f"… ({missing:,} of {of:,} characters left out)"


def _whole(text: str, end: int) -> int:
    """Return the nearest place at or before `end` that tears no sign apart."""
    for back in range(min(end, _LONGEST_SIGN)):
        left, right = text[end - back - 1], text[end - back]
        joined = "\u200d" in (left, right) or 0xFE00 <= ord(right) <= 0xFE0F
        toned = 0x1F3FB <= ord(right) <= 0x1F3FF
        if not (joined or toned or unicodedata.category(right).startswith("M")):
            return end - back
    return end


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
