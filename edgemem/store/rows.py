"""Rows as people can carry them away: one record for each line of an export, exact in both directions.

Ticks, versions and rectangles stand as they are in the file, so that what is read in again is the same history,
not a new one that says the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgemem.records import Heard, Level
from edgemem.store import line
from edgemem.store.line import Number, as_text
from edgemem.store.session_rows import SAID_IN_TURN, Dropped, Epoch, Message, Output, Session, Turn
from edgemem.store.shape import LEVEL, SINCE, Shape, json_part

__all__ = [
    "CARRIED",
    "FORMAT",
    "SAID_IN_TURN",
    "Doubt",
    "Dropped",
    "Edgemem",
    "End",
    "Episode",
    "Epoch",
    "Fact",
    "Line",
    "Message",
    "Notes",
    "Output",
    "Preference",
    "Session",
    "Turn",
    "as_text",
    "ticks_of",
]

FORMAT = 3
"""1 had no outputs of tools."""


class Edgemem(line.Line, frozen=True):
    """The first line."""

    format: int
    speaker: str | None = None
    """Whose memory this is, if it is one person's."""


class End(line.Line, frozen=True):
    """The last line: without it, a file was cut short."""

    lines: Number
    """How many stand between the first and this one."""
    withheld: Number = 0
    """Facts of a person that are not in it, because they also hold what is private to somebody else."""


class Fact(line.Line, frozen=True):
    """One rectangle of a fact: what was believed from `recorded` to `known_to` of `[valid_from, valid_to)`."""

    scope: str
    key: str
    id: Number
    recorded: Number
    version: Number
    origin: Number
    value: str | None = None
    valid_from: float | None = None
    """None: since ever."""
    valid_to: float | None = None
    known_to: Number | None = None
    node: Number | None = None
    supersedes: Number | None = None
    source: str = ""
    level: Level = "shared"
    owner: str | None = None
    heard: Heard | None = None

    SHAPE = Shape(
        *(
            "id",
            "recorded",
            "version",
            "origin",
            "value",
            SINCE,
            "valid_to",
            "known_to",
            "node",
            "supersedes",
        ),
        *("source", LEVEL, "owner"),
        heard=True,
    )
    COLUMNS = SHAPE.columns

    @classmethod
    def of(cls, scope: str, key: str, row: Sequence[Any]) -> Fact:
        """Return the record of a row of COLUMNS."""
        return cls(scope=scope, key=key, **cls.SHAPE.fields(row))

    def columns(self) -> tuple[Any, ...]:
        """Return the row."""
        return self.SHAPE.row(self)


class Doubt(line.Line, frozen=True):
    """What was heard badly of a fact, and was not believed."""

    scope: str
    key: str
    id: Number
    value: str
    valid_from: float
    valid_to: float | None = None
    settled: Number | None = None
    confirmed_by: Number | None = None
    source: str = ""
    level: Level = "shared"
    owner: str | None = None
    heard: Heard | None = None

    SHAPE = Shape(
        *("id", "value", "valid_from", "valid_to", "settled", "confirmed_by", "source", LEVEL, "owner"),
        heard=True,
    )
    COLUMNS = SHAPE.columns

    @classmethod
    def of(cls, scope: str, key: str, row: Sequence[Any]) -> Doubt:
        """Return the record of a row of COLUMNS."""
        return cls(scope=scope, key=key, **cls.SHAPE.fields(row))

    def columns(self) -> tuple[Any, ...]:
        """Return the row."""
        return self.SHAPE.row(self)


class Preference(line.Line, frozen=True):
    """A lasting wish."""

    scope: str
    key: str
    value: str
    recorded: Number
    level: Level = "shared"
    owner: str | None = None

    SHAPE = Shape("scope", "key", "value", "recorded", LEVEL, "owner")
    COLUMNS = SHAPE.columns

    @classmethod
    def of(cls, row: Sequence[Any]) -> Preference:
        """Return the record of a row of COLUMNS."""
        return cls(**cls.SHAPE.fields(row))

    def columns(self) -> tuple[Any, ...]:
        """Return the row."""
        return self.SHAPE.row(self)


class Episode(line.Line, frozen=True):
    """Something the robot did or lived through."""

    id: Number
    kind: str
    payload: Any
    outcome: str
    agent: str = ""
    level: Level = "household"
    owner: str | None = None
    heard: Heard | None = None

    SHAPE = Shape("id", "kind", json_part("payload"), "outcome", "agent", LEVEL, "owner", heard=True)
    COLUMNS = SHAPE.columns

    @classmethod
    def of(cls, row: Sequence[Any]) -> Episode:
        """Return the record of a row of COLUMNS."""
        return cls(**cls.SHAPE.fields(row))

    def columns(self) -> tuple[Any, ...]:
        """Return the row."""
        return self.SHAPE.row(self)


class Notes(line.Line, frozen=True):
    """The whole of NOTES.md."""

    text: str


Line = Edgemem | Fact | Doubt | Preference | Episode | Session | Turn | Dropped | Epoch | Output | Notes | End


CARRIED = (Fact, Doubt, Preference, Episode, Session, Turn, Message, Dropped, Epoch, Output)
"""What stands for the tables of the truth."""


def ticks_of(record: Line) -> list[int]:
    """Return the ticks that a line carries."""
    if isinstance(record, Fact):
        return [record.id, record.recorded, record.known_to or 1]
    if isinstance(record, Turn):
        return [record.recorded, record.first, record.last, *(message.id for message in record.messages)]
    if isinstance(record, Dropped):
        return [record.dropped, record.message.id]
    found = (getattr(record, name, None) for name in ("id", "recorded", "settled"))
    return [1 if tick is None else tick for tick in found]
