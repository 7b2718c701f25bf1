"""Exporting: everything that is remembered, or one person's part of it, as JSON lines; and reading such lines.

A line is a JSON object of the fields that its row's kind declares. Ticks, versions and rectangles are written as they are, so an
import gives the same history. The truth is read in pieces, so a long life needs no more memory, and up to the tick at which the
export began. The same memory gives the same bytes.
"""

from __future__ import annotations

import math
import operator
import os
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NamedTuple, NoReturn, get_args

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.fence import check_key, check_session_id, storable
from edgemem.records import LATEST, Heard
from edgemem.scopes import Level, name_key
from edgemem.store.backups import checked_target
from edgemem.store.db.files import sync, write_new
from edgemem.store.declaration import Column, Kind
from edgemem.store.facts import storable_value
from edgemem.store.graph import MARKS, STORED_EDGES
from edgemem.store.kinds import DOUBTS, FACT_KEYS, FACTS, KINDS, MESSAGES, SESSIONS, TOOL_OUTPUTS, TURNS
from edgemem.store.rights import spellings
from edgemem.store.validation import NULL, as_text, checked_json, heard_columns, heard_of

if TYPE_CHECKING:
    from edgemem.store.bank.bank import MemoryBank
    from edgemem.store.db.database import Database
    from edgemem.store.notes import NotesFile

_PAGE = 200
_OPEN_TO_OTHERS = "(r.level < 2 or r.owner is :name)"
_THEIR_TURN = f"((r.owner = :name or r.speaker = :name) and {_OPEN_TO_OTHERS})"
_THEIR_FACT = """
  (k.scope = 'user:' || :name
    or exists (select 1 from facts f where f.key_id = k.id and (f.owner = :name or f.speaker = :name))
    or exists (select 1 from doubts f where f.key_id = k.id and (f.owner = :name or f.speaker = :name)))
"""
_FOREIGN = "exists (select 1 from facts f where f.key_id = k.id and f.level = 2 and f.owner is not :name)"
_OF_SESSION = [
    kind
    for kind in KINDS
    if kind.parent is not None and kind.parent.table == SESSIONS.table and kind.of_person()
]
_THEIR_THOUGHT = """
  (exists (select 1 from stored_thoughts h where h.name = {id} and h.owner = :name) or exists (select 1 from shown_thoughts s
    where s.kind = substr({id}, 1, instr({id}, ':') - 1) and s.id = cast(substr({id}, instr({id}, ':') + 1) as integer)
      and :name in (s.owner, s.source)))
"""
"""Whether a person owns or said what is shown as a thought under an id."""
_RULES = {
    DOUBTS.table: f"exists (select 1 from fact_keys k where k.id = r.key_id and {_THEIR_FACT} and not {_FOREIGN})"  # noqa: S608 - ours
    f" and {_OPEN_TO_OTHERS}",
    SESSIONS.table: " or ".join(
        f"exists (select 1 from {kind.table} where session_id = r.id and ({kind.of_person()}))"  # noqa: S608 - ours
        for kind in _OF_SESSION
    ),
    TURNS.table: _THEIR_TURN,
    MARKS.table: _THEIR_THOUGHT.format(id="r.subject"),
    STORED_EDGES.table: f"(r.owner = :name or r.level < 2 and {_THEIR_THOUGHT.format(id='r.source_id')}"
    f" and {_THEIR_THOUGHT.format(id='r.target_id')})",
    TOOL_OUTPUTS.table: "exists (select 1 from turns t where t.session_id = r.session_id and t.n = r.turn"  # noqa: S608 - ours
    f" and {_THEIR_TURN.replace('r.level', 'r.answer').replace('r.', 't.')})",
}
"""Conditions under which rows of some kinds are a person's; of others, they bear the name, and are no secret of somebody else."""
_UNTIL = {
    TURNS.table: "r.last_message <= :until",
    MESSAGES.table: "r.dropped <= :until",
    TOOL_OUTPUTS.table: "exists (select 1 from turns t where t.session_id = r.session_id and t.n = r.turn"
    " and t.last_message <= :until)",
}

FORMAT = 5  # an export of an earlier one is refused: none was released

MAX_LINE_BYTES = 64 * 1024 * 1024
MOST_LINES = 20_000_000
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
    speaker: str | None = None  # whose memory this is, if it is one person's


class End(_Line, frozen=True):
    """The last line: without it, a file was cut short."""

    lines: Number  # lines between the first and this one
    withheld: Number = 0
    """Facts of a person that are not in it, because they also hold something private to somebody else."""


class File(_Line, frozen=True):
    """A file of the bank."""

    bank: str  # `user:NAME`, `household` or `shared`
    path: str
    content: str
    modified: Annotated[float, msgspec.Meta(ge=0, le=LATEST)]
    topic: str = ""


class Notes(_Line, frozen=True):
    """The whole of NOTES.md."""

    text: str


class _Field(NamedTuple):
    column: Column
    name: str
    shape: Any
    choices: tuple[Any, ...]  # the values whose positions the column holds

    @classmethod
    def of_column(cls, column: Column) -> _Field:
        shape = Level if column.role == "level" else column.shape
        choices = () if column.shape is bool or column.sql.split()[0] != "integer" else get_args(shape)
        if choices and not isinstance(choices[0], str):
            choices = ()  # a number within bounds
        if shape is None:
            shape = Any if column.role == "json" else _TYPES[column.sql.split()[0]]
        return cls(column, column.field or column.name, shape, choices)

    def declaration(self) -> tuple[str, Any] | tuple[str, Any, Any]:
        default = re.search(r"default (?:'([^']*)'|(\d+))", self.column.sql)
        if default is not None and self.column.role != "json":
            value = default[1] if default[2] is None else int(default[2])
            return self.name, self.shape, bool(value) if self.shape is bool else value
        if self.column.optional or default is not None or self.shape is float:
            return self.name, self.shape | None if self.shape is not Any else Any, None
        return self.name, self.shape

    def read(self, value: Any) -> Any:
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
        told = (column for column in kind.columns if column.role != "local" and column.name not in without)
        self._fields = list(map(_Field.of_column, told))
        self._above = () if above is None or nested else above.fields
        self.columns = [field.column.name for field in self._fields] + [*self._heard]
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
DROPPED = Codec(MESSAGES, line="dropped")  # a message of an older version of a conversation
TURN = Codec(TURNS, more=(("messages", tuple.__class_getitem__((MESSAGE.record, ...))),))
CODECS: Mapping[str, Codec] = {
    kind.table: TURN if kind is TURNS else Codec(kind) for kind in KINDS if kind.line
} | {MESSAGES.table: DROPPED}  # by the table
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


def checked_lines(lines: Any) -> Iterable[bytes | str]:
    """Return the lines of an export; raise InvalidInputError where they are none, such as its whole text."""
    if isinstance(lines, (str, bytes)) or not isinstance(lines, Iterable):
        raise InvalidInputError(
            f"The lines of an export must be a list or a file of lines; got {type(lines).__name__}."
        )
    return lines


class Reading:
    """Yields the records of lines whose ticks are below a limit, and knows where it is."""

    def __init__(self, lines: Iterable[bytes | str], limit: int) -> None:
        self._lines = checked_lines(lines)
        self._limit = limit
        self._decode: Any = msgspec.json.Decoder(Line).decode
        self.line = 0
        self.newest = 0

    def __iter__(self) -> Iterator[Any]:
        end: End | None = None
        count = 0
        for line in self._lines:
            self.line += 1
            if self.line > MOST_LINES:
                self._fail(f"is one more than the {MOST_LINES:,} that an export has.")
            if not isinstance(line, (str, bytes)):
                self._fail(f"must be text or bytes; got {type(line).__name__}.")
            data = line if isinstance(line, bytes) else line.encode(errors="surrogatepass")
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
    if codec is None or codec.kind.goes == "person":  # a voice may be called anything
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


MESSAGES_OF_TURN = (
    f"select {MESSAGE.select()} from messages r where id between ? and ? and session_id = ? and turn = ?"  # noqa: S608 - ours
    " and dropped is null order by id"
)
"""The messages of a turn, by its first and last id, its session's id and its number."""


def export_lines(
    db: Database,
    *,
    notes: NotesFile | None = None,
    bank: MemoryBank | None = None,
    speaker: str | None = None,
) -> Iterator[str]:
    """Yield the lines of an export, without line ends.

    Of a speaker it holds only what they said or own, facts with their whole history, and their own files; no notes.
    """
    export = _Export(db, None if speaker is None else spellings(db, [storable(speaker)])[storable(speaker)])
    encode = msgspec.json.Encoder().encode
    yield encode(Edgemem(FORMAT, export.person)).decode()
    count = 0
    for line in export.lines():
        count += 1
        yield encode(line).decode()
    text = notes.read() if notes is not None and speaker is None else ""
    if text:
        count += 1
        yield encode(Notes(text)).decode()
    for file, owner, content in bank.texts() if bank is not None else ():
        if speaker is None or (owner and name_key(owner) == name_key(speaker)):
            count += 1
            yield encode(File(file.scope, file.path, content, file.modified, file.topic)).decode()
    yield encode(End(count, export.withheld())).decode()


def withheld_by(last: str) -> int:
    """Return how many facts the last line of an export says were left out."""
    return msgspec.json.decode(last, type=End).withheld


class _Export:
    def __init__(self, db: Database, person: str | None) -> None:
        self._db = db
        self.person = person
        self._bound = {"name": person, "until": db.last_tick(), "page": _PAGE}

    def withheld(self) -> int:
        if self.person is None:
            return 0
        sql = f"select count(*) from fact_keys k where {_THEIR_FACT} and {_FOREIGN}"  # noqa: S608 - our own constants
        return int(self._db.query(sql, self._bound)[0][0])

    def lines(self) -> Iterator[Any]:
        for kind in KINDS:
            codec = CODECS.get(kind.table)
            if kind is FACTS:
                yield from self._facts()
            elif kind is TURNS:
                yield from self._turns()
            elif codec is not None and (self.person is None or self._rule(kind)):
                for row in self._rows(kind, codec.select(), codec.columns):
                    line = codec.read(row)
                    if kind is SESSIONS and self.person:
                        line = msgspec.structs.replace(line, state=None)  # a loop's own state is nobody's
                    yield line

    def _rule(self, kind: Kind) -> str:
        """Return the condition under which a row of a kind is the person's; empty where none is."""
        rule = _RULES.get(kind.table) or kind.of_person("r") or kind.mine
        closed = f" and {_OPEN_TO_OTHERS}" if rule and {"level", "owner"}.issubset(kind.names) else ""
        return f"({rule}){closed}" if rule else ""

    def _rows(self, kind: Kind, select: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        until = _UNTIL.get(kind.table, f"r.{kind.newest} <= :until" if kind.newest else "1")
        where = until if self.person is None else f"{until} and {self._rule(kind)}"
        return self._pages(
            select, f"{kind.table} r{kind.join()}", where, [f"r.{key}" for key in kind.order or kind.primary]
        )

    def _facts(self) -> Iterator[Any]:
        codec = CODECS[FACTS.table]
        theirs = "1" if self.person is None else f"{_THEIR_FACT} and not {_FOREIGN}"
        # A version that was closed after the export began was still believed then.
        columns = ", ".join(
            f"case when known_to <= :until then {name} end" if name in FACTS.later else name
            for name in codec.columns
        )
        for scope, key, key_id, topic in self._pages(
            "k.scope, k.key, k.id, k.topic", f"{FACT_KEYS.table} k", theirs, ["k.scope", "k.key"]
        ):
            rows = self._pages(columns, "facts", "key_id = :key_id and id <= :until", ["id"], key_id=key_id)
            for row in rows:
                yield codec.read((*row, scope, key, topic))

    def _turns(self) -> Iterator[Any]:
        codec = CODECS[TURNS.table]
        for row in self._rows(TURNS, f"{codec.select()}, r.session_id", codec.columns):
            n, first, last = row[:3]
            messages = self._db.query(MESSAGES_OF_TURN, (first, last, row[-1], n))
            yield self._readable(TURN.read(row[:-1], messages=tuple(map(MESSAGE.read, messages))))

    def _readable(self, turn: Any) -> Any:
        """Return of a turn all that the person may read: the whole, or its utterance."""
        if self.person is None or turn.answer != "private" or turn.owner == self.person:
            return turn
        messages = tuple(message for message in turn.messages if message.id == turn.utterance)
        return msgspec.structs.replace(turn, messages=messages, block="", shown=())

    def _pages(
        self, columns: str, source: str, where: str, order: Sequence[str], **bound: Any
    ) -> Iterator[tuple[Any, ...]]:
        keys = ", ".join(order)
        after: dict[str, Any] = {}
        while True:
            later = f"({keys}) > ({', '.join(f':{name}' for name in after)}) and " if after else ""
            page = self._db.query(
                f"select {columns}, {keys} from {source} where {later}{where} order by {keys} limit :page",  # noqa: S608 - ours
                {**self._bound, **bound, **after},
            )
            yield from (row[: -len(order)] for row in page)
            if len(page) < _PAGE:
                return
            after = {f"after{n}": value for n, value in enumerate(page[-1][-len(order) :])}


@contextmanager
def written_to(given: str) -> Iterator[Callable[[str], object]]:
    """Lend what writes a line into a file (0600), which is replaced in one step at the end; raise InvalidInputError where it cannot be."""
    file = Path(given)
    if file.exists() and not file.is_file():
        raise InvalidInputError(
            f"{file} is no ordinary file, and would be replaced; `edgemem export > {file}` writes to it."
        )
    file = checked_target(file)
    folder = file if given.endswith("/") else file.parent
    if not folder.is_dir():  # a stick that is not mounted, say
        place = folder
        raise InvalidInputError(
            f"There is no directory {place}; make it with `mkdir -p {place}`, or name another."
        )
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)
    write_new(part)
    try:
        with part.open("w", encoding="utf-8", newline="\n") as opened:
            yield lambda line: opened.write(f"{line}\n")
        sync(part)
        part.replace(file)
        sync(file.parent)
    finally:
        part.unlink(missing_ok=True)


def count_records(lines: Iterable[str]) -> Counter[str]:
    """Return how much of each kind an export holds; a fact's versions, which are neighbours, count once."""
    nouns = {kind.line: kind.plural for kind in KINDS if kind.line and kind.goes == "row"}
    nouns |= {"fact": "facts", "turn": "turns", "file": "files"}
    kinds: Counter[str] = Counter()
    last = None
    for record in map(msgspec.json.decode, lines):
        fact = (record["scope"], record["key"]) if record["record"] == "fact" else None
        if record["record"] in nouns and (fact is None or fact != last):
            kinds[nouns[record["record"]]] += 1
        last = fact
    return kinds
