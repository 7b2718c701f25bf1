"""ToolOutputTruncatorHook: a tool that answers with pages does not fill the window, and what is missing is said."""

from __future__ import annotations

import copy
import json
import unicodedata
from typing import Any

from edgemem.errors import InvalidInputError
from edgemem.hooks.points import AFTER_TOOL, HookResult

LEAST_CHARS = 200
"""A smaller bound would hold little but the note about what was left out."""

_LONGEST_SIGN = 16
"""Characters that may belong to one visible sign."""

_MOST_DEPTH = 8
"""A value that is nested deeper is shown as text from here on."""


class ToolOutputTruncatorHook:
    """Shorten results of tools: text at a line or a whole character, JSON by whole values, so that it stays JSON."""

    points = frozenset({AFTER_TOOL})
    # Before whatever keeps or shows the result.
    priority = 40

    def __init__(self, max_chars: int = 2000) -> None:
        """Make the hook.

        Args:
            max_chars: the most characters of a result, its note about what was left out included; at least 200.

        Raises:
            InvalidInputError: `max_chars` is less than that.
        """
        if max_chars < LEAST_CHARS:
            raise InvalidInputError(f"max_chars must be at least {LEAST_CHARS}; it is {max_chars}.")
        self.max_chars = max_chars

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Replace a result that is too long."""
        result = payload.result
        if result is None or _size(result) <= self.max_chars:
            return None
        # A copy: the payload of another framework is no record of ours, and others may hold it.
        shortened = copy.copy(payload)
        shortened.result = shorten(result, self.max_chars)
        return HookResult.replace(shortened, reason="truncated")


def shorten(value: Any, max_chars: int) -> Any:
    """Return the value with at most `max_chars` characters as text or JSON, saying how much was left out.

    Text that is JSON comes back as JSON. Keys keep their order; a list keeps its first items.
    """
    if not isinstance(value, str):
        return _shortened(json.loads(_dump(value)), max_chars, depth=0)
    if value.lstrip()[:1] in ("{", "["):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return _cut(value, max_chars)
        return _dump(_shortened(parsed, max_chars, depth=0))
    return _cut(value, max_chars)


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


def _size(value: Any) -> int:
    return len(value if isinstance(value, str) else _dump(value))


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
