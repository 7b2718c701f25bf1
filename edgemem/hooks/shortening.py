"""Shortening: a result of a tool as text or JSON of so many characters, which says what is missing and where it is."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from edgemem.records import READ_MORE

POINTS_TO = f"… all of it: {READ_MORE} {{pointer}}"
"""What the model is told of a text that is kept."""

_LONGEST_SIGN = 16
"""Characters that may belong to one visible sign."""

_MOST_DEPTH = 8
"""A value that is nested deeper is shown as text from here on."""


def as_text(value: Any) -> str:
    """Return a value as the JSON that a model is shown."""
    return json.dumps(value, ensure_ascii=False, default=str)


def shorten(value: Any, max_chars: int, *, pointer: str = "") -> Any:
    """Return the value with at most `max_chars` characters as text or JSON, saying how much was left out.

    Text that is JSON comes back as JSON. Keys keep their order; a list keeps its first items.

    Args:
        pointer: the name under which the whole of it can be read; said at the end.
    """
    told = POINTS_TO.format(pointer=pointer) if pointer else ""
    room = max_chars - len(told) - 6 if told else max_chars  # with quotes, a comma and spaces
    if not isinstance(value, str):
        return _telling(_shortened(json.loads(as_text(value)), room, depth=0), told)
    if value.lstrip()[:1] in ("{", "["):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return _telling(_cut(value, room), told)
        return as_text(_telling(_shortened(parsed, room, depth=0), told))
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
    if len(as_text(value)) <= room:
        return value
    if isinstance(value, list) and depth < _MOST_DEPTH:
        return _fewer(value, room, depth=depth)
    if isinstance(value, dict) and depth < _MOST_DEPTH:
        return _smaller(value, room, depth=depth)
    text = value if isinstance(value, str) else as_text(value)
    # Quotes and control characters take more room in JSON than in the text itself.
    spare = len(as_text(text)) / max(1, len(text))
    cut = _cut(text, max(1, int((room - 2) / spare)))
    while len(cut) > 1 and len(as_text(cut)) > room:
        cut = _cut(text, len(cut) * 3 // 4)
    return cut


def _fewer(items: list[Any], room: int, *, depth: int) -> list[Any]:
    out: list[Any] = []
    left = room - len(_items_note(len(items), len(items))) - 6
    for item in items:
        size = len(as_text(item)) + 2
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
    sizes = {key: len(as_text(key)) + len(as_text(value)) + 4 for key, value in members.items()}
    left, waiting = room - note, len(members)
    shares: dict[str, int] = {}
    for key in sorted(sizes, key=sizes.__getitem__):
        share = left // waiting
        shares[key] = min(sizes[key], share)
        left -= shares[key]
        waiting -= 1
    out = {}
    for key, value in members.items():
        inner = shares[key] - len(as_text(key)) - 4
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
