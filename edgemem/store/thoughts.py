"""Thoughts: those that are stored, under the ids of their callers, and the marks beside what is shown as one."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.errors import InvalidInputError, ThoughtNotFoundError
from edgemem.fence import BULLET, clean
from edgemem.languages.numbers import with_digits
from edgemem.scopes import name_key
from edgemem.store.db.transaction import bound, in_batches, placeholders
from edgemem.store.facts import ROWS_OF_KEY, items_of, plain_key
from edgemem.store.graph import MARKS, SHOWN_COLUMNS, SHOWN_ROW, STORED_THOUGHTS, fields_of, put_row
from edgemem.store.kinds import SHOWN
from edgemem.store.rights import LEVELS, drop_unused, readable, reading_rule, spell
from edgemem.store.turns import current_cycle, lift_cycle
from edgemem.thoughts import (
    CONTENT_BYTES,
    ESSENCE_CHARS,
    LifecycleStatus,
    Priority,
    ThoughtRecord,
    ThoughtVisibility,
    named,
    seconds,
    utc,
)

if TYPE_CHECKING:
    from edgemem.records import BlockLine, Kind, Reader
    from edgemem.scopes import Level
    from edgemem.store.db.transaction import Tables, Transaction

OURS = re.compile(rf"({'|'.join((*SHOWN, 'note', 'bank', 'procedure', 'thought'))}):")
"""How an id of a record that is shown as a thought begins; no caller's id may."""

STORED: tuple[Kind, ...] = ("thought",)
"""The kind of what is stored as a thought."""
SHOWN_KINDS = (*STORED, *SHOWN)
"""With those of what is shown as one by a row of its own."""

LINE = re.compile(r"(note|bank|procedure):(-?\d{1,19})")
"""The id of what is shown as a thought and has neither edges nor a mark."""

_ID = re.compile(rf"({'|'.join(SHOWN)}):(\d{{1,18}})")

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
  select k.key, f.value, f.level, f.owner, f.json, 'fact:' || f.id from fact_keys k cross join facts f on f.id in ({ROWS_OF_KEY})
    where k.id = :key and f.id = f.origin and f.value is not null
  union all select k.key, d.value, d.level, d.owner, d.json, 'doubt:' || d.id from fact_keys k join doubts d on d.key_id = k.id
    where k.id = :key
"""  # noqa: S608 - our own constant

UNMARKED: Mapping[str, Any] = {
    "priority": Priority.P3,
    "pinned": False,
    "aloud": True,
    "expires_at": None,
    "metadata": {},
}
"""What a mark may say, and what it says where there is none."""

PROMOTED = "edgemem.promoted"
"""In the metadata of a stored thought: it is P1 by promotion; false: somebody has set its priority since."""

UNSAID = "known, not to be said aloud"  # told in place of a value, behind its key
_LEAST = 4  # letters and digits of the shortest value that is looked for
_MOST = 64  # of a longer value so many tell it
_WORD, _BETWEEN = re.compile(r"[^\W_]+"), re.compile(r"[\s._-]+(?:\d+$)?")
_ESCAPED = re.compile(r"\\[bfnrt]")  # spaces as JSON has them
_LINE, _JSON_LINE = re.compile(r"[^\n]+"), re.compile(r'(?:[^"\\\n]|\\[^n])+')


def put_thought(tx: Transaction, thought: ThoughtRecord) -> ThoughtRecord:
    """Store a new thought, or another version under its id, and return it as it is stored; a higher cycle lifts the counter."""
    if OURS.match(thought.thought_id):
        raise InvalidInputError(
            f"The id {thought.thought_id!r:.80} looks like one of edgemem's own; give the thought another."
        )
    older = tx.execute("select id, created, owner from stored_thoughts where name = ?", (thought.thought_id,))
    if thought.updated_cycle > current_cycle(tx):
        lift_cycle(tx, thought.updated_cycle)
    put_row(
        tx,
        STORED_THOUGHTS,
        thought,
        created=seconds(thought.created_at) or (older[0][1] if older else tx.now()),
        level=LEVELS.index(thought.level),
        owner=None if thought.owner is None else spell(tx, thought.owner),
    )
    tx.announce(STORED_THOUGHTS.table, [old for old, *_ in older])
    drop_unused(tx, (owner for _, _, owner in older))
    return stored_thought(tx, thought.thought_id)


def record_of(thought_id: str) -> tuple[str, int] | None:
    """Return kind and number of a record that is shown as a thought, by its id; None of any other id."""
    match = _ID.fullmatch(thought_id)
    return None if match is None else (match[1], int(match[2]))


def find_rows(db: Tables, ids: Collection[str], *, reader: Reader | None = None) -> dict[str, dict[str, Any]]:
    """Return the rows of those thoughts, stored or shown, that are there and that a reader may read."""
    parts: defaultdict[str, list[Any]] = defaultdict(list)
    for thought_id in ids:
        kind, number = record_of(thought_id) or ("", thought_id)
        parts[kind].append(number)
    rule, values = reading_rule(reader)
    rows: dict[str, dict[str, Any]] = {}
    for kind, numbers in parts.items():
        columns = STORED_THOUGHTS.names
        select = f"{', '.join(columns)} from stored_thoughts where name"
        if kind:
            columns, select = SHOWN_COLUMNS, f"{SHOWN_ROW} from shown_thoughts where kind = :kind and id"
        for some in in_batches(numbers):
            sql = f"select {select} in ({placeholders(some)}) and {rule}"
            found = db.query(sql, {**bound(some), **values, "kind": kind, "now": db.now()})
            rows |= {row["name"]: row for row in (dict(zip(columns, cells, strict=True)) for cells in found)}
    return rows


def read_thoughts(
    db: Tables, ids: Collection[str], *, reader: Reader | None = None
) -> dict[str, ThoughtRecord]:
    """Return those thoughts, stored or shown, that are there and that a reader may read."""
    rows = find_rows(db, ids, reader=reader)
    return {thought_id: thought_of(row) for thought_id, row in rows.items()}


def stored_thought(db: Tables, thought_id: str) -> ThoughtRecord:
    """Return a stored thought; raise ThoughtNotFoundError where there is none."""
    if not (stored := find_thoughts(db, "name = :name", {"name": thought_id})):
        raise ThoughtNotFoundError(f"There is no stored thought {thought_id!r:.80}.")
    return stored[0]


def find_thoughts(
    db: Tables,
    where: str,
    values: dict[str, Any],
    *,
    kinds: Collection[str] = STORED,
    limit: int = -1,
    offset: int = 0,
) -> list[ThoughtRecord]:
    """Return thoughts of some kinds by a condition of ours, those of the highest cycle first, then the newest."""
    rows = db.query(
        f"select name from {_rows_of(kinds)} where {where}"  # noqa: S608 - our own constants
        " order by updated_cycle desc, id desc limit :limit offset :offset",
        {**values, "now": db.now(), "limit": limit, "offset": offset},
    )
    thoughts = read_thoughts(db, [name for (name,) in rows])
    return [thoughts[name] for (name,) in rows]


def count_thoughts(db: Tables, where: str, values: dict[str, Any], *, kinds: Collection[str] = STORED) -> int:
    """Return how many thoughts of some kinds fulfil a condition of ours."""
    sql = f"select count(*) from {_rows_of(kinds)} where {where}"  # noqa: S608 - our own
    return int(db.query(sql, {**values, "now": db.now()})[0][0])


def checked_shown_kinds(kinds: Collection[str]) -> Collection[str]:
    """Return kinds of thoughts, stored or shown; raise InvalidInputError where one does not exist."""
    if isinstance(kinds, str) or not isinstance(kinds, Collection) or not set(SHOWN_KINDS).issuperset(kinds):
        raise InvalidInputError(
            f"kinds must be a set of some of {', '.join(SHOWN_KINDS)}, not {repr(kinds)[:60]}."
        )
    return kinds


def _rows_of(kinds: Collection[str]) -> str:
    """Return SQL for the rows of stored thoughts, and of other kinds what is shown of them."""
    shown = [f"'{kind}'" for kind in SHOWN if kind in kinds]
    if not shown:
        return "stored_thoughts" if kinds else "(select * from stored_thoughts where 0)"
    arms = [f"select {', '.join(SHOWN_COLUMNS)} from stored_thoughts"] * ("thought" in kinds)  # noqa: S608 - our own
    arms.append(f"select {SHOWN_ROW} from shown_thoughts where kind in ({', '.join(shown)})")  # noqa: S608 - our own
    return f"({' union all '.join(arms)})"


def change_thought(tx: Transaction, thought_id: str, changes: dict[str, Any]) -> ThoughtRecord:
    """Write another version of a stored thought; a string of a status is held to the transitions as its name is."""
    before = stored_thought(tx, thought_id)
    if changes.get("thought_id", thought_id) != thought_id:
        raise InvalidInputError("A thought keeps its thought_id; store another one instead.")
    after = named(LifecycleStatus, changes.get("lifecycle_status", before.lifecycle_status))
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


def note_access(tx: Transaction, thought_id: str) -> ThoughtRecord:
    """Count that a stored thought was used, and return it."""
    tx.execute(
        "update stored_thoughts set accesses = accesses + 1, accessed = ? where name = ?",
        (tx.now(), thought_id),
    )
    return stored_thought(tx, thought_id)


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


def put_aloud(tx: Transaction, subject: str, *, aloud: bool | None) -> None:
    """Say of all statements of a fact, by the id of one, whether they may be said; None: of this one, as of those before it."""
    keys = [key for (key,) in tx.query(_KEY_OF.format(id=":id"), {"id": subject})]
    names = [subject for _, key in tx.query(_UNSAID) if key in keys][:1]
    if aloud is not None:
        names = [name for key in keys for *_, name in tx.query(_STATEMENTS, {"key": key})]
    for name in names:
        put_mark(tx, name, aloud=bool(aloud))


def announce_mark(tx: Transaction, subject: str) -> None:
    """Tell the index to look at a record again, whose mark has changed."""
    if record := record_of(subject):
        for kind in SHOWN[record[0]]:
            rows = tx.query(f"select id from {kind.table} where id = ?", record[1:])  # noqa: S608 - ours
            tx.announce(kind.table, [number for (number,) in rows])


def put_mark(tx: Transaction, subject: str, **changes: Any) -> None:
    """Change a record's mark, as private as the record is; one that says nothing is no row."""
    announce_mark(tx, subject)
    if (row := find_rows(tx, [subject]).get(subject)) is None:
        raise ThoughtNotFoundError(f"There is nothing to mark under {subject!r:.80}.")
    thought = thought_of(row).evolve(**changes)
    fields = msgspec.structs.asdict(thought)
    if {name: fields[name] for name in UNMARKED} == UNMARKED:
        tx.execute("delete from marks where subject = ?", (subject,))
    else:
        put_row(tx, MARKS, thought, subject=subject, level=row["level"], owner=row["owner"])


def ended_rows(db: Tables, at: float, *, archived: bool) -> list[int]:
    """Return the ids of records that have expired by a moment, and of stored thoughts that have ended; `archived`: archived ones do not count."""
    rows = db.query(
        "select cast(substr(subject, instr(subject, ':') + 1) as integer) from marks where expires <= :at union"
        " select id from stored_thoughts where expires <= :at union select id from stored_thoughts where valid_to <= :at"
        " union select id from stored_thoughts where lifecycle = 'ARCHIVED' and not :archived",
        {"at": at, "archived": archived},
    )
    return [number for (number,) in rows]


def thought_of(row: Mapping[str, Any]) -> ThoughtRecord:
    """Return the record of a row of `find_rows`."""
    fields = fields_of(STORED_THOUGHTS, row)
    if "essence" in row:
        fields["updated_at"] = row["id"] / 1e6
    else:
        # A message may be blank, and longer than a thought.
        text = row["content"].encode()[:CONTENT_BYTES].decode(errors="ignore")
        fields["content"] = text if text.strip() else "…"
        fields["essence"] = clean(text, max_chars=ESSENCE_CHARS) or "…"
        fields["source"] = row["source"].strip() or "edgemem"
    level, owner = LEVELS[row["level"]], row["owner"]
    visibility = visibility_of(level, owner)
    return ThoughtRecord(**fields, visibility=visibility, owner=owner if level == "private" else None)


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
        """Return whose the values in a text are, whole or cut by `…`; one of letters alone, where a script has capitals, begins a word."""
        spaced = "\n".join(_folded(text))
        joined = spaced.replace(" ", "")
        found = [value for value in self.values if value in joined]
        words = [value for value in found if value.isalpha() and value[0].islower()]
        within = [word for word in words if not re.search(r"\b" + " ?".join(word), spaced)]
        found = [value for value in found if value not in within]
        cuts = [ends for two in pairwise(text.split("…")) for ends in product(*map(_folded, two))]
        found += [value for value in self.values if any(_is_cut(value, *ends) for ends in cuts)]
        return [whose for value in dict.fromkeys(found) for whose in self.values[value]]


def _is_cut(value: str, left: str, right: str) -> bool:
    """Tell whether a folded text ends with the beginning of a value, or the next one begins with its end."""
    edge, sizes = r"\b" if value.isalpha() else "", range(_LEAST, len(value))
    ends, begins = left[-2 * _MOST :].replace(" ", ""), right[: 2 * _MOST].replace(" ", "")
    if value[:_LEAST] not in ends and value[-_LEAST:] not in begins:
        return False  # at once: there may be a hundred values
    heads = [value[:most] for most in sizes if ends.endswith(value[:most])]
    is_head = any(re.search(f"{edge}{' ?'.join(head)}$", left) for head in heads)
    return is_head or any(begins.startswith(value[-most:]) for most in sizes)


def _folded(text: str) -> set[str]:
    """Return the words of a text without case and accents, digits of every script, and numbers in words, as 0 to 9: each way to read it."""
    signs = unicodedata.normalize("NFKD", _ESCAPED.sub(" ", text).casefold())
    plain = (str(unicodedata.decimal(sign, sign)) for sign in signs if not unicodedata.combining(sign))
    return set(map(" ".join, with_digits(_WORD.findall("".join(plain)))))


def read_never_aloud(db: Tables, patterns: tuple[str, ...]) -> NeverAloud:
    """Return the values of what is marked so, and of keys of some patterns."""
    rows, marked = db.query(_UNSAID_THOUGHTS), db.query(_UNSAID)
    for name, row in find_rows(db, [name for name, key in marked if key is None]).items():
        text = row["content"]
        value = text.partition(": ")[2] if name.startswith("preference:") else text
        rows.append(("", value, row["level"], row["owner"]))
    keys = {key for _, key in marked if key is not None}
    if patterns:
        named = db.query("select id, key, topic from fact_keys")
        keys |= {number for number, key, topic in named if _is_named(plain_key(key, topic), patterns)}
    stated = [row for number in keys for row in db.query(_STATEMENTS, {"key": number})]
    for key, value, *whose, json, _ in stated:
        rows += [(key, text, *whose) for text in (value, *items_of(json))]
    values: dict[str, dict[tuple[str, Level, str | None], None]] = {}
    for key, value, level, owner in rows:
        label = clean(_BETWEEN.sub(" ", key), max_chars=_MOST)
        for folded in (form.replace(" ", "") for form in _folded(value)):
            if len(folded) >= _LEAST:
                values.setdefault(folded[:_MOST], {})[label, LEVELS[level], owner] = None
    return NeverAloud(values)


@lru_cache(maxsize=16_384)
def _is_named(key: str, patterns: tuple[str, ...]) -> bool:
    plain, *named = (_BETWEEN.sub(".", name.casefold()).strip(".") for name in (key, *patterns))
    return any(fnmatchcase(plain, pattern) for pattern in named)
