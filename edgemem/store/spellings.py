"""Spellings: what stands under several spellings of one name, or under a scope of an unknown form, finds its place.

Names compare by their keys. A file of an older edgemem may hold `user:Alice` beside `user:alice`, as two people: from its
migration on they are one, and what was said of them is believed in the order in which it was recorded, by the rule of
`add_fact`. Who is really two people is kept apart by `[speakers]`, under another name.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.records import BlockLine
from edgemem.scopes import (
    checked_scope,
    is_known_form,
    level_of_scope,
    name_key,
    person_of,
    scope_of,
    without_spaces,
)
from edgemem.store.facts import ROWS_OF_KEY, STATED, Rectangle, believe, ensure_key, heard_badly
from edgemem.store.rights import LEVELS, spell_scope
from edgemem.store.validation import as_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from edgemem.store.db.transaction import Tables, Transaction

_JOINED = "names that became one"
_heard_badly = partial(heard_badly, below=0.5)  # as for the stores

_SEEN = """
  select owner, min(recorded) from facts group by owner
  union all select speaker, min(recorded) from facts group by speaker
  union all select owner, min(id) from doubts group by owner
  union all select speaker, min(id) from doubts group by speaker
  union all select owner, min(recorded) from preferences group by owner
  union all select owner, min(id) from episodes group by owner
  union all select speaker, min(id) from episodes group by speaker
  union all select owner, min(recorded) from turns group by owner
  union all select speaker, min(recorded) from turns group by speaker
"""
_SCOPES = """
  select k.scope, min(f.recorded) from fact_keys k cross join facts f on f.key_id = k.id and f.id = f.origin group by 1
  union all select k.scope, min(d.id) from fact_keys k cross join doubts d on d.key_id = k.id group by 1
  union all select scope, min(recorded) from preferences group by 1
"""
_STATEMENTS = f"""
  select id, {STATED}, recorded
  from facts where key_id in (:kept, :gone) and id = origin and not (value is null and version = 1)
  order by recorded, id
"""  # noqa: S608 - our own constant
"""Without what the first version of a key says of all other times: that nothing was known."""

_SHOWN = {
    "select shown, session_id, n from turns where shown is not null": "update turns set shown = ? where session_id = ? and n = ?",
    "select carried, id from epochs where carried is not null": "update epochs set carried = ? where id = ?",
}
"""How what blocks and heads showed is read, and how it is written."""


class Joined(msgspec.Struct, frozen=True):
    """Two spellings that were taken for two people, and are one now."""

    kept: str
    """As it was written first."""
    other: str


class Stray(msgspec.Struct, frozen=True):
    """A scope of an unknown form, and how much stands under it; the operator alone reads it."""

    scope: str
    facts: int
    preferences: int


def join_spellings(tx: Transaction, apart: Mapping[str, str] = MappingProxyType({})) -> None:
    """Give every person one spelling, the first, and close what stands under scopes of unknown forms; a migration.

    Args:
        apart: of spellings that mean somebody else than their name says, as they are written, whom they mean.
    """
    first: dict[str, int] = {}
    scopes = tx.execute(_SCOPES)
    people = [(person_of(without_spaces(scope)), at) for scope, at in scopes]
    for name, at in [*tx.execute(_SEEN), *people]:
        if name is not None and name_key(name):
            first[name] = min(first.get(name, at), at)
    by_key: dict[str, list[str]] = defaultdict(list)
    for name in sorted(first, key=lambda name: (first[name], name)):
        by_key[name_key(name)].append(name)
    spelled: dict[str, str] = {}
    joined: list[Joined] = []
    for key, names in by_key.items():
        for name in names:
            who = apart.get(name, name) if len(names) > 1 else name
            known = names if name_key(who) == key else by_key.get(name_key(who), [who])
            spelled[name] = known[0].strip()
            if name_key(who) == key and spelled[name] != name.strip():
                joined.append(Joined(spelled[name], name))
    tx.executemany(
        "insert or ignore into names (key, name) values (?, ?)",
        [(name_key(name), name) for name in dict.fromkeys(spelled.values())],
    )
    changed = {old: new for old, new in spelled.items() if old != new}
    with _unlocked(tx):
        for old, new in changed.items():
            _respell(tx, old, new)
        for scope in {scope for scope, _ in scopes}:
            tidy = without_spaces(scope)
            person = person_of(tidy)
            if person is not None:
                # The name of an owner has the spaces that its scope had.
                tidy = scope_of(spelled.get(scope[len("user:") :], spelled[person]))
            if tidy != scope:
                _move(tx, scope, tidy)
            elif not is_known_form(scope):
                _close(tx, scope)
    if joined:
        tx.execute(
            "insert or replace into meta (key, value) values (?, ?)",
            (_JOINED, msgspec.json.encode(joined).decode()),
        )


def joined_names(db: Tables) -> list[Joined]:
    """Return which spellings were taken for two people in this file, and are one now."""
    rows = db.query("select value from meta where key = ?", (_JOINED,))
    return msgspec.json.decode(rows[0][0], type=list[Joined]) if rows else []


def stray_scopes(db: Tables) -> list[Stray]:
    """Return the scopes of unknown forms, in their order."""
    rows = db.query(
        "select scope, sum(facts), sum(wishes) from (select scope, 1 as facts, 0 as wishes from fact_keys"
        " union all select scope, 0, 1 from preferences) group by scope order by scope"
    )
    return [Stray(*row) for row in rows if not is_known_form(row[0])]


def move_scope(tx: Transaction, old: str, new: str) -> Stray:
    """Give what stands under a scope of an unknown form one of a known form; return how much that was.

    What is known of the same keys there stays: both are believed in the order in which they were recorded.
    """
    new = checked_scope(new)
    if is_known_form(without_spaces(old)):
        raise InvalidInputError(f"{old!r:.100} is a scope of a known form; what stands there stays.")
    stray = next((stray for stray in stray_scopes(tx) if stray.scope == old), None)
    if stray is None:
        raise InvalidInputError(
            f"Nothing stands under the scope {old!r:.100}; `edgemem check` lists such scopes."
        )
    with _unlocked(tx):
        _move(tx, old, spell_scope(tx, new))
    return stray


@contextmanager
def _unlocked(tx: Transaction) -> Iterator[None]:
    """Let rows of facts be changed in other columns than those that close them; a failure undoes the transaction."""
    ((trigger,),) = tx.execute("select sql from sqlite_master where name = 'facts_only_closed'")
    tx.execute("drop trigger facts_only_closed")
    yield
    tx.execute(trigger)


def _respell(tx: Transaction, old: str, new: str) -> None:
    """Write a person's name in another way, in all rows but scopes."""
    names = {"old": old, "new": new}
    theirs = "owner = :old or speaker = :old"
    changed = {
        "fact": f"facts where {theirs}",
        "episode": f"episodes where {theirs}",
        "message": f"messages where (session_id, turn) in (select session_id, n from turns where {theirs})",  # noqa: S608 - ours
        "preference": "preferences where owner = :old",
    }
    for kind, rows in changed.items():
        numbers = tx.execute(f"select id from {rows}", names)  # noqa: S608 - our own constants
        tx.announce(kind, [number for (number,) in numbers])
    for table in ("facts", "doubts", "episodes", "turns"):
        tx.execute(f"update {table} set speaker = :new where speaker = :old", names)  # noqa: S608 - our own constants
    for table in ("facts", "doubts", "episodes", "turns", "preferences"):
        tx.execute(f"update {table} set owner = :new where owner = :old", names)  # noqa: S608 - our own constants


def _move(tx: Transaction, old: str, new: str) -> None:
    """Put what stands under one scope under another, which may hold the same keys."""
    level, owner = level_of_scope(new)
    for gone, key, topic in tx.execute("select id, key, topic from fact_keys where scope = ?", (old,)):
        _as_meant(tx, gone, LEVELS.index(level), owner, old)
        join_keys(tx, ensure_key(tx, new, key, topic), gone)
    _move_preferences(tx, old, new, LEVELS.index(level), owner)
    for read, write in _SHOWN.items():
        for entries, *row in tx.execute(read):
            moved = as_text([_moved(entry, old, new) for entry in msgspec.json.decode(entries)])
            if moved != entries:
                tx.execute(write, (moved, *row))


def _moved(entry: str, old: str, new: str) -> str:
    """Return the entry of a line that was shown with another scope."""
    line = BlockLine.of(entry)
    pairs = {"fact": line.fact, "preference": line.preference}
    of = {name: (new, pair[1]) for name, pair in pairs.items() if pair is not None and pair[0] == old}
    return msgspec.structs.replace(line, **of).entry if of else entry


def _as_meant(tx: Transaction, key_id: int, level: int, owner: str | None, old: str) -> None:
    """Give what was as open as its old scope said the level and owner of the new one."""
    meant, of = level_of_scope(old)
    same = "level = :meant and owner is :of"
    if owner is not None and not is_known_form(old):
        same = f"({same} or level = 1 and owner is null)"  # an older edgemem gave the household such a scope
    for table in ("facts", "doubts"):
        tx.execute(
            f"update {table} set level = :level, owner = :owner where key_id = :key and value is not null and {same}",  # noqa: S608 - ours
            {"level": level, "owner": owner, "key": key_id, "meant": LEVELS.index(meant), "of": of},
        )


def join_keys(tx: Transaction, kept: int, gone: int) -> None:
    """Make two keys of facts one: what was recorded under both is believed of the first, in the order of recording."""
    keys = {"kept": kept, "gone": gone}
    statements = tx.execute(_STATEMENTS, keys)
    rows = [row for key in (kept, gone) for row in tx.execute(ROWS_OF_KEY, {"key": key})]
    tx.announce("fact", [row[0] for row in rows])
    tx.executemany("delete from facts where id = ?", rows)
    tx.execute("update doubts set key_id = :kept where key_id = :gone and settled is not null", keys)
    confirmed = {fact for (fact,) in tx.execute("select confirmed_by from doubts where key_id = :kept", keys)}
    for number, value, json, begin, end, source, level, owner, trust, *heard, recorded in statements:
        who = (source, level, owner, trust, tuple(heard))
        statement = Rectangle(0, value, json, begin, end, 0, 0, None, *who)
        # What was heard badly twice is believed already.
        statement = statement._replace(badly=False) if number in confirmed else statement
        believe(tx, kept, statement, badly=_heard_badly, number=number, recorded=recorded)
    tx.execute("update doubts set key_id = :kept where key_id = :gone", keys)
    tx.execute("delete from fact_keys where id = ?", (gone,))


def _move_preferences(tx: Transaction, old: str, new: str, level: int, owner: str | None) -> None:
    """Put preferences under another scope; of two for one key, the one that was set later stays."""
    for number, key, recorded in tx.execute(
        "select id, key, recorded from preferences where scope = ?", (old,)
    ):
        rows = tx.execute("select id, recorded from preferences where scope = ? and key = ?", (new, key))
        tx.announce("preference", [number, *(row[0] for row in rows)])
        if rows and rows[0][1] > recorded:
            tx.execute("delete from preferences where id = ?", (number,))
        else:
            tx.execute(
                "update or replace preferences set scope = ?, level = ?, owner = ? where id = ?",
                (new, level, owner, number),
            )


def _close(tx: Transaction, scope: str) -> None:
    """Keep what was the household's only because its scope has no known form for the operator alone."""
    household, private = LEVELS.index("household"), LEVELS.index("private")
    for table in ("facts", "doubts"):
        rows = tx.execute(
            f"update {table} set level = ?, owner = null where level = ? and value is not null"  # noqa: S608 - ours
            " and key_id in (select id from fact_keys where scope = ?) returning id",
            (private, household, scope),
        )
        if table == "facts":
            tx.announce("fact", [number for (number,) in rows])
    wishes = tx.execute(
        "update preferences set level = ?, owner = null where scope = ? and level = ? returning id",
        (private, scope, household),
    )
    tx.announce("preference", [number for (number,) in wishes])
