"""Export lines: one JSON object for each row, with the fields that its kind declares.

Ticks, versions and rectangles are written as they are in the database, so that an import gives the same history, not a
new one that says the same. `Reading` checks lines before anything is done with them.
"""

from __future__ import annotations

import math
import operator
import re
import struct
from functools import partial, reduce
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NamedTuple, NoReturn, get_args

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.fence import check_key, check_session_id
from edgemem.records import LATEST, Heard
from edgemem.scopes import Level
from edgemem.store.declaration import Column, Kind
from edgemem.store.facts import storable_value
from edgemem.store.kinds import DOUBTS, FACTS, KINDS, MESSAGES, SESSIONS, TURNS
from edgemem.store.validation import NULL, as_text, checked_json, heard_columns, heard_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

FORMAT = 5
"""An export of an earlier one is refused: none was released."""

MAX_LINE_BYTES = 64 * 1024 * 1024
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")

Number = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
_TYPES: Mapping[str, Any] = {"integer": Number, "real": float, "text": str}
_HEARD = Heard.__struct_fields__


class _Line(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="record",
    tag=str.lower,
):
    """A line: `record` says of which kind, and nothing unknown is passed over."""


class Edgemem(_Line, frozen=True):
    """The first line."""

    format: int
    speaker: str | None = None
    """Whose memory this is, if it is one person's."""


class End(_Line, frozen=True):
    """The last line: without it, a file was cut short."""

    lines: Number
    """The number of lines between the first and this one."""
    withheld: Number = 0
    """Facts of a person that are not in it, because they also hold something private to somebody else."""


class File(_Line, frozen=True):
    """A file of the bank."""

    bank: str
    """`user:NAME`, `household` or `shared`."""
    path: str
    content: str
    modified: Annotated[float, msgspec.Meta(ge=0, le=LATEST)]
    topic: str = ""


class Notes(_Line, frozen=True):
    """The whole of NOTES.md."""

    text: str


class _Field(NamedTuple):
    """A column in an export."""

    column: Column
    name: str
    shape: Any
    choices: tuple[Any, ...]
    """The values that the numbers in the column are the positions of."""

    @classmethod
    def of_column(cls, column: Column) -> _Field:
        """Return how a column is written."""
        shape = Level if column.role == "level" else column.shape
        choices = () if column.shape is bool or column.sql.split()[0] != "integer" else get_args(shape)
        if choices and not isinstance(choices[0], str):
            choices = ()  # a number within bounds
        if shape is None:
            shape = Any if column.role == "json" else _TYPES[column.sql.split()[0]]
        return cls(column, column.field or column.name, shape, choices)

    def declaration(self) -> tuple[str, Any] | tuple[str, Any, Any]:
        """Return the field of a struct."""
        default = re.search(r"default (?:'([^']*)'|(\d+))", self.column.sql)
        if default is not None and self.column.role != "json":
            value = default[1] if default[2] is None else int(default[2])
            return self.name, self.shape, bool(value) if self.shape is bool else value
        if self.column.optional or default is not None or self.shape is float:
            return self.name, self.shape | None if self.shape is not Any else Any, None
        return self.name, self.shape

    def read(self, value: Any) -> Any:
        """Return the value of a column as an export has it."""
        if value is None or value == -math.inf:
            return None
        if self.choices:
            return self.choices[value]
        if self.column.role == "json":
            return msgspec.json.decode(value, type=self.shape)
        if self.column.sql == "blob":
            return struct.unpack(f"<{len(value) // 4}i", value)
        return bool(value) if self.shape is bool else value

    def store(self, value: Any) -> Any:
        """Return the value for the column."""
        if value is None:
            return -math.inf if self.column.sql == "real not null" else None
        if self.choices:
            return self.choices.index(value)
        if self.column.role == "json":
            return as_text(value)
        if self.column.sql == "blob":
            return struct.pack(f"<{len(value)}i", *value)
        return int(value) if self.shape is bool else value


class Codec:
    """The lines of a kind: the struct of a line, read from a row and written to one.

    Args:
        line: its `record`; empty: that of the kind.
        without: columns that are no fields.
        more: further fields of the struct.
        nested: it is a part of another line, and has no `record`.
    """

    def __init__(
        self,
        kind: Kind,
        *,
        line: str = "",
        without: Sequence[str] = (),
        more: Sequence[tuple[str, Any]] = (),
        nested: bool = False,
    ) -> None:
        above = kind.parent
        self._heard = _HEARD if set(_HEARD).issubset(kind.names) else ()
        without = [*without, above.column if above else "", *self._heard]
        self.kind = kind
        self._fields = [
            _Field.of_column(column)
            for column in kind.columns
            if column.role != "local" and column.name not in without
        ]
        self._above = () if above is None or nested else above.fields
        self.columns = [field.column.name for field in self._fields] + [*self._heard]
        """The columns of the table that it reads and writes."""
        self.ticks = [field.name for field in self._fields if field.column.role == "tick"]
        fields: list[Any] = [
            (name, str) if name != "topic" else (name, str | None, None) for name, _ in self._above
        ]
        fields += [field.declaration() for field in self._fields]
        fields += [("heard", Heard | None, None)] * bool(self._heard)
        settings: dict[str, Any] = {"frozen": True, "omit_defaults": True, "forbid_unknown_fields": True}
        if not nested:
            settings |= {"bases": (_Line,), "tag_field": "record", "tag": line or kind.line}
        self.record: Any = msgspec.defstruct(
            line or kind.line or kind.table, [*fields, *more], kw_only=True, **settings
        )

    def select(self) -> str:
        """Return the columns as a select names them: those of a row `r`, then those of its parent `p`."""
        return ", ".join(
            [*(f"r.{name}" for name in self.columns), *(f"p.{column}" for _, column in self._above)]
        )

    def read(self, row: Sequence[Any], **more: Any) -> Any:
        """Return the line of a row that `select` gave, with further fields."""
        count = len(self._fields)
        values = {field.name: field.read(value) for field, value in zip(self._fields, row, strict=False)}
        if self._heard:
            values["heard"] = heard_of(row[count : len(self.columns)])
        values |= {
            name: value for (name, _), value in zip(self._above, row[len(self.columns) :], strict=False)
        }
        return self.record(**values, **more)

    def row(self, line: Any) -> dict[str, Any]:
        """Return the values of the columns by their names."""
        values = msgspec.structs.asdict(line)
        row = {field.column.name: field.store(values[field.name]) for field in self._fields}
        return (
            row | dict(zip(self._heard, heard_columns(values["heard"]), strict=True)) if self._heard else row
        )


MESSAGE = Codec(MESSAGES, without=("turn", "dropped"), nested=True)
DROPPED = Codec(MESSAGES, line="dropped")
"""A message of an older version of a conversation."""
TURN = Codec(TURNS, more=(("messages", tuple.__class_getitem__((MESSAGE.record, ...))),))
"""One turn with its messages."""
CODECS: Mapping[str, Codec] = {
    kind.table: TURN if kind is TURNS else Codec(kind) for kind in KINDS if kind.line
} | {MESSAGES.table: DROPPED}
"""By the table."""
_CODEC_OF = {codec.record: codec for codec in CODECS.values()}
Line = reduce(operator.or_, (Edgemem, End, File, Notes, *_CODEC_OF))


def codec_of(line: Any) -> Codec | None:
    """Return the codec of a line; None: it is of no table."""
    return _CODEC_OF.get(type(line))


def ticks_of(line: Any) -> Iterator[int]:
    """Yield the ticks that a line carries."""
    codec = codec_of(line)
    for field in () if codec is None else codec.ticks:
        if (tick := msgspec.structs.asdict(line)[field]) is not None:
            yield tick
    if isinstance(line, TURN.record):
        yield from (message.id for message in line.messages)


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file; one that is too long for an export comes in part, and is refused."""
    return iter(partial(file.readline, MAX_LINE_BYTES + 1), b"")


class Reading:
    """Yields the records of lines, and knows where it is.

    Args:
        limit: the highest tick that a line may carry.
    """

    def __init__(self, lines: Iterable[bytes], limit: int) -> None:
        self._lines = lines
        self._limit = limit
        self._decode: Any = msgspec.json.Decoder(Line).decode
        self.line = 0
        self.newest = 0

    def __iter__(self) -> Iterator[Any]:
        end: End | None = None
        count = 0
        for data in self._lines:
            self.line += 1
            if not data.strip():
                continue
            record = self._record(data)
            if end is not None:
                self._fail("comes after the last one; import one export at a time.")
            if (self.line == 1) != isinstance(record, Edgemem):
                self._fail(
                    'is not {"record":"edgemem",…}; `edgemem export` writes what can be read.'
                    if self.line == 1
                    else "begins another export; import one at a time."
                )
            if isinstance(record, End):
                end = record
            elif not isinstance(record, Edgemem):
                count += 1
                yield record
            elif record.format != FORMAT:
                raise InvalidInputError(
                    f"A newer edgemem wrote this export (format {record.format}); update edgemem to read it."
                    if record.format > FORMAT
                    else f"An edgemem of before the first release wrote this export (format {record.format}); begin anew."
                )
        if self.line == 0:
            raise InvalidInputError("There is nothing to take in: not one line came.")
        if end is None or end.lines != count:
            raise InvalidInputError(
                f"The file was cut short: behind its line {self.line}, lines are missing; export it again."
            )

    def _fail(self, what: str) -> NoReturn:
        raise InvalidInputError(f"Line {self.line} {what}")

    def _record(self, data: bytes) -> Any:
        if len(data) > MAX_LINE_BYTES:
            self._fail(f"is longer than {MAX_LINE_BYTES:,} bytes; this is no export.")
        try:
            if _NUL.search(data):
                raise InvalidInputError("it holds a NUL character.")
            record = self._decode(data)
            _check(record)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InvalidInputError) as error:
            reason = str(error).rstrip(".")
            raise InvalidInputError(
                f"Line {self.line} is damaged ({reason}); mend it or export again."
            ) from error
        for tick in ticks_of(record):
            if not 0 < tick <= self._limit:
                self._fail("was written in another age by its ids; set this robot's clock, or mend the line.")
            self.newest = max(self.newest, tick)
        return record


def _check(line: Any) -> None:
    """Raise InvalidInputError for a line that could not have been stored here."""
    codec = codec_of(line)
    if codec is None:
        return
    values = msgspec.structs.asdict(line)
    kind = codec.kind
    for column in kind.columns:
        value = values.get(column.field or column.name)
        if value is None:
            continue
        if column.role == "value":
            storable_value(value, what=f"the {column.name} of a {kind.label}")
        elif column.role in ("scope", "key") or column.name == "name":
            check = check_session_id if kind is SESSIONS else partial(check_key, what=f"a {column.name}")
            check(value)
    for field, what in (("scope", "a scope"), ("key", "a key")) if kind in (FACTS, DOUBTS) else ():
        check_key(values[field], what=what)
    if kind in (FACTS, DOUBTS) and line.json is not None:
        checked_json(msgspec.json.decode(line.json) if line.json != "null" else NULL, "the value")
    if kind is FACTS:
        begin, end = line.valid_from, line.valid_to
        if begin is not None and end is not None and end <= begin:
            raise InvalidInputError("it ends before it begins")
        if (line.known_to is None) != (line.node is None) or (line.known_to or 2**62) <= line.recorded:
            raise InvalidInputError("it was believed until before it was recorded")
