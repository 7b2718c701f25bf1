"""What memory showed: the lines of a block stand as entries with their turn, and those of a head with their epoch.

They share the row, and so the fate, of the block or head that they tell of. A table with a row for each line would be one more
tree, and cost each turn a page and more of the 512 bytes that pages have here (`tests/lab/tuning.md`); forgetting is rare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from edgemem.records import BlockLine
from edgemem.store.validation import as_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from edgemem.store.db.transaction import Transaction

_entries = msgspec.json.Decoder(list[str]).decode
_ENTRIES = {
    "select shown, session_id, n from turns where shown is not null": (
        "update turns set shown = ?1, block = iif(?1 is null, null, block) where session_id = ?2 and n = ?3"
    ),
    "select carried, id from epochs where carried is not null": "update epochs set carried = ? where id = ?",
}
"""How the entries of all turns and epochs are read, and how those of one are written."""


def erase_shown(
    tx: Transaction,
    *,
    keys: Collection[tuple[str, str]] = (),
    records: Collection[tuple[str, int]] = (),
) -> None:
    """Erase the blocks, and what is carried in heads, that showed any of these.

    Args:
        keys: scope and key of facts and preferences.
        records: kind and id of episodes and messages (of kind `turn`).
    """

    def without(lines: list[BlockLine]) -> list[BlockLine]:
        gone = any(
            line.fact in keys or line.preference in keys or (records and line.record in records)
            for line in lines
        )
        return [] if gone else lines

    if keys or records:
        _change(tx, without)


def move_shown(tx: Transaction, old: str, new: str) -> None:
    """Put what blocks and heads showed from one scope under another."""

    def moved(pair: tuple[str, str] | None) -> tuple[str, str] | None:
        return (new, pair[1]) if pair is not None and pair[0] == old else pair

    _change(
        tx,
        lambda lines: [
            msgspec.structs.replace(line, fact=moved(line.fact), preference=moved(line.preference))
            for line in lines
        ],
    )


def _change(tx: Transaction, change: Callable[[list[BlockLine]], list[BlockLine]]) -> None:
    """Write the lines that `change` returns for those of each turn and epoch; without any, a block goes as well."""
    for read, write in _ENTRIES.items():
        for text, *row in tx.execute(read):
            lines = lines_in(text)
            changed = change(lines)
            if changed != lines:
                tx.execute(write, (as_text([line.entry for line in changed]) if changed else None, *row))


def lines_in(text: str) -> list[BlockLine]:
    """Return the lines whose entries stand in a column."""
    return [BlockLine.of(entry) for entry in _entries(text)]
