"""Scopes of unknown forms: facts and preferences from elsewhere that only the operator reads, and may move to a known scope."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.scopes import checked_scope, is_known_form, level_of_scope, without_spaces
from edgemem.store.erase.delete_rows import erase_blocks
from edgemem.store.facts import (
    ROWS_OF_KEY,
    STATEMENT_COLUMNS,
    FactVersion,
    assert_version,
    ensure_key,
    is_low_confidence,
)
from edgemem.store.rights import LEVELS, spell_scope

if TYPE_CHECKING:
    from edgemem.store.db.transaction import Tables, Transaction

_heard_badly = partial(is_low_confidence, below=0.5)  # as for the stores

_STATEMENTS = f"""
  select id, {STATEMENT_COLUMNS}, recorded
  from facts where key_id in (:kept, :gone) and id = origin and not (value is null and version = 1)
  order by recorded, id
"""  # noqa: S608 - our own constant
"""Without what the first version of a key says of all other times: that nothing was known."""


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
    _move(tx, old, spell_scope(tx, new))
    return stray


def _move(tx: Transaction, old: str, new: str) -> None:
    """Put the records of one scope under another, which may hold the same keys; blocks that showed them go."""
    level, owner = level_of_scope(new)
    place = LEVELS.index(level), owner
    keys = tx.execute("select id, key, topic from fact_keys where scope = ?", (old,))
    wishes = tx.execute("select id, key, recorded from preferences where scope = ?", (old,))
    for key_id, key, topic in keys:
        _join_keys(tx, ensure_key(tx, new, key, topic), key_id, place)
    for number, key, recorded in wishes:
        here = tx.execute("select id, recorded from preferences where scope = ? and key = ?", (new, key))
        tx.announce("preferences", [number, *(row[0] for row in here)])
        if here and here[0][1] > recorded:
            tx.execute("delete from preferences where id = ?", (number,))
        else:
            sql = "update or replace preferences set scope = ?, level = ?, owner = ? where id = ?"
            tx.execute(sql, (new, *place, number))
    erase_blocks(tx, [(old, key) for _, key, _ in (*keys, *wishes)])


def _join_keys(tx: Transaction, kept: int, gone: int, place: tuple[int, str | None]) -> None:
    """Make two keys one: the records of both are believed in the order of recording; closed ones get a level and owner."""
    keys = {"kept": kept, "gone": gone}
    statements = tx.execute(_STATEMENTS, keys)
    rows = [row for key in (kept, gone) for row in tx.execute(ROWS_OF_KEY, {"key": key})]
    tx.announce("facts", [row[0] for row in rows])
    tx.executemany("delete from facts where id = ?", rows)
    moved = "update doubts set key_id = :kept where key_id = :gone"
    closed = {"level": LEVELS.index("private"), "to": place[0], "owner": place[1], **keys}
    tx.execute(
        "update doubts set level = :to, owner = :owner where key_id = :gone and level = :level and owner is null",
        closed,
    )
    tx.execute(f"{moved} and settled is not null", keys)
    confirmed = {fact for (fact,) in tx.execute("select confirmed_by from doubts where key_id = :kept", keys)}
    for number, value, json, begin, end, source, level, owner, trust, *heard, recorded in statements:
        who = place if (LEVELS[level], owner) == ("private", None) else (level, owner)
        statement = FactVersion(
            0, value, json, begin, end, 0, 0, None, source, who[0], who[1], trust, tuple(heard)
        )
        # A value of low confidence that was heard twice is believed already.
        statement = statement._replace(low_confidence=False) if number in confirmed else statement
        assert_version(tx, kept, statement, low_confidence=_heard_badly, number=number, recorded=recorded)
    tx.execute(moved, keys)
    tx.execute("delete from fact_keys where id = :gone", keys)
