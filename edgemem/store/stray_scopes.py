"""Scopes of unknown forms: facts and preferences that came from elsewhere under a scope that only the operator reads.

The operator moves them to a scope of a known form, where the facts of one key become one history.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.records import BlockLine
from edgemem.scopes import (
    checked_scope,
    is_known_form,
    level_of_scope,
    without_spaces,
)
from edgemem.store.facts import (
    ROWS_OF_KEY,
    STATEMENT_COLUMNS,
    FactVersion,
    assert_version,
    ensure_key,
    is_low_confidence,
)
from edgemem.store.rights import LEVELS, spell_scope
from edgemem.store.validation import as_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.store.db.transaction import Tables, Transaction

_heard_badly = partial(is_low_confidence, below=0.5)  # as for the stores

_STATEMENTS = f"""
  select id, {STATEMENT_COLUMNS}, recorded
  from facts where key_id in (:kept, :gone) and id = origin and not (value is null and version = 1)
  order by recorded, id
"""  # noqa: S608 - our own constant
"""Without what the first version of a key says of all other times: that nothing was known."""

_SHOWN = {
    "select shown, session_id, n from turns where shown is not null": "update turns set shown = ? where session_id = ? and n = ?",
    "select carried, id from epochs where carried is not null": "update epochs set carried = ? where id = ?",
}
"""How what blocks and heads showed is read, and how it is written."""


class Stray(msgspec.Struct, frozen=True):
    """A scope of an unknown form, and how much it has; the operator alone reads it."""

    scope: str
    facts: int
    preferences: int


def stray_scopes(db: Tables) -> list[Stray]:
    """Return the scopes of unknown forms, in their order."""
    rows = db.query(
        "select scope, sum(facts), sum(wishes) from (select scope, 1 as facts, 0 as wishes from fact_keys"
        " union all select scope, 0, 1 from preferences) group by scope order by scope"
    )
    return [Stray(*row) for row in rows if not is_known_form(row[0])]


def move_scope(tx: Transaction, old: str, new: str) -> Stray:
    """Move the records of a scope of an unknown form to one of a known form; return how many these were.

    Facts of the same keys there stay: both are believed in the order in which they were recorded.
    """
    new = checked_scope(new)
    if is_known_form(without_spaces(old)):
        raise InvalidInputError(f"{old!r:.100} is a scope of a known form; its records stay.")
    stray = next((stray for stray in stray_scopes(tx) if stray.scope == old), None)
    if stray is None:
        raise InvalidInputError(
            f"There is nothing under the scope {old!r:.100}; `edgemem check` lists such scopes."
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


def _move(tx: Transaction, old: str, new: str) -> None:
    """Put the records of one scope under another, which may hold the same keys."""
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
    line = BlockLine.parse(entry)
    pairs = {"fact": line.fact, "preference": line.preference}
    of = {name: (new, pair[1]) for name, pair in pairs.items() if pair is not None and pair[0] == old}
    return msgspec.structs.replace(line, **of).entry if of else entry


def _as_meant(tx: Transaction, key_id: int, level: int, owner: str | None, old: str) -> None:
    """Give records that were as open as their old scope the level and owner of the new one."""
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
    """Make two keys of facts one: the records of both are believed of the first, in the order of recording."""
    keys = {"kept": kept, "gone": gone}
    statements = tx.execute(_STATEMENTS, keys)
    rows = [row for key in (kept, gone) for row in tx.execute(ROWS_OF_KEY, {"key": key})]
    tx.announce("facts", [row[0] for row in rows])
    tx.executemany("delete from facts where id = ?", rows)
    tx.execute("update doubts set key_id = :kept where key_id = :gone and settled is not null", keys)
    confirmed = {fact for (fact,) in tx.execute("select confirmed_by from doubts where key_id = :kept", keys)}
    for number, value, json, begin, end, source, level, owner, trust, *heard, recorded in statements:
        who = (source, level, owner, trust, tuple(heard))
        statement = FactVersion(0, value, json, begin, end, 0, 0, None, *who)
        # A value of low confidence that was heard twice is believed already.
        statement = statement._replace(low_confidence=False) if number in confirmed else statement
        assert_version(tx, kept, statement, low_confidence=_heard_badly, number=number, recorded=recorded)
    tx.execute("update doubts set key_id = :kept where key_id = :gone", keys)
    tx.execute("delete from fact_keys where id = ?", (gone,))


def _move_preferences(tx: Transaction, old: str, new: str, level: int, owner: str | None) -> None:
    """Put preferences under another scope; of two for one key, the one that was set later stays."""
    for number, key, recorded in tx.execute(
        "select id, key, recorded from preferences where scope = ?", (old,)
    ):
        rows = tx.execute("select id, recorded from preferences where scope = ? and key = ?", (new, key))
        tx.announce("preferences", [number, *(row[0] for row in rows)])
        if rows and rows[0][1] > recorded:
            tx.execute("delete from preferences where id = ?", (number,))
        else:
            tx.execute(
                "update or replace preferences set scope = ?, level = ?, owner = ? where id = ?",
                (new, level, owner, number),
            )
