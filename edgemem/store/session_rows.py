"""Conversations as people can carry them away: sessions, turns with their messages, epochs."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import msgspec

from edgemem.records import Heard, Level, TurnState
from edgemem.store.heard import heard_columns, heard_of
from edgemem.store.line import HEARD, Line, Number, TokenId, as_text
from edgemem.store.reading import LEVELS
from edgemem.store.turns import STATES


class Session(Line, frozen=True):
    """A conversation; its turns follow."""

    id: Number
    name: str
    recorded: Number
    state: dict[str, Any] | None = None
    """The loop's own; None where a file holds only what one person said."""

    COLUMNS = "id, name, recorded, state"

    @classmethod
    def of(cls, row: Sequence[Any]) -> Session:
        """Return the record of a row of COLUMNS."""
        return cls(*(*row[:3], msgspec.json.decode(row[3])))

    def columns(self) -> tuple[Any, ...]:
        """Return the row."""
        return (self.id, self.name, self.recorded, as_text(self.state or {}))


class Message(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One message of a turn."""

    id: Number
    role: str
    content: str | None = None
    unheard: str | None = None
    extra: dict[str, Any] = {}
    tokens: tuple[TokenId, ...] = ()

    COLUMNS = "id, role, content, unheard, extra, tokens"

    @classmethod
    def of(cls, row: Sequence[Any]) -> Message:
        """Return the record of a row of COLUMNS."""
        *said, extra, tokens = row
        ids = struct.unpack(f"<{len(tokens) // 4}i", tokens) if tokens else ()
        return cls(*(*said, msgspec.json.decode(extra) if extra else {}, ids))

    def columns(self) -> tuple[Any, ...]:
        """Return the row."""
        tokens = struct.pack(f"<{len(self.tokens)}i", *self.tokens) if self.tokens else None
        extra = as_text(self.extra) if self.extra else None
        return (self.id, self.role, self.content, self.unheard, extra, tokens)


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

    COLUMNS = f"n, first_message, last_message, recorded, state, level, owner, block, shown, {HEARD}"

    @classmethod
    def of(cls, session: str, row: Sequence[Any], messages: Sequence[Message]) -> Turn:
        """Return the record of a row of COLUMNS and its messages."""
        n, first, last, recorded, state, level, owner, block, shown, *heard = row
        return cls(
            *(session, n, first, last, recorded, STATES[state], LEVELS[level], owner, block or ""),
            tuple(msgspec.json.decode(shown)) if shown else (),
            heard_of(heard),
            tuple(messages),
        )

    def columns(self) -> tuple[Any, ...]:
        """Return the row, without the messages."""
        return (
            *(
                self.n,
                self.first,
                self.last,
                self.recorded,
                STATES.index(self.state),
                LEVELS.index(self.level),
            ),
            *(self.owner, self.block or None, as_text(self.shown) if self.shown else None),
            *heard_columns(self.heard),
        )


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

    COLUMNS = "id, first_turn, started_at, summary, reason"

    def columns(self) -> tuple[Any, ...]:
        """Return the row."""
        return (self.id, self.first_turn, self.started_at, self.summary, self.reason)


SAID_IN_TURN = (
    f"select {Message.COLUMNS} from messages where id between ? and ? and session_id = ? and turn = ?"  # noqa: S608 - ours
    " and dropped is null order by id"
)
"""The messages of a turn, by its first and last id, its session's id and its number."""
