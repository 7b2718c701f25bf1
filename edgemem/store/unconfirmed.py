"""Doubts: what was heard badly and contradicts what was heard well.

A doubt is not believed. It waits beside the facts until the same is heard again, or anything is heard well of that
time: so no question of what holds, or of what was known when, ever meets one. History shows it, and recall tells it
with the fact that it is about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.store.validation import HEARD

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.store.db.transaction import Tables, Transaction


STATED = f"value, valid_from, valid_to, source, level, owner, {HEARD}"
"""The columns of facts and doubts that `Rectangle.stated` holds."""

_OVERLAPS = "valid_from < coalesce(:end, 9e999) and coalesce(valid_to, 9e999) > :begin"


class Rectangle(NamedTuple):
    """A stretch of valid time with what is believed of it, and all that is written again when it is split."""

    id: int
    value: str | None
    """None: there is no value."""
    valid_from: float
    valid_to: float | None
    version: int
    origin: int
    """The id of the rectangle as it was said, before anything was cut off it."""
    supersedes: int | None
    source: str
    level: int
    owner: str | None
    heard: tuple[Any, ...]
    badly: bool | None = None
    """Whether it was heard badly, as decided when it was said; None: the recogniser's confidence decides."""

    @property
    def stated(self) -> tuple[Any, ...]:
        """Return what stands in the columns of `STATED`."""
        return (
            self.value,
            self.valid_from,
            self.valid_to,
            self.source,
            self.level,
            self.owner,
            *self.heard,
        )


def heard_badly(what: Rectangle, below: float) -> bool:
    """Tell whether a recogniser was less sure than `below`; what was typed or has no confidence was heard well."""
    if what.badly is not None:
        return what.badly
    sure = what.heard[2]
    return sure is not None and sure < below


def is_doubtful(
    tx: Transaction,
    key_id: int,
    statement: Rectangle,
    touched: Sequence[Rectangle],
    badly: Callable[[Rectangle], bool],
) -> bool:
    """Tell whether something heard badly contradicts what was heard well, or badly but twice.

    Args:
        badly: tells what was heard badly.
    """
    if statement.value is None or not badly(statement):
        return False
    rows = tx.execute(
        "select confirmed_by from doubts where key_id = ? and confirmed_by is not null", (key_id,)
    )
    confirmed = {number for (number,) in rows}
    against = [old for old in touched if old.value not in (None, statement.value)]
    return any(not badly(old) or old.origin in confirmed for old in against)


def since_first_heard(tx: Transaction, key_id: int, statement: Rectangle) -> Rectangle:
    """Return what was said now as true from when it was first heard, if it waits as a doubt."""
    first = first_heard(tx, key_id, statement)
    return statement if first is None else statement._replace(valid_from=min(first, statement.valid_from))


def note_doubt(tx: Transaction, key_id: int, statement: Rectangle, *, number: int | None = None) -> None:
    """Keep what is not believed yet, under a number of its own or one that it had as a fact."""
    tx.execute(
        f"insert into doubts (id, key_id, {STATED}) values (?, ?{', ?' * 12})",  # noqa: S608 - our own constant
        (tx.tick() if number is None else number, key_id, *statement.stated),
    )


def settle_doubts(tx: Transaction, key_id: int, statement: Rectangle, fact: int) -> None:
    """End the doubts of the time that something is believed of now: they are confirmed by the fact, or refuted."""
    tx.execute(
        "update doubts set settled = :now, confirmed_by = case when value is :value then :fact end"  # noqa: S608 - ours
        f" where key_id = :key_id and settled is null and {_OVERLAPS}",
        {
            "now": tx.recorded,
            "value": statement.value,
            "fact": fact,
            "key_id": key_id,
            "begin": statement.valid_from,
            "end": statement.valid_to,
        },
    )


def misheard_perhaps(db: Tables) -> set[int]:
    """Return the facts that are believed since they were heard badly twice, against what was heard well."""
    return {number for (number,) in db.query("select confirmed_by from doubts where confirmed_by < id")}


def forget_doubts(tx: Transaction, key_id: int) -> None:
    """Erase what was doubted about a key."""
    tx.execute("delete from doubts where key_id = ?", (key_id,))


def first_heard(tx: Transaction, key_id: int, statement: Rectangle) -> float | None:
    """Return from when on something is true that waits as a doubt, or None if it does not."""
    rows = tx.execute(
        "select min(valid_from) from doubts where key_id = :key_id and settled is null and value is :value"  # noqa: S608 - ours
        f" and level = :level and owner is :owner and {_OVERLAPS}",
        {
            "key_id": key_id,
            "value": statement.value,
            "level": statement.level,
            "owner": statement.owner,
            "begin": statement.valid_from,
            "end": statement.valid_to,
        },
    )
    first: float | None = rows[0][0]
    return first
