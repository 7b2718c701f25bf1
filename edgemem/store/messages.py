"""Messages as rows: the words as text, everything else as JSON, token ids as bytes."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.fence import storable
from edgemem.records import Message, StoredMessage, text_of

if TYPE_CHECKING:
    from edgemem.store.db.transaction import Transaction

_TAG = r"(?:\w+:)?(?:think(?:ing)?|thought)"
_THOUGHTS = re.compile(
    rf"<({_TAG})\b[^>]*>.*?(?:</\1>|\Z)"
    r"|\[think\].*?(?:\[/think\]|\Z)|◁think▷.*?(?:◁/think▷|\Z)"
    r"|<\|start_thinking\|>.*?(?:<\|end_thinking\|>|\Z)|<\|channel>.*?(?:<channel\|>|\Z)"
    r"|<\|channel\|>(?:final<\|message\|>|.*?(?:<\|channel\|>final<\|message\|>|\Z))"
    rf"|\A(?:(?!<{_TAG}).)*</{_TAG}>",
    re.DOTALL | re.IGNORECASE,
)
"""A thought within a reply; where the prompt opened it, the reply begins within it."""
_WORDS = frozenset(("text", "transcript", "refusal"))  # keys of parts that hold words of any look
_THOUGHT_PARTS = frozenset(("thinking", "redacted_thinking", "reasoning", "reasoning_text"))
_THOUGHT_KEYS = frozenset(
    ("reasoning_content", "reasoning", "reasoning_details", "thinking", "thinking_blocks")
)
_BY_PROVIDER = "provider_specific_fields"  # where some programs keep what else a provider told
_BASE64 = re.compile(r"[\w+/=-]{256,}", re.ASCII)  # bytes as text: no word of any language is as long

COLUMNS = "m.id, m.role, m.content, m.unheard, m.extra, m.tokens"


class Row(NamedTuple):
    """The columns of one message that say what it is; equal messages give equal rows."""

    role: str
    content: str | None
    unheard: str | None
    extra: str | None
    tokens: bytes | None


def stored_message(message: Message, tokens: Sequence[int] = ()) -> StoredMessage:
    """Return the record that keeps a chat message of a loop."""
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str) or not message["role"]:
        raise InvalidInputError(
            f"A message must be a dict with a role, such as {{'role': 'user', 'content': '…'}}; got {message!r:.80}."
        )
    spoken = without_thoughts(message)
    # What holds bytes is for the model alone; a call without an argument would be another one.
    extra = {
        key: _kept_value(value) if key == "tool_calls" else value
        for key, value in spoken.items()
        if key not in ("role", "content") and (key == "tool_calls" or _bytes_in(value)[1] <= 1)
    }
    content = spoken.get("content")
    if content is not None and not isinstance(content, str):
        # Parts are kept in their order, without the bytes of images; their text is in a column of its own.
        extra["content"] = list(map(_kept_part, content if isinstance(content, list) else [content]))
        content = text_of(spoken).strip("\n")
    # Ids of a text that was changed would not give that text.
    return StoredMessage(message["role"], content, extra, tuple(tokens) if spoken is message else ())


def without_objects(message: Message) -> Message:
    """Return a message of a loop without fields that hold what is no JSON: a store would refuse it with its words."""
    return {
        key: value
        for key, value in message.items()
        if key in ("role", "content", "tool_calls") or _bytes_in(value)[1] != 1
    }


def without_thoughts(message: Message) -> Message:
    """Return a message of the robot's without what its model thought, or the very message if it thought nothing."""
    content = message.get("content")
    if message.get("role") != "assistant":
        return message
    visible: Any = content
    if isinstance(content, str):
        visible = _unthought(content)
    elif isinstance(content, list):
        visible = [_unthought_part(part) for part in content if not _is_thought(part)]
    if visible == content and _THOUGHT_KEYS.isdisjoint(message) and _BY_PROVIDER not in message:
        return message
    kept = {key: value for key, value in message.items() if key not in _THOUGHT_KEYS}
    if isinstance(provided := kept.get(_BY_PROVIDER), dict):
        kept[_BY_PROVIDER] = {key: value for key, value in provided.items() if key not in _THOUGHT_KEYS}
    return {**kept, "content": visible}


def _is_thought(part: Any) -> bool:
    return isinstance(part, dict) and (part.get("type") in _THOUGHT_PARTS or part.get("thought") is True)


def _unthought_part(part: Any) -> Any:
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return {**part, "text": _unthought(part["text"])}
    return _unthought(part) if isinstance(part, str) else part


def _unthought(text: str) -> str:
    visible = _THOUGHTS.sub("", text)
    return text if visible == text else visible.strip()


def _kept_part(part: Any) -> Any:
    """Return a part as the database keeps it: in place of bytes, their transcript, or else their type and size."""
    kind, size = (None, 0) if isinstance(part, str) else _bytes_in(part)
    if not size:
        return part
    words = text_of({"content": part}) if isinstance(part, dict) else ""
    return {"type": "text", "text": words or _placeholder(kind, size)}


def _placeholder(kind: str | None, size: int) -> str:
    return f"({kind or 'bytes'}, {size / 1000:.0f} kB)" if size > 1 else f"({kind})"


def _kept_value(value: Any) -> Any:
    """Return calls as the database keeps them: without bytes, and without what is no JSON."""
    if isinstance(value, (list, tuple)):
        return [_kept_value(part) for part in value]
    if isinstance(value, dict):
        return {
            key: part if isinstance(part, str) and key in _WORDS else _kept_value(part)
            for key, part in value.items()
        }
    kind, size = _bytes_in(value)
    return _placeholder(kind, size) if size else value


def _bytes_in(part: Any, key: str = "") -> tuple[str, int]:
    """Return the type of the bytes that a part carries, as far as it says, and how many they are; 0: none, 1: nobody knows."""
    if isinstance(part, (bytes, bytearray, memoryview)):
        return "", len(part)
    if isinstance(part, str):
        lead, comma, rest = part.partition(",")
        if lead.startswith("data:") and comma:
            return lead[len("data:") :].partition(";")[0], len(rest) * 3 // 4
        return "", len(part) * 3 // 4 if key == "data" or _BASE64.fullmatch(part) else 0
    if isinstance(part, (list, tuple, set, frozenset)):
        sizes = [_bytes_in(item) for item in part]
    elif isinstance(part, dict):
        sizes = [_bytes_in(value, str(name)) for name, value in part.items() if name not in _WORDS]
        named = (part.get(name) for name in ("media_type", "mime_type", "mimeType", "format", "type"))
        sizes.append((next((str(name) for name in named if name), ""), 0))
    elif part is None or isinstance(part, (bool, int, float, msgspec.Struct)):
        return "", 0
    else:  # an object of a model's library, such as an image
        return type(part).__name__, 1
    return next((kind for kind, _ in sizes if kind), ""), sum(size for _, size in sizes)


def row_of(message: StoredMessage) -> Row:
    """Return the row that keeps a message."""
    try:
        tokens = struct.pack(f"<{len(message.tokens)}i", *message.tokens) if message.tokens else None
    except struct.error as error:
        raise InvalidInputError(f"Token ids must be whole numbers of 32 bits: {error}.") from error
    return Row(
        storable(message.role),
        None if message.content is None else storable(message.content),
        storable(message.unheard) if message.unheard else None,
        to_json(message.extra, what="a message") if message.extra else None,
        tokens,
    )


def extra_of(text: str | None) -> dict[str, Any] | None:
    """Return the further keys of a stored message; None: a hand has made them unreadable."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any]) if text else {}
    except (msgspec.MsgspecError, RecursionError):
        return None


def message_of(row: Sequence[Any]) -> StoredMessage:
    """Return the message that the columns of `COLUMNS` hold, without keys that cannot be read."""
    number, role, content, unheard, extra, tokens = row
    ids = struct.unpack(f"<{len(tokens) // 4}i", tokens) if tokens else ()
    return StoredMessage(role, content, extra_of(extra) or {}, ids, unheard, number)


def insert(tx: Transaction, session_id: int, turn: int, rows: Sequence[Row]) -> list[int]:
    """Append the messages of one turn; return their ids."""
    numbers = [tx.tick() for _ in rows]
    tx.executemany(
        "insert into messages (id, session_id, turn, role, content, unheard, extra, tokens)"
        " values (?, ?, ?, ?, ?, ?, ?, ?)",
        [(number, session_id, turn, *row) for number, row in zip(numbers, rows, strict=True)],
    )
    return numbers


def copied(value: Any) -> Any:
    """Return a message, or a part of one, whose lists and dicts are its own; what they hold besides is shared."""
    if isinstance(value, dict):
        return {key: part if isinstance(part, str) else copied(part) for key, part in value.items()}
    return [copied(part) for part in value] if isinstance(value, list) else value


def to_json(value: Any, *, what: str) -> str:
    """Return a value, called `what` in errors, as JSON text that is the same for equal values."""
    try:
        return msgspec.json.encode(plain(value), order="sorted").decode()
    except (TypeError, RecursionError) as error:
        raise InvalidInputError(f"{what} holds something that JSON cannot: {error}.") from error


def plain(value: Any) -> Any:
    """Return the value with every text storable, every key text and no number that JSON lacks; TypeError: JSON cannot hold it."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {storable(str(key)): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(part) for part in value]
    if isinstance(value, msgspec.Struct):
        return plain(msgspec.to_builtins(value))
    raise TypeError(f"a value of type {type(value).__name__}")
