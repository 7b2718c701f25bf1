"""Messages as rows: what was said as text, everything else as JSON, token ids as bytes."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from copy import deepcopy
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.fence import storable
from edgemem.records import Message, StoredMessage

if TYPE_CHECKING:
    from edgemem.store.db.transaction import Transaction

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
    extra = {key: value for key, value in message.items() if key not in ("role", "content")}
    content = message.get("content")
    if content is not None and not isinstance(content, str):
        # A list of parts (text, images) is kept as it is; its text stands beside it to be found by.
        extra["content"] = content
        content = _text_of(content)
    return StoredMessage(message["role"], content, extra, tuple(tokens))


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


def message_of(row: Sequence[Any]) -> StoredMessage:
    """Return the message that the columns of `COLUMNS` hold."""
    number, role, content, unheard, extra, tokens = row
    return StoredMessage(
        role,
        content,
        msgspec.json.decode(extra) if extra else {},
        struct.unpack(f"<{len(tokens) // 4}i", tokens) if tokens else (),
        unheard,
        number,
    )


def insert(tx: Transaction, session_id: int, turn: int, rows: Sequence[Row]) -> list[int]:
    """Append the messages of one turn; return their ids."""
    numbers = [tx.tick() for _ in rows]
    tx.executemany(
        "insert into messages (id, session_id, turn, role, content, unheard, extra, tokens)"
        " values (?, ?, ?, ?, ?, ?, ?, ?)",
        [(number, session_id, turn, *row) for number, row in zip(numbers, rows, strict=True)],
    )
    return numbers


def copied(message: Message) -> Message:
    """Return a message that does not change when its original does; its texts are shared."""
    return {key: part if isinstance(part, str) else deepcopy(part) for key, part in message.items()}


def to_json(value: Any, *, what: str) -> str:
    """Return a value as JSON text that is the same for equal values.

    Args:
        what: how to call the value in an error, such as `a message`.
    """
    try:
        return msgspec.json.encode(plain(value), order="sorted").decode()
    except (TypeError, RecursionError) as error:
        raise InvalidInputError(f"{what} holds something that JSON cannot: {error}.") from error


def plain(value: Any) -> Any:
    """Return the value with every text storable, every key text and no number that JSON lacks.

    Raises:
        TypeError: it is nothing that JSON can hold.
    """
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


def _text_of(content: Any) -> str:
    parts = content if isinstance(content, list) else []
    return " ".join(str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part)
