"""Facts in two times: when they were true in the world, and when the robot believed it.

The believed values of a key divide valid time into intervals without gaps. A new value closes every interval that it touches (the
old version stays, with the time until which it was believed), and writes again the rest on both sides, and itself. So each
version is a rectangle in valid time x transaction time, rectangles of one key never overlap, and any pair (when, known when) has
one answer, found in O(log n) steps.

A doubt is an *unconfirmed* value: low recogniser confidence against a confident one, or a less trusted speaker against a more
trusted one. It is not believed, and waits beside the facts: one of low confidence until it is heard again, the other until
somebody of trust says the same; both, until anything is heard well of that time from somebody of as much trust.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.fence import check_key, check_text, storable
from edgemem.languages.words import is_safety_key
from edgemem.scopes import name_key, person_of, without_spaces
from edgemem.store.db.transaction import in_batches
from edgemem.store.graph import links_kept
from edgemem.store.pending_erasures import note_forgotten
from edgemem.store.rights import LEVELS, canonical_owner_and_heard, level_and_owner, scope_in_sql, spell_scope
from edgemem.store.validation import (
    HEARD,
    checked_heard,
    checked_json,
    checked_moment,
    checked_text,
    heard_columns,
    heard_of,
    whole_number,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from edgemem.records import Heard
    from edgemem.scopes import Level
    from edgemem.store.db.transaction import Transaction

MAX_VALUE_BYTES = 16 * 1024
STATEMENT_COLUMNS = f"value, json, valid_from, valid_to, source, level, owner, trust, {HEARD}"
"""The columns of facts and doubts that `FactVersion.stated` holds."""

TRUSTED, SAID, INFERRED, UNKNOWN = 3, 2, 1, 0
"""Trust: a recognised speaker about themselves or their own things, or the operator; another recognised speaker; what the robot
inferred; what a tool returned or an unknown voice said."""
TRUST = {"user": TRUSTED, "ai_inferred": INFERRED}  # Cognitia's sources; any other as what a tool returned
LEARNT = "consolidation"
"""The source of a fact that was made of episodes, to which it has edges."""
TALK = "talk"
"""The source of a fact that somebody told by the way, with an edge to the message."""

ROWS_OF_KEY = """
  select id from facts where key_id = :key and known_to is null
  union all select id from facts where key_id = :key and node is not null
"""
"""Every row of a key: each is in one of two partial indexes, and is found by naming both."""
_PEOPLE_OF_KEY = f"""
  with found as (select owner, speaker from facts where id in ({ROWS_OF_KEY})
    union all select owner, speaker from doubts where key_id = :key)
  select owner from found union select speaker from found
  union select substr(scope, 6) from fact_keys where id = :key and scope like 'user:%'
"""  # noqa: S608 - our own constant
"""Whose names are in the rows of a key."""
_OF_TOPIC = " @ "
_KEY_SIGNS = re.compile("[_.-]")
_SAME = "value is ? and json is ? and level = ? and owner is ?"
_DOUBTED = "key_id = ? and settled is null and valid_from < ? and coalesce(valid_to, 9e999) > ?"
"""The doubts that wait about a time."""


class Whose(TypedDict, total=False):
    """Whose a statement is, how far it is trusted, and which conversation it is about."""

    level: Level | None  # None: as its scope says
    owner: str | None  # of a private fact
    trust: int | None  # 0 to 3; None: as `trust_of` has it
    topic: str | None  # its key bears it too
    metadata: dict[str, Any] | None  # kept as the mark of its row
    aloud: bool  # False: no version of it is ever said


class Outcome(NamedTuple):
    """What became of a statement."""

    is_news: bool
    thought_id: str = ""
    """The id by which its row is shown as a thought: of the fact that says so, or of the doubt; empty: there is none."""


class FactVersion(NamedTuple):
    """A stretch of valid time with its believed value, and all that is written again when it is split."""

    id: int
    value: str | None  # None: there is no value
    json: str | None  # as it was given, where that was no text
    valid_from: float
    valid_to: float | None
    version: int
    origin: int  # the id of the rectangle as it was said, before anything was cut off it
    supersedes: int | None
    source: str
    level: int
    owner: str | None
    trust: int
    heard: tuple[Any, ...]

    @property
    def stated(self) -> tuple[Any, ...]:
        """Return the values of `STATEMENT_COLUMNS`."""
        return (*self[1:5], self.source, self.level, self.owner, self.trust, *self.heard)

    @property
    def content(self) -> tuple[Any, ...]:
        """Return what makes it news beside another one: the value as it was given, and whose it is."""
        return self.value, self.json, self.level, self.owner

    def is_unsure(self, below: float) -> bool:
        """Tell whether a recogniser was less sure than `below`; typed values, and those without a confidence, are confident."""
        sure = self.heard[2]
        return sure is not None and sure < below

    def outranks(self, trust: int) -> bool:
        """Tell whether it has a value that somebody of more trust said."""
        return self.value is not None and self.trust > trust


def assert_fact(
    tx: Transaction,
    key: str,
    value: Any,
    *,
    valid_from: float | None = None,
    doubtful_below: float = 0.0,
    **stated: Any,
) -> Outcome:
    """Believe from now on that `key` has `value` in `[valid_from, valid_to)`; return what became of it.

    Args:
        value: text or JSON (`validation.NULL` is its null); None says that it has none.
        valid_from: seconds since the epoch; None is the moment of this transaction, or of the doubt that it confirms.
        doubtful_below: a value of less confidence that contradicts one that was heard well is a doubt until it is heard again.
        stated: the further arguments of `new_statement`.
    """
    begin = tx.recorded / 1e6 if valid_from is None else valid_from
    key_id, statement = new_statement(tx, key, value, valid_from=begin, **stated)
    if valid_from is None:
        statement = since_first_heard(tx, key_id, statement)
    return assert_version(tx, key_id, statement, doubtful_below=doubtful_below)


def change_fact(
    tx: Transaction,
    key: str,
    change: Callable[[Any], Any],
    *,
    scope: str = "global",
    heard: Heard | None = None,
    state: Callable[..., Outcome] = assert_fact,
    **stated: Any,
) -> Outcome:
    """Believe from now on what `change` makes of the value that holds (None: there is none), read in this transaction.

    Nothing is written where it makes the same; the level and owner stay. Who goes on with a value contradicts nobody: so a
    recognised speaker changes it with the trust that it has, unless it is another person's own or concerns somebody's safety.

    Args:
        state: believes the new value; it takes the further arguments, those of `assert_fact`.
    """
    key_id, now = find_key(tx, scope, key), tx.recorded / 1e6
    touched = [] if key_id is None else _believed_between(tx, key_id, now, None)
    # Another process may have stated a value since `now`; one that is to hold later is none yet.
    begun = [old for old in touched if old.valid_from <= max(now, old.origin / 1e6)]
    held = begun[-1] if begun and begun[-1].value is not None else None
    before = None if held is None else held.value if held.json is None else msgspec.json.decode(held.json)
    value = change(before)
    if value == before or (before is None and not value):
        return Outcome(is_news=False)
    speaker, teller = (name_key(name or "") for name in (heard and heard.speaker, held and held.heard[0]))
    theirs = teller not in ("", speaker) and key.casefold().startswith(f"{teller.replace(' ', '_')}.")
    if held is not None:
        stated = {"level": LEVELS[held.level], "owner": held.owner, **stated}
    if held is not None and speaker and not (theirs or is_safety_key(_KEY_SIGNS.sub(" ", key))):
        own = stated.get("trust")
        own = trust_of(heard, scope, stated.get("owner")) if own is None else own
        stated["trust"] = max(own, held.trust)
    return state(tx, key, value, scope=scope, heard=heard, valid_from=None, **stated)


def new_statement(
    tx: Transaction, key: str, value: Any, *, scope: str = "global", topic: str | None = None, **stated: Any
) -> tuple[int, FactVersion]:
    """Return a key's number, and a statement about it with names as first written; `stated` are arguments of `checked_fact`."""
    key = topic_key(key, topic)
    statement = checked_fact(key, value, scope=scope, **stated)
    owner, heard = canonical_owner_and_heard(tx, statement.owner, heard_of(statement.heard))
    return ensure_key(tx, scope, key, topic), statement._replace(owner=owner, heard=heard_columns(heard))


def assert_version(
    tx: Transaction,
    key_id: int,
    statement: FactVersion,
    *,
    doubtful_below: float,
    number: int | None = None,
    recorded: int | None = None,
) -> Outcome:
    """Believe a statement about a key from now on (or the tick `recorded`), or doubt it; return what became of it.

    `doubtful_below` is that of `assert_fact`; `number` is the id of its row (None: a new one).
    """
    touched = _believed_between(tx, key_id, statement.valid_from, statement.valid_to)
    well = not statement.is_unsure(doubtful_below)
    outranked = any(old.outranks(statement.trust) for old in touched)
    differs = not touched or any(old.content != statement.content for old in touched)
    if outranked and differs:
        if statement.value is None:
            return Outcome(is_news=False)
        doubt = _pending_doubt(tx, key_id, statement)
        if doubt is None:
            doubt = _note_doubt(tx, key_id, statement, number, low_confidence=not well)
        return Outcome(is_news=False, thought_id=f"doubt:{doubt}")
    needed = max((old.trust for old in touched if old.value is not None), default=UNKNOWN)
    again = _first_heard(tx, key_id, statement, trust=needed) is not None
    if not again and statement.value is not None and not well:
        sql = "select f.id from doubts d join facts f on f.id = d.confirmed_by and f.trust <= d.trust where d.key_id = ?"
        confirmed = {fact for (fact,) in tx.execute(sql, (key_id,))}
        against = [a for a in touched if a.value is not None and a.content[:2] != statement.content[:2]]
        # A value of low confidence that was heard twice is as good as a confident one.
        if any(not old.is_unsure(doubtful_below) or old.origin in confirmed for old in against):
            return Outcome(is_news=False, thought_id=f"doubt:{_note_doubt(tx, key_id, statement, number)}")
    # The same value is news when it is heard well at last, or from somebody of more trust: then it is safe from values of
    # low confidence, and of less trusted speakers.
    gains = (
        well
        and not outranked
        and any(old.is_unsure(doubtful_below) or old.trust < statement.trust for old in touched)
    )
    if not differs and (statement.value is None or not gains):
        if well:
            _settle_doubts(tx, key_id, statement, touched[0].origin, statement.trust)
        return Outcome(is_news=False, thought_id=f"fact:{touched[0].origin}")
    number = _believe(tx, key_id, statement, touched, (number, recorded))
    if again and not well:
        # The second bad hearing stays a doubt as well, behind the fact that it makes: that marks the fact.
        _note_doubt(tx, key_id, statement)
    _settle_doubts(tx, key_id, statement, number, statement.trust)
    return Outcome(is_news=True, thought_id=f"fact:{number}")


def restate_facts(tx: Transaction, changes: Mapping[int, tuple[str | None, int, str | None, int]]) -> None:
    """Give statements, by their ids, other speakers, levels, owners and keys; all of these keys are believed anew, in their order."""
    keys, rows, statements = {key_id for *_, key_id in changes.values()}, [], []
    for batch in in_batches(list(changes)):
        marks = ", ".join("?" * len(batch))
        keys |= {key_id for (key_id,) in tx.execute(f"select key_id from facts where id in ({marks})", batch)}  # noqa: S608 - our own marks
    for key_id in sorted(keys):
        rows += tx.execute(ROWS_OF_KEY, {"key": key_id})
        # The row that says that nothing was known before is written again by itself.
        statements += tx.execute(
            f"select recorded, id, key_id, {STATEMENT_COLUMNS} from facts where id in ({ROWS_OF_KEY}) and id = origin"  # noqa: S608 - our own constants
            " and (value is not null or valid_from > -9e999)",
            {"key": key_id},
        )
    with links_kept(tx, [f"fact:{number}" for (number,) in rows]):
        tx.executemany("delete from facts where id = ?", rows)
        for recorded, number, key_id, *stated in sorted(statements):
            value, text, begin, end, source, level, owner, trust, speaker, *heard = stated
            speaker, level, owner, key = changes.get(number, (speaker, level, owner, key_id))
            statement = FactVersion(
                0, value, text, begin, end, 0, 0, None, source, level, owner, trust, (speaker, *heard)
            )
            touched = _believed_between(tx, key, statement.valid_from, statement.valid_to)
            _believe(tx, key, statement, touched, (number, recorded))
    tx.announce("facts", sorted({number for (number,) in rows}))


def undo_fact(tx: Transaction, number: int) -> None:
    """Believe, of the time of a statement, what was believed before it was made; its row stays in the history."""
    columns = f"id, value, json, valid_from, valid_to, version, origin, supersedes, source, level, owner, trust, {HEARD}"

    def versions(where: str) -> list[FactVersion]:
        sql = f"select {columns} from facts where {where} order by valid_from"  # noqa: S608 - our own constants
        values = {"key": key_id, "number": number, "recorded": recorded}
        return [FactVersion._make((*row[:12], row[12:])) for row in tx.query(sql, values)]

    def state(statement: FactVersion, begin: float, end: float) -> None:
        until = None if end == math.inf else end
        assert_version(tx, key_id, statement._replace(valid_from=begin, valid_to=until), doubtful_below=0.0)

    key_id, recorded = tx.query("select key_id, recorded from facts where id = ?", (number,))[0]
    older = versions("key_id = :key and known_to = :recorded and value is not null")
    for part in versions("key_id = :key and origin = :number and known_to is null"):
        # A row of its own: it is counted as a version, and the next one closes it.
        nothing = part._replace(value=None, json=None, trust=TRUSTED, level=0, owner=None, origin=0)
        at, end = part.valid_from, math.inf if part.valid_to is None else part.valid_to
        for old in older:
            begin = max(at, old.valid_from)
            until = min(end, math.inf if old.valid_to is None else old.valid_to)
            if begin >= until:
                continue
            if at < begin:
                state(nothing, at, begin)
            state(nothing, begin, until)
            state(old, begin, until)
            at = until
        if at < end:
            state(nothing, at, end)


def forget_fact(tx: Transaction, key: str, *, scope: str = "global") -> bool:
    """Erase every version of a fact, and its key; tell whether there was one."""
    key_id = find_key(tx, scope, key)
    if key_id is None:
        return False
    note_forgotten(tx)
    drop_key(tx, key_id)
    return True


def drop_key(tx: Transaction, key_id: int) -> None:
    """Delete a key with every version and doubt; its bytes may stay in copies."""
    rows = sorted(tx.execute(ROWS_OF_KEY, {"key": key_id}))
    tx.announce("facts", [row_id for (row_id,) in rows])
    tx.executemany("delete from facts where id = ?", rows)
    tx.execute("delete from doubts where key_id = ?", (key_id,))
    tx.execute("delete from fact_keys where id = ?", (key_id,))


def since_first_heard(tx: Transaction, key_id: int, statement: FactVersion) -> FactVersion:
    """Return a statement of now as true since first heard, if it waits as a doubt and nobody of more trust contradicts it."""
    first, now = _first_heard(tx, key_id, statement), statement.valid_from
    if first is None or first >= now:
        return statement
    if any(old.outranks(statement.trust) for old in _believed_between(tx, key_id, first, now)):
        return statement
    return statement._replace(valid_from=first)


def people_of(tx: Transaction, key: str, *, scope: str) -> set[str | None]:
    """Return whose names are in the rows of a fact."""
    return {name for (name,) in tx.execute(_PEOPLE_OF_KEY, {"key": find_key(tx, scope, key)})}


def trust_of(heard: Heard | None, scope: str, owner: str | None) -> int:
    """Return how far a statement is trusted, by its speaker and by whose its scope is or who owns it.

    Without `heard` it is the operator's, who is trusted as a speaker is; heard of nobody, an unknown voice's.
    """
    if heard is None:
        return TRUSTED
    if not (speaker := name_key(heard.speaker or "")):
        return UNKNOWN
    return TRUSTED if speaker in {name_key(name) for name in (person_of(scope), owner) if name} else SAID


def topic_key(key: str, topic: str | None) -> str:
    """Return the key of a fact of a topic, such as `diet @ kitchen`; without a topic, the key itself."""
    if topic is None:
        return key
    check_key(key)
    check_key(topic, what="a topic")
    if _OF_TOPIC in topic:
        raise InvalidInputError(
            f"A topic must not hold {_OF_TOPIC!r}, as {topic!r:.80} does; give it another name."
        )
    return f"{key}{_OF_TOPIC}{topic}"


def plain_key(key: str, topic: str | None) -> str:
    """Return the key of a fact without the topic that it bears."""
    return key if topic is None else key.removesuffix(f"{_OF_TOPIC}{topic}")


def checked_fact(
    key: str,
    value: Any,
    *,
    scope: str,
    valid_from: float,
    valid_to: float | None = None,
    source: str = "",
    heard: Heard | None = None,
    **whose: Unpack[Whose],
) -> FactVersion:
    """Return a new version of a fact, not yet numbered; raise InvalidInputError if it cannot be stored."""
    check_key(key)
    check_key(scope, what="a scope")
    words, json = value, None
    if isinstance(value, str):
        words = storable_value(value)
    elif value is not None:
        words, json = checked_json(value, "the value of a fact")
    begin = checked_moment(valid_from, "valid_from")
    end = None if valid_to is None else checked_moment(valid_to, "valid_to")
    if end is not None and end <= begin:
        raise InvalidInputError(f"A fact must end after it begins: valid_to {end:g} is not after {begin:g}.")
    source = checked_text(source, "the source of a fact")
    number, who = level_and_owner(scope, whose.get("level"), whose.get("owner"), checked_heard(heard))
    given = whose.get("trust")
    trust = trust_of(heard, scope, who) if given is None else whole_number(given, "trust")
    if not UNKNOWN <= trust <= TRUSTED:
        raise InvalidInputError(f"trust must be 0 to 3, not {trust}; see edgemem.Fact.")
    return FactVersion(
        0, words, json, begin, end, 0, 0, None, source, number, who, trust, heard_columns(heard)
    )


def storable_value(value: str, *, what: str = "the value of a fact") -> str:
    """Return a value as it can be stored; raise InvalidInputError if it is no text or too long."""
    if isinstance(value, str):
        value = storable(value)
    check_text(value, what=what, max_bytes=MAX_VALUE_BYTES)
    return value


def items_of(json: str | None) -> list[str]:
    """Return the items of a value that is stored as JSON; none where it is no list."""
    value = None if json is None else msgspec.json.decode(json)
    return [str(item) for item in value] if isinstance(value, list) else []


def find_key(tx: Transaction, scope: str, key: str) -> int | None:
    """Return the id of a key in a scope, however the name of a person in it is written; None if there is none."""
    at, values = scope_in_sql(scope)
    rows = tx.execute(
        f"select id from fact_keys where scope = {at} and key = :key",  # noqa: S608 - our own constants
        {**values, "key": key},
    )
    return int(rows[0][0]) if rows else None


def ensure_key(tx: Transaction, scope: str, key: str, topic: str | None = None) -> int:
    """Return the id of a key in a scope, making it if there is none; `topic` is the one that the key bears."""
    scope = spell_scope(tx, without_spaces(scope))
    rows = tx.execute("select id, topic from fact_keys where scope = ? and key = ?", (scope, key))
    if not rows or (topic is not None and rows[0][1] is None):
        rows = tx.execute(
            "insert into fact_keys (scope, key, topic) values (?, ?, ?)"
            " on conflict (scope, key) do update set topic = excluded.topic returning id",
            (scope, key, topic),
        )
    return int(rows[0][0])


def _believed_between(tx: Transaction, key_id: int, begin: float, end: float | None) -> list[FactVersion]:
    rows = tx.execute(
        f"""
        select id, value, json, valid_from, valid_to, version, origin, supersedes, source, level, owner, trust, {HEARD}
        from facts where key_id = :key_id and known_to is null and valid_from < :end and valid_from >= (
          select valid_from from facts where key_id = :key_id and known_to is null and valid_from <= :begin
          order by valid_from desc limit 1)
        order by valid_from
        """,  # noqa: S608 - our own constant
        {"key_id": key_id, "begin": begin, "end": math.inf if end is None else end},
    )
    return [FactVersion._make((*row[:12], row[12:])) for row in rows]


def _believe(
    tx: Transaction,
    key_id: int,
    statement: FactVersion,
    touched: list[FactVersion],
    at: tuple[int | None, int | None],
) -> int:
    """Write a statement in place of what it touches; `at` is its id and when it is recorded, None: new ones. Return its id."""
    number, when = at
    recorded, version = _next_version(tx, key_id, when)
    _close(tx, touched, recorded, version)
    *rest, new = _cut(touched, statement._replace(version=version))
    for row in rest:
        _insert(tx, key_id, row, recorded)
    return _insert(tx, key_id, new, recorded, number)


def _next_version(tx: Transaction, key_id: int, at: int | None) -> tuple[int, int]:
    """Return when the next version of a key is recorded, if not at a given tick now, and its number."""
    newest = tx.execute(
        "select recorded, version from facts where key_id = ? and id = origin order by recorded desc limit 1",
        (key_id,),
    )
    if not newest:
        return tx.recorded if at is None else at, 1
    recorded, version = newest[0]
    # A second version within one transaction was learnt after the first all the same.
    if at is not None:
        return max(at, recorded + 1), version + 1
    return (tx.recorded if recorded < tx.recorded else tx.tick()), version + 1


def _close(tx: Transaction, rows: list[FactVersion], recorded: int, version: int) -> None:
    for row in rows:
        height = ((row.version - 1) ^ (version - 1)).bit_length() - 1
        node = (version - 1) >> height << height
        tx.execute("update facts set known_to = ?, node = ? where id = ?", (recorded, node, row.id))
        if row.value is not None:
            tx.announce("facts", [row.id])


def _insert(tx: Transaction, key_id: int, row: FactVersion, recorded: int, number: int | None = None) -> int:
    row_id = tx.tick() if number is None else number
    place = (row_id, key_id, recorded, row.version, row.origin or row_id, row.supersedes)
    columns = f"facts (id, key_id, recorded, version, origin, supersedes, {STATEMENT_COLUMNS})"
    tx.insert(columns, (*place, *row.stated))
    return row_id


def _cut(touched: Sequence[FactVersion], statement: FactVersion) -> list[FactVersion]:
    """Return the versions to believe in place of `touched`: its rest on both sides, and the statement, last."""
    begin, end = statement.valid_from, statement.valid_to
    before = next((old.origin for old in touched if old.valid_from <= begin and old.value is not None), None)
    if not touched:
        # Nothing was known of this key: say so for all other times, so that a search finds that at once.
        nothing = statement._replace(value=None, json=None, source="", trust=TRUSTED)
        nothing = nothing._replace(heard=heard_columns(None))
        touched = [nothing._replace(valid_from=-math.inf, valid_to=None)]
    first, last = touched[0], touched[-1]
    left = []
    if first.valid_from < begin:
        left.append(first._replace(valid_to=begin, version=statement.version))
    if end is not None and (last.valid_to is None or last.valid_to > end):
        left.append(last._replace(valid_from=end, version=statement.version))
    return [*left, statement._replace(supersedes=before)]


def _note_doubt(
    tx: Transaction,
    key_id: int,
    statement: FactVersion,
    number: int | None = None,
    *,
    low_confidence: bool = True,
) -> int:
    """Write a doubt; return its id."""
    doubt = tx.tick() if number is None else number
    place = (doubt, key_id, low_confidence)
    tx.insert(f"doubts (id, key_id, low_confidence, {STATEMENT_COLUMNS})", (*place, *statement.stated))
    return doubt


def _settle_doubts(tx: Transaction, key_id: int, statement: FactVersion, fact: int, rank: int) -> None:
    """End the doubts of the time that something is believed of now: they are confirmed by the fact, or refuted.

    What somebody of more trust than `rank` said, and was heard badly, goes on waiting.
    """
    same = "value is ? and json is ?"
    value = statement.value, statement.json
    tx.execute(
        f"update doubts set settled = ?, confirmed_by = case when {same} then ? end"  # noqa: S608 - our own constants
        f" where {_DOUBTED} and (trust <= ? or {same})",
        (tx.recorded, *value, fact, *_bound(key_id, statement), rank, *value),
    )


def _first_heard(
    tx: Transaction, key_id: int, statement: FactVersion, *, trust: int = UNKNOWN
) -> float | None:
    """Return from when on something is true that waits as a doubt of so much trust, or None if it does not."""
    rows = tx.execute(
        f"select min(valid_from) from doubts where {_DOUBTED} and {_SAME} and trust >= ?",  # noqa: S608 - our own constants
        (*_bound(key_id, statement), *statement.content, trust),
    )
    first: float | None = rows[0][0]
    return first


def _pending_doubt(tx: Transaction, key_id: int, statement: FactVersion) -> int | None:
    """Return the id of a doubt that says the same already, of no shorter time and no less trust; None: there is none."""
    sql = f"select max(id) from doubts where {_DOUBTED} and {_SAME} and trust >= ? and valid_from <= ? and coalesce(valid_to, 9e999) >= ?"  # noqa: S608 - ours
    bound = _bound(key_id, statement)
    waiting: int | None = tx.execute(sql, (*bound, *statement.content, statement.trust, *bound[:0:-1]))[0][0]
    return waiting


def _bound(key_id: int, statement: FactVersion) -> tuple[Any, ...]:
    end = math.inf if statement.valid_to is None else statement.valid_to
    return key_id, end, statement.valid_from
