"""Exporting: everything that is remembered, or what belongs to one person, as JSON lines.

Read in pieces, so that a long life needs no more memory than a short one, and up to the tick at which it began: later writes
are left for the next time. The same memory gives the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.fence import storable
from edgemem.scopes import name_key
from edgemem.store.declaration import Kind
from edgemem.store.kinds import DOUBTS, FACT_KEYS, FACTS, KINDS, MESSAGES, SESSIONS, TOOL_OUTPUTS, TURNS
from edgemem.store.rights import spellings
from edgemem.store.transfer.export_lines import CODECS, FORMAT, MESSAGE, TURN, Edgemem, End, File, Notes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgemem.store.bank.bank import MemoryBank
    from edgemem.store.db.database import Database
    from edgemem.store.notes import NotesFile

MESSAGES_OF_TURN = (
    f"select {MESSAGE.select()} from messages r where id between ? and ? and session_id = ? and turn = ?"  # noqa: S608 - ours
    " and dropped is null order by id"
)
"""The messages of a turn, by its first and last id, its session's id and its number."""

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
_RULES = {
    DOUBTS.table: f"exists (select 1 from fact_keys k where k.id = r.key_id and {_THEIR_FACT} and not {_FOREIGN})"  # noqa: S608 - ours
    f" and {_OPEN_TO_OTHERS}",
    SESSIONS.table: " or ".join(
        f"exists (select 1 from {kind.table} where session_id = r.id and ({kind.of_person()}))"  # noqa: S608 - ours
        for kind in _OF_SESSION
    ),
    TURNS.table: _THEIR_TURN,
    TOOL_OUTPUTS.table: "exists (select 1 from turns t where t.session_id = r.session_id and t.n = r.turn"  # noqa: S608 - ours
    f" and {_THEIR_TURN.replace('r.level', 'r.answer').replace('r.', 't.')})",
}
"""The conditions under which rows of some kinds are a person's; of another kind, they bear the name, and are no secret of
somebody else. What bears no name is nobody's."""
_UNTIL = {
    TURNS.table: "r.last_message <= :until",
    MESSAGES.table: "r.dropped <= :until",
    TOOL_OUTPUTS.table: "exists (select 1 from turns t where t.session_id = r.session_id and t.n = r.turn"
    " and t.last_message <= :until)",
}


def export_lines(
    db: Database,
    *,
    notes: NotesFile | None = None,
    bank: MemoryBank | None = None,
    speaker: str | None = None,
) -> Iterator[str]:
    """Yield the lines of an export, without line ends.

    Args:
        notes: written in whole; they belong to nobody, so a person's export has none.
        bank: its files; of a person, their own.
        speaker: only what this person said or owns; facts with their whole history.
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
    """Reads one kind after the other, a page at a time."""

    def __init__(self, db: Database, person: str | None) -> None:
        self._db = db
        self.person = person
        self._bound = {"name": person, "until": db.last_tick(), "page": _PAGE}

    def withheld(self) -> int:
        """Return how many facts of the person also hold something private to somebody else."""
        if self.person is None:
            return 0
        sql = f"select count(*) from fact_keys k where {_THEIR_FACT} and {_FOREIGN}"  # noqa: S608 - our own constants
        return int(self._db.query(sql, self._bound)[0][0])

    def lines(self) -> Iterator[Any]:
        """Yield everything between the first line and the notes."""
        for kind in KINDS:
            codec = CODECS.get(kind.table)
            if kind is FACTS:
                yield from self._facts()
            elif kind is TURNS:
                yield from self._turns()
            elif codec is not None and (self.person is None or self._rule(kind)):
                for line in self._rows(kind, codec.select(), codec.columns):
                    line = codec.read(line)  # noqa: PLW2901
                    # A loop's own state is nobody's.
                    yield (
                        msgspec.structs.replace(line, state=None)
                        if kind is SESSIONS and self.person
                        else line
                    )

    def _rule(self, kind: Kind) -> str:
        """Return the condition under which a row of a kind is the person's; empty where none is."""
        rule = _RULES.get(kind.table) or kind.of_person("r")
        closed = f" and {_OPEN_TO_OTHERS}" if rule and {"level", "owner"}.issubset(kind.names) else ""
        return f"({rule}){closed}" if rule else ""

    def _rows(self, kind: Kind, select: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a kind that are the person's, in the order of its lines."""
        until = _UNTIL.get(kind.table, f"r.{kind.newest} <= :until")
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
        """Yield the rows of a select, page by page.

        Args:
            order: the columns by which rows are in order.
            bound: values that the select binds.
        """
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
