"""What memory showed: the lines of a block stand as entries in the row of their turn, and those of a head in that of its epoch.

A table with a row for each line would be one more tree, and cost each turn more than a page of it (`tests/lab/tuning.md`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from edgemem.records import BlockLine
from edgemem.store.validation import as_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from edgemem.store.db.transaction import Transaction

_entries = msgspec.json.Decoder(list[str]).decode
_COLUMNS = {
    "select shown, session_id, n from turns where shown is not null": (
        "update turns set shown = ?1, block = iif(?1 is null, null, block) where session_id = ?2 and n = ?3"
    ),
    "select carried, id from epochs where carried is not null": "update epochs set carried = ? where id = ?",
}
"""How the entries of all turns and epochs are read, and how those of one are written; a block goes with its last entry."""


def lines_in(text: str) -> list[BlockLine]:
    """Return the lines whose entries stand in a column."""
    return [BlockLine.of(entry) for entry in _entries(text)]


def erase_shown(tx: Transaction, gone: Iterable[tuple[str, str | int]]) -> None:
    """Erase the blocks, and what is carried in heads, that showed any of these.

    Args:
        gone: scope and key of facts and preferences; kind and id of episodes and messages, whose kind is `turn`.
    """
    named = frozenset(gone)

    def shows(line: BlockLine) -> bool:
        return line.fact in named or line.preference in named or line.record in named

    if named:
        _change(tx, lambda lines: [] if any(map(shows, lines)) else lines)


def move_shown(tx: Transaction, old: str, new: str) -> None:
    """Put what blocks and heads showed from one scope under another."""

    def moved(line: BlockLine) -> BlockLine:
        pairs = {"fact": line.fact, "preference": line.preference}
        return msgspec.structs.replace(
            line, **{name: (new, pair[1]) for name, pair in pairs.items() if pair and pair[0] == old}
        )

    _change(tx, lambda lines: list(map(moved, lines)))


def _change(tx: Transaction, change: Callable[[list[BlockLine]], list[BlockLine]]) -> None:
    for read, write in _COLUMNS.items():
        for text, *row in tx.execute(read):
            lines = lines_in(text)
            changed = change(lines)
            if changed != lines:
                tx.execute(write, (as_text([line.entry for line in changed]) if changed else None, *row))
