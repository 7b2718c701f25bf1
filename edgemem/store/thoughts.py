"""Thoughts: those that are stored, under the ids of their callers, and the marks beside what is shown as one."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.errors import InvalidInputError, ThoughtNotFoundError
from edgemem.fence import BULLET, clean
from edgemem.scopes import name_key
from edgemem.store.db.transaction import bound, in_batches, placeholders
from edgemem.store.edges import find_ends, record_of
from edgemem.store.facts import ROWS_OF_KEY, plain_key
from edgemem.store.graph import STORED_THOUGHTS
from edgemem.store.kinds import SHOWN
from edgemem.store.rights import LEVELS, drop_unused, readable, spell
from edgemem.store.turns import current_cycle, lift_cycle
from edgemem.store.validation import as_text
from edgemem.thoughts import (
    LifecycleStatus,
    Priority,
    ThoughtRecord,
    ThoughtVisibility,
    check_transition,
    named,
    seconds,
    utc,
)

if TYPE_CHECKING:
    from edgemem.records import BlockLine, Reader
    from edgemem.scopes import Level
    from edgemem.store.db.transaction import Tables, Transaction

OURS = re.compile(rf"({'|'.join((*SHOWN, 'note', 'bank', 'procedure', 'thought'))}):")
"""How an id of a record that is shown as a thought begins; no caller's id may."""

_COLUMNS = ", ".join(STORED_THOUGHTS.names)

_KEY_OF = """
  select key_id from facts where id = cast(substr({id}, 6) as integer) and {id} glob 'fact:*'
  union all select key_id from doubts where id = cast(substr({id}, 7) as integer) and {id} glob 'doubt:*'
"""
_UNSAID = f"select subject, ({_KEY_OF.format(id='subject')}) from marks where aloud = 0"  # noqa: S608 - our own constant
_UNSAID_THOUGHTS = """
  select '', essence, level, owner from stored_thoughts where aloud = 0
  union all select '', content, level, owner from stored_thoughts where aloud = 0
"""
_STATEMENTS = f"""
  select k.key, f.value, f.level, f.owner, 'fact:' || f.id from fact_keys k cross join facts f on f.id in ({ROWS_OF_KEY})
    where k.id = :key and f.id = f.origin and f.value is not null
  union all select k.key, d.value, d.level, d.owner, 'doubt:' || d.id from fact_keys k join doubts d on d.key_id = k.id
    where k.id = :key
"""  # noqa: S608 - our own constant
_SHOWN_VALUE = """
  select '', iif(kind = 'preference', substr(content, instr(content, ': ') + 2), content), level, owner from shown_thoughts
    where kind = substr(:id, 1, instr(:id, ':') - 1) and ref = cast(substr(:id, instr(:id, ':') + 1) as integer)
"""

UNSAID = "known, not to be said aloud"  # told in place of a value, behind its key
_LEAST = 4  # letters and digits of the shortest value that is looked for
_MOST = 64  # of a longer value so many tell it
_WORD, _BETWEEN = re.compile(r"[^\W_]+"), re.compile(r"[\s._-]+(?:\d+$)?")
_LINE, _JSON_LINE = re.compile(r"[^\n]+"), re.compile(r'(?:[^"\\\n]|\\[^n])+')


def put_thought(tx: Transaction, thought: ThoughtRecord) -> ThoughtRecord:
    """Store a new thought, or another version under its id, and return it as it is stored; a higher cycle lifts the counter."""
    if OURS.match(thought.thought_id):
        raise InvalidInputError(
            f"The id {thought.thought_id!r:.80} looks like one of edgemem's own; give the thought another."
        )
    older = tx.execute("select id, created, owner from stored_thoughts where name = ?", (thought.thought_id,))
    now, number = tx.now(), tx.tick()
    row = {
        **_row_of(thought),
        "id": number,
        "created": seconds(thought.created_at) or (older[0][1] if older else now),
        "owner": None if thought.owner is None else spell(tx, thought.owner),
    }
    if thought.updated_cycle > current_cycle(tx):
        lift_cycle(tx, thought.updated_cycle)
    sets = ", ".join(f"{column} = excluded.{column}" for column in row if column != "name")
    tx.execute(
        f"insert into stored_thoughts ({', '.join(row)}) values (:{', :'.join(row)})"  # noqa: S608 - our own columns
        f" on conflict (name) do update set {sets}",
        row,
    )
    tx.announce(STORED_THOUGHTS.table, [old for old, *_ in older])
    drop_unused(tx, (owner for _, _, owner in older))
    return stored_thought(tx, thought.thought_id)


def stored_thought(db: Tables, thought_id: str) -> ThoughtRecord:
    """Return a stored thought; raise ThoughtNotFoundError where there is none."""
    rows = db.query(f"select {_COLUMNS} from stored_thoughts where name = ?", (thought_id,))  # noqa: S608 - our own
    if not rows:
        raise ThoughtNotFoundError(f"There is no stored thought {thought_id!r:.80}.")
    return thought_of(rows[0])


def find_thoughts(
    db: Tables, where: str = "1", values: dict[str, Any] | None = None, *, limit: int = -1, offset: int = 0
) -> list[ThoughtRecord]:
    """Return stored thoughts by a condition of ours, those of the highest cycle first."""
    rows = db.query(
        f"select {_COLUMNS} from stored_thoughts where {where}"  # noqa: S608 - our own constants
        " order by updated_cycle desc, id desc limit :limit offset :offset",
        {**(values or {}), "limit": limit, "offset": offset},
    )
    return [thought_of(row) for row in rows]


def count_thoughts(db: Tables, where: str, values: dict[str, Any]) -> int:
    """Return how many stored thoughts fulfil a condition of ours."""
    return int(db.query(f"select count(*) from stored_thoughts where {where}", values)[0][0])  # noqa: S608 - our own


def change_thought(tx: Transaction, thought_id: str, changes: dict[str, Any]) -> ThoughtRecord:
    """Write another version of a stored thought; a string of a status is held to the transitions as its name is."""
    before = stored_thought(tx, thought_id)
    if changes.get("thought_id", thought_id) != thought_id:
        raise InvalidInputError("A thought keeps its thought_id; store another one instead.")
    if "lifecycle_status" in changes:
        after = named(LifecycleStatus, changes["lifecycle_status"])
        check_transition(before.lifecycle_status, after)
        if after is not before.lifecycle_status:
            is_archived = after is LifecycleStatus.ARCHIVED
            changes = {
                "archived_at": utc(tx.now(), "archived_at") if is_archived else None,
                "archived_at_cycle": current_cycle(tx) if is_archived else None,
                **changes,
            }
    changes.setdefault("updated_cycle", max(before.updated_cycle, current_cycle(tx)))
    return put_thought(tx, before.evolve(**changes))


def confirm_thought(tx: Transaction, thought_id: str) -> ThoughtRecord:
    """Count that a stored thought was met again, and return it."""
    tx.execute("update stored_thoughts set confirmations = confirmations + 1 where name = ?", (thought_id,))
    return stored_thought(tx, thought_id)


def note_access(tx: Transaction, thought_id: str) -> bool:
    """Count that a stored thought was used; tell whether there is one."""
    tx.execute(
        "update stored_thoughts set accesses = accesses + 1, accessed = ? where name = ?",
        (tx.now(), thought_id),
    )
    return tx.changes > 0


def same_thought(db: Tables, thought: ThoughtRecord) -> str | None:
    """Return the id of a stored thought with the same content for the same readers; None: there is none."""
    rows = db.query(
        "select t.name from stored_thoughts t where substr(t.content, 1, 64) = substr(:content, 1, 64)"
        " and t.content is :content and t.level = :level and t.lifecycle <> 'ARCHIVED'"
        " and t.owner is (select name from names where key = :owner) order by t.id limit 1",
        {
            "content": thought.content,
            "level": LEVELS.index(thought.level),
            "owner": name_key(thought.owner or ""),
        },
    )
    return rows[0][0] if rows else None


def expired_thoughts(db: Tables, now: float, *, without: str | None = None) -> tuple[list[str], int]:
    """Return the ids of stored thoughts, but for one, that have expired and are not pinned, and how many pinned ones have."""
    rows = db.query(
        "select name, pinned from stored_thoughts where expires <= :now and name is not :without order by id",
        {"now": now, "without": without},
    )
    return [name for name, pinned in rows if not pinned], sum(pinned for _, pinned in rows)


def archive_thoughts(tx: Transaction, names: Iterable[str]) -> None:
    """Put stored thoughts that expire into the archive, without their expiry, so that they can be restored; those pinned stay."""
    for name in names:
        rows = tx.query(
            "select lifecycle from stored_thoughts where name = ? and expires is not null and not pinned",
            (name,),
        )
        if rows == [(LifecycleStatus.CREATED,)]:
            change_thought(tx, name, {"lifecycle_status": LifecycleStatus.ACTIVE})
        if rows:
            change_thought(tx, name, {"lifecycle_status": LifecycleStatus.ARCHIVED, "expires_at": None})


class Mark(msgspec.Struct, frozen=True):
    """What somebody set beside a record that is shown as a thought."""

    priority: Priority | None = None
    """None: P3."""
    pinned: bool = False
    aloud: bool = True
    expires_at: str | None = None
    metadata: dict[str, Any] = {}


def put_metadata(tx: Transaction, subject: str, metadata: dict[str, Any]) -> None:
    """Keep metadata in a record's mark, in place of what it had; an empty one changes nothing."""
    if metadata:
        kept = read_marks(tx, [subject]).get(subject, Mark())
        put_mark(tx, subject, msgspec.structs.replace(kept, metadata=metadata))


def put_aloud(tx: Transaction, subject: str, *, aloud: bool | None) -> None:
    """Say of all statements of a fact, by the id of one, whether they may be said; None: of this one, as of those before it."""
    keys = [key for (key,) in tx.query(_KEY_OF.format(id=":id"), {"id": subject})]
    names = [subject for _, key in tx.query(_UNSAID) if key in keys][:1]
    if aloud is not None:
        names = [name for key in keys for *_, name in tx.query(_STATEMENTS, {"key": key})]
    marks = read_marks(tx, names)
    for name in names:
        put_mark(tx, name, msgspec.structs.replace(marks.get(name, Mark()), aloud=bool(aloud)))


def announce_mark(tx: Transaction, subject: str) -> None:
    """Tell the index to look at a record again, whose mark has changed."""
    if record := record_of(subject):
        for kind in SHOWN[record[0]]:
            rows = tx.query(f"select id from {kind.table} where id = ?", record[1:])  # noqa: S608 - ours
            tx.announce(kind.table, [number for (number,) in rows])


def put_mark(tx: Transaction, subject: str, mark: Mark) -> None:
    """Set a record's mark, as private as the record is; one that says nothing is no row."""
    announce_mark(tx, subject)
    if mark == Mark():
        tx.execute("delete from marks where subject = ?", (subject,))
        return
    level, owner = find_ends(tx, [subject])[subject]
    tx.execute(
        "insert into marks (id, subject, priority, pinned, aloud, expires, metadata, level, owner)"
        " values (?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (subject) do update set id = excluded.id,"
        " priority = excluded.priority, pinned = excluded.pinned, aloud = excluded.aloud, expires = excluded.expires,"
        " metadata = excluded.metadata, level = excluded.level, owner = excluded.owner",
        (
            tx.tick(), subject, mark.priority, mark.pinned, mark.aloud, seconds(mark.expires_at),
            as_text(mark.metadata) if mark.metadata else None, level, owner,
        ),
    )  # fmt: skip


def read_marks(db: Tables, subjects: Sequence[str]) -> dict[str, Mark]:
    """Return the marks of those records that have one."""
    marks: dict[str, Mark] = {}
    for some in in_batches(subjects):
        rows = db.query(
            "select subject, priority, pinned, aloud, expires, metadata from marks"  # noqa: S608 - our own marks
            f" where subject in ({placeholders(some)})",
            bound(some),
        )
        marks |= {
            subject: Mark(
                None if priority is None else Priority(priority), bool(pinned), bool(aloud), utc(expires, "expires_at"),
                msgspec.json.decode(metadata) if metadata else {},
            )
            for subject, priority, pinned, aloud, expires, metadata in rows
        }  # fmt: skip
    return marks


def ended_rows(db: Tables, at: float, *, archived: bool) -> list[int]:
    """Return the ids of records that have expired by a moment, and of stored thoughts that have ended; `archived`: archived ones do not count."""
    rows = db.query(
        "select cast(substr(subject, instr(subject, ':') + 1) as integer) from marks where expires <= :at union"
        " select id from stored_thoughts where expires <= :at union select id from stored_thoughts where valid_to <= :at"
        " union select id from stored_thoughts where lifecycle = 'ARCHIVED' and not :archived",
        {"at": at, "archived": archived},
    )
    return [number for (number,) in rows]


def _row_of(thought: ThoughtRecord) -> dict[str, Any]:
    return {
        "name": thought.thought_id,
        "type": thought.thought_type,
        "essence": thought.essence,
        "content": thought.content,
        "priority": thought.priority,
        "lifecycle": thought.lifecycle_status,
        "source": thought.source,
        "source_type": thought.source_type,
        "confidence": thought.confidence,
        "created_cycle": thought.created_cycle,
        "updated_cycle": thought.updated_cycle,
        "confirmations": thought.confirmation_count,
        "accesses": thought.access_count,
        "accessed": seconds(thought.last_accessed_at),
        "valid_from": seconds(thought.valid_from),
        "valid_to": seconds(thought.valid_until),
        "archived": seconds(thought.archived_at),
        "archived_cycle": thought.archived_at_cycle,
        "members": as_text(thought.consolidated_from) if thought.consolidated_from else None,
        "pinned": thought.pinned,
        "aloud": thought.aloud,
        "expires": seconds(thought.expires_at),
        "metadata": as_text(thought.metadata) if thought.metadata else None,
        "level": LEVELS.index(thought.level),
    }


def thought_of(row: Sequence[Any]) -> ThoughtRecord:
    """Return the record of a row with all columns, in their order."""
    given = dict(zip(STORED_THOUGHTS.names, row, strict=True))
    level, owner = LEVELS[given["level"]], given["owner"]
    return ThoughtRecord(
        thought_id=given["name"],
        thought_type=given["type"],
        essence=given["essence"],
        content=given["content"],
        priority=given["priority"],
        lifecycle_status=given["lifecycle"],
        source=given["source"],
        created_cycle=given["created_cycle"],
        updated_cycle=given["updated_cycle"],
        confidence=given["confidence"],
        source_type=given["source_type"],
        confirmation_count=given["confirmations"],
        consolidated_from=tuple(msgspec.json.decode(given["members"])) if given["members"] else (),
        visibility=visibility_of(level, owner),
        owner=owner,
        access_count=given["accesses"],
        last_accessed_at=utc(given["accessed"], "last_accessed_at"),
        created_at=utc(given["created"], "created_at"),
        updated_at=utc(given["id"] / 1e6, "updated_at"),
        expires_at=utc(given["expires"], "expires_at"),
        valid_from=utc(given["valid_from"], "valid_from"),
        valid_until=utc(given["valid_to"], "valid_until"),
        metadata=msgspec.json.decode(given["metadata"]) if given["metadata"] else {},
        pinned=bool(given["pinned"]),
        aloud=bool(given["aloud"]),
        archived_at_cycle=given["archived_cycle"],
        archived_at=utc(given["archived"], "archived_at"),
    )


def visibility_of(level: Level, owner: str | None) -> ThoughtVisibility:
    """Return a level by Engrava's name; what is private to somebody is selective, to nobody private."""
    if level == "private" and owner is None:
        return ThoughtVisibility.PRIVATE
    return ThoughtVisibility.PUBLIC if level == "shared" else ThoughtVisibility.SELECTIVE


class NeverAloud(NamedTuple):
    """The values that no line for a model may hold, folded, and whose each is: its key in words, level and owner."""

    values: Mapping[str, Collection[tuple[str, Level, str | None]]] = {}

    def redact(self, text: str, reader: Reader | None, seen: list[str]) -> str:
        """Return a text whose lines, or texts of JSON, tell a value's key alone, or not even that: `seen` gets what a reader may know."""
        if not self.values:
            return text
        lines = _JSON_LINE if text.startswith("{") else _LINE
        told = lines.sub(lambda line: self._redact_line(line[0], reader, seen), text)
        return self._redact_line(told, reader, seen)  # one may go over two lines

    def redact_all(self, items: Iterable[BlockLine], who: Reader | None, seen: list[str]) -> list[BlockLine]:
        """Return the lines of a block as they may be said, of equal ones the first; see `redact`."""
        lines, told = [], set()
        for item in items:
            if (line := self.redact(item.line, who, seen)) != item.line:
                item = msgspec.structs.replace(item, line="" if line in told else line)  # noqa: PLW2901
                told.add(line)
            lines.append(item)
        return lines

    def _redact_line(self, line: str, reader: Reader | None, seen: list[str]) -> str:
        if not (found := self._find(line)):
            return line
        known = [label for label, level, owner in found if readable(reader, level, owner)]
        if len(known) == len(found):
            seen.append(line)
        label = next((label for label in known if label and not self._find(label)), "something")
        return f"{BULLET if line.startswith(BULLET) else ''}{label}: {UNSAID}"

    def _find(self, text: str) -> list[tuple[str, Level, str | None]]:
        """Return whose the values in a text are; one of letters alone, where a script has capitals, begins a word there."""
        spaced = " ".join(_folded(text))
        joined = spaced.replace(" ", "")
        found = [value for value in self.values if value in joined]
        words = [value for value in found if value.isalpha() and value[0].islower()]
        within = [word for word in words if not re.search(r"\b" + " ?".join(word), spaced)]
        return [whose for value in found if value not in within for whose in self.values[value]]


def _folded(text: str) -> list[str]:
    """Return the words of a text without case and accents, the digits of every script as 0 to 9."""
    signs = unicodedata.normalize("NFKD", text.casefold())
    plain = (str(unicodedata.decimal(sign, sign)) for sign in signs if not unicodedata.combining(sign))
    return _WORD.findall("".join(plain))


def read_never_aloud(db: Tables, patterns: tuple[str, ...]) -> NeverAloud:
    """Return the values of what is marked so, and of keys of some patterns."""
    rows, marked = db.query(_UNSAID_THOUGHTS), db.query(_UNSAID)
    rows += [row for name, key in marked if key is None for row in db.query(_SHOWN_VALUE, {"id": name})]
    keys = {key for _, key in marked if key is not None}
    if patterns:
        named = db.query("select id, key, topic from fact_keys")
        keys |= {number for number, key, topic in named if _is_named(plain_key(key, topic), patterns)}
    rows += [row[:4] for key in keys for row in db.query(_STATEMENTS, {"key": key})]
    values: dict[str, dict[tuple[str, Level, str | None], None]] = {}
    for key, value, level, owner in rows:
        label, folded = clean(_BETWEEN.sub(" ", key), max_chars=_MOST), "".join(_folded(value))
        if len(folded) >= _LEAST:
            values.setdefault(folded[:_MOST], {})[label, LEVELS[level], owner] = None
    return NeverAloud(values)


@lru_cache(maxsize=16_384)
def _is_named(key: str, patterns: tuple[str, ...]) -> bool:
    plain, *named = (_BETWEEN.sub(".", name.casefold()).strip(".") for name in (key, *patterns))
    return any(fnmatchcase(plain, pattern) for pattern in named)
