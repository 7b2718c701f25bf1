"""Segments: FTS5 writes what is new as segments of their own, and looks through all of them at each question.

It merges some of them as it goes, but 40,000 texts that came in bit by bit stand in about twenty. One segment is looked
through in half the time (counting and matching a question: 1.1 instead of 1.7 ms from a cold page cache). Merging writes
the words once more, so it waits until there are half as many texts again as at the last time: over the years that
makes at most three times the bytes of the words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.recall.removals import trim_removals
from edgemem.recall.state import get_meta, set_meta

if TYPE_CHECKING:
    from edgemem.recall.state import State
    from edgemem.store.database import Transaction

LEAST = 4000
"""Texts below which segments cost nothing worth the bytes."""
GROWTH = 1.5
_PAGES = 32  # of 4 kB in one transaction: some milliseconds


def merge_due(state: State) -> bool:
    """Tell whether merging pays, or has begun."""
    return bool(state.merging) or state.docs >= max(LEAST, GROWTH * state.merged)


def merge_some(tx: Transaction, state: State) -> None:
    """Merge a piece; after the last one, remember how many texts there were."""
    before = _changes(tx)
    # A negative number begins to merge everything into one (FTS5's documentation, section 6.7).
    tx.execute(
        "insert into words (words, rank) values ('merge', ?)",
        (_PAGES if get_meta(tx, "merging") else -_PAGES,),
    )
    done = _changes(tx) - before < 2
    set_meta(tx, "merging", int(not done))
    if done:
        set_meta(tx, "merged", state.docs)
        trim_removals(tx)


def _changes(tx: Transaction) -> int:
    return int(tx.execute("select total_changes()")[0][0])
