"""Preferences: lasting wishes of a person or a household, the newest value of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.fence import check_key
from edgemem.records import Preference
from edgemem.store.facts import storable_value
from edgemem.store.reading import LEVELS, level_and_owner, reading_rule

if TYPE_CHECKING:
    from edgemem.records import Reader
    from edgemem.store.database import Database, Transaction


def put_preference(tx: Transaction, key: str, value: str, *, scope: str = "global") -> None:
    """Store a preference in place of an older one; the scope says who may read it."""
    check_key(key)
    check_key(scope, what="a scope")
    level, owner = level_and_owner(scope, None, None, None)
    tx.execute(
        """
        insert into preferences (scope, key, value, recorded, level, owner) values (?, ?, ?, ?, ?, ?)
        on conflict (scope, key) do update set value = excluded.value, recorded = excluded.recorded
        """,
        (scope, key, storable_value(value, what="the value of a preference"), tx.recorded, level, owner),
    )


def forget_preference(tx: Transaction, key: str, *, scope: str = "global") -> bool:
    """Erase a preference; tell whether there was one."""
    tx.execute("delete from preferences where scope = ? and key = ?", (scope, key))
    return tx.changes > 0


def read_preferences(
    db: Database, *, scope: str | None = None, reader: Reader | None = None
) -> list[Preference]:
    """Return preferences in the order of scope and key."""
    rule, values = reading_rule(reader)
    of_scope = "1" if scope is None else "scope = :scope"
    rows = db.query(
        "select key, value, recorded, scope, level, owner from preferences"  # noqa: S608 - our own constants
        f" where {of_scope} and {rule} order by scope, key",
        {**values, "scope": scope},
    )
    return [
        Preference(key, value, recorded / 1e6, scope_, LEVELS[level], owner)
        for key, value, recorded, scope_, level, owner in rows
    ]
