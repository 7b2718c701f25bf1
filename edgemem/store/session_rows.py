"""Conversations as people can carry them away: sessions, turns with their messages, epochs, what tools answered in full."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import msgspec

from edgemem.records import Heard, Level, TurnState
from edgemem.store.line import Line, Number, TokenId, as_text
from edgemem.store.shape import LEVEL, Part, Shape, json_part
from edgemem.store.turns import STATES


def _packed(tokens: Sequence[int]) -> bytes | None:
    return struct.pack(f"<{len(tokens)}i", *tokens) if tokens else None


def _unpacked(column: bytes | None) -> tuple[int, ...]:
    return struct.unpack(f"<{len(column) // 4}i", column) if column else ()


class Session(Line, frozen=True):
    """A conversation; its turns follow."""

    id: Number
    name: str
    recorded: Number
    state: dict[str, Any] | None = None
    """The loop's own; None where a file holds only what one person said."""

    SHAPE = Shape(
        *("id", "name", "recorded"),
        Part("state", "state", lambda state: as_text(state or {}), msgspec.json.decode),
    )
    COLUMNS = SHAPE.columns

    @classmethod
    def of(cls, row: Sequence[Any]) -> Session:
        """Return the record of a row of COLUMNS."""
        return cls(**cls.SHAPE.fields(row))

    def columns(self) -> tuple[Any, ...]:
        """Return the row."""
        return self.SHAPE.row(self)


class Message(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One message of a turn."""

    id: Number
    role: str
    content: str | None = None
    unheard: str | None = None
    extra: dict[str, Any] = {}
    tokens: tuple[TokenId, ...] = ()

    SHAPE = Shape(
        *("id", "role", "content", "unheard"),
        json_part("extra", empty={}),
        Part("tokens", "tokens", _packed, _unpacked),
    )
    COLUMNS = SHAPE.columns

    @classmethod
    def of(cls, row: Sequence[Any]) -> Message:
        """Return the record of a row of COLUMNS."""
        return cls(**cls.SHAPE.fields(row))

    def columns(self) -> tuple[Any, ...]:
        """Return the row."""
        return self.SHAPE.row(self)


class Turn(Line, frozen=True):
    """One turn with what was said in it."""

    session: str
    n: Number
    first: Number
    last: Number
    recorded: Number
    state: TurnState = "complete"
    level: Level = "household"
    owner: str | None = None
    block: str = ""
    shown: tuple[str, ...] = ()
    heard: Heard | None = None
    messages: tuple[Message, ...] = ()

    SHAPE = Shape(
        "n",
        Part("first", "first_message"),
        Part("last", "last_message"),
        "recorded",
        Part("state", "state", STATES.index, STATES.__getitem__),
        LEVEL,
        "owner",
        Part("block", "block", lambda block: block or None, lambda column: column or ""),
        json_part("shown", empty=()),
        heard=True,
    )
    COLUMNS = SHAPE.columns

    @classmethod
    def of(cls, session: str, row: Sequence[Any], messages: Sequence[Message]) -> Turn:
        """Return the record of a row of COLUMNS and its messages."""
        return cls(session=session, messages=tuple(messages), **cls.SHAPE.fields(row))

    def columns(self) -> tuple[Any, ...]:
        """Return the row, without the messages."""
        return self.SHAPE.row(self)


class Dropped(Line, frozen=True):
    """A message of an older version of a conversation."""

    session: str
    turn: Number
    dropped: Number
    message: Message


class Epoch(Line, frozen=True):
    """Where a conversation's prompt began anew."""

    session: str
    id: Number
    first_turn: Number
    started_at: float
    summary: str = ""
    reason: str = ""
    carried: tuple[str, ...] = ()

    SHAPE = Shape("id", "first_turn", "started_at", "summary", "reason", json_part("carried", empty=()))
    COLUMNS = SHAPE.columns

    def columns(self) -> tuple[Any, ...]:
        """Return the row."""
        return self.SHAPE.row(self)


class Output(Line, frozen=True):
    """What a tool answered in full, in a turn that holds only the beginning of it."""

    session: str
    turn: Number
    pointer: str
    content: str

    SHAPE = Shape("turn", "pointer", "content")
    COLUMNS = SHAPE.columns

    def columns(self) -> tuple[Any, ...]:
        """Return the row."""
        return self.SHAPE.row(self)


SAID_IN_TURN = (
    f"select {Message.COLUMNS} from messages where id between ? and ? and session_id = ? and turn = ?"  # noqa: S608 - ours
    " and dropped is null order by id"
)
"""The messages of a turn, by its first and last id, its session's id and its number."""
