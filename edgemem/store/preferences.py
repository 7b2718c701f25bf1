"""Preferences: lasting wishes of a person or a household, the newest value of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.fence import check_key
from edgemem.records import Preference
from edgemem.scopes import without_spaces
from edgemem.store.facts import storable_value
from edgemem.store.rights import LEVELS, level_and_owner, reading_rule, scope_in_sql, spell_scope

if TYPE_CHECKING:
    from edgemem.records import Reader
    from edgemem.store.db.transaction import Tables, Transaction


def put_preference(tx: Transaction, key: str, value: str, *, scope: str = "global") -> None:
    """Store a preference in place of an older one; the scope says who may read it."""
    check_key(key)
    check_key(scope, what="a scope")
    scope = spell_scope(tx, without_spaces(scope))
    level, owner = level_and_owner(scope, None, None, None)
    value = storable_value(value, what="the value of a preference")
    rows = tx.execute("select id, value from preferences where scope = ? and key = ?", (scope, key))
    if rows and rows[0][1] == value:
        tx.execute("update preferences set recorded = ? where id = ?", (tx.recorded, rows[0][0]))
        return
    # Under a new id it is a new thing to recall, also where a prompt has the old value already.
    number = tx.tick()
    tx.execute(
        "insert into preferences (id, scope, key, value, recorded, level, owner) values (?, ?, ?, ?, ?, ?, ?)"
        " on conflict (scope, key) do update set id = excluded.id, value = excluded.value, recorded = excluded.recorded",
        (number, scope, key, value, tx.recorded, level, owner),
    )
    # Always: so the file holds a later tick than the id, where the clock looks for the newest.
    tx.announce("preferences", [rows[0][0] if rows else number])


def read_preferences(
    db: Tables, *, scope: str | None = None, reader: Reader | None = None
) -> list[Preference]:
    """Return preferences in the order of scope and key."""
    rule, values = reading_rule(reader)
    of_scope = "1"
    if scope is not None:
        at, value = scope_in_sql(scope)
        of_scope, values = f"scope = {at}", values | value
    rows = db.query(
        "select key, value, recorded, scope, level, owner from preferences"  # noqa: S608 - our own constants
        f" where {of_scope} and {rule} order by scope, key",
        values,
    )
    return [
        Preference(key, value, recorded / 1e6, scope_, LEVELS[level], owner)
        for key, value, recorded, scope_, level, owner in rows
    ]
