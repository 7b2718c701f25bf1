"""Records: one for each line of an export, and the table that says in which columns its fields stand.

Ticks, versions and rectangles stand as they are in the database, so that what is read in again is the same history,
not a new one that says the same. `Reading` checks lines before anything is done with them.
"""

from __future__ import annotations

import math
import re
import struct
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Generic, NamedTuple, NoReturn, TypeVar

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.fence import check_key, check_session_id
from edgemem.records import LATEST, Heard, ProcedureStep, TurnState
from edgemem.scopes import Level
from edgemem.store.episodes import Details, details_column, read_details
from edgemem.store.facts import storable_value
from edgemem.store.procedures import read_steps
from edgemem.store.rights import LEVELS
from edgemem.store.turns import STATES
from edgemem.store.validation import NULL, as_text, checked_json, heard_columns, heard_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

FORMAT = 5
"""An export of an earlier one is refused: none was released."""

MAX_LINE_BYTES = 64 * 1024 * 1024
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")

Number = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
Trust = Annotated[int, msgspec.Meta(ge=0, le=3)]
_TokenId = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]


class _Line(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="record",
    tag=str.lower,
):
    """What all lines share: their kind stands in `record`, and nothing unknown is passed over."""


class Edgemem(_Line, frozen=True):
    """The first line."""

    format: int
    speaker: str | None = None
    """Whose memory this is, if it is one person's."""


class End(_Line, frozen=True):
    """The last line: without it, a file was cut short."""

    lines: Number
    """How many stand between the first and this one."""
    withheld: Number = 0
    """Facts of a person that are not in it, because they also hold what is private to somebody else."""


class Fact(_Line, frozen=True):
    """One rectangle of a fact: what was believed from `recorded` to `known_to` of `[valid_from, valid_to)`."""

    scope: str
    key: str
    id: Number
    recorded: Number
    version: Number
    origin: Number
    topic: str | None = None
    """The one that the key bears."""
    value: str | None = None
    json: str | None = None
    valid_from: float | None = None
    """None: since ever."""
    valid_to: float | None = None
    known_to: Number | None = None
    node: Number | None = None
    supersedes: Number | None = None
    source: str = ""
    level: Level = "shared"
    owner: str | None = None
    trust: Trust = 3
    heard: Heard | None = None


class Doubt(_Line, frozen=True):
    """What was heard badly of a fact, or said by somebody of less trust, and was not believed."""

    scope: str
    key: str
    id: Number
    value: str
    valid_from: float
    json: str | None = None
    valid_to: float | None = None
    settled: Number | None = None
    confirmed_by: Number | None = None
    badly: bool = True
    source: str = ""
    level: Level = "shared"
    owner: str | None = None
    trust: Trust = 3
    heard: Heard | None = None


class Preference(_Line, frozen=True):
    """A lasting wish."""

    scope: str
    key: str
    value: str
    recorded: Number
    level: Level = "shared"
    owner: str | None = None


class Episode(_Line, frozen=True):
    """Something the robot did or lived through."""

    id: Number
    kind: str
    payload: Any
    outcome: str
    agent: str = ""
    level: Level = "household"
    owner: str | None = None
    heard: Heard | None = None
    name: str | None = None
    summary: str | None = None
    details: Details = Details()
    session: str | None = None
    turn: Number | None = None
    latency: float | None = None


class Procedure(_Line, frozen=True):
    """A sequence of tool calls that did something before."""

    id: Number
    name: str
    title: str
    description: str
    trigger: str
    steps: tuple[ProcedureStep, ...] = ()
    successes: Number = 0
    failures: Number = 0
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    session: str | None = None
    turn: Number | None = None
    level: Level = "shared"
    owner: str | None = None
    heard: Heard | None = None


class Session(_Line, frozen=True):
    """A conversation; its turns follow."""

    id: Number
    name: str
    recorded: Number
    state: dict[str, Any] | None = None
    """The loop's own; None where a file holds only what one person said."""


class Message(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One message of a turn."""

    id: Number
    role: str
    content: str | None = None
    unheard: str | None = None
    extra: dict[str, Any] = {}
    tokens: tuple[_TokenId, ...] = ()


class Turn(_Line, frozen=True):
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


class Dropped(_Line, frozen=True):
    """A message of an older version of a conversation."""

    session: str
    turn: Number
    dropped: Number
    message: Message


class Epoch(_Line, frozen=True):
    """Where a conversation's prompt began anew."""

    session: str
    id: Number
    first_turn: Number
    started_at: float
    summary: str = ""
    reason: str = ""
    carried: tuple[str, ...] = ()


class User(_Line, frozen=True):
    """Somebody whom an agent knows."""

    id: Number
    name: str


class Goal(_Line, frozen=True):
    """What a person is after."""

    id: Number
    owner: str
    name: str
    title: str
    data: dict[str, Any]
    level: Level = "private"


class Phase(_Line, frozen=True):
    """In which phase a person is."""

    id: Number
    owner: str
    phase: str
    notes: str


class State(_Line, frozen=True):
    """What an agent keeps of a person in a conversation."""

    session: str
    id: Number
    owner: str
    data: dict[str, Any]


class Summary(_Line, frozen=True):
    """The summary that an agent wrote of what a person said in a conversation."""

    session: str
    id: Number
    owner: str
    summary: str
    covered: Number
    version: Number
    level: Level = "private"


class Output(_Line, frozen=True):
    """What a tool answered in full, in a turn that holds only the beginning of it."""

    session: str
    turn: Number
    pointer: str
    content: str


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


Part = Turn | Dropped | Epoch | Output | State | Summary
"""Of a conversation, which comes before it."""

Line = (
    Edgemem | Fact | Doubt | Preference | Episode | Procedure | Session | Part | Notes | File | User | Goal | Phase | End
)  # fmt: skip

_TICKS = ("id", "recorded", "known_to", "settled", "first", "last", "dropped")
"""Fields that hold ticks, in whichever record they stand."""


def ticks_of(record: Line) -> Iterator[int]:
    """Yield the ticks that a line carries."""
    fields = msgspec.structs.asdict(record)
    yield from (fields[name] for name in _TICKS if fields.get(name) is not None)
    if isinstance(record, Turn):
        yield from (message.id for message in record.messages)
    elif isinstance(record, Dropped):
        yield record.message.id


# Tables

Record = TypeVar("Record", bound=msgspec.Struct)


class _Column(NamedTuple):
    """How a field stands in its column, where it does not stand there as it is."""

    store: Callable[[Any], Any]
    """Returns what stands in the column for a value."""
    read: Callable[[Any], Any]
    name: str = ""
    """Of the column, if not the field's."""


def _named(name: str) -> _Column:
    return _Column(lambda value: value, lambda column: column, name)


def _as_json(empty: Any) -> _Column:
    """Return a column of JSON text that is null for an empty value."""
    kind = type(empty)
    return _Column(
        lambda value: as_text(value) if value else None,
        lambda column: kind(msgspec.json.decode(column)) if column else empty,
    )


class Table(Generic[Record]):
    """A record's table: which field stands in which column, read in both directions.

    Args:
        record: its fields are columns of their names; `level` and `heard` stand alike in every table.
        name: of the table.
        beside: fields that are no columns of it.
        columns: fields that stand in another way.
    """

    def __init__(
        self, record: type[Record], name: str, beside: Sequence[str] = (), **columns: _Column
    ) -> None:
        names: Sequence[str] = record.__struct_fields__
        self.record = record
        self.name = name
        self._fields = [field for field in names if field not in (*beside, "heard")]
        self._kinds = [
            columns.get(field, _LEVEL if field == "level" else _named(field)) for field in self._fields
        ]
        self._heard = "heard" in names
        self.columns = [kind.name or field for kind, field in zip(self._kinds, self._fields, strict=True)]
        self.columns += Heard.__struct_fields__ if self._heard else ()

    def select(self, alias: str = "") -> str:
        """Return the columns as a select names them."""
        return ", ".join(f"{alias}.{name}" if alias else name for name in self.columns)

    def fields(self, row: Sequence[Any]) -> dict[str, Any]:
        """Return the fields that a row holds which begins with the columns."""
        pairs = zip(self._fields, self._kinds, row, strict=False)
        fields = {field: kind.read(value) for field, kind, value in pairs}
        if self._heard:
            fields["heard"] = heard_of(row[len(self._fields) : len(self.columns)])
        return fields

    def of(self, row: Sequence[Any], **beside: Any) -> Record:
        """Return the record of a row that begins with the columns, with the fields that are no columns."""
        return self.record(**self.fields(row), **beside)

    def row(self, record: Record) -> list[Any]:
        """Return what stands in the columns for a record."""
        fields = msgspec.structs.asdict(record)
        row = [kind.store(fields[field]) for field, kind in zip(self._fields, self._kinds, strict=True)]
        return [*row, *heard_columns(fields["heard"])] if self._heard else row


_LEVEL = _Column(LEVELS.index, LEVELS.__getitem__)
_EVER = _Column(
    lambda since: -math.inf if since is None else since,
    lambda column: None if column == -math.inf else column,
)
_JSON = _Column(as_text, msgspec.json.decode)
_TOKENS = _Column(
    lambda tokens: struct.pack(f"<{len(tokens)}i", *tokens) if tokens else None,
    lambda column: struct.unpack(f"<{len(column) // 4}i", column) if column else (),
)

FACTS = Table(Fact, "facts", ("scope", "key", "topic"), valid_from=_EVER)
DOUBTS = Table(Doubt, "doubts", ("scope", "key"), badly=_Column(int, bool))
PREFERENCES = Table(Preference, "preferences")
EPISODES = Table(Episode, "episodes", payload=_JSON, details=_Column(details_column, read_details))
_STEPS = _Column(as_text, read_steps)
PROCEDURES = Table(Procedure, "procedures", steps=_STEPS, tags=_as_json(()), metadata=_as_json({}))
SESSIONS = Table(Session, "sessions", state=_Column(lambda state: as_text(state or {}), msgspec.json.decode))
TURNS = Table(
    Turn,
    "turns",
    ("session", "messages"),
    first=_named("first_message"),
    last=_named("last_message"),
    state=_Column(STATES.index, STATES.__getitem__),
    block=_Column(lambda block: block or None, lambda column: column or ""),
    shown=_as_json(()),
)
MESSAGES = Table(Message, "messages", extra=_as_json({}), tokens=_TOKENS)
EPOCHS = Table(Epoch, "epochs", ("session",), carried=_as_json(()))
OUTPUTS = Table(Output, "tool_outputs", ("session",))
USERS = Table(User, "users")
GOALS = Table(Goal, "goals", data=_JSON)
PHASES = Table(Phase, "phases")
STATES_OF = Table(State, "session_states", ("session",), data=_JSON)
SUMMARIES = Table(Summary, "session_summaries", ("session",))

MESSAGES_OF_TURN = (
    f"select {MESSAGES.select()} from messages where id between ? and ? and session_id = ? and turn = ?"  # noqa: S608 - ours
    " and dropped is null order by id"
)
"""The messages of a turn, by its first and last id, its session's id and its number."""


# Reading lines


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
        self._decode = msgspec.json.Decoder(Line).decode
        self.line = 0
        self.newest = 0

    def __iter__(self) -> Iterator[Line]:
        end: End | None = None
        count = 0
        for data in self._lines:
            self.line += 1
            if not data.strip():
                continue
            record = self._record(data)
            if end is not None:
                self._fail("stands behind the last one; import one export at a time.")
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

    def _record(self, data: bytes) -> Line:
        if len(data) > MAX_LINE_BYTES:
            self._fail(f"is longer than {MAX_LINE_BYTES:,} bytes; this is no export.")
        try:
            if _NUL.search(data):
                raise InvalidInputError("it holds a NUL character.")
            record: Line = self._decode(data)
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


def _check(record: Line) -> None:
    """Raise InvalidInputError for what could not have been stored here."""
    if isinstance(record, (Fact, Doubt, Preference)):
        check_key(record.key)
        check_key(record.scope, what="a scope")
        if record.value is not None:
            storable_value(record.value)
        if isinstance(record, (Fact, Doubt)) and record.json is not None:
            checked_json(msgspec.json.decode(record.json) if record.json != "null" else NULL, "the value")
    elif isinstance(record, Session):
        check_session_id(record.name)
    elif isinstance(record, (User, Goal)):
        check_key(record.name, what="a name")
    for field in ("title", "phase", "notes", "summary") if isinstance(record, (Goal, Phase, Summary)) else ():
        storable_value(msgspec.structs.asdict(record).get(field, ""), what=field)
    if isinstance(record, Fact):
        begin, end = record.valid_from, record.valid_to
        if begin is not None and end is not None and end <= begin:
            raise InvalidInputError("it ends before it begins")
        if (record.known_to is None) != (record.node is None) or (
            record.known_to or 2**62
        ) <= record.recorded:
            raise InvalidInputError("it was believed until before it was recorded")
