"""Rules: by which a doc was made of its text, and what becomes of docs when they change.

Each doc carries the number of the rules that made its words and traits. When edgemem comes with other rules, the file is
kept with all its vectors, since they are of the text and not of its words: docs are made again in place, in idle time,
from the newest to the oldest. Until then whoever holds words in memory makes those of an older doc from its text.

Of two processes with different rules the one that opened the file last makes docs again; what the other takes in
meanwhile waits for it like what is older.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

from edgemem.recall.state import get_meta, set_meta
from edgemem.recall.words import words_version

if TYPE_CHECKING:
    from collections.abc import Collection

    from edgemem.recall.state import State
    from edgemem.store.database import Transaction

RULES_VERSION = "4"
"""Changes when `traits`, `dates` or `phonetic` make something else of a text, or a record is told in other words."""
EVERYTHING = (1 << 63) - 1
"""Above the number of every doc."""


def rules_number() -> int:
    """Return the number of today's rules, which changes with every rule and every stem; never 0."""
    return crc32(f"{RULES_VERSION}/{words_version()}".encode()) or 1


def follow_rules(tx: Transaction) -> None:
    """Have all docs that other rules made wait to be made again."""
    rules = rules_number()
    if get_meta(tx, "rules") != rules:
        set_meta(tx, "rules", rules)
        set_meta(tx, "older_left", EVERYTHING if tx.execute("select 1 from docs limit 1") else 0)


def note_rules(tx: Transaction, docs: Collection[int]) -> None:
    """Have docs wait that were just taken in, if whoever opened the file last follows other rules."""
    if docs and get_meta(tx, "rules") != rules_number():
        set_meta(tx, "older_left", max(get_meta(tx, "older_left"), *docs))


def is_todays(rules: Any) -> bool:
    """Tell whether a doc was made by today's rules, given their number as it stands in the file."""
    return bool(rules == rules_number())


def has_older(state: State) -> bool:
    """Tell whether some docs may be made by other rules than ours."""
    return state.older_left > 0 or not is_todays(state.rules)
