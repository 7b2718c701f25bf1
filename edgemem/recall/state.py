"""State: what the index remembers about itself, in one small table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from edgemem.recall.sources import Source
    from edgemem.store.database import Transaction

FIRST_OTHER = 1 << 40
"""The number of the first doc that is not a message."""


class State(msgspec.Struct, frozen=True):
    """How far the index has come; the names of the sources' tables hold the highest id taken from them."""

    facts: int = 0
    preferences: int = 0
    episodes: int = 0
    messages: int = 0
    epochs: int = 0
    queue: int = 0
    docs: int = 0
    terms: int = 0
    last_message: int = 0
    """The highest number of a message's doc, and below of any other doc."""
    last_other: int = FIRST_OTHER - 1
    merged: int = 0
    """How many docs there were when the segments of their words were merged."""
    merging: int = 0
    notes: str = ""

    def reached(self, source: Source) -> int:
        """Return the highest id taken from a source."""
        return int(getattr(self, source.table))


def get_meta(tx: Transaction, key: str, default: int = 0) -> int:
    """Return a number that the index remembers."""
    found = tx.execute("select value from meta where key = ?", (key,))
    return int(found[0][0]) if found else default


def set_meta(tx: Transaction, key: str, value: int | str) -> None:
    """Have the index remember something."""
    tx.execute("insert or replace into meta (key, value) values (?, ?)", (key, value))
