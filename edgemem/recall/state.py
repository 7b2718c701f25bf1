"""State: what the index remembers about itself, in one small table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from edgemem.errors import CorruptError

if TYPE_CHECKING:
    from edgemem.recall.sources import Source
    from edgemem.store.database import Transaction

FIRST_OTHER = 1 << 40
"""The number of the first doc that is not a message."""


T = TypeVar("T")


class DamagedIndexError(CorruptError):
    """Something stands in the index file that we never wrote; upkeep makes the file again."""


def sound(value: Any, type_: type[T], what: str) -> T:
    """Return what stands in the file, if it is what it should be."""
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        raise DamagedIndexError(
            f"The index is damaged: {what} cannot be such ({error}); it is made again by itself."
        ) from error


class State(msgspec.Struct, frozen=True):
    """How far the index has come; the names of the sources' tables hold the highest id taken from them."""

    facts: int = 0
    preferences: int = 0
    episodes: int = 0
    messages: int = 0
    epochs: int = 0
    queue: int = 0
    erased: int = 0
    """The newest forgetting of which no byte is left in the file and its log."""
    docs: int = 0
    terms: int = 0
    last_message: int = 0
    """The highest number of a message's doc, and below of any other doc."""
    last_other: int = FIRST_OTHER - 1
    merged: int = 0
    """How many docs there were when the segments of their words were merged."""
    merging: int = 0
    notes: str = ""
    rules: int = 0
    """Those of whoever opened the file last, see `rules`."""
    older_left: int = 0
    """The docs up to this number have not been looked at since, and may be made by other rules."""

    def reached(self, source: Source) -> int:
        """Return the highest id taken from a source."""
        return int(getattr(self, source.table))


PRIVATE = 2
"""The level of what only its owner reads."""


def tally_docs(tx: Transaction, level: int, owner: str | None, *, docs: int, terms: int) -> None:
    """Count docs and their stems more or less: all together, and apart for those who may read them."""
    set_meta(tx, "docs", get_meta(tx, "docs") + docs)
    set_meta(tx, "terms", get_meta(tx, "terms") + terms)
    whose = level, (owner or "") if level == PRIVATE else ""
    tx.execute(
        """
        insert into sizes (level, owner, docs, terms) values (?, ?, ?, ?)
          on conflict (level, owner) do update set docs = docs + excluded.docs, terms = terms + excluded.terms
        """,
        (*whose, docs, terms),
    )
    tx.execute("delete from sizes where level = ? and owner = ? and docs <= 0", whose)


def get_meta(tx: Transaction, key: str, default: int = 0) -> int:
    """Return a number that the index remembers."""
    found = tx.execute("select value from meta where key = ?", (key,))
    return sound(found[0][0], int, f"meta.{key}") if found else default


def set_meta(tx: Transaction, key: str, value: int | str) -> None:
    """Have the index remember something."""
    tx.execute("insert or replace into meta (key, value) values (?, ?)", (key, value))
