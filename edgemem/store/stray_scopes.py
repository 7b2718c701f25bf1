"""Scopes of unknown forms: facts and preferences from elsewhere that only the operator reads, and may move to a known scope."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.scopes import checked_scope, is_known_form, level_of_scope, without_spaces
from edgemem.store.erase.delete_rows import erase_blocks
from edgemem.store.facts import restate_facts
from edgemem.store.rights import LEVELS, spell_scope

if TYPE_CHECKING:
    from edgemem.store.db.transaction import Tables, Transaction


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
    """Move the records of a scope of an unknown form to one of a known form, with blocks that showed them erased; return their number.

    Raise InvalidInputError where both scopes have a record of one key.
    """
    new = checked_scope(new)
    if is_known_form(without_spaces(old)):
        raise InvalidInputError(
            f"{old!r:.100} is a scope of a known form; its records stay. A person's go by `edgemem people`."
        )
    stray = next((stray for stray in stray_scopes(tx) if stray.scope == old), None)
    if stray is None:
        raise InvalidInputError(
            f"There is nothing under the scope {old!r:.100}; `edgemem check` lists such scopes."
        )
    new = spell_scope(tx, new)
    shown = []
    for table in ("fact_keys", "preferences"):
        keys, here = (
            {key for (key,) in tx.execute(f"select key from {table} where scope = ?", (scope,))}  # noqa: S608 - our own
            for scope in (old, new)
        )
        if both := sorted(keys & here):
            raise InvalidInputError(
                f"{old!r:.100} and {new!r:.100} both have {both[0]!r}; forget one of the two."
            )
        shown += [(old, key) for key in keys]
    level, owner = level_of_scope(new)
    place, closed = (LEVELS.index(level), owner), (LEVELS.index("private"), None)
    of_scope = "key_id in (select id from fact_keys where scope = ?)"
    sql = f"select id, speaker, level, owner, key_id from facts where {of_scope} and id = origin"  # noqa: S608 - our own
    rows = ((id_, who, (level, owner), key) for id_, who, level, owner, key in tx.query(sql, (old,)))
    restate_facts(tx, {id_: (who, *(place if of == closed else of), key) for id_, who, of, key in rows})
    tx.execute(
        f"update doubts set level = ?, owner = ? where {of_scope} and level = ? and owner is null",  # noqa: S608 - our own
        (*place, old, closed[0]),
    )
    tx.execute("update fact_keys set scope = ? where scope = ?", (new, old))
    wishes = tx.execute(
        "update preferences set scope = ?, level = ?, owner = ? where scope = ? returning id",
        (new, *place, old),
    )
    tx.announce("preferences", [number for (number,) in wishes])
    erase_blocks(tx, shown)
    return stray
